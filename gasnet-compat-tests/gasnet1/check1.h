/* Initialisation of the programs in this folder: GASNet-1 clients, on top of ../common/check.h. */
#ifndef COMPAT_TESTS_CHECK1_H
#define COMPAT_TESTS_CHECK1_H

#include <gasnet.h>

#include "check.h"

/* Base and size of every rank's segment. */
static gasnet_seginfo_t *segments TEST_UNUSED;

/* gasnet_init. */
TEST_UNUSED static void gasnet1_init(const char *name, int *argc, char ***argv) {
    test_name = name;
    int rc = gasnet_init(argc, argv);
    if (rc != GASNET_OK) {
        fprintf(stderr, "FAIL %s: gasnet_init returned %d\n", name, rc);
        exit(1);
    }
    test_start_watchdog();
    me = gasnet_mynode();
    np = gasnet_nodes();
}

/* Sets the objects that the helpers of check.h need, and the table of segments. After attach. */
TEST_UNUSED static void gasnet1_look_around(void) {
    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
    segments = (gasnet_seginfo_t *)malloc(np * sizeof *segments);
    OK(gasnet_getSegmentInfo(segments, (int)np));
#ifdef GASNET_SEGMENT_EVERYTHING
    {
        if (test_blocks == NULL) test_make_block(1 << 22);
        for (gasnet_node_t r = 0; r < np; r++) {
            CHECK(segments[r].addr == NULL && segments[r].size == UINTPTR_MAX);
            segments[r].addr = test_blocks[r];
            segments[r].size = test_block_bytes;
        }
    }
#endif
}

/* gasnet_attach with at least `bytes` bytes, rounded up to pages. */
TEST_UNUSED static void gasnet1_attach(gasnet_handlerentry_t *table, int entries, uintptr_t bytes) {
    uintptr_t page = GASNET_PAGESIZE;
    PHASE("attach");
    OK(gasnet_attach(table, entries, (bytes + page - 1) / page * page, 0));
    gasnet1_look_around();
}

/* Byte `offset` of a rank's segment. */
TEST_UNUSED static char *at(gasnet_node_t node, size_t offset) { return (char *)segments[node].addr + offset; }

TEST_UNUSED static gasnet_node_t sender(gasnet_token_t token) {
    gasnet_node_t node = (gasnet_node_t)-1;
    CHECK(gasnet_AMGetMsgSource(token, &node) == GASNET_OK);
    return node;
}

/* An anonymous barrier of GASNet-1. */
TEST_UNUSED static void gasnet1_barrier(void) {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
}

#endif

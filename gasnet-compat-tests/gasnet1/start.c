// gasnet_init and gasnet_attach: what may be asked before attach, fixed and chosen handler indices,
// a segment size of its own for every rank, the tables of segments and nodes, the objects of
// GASNet-EX.
// NP: 1 2 4 7
// SEGMENTS: fast large
// ENV: START_WORD=seven
// TIMEOUT: 60
#include "check1.h"

enum { ENTRIES = 6 };
static int pings, pongs;
static gasnet_handler_t pong_index;

static void ping(gasnet_token_t token, gasnet_handlerarg_t from) {
    CHECK(sender(token) == (gasnet_node_t)from);
    ATOMIC_ADD(&pings, 1);
    CHECK(gasnet_AMReplyShort1(token, pong_index, from) == GASNET_OK);
}
static void pong(gasnet_token_t token, gasnet_handlerarg_t from) {
    CHECK((gasnet_node_t)from == me);
    ATOMIC_ADD(&pongs, 1);
}
static void unused(gasnet_token_t token) {}

static void before_attach(void) {
    uintptr_t local = gasnet_getMaxLocalSegmentSize(), global = gasnet_getMaxGlobalSegmentSize();
    PHASE("before attach");
    CHECK(np >= 1 && me < np);
    CHECK(local >= 4 * GASNET_PAGESIZE && local % GASNET_PAGESIZE == 0);
    CHECK(global <= local && global % GASNET_PAGESIZE == 0);
    if (getenv("START_WORD")) {
        const char *word = gasnet_getenv("START_WORD");
        CHECK(word && !strcmp(word, "seven"));
    }
    CHECK(gasnet_getenv("START_ABSENT") == NULL);
}

static void check_segments(void) {
    gasnet_seginfo_t *table = (gasnet_seginfo_t *)malloc((np + 2) * sizeof *table);
    PHASE("gasnet_getSegmentInfo");
    for (gasnet_node_t known = 0; known <= np + 2; known++) {
        memset(table, 0x5a, (np + 2) * sizeof *table);
        CHECK(gasnet_getSegmentInfo(table, (int)known) == GASNET_OK);
        for (gasnet_node_t r = 0; r < np + 2; r++) {
            if (r < known && r < np) {
                CHECK((uintptr_t)table[r].addr % GASNET_PAGESIZE == 0 && table[r].addr != NULL);
                CHECKF(table[r].size == (1 + r % 3) * (uintptr_t)GASNET_PAGESIZE, "rank %u has %zu bytes", (unsigned)r,
                       (size_t)table[r].size);
            } else {
                CHECK(table[r].size == (uintptr_t)0x5a5a5a5a5a5a5a5a);
            }
        }
    }
    free(table);
}

static void check_nodes(void) {
    gasnet_nodeinfo_t *table = (gasnet_nodeinfo_t *)malloc((np + 1) * sizeof *table);
    PHASE("gasnet_getNodeInfo");
    memset(table, 0x5a, (np + 1) * sizeof *table);
    CHECK(gasnet_getNodeInfo(table, (int)np + 1) == GASNET_OK);
    CHECK(table[np].host == 0x5a5a5a5a);
    for (gasnet_node_t r = 0; r < np; r++) {
        CHECK(table[r].host < np && table[r].supernode < np);
        if (table[r].supernode == table[me].supernode) {
            /* the offset leads to the segment */
            volatile uint32_t *word = (volatile uint32_t *)((uintptr_t)segments[r].addr + table[r].offset);
            CHECK(table[r].host == table[me].host);
            CHECKF(*word == 1000 + r, "%u instead of %u", (unsigned)*word, 1000U + (unsigned)r);
        }
    }
    CHECK(table[me].offset == 0);
    free(table);
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[ENTRIES];
    gex_Client_t c = GEX_CLIENT_INVALID;
    gex_EP_t e = GEX_EP_INVALID;
    gex_TM_t t = GEX_TM_INVALID;
    gex_Segment_t s = GEX_SEGMENT_INVALID;
    gasnet1_init("start", &argc, &argv);
    before_attach();

    PHASE("attach");
    table[0].index = 0, table[0].fnptr = (gex_AM_Fn_t)ping;
    table[1].index = 255, table[1].fnptr = (gex_AM_Fn_t)unused;
    table[2].index = 0, table[2].fnptr = (gex_AM_Fn_t)pong;
    table[3].index = 128, table[3].fnptr = (gex_AM_Fn_t)unused;
    table[4].index = 0, table[4].fnptr = (gex_AM_Fn_t)unused;
    table[5].index = 200, table[5].fnptr = (gex_AM_Fn_t)unused;
    /* the heap offset has no meaning */
    OK(gasnet_attach(table, ENTRIES, (1 + me % 3) * (uintptr_t)GASNET_PAGESIZE, (uintptr_t)1 << 40));
    for (int i = 0; i < ENTRIES; i++) {
        CHECKF(table[i].index >= 128, "entry %d has index %u", i, (unsigned)table[i].index);
        for (int j = 0; j < i; j++) CHECK(table[i].index != table[j].index);
    }
    CHECK(table[1].index == 255 && table[3].index == 128 && table[5].index == 200);
    pong_index = table[2].index;

    PHASE("objects");
    gasnet_QueryGexObjects(&c, &e, &t, &s);
    gasnet_QueryGexObjects(NULL, NULL, NULL, NULL);
    gasnet1_look_around();
    CHECK(c == client && e == ep && t == tm && s == segment);
    CHECK(c != GEX_CLIENT_INVALID && e != GEX_EP_INVALID && t != GEX_TM_INVALID && s != GEX_SEGMENT_INVALID);
    CHECK(gex_Client_QueryFlags(c) & GEX_FLAG_USES_GASNET1);
    CHECK(gex_TM_QueryClient(t) == c && gex_TM_QueryEP(t) == e && gex_EP_QuerySegment(e) == s);
    CHECK(gex_TM_QueryRank(t) == me && gex_TM_QuerySize(t) == np);
    CHECK(gex_System_QueryJobRank() == me && gex_System_QueryJobSize() == np);
    CHECK(gex_Segment_QueryAddr(s) == segments[me].addr && gex_Segment_QuerySize(s) == segments[me].size);

    *(volatile uint32_t *)segments[me].addr = 1000 + me;
    gasnet1_barrier();
    check_segments();
    check_nodes();

    PHASE("chosen indices are the same everywhere");
    for (gasnet_node_t r = 0; r < np; r++) OK(gasnet_AMRequestShort1(r, table[0].index, (gasnet_handlerarg_t)me));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&pongs) == (int)np && ATOMIC_GET(&pings) == (int)np);
    gasnet1_barrier();
    return test_finish();
}

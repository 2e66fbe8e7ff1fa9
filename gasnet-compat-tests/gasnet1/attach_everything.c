// EVERYTHING in GASNet-1: gasnet_attach ignores sizes, all tables say so, and any address works.
// NP: 1 2 3
// SEGMENTS: everything
#include <gasnet.h>

#include "check.h"

static char data[70000];

int main(int argc, char **argv) {
    gasnet_seginfo_t one = {data, 7};
    char *theirs = NULL;
    char back[70000];
    test_name = "attach_everything";
    if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
    test_start_watchdog();
    me = gasnet_mynode();
    np = gasnet_nodes();
    CHECK(gasnet_getMaxLocalSegmentSize() == UINTPTR_MAX && gasnet_getMaxGlobalSegmentSize() == UINTPTR_MAX);
    OK(gasnet_attach(NULL, 0, (uintptr_t)-1, 0));
    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
    CHECK(segment == GEX_SEGMENT_INVALID);
    OK(gasnet_getSegmentInfo(&one, 1));
    CHECK(one.addr == NULL && one.size == UINTPTR_MAX);
    gasnet_node_t peer = (me + 1) % np;
    for (gasnet_node_t node = 0; node < np; node++) {
        char *mine = data, *address;
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, node, &address, &mine, sizeof mine, 0));
        if (node == peer) theirs = address;
    }
    pattern_fill(back, sizeof back, me);
    gasnet_put_bulk(peer, theirs, back, sizeof back);
    barrier();
    CHECK_PATTERN(data, sizeof data, (me + np - 1) % np);
    memset(back, 0, sizeof back);
    gasnet_get_bulk(back, peer, theirs, sizeof back);
    CHECK_PATTERN(back, sizeof back, me);
    barrier();
    return test_finish();
}

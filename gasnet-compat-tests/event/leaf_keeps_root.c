// Synchronising a leaf event leaves its root alone: the root may still be waited for, and until
// then no other operation gets the same event.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 200000, ROUNDS = 20 };
static char *data;

static gex_Event_t put(gex_Rank_t peer, char *remote) {
    return gex_RMA_PutNB(tm, peer, remote, data, BYTES, GEX_EVENT_DEFER, 0);
}

static void all_different(const gex_Event_t *event, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) CHECK(event[i] == GEX_EVENT_INVALID || event[i] != event[j]);
}

int main(int argc, char **argv) {
    test_init("leaf_keeps_root", &argc, &argv);
    test_attach(2 * BYTES);
    data = (char *)malloc(2 * BYTES);
    pattern_fill(data, BYTES, 5);
    gex_Rank_t peer = (me + 1) % np;
    char *remote = seg_of(peer);
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        gex_Event_t event[3];
        PHASE("a region's leaf");
        gex_NBI_BeginAccessRegion(0);
        OK(gex_RMA_PutNBI(tm, peer, remote, data, BYTES, GEX_EVENT_DEFER, 0));
        OK(gex_RMA_GetNBI(tm, data + BYTES, peer, remote + BYTES, 100, 0));
        event[0] = gex_NBI_EndAccessRegion(0);
        gex_Event_Wait(gex_Event_QueryLeaf(event[0], GEX_EC_GET));
        PHASE("other operations");
        for (int i = 1; i < 3; i++) event[i] = put(peer, remote);
        all_different(event, 3);
        PHASE("the root");
        for (int i = 0; i < 3; i++) gex_Event_Wait(event[i]);
        for (int i = 0; i < 3; i++) event[i] = put(peer, remote);
        all_different(event, 3);
        gex_Event_WaitAll(event, 3, 0);
    }
    barrier();
    CHECK_PATTERN(seg_of(me), BYTES, 5);
    return test_finish();
}

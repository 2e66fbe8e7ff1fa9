// Flags of RMA calls: GEX_FLAG_IMMEDIATE gives either the operation or a no-op, never something
// between; the assertions GEX_FLAG_PEER_NEVER_SELF and GEX_FLAG_PEER_NEVER_NBRHD, where they are
// true.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

static char out[3000], in[3000];

static void immediate(gex_Rank_t peer, char *remote) {
    for (int i = 0; i < 500; i++) {
        uint64_t seed = (uint64_t)i * 7 + me;
        size_t n = (size_t)(i * 37) % sizeof out;
        gex_Flags_t f = GEX_FLAG_IMMEDIATE;
        gex_Event_t event;
        pattern_fill(out, n, seed);
        for (int tries = 0; gex_RMA_PutBlocking(tm, peer, remote, out, n, tries < 10 ? f : 0); tries++) gasnet_AMPoll();
        memset(in, 0, n);
        for (int tries = 0; gex_RMA_GetBlocking(tm, in, peer, remote, n, tries < 10 ? f : 0); tries++) gasnet_AMPoll();
        CHECK_PATTERN(in, n, seed);
        for (int tries = 0;
             (event = gex_RMA_PutNB(tm, peer, remote, out, n, GEX_EVENT_NOW, tries < 10 ? f : 0)) == GEX_EVENT_NO_OP;
             tries++)
            gasnet_AMPoll();
        gex_Event_Wait(event);
        for (int tries = 0; (event = gex_RMA_GetNB(tm, in, peer, remote, n, tries < 10 ? f : 0)) == GEX_EVENT_NO_OP;
             tries++)
            gasnet_AMPoll();
        gex_Event_Wait(event);
        for (int tries = 0; gex_RMA_PutNBI(tm, peer, remote, out, n, GEX_EVENT_DEFER, tries < 10 ? f : 0); tries++)
            gasnet_AMPoll();
        gex_NBI_Wait(GEX_EC_PUT, 0);
        memset(in, 0, n);
        for (int tries = 0; gex_RMA_GetNBI(tm, in, peer, remote, n, tries < 10 ? f : 0); tries++) gasnet_AMPoll();
        gex_NBI_Wait(GEX_EC_GET, 0);
        CHECK_PATTERN(in, n, seed);
        for (int tries = 0; gex_RMA_PutBlockingVal(tm, peer, remote, (gex_RMA_Value_t)i, 4, tries < 10 ? f : 0);
             tries++)
            gasnet_AMPoll();
        for (int tries = 0; gex_RMA_PutNBIVal(tm, peer, remote + 8, (gex_RMA_Value_t)i, 4, tries < 10 ? f : 0); tries++)
            gasnet_AMPoll();
        gex_NBI_Wait(GEX_EC_ALL, 0);
        for (int tries = 0; (event = gex_RMA_PutNBVal(tm, peer, remote + 16, (gex_RMA_Value_t)i, 4,
                                                      tries < 10 ? f : 0)) == GEX_EVENT_NO_OP;
             tries++)
            gasnet_AMPoll();
        gex_Event_Wait(event);
        CHECK(gex_RMA_GetBlockingVal(tm, peer, remote, 4, 0) == (gex_RMA_Value_t)i);
        CHECK(gex_RMA_GetBlockingVal(tm, peer, remote + 8, 4, 0) == (gex_RMA_Value_t)i);
        CHECK(gex_RMA_GetBlockingVal(tm, peer, remote + 16, 4, 0) == (gex_RMA_Value_t)i);
    }
}

static void asserted(gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    pattern_fill(out, sizeof out, peer);
    OK(gex_RMA_PutBlocking(tm, peer, remote, out, sizeof out, flags));
    memset(in, 0, sizeof in);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, sizeof in, flags));
    CHECK_PATTERN(in, sizeof in, peer);
    gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote, out, sizeof out, GEX_EVENT_DEFER, flags));
    gex_Event_Wait(gex_RMA_GetNB(tm, in, peer, remote, sizeof in, flags));
    OK(gex_RMA_PutNBI(tm, peer, remote, out, sizeof out, GEX_EVENT_DEFER, flags));
    gex_NBI_Wait(GEX_EC_ALL, 0);
    OK(gex_RMA_PutBlockingVal(tm, peer, remote, 99, 2, flags));
    CHECK(gex_RMA_GetBlockingVal(tm, peer, remote, 2, flags) == 99);
}

int main(int argc, char **argv) {
    gex_RankInfo_t *nbrhd;
    gex_Rank_t count;
    test_init("rma_flags", &argc, &argv);
    test_attach(65536);
    gex_System_QueryNbrhdInfo(&nbrhd, &count, NULL);
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        char *remote = seg_of(peer);
        int neighbour = 0;
        for (gex_Rank_t i = 0; i < count; i++)
            if (nbrhd[i].gex_jobrank == peer) neighbour = 1;
        barrier();
        PHASE("immediate");
        immediate(peer, remote);
        PHASE("assertions");
        if (peer != me) asserted(peer, remote, GEX_FLAG_PEER_NEVER_SELF);
        if (!neighbour) asserted(peer, remote, GEX_FLAG_PEER_NEVER_NBRHD);
        if (!neighbour) asserted(peer, remote, GEX_FLAG_PEER_NEVER_NBRHD | GEX_FLAG_PEER_NEVER_SELF);
        barrier();
    }
    return test_finish();
}

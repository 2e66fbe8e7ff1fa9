// The network refuses the memory of one rank: the attach fails on all ranks, none of them blocks,
// and the next attempt succeeds.
// NP: 2 4
// CONDUITS: sock
// FLAVOURS: debug
// SEGMENTS: fast
// ENV: GASNET_FAULTS=atomics=1,register=1
// TIMEOUT: 30
#include "check.h"

int main(int argc, char **argv) {
    uint32_t word = 0;
    test_init("attach_unregistered", &argc, &argv);
    PHASE("rank 1 is refused");
    if (gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) == GASNET_OK)
        test_skip("a single neighbourhood registers no memory");
    PHASE("nobody is refused");
    test_attach(GASNET_PAGESIZE);
    gex_Rank_t right = (me + 1) % np;
    OK(gex_RMA_PutBlockingVal(tm, right, seg_of(right), 42, sizeof word, 0));
    barrier();
    memcpy(&word, gex_Segment_QueryAddr(segment), sizeof word);
    CHECK(word == 42);
    return test_finish();
}

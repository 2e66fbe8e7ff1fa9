// One rank requests an impossible segment: the attach fails on all ranks with the codes of
// gex_Segment(3), none of them blocks, and the next attempt succeeds.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 30
#include "check.h"

static int refusal(int mine) { return mine ? GASNET_ERR_BAD_ARG : GASNET_ERR_RESOURCE; }

int main(int argc, char **argv) {
    uintptr_t page = GASNET_PAGESIZE;
    test_init("attach_refused", &argc, &argv);
    uintptr_t most = gasnet_getMaxLocalSegmentSize();

    PHASE("no bytes");
    CHECK(gex_Segment_Attach(&segment, tm, me == np - 1 ? 0 : page) == refusal(me == np - 1));
    PHASE("more than there is");
    CHECK(gex_Segment_Attach(&segment, tm, me == 0 ? most + page : page) == refusal(me == 0));
    PHASE("a size that is no multiple of a page");
    OK(gex_Segment_Attach(&segment, tm, 2 * page + 1));
    CHECK(gex_Segment_Attach(&segment, tm, page) == GASNET_ERR_BAD_ARG);
    OK(gex_RMA_PutBlockingVal(tm, (me + 1) % np, seg_of((me + 1) % np) + page, 42, 1, 0));
    barrier();
    CHECK(((char *)gex_Segment_QueryAddr(segment))[page] == 42);
    return test_finish();
}

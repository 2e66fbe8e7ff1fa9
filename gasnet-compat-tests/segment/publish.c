// gex_EP_PublishBoundSegment: nothing to publish, an endpoint without a segment, the primordial
// endpoint again after attach; communication works behind it.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    test_init("publish", &argc, &argv);
    gex_EP_t list[1] = {ep};
    PHASE("nothing");
    CHECK(gex_EP_PublishBoundSegment(tm, NULL, 0, 0) == GASNET_OK);
    barrier();
    PHASE("no segment yet");
    CHECK(gex_EP_PublishBoundSegment(tm, list, 1, 0) == GASNET_OK);
    barrier();
    test_attach(65536);
    PHASE("again after attach");
    CHECK(gex_EP_PublishBoundSegment(tm, list, 1, 0) == GASNET_OK);
    barrier();
    PHASE("some ranks only");
    CHECK(gex_EP_PublishBoundSegment(tm, list, me % 2, 0) == GASNET_OK);
    barrier();
    for (gex_Rank_t r = 0; r < np && me < 1000; r++) {
        uint64_t value = 1000 + me, back = 0;
        char *cell = seg_of(r) + 8 * (size_t)me;
        OK(gex_RMA_PutBlocking(tm, r, cell, &value, sizeof value, 0));
        OK(gex_RMA_GetBlocking(tm, &back, r, cell, sizeof back, 0));
        CHECK(back == value);
    }
    return test_finish();
}

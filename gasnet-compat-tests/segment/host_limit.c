// The network pins a limited amount of memory, which the ranks of a host share: what one has taken,
// another one lacks, and can have after it was given back.
// NP: 2 4
// CONDUITS: loop
// SEGMENTS: fast
// ENV: GASNET_LOOP_PINNED_MAX=4M
// TIMEOUT: 30
#include "check.h"

enum { LIMIT = 4 << 20, ATTACHED = 256 << 10, MORE = 1 << 20, MOST = 3 };

int main(int argc, char **argv) {
    gex_Segment_t more[MOST], one;
    test_init("host_limit", &argc, &argv);
    if (gasnet_getMaxGlobalSegmentSize() > LIMIT) test_skip("a single neighbourhood registers no memory");
    CHECK(gasnet_getMaxLocalSegmentSize() <= LIMIT / np);
    test_attach(ATTACHED);
    barrier();
    PHASE("rank 0 takes what there is");
    if (me == 0) {
        for (int i = 0; i < MOST; i++) OK(gex_Segment_Create(&more[i], client, NULL, MORE, GEX_MK_HOST, 0));
        CHECK(gex_Segment_Create(&one, client, NULL, MORE, GEX_MK_HOST, 0) == GASNET_ERR_RESOURCE);
    }
    barrier();
    PHASE("nothing is left for others");
    if (me == 1) CHECK(gex_Segment_Create(&one, client, NULL, MORE, GEX_MK_HOST, 0) == GASNET_ERR_RESOURCE);
    barrier();
    PHASE("rank 0 gives it back");
    if (me == 0)
        for (int i = 0; i < MOST; i++) gex_Segment_Destroy(more[i], 0);
    barrier();
    if (me == 1) OK(gex_Segment_Create(&one, client, NULL, MORE, GEX_MK_HOST, 0));
    barrier();
    return test_finish();
}

// GASNET_MAX_SEGSIZE per host is shared out among the ranks of the host, and nobody can attach more
// than it has; a call that is refused leaves everything as it was. (Nothing is checked where the
// ranks are on several hosts.)
// NP: 1 2 4
// SEGMENTS: fast large
// ENV: GASNET_MAX_SEGSIZE=16MB/H
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    uintptr_t page = GASNET_PAGESIZE;
    gex_Rank_t hosts;
    test_init("segment_limit", &argc, &argv);
    gex_System_QueryMyPosition(NULL, NULL, &hosts, NULL);
    uintptr_t mine = gasnet_getMaxLocalSegmentSize();
    uintptr_t all = gasnet_getMaxGlobalSegmentSize();
    PHASE("limits");
    CHECK(all <= mine);
    if (hosts == 1) CHECKF(mine * np <= (16U << 20), "%zu bytes for each of %u ranks", (size_t)mine, (unsigned)np);
    PHASE("too large");
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Segment_Attach(&segment, tm, mine + page) != GASNET_OK);
    gex_System_SetVerboseErrors(1);
    PHASE("as large as allowed");
    OK(gex_Segment_Attach(&segment, tm, all / page * page));
    CHECK(gex_Segment_QuerySize(segment) == all / page * page);
    barrier();
    return test_finish();
}

// Segments of one page and more, different on every rank; the largest sizes a job may ask for;
// memory that nobody touched yet is usable from afar, the first and the last byte included.
// NP: 1 2 4 7
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

static uintptr_t pages_of(gex_Rank_t rank) {
    static const uintptr_t sizes[] = {1, 3, 2, 17, 1, 64, 257};
    return sizes[rank % 7];
}

int main(int argc, char **argv) {
    test_init("segment_sizes", &argc, &argv);
    share_setup();

    PHASE("limits");
    uintptr_t local_max = gasnet_getMaxLocalSegmentSize();
    uintptr_t global_max = gasnet_getMaxGlobalSegmentSize();
    CHECK(local_max >= global_max);
    CHECK(global_max >= GASNET_PAGESIZE);
    CHECK(local_max % GASNET_PAGESIZE == 0 && global_max % GASNET_PAGESIZE == 0);
    const void *all = share(&global_max, sizeof global_max);
    for (gex_Rank_t r = 0; r < np; r++) CHECK(*SHARED(uintptr_t, all, r) == global_max);
    all = share(&local_max, sizeof local_max);
    for (gex_Rank_t r = 0; r < np; r++) CHECK(*SHARED(uintptr_t, all, r) >= global_max);

    test_attach(pages_of(me) * GASNET_PAGESIZE);
    CHECK(gex_Segment_QuerySize(segment) == pages_of(me) * GASNET_PAGESIZE);

    PHASE("the own segment is writable");
    {
        volatile char *p = (volatile char *)gex_Segment_QueryAddr(segment);
        uintptr_t n = gex_Segment_QuerySize(segment);
        p[1] = 1;
        p[n - 2] = 2;
    }
    barrier();

    PHASE("first and last bytes of every segment");
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_Rank_t peer = (me + r) % np;
        char *base = seg_of(peer);
        uintptr_t n = pages_of(peer) * GASNET_PAGESIZE;
        unsigned char one = (unsigned char)(me + 1), back = 0;
        if (r == 1 || np == 1) {
            OK(gex_RMA_PutBlocking(tm, peer, base, &one, 1, 0));
            OK(gex_RMA_PutBlocking(tm, peer, base + n - 1, &one, 1, 0));
            OK(gex_RMA_GetBlocking(tm, &back, peer, base + n - 1, 1, 0));
            CHECK(back == one);
        }
        OK(gex_RMA_GetBlocking(tm, &back, peer, base + 1, 1, 0));
        CHECK(back == 1);
        OK(gex_RMA_GetBlocking(tm, &back, peer, base + n - 2, 1, 0));
        CHECK(back == 2);
    }
    barrier();
    {
        unsigned char *p = (unsigned char *)gex_Segment_QueryAddr(segment);
        unsigned char writer = (unsigned char)((me + np - 1) % np + 1);
        CHECK(p[0] == writer && p[pages_of(me) * GASNET_PAGESIZE - 1] == writer);
    }

    PHASE("the whole of the neighbour's segment");
    {
        gex_Rank_t peer = (me + 1) % np;
        uintptr_t n = pages_of(peer) * GASNET_PAGESIZE;
        char *buffer = (char *)malloc(n);
        barrier();
        pattern_fill(buffer, n, me);
        OK(gex_RMA_PutBlocking(tm, peer, seg_of(peer), buffer, n, 0));
        barrier();
        CHECK_PATTERN(gex_Segment_QueryAddr(segment), pages_of(me) * GASNET_PAGESIZE, (me + np - 1) % np);
        memset(buffer, 0, n);
        OK(gex_RMA_GetBlocking(tm, buffer, peer, seg_of(peer), n, 0));
        CHECK_PATTERN(buffer, n, me);
        free(buffer);
    }
    return test_finish();
}

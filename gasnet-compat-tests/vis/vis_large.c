// Large scattered puts and gets: pieces larger than a packet, a million small elements, and pieces
// of all sizes in one list.
// NP: 1 2 4
// TIMEOUT: 120
#include "check.h"
#include <gasnet_vis.h>

enum { ROWS = 7, ROW = 150001, STEP = 160000, AREA = 9 << 20, ELEMENTS = 1 << 20 };

static unsigned char *out, *in;

static void rows(gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    const ptrdiff_t step[1] = {STEP}, packed[1] = {ROW};
    const size_t count[1] = {ROWS};
    gex_Event_t event;
    pattern_fill(out, (size_t)ROWS * ROW, 3 + flags);
    while ((event = gex_VIS_StridedPutNB(tm, peer, remote + 1, step, out, packed, ROW, count, 1, flags)) ==
           GEX_EVENT_NO_OP)
        gasnet_AMPoll();
    gex_Event_Wait(event);
    memset(in, 0, (size_t)ROWS * ROW);
    while (gex_VIS_StridedGetNBI(tm, in, packed, peer, remote + 1, step, ROW, count, 1, flags)) gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK_PATTERN(in, (size_t)ROWS * ROW, 3 + flags);
}

/* Elements of 8 bytes at both sides, every other one at the target, in reverse order there. */
static void elements(gex_Rank_t peer, char *remote, size_t n) {
    const ptrdiff_t theirs[1] = {-8}, ours[1] = {8};
    const size_t count[1] = {n};
    size_t i;
    pattern_fill(out, n * 8, n);
    CHECK(gex_VIS_StridedPutBlocking(tm, peer, remote + (n - 1) * 8, theirs, out, ours, 8, count, 1, 0) == 0);
    memset(in, 0, n * 8);
    CHECK(gex_VIS_StridedGetBlocking(tm, in, ours, peer, remote + (n - 1) * 8, theirs, 8, count, 1, 0) == 0);
    CHECK_PATTERN(in, n * 8, n);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, n * 8, 0));
    for (i = 0; i < n && memcmp(in + i * 8, out + (n - 1 - i) * 8, 8) == 0; i++) continue;
    CHECKF(i == n, "element %zu of %zu", i, n);
}

static void mixed(gex_Rank_t peer, char *remote) {
    static const size_t sizes[] = {1, 65536, 0, 100000, 3, 255, 256, 257, 300000, 64, 65535, 7, 500000, 0, 8, 12};
    enum { N = sizeof sizes / sizeof sizes[0] };
    gex_Memvec_t theirs[N], mine[N];
    size_t at = 0, there = 0, total = 0;
    for (size_t i = 0; i < N; i++) total += sizes[i];
    for (size_t i = 0; i < N; i++) {
        theirs[i].gex_addr = remote + there;
        theirs[i].gex_len = sizes[i];
        there += sizes[i] + i;
        mine[i].gex_addr = out + at;
        mine[i].gex_len = sizes[N - 1 - i];
        at += sizes[N - 1 - i];
    }
    pattern_fill(out, total, 31);
    CHECK(gex_VIS_VectorPutNBI(tm, peer, N, theirs, N, mine, GEX_FLAG_ENABLE_LEAF_LC) == 0);
    gex_NBI_Wait(GEX_EC_LC, 0);
    memset(out, 0, total);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    for (size_t i = 0; i < N; i++) mine[i].gex_addr = in + ((unsigned char *)mine[i].gex_addr - out);
    gex_Event_Wait(gex_VIS_VectorGetNB(tm, N, mine, peer, N, theirs, 0));
    CHECK_PATTERN(in, total, 31);
}

/* Pieces at equal distances, but not of equal length, or adjoining: what is described briefly must
 * be exactly these. */
static void nearly_regular(gex_Rank_t peer, char *remote) {
    static const size_t lengths[] = {8, 8, 16, 8, 8, 8, 3, 3, 64, 64, 64, 8, 64, 1}, distance = 64;
    enum { N = sizeof lengths / sizeof lengths[0] };
    gex_Memvec_t theirs[N], mine[1];
    size_t total = 0, at = 0;
    pattern_fill(out, N * distance, 8);
    OK(gex_RMA_PutBlocking(tm, peer, remote, out, N * distance, 0));
    for (size_t i = 0; i < N; i++) {
        theirs[i].gex_addr = remote + i * distance;
        theirs[i].gex_len = lengths[i];
        total += lengths[i];
    }
    pattern_fill(in, total, 9);
    for (size_t i = 0; i < N; i++) {
        memcpy(out + i * distance, in + at, lengths[i]);
        at += lengths[i];
    }
    mine[0].gex_addr = in;
    mine[0].gex_len = total;
    OK(gex_VIS_VectorPutBlocking(tm, peer, N, theirs, 1, mine, 0));
    memset(in, 0, total);
    OK(gex_VIS_VectorGetBlocking(tm, 1, mine, peer, N, theirs, 0));
    CHECK_PATTERN(in, total, 9);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, N * distance, 0));
    CHECK(memcmp(in, out, N * distance) == 0);
}

int main(int argc, char **argv) {
    static const size_t counts[] = {1, 2, 4095, ELEMENTS};
    test_init("vis_large", &argc, &argv);
    test_attach((uintptr_t)np * AREA);
    out = (unsigned char *)malloc(AREA);
    in = (unsigned char *)malloc(AREA);
    for (gex_Rank_t distance = 0; distance<np; distance += np> 3 && distance > 0 ? np - 2 : 1) {
        gex_Rank_t peer = (me + distance) % np;
        char *remote = seg_of(peer) + (size_t)me * AREA;
        PHASE("rows");
        rows(peer, remote, 0);
        rows(peer, remote, GEX_FLAG_IMMEDIATE);
        PHASE("elements");
        for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) elements(peer, remote, counts[i]);
        PHASE("mixed");
        mixed(peer, remote);
        nearly_regular(peer, remote);
        barrier();
    }
    return test_finish();
}

// Results of VIS calls: complete at once in the own neighbourhood; events, leaves and access
// regions elsewhere; with IMMEDIATE, everything or nothing. The two sides may divide lists
// differently.
// NP: 1 2 4 7
#include "check.h"
#include <gasnet_vis.h>

enum { PIECES = 9000, PIECE = 24, STEP = 56, BYTES = PIECES * STEP };

static unsigned char source[PIECES * PIECE], result[PIECES * PIECE];
static gex_Memvec_t theirs[PIECES], mine[7];
static void *their_list[PIECES], *my_list[PIECES / 4];
static const size_t count[1] = {PIECES};
static const ptrdiff_t step[1] = {STEP}, packed[1] = {PIECE};

static void describe(char *remote, unsigned char *local) {
    size_t at = 0;
    for (size_t i = 0; i < PIECES; i++) {
        theirs[i].gex_addr = their_list[i] = remote + i * STEP;
        theirs[i].gex_len = PIECE;
    }
    for (size_t i = 0; i < 7; i++) {
        mine[i].gex_addr = local + at;
        mine[i].gex_len = i == 3 ? 0 : i == 6 ? PIECES * PIECE - at : 1001 * (i + 1);
        at += mine[i].gex_len;
    }
    for (size_t i = 0; i < PIECES / 4; i++) my_list[i] = local + i * 4 * PIECE;
}

static gex_Event_t put_nb(int shape, gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    describe(remote, source);
    if (shape == 0) return gex_VIS_VectorPutNB(tm, peer, PIECES, theirs, 7, mine, flags);
    if (shape == 1)
        return gex_VIS_IndexedPutNB(tm, peer, PIECES, their_list, PIECE, PIECES / 4, my_list, 4 * PIECE, flags);
    return gex_VIS_StridedPutNB(tm, peer, remote, step, source, packed, PIECE, count, 1, flags);
}

static int put_nbi(int shape, gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    describe(remote, source);
    if (shape == 0) return gex_VIS_VectorPutNBI(tm, peer, PIECES, theirs, 7, mine, flags);
    if (shape == 1)
        return gex_VIS_IndexedPutNBI(tm, peer, PIECES, their_list, PIECE, PIECES / 4, my_list, 4 * PIECE, flags);
    return gex_VIS_StridedPutNBI(tm, peer, remote, step, source, packed, PIECE, count, 1, flags);
}

static gex_Event_t get_nb(int shape, gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    memset(result, 0, sizeof result);
    describe(remote, result);
    if (shape == 0) return gex_VIS_VectorGetNB(tm, 7, mine, peer, PIECES, theirs, flags);
    if (shape == 1)
        return gex_VIS_IndexedGetNB(tm, PIECES / 4, my_list, 4 * PIECE, peer, PIECES, their_list, PIECE, flags);
    return gex_VIS_StridedGetNB(tm, result, packed, peer, remote, step, PIECE, count, 1, flags);
}

static int get_nbi(int shape, gex_Rank_t peer, char *remote, gex_Flags_t flags) {
    memset(result, 0, sizeof result);
    describe(remote, result);
    if (shape == 0) return gex_VIS_VectorGetNBI(tm, 7, mine, peer, PIECES, theirs, flags);
    if (shape == 1)
        return gex_VIS_IndexedGetNBI(tm, PIECES / 4, my_list, 4 * PIECE, peer, PIECES, their_list, PIECE, flags);
    return gex_VIS_StridedGetNBI(tm, result, packed, peer, remote, step, PIECE, count, 1, flags);
}

static void check_get(uint64_t seed) { CHECK_PATTERN(result, sizeof result, seed); }

static void events(gex_Rank_t peer, char *remote, int shape, int near) {
    static uint64_t seed;
    PHASE("NB");
    pattern_fill(source, sizeof source, ++seed);
    gex_Event_t root = put_nb(shape, peer, remote, 0);
    CHECK(root != GEX_EVENT_NO_OP && (!near || root == GEX_EVENT_INVALID));
    gex_Event_Wait(root);
    root = get_nb(shape, peer, remote, 0);
    CHECK(root != GEX_EVENT_NO_OP && (!near || root == GEX_EVENT_INVALID));
    gex_Event_Wait(root);
    check_get(seed);
    PHASE("NB with local completion");
    pattern_fill(source, sizeof source, ++seed);
    root = put_nb(shape, peer, remote, GEX_FLAG_ENABLE_LEAF_LC);
    gex_Event_t leaf = gex_Event_QueryLeaf(root, GEX_EC_LC);
    gex_Event_Wait(leaf);
    memset(source, 0, sizeof source);
    gex_Event_Wait(root);
    gex_Event_Wait(get_nb(shape, peer, remote, 0));
    check_get(seed);
    PHASE("NBI");
    pattern_fill(source, sizeof source, ++seed);
    CHECK(put_nbi(shape, peer, remote, GEX_FLAG_ENABLE_LEAF_LC) == 0);
    gex_NBI_Wait(GEX_EC_LC, 0);
    memset(source, 0, sizeof source);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    CHECK(get_nbi(shape, peer, remote, 0) == 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
    check_get(seed);
    PHASE("access region");
    pattern_fill(source, sizeof source, ++seed);
    gex_NBI_BeginAccessRegion(0);
    CHECK(put_nbi(shape, peer, remote, 0) == 0);
    root = gex_NBI_EndAccessRegion(0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    gex_Event_Wait(root);
    gex_NBI_BeginAccessRegion(0);
    CHECK(get_nbi(shape, peer, remote, 0) == 0);
    gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    check_get(seed);
    PHASE("immediate");
    pattern_fill(source, sizeof source, ++seed);
    for (int tries = 0; (root = put_nb(shape, peer, remote, tries < 1000 ? GEX_FLAG_IMMEDIATE : 0)) == GEX_EVENT_NO_OP;
         tries++) {
        CHECK(!near);
        gasnet_AMPoll();
    }
    gex_Event_Wait(root);
    for (int tries = 0; (root = get_nb(shape, peer, remote, tries < 1000 ? GEX_FLAG_IMMEDIATE : 0)) == GEX_EVENT_NO_OP;
         tries++)
        gasnet_AMPoll();
    gex_Event_Wait(root);
    check_get(seed);
    pattern_fill(source, sizeof source, ++seed);
    for (int tries = 0; put_nbi(shape, peer, remote, tries < 1000 ? GEX_FLAG_IMMEDIATE : 0); tries++) gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_PUT, 0);
    for (int tries = 0; get_nbi(shape, peer, remote, tries < 1000 ? GEX_FLAG_IMMEDIATE : 0); tries++) gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_GET, 0);
    check_get(seed);
}

/* More than queues hold, without a wait: what is refused has changed nothing, and what is taken
 * arrives. */
static void pressure(gex_Rank_t peer, char *remote, int shape) {
    int refused = 0;
    PHASE("immediate, many at once");
    pattern_fill(source, sizeof source, 4242);
    for (int i = 0; i < 60; i++) {
        if (put_nbi(shape, peer, remote, GEX_FLAG_IMMEDIATE) == 0) continue;
        refused++;
    }
    gex_NBI_Wait(GEX_EC_ALL, 0);
    if (refused == 60) CHECK(put_nbi(shape, peer, remote, 0) == 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    for (int i = 0; i < 20; i++) {
        if (get_nbi(shape, peer, remote, GEX_FLAG_IMMEDIATE) == 0) gex_NBI_Wait(GEX_EC_GET, 0), check_get(4242);
        gasnet_AMPoll();
    }
}

/* An idle peer and empty queues: IMMEDIATE succeeds, at once unless the network itself is busy, as
 * ucx is until the peer has had the processor. */
static void immediate_succeeds(gex_Rank_t peer, char *remote) {
    void *to = remote, *from = source;
    int tries = 0;
    PHASE("immediate, idle");
    barrier();
    while (gex_VIS_IndexedPutNBI(tm, peer, 1, &to, 8, 1, &from, 8, GEX_FLAG_IMMEDIATE) && ++tries < 10000) {
        gasnet_AMPoll();
        usleep(1000);
    }
    CHECK(tries < 10000);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    barrier();
}

/* The bytes between the pieces were never touched. */
static void gaps(char *own) {
    for (gex_Rank_t r = 0; r < np; r++)
        for (size_t i = 0; i < PIECES; i++)
            for (size_t j = PIECE; j < STEP; j++)
                CHECKF(own[(size_t)r * BYTES + i * STEP + j] == 0x77, "writer %u, gap %zu", (unsigned)r, i);
}

/* Whether what others see of `rank`'s segment is mapped here. */
static int mapped(gex_Rank_t rank, gex_Rank_t near_first, gex_Rank_t near_count) {
#ifdef GASNET_SEGMENT_EVERYTHING
    return rank == me;
#else
    return rank - near_first < near_count;
#endif
}

int main(int argc, char **argv) {
    gex_Rank_t near_count;
    gex_RankInfo_t *infos;
    test_init("vis_events", &argc, &argv);
    test_attach((uintptr_t)np * BYTES);
    memset(seg_of(me), 0x77, (size_t)np * BYTES);
    gex_System_QueryNbrhdInfo(&infos, &near_count, NULL);
    gex_Rank_t near_first = infos[0].gex_jobrank;
    for (gex_Rank_t r = 0; r < near_count; r++) CHECK(infos[r].gex_jobrank == near_first + r);
    barrier();
    for (gex_Rank_t distance = 0; distance<np; distance += np> 3 && distance > 0 ? np - 2 : 1) {
        gex_Rank_t peer = (me + distance) % np;
        char *remote = seg_of(peer) + (size_t)me * BYTES;
        immediate_succeeds(peer, remote);
        for (int shape = 0; shape < 3; shape++) {
            events(peer, remote, shape, mapped(peer, near_first, near_count));
            pressure(peer, remote, shape);
        }
    }
    barrier();
    gaps(seg_of(me));
    return test_finish();
}

// GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET in scattered puts and gets: every entry of
// a list, and the base of a strided section, counts from the base of the bound segment; one side,
// the other, or both.
// NP: 1 2 3 4
// SEGMENTS: fast large
#include "check.h"

#include <gasnet_vis.h>

enum {
    PIECES = 300,
    PIECE = 24,
    STEP = 60,
    BYTES = PIECES * PIECE,
    SPAN = PIECES * STEP,
    FROM = 1000,
    TO = 50000,
    BACK = 90000,
    SIZE = 200000
};

static char *local;
static char *remote;

/* `at` as the argument of a call with these flags. */
static void *own(size_t at, gex_Flags_t flags) {
    return flags & GEX_FLAG_SELF_SEG_OFFSET ? (void *)(uintptr_t)at : (void *)(local + at);
}
static void *far(size_t at, gex_Flags_t flags) {
    return flags & GEX_FLAG_PEER_SEG_OFFSET ? (void *)(uintptr_t)at : (void *)(remote + at);
}

static void vectors(gex_Rank_t right, gex_Flags_t flags) {
    static gex_Memvec_t pieces[PIECES];
    gex_Memvec_t whole;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i].gex_addr = far(TO + i * STEP, flags);
        pieces[i].gex_len = PIECE;
    }
    whole.gex_addr = own(FROM, flags);
    whole.gex_len = BYTES;
    OK(gex_VIS_VectorPutBlocking(tm, right, PIECES, pieces, 1, &whole, flags));
    whole.gex_addr = own(BACK, flags);
    OK(gex_VIS_VectorGetBlocking(tm, 1, &whole, right, PIECES, pieces, flags));
}

static void indexed(gex_Rank_t right, gex_Flags_t flags) {
    static void *there[PIECES], *here[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        there[i] = far(TO + i * STEP, flags);
        here[i] = own(FROM + i * PIECE, flags);
    }
    gex_Event_Wait(gex_VIS_IndexedPutNB(tm, right, PIECES, there, PIECE, PIECES, here, PIECE, flags));
    here[0] = own(BACK, flags);
    OK(gex_VIS_IndexedGetNBI(tm, 1, here, BYTES, right, PIECES, there, PIECE, flags));
    gex_NBI_Wait(GEX_EC_ALL, 0);
}

static void strided(gex_Rank_t right, gex_Flags_t flags) {
    const ptrdiff_t apart[1] = {STEP}, packed[1] = {PIECE};
    const size_t count[1] = {PIECES};
    gex_Event_Wait(
        gex_VIS_StridedPutNB(tm, right, far(TO, flags), apart, own(FROM, flags), packed, PIECE, count, 1, flags));
    OK(gex_VIS_StridedGetBlocking(tm, own(BACK, flags), packed, right, far(TO, flags), apart, PIECE, count, 1, flags));
}

int main(int argc, char **argv) {
    static const gex_Flags_t sides[] = {0, GEX_FLAG_SELF_SEG_OFFSET, GEX_FLAG_PEER_SEG_OFFSET,
                                        GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET};
    void (*const forms[])(gex_Rank_t, gex_Flags_t) = {vectors, indexed, strided};
    test_init("vis_offsets", &argc, &argv);
    test_attach(SIZE);
    gex_Rank_t right = (me + 1) % np;
    gex_Rank_t left = (me + np - 1) % np;
    local = seg_of(me);
    remote = seg_of(right);
    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(sides); j++) {
            uint64_t seed = i * 10 + j;
            unsigned char expected[BYTES];
            pattern_fill(local + FROM, BYTES, seed * 100 + me);
            memset(local + BACK, 0, BYTES);
            memset(local + TO, 0, SPAN);
            barrier();
            forms[i](right, sides[j]);
            CHECK_PATTERN(local + BACK, BYTES, seed * 100 + me);
            barrier();
            pattern_fill(expected, BYTES, seed * 100 + left);
            for (size_t k = 0; k < PIECES; k++) CHECK(memcmp(local + TO + k * STEP, expected + k * PIECE, PIECE) == 0);
            barrier();
        }
    }
    return test_finish();
}

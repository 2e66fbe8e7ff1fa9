// Blocking put and get: sizes from nothing to 4 MiB, every alignment, to the own rank and to
// others, local buffers inside and outside the segment, the bytes around the target untouched.
// NP: 1 2 4 7
// TIMEOUT: 90
#include "check.h"

enum { GUARD = 64 };
static size_t area;
static gex_Rank_t peer;
static char *remote, *mine;

static void one(size_t bytes, size_t remote_offset, size_t local_offset, char *buffer, char *back) {
    char guard[GUARD];
    char *target = remote + GUARD + remote_offset;
    pattern_fill(buffer + local_offset, bytes, bytes + remote_offset);
    memset(guard, 0x33, sizeof guard);
    OK(gex_RMA_PutBlocking(tm, peer, target - GUARD, guard, GUARD, 0));
    OK(gex_RMA_PutBlocking(tm, peer, target + bytes, guard, GUARD, 0));
    OK(gex_RMA_PutBlocking(tm, peer, target, buffer + local_offset, bytes, 0));
    memset(back, 0x77, bytes + 2 * GUARD);
    OK(gex_RMA_GetBlocking(tm, back + GUARD, peer, target, bytes, 0));
    CHECK_PATTERN(back + GUARD, bytes, bytes + remote_offset);
    CHECKF(back[GUARD - 1] == 0x77 && back[GUARD + bytes] == 0x77, "get of %zu wrote too much", bytes);
    OK(gex_RMA_GetBlocking(tm, back, peer, target - GUARD, bytes + 2 * GUARD, 0));
    CHECKF(memcmp(back, guard, GUARD) == 0, "put of %zu wrote before its target", bytes);
    CHECKF(memcmp(back + GUARD + bytes, guard, GUARD) == 0, "put of %zu wrote behind its target", bytes);
    CHECK_PATTERN(back + GUARD, bytes, bytes + remote_offset);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {0,    1,    2,    3,     4,     5,     7,      8,      9,       15,     16,   17,
                                   31,   32,   33,   63,    64,    65,    127,    255,    256,     1000,   4095, 4096,
                                   4097, 8191, 8193, 16384, 65535, 65536, 100001, 262144, 1048575, 1048577};
    test_init("rma_blocking", &argc, &argv);
    size_t largest = np > 16 ? 65536 : np > 8 ? 300000 : (size_t)4 << 20;
    area = largest + 4 * GUARD;
    test_attach(2 * area);
    mine = (char *)seg_of(me);
    char *buffer = (char *)malloc(largest + 64);
    char *back = (char *)malloc(largest + 4 * GUARD);
    barrier();
    /* each rank writes into the first half of its peer's segment; its own second half serves as
     * local buffer */
    for (gex_Rank_t hop = 0; hop < np && hop < 4; hop++) {
        peer = (me + hop) % np;
        remote = seg_of(peer);
        PHASE("alignments");
        for (size_t i = 0; sizes[i] <= 65; i++)
            for (size_t ro = 0; ro < 16; ro += 1 + (i % 3))
                for (size_t lo = 0; lo < 16; lo += 5) one(sizes[i], ro, lo, buffer, back);
        PHASE("sizes");
        for (size_t i = 0; i < ARRAY_LENGTH(sizes) && sizes[i] <= largest; i++)
            one(sizes[i], i % 8, i % 5, buffer, back);
        PHASE("local buffer in the segment");
        for (size_t i = 0; i < ARRAY_LENGTH(sizes) && sizes[i] <= largest; i += 3)
            one(sizes[i], 0, 1, mine + area, back);
        PHASE("largest");
        one(largest, 1, 3, buffer, back);
        barrier();
    }
    PHASE("NULL and zero bytes");
    OK(gex_RMA_PutBlocking(tm, peer, remote, buffer, 0, 0));
    OK(gex_RMA_GetBlocking(tm, buffer, peer, remote, 0, 0));
    free(buffer);
    free(back);
    return test_finish();
}

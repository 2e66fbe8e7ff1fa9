// Each rank copies a block of its segment to the same place at all ranks, itself included: a put, a
// get or a Long onto itself changes nothing, and no flavour refuses it.
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

enum { BLOCK = 5000 };
static int handled;

static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t source) {
    CHECK_PATTERN(payload, bytes, (uint64_t)source);
    ATOMIC_ADD(&handled, 1);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1, 8, 20, 64, BLOCK};
    test_init("rma_onto_itself", &argc, &argv);
    register_handler(160, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    test_attach((uintptr_t)np * BLOCK);
    size_t at = (size_t)me * BLOCK;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        char *mine = seg_of(me) + at;
        pattern_fill(mine, sizes[i], me);
        barrier();
        PHASE("put");
        for (gex_Rank_t r = 0; r < np; r++)
            OK(gex_RMA_PutNBI(tm, r, seg_of(r) + at, mine, sizes[i], GEX_EVENT_DEFER, 0));
        gex_NBI_Wait(GEX_EC_PUT, 0);
        barrier();
        for (gex_Rank_t r = 0; r < np; r++) CHECK_PATTERN(seg_of(me) + (size_t)r * BLOCK, sizes[i], r);
        PHASE("get");
        for (gex_Rank_t r = 0; r < np; r++) OK(gex_RMA_GetBlocking(tm, mine, r, seg_of(r) + at, sizes[i], 0));
        CHECK_PATTERN(mine, sizes[i], me);
        barrier();
        PHASE("Long");
        for (gex_Rank_t r = 0; r < np; r++)
            OK(gex_AM_RequestLong1(tm, r, 160, mine, sizes[i], seg_of(r) + at, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me));
        GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == (int)(np * (i + 1)));
        barrier();
    }
    return test_finish();
}

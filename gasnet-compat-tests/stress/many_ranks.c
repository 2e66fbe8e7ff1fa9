// A smoke test for large jobs: barriers, broadcast, all-to-all Shorts, Mediums and puts around the
// ring.
// NP: 64 128 256
// CONDUITS: smp udp ibv gni elan ucx any
// MODES: par seq
// TIMEOUT: 180
// VARIANT: provider (the library takes up to 100 MB in each rank)
// NP: 64 128
// CONDUITS: ofi mpi
#include "stress.h"

#include <gasnet_coll.h>

enum { HELLO = 200, NEXT = 201 };
static unsigned hellos, mediums;
static uint64_t rank_sum;

static void on_hello(gex_Token_t token, gex_AM_Arg_t rank) {
    ATOMIC_ADD(&rank_sum, (uint64_t)rank);
    ATOMIC_ADD(&hellos, 1U);
}
static void on_next(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t rank) {
    CHECKF(stress_same(payload, bytes, (uint64_t)rank), "the Medium of rank %d is damaged", (int)rank);
    ATOMIC_ADD(&mediums, 1U);
}

int main(int argc, char **argv) {
    static char buffer[512];
    test_init("many_ranks", &argc, &argv);
    register_handler(HELLO, (gex_AM_Fn_t)on_hello, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1);
    register_handler(NEXT, (gex_AM_Fn_t)on_next, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    test_attach(65536);
    gex_Rank_t next = (me + 1) % np;
    uint64_t *mine = (uint64_t *)seg_of(me);
    uint64_t *target = (uint64_t *)(void *)seg_of(next);
    PHASE("barriers");
    for (int i = 0; i < 20; i++) barrier();
    PHASE("broadcast");
    uint64_t word = me == np / 2 ? 4711 : 0;
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, np / 2, &word, &word, sizeof word, 0));
    CHECK(word == 4711);
    PHASE("all-to-all Shorts");
    for (gex_Rank_t r = 0; r < np; r++) gex_AM_RequestShort1(tm, (me + r) % np, HELLO, 0, (gex_AM_Arg_t)me);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&hellos) == np);
    CHECK(rank_sum == (uint64_t)np * (np - 1) / 2);
    PHASE("ring");
    stress_fill(buffer, sizeof buffer, me);
    gex_AM_RequestMedium1(tm, next, NEXT, buffer, sizeof buffer, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
    word = me + 1000;
    gex_RMA_PutBlocking(tm, next, target, &word, 8, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&mediums) == 1);
    barrier();
    CHECK(*mine == (me + np - 1) % np + 1000);
    return test_finish();
}

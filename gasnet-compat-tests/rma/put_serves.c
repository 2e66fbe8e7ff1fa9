// A rank that does nothing but blocking puts over the network receives what others send meanwhile,
// also small messages of a peer that sends many, which ibv writes into memory.
// NP: 2 3
// CONDUITS: udp ofi ucx ibv gni elan mpi
// TIMEOUT: 60
#include "check.h"

enum { MANY = 200, HANDLER = 200 };
static int received;

static void on_short(gex_Token_t token) { ATOMIC_ADD(&received, 1); }

int main(int argc, char **argv) {
    gex_RankInfo_t *nbrhd;
    gex_Rank_t neighbours;
    uint64_t word = 1;
    test_init("put_serves", &argc, &argv);
    register_handler(HANDLER, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    test_attach(GASNET_PAGESIZE);
    gex_System_QueryNbrhdInfo(&nbrhd, &neighbours, NULL);
    if (neighbours > 1) {
        if (me == 0) printf("SKIP put_serves: puts to neighbours do not poll\n");
        return TEST_SKIPPED;
    }
    if (me == 1) {
        for (int i = 0; i < MANY; i++) gex_AM_RequestShort0(tm, 0, HANDLER, 0);
    }
    barrier();
    if (me == 0) GASNET_BLOCKUNTIL(ATOMIC_GET(&received) == MANY);
    barrier();
    if (me == 1) {
        usleep(50000);
        gex_AM_RequestShort0(tm, 0, HANDLER, 0);
    }
    PHASE("puts until a message comes");
    while (me == 0 && ATOMIC_GET(&received) == MANY) gex_RMA_PutBlocking(tm, 1, seg_of(1), &word, sizeof word, 0);
    barrier();
    return test_finish();
}

// Many threads of every rank on the same locations: atomic among threads and ranks, implicit
// operations per thread, events handed on.
// NP: 1 2 4 7
// MODES: par
// TIMEOUT: 120
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { THREADS = 4, EACH = 120, WINDOW = 12, COME_AND_GO = 50 };
static gex_AD_t u64, dbl;
static gex_Event_t handed[THREADS][WINDOW];
static uint64_t fetched[THREADS][WINDOW];

static char *at(gex_Rank_t rank, int place) { return seg_of(rank) + 64 * place; }

static void *hammer(void *argument) {
    const int t = (int)(intptr_t)argument;
    uint64_t tickets[WINDOW], last = 0, old, lock;
    for (int round = 0; round < EACH / WINDOW; round++) {
        const gex_Rank_t home = (gex_Rank_t)(round % (int)np);
        for (int i = 0; i < WINDOW; i++) {
            OK(gex_AD_OpNBI_U64(u64, &tickets[i], home, at(home, 0), GEX_OP_FADD, 1, 0, 0));
            OK(gex_AD_OpNBI_DBL(dbl, NULL, home, at(home, 1), GEX_OP_ADD, t + 1, 0, 0));
            OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, 2), GEX_OP_XOR, (uint64_t)1 << (i + t), 0, 0));
        }
        gex_NBI_Wait(GEX_EC_RMW, 0);
        for (int i = 0; i < WINDOW; i++) CHECK(tickets[i] < (uint64_t)EACH * THREADS * np);
        // A lock among all threads of all ranks, around a counter that is no atomic.
        for (lock = 1; lock != 0;) {
            blocking_U64(u64, &lock, 0, at(0, 3), GEX_OP_FCAS, 0, 1, GEX_FLAG_AD_ACQ, 0);
            if (lock) gasnet_AMPoll();
        }
        OK(gex_RMA_GetBlocking(tm, &old, 0, at(0, 4), sizeof old, 0));
        CHECK(old >= last);
        last = ++old;
        OK(gex_RMA_PutBlocking(tm, 0, at(0, 4), &old, sizeof old, 0));
        blocking_U64(u64, NULL, 0, at(0, 3), GEX_OP_SET, 0, 0, GEX_FLAG_AD_REL, 1);
    }
    return NULL;
}

static void *begin(void *argument) {
    const int t = (int)(intptr_t)argument;
    const gex_Rank_t peer = (me + 1) % np;
    for (int i = 0; i < WINDOW; i++)
        handed[t][i] = gex_AD_OpNB_U64(u64, &fetched[t][i], peer, at(peer, 5), GEX_OP_FINC, 0, 0, 0);
    return NULL;
}

static void *finish(void *argument) {
    const int t = ((int)(intptr_t)argument + 1) % THREADS;
    gex_Event_WaitAll(handed[t], WINDOW, 0);
    return NULL;
}

static void *short_life(void *argument) {
    const gex_Rank_t peer = (me + 1) % np;
    OK(gex_AD_OpNBI_U64(u64, NULL, peer, at(peer, 6), GEX_OP_ADD, (uint64_t)(uintptr_t)argument, 0, 0));
    return NULL; /* leaves without waiting */
}

static void run(void *(*f)(void *)) {
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_create(&thread[t], NULL, f, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_join(thread[t], NULL) == 0);
}

static uint64_t value(gex_Rank_t rank, int place) {
    uint64_t old = 0;
    blocking_U64(u64, &old, rank, at(rank, place), GEX_OP_GET, 0, 0, 0, 0);
    return old;
}

static void check(void) {
    uint64_t all = 0, real_sum = 0, expected = 0;
    double real;
    for (gex_Rank_t r = 0; r < np; r++) {
        all += value(r, 0);
        blocking_DBL(dbl, &real, r, at(r, 1), GEX_OP_GET, 0, 0, 0, 0);
        real_sum += (uint64_t)real;
    }
    CHECK(all == (uint64_t)EACH * THREADS * np);
    CHECK(real_sum == (uint64_t)EACH * np * THREADS * (THREADS + 1) / 2);
    for (int round = 0; round < EACH / WINDOW; round++)
        if (round % (int)np == (int)me)
            for (int t = 0; t < THREADS; t++)
                for (int i = 0; i < WINDOW; i++) expected ^= (uint64_t)1 << (i + t);
    CHECK(value(me, 2) == (np % 2 ? expected : 0));
    OK(gex_RMA_GetBlocking(tm, &all, 0, at(0, 4), sizeof all, 0));
    CHECKF(all == (uint64_t)EACH / WINDOW * THREADS * np, "%llu", (unsigned long long)all);
}

int main(int argc, char **argv) {
    test_init("atomic_threads", &argc, &argv);
    unsigned char seen[THREADS * WINDOW] = {0};
    pthread_t thread;
    test_attach(64 * 7);
    memset(seg_of(me), 0, 64 * 7);
    gex_AD_Create(&u64, tm, GEX_DT_U64, OPS_INTEGER, 0);
    gex_AD_Create(&dbl, tm, GEX_DT_DBL, GEX_OP_ADD | GEX_OP_GET, 0);
    barrier();
    PHASE("threads of all ranks together");
    run(hammer);
    barrier();
    check();
    PHASE("begun here, finished there");
    run(begin);
    run(finish);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < WINDOW; i++) {
            REQUIRE(fetched[t][i] < THREADS * WINDOW && !seen[fetched[t][i]]);
            seen[fetched[t][i]] = 1;
        }
    PHASE("threads that leave operations behind");
    for (int t = 1; t <= COME_AND_GO; t++) {
        REQUIRE(pthread_create(&thread, NULL, short_life, (void *)(uintptr_t)t) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    while (value((me + 1) % np, 6) != COME_AND_GO * (COME_AND_GO + 1) / 2) gasnet_AMPoll();
    barrier();
    gex_AD_Destroy(u64);
    gex_AD_Destroy(dbl);
    return test_finish();
}

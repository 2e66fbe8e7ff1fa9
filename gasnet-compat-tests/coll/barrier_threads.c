// Collectives and threads: a barrier or broadcast begun by one thread is synchronised by another,
// while further threads poll and communicate; the two halves of a GASNet-1 barrier run in different
// threads.
// NP: 1 2 4
// MODES: par
// TIMEOUT: 90
#include "check.h"

#include <gasnet_coll.h>

enum { ROUNDS = 40 };
static gex_Event_t event[3];
static char data[20000];
static int stop;

static void *finish(void *round) {
    gex_Event_WaitAll(event, 3, 0);
    CHECK_PATTERN(data, sizeof data, (uint64_t)(uintptr_t)round);
    return NULL;
}
static void *finish_named(void *round) {
    CHECK(gasnet_barrier_wait((int)(uintptr_t)round, 0) == GASNET_OK);
    return NULL;
}
static void *busy(void *unused) {
    char *remote = seg_of((me + 1) % np);
    uint64_t i, back;
    for (i = 1; !ATOMIC_GET(&stop); i++) {
        OK(gex_RMA_PutBlocking(tm, (me + 1) % np, remote, &i, sizeof i, 0));
        OK(gex_RMA_GetBlocking(tm, &back, (me + 1) % np, remote, sizeof back, 0));
        CHECK(back == i);
        gasnet_AMPoll();
    }
    return NULL;
}

int main(int argc, char **argv) {
    test_init_flags("barrier_threads", &argc, &argv, GEX_FLAG_USES_GASNET1);
    pthread_t thread, noise;
    test_attach(4096);
    barrier();
    REQUIRE(pthread_create(&noise, NULL, busy, NULL) == 0);
    PHASE("team barrier and broadcast");
    for (uintptr_t i = 0; i < ROUNDS; i++) {
        gex_Rank_t root = (gex_Rank_t)(i % np);
        if (me == root) pattern_fill(data, sizeof data, i);
        event[0] = gex_Coll_BarrierNB(tm, 0);
        event[1] = gex_Coll_BroadcastNB(tm, root, data, data, sizeof data, 0);
        event[2] = gex_Coll_BarrierNB(tm, 0);
        REQUIRE(pthread_create(&thread, NULL, finish, (void *)i) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    PHASE("GASNet-1 barrier");
    for (uintptr_t i = 0; i < ROUNDS; i++) {
        gasnet_barrier_notify((int)i, 0);
        REQUIRE(pthread_create(&thread, NULL, finish_named, (void *)i) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    ATOMIC_SET(&stop, 1);
    REQUIRE(pthread_join(noise, NULL) == 0);
    barrier();
    return test_finish();
}

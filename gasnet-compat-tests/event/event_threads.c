// Events are not bound to the thread that began the operation: begun by one thread, synchronised by
// another; implicit operations are per thread; a thread that ends with implicit operations in
// flight hurts nobody. (Many threads that come and go: stress/thread_churn.)
// NP: 1 2 4
// MODES: par
// TIMEOUT: 120
#include "check.h"

enum { THREADS = 4, WINDOW = 16, BYTES = 30000 };
static gex_Rank_t peer;
static char *remote;
static char *source;
static gex_Event_t handed[THREADS][WINDOW], handed_leaf[THREADS][WINDOW];

static char *slot(char *base, int t, int i) { return base + ((size_t)t * WINDOW + (size_t)i) * BYTES; }

static void *begin(void *argument) {
    int t = (int)(intptr_t)argument;
    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(slot(source, t, i), BYTES, (uint64_t)(t * 100 + i));
        handed[t][i] = gex_RMA_PutNB(tm, peer, slot(remote, t, i), slot(source, t, i), BYTES, &handed_leaf[t][i], 0);
    }
    return NULL; /* the thread ends, its operations live on */
}

static void *finish(void *argument) {
    int t = ((int)(intptr_t)argument + 1) % THREADS;
    for (int i = 0; i < WINDOW; i++) gex_Event_Wait(handed_leaf[t][i]);
    if (t % 2) gex_Event_WaitAll(handed[t], WINDOW, 0);
    else
        for (int i = 0; i < WINDOW; i++) gex_Event_Wait(handed[t][i]);
    return NULL;
}

static void run(void *(*f)(void *)) {
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_create(&thread[t], NULL, f, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_join(thread[t], NULL) == 0);
}

static void check_remote(void) {
    char *back = (char *)malloc(BYTES);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < WINDOW; i++) {
            memset(back, 0, BYTES);
            OK(gex_RMA_GetBlocking(tm, back, peer, slot(remote, t, i), BYTES, 0));
            CHECK_PATTERN(back, BYTES, (uint64_t)(t * 100 + i));
        }
    }
    free(back);
}

static void *implicit(void *argument) {
    int t = (int)(intptr_t)argument;
    char *back = (char *)malloc((size_t)WINDOW * BYTES);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < WINDOW; i++) {
            pattern_fill(slot(source, t, i), BYTES, (uint64_t)(t * 100 + i + round));
            OK(gex_RMA_PutNBI(tm, peer, slot(remote, t, i), slot(source, t, i), BYTES, GEX_EVENT_DEFER, 0));
        }
        gex_NBI_Wait(GEX_EC_PUT, 0);
        for (int i = 0; i < WINDOW; i++)
            OK(gex_RMA_GetNBI(tm, back + (size_t)i * BYTES, peer, slot(remote, t, i), BYTES, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        for (int i = 0; i < WINDOW; i++)
            CHECK_PATTERN(back + (size_t)i * BYTES, BYTES, (uint64_t)(t * 100 + i + round));
    }
    free(back);
    return NULL;
}

/* Begins an access region that the main thread waits for. */
static void *region(void *argument) {
    int t = (int)(intptr_t)argument;
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(slot(source, t, i), BYTES, (uint64_t)(t * 100 + i));
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, t, i), slot(source, t, i), BYTES, GEX_EVENT_DEFER, 0));
    }
    handed[t][0] = gex_NBI_EndAccessRegion(0);
    return NULL;
}

/* Leaves without waiting. The sources are static memory, which outlives the thread. */
static void *leave(void *argument) {
    int t = (int)(intptr_t)argument;
    for (int i = 0; i < WINDOW; i++) {
        pattern_fill(slot(source, t, i), BYTES, (uint64_t)(t * 100 + i));
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, t, i), slot(source, t, i), BYTES, GEX_EVENT_DEFER, 0));
    }
    return NULL;
}

int main(int argc, char **argv) {
    test_init("event_threads", &argc, &argv);
    test_attach((uintptr_t)THREADS * WINDOW * BYTES);
    source = (char *)malloc((size_t)THREADS * WINDOW * BYTES);
    peer = (me + 1) % np;
    remote = seg_of(peer);
    barrier();
    PHASE("begun here, finished there");
    run(begin);
    run(finish);
    check_remote();
    PHASE("begun by threads that ended, finished by the main thread");
    memset(source, 0, (size_t)THREADS * WINDOW * BYTES);
    run(region);
    for (int t = 0; t < THREADS; t++) gex_Event_Wait(handed[t][0]);
    check_remote();
    PHASE("implicit operations of each thread");
    run(implicit);
    barrier();
    PHASE("threads that leave operations behind");
    for (int t = 0; t < 5; t++) run(leave);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    barrier();
    return test_finish();
}

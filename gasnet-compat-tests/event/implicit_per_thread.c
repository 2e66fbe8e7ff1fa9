// The implicit operations of one thread are not those of another: while one has a put under way,
// the set of another is empty, and an empty set stays so.
// NP: 1 2 4
// MODES: par
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 200000 };
static char *source;
static pthread_barrier_t both;

static void *puts_and_waits(void *argument) {
    char *remote = seg_of((me + 1) % np);
    gex_RMA_PutNBI(tm, (me + 1) % np, remote, source, BYTES, GEX_EVENT_DEFER, 0);
    pthread_barrier_wait(&both);
    /* meanwhile the main thread looks at its own set; nobody polls */
    pthread_barrier_wait(&both);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    test_init("implicit_per_thread", &argc, &argv);
    pthread_t thread;
    test_attach(BYTES);
    source = (char *)malloc(BYTES);
    for (int round = 0; round < 5; round++) {
        pattern_fill(source, BYTES, (uint64_t)(round * 100) + me);
        barrier();
        PHASE("another thread's put is under way");
        REQUIRE(pthread_barrier_init(&both, NULL, 2) == 0);
        REQUIRE(pthread_create(&thread, NULL, puts_and_waits, NULL) == 0);
        pthread_barrier_wait(&both);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
        CHECK(gex_NBI_Test(GEX_EC_PUT, 0) == 0);
        pthread_barrier_wait(&both);
        REQUIRE(pthread_join(thread, NULL) == 0);
        pthread_barrier_destroy(&both);
        PHASE("it has arrived");
        barrier();
        CHECK_PATTERN(seg_of(me), BYTES, (uint64_t)(round * 100) + (me + np - 1) % np);
    }
    return test_finish();
}

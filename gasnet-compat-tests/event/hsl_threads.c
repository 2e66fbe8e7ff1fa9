// Handler-safe locks exclude threads from each other: contention, trylock on a held lock, a holder
// that is slow. (In PARSYNC only one thread at a time may be in such a call.)
// NP: 1 2
// MODES: par
// TIMEOUT: 60
#include "check.h"

#include <sched.h>

enum { THREADS = 4, ROUNDS = 20000 };
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static volatile long counter;
static int inside, tried, stage;

static void *contend(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 3) {
            while (gex_HSL_Trylock(&lock) != GASNET_OK) {
                ATOMIC_ADD(&tried, 1);
                sched_yield();
            }
        } else {
            gex_HSL_Lock(&lock);
        }
        CHECK(ATOMIC_ADD(&inside, 1) == 1);
        counter = counter + 1;
        if (i % 1024 == 0) sched_yield();
        CHECK(ATOMIC_ADD(&inside, -1) == 0);
        gex_HSL_Unlock(&lock);
    }
    return NULL;
}

static void *hold(void *unused) {
    gex_HSL_Lock(&lock);
    ATOMIC_SET(&stage, 1);
    while (ATOMIC_GET(&stage) != 2) sched_yield();
    gex_HSL_Unlock(&lock);
    ATOMIC_SET(&stage, 3);
    return NULL;
}

int main(int argc, char **argv) {
    test_init("hsl_threads", &argc, &argv);
    pthread_t thread[THREADS];
    PHASE("contention");
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&thread[i], NULL, contend, NULL) == 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
    CHECKF(counter == (long)THREADS * ROUNDS, "%ld", counter);
    PHASE("trylock on a held lock");
    REQUIRE(pthread_create(&thread[0], NULL, hold, NULL) == 0);
    while (ATOMIC_GET(&stage) != 1) sched_yield();
    for (int i = 0; i < 100; i++) CHECK(gex_HSL_Trylock(&lock) == GASNET_ERR_NOT_READY);
    ATOMIC_SET(&stage, 2);
    gex_HSL_Lock(&lock);
    gex_HSL_Unlock(&lock);
    REQUIRE(pthread_join(thread[0], NULL) == 0);
    CHECK(gex_HSL_Trylock(&lock) == GASNET_OK);
    gex_HSL_Unlock(&lock);
    return test_finish();
}

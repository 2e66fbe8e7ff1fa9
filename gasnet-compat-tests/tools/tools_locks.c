/* README-tools, mutexes, condition variables, reader/writer locks. Correct use, in every mode. */
#include <gasnet_tools.h>

#include "tools_check.h"

static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
static struct {
    gasnett_cond_t cond;
    gasnett_mutex_t mutex;
} nested = {GASNETT_COND_INITIALIZER, GASNETT_MUTEX_INITIALIZER};

static void alone(void) {
    gasnett_mutex_t m;
    gasnett_cond_t c;
    gasnett_rwlock_t r;
    gasnett_mutex_init(&m);
    gasnett_mutex_assertunlocked(&m);
    gasnett_mutex_lock(&m);
    gasnett_mutex_assertlocked(&m);
    gasnett_mutex_unlock(&m);
    CHECK(gasnett_mutex_trylock(&m) == 0);
    gasnett_mutex_unlock(&m);
    gasnett_mutex_destroy(&m);
    gasnett_mutex_init(&m);
    CHECK(gasnett_mutex_destroy_ignoreerr(&m) == 0);

    gasnett_cond_init(&c);
    gasnett_mutex_lock(&nested.mutex);
    gasnett_cond_signal(&c);
    gasnett_cond_broadcast(&c);
    gasnett_cond_signal(&nested.cond);
    gasnett_mutex_unlock(&nested.mutex);
    gasnett_cond_destroy(&c);

    gasnett_rwlock_init(&r);
    gasnett_rwlock_assertunlocked(&r);
    gasnett_rwlock_rdlock(&r);
    gasnett_rwlock_assertrdlocked(&r);
    gasnett_rwlock_assertlocked(&r);
    gasnett_rwlock_unlock(&r);
    gasnett_rwlock_wrlock(&r);
    gasnett_rwlock_assertwrlocked(&r);
    gasnett_rwlock_assertlocked(&r);
    gasnett_rwlock_unlock(&r);
    CHECK(gasnett_rwlock_tryrdlock(&r) == 0);
    gasnett_rwlock_unlock(&r);
    CHECK(gasnett_rwlock_trywrlock(&r) == 0);
    gasnett_rwlock_unlock(&r);
    gasnett_rwlock_destroy(&r);
}

#if GASNETT_THREAD_SAFE

enum { THREADS = 4, ROUNDS = 5000 };
static int guarded, written, turn, waiting;
static gasnett_atomic_t readers = gasnett_atomic_init(0), most_readers = gasnett_atomic_init(0);

static void *exclusion(void *id) {
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3) gasnett_mutex_lock(&mutex);
        else
            while (gasnett_mutex_trylock(&mutex)) gasnett_sched_yield();
        guarded++;
        gasnett_mutex_unlock(&mutex);
        if ((i + (int)(intptr_t)id) % 4 == 0) {
            gasnett_rwlock_wrlock(&rwlock);
            CHECK(gasnett_atomic_read(&readers, 0) == 0);
            written++;
            gasnett_rwlock_unlock(&rwlock);
        } else {
            gasnett_rwlock_rdlock(&rwlock);
            gasnett_atomic_increment(&readers, 0);
            (void)written;
            gasnett_atomic_decrement(&readers, 0);
            gasnett_rwlock_unlock(&rwlock);
        }
    }
    return NULL;
}

/* Turns go round: every thread waits for its own. */
static void *turns(void *id) {
    for (int i = 0; i < 200; i++) {
        gasnett_mutex_lock(&nested.mutex);
        while (turn != (int)(intptr_t)id) gasnett_cond_wait(&nested.cond, &nested.mutex);
        gasnett_mutex_assertlocked(&nested.mutex);
        turn = (turn + 1) % THREADS;
        gasnett_cond_broadcast(&nested.cond);
        gasnett_mutex_unlock(&nested.mutex);
    }
    return NULL;
}

/* Two threads hold the read lock at the same time, and a writer is kept out. */
static void *together(void *id) {
    gasnett_rwlock_rdlock(&rwlock);
    gasnett_atomic_increment(&most_readers, GASNETT_ATOMIC_REL);
    while (gasnett_atomic_read(&most_readers, GASNETT_ATOMIC_ACQ) < 2) gasnett_sched_yield();
    gasnett_rwlock_unlock(&rwlock);
    return NULL;
}

static void *kept_out(void *id) {
    gasnett_mutex_assertunlocked(&mutex);
    gasnett_rwlock_assertunlocked(&rwlock);
    CHECK(gasnett_mutex_trylock(&mutex) == EBUSY);
    CHECK(gasnett_rwlock_trywrlock(&rwlock) == EBUSY);
    CHECK(gasnett_rwlock_tryrdlock(&rwlock) == EBUSY);
    return NULL;
}

static void *woken_by_signal(void *id) {
    gasnett_mutex_lock(&nested.mutex);
    if (id == NULL) {
        waiting = 1;
        while (waiting) gasnett_cond_wait(&nested.cond, &nested.mutex);
    } else {
        while (!waiting) {
            gasnett_mutex_unlock(&nested.mutex);
            gasnett_sched_yield();
            gasnett_mutex_lock(&nested.mutex);
        }
        waiting = 0;
        gasnett_cond_signal(&nested.cond);
    }
    gasnett_mutex_unlock(&nested.mutex);
    return NULL;
}

int main(void) {
    CHECK(sizeof(gasnett_mutex_t) == sizeof(pthread_mutex_t));
    alone();
    in_threads(THREADS, exclusion);
    CHECK(guarded == THREADS * ROUNDS && written == THREADS * ROUNDS / 4);
    in_threads(THREADS, turns);
    CHECK(turn == 0);
    in_threads(2, together);
    in_threads(2, woken_by_signal);
    gasnett_mutex_lock(&mutex);
    gasnett_rwlock_wrlock(&rwlock);
    in_threads(2, kept_out);
    gasnett_rwlock_unlock(&rwlock);
    gasnett_mutex_unlock(&mutex);
    return test_result("tools_locks");
}

#else

static int wait_alone(void) {
    gasnett_mutex_lock(&nested.mutex);
    gasnett_cond_wait(&nested.cond, &nested.mutex);
    return 0;
}

int main(void) {
    alone();
    alone();
    gasnett_mutex_lock(&mutex);
    gasnett_mutex_unlock(&mutex);
    gasnett_rwlock_rdlock(&rwlock);
    gasnett_rwlock_unlock(&rwlock);
#if !GASNET_DEBUG
    in_child(wait_alone);
    CHECK(child_killed(SIGABRT) && child_said("nothing could ever wake it"));
#else
    (void)wait_alone;
#endif
    return test_result("tools_locks");
}

#endif

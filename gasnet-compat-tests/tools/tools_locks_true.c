/* README-tools, GASNETT_USE_TRUE_MUTEXES: real locks in every mode. Also the exported functions of
 * the locks. */
#define GASNETT_USE_TRUE_MUTEXES 1
#include <gasnet_tools.h>

#include <pthread.h>

#include "tools_check.h"

static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;

static void *other(void *unused) {
    CHECK(gasnett_mutex_trylock(&mutex) == EBUSY);
    CHECK((gasnett_mutex_trylock)(&mutex) == EBUSY);
    return NULL;
}

int main(void) {
    pthread_t thread;
    gasnett_mutex_t m;
    gasnett_cond_t c;
    gasnett_rwlock_t r;
    gasnett_mutex_lock(&mutex);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_join(thread, NULL);
    gasnett_mutex_unlock(&mutex);

    (gasnett_mutex_init)(&m);
    (gasnett_mutex_lock)(&m);
    (gasnett_mutex_assertlocked)(&m);
    (gasnett_mutex_unlock)(&m);
    (gasnett_mutex_assertunlocked)(&m);
    CHECK((gasnett_mutex_trylock)(&m) == 0);
    (gasnett_mutex_unlock)(&m);
    (gasnett_cond_init)(&c);
    (gasnett_cond_signal)(&c);
    (gasnett_cond_broadcast)(&c);
    (gasnett_cond_destroy)(&c);
    (gasnett_mutex_destroy)(&m);
    (gasnett_mutex_init)(&m);
    CHECK((gasnett_mutex_destroy_ignoreerr)(&m) == 0);
    (gasnett_rwlock_init)(&r);
    (gasnett_rwlock_rdlock)(&r);
    (gasnett_rwlock_assertrdlocked)(&r);
    (gasnett_rwlock_assertlocked)(&r);
    (gasnett_rwlock_unlock)(&r);
    (gasnett_rwlock_wrlock)(&r);
    (gasnett_rwlock_assertwrlocked)(&r);
    (gasnett_rwlock_unlock)(&r);
    CHECK((gasnett_rwlock_tryrdlock)(&r) == 0);
    (gasnett_rwlock_unlock)(&r);
    CHECK((gasnett_rwlock_trywrlock)(&r) == 0);
    (gasnett_rwlock_unlock)(&r);
    (gasnett_rwlock_assertunlocked)(&r);
    (gasnett_rwlock_destroy)(&r);
    void (*wait)(gasnett_cond_t *, gasnett_mutex_t *) = (gasnett_cond_wait);
    CHECK(wait != NULL);
    return test_result("tools_locks_true");
}

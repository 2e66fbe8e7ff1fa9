/* libgasnet tools: mutexes, condition variables, reader/writer locks and thread-specific pointers.
 *
 * README-tools, "Error-checking System Mutexes and Condition Variables", "Reader/Writer locks",
 * "Thread-specific data".
 *
 * With threads (GASNETT_THREAD_SAFE or GASNETT_USE_TRUE_MUTEXES) these are the system's locks,
 * called in place. Without, they do nothing. Under GASNET_DEBUG they are always real and go through
 * the library, which knows what each thread holds and reports recursive acquisition, release of a
 * lock that is not held, and failed assertions.
 *
 * Included by gasnet_tools.h only, after GASNETT_THREAD_SAFE is settled.
 */
#ifndef _INCLUDED_GASNETT_SYNC_H
#define _INCLUDED_GASNETT_SYNC_H

#include "gasnett_annotate.h"

#if GASNET_DEBUG && !defined(GASNETT_LITE_MODE)
#define GASNETTI_LOCKS_CHECKED 1
#else
#define GASNETTI_LOCKS_CHECKED 0
#endif

#if GASNETT_THREAD_SAFE || GASNETT_USE_TRUE_MUTEXES || GASNETTI_LOCKS_CHECKED
#define GASNETTI_LOCKS_REAL 1
#else
#define GASNETTI_LOCKS_REAL 0
#endif

#if GASNETTI_LOCKS_REAL

#include <errno.h>
#include <pthread.h>

typedef struct gasnett_mutex_s {
    pthread_mutex_t gasnetti_lock;
} gasnett_mutex_t;
#define GASNETT_MUTEX_INITIALIZER \
    { PTHREAD_MUTEX_INITIALIZER }

typedef struct gasnett_cond_s {
    pthread_cond_t gasnetti_cond;
} gasnett_cond_t;
#define GASNETT_COND_INITIALIZER \
    { PTHREAD_COND_INITIALIZER }

#ifdef PTHREAD_RWLOCK_INITIALIZER
#define GASNETTI_HAVE_RWLOCK 1
typedef struct gasnett_rwlock_s {
    pthread_rwlock_t gasnetti_lock;
} gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER \
    { PTHREAD_RWLOCK_INITIALIZER }
#elif GASNETTI_LOCKS_CHECKED
#error A system header was included in strict ISO mode: include gasnet_tools.h first, or define _GNU_SOURCE
#else
/* Strict ISO mode hides the system's reader/writer locks; the specification lets a mutex stand
 * in. */
#define GASNETTI_HAVE_RWLOCK 0
typedef gasnett_mutex_t gasnett_rwlock_t;
#define GASNETT_RWLOCK_INITIALIZER GASNETT_MUTEX_INITIALIZER
#endif

#ifndef GASNETT_LITE_MODE
GASNETTI_BEGIN_C
extern void(gasnett_mutex_init)(gasnett_mutex_t *);
extern void(gasnett_mutex_destroy)(gasnett_mutex_t *);
extern int(gasnett_mutex_destroy_ignoreerr)(gasnett_mutex_t *);
extern void(gasnett_mutex_lock)(gasnett_mutex_t *);
extern void(gasnett_mutex_unlock)(gasnett_mutex_t *);
extern int(gasnett_mutex_trylock)(gasnett_mutex_t *);
extern void(gasnett_mutex_assertlocked)(gasnett_mutex_t *);
extern void(gasnett_mutex_assertunlocked)(gasnett_mutex_t *);
extern void(gasnett_cond_init)(gasnett_cond_t *);
extern void(gasnett_cond_destroy)(gasnett_cond_t *);
extern void(gasnett_cond_signal)(gasnett_cond_t *);
extern void(gasnett_cond_broadcast)(gasnett_cond_t *);
extern void(gasnett_cond_wait)(gasnett_cond_t *, gasnett_mutex_t *);
#if GASNETTI_HAVE_RWLOCK
extern void(gasnett_rwlock_init)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_destroy)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_rdlock)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_wrlock)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_unlock)(gasnett_rwlock_t *);
extern int(gasnett_rwlock_tryrdlock)(gasnett_rwlock_t *);
extern int(gasnett_rwlock_trywrlock)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_assertrdlocked)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_assertwrlocked)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_assertlocked)(gasnett_rwlock_t *);
extern void(gasnett_rwlock_assertunlocked)(gasnett_rwlock_t *);
#endif
GASNETTI_END_C
#endif

#else /* no locks */

typedef struct gasnett_mutex_s {
    char gasnetti_nothing;
} gasnett_mutex_t;
typedef struct gasnett_cond_s {
    char gasnetti_nothing;
} gasnett_cond_t;
typedef struct gasnett_rwlock_s {
    char gasnetti_nothing;
} gasnett_rwlock_t;
#define GASNETT_MUTEX_INITIALIZER \
    { 0 }
#define GASNETT_COND_INITIALIZER \
    { 0 }
#define GASNETT_RWLOCK_INITIALIZER \
    { 0 }

#endif

#if !GASNETTI_LOCKS_CHECKED

/* One inline function: with real locks its body, else nothing. */
#if GASNETTI_LOCKS_REAL
#define GASNETTI_LOCK_VOID(name, T, body) \
    GASNETT_INLINE(name) void name(T *lock) { (void)body; }
#define GASNETTI_LOCK_INT(name, T, body) \
    GASNETT_INLINE(name) int name(T *lock) { return body; }
#else
#define GASNETTI_LOCK_VOID(name, T, body) \
    GASNETT_INLINE(name) void name(T *lock) { (void)lock; }
#define GASNETTI_LOCK_INT(name, T, body)     \
    GASNETT_INLINE(name) int name(T *lock) { \
        (void)lock;                          \
        return 0;                            \
    }
#endif

GASNETTI_LOCK_VOID(gasnetti_mutex_init, gasnett_mutex_t, pthread_mutex_init(&lock->gasnetti_lock, 0))
GASNETTI_LOCK_VOID(gasnetti_mutex_destroy, gasnett_mutex_t, pthread_mutex_destroy(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_mutex_destroy_ignoreerr, gasnett_mutex_t, pthread_mutex_destroy(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_mutex_lock, gasnett_mutex_t, pthread_mutex_lock(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_mutex_unlock, gasnett_mutex_t, pthread_mutex_unlock(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_mutex_trylock, gasnett_mutex_t, pthread_mutex_trylock(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_cond_init, gasnett_cond_t, pthread_cond_init(&lock->gasnetti_cond, 0))
GASNETTI_LOCK_VOID(gasnetti_cond_destroy, gasnett_cond_t, pthread_cond_destroy(&lock->gasnetti_cond))
GASNETTI_LOCK_VOID(gasnetti_cond_signal, gasnett_cond_t, pthread_cond_signal(&lock->gasnetti_cond))
GASNETTI_LOCK_VOID(gasnetti_cond_broadcast, gasnett_cond_t, pthread_cond_broadcast(&lock->gasnetti_cond))

#define gasnett_mutex_init(pl) gasnetti_mutex_init(pl)
#define gasnett_mutex_destroy(pl) gasnetti_mutex_destroy(pl)
#define gasnett_mutex_destroy_ignoreerr(pl) gasnetti_mutex_destroy_ignoreerr(pl)
#define gasnett_mutex_lock(pl) gasnetti_mutex_lock(pl)
#define gasnett_mutex_unlock(pl) gasnetti_mutex_unlock(pl)
#define gasnett_mutex_trylock(pl) gasnetti_mutex_trylock(pl)
#define gasnett_mutex_assertlocked(pl) ((void)(pl))
#define gasnett_mutex_assertunlocked(pl) ((void)(pl))
#define gasnett_cond_init(pc) gasnetti_cond_init(pc)
#define gasnett_cond_destroy(pc) gasnetti_cond_destroy(pc)
#define gasnett_cond_signal(pc) gasnetti_cond_signal(pc)
#define gasnett_cond_broadcast(pc) gasnetti_cond_broadcast(pc)

#if GASNETTI_LOCKS_REAL && GASNETTI_HAVE_RWLOCK
/* The system may limit the number of concurrent readers (EAGAIN); here that is a reason to wait. */
GASNETT_INLINE(gasnetti_rwlock_rdlock_wait)
int gasnetti_rwlock_rdlock_wait(gasnett_rwlock_t *lock) {
    int rc;
    while ((rc = pthread_rwlock_rdlock(&lock->gasnetti_lock)) == EAGAIN) gasnett_spinloop_hint();
    return rc;
}
GASNETTI_LOCK_VOID(gasnetti_rwlock_init, gasnett_rwlock_t, pthread_rwlock_init(&lock->gasnetti_lock, 0))
GASNETTI_LOCK_VOID(gasnetti_rwlock_destroy, gasnett_rwlock_t, pthread_rwlock_destroy(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_rdlock, gasnett_rwlock_t, gasnetti_rwlock_rdlock_wait(lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_wrlock, gasnett_rwlock_t, pthread_rwlock_wrlock(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_unlock, gasnett_rwlock_t, pthread_rwlock_unlock(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_rwlock_tryrdlock, gasnett_rwlock_t, pthread_rwlock_tryrdlock(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_rwlock_trywrlock, gasnett_rwlock_t, pthread_rwlock_trywrlock(&lock->gasnetti_lock))
#else
GASNETTI_LOCK_VOID(gasnetti_rwlock_init, gasnett_rwlock_t, pthread_mutex_init(&lock->gasnetti_lock, 0))
GASNETTI_LOCK_VOID(gasnetti_rwlock_destroy, gasnett_rwlock_t, pthread_mutex_destroy(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_rdlock, gasnett_rwlock_t, pthread_mutex_lock(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_wrlock, gasnett_rwlock_t, pthread_mutex_lock(&lock->gasnetti_lock))
GASNETTI_LOCK_VOID(gasnetti_rwlock_unlock, gasnett_rwlock_t, pthread_mutex_unlock(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_rwlock_tryrdlock, gasnett_rwlock_t, pthread_mutex_trylock(&lock->gasnetti_lock))
GASNETTI_LOCK_INT(gasnetti_rwlock_trywrlock, gasnett_rwlock_t, pthread_mutex_trylock(&lock->gasnetti_lock))
#endif

#define gasnett_rwlock_init(pl) gasnetti_rwlock_init(pl)
#define gasnett_rwlock_destroy(pl) gasnetti_rwlock_destroy(pl)
#define gasnett_rwlock_rdlock(pl) gasnetti_rwlock_rdlock(pl)
#define gasnett_rwlock_wrlock(pl) gasnetti_rwlock_wrlock(pl)
#define gasnett_rwlock_unlock(pl) gasnetti_rwlock_unlock(pl)
#define gasnett_rwlock_tryrdlock(pl) gasnetti_rwlock_tryrdlock(pl)
#define gasnett_rwlock_trywrlock(pl) gasnetti_rwlock_trywrlock(pl)
#define gasnett_rwlock_assertrdlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertwrlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertlocked(pl) ((void)(pl))
#define gasnett_rwlock_assertunlocked(pl) ((void)(pl))

#if GASNETTI_LOCKS_REAL
GASNETT_INLINE(gasnetti_cond_wait)
void gasnetti_cond_wait(gasnett_cond_t *cond, gasnett_mutex_t *lock) {
    (void)pthread_cond_wait(&cond->gasnetti_cond, &lock->gasnetti_lock);
}
#define gasnett_cond_wait(pc, pl) gasnetti_cond_wait(pc, pl)
#elif !defined(GASNETT_LITE_MODE)
/* Nobody could wake the only thread. */
#define gasnett_cond_wait(pc, pl)  \
    (GASNETT_UNUSED_ARGS2(pc, pl), \
     gasnett_fatalerror("gasnett_cond_wait() in a program with one thread: nothing could ever wake it"))
#endif

#endif /* !GASNETTI_LOCKS_CHECKED */

/* ---- thread-specific pointers ---- */

#if GASNETT_THREAD_SAFE
#define GASNETTI_THREAD_LOCAL __thread
#else
#define GASNETTI_THREAD_LOCAL
#endif
#define GASNETTI_THREADKEY(key) gasnetti_threadkey_of_##key

#define GASNETT_THREADKEY_DECLARE(key) extern GASNETTI_THREAD_LOCAL void *GASNETTI_THREADKEY(key)
#define GASNETT_THREADKEY_DEFINE(key)                           \
    extern GASNETTI_THREAD_LOCAL void *GASNETTI_THREADKEY(key); \
    GASNETTI_THREAD_LOCAL void *GASNETTI_THREADKEY(key) = 0
#define gasnett_threadkey_get(key) ((void *)GASNETTI_THREADKEY(key))
#define gasnett_threadkey_set(key, value) ((void)(GASNETTI_THREADKEY(key) = (void *)(value)))
/* Loader and compiler create the storage, so initialisation has nothing to do. */
#define gasnett_threadkey_init(key) ((void)&GASNETTI_THREADKEY(key))
#define gasnett_threadkey_get_noinit(key) gasnett_threadkey_get(key)
#define gasnett_threadkey_set_noinit(key, value) gasnett_threadkey_set(key, value)

#endif /* _INCLUDED_GASNETT_SYNC_H */

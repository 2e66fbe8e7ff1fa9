/* Exported functions with the bodies of the headers' inline ones, for languages without a C
 * preprocessor. */
#define GASNETT_THREAD_SAFE 1
#include "gasnett_atomic.h"
#include "gasnett_sync.h"

void(gasnett_local_mb)(void) { gasnett_local_mb(); }
void(gasnett_local_wmb)(void) { gasnett_local_wmb(); }
void(gasnett_local_rmb)(void) { gasnett_local_rmb(); }
void(gasnett_weak_mb)(void) { gasnett_weak_mb(); }
void(gasnett_weak_wmb)(void) { gasnett_weak_wmb(); }
void(gasnett_weak_rmb)(void) { gasnett_weak_rmb(); }
void(gasnett_compiler_fence)(void) { gasnett_compiler_fence(); }
void(gasnett_spinloop_hint)(void) { gasnett_spinloop_hint(); }

gasnett_atomic_sval_t(gasnett_atomic_signed)(gasnett_atomic_val_t v) { return gasnett_atomic_signed(v); }
gasnett_atomic_sval_t(gasnett_strongatomic_signed)(gasnett_atomic_val_t v) { return gasnett_strongatomic_signed(v); }

#define ATOMIC_TWINS(prefix, A, T)                                                                       \
    void(prefix##_set)(A * p, T v, int flags) { prefix##_set(p, v, flags); }                             \
    T(prefix##_read)(A * p, int flags) { return prefix##_read(p, flags); }                               \
    T(prefix##_add)(A * p, T v, int flags) { return prefix##_add(p, v, flags); }                         \
    T(prefix##_subtract)(A * p, T v, int flags) { return prefix##_subtract(p, v, flags); }               \
    void(prefix##_increment)(A * p, int flags) { prefix##_increment(p, flags); }                         \
    void(prefix##_decrement)(A * p, int flags) { prefix##_decrement(p, flags); }                         \
    int(prefix##_decrement_and_test)(A * p, int flags) { return prefix##_decrement_and_test(p, flags); } \
    T(prefix##_swap)(A * p, T v, int flags) { return prefix##_swap(p, v, flags); }                       \
    int(prefix##_compare_and_swap)(A * p, T o, T n, int flags) { return prefix##_compare_and_swap(p, o, n, flags); }

ATOMIC_TWINS(gasnett_atomic, gasnett_atomic_t, gasnett_atomic_val_t)
ATOMIC_TWINS(gasnett_atomic32, gasnett_atomic32_t, uint32_t)
ATOMIC_TWINS(gasnett_atomic64, gasnett_atomic64_t, uint64_t)
ATOMIC_TWINS(gasnett_strongatomic, gasnett_strongatomic_t, gasnett_strongatomic_val_t)
ATOMIC_TWINS(gasnett_strongatomic32, gasnett_strongatomic32_t, uint32_t)
ATOMIC_TWINS(gasnett_strongatomic64, gasnett_strongatomic64_t, uint64_t)

#if !GASNETTI_LOCKS_CHECKED /* the checked ones are in sync.rs */
#define LOCK_VOID(name, T) \
    void(name)(T * lock) { name(lock); }
#define LOCK_INT(name, T) \
    int(name)(T * lock) { return name(lock); }

LOCK_VOID(gasnett_mutex_init, gasnett_mutex_t)
LOCK_VOID(gasnett_mutex_destroy, gasnett_mutex_t)
LOCK_INT(gasnett_mutex_destroy_ignoreerr, gasnett_mutex_t)
LOCK_VOID(gasnett_mutex_lock, gasnett_mutex_t)
LOCK_VOID(gasnett_mutex_unlock, gasnett_mutex_t)
LOCK_INT(gasnett_mutex_trylock, gasnett_mutex_t)
LOCK_VOID(gasnett_mutex_assertlocked, gasnett_mutex_t)
LOCK_VOID(gasnett_mutex_assertunlocked, gasnett_mutex_t)
LOCK_VOID(gasnett_cond_init, gasnett_cond_t)
LOCK_VOID(gasnett_cond_destroy, gasnett_cond_t)
LOCK_VOID(gasnett_cond_signal, gasnett_cond_t)
LOCK_VOID(gasnett_cond_broadcast, gasnett_cond_t)
void(gasnett_cond_wait)(gasnett_cond_t *cond, gasnett_mutex_t *lock) { gasnett_cond_wait(cond, lock); }
LOCK_VOID(gasnett_rwlock_init, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_destroy, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_rdlock, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_wrlock, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_unlock, gasnett_rwlock_t)
LOCK_INT(gasnett_rwlock_tryrdlock, gasnett_rwlock_t)
LOCK_INT(gasnett_rwlock_trywrlock, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_assertrdlocked, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_assertwrlocked, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_assertlocked, gasnett_rwlock_t)
LOCK_VOID(gasnett_rwlock_assertunlocked, gasnett_rwlock_t)
#endif

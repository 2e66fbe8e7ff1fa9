/* The functions behind the macros: a language without a C preprocessor calls atomics, fences and
 * locks by their symbols. */
#include <gasnet_tools.h>

#include "tools_check.h"

#define FENCE(name) extern void(name)(void);
#define FENCES(m)                                                                                        \
    m(gasnett_local_mb) m(gasnett_local_wmb) m(gasnett_local_rmb) m(gasnett_weak_mb) m(gasnett_weak_wmb) \
        m(gasnett_weak_rmb) m(gasnett_compiler_fence) m(gasnett_spinloop_hint)
FENCES(FENCE)

#define DECLARE_ATOMIC(prefix, A, T)                           \
    extern void(prefix##_set)(A * p, T v, int flags);          \
    extern T(prefix##_read)(A * p, int flags);                 \
    extern T(prefix##_add)(A * p, T v, int flags);             \
    extern T(prefix##_subtract)(A * p, T v, int flags);        \
    extern void(prefix##_increment)(A * p, int flags);         \
    extern void(prefix##_decrement)(A * p, int flags);         \
    extern int(prefix##_decrement_and_test)(A * p, int flags); \
    extern T(prefix##_swap)(A * p, T v, int flags);            \
    extern int(prefix##_compare_and_swap)(A * p, T o, T n, int flags);
#define USE_ATOMIC(prefix, A, T)                                               \
    static void use_##prefix(void) {                                           \
        A a;                                                                   \
        (prefix##_set)(&a, 5, 0);                                              \
        CHECK((prefix##_read)(&a, 0) == 5);                                    \
        CHECK((prefix##_add)(&a, 7, GASNETT_ATOMIC_MB_POST) == 12);            \
        CHECK((prefix##_subtract)(&a, 10, GASNETT_ATOMIC_MB_PRE) == 2);        \
        (prefix##_increment)(&a, 0);                                           \
        (prefix##_decrement)(&a, 0);                                           \
        CHECK(!(prefix##_decrement_and_test)(&a, 0));                          \
        CHECK((prefix##_decrement_and_test)(&a, GASNETT_ATOMIC_ACQ_IF_TRUE));  \
        CHECK((prefix##_swap)(&a, 9, 0) == 0);                                 \
        CHECK(!(prefix##_compare_and_swap)(&a, 8, 1, 0));                      \
        CHECK((prefix##_compare_and_swap)(&a, 9, 1, GASNETT_ATOMIC_REL));      \
        CHECK(prefix##_read(&a, 0) == 1); /* the macro sees the same object */ \
    }
#define ATOMICS(m)                                                                                              \
    m(gasnett_atomic, gasnett_atomic_t, gasnett_atomic_val_t) m(gasnett_atomic32, gasnett_atomic32_t, uint32_t) \
        m(gasnett_atomic64, gasnett_atomic64_t, uint64_t)                                                       \
            m(gasnett_strongatomic, gasnett_strongatomic_t, gasnett_strongatomic_val_t)                         \
                m(gasnett_strongatomic32, gasnett_strongatomic32_t, uint32_t)                                   \
                    m(gasnett_strongatomic64, gasnett_strongatomic64_t, uint64_t)
ATOMICS(DECLARE_ATOMIC)
ATOMICS(USE_ATOMIC)
extern gasnett_atomic_sval_t(gasnett_atomic_signed)(gasnett_atomic_val_t v);
extern gasnett_strongatomic_sval_t(gasnett_strongatomic_signed)(gasnett_strongatomic_val_t v);
extern gasnett_tick_t(gasnett_ticks_now)(void);

#if GASNETT_THREAD_SAFE
extern void(gasnett_mutex_init)(gasnett_mutex_t *lock);
extern void(gasnett_mutex_destroy)(gasnett_mutex_t *lock);
extern int(gasnett_mutex_destroy_ignoreerr)(gasnett_mutex_t *lock);
extern void(gasnett_mutex_lock)(gasnett_mutex_t *lock);
extern void(gasnett_mutex_unlock)(gasnett_mutex_t *lock);
extern int(gasnett_mutex_trylock)(gasnett_mutex_t *lock);
extern void(gasnett_cond_init)(gasnett_cond_t *cond);
extern void(gasnett_cond_destroy)(gasnett_cond_t *cond);
extern void(gasnett_cond_signal)(gasnett_cond_t *cond);
extern void(gasnett_cond_broadcast)(gasnett_cond_t *cond);
extern void(gasnett_cond_wait)(gasnett_cond_t *cond, gasnett_mutex_t *lock);
extern void(gasnett_rwlock_init)(gasnett_rwlock_t *lock);
extern void(gasnett_rwlock_destroy)(gasnett_rwlock_t *lock);
extern void(gasnett_rwlock_rdlock)(gasnett_rwlock_t *lock);
extern void(gasnett_rwlock_wrlock)(gasnett_rwlock_t *lock);
extern void(gasnett_rwlock_unlock)(gasnett_rwlock_t *lock);
extern int(gasnett_rwlock_tryrdlock)(gasnett_rwlock_t *lock);
extern int(gasnett_rwlock_trywrlock)(gasnett_rwlock_t *lock);

static gasnett_mutex_t lock;
static gasnett_cond_t cond;
static int turns;

static void *takes_turns(void *number) {
    (gasnett_mutex_lock)(&lock);
    while (turns != (int)(intptr_t)number) (gasnett_cond_wait)(&cond, &lock);
    turns++;
    (gasnett_cond_broadcast)(&cond);
    (gasnett_cond_signal)(&cond);
    (gasnett_mutex_unlock)(&lock);
    return NULL;
}

static void locks(void) {
    gasnett_rwlock_t shared;
    (gasnett_mutex_init)(&lock);
    (gasnett_cond_init)(&cond);
    in_threads(6, takes_turns);
    CHECK(turns == 6);
    CHECK((gasnett_mutex_trylock)(&lock) == 0);
    (gasnett_mutex_unlock)(&lock);
    (gasnett_cond_destroy)(&cond);
    (gasnett_mutex_destroy)(&lock);
    (gasnett_mutex_init)(&lock);
    CHECK((gasnett_mutex_destroy_ignoreerr)(&lock) == 0);
    (gasnett_rwlock_init)(&shared);
    (gasnett_rwlock_rdlock)(&shared);
    (gasnett_rwlock_unlock)(&shared);
    (gasnett_rwlock_wrlock)(&shared);
    (gasnett_rwlock_unlock)(&shared);
    CHECK((gasnett_rwlock_tryrdlock)(&shared) == 0);
    (gasnett_rwlock_unlock)(&shared);
    CHECK((gasnett_rwlock_trywrlock)(&shared) == 0);
    (gasnett_rwlock_unlock)(&shared);
    (gasnett_rwlock_destroy)(&shared);
}
#else
static void locks(void) {}
#endif

int main(void) {
    gasnett_tick_t before = (gasnett_ticks_now)();
#define CALL_FENCE(name) (name)();
    FENCES(CALL_FENCE)
#define CALL_ATOMIC(prefix, A, T) use_##prefix();
    ATOMICS(CALL_ATOMIC)
    CHECK((gasnett_atomic_signed)((gasnett_atomic_val_t)-3) == -3);
    CHECK((gasnett_strongatomic_signed)((gasnett_strongatomic_val_t)-4) == -4);
    locks();
    CHECK((gasnett_ticks_now)() >= before);
    return test_result("tools_symbols");
}

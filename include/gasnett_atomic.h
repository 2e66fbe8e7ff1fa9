/* libgasnet tools: memory barriers and atomic operations. Header only.
 *
 * README-tools, "Memory barriers" and "Atomic operations". gasnett_atomic_t and the fixed-width
 * types are atomic when GASNETT_THREAD_SAFE is set and plain otherwise; the "strong" forms are
 * always atomic and safe in signal handlers. Every operation also exists as a function of the same
 * name in the library (always atomic there).
 *
 * The flags and the layout of the types are part of the binary interface.
 */
#ifndef _INCLUDED_GASNETT_ATOMIC_H
#define _INCLUDED_GASNETT_ATOMIC_H

#include <stdint.h>

#include "gasnett_annotate.h"

/* ---- memory barriers ---- */

/* A write barrier also keeps later loads behind earlier stores, as the specification words it,
 * hence the full fence. */
#define gasnett_local_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_wmb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define gasnett_local_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)

#if GASNETT_THREAD_SAFE
#define gasnett_weak_mb() gasnett_local_mb()
#define gasnett_weak_wmb() gasnett_local_wmb()
#define gasnett_weak_rmb() gasnett_local_rmb()
#else
#define gasnett_weak_mb() ((void)0)
#define gasnett_weak_wmb() ((void)0)
#define gasnett_weak_rmb() ((void)0)
#endif

/* ---- fence flags ---- */

#define GASNETT_ATOMIC_NONE 0
#define GASNETT_ATOMIC_RMB_PRE 1
#define GASNETT_ATOMIC_WMB_PRE 2
#define GASNETT_ATOMIC_MB_PRE (1 | 2)
#define GASNETT_ATOMIC_RMB_POST 4
#define GASNETT_ATOMIC_WMB_POST 8
#define GASNETT_ATOMIC_MB_POST (4 | 8)
#define GASNETT_ATOMIC_RMB_POST_IF_TRUE 16
#define GASNETT_ATOMIC_RMB_POST_IF_FALSE 32

#define GASNETT_ATOMIC_REL GASNETT_ATOMIC_WMB_PRE
#define GASNETT_ATOMIC_ACQ GASNETT_ATOMIC_RMB_POST
#define GASNETT_ATOMIC_ACQ_IF_TRUE GASNETT_ATOMIC_RMB_POST_IF_TRUE
#define GASNETT_ATOMIC_ACQ_IF_FALSE GASNETT_ATOMIC_RMB_POST_IF_FALSE

/* ---- types ---- */

typedef struct gasnett_atomic32_s {
    uint32_t gasnetti_value;
} GASNETTI_MAY_ALIAS gasnett_atomic32_t;

typedef struct gasnett_atomic64_s {
    uint64_t gasnetti_value;
} GASNETTI_MAY_ALIAS gasnett_atomic64_t;

typedef gasnett_atomic32_t gasnett_atomic_t;
typedef uint32_t gasnett_atomic_val_t;
typedef int32_t gasnett_atomic_sval_t;

typedef gasnett_atomic_t gasnett_strongatomic_t;
typedef gasnett_atomic_val_t gasnett_strongatomic_val_t;
typedef gasnett_atomic_sval_t gasnett_strongatomic_sval_t;
typedef gasnett_atomic32_t gasnett_strongatomic32_t;
typedef gasnett_atomic64_t gasnett_strongatomic64_t;

#define gasnett_atomic_init(v) \
    { (gasnett_atomic_val_t)(v) }
#define gasnett_atomic32_init(v) \
    { (uint32_t)(v) }
#define gasnett_atomic64_init(v) \
    { (uint64_t)(v) }
#define gasnett_strongatomic_init(v) gasnett_atomic_init(v)
#define gasnett_strongatomic32_init(v) gasnett_atomic32_init(v)
#define gasnett_strongatomic64_init(v) gasnett_atomic64_init(v)

#define gasnett_atomic_signed(v) ((gasnett_atomic_sval_t)(v))
#define gasnett_strongatomic_signed(v) gasnett_atomic_signed(v)

#define GASNETT_ATOMIC_MAX 0xFFFFFFFFu
#define GASNETT_ATOMIC_SIGNED_MIN (-2147483647 - 1)
#define GASNETT_ATOMIC_SIGNED_MAX 2147483647
#define GASNETT_STRONGATOMIC_MAX GASNETT_ATOMIC_MAX
#define GASNETT_STRONGATOMIC_SIGNED_MIN GASNETT_ATOMIC_SIGNED_MIN
#define GASNETT_STRONGATOMIC_SIGNED_MAX GASNETT_ATOMIC_SIGNED_MAX

#define GASNETT_HAVE_ATOMIC_ADD_SUB 1
#define GASNETT_HAVE_ATOMIC_CAS 1
#define GASNETT_HAVE_STRONGATOMIC_ADD_SUB 1
#define GASNETT_HAVE_STRONGATOMIC_CAS 1

/* ---- fences around one operation ---- */

/* A release store covers every single fence in front of it, but not a full one. */
GASNETT_INLINE(gasnetti_fence_before_set)
void gasnetti_fence_before_set(int flags) {
    if ((flags & GASNETT_ATOMIC_MB_PRE) == GASNETT_ATOMIC_MB_PRE) __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

GASNETT_INLINE(gasnetti_fence_before_read)
void gasnetti_fence_before_read(int flags) {
    if (flags & GASNETT_ATOMIC_WMB_PRE) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else if (flags & GASNETT_ATOMIC_RMB_PRE) __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

GASNETT_INLINE(gasnetti_fence_after)
void gasnetti_fence_after(int flags) {
    if (flags & GASNETT_ATOMIC_WMB_POST) __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else if (flags & GASNETT_ATOMIC_RMB_POST) __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

#if PLATFORM_ARCH_X86_64 || PLATFORM_ARCH_X86
/* A locked instruction is a full fence on both sides. */
#define GASNETTI_FENCE_BEFORE_RMW(flags) ((void)0)
#define GASNETTI_FENCE_BEFORE_CAS(flags) ((void)0)
#define GASNETTI_FENCE_AFTER_RMW(flags) ((void)0)
#else
#define GASNETTI_FENCE_BEFORE_RMW(flags) gasnetti_fence_before_read(((flags)&3) == GASNETT_ATOMIC_WMB_PRE ? 0 : (flags))
/* A compare-and-swap that fails is a read: no store releases what comes before it. */
#define GASNETTI_FENCE_BEFORE_CAS(flags) gasnetti_fence_before_read(flags)
#define GASNETTI_FENCE_AFTER_RMW(flags) gasnetti_fence_after(flags)
#endif

/* One read-modify-write: relaxed when no fence is asked for, else acquire and release, after a
 * BEFORE fence. `order` is replaced by a constant. */
#define GASNETTI_RMW(T, flags, BEFORE, call)   \
    T gasnetti_result;                         \
    if (!(flags)) {                            \
        enum { order = __ATOMIC_RELAXED };     \
        gasnetti_result = (T)(call);           \
    } else {                                   \
        enum { order = __ATOMIC_SEQ_CST };     \
        GASNETTI_FENCE_BEFORE_##BEFORE(flags); \
        gasnetti_result = (T)(call);           \
        GASNETTI_FENCE_AFTER_RMW(flags);       \
    }                                          \
    return gasnetti_result

/* The operations of one width, as gasnetti_<kind>_<operation>: <kind> strong32 or strong64. */
#define GASNETTI_STRONG_OPERATIONS(kind, A, T)                                                                         \
    GASNETT_INLINE(gasnetti_##kind##_set)                                                                              \
    void gasnetti_##kind##_set(A *p, T v, int flags) {                                                                 \
        gasnetti_fence_before_set(flags);                                                                              \
        if (flags & GASNETT_ATOMIC_MB_PRE) __atomic_store_n(&p->gasnetti_value, v, __ATOMIC_RELEASE);                  \
        else __atomic_store_n(&p->gasnetti_value, v, __ATOMIC_RELAXED);                                                \
        gasnetti_fence_after(flags);                                                                                   \
    }                                                                                                                  \
    GASNETT_INLINE(gasnetti_##kind##_read)                                                                             \
    T gasnetti_##kind##_read(A *p, int flags) {                                                                        \
        T v;                                                                                                           \
        gasnetti_fence_before_read(flags);                                                                             \
        if (flags & GASNETT_ATOMIC_RMB_POST) v = __atomic_load_n(&p->gasnetti_value, __ATOMIC_ACQUIRE);                \
        else v = __atomic_load_n(&p->gasnetti_value, __ATOMIC_RELAXED);                                                \
        gasnetti_fence_after(flags &GASNETT_ATOMIC_WMB_POST);                                                          \
        return v;                                                                                                      \
    }                                                                                                                  \
    GASNETT_INLINE(gasnetti_##kind##_add)                                                                              \
    T gasnetti_##kind##_add(A *p, T v, int flags) {                                                                    \
        GASNETTI_RMW(T, flags, RMW, __atomic_add_fetch(&p->gasnetti_value, v, order));                                 \
    }                                                                                                                  \
    GASNETT_INLINE(gasnetti_##kind##_subtract)                                                                         \
    T gasnetti_##kind##_subtract(A *p, T v, int flags) {                                                               \
        GASNETTI_RMW(T, flags, RMW, __atomic_sub_fetch(&p->gasnetti_value, v, order));                                 \
    }                                                                                                                  \
    GASNETT_INLINE(gasnetti_##kind##_increment)                                                                        \
    void gasnetti_##kind##_increment(A *p, int flags) { (void)gasnetti_##kind##_add(p, 1, flags); }                    \
    GASNETT_INLINE(gasnetti_##kind##_decrement)                                                                        \
    void gasnetti_##kind##_decrement(A *p, int flags) { (void)gasnetti_##kind##_subtract(p, 1, flags); }               \
    GASNETT_INLINE(gasnetti_##kind##_decrement_and_test)                                                               \
    int gasnetti_##kind##_decrement_and_test(A *p, int flags) { return gasnetti_##kind##_subtract(p, 1, flags) == 0; } \
    GASNETT_INLINE(gasnetti_##kind##_swap)                                                                             \
    T gasnetti_##kind##_swap(A *p, T v, int flags) {                                                                   \
        GASNETTI_RMW(T, flags, RMW, __atomic_exchange_n(&p->gasnetti_value, v, order));                                \
    }                                                                                                                  \
    GASNETT_INLINE(gasnetti_##kind##_compare_and_swap)                                                                 \
    int gasnetti_##kind##_compare_and_swap(A *p, T oldval, T newval, int flags) {                                      \
        GASNETTI_RMW(int, flags, CAS,                                                                                  \
                     __atomic_compare_exchange_n(&p->gasnetti_value, &oldval, newval, 0, (int)order, (int)order));     \
    }

GASNETTI_STRONG_OPERATIONS(strong32, gasnett_atomic32_t, uint32_t)
GASNETTI_STRONG_OPERATIONS(strong64, gasnett_atomic64_t, uint64_t)

#if GASNETT_THREAD_SAFE
#define GASNETTI_WEAK32(operation) gasnetti_strong32_##operation
#define GASNETTI_WEAK64(operation) gasnetti_strong64_##operation
#else
/* The same operations for programs with one thread: ordinary memory accesses. */
#define GASNETTI_PLAIN_OPERATIONS(kind, A, T)                                     \
    GASNETT_INLINE(gasnetti_##kind##_set)                                         \
    void gasnetti_##kind##_set(A *p, T v, int flags) {                            \
        (void)flags;                                                              \
        p->gasnetti_value = v;                                                    \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_read)                                        \
    T gasnetti_##kind##_read(A *p, int flags) {                                   \
        (void)flags;                                                              \
        return p->gasnetti_value;                                                 \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_add)                                         \
    T gasnetti_##kind##_add(A *p, T v, int flags) {                               \
        (void)flags;                                                              \
        return p->gasnetti_value += v;                                            \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_subtract)                                    \
    T gasnetti_##kind##_subtract(A *p, T v, int flags) {                          \
        (void)flags;                                                              \
        return p->gasnetti_value -= v;                                            \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_increment)                                   \
    void gasnetti_##kind##_increment(A *p, int flags) {                           \
        (void)flags;                                                              \
        p->gasnetti_value += 1;                                                   \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_decrement)                                   \
    void gasnetti_##kind##_decrement(A *p, int flags) {                           \
        (void)flags;                                                              \
        p->gasnetti_value -= 1;                                                   \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_decrement_and_test)                          \
    int gasnetti_##kind##_decrement_and_test(A *p, int flags) {                   \
        (void)flags;                                                              \
        return (p->gasnetti_value -= 1) == 0;                                     \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_swap)                                        \
    T gasnetti_##kind##_swap(A *p, T v, int flags) {                              \
        T old = p->gasnetti_value;                                                \
        (void)flags;                                                              \
        p->gasnetti_value = v;                                                    \
        return old;                                                               \
    }                                                                             \
    GASNETT_INLINE(gasnetti_##kind##_compare_and_swap)                            \
    int gasnetti_##kind##_compare_and_swap(A *p, T oldval, T newval, int flags) { \
        (void)flags;                                                              \
        if (p->gasnetti_value != oldval) return 0;                                \
        p->gasnetti_value = newval;                                               \
        return 1;                                                                 \
    }

GASNETTI_PLAIN_OPERATIONS(plain32, gasnett_atomic32_t, uint32_t)
GASNETTI_PLAIN_OPERATIONS(plain64, gasnett_atomic64_t, uint64_t)
#define GASNETTI_WEAK32(operation) gasnetti_plain32_##operation
#define GASNETTI_WEAK64(operation) gasnetti_plain64_##operation
#endif

/* ---- the exported functions of the same names ---- */

#ifndef GASNETT_LITE_MODE
#define GASNETTI_DECLARE_ATOMIC(prefix, A, T)          \
    extern void(prefix##_set)(A *, T, int);            \
    extern T(prefix##_read)(A *, int);                 \
    extern T(prefix##_add)(A *, T, int);               \
    extern T(prefix##_subtract)(A *, T, int);          \
    extern void(prefix##_increment)(A *, int);         \
    extern void(prefix##_decrement)(A *, int);         \
    extern int(prefix##_decrement_and_test)(A *, int); \
    extern T(prefix##_swap)(A *, T, int);              \
    extern int(prefix##_compare_and_swap)(A *, T, T, int);

GASNETTI_BEGIN_C
extern void(gasnett_local_mb)(void);
extern void(gasnett_local_wmb)(void);
extern void(gasnett_local_rmb)(void);
extern void(gasnett_weak_mb)(void);
extern void(gasnett_weak_wmb)(void);
extern void(gasnett_weak_rmb)(void);
extern void(gasnett_compiler_fence)(void);
extern void(gasnett_spinloop_hint)(void);
extern gasnett_atomic_sval_t(gasnett_atomic_signed)(gasnett_atomic_val_t);
extern gasnett_atomic_sval_t(gasnett_strongatomic_signed)(gasnett_atomic_val_t);
GASNETTI_DECLARE_ATOMIC(gasnett_atomic, gasnett_atomic_t, gasnett_atomic_val_t)
GASNETTI_DECLARE_ATOMIC(gasnett_atomic32, gasnett_atomic32_t, uint32_t)
GASNETTI_DECLARE_ATOMIC(gasnett_atomic64, gasnett_atomic64_t, uint64_t)
GASNETTI_DECLARE_ATOMIC(gasnett_strongatomic, gasnett_strongatomic_t, gasnett_strongatomic_val_t)
GASNETTI_DECLARE_ATOMIC(gasnett_strongatomic32, gasnett_strongatomic32_t, uint32_t)
GASNETTI_DECLARE_ATOMIC(gasnett_strongatomic64, gasnett_strongatomic64_t, uint64_t)
GASNETTI_END_C
#endif

/* ---- and their inline forms ---- */

#define gasnett_atomic_set(p, v, flags) GASNETTI_WEAK32(set)(p, v, flags)
#define gasnett_atomic_read(p, flags) GASNETTI_WEAK32(read)(p, flags)
#define gasnett_atomic_add(p, v, flags) GASNETTI_WEAK32(add)(p, v, flags)
#define gasnett_atomic_subtract(p, v, flags) GASNETTI_WEAK32(subtract)(p, v, flags)
#define gasnett_atomic_increment(p, flags) GASNETTI_WEAK32(increment)(p, flags)
#define gasnett_atomic_decrement(p, flags) GASNETTI_WEAK32(decrement)(p, flags)
#define gasnett_atomic_decrement_and_test(p, flags) GASNETTI_WEAK32(decrement_and_test)(p, flags)
#define gasnett_atomic_swap(p, v, flags) GASNETTI_WEAK32(swap)(p, v, flags)
#define gasnett_atomic_compare_and_swap(p, o, n, flags) GASNETTI_WEAK32(compare_and_swap)(p, o, n, flags)

#define gasnett_atomic32_set(p, v, flags) GASNETTI_WEAK32(set)(p, v, flags)
#define gasnett_atomic32_read(p, flags) GASNETTI_WEAK32(read)(p, flags)
#define gasnett_atomic32_add(p, v, flags) GASNETTI_WEAK32(add)(p, v, flags)
#define gasnett_atomic32_subtract(p, v, flags) GASNETTI_WEAK32(subtract)(p, v, flags)
#define gasnett_atomic32_increment(p, flags) GASNETTI_WEAK32(increment)(p, flags)
#define gasnett_atomic32_decrement(p, flags) GASNETTI_WEAK32(decrement)(p, flags)
#define gasnett_atomic32_decrement_and_test(p, flags) GASNETTI_WEAK32(decrement_and_test)(p, flags)
#define gasnett_atomic32_swap(p, v, flags) GASNETTI_WEAK32(swap)(p, v, flags)
#define gasnett_atomic32_compare_and_swap(p, o, n, flags) GASNETTI_WEAK32(compare_and_swap)(p, o, n, flags)

#define gasnett_atomic64_set(p, v, flags) GASNETTI_WEAK64(set)(p, v, flags)
#define gasnett_atomic64_read(p, flags) GASNETTI_WEAK64(read)(p, flags)
#define gasnett_atomic64_add(p, v, flags) GASNETTI_WEAK64(add)(p, v, flags)
#define gasnett_atomic64_subtract(p, v, flags) GASNETTI_WEAK64(subtract)(p, v, flags)
#define gasnett_atomic64_increment(p, flags) GASNETTI_WEAK64(increment)(p, flags)
#define gasnett_atomic64_decrement(p, flags) GASNETTI_WEAK64(decrement)(p, flags)
#define gasnett_atomic64_decrement_and_test(p, flags) GASNETTI_WEAK64(decrement_and_test)(p, flags)
#define gasnett_atomic64_swap(p, v, flags) GASNETTI_WEAK64(swap)(p, v, flags)
#define gasnett_atomic64_compare_and_swap(p, o, n, flags) GASNETTI_WEAK64(compare_and_swap)(p, o, n, flags)

#define gasnett_strongatomic_set(p, v, flags) gasnetti_strong32_set(p, v, flags)
#define gasnett_strongatomic_read(p, flags) gasnetti_strong32_read(p, flags)
#define gasnett_strongatomic_add(p, v, flags) gasnetti_strong32_add(p, v, flags)
#define gasnett_strongatomic_subtract(p, v, flags) gasnetti_strong32_subtract(p, v, flags)
#define gasnett_strongatomic_increment(p, flags) gasnetti_strong32_increment(p, flags)
#define gasnett_strongatomic_decrement(p, flags) gasnetti_strong32_decrement(p, flags)
#define gasnett_strongatomic_decrement_and_test(p, flags) gasnetti_strong32_decrement_and_test(p, flags)
#define gasnett_strongatomic_swap(p, v, flags) gasnetti_strong32_swap(p, v, flags)
#define gasnett_strongatomic_compare_and_swap(p, o, n, flags) gasnetti_strong32_compare_and_swap(p, o, n, flags)

#define gasnett_strongatomic32_set(p, v, flags) gasnetti_strong32_set(p, v, flags)
#define gasnett_strongatomic32_read(p, flags) gasnetti_strong32_read(p, flags)
#define gasnett_strongatomic32_add(p, v, flags) gasnetti_strong32_add(p, v, flags)
#define gasnett_strongatomic32_subtract(p, v, flags) gasnetti_strong32_subtract(p, v, flags)
#define gasnett_strongatomic32_increment(p, flags) gasnetti_strong32_increment(p, flags)
#define gasnett_strongatomic32_decrement(p, flags) gasnetti_strong32_decrement(p, flags)
#define gasnett_strongatomic32_decrement_and_test(p, flags) gasnetti_strong32_decrement_and_test(p, flags)
#define gasnett_strongatomic32_swap(p, v, flags) gasnetti_strong32_swap(p, v, flags)
#define gasnett_strongatomic32_compare_and_swap(p, o, n, flags) gasnetti_strong32_compare_and_swap(p, o, n, flags)

#define gasnett_strongatomic64_set(p, v, flags) gasnetti_strong64_set(p, v, flags)
#define gasnett_strongatomic64_read(p, flags) gasnetti_strong64_read(p, flags)
#define gasnett_strongatomic64_add(p, v, flags) gasnetti_strong64_add(p, v, flags)
#define gasnett_strongatomic64_subtract(p, v, flags) gasnetti_strong64_subtract(p, v, flags)
#define gasnett_strongatomic64_increment(p, flags) gasnetti_strong64_increment(p, flags)
#define gasnett_strongatomic64_decrement(p, flags) gasnetti_strong64_decrement(p, flags)
#define gasnett_strongatomic64_decrement_and_test(p, flags) gasnetti_strong64_decrement_and_test(p, flags)
#define gasnett_strongatomic64_swap(p, v, flags) gasnetti_strong64_swap(p, v, flags)
#define gasnett_strongatomic64_compare_and_swap(p, o, n, flags) gasnetti_strong64_compare_and_swap(p, o, n, flags)

#endif /* _INCLUDED_GASNETT_ATOMIC_H */

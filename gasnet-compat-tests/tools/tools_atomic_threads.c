/* README-tools, "Memory barriers" and "Atomic operations": atomicity and ordering between threads.
 * In the single-threaded mode only the strong forms promise atomicity, and the weak barriers may
 * vanish. */
#include <gasnet_tools.h>

#include "tools_check.h"

#if GASNETT_THREAD_SAFE

enum { THREADS = 4, ROUNDS = 20000 };

static gasnett_atomic_t counter = gasnett_atomic_init(0);
static gasnett_atomic64_t wide = gasnett_atomic64_init(0);
static gasnett_strongatomic32_t strong = gasnett_strongatomic32_init(0);
static gasnett_atomic32_t by_cas = gasnett_atomic32_init(0), token = gasnett_atomic32_init(1);
static gasnett_atomic_t countdown = gasnett_atomic_init(THREADS * ROUNDS);
static gasnett_atomic_t zeros = gasnett_atomic_init(0);
static uint32_t tokens_seen;

static void *count(void *id) {
    for (int i = 0; i < ROUNDS; i++) {
        gasnett_atomic_increment(&counter, 0);
        gasnett_atomic64_add(&wide, ((uint64_t)1 << 32) + 1, 0);
        (gasnett_strongatomic32_add)(&strong, 3, 0);
        for (;;) {
            uint32_t old = gasnett_atomic32_read(&by_cas, 0);
            if (gasnett_atomic32_compare_and_swap(&by_cas, old, old + 1, 0)) break;
        }
        if (gasnett_atomic_decrement_and_test(&countdown, GASNETT_ATOMIC_ACQ_IF_TRUE))
            gasnett_atomic_increment(&zeros, 0);
        /* swap as a lock: the token is with one thread at a time */
        while (gasnett_atomic32_swap(&token, 0, GASNETT_ATOMIC_ACQ) == 0) gasnett_sched_yield();
        tokens_seen++;
        gasnett_atomic32_set(&token, 1, GASNETT_ATOMIC_REL);
    }
    return NULL;
}

/* The data that barriers order: relaxed accesses, so that only the barriers do. */
#define WRITE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define READ(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)

/* Message passing: data is written before a flag and read after it. `way` selects how the two are
 * ordered. */
static int data;
static gasnett_atomic_t flag = gasnett_atomic_init(0);
static int way;

static void publish(int value) {
    WRITE(data, value);
    switch (way) {
        case 0: gasnett_atomic_set(&flag, (gasnett_atomic_val_t)value, GASNETT_ATOMIC_REL); break;
        case 1:
            gasnett_local_wmb();
            gasnett_atomic_set(&flag, (gasnett_atomic_val_t)value, 0);
            break;
        case 2:
            gasnett_weak_mb();
            gasnett_atomic_set(&flag, (gasnett_atomic_val_t)value, 0);
            break;
        case 3: gasnett_atomic_set(&flag, (gasnett_atomic_val_t)value, GASNETT_ATOMIC_MB_PRE); break;
        case 4: gasnett_atomic_increment(&flag, GASNETT_ATOMIC_REL); break;
        default:
            (gasnett_local_wmb)();
            gasnett_atomic_add(&flag, 1, 0);
            break;
    }
}

static int consume(int value) {
    while (gasnett_atomic_read(&flag, way == 0 ? GASNETT_ATOMIC_ACQ : 0) != (gasnett_atomic_val_t)value)
        gasnett_spinloop_hint();
    switch (way) {
        case 0: break;
        case 1: gasnett_local_rmb(); break;
        case 2: gasnett_weak_rmb(); break;
        case 3: (void)gasnett_atomic_read(&flag, GASNETT_ATOMIC_MB_POST); break;
        case 4: gasnett_local_mb(); break;
        default: (gasnett_local_rmb)(); break;
    }
    return READ(data);
}

static gasnett_atomic_t answered = gasnett_atomic_init(0);
static void *message(void *id) {
    for (int i = 1; i <= 500; i++) {
        if (id == NULL) {
            publish(i);
            while (gasnett_atomic_read(&answered, GASNETT_ATOMIC_ACQ) != (gasnett_atomic_val_t)i) gasnett_sched_yield();
        } else {
            CHECK(consume(i) == i);
            gasnett_atomic_set(&answered, (gasnett_atomic_val_t)i, GASNETT_ATOMIC_REL);
        }
    }
    return NULL;
}

/* Store buffering: with full barriers (and write barriers, which the specification makes full for
 * later loads) at least one of two threads sees the other's store. */
static int stored[2], loaded[2];
static gasnett_atomic_t arrived = gasnett_atomic_init(0);
static void meet(int n) {
    gasnett_atomic_increment(&arrived, GASNETT_ATOMIC_MB_PRE);
    while (gasnett_atomic_read(&arrived, GASNETT_ATOMIC_MB_POST) < (gasnett_atomic_val_t)n) gasnett_spinloop_hint();
}
static void *store_buffer(void *id) {
    int me = (int)(intptr_t)id, meetings = 0;
    for (int i = 1; i <= 3000; i++) {
        WRITE(stored[me], 0);
        meet(2 * ++meetings);
        WRITE(stored[me], 1);
        if (i % 2) gasnett_local_mb();
        else gasnett_local_wmb();
        WRITE(loaded[me], READ(stored[!me]));
        meet(2 * ++meetings);
        CHECK(READ(loaded[0]) || READ(loaded[1]));
        meet(2 * ++meetings);
    }
    return NULL;
}

int main(void) {
    in_threads(THREADS, count);
    CHECK(gasnett_atomic_read(&counter, 0) == THREADS * ROUNDS);
    CHECK(gasnett_atomic64_read(&wide, 0) == (((uint64_t)THREADS * ROUNDS) << 32) + THREADS * ROUNDS);
    CHECK(gasnett_strongatomic32_read(&strong, 0) == 3 * THREADS * ROUNDS);
    CHECK(gasnett_atomic32_read(&by_cas, 0) == THREADS * ROUNDS);
    CHECK(gasnett_atomic_read(&zeros, 0) == 1);
    CHECK(tokens_seen == THREADS * ROUNDS);
    for (way = 0; way < 6; way++) {
        gasnett_atomic_set(&flag, 0, 0);
        gasnett_atomic_set(&answered, 0, GASNETT_ATOMIC_MB_POST);
        in_threads(2, message);
    }
    in_threads(2, store_buffer);
    return test_result("tools_atomic_threads");
}

#else

int main(void) {
    /* One thread: the barriers exist and do no harm. */
    gasnett_local_mb();
    gasnett_local_wmb();
    gasnett_local_rmb();
    gasnett_weak_mb();
    gasnett_weak_wmb();
    gasnett_weak_rmb();
    gasnett_compiler_fence();
    gasnett_spinloop_hint();
    (gasnett_weak_mb)();
    (gasnett_weak_wmb)();
    (gasnett_weak_rmb)();
    (gasnett_compiler_fence)();
    (gasnett_spinloop_hint)();
    return test_result("tools_atomic_threads");
}

#endif

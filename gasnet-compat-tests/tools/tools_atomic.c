/* README-tools, "Atomic operations": results, limits, wrap-around, flags and storage, in one
 * thread; inline forms and exported functions alike. */
#include <gasnet_tools.h>

#include <stddef.h>

#include "tools_check.h"

#if !GASNETT_HAVE_ATOMIC_ADD_SUB || !GASNETT_HAVE_ATOMIC_CAS || !GASNETT_HAVE_STRONGATOMIC_ADD_SUB || \
    !GASNETT_HAVE_STRONGATOMIC_CAS
#error all groups of operations are expected
#endif
#if defined(GASNETT_USING_GENERIC_ATOMICOPS) || GASNETT_STRONGATOMIC_NOT_SIGNALSAFE || \
    GASNETT_STRONGATOMIC32_NOT_SIGNALSAFE || GASNETT_STRONGATOMIC64_NOT_SIGNALSAFE
#error native atomics are expected
#endif

static const int all_flags[] = {GASNETT_ATOMIC_NONE,
                                GASNETT_ATOMIC_RMB_PRE,
                                GASNETT_ATOMIC_WMB_PRE,
                                GASNETT_ATOMIC_MB_PRE,
                                GASNETT_ATOMIC_RMB_POST,
                                GASNETT_ATOMIC_WMB_POST,
                                GASNETT_ATOMIC_MB_POST,
                                GASNETT_ATOMIC_RMB_POST_IF_TRUE,
                                GASNETT_ATOMIC_RMB_POST_IF_FALSE,
                                GASNETT_ATOMIC_REL,
                                GASNETT_ATOMIC_ACQ,
                                GASNETT_ATOMIC_ACQ_IF_TRUE,
                                GASNETT_ATOMIC_ACQ_IF_FALSE,
                                GASNETT_ATOMIC_MB_PRE | GASNETT_ATOMIC_MB_POST,
                                GASNETT_ATOMIC_REL | GASNETT_ATOMIC_ACQ};

/* One family: (name) is the exported function, name( the inline form. */
#define TEST_FAMILY(prefix, T, max)                                                                       \
    static void test_##prefix(void) {                                                                     \
        static prefix##_t fixed = prefix##_init(17);                                                      \
        for (size_t i = 0; i < sizeof(all_flags) / sizeof(all_flags[0]); i++) {                           \
            int f = all_flags[i];                                                                         \
            prefix##_t x = prefix##_init(max);                                                            \
            CHECK(prefix##_read(&fixed, f) == 17);                                                        \
            CHECK(prefix##_read(&x, f) == (T)(max));                                                      \
            prefix##_increment(&x, f);                                                                    \
            CHECK(prefix##_read(&x, f) == 0);                                                             \
            prefix##_decrement(&x, f);                                                                    \
            CHECK(prefix##_read(&x, f) == (T)(max));                                                      \
            prefix##_set(&x, 2, f);                                                                       \
            CHECK(!prefix##_decrement_and_test(&x, f));                                                   \
            CHECK(prefix##_decrement_and_test(&x, f));                                                    \
            CHECK(prefix##_add(&x, 5, f) == 5);                                                           \
            CHECK(prefix##_subtract(&x, 7, f) == (T)(max)-1);                                             \
            CHECK(prefix##_add(&x, (T)-1, f) == (T)(max)-2);                                              \
            CHECK(prefix##_swap(&x, 9, f) == (T)(max)-2);                                                 \
            CHECK(!prefix##_compare_and_swap(&x, 8, 1, f) && prefix##_read(&x, 0) == 9);                  \
            CHECK(prefix##_compare_and_swap(&x, 9, 1, f) && prefix##_read(&x, 0) == 1);                   \
            (prefix##_set)(&x, 40, f);                                                                    \
            CHECK((prefix##_read)(&x, f) == 40);                                                          \
            (prefix##_increment)(&x, f);                                                                  \
            (prefix##_decrement)(&x, f);                                                                  \
            CHECK((prefix##_add)(&x, 2, f) == 42 && (prefix##_subtract)(&x, 41, f) == 1);                 \
            CHECK((prefix##_decrement_and_test)(&x, f));                                                  \
            CHECK((prefix##_swap)(&x, 3, f) == 0);                                                        \
            CHECK((prefix##_compare_and_swap)(&x, 3, 4, f) && !(prefix##_compare_and_swap)(&x, 3, 5, f)); \
            CHECK(prefix##_read(&x, 0) == 4);                                                             \
        }                                                                                                 \
    }

TEST_FAMILY(gasnett_atomic, gasnett_atomic_val_t, GASNETT_ATOMIC_MAX)
TEST_FAMILY(gasnett_atomic32, uint32_t, UINT32_MAX)
TEST_FAMILY(gasnett_atomic64, uint64_t, UINT64_MAX)
TEST_FAMILY(gasnett_strongatomic, gasnett_strongatomic_val_t, GASNETT_STRONGATOMIC_MAX)
TEST_FAMILY(gasnett_strongatomic32, uint32_t, UINT32_MAX)
TEST_FAMILY(gasnett_strongatomic64, uint64_t, UINT64_MAX)

/* Each argument is evaluated exactly once. */
static void test_evaluation(void) {
    gasnett_atomic_t x[2] = {gasnett_atomic_init(0), gasnett_atomic_init(0)};
    gasnett_atomic_t *p = x;
    int f = 0, v = 0;
    gasnett_atomic_set(p++, (gasnett_atomic_val_t)(++v), (f++, 0));
    CHECK(p == x + 1 && v == 1 && f == 1 && gasnett_atomic_read(&x[0], 0) == 1);
}

/* Ordinary scalars may be accessed through the fixed-width types, without padding or extra
 * alignment. */
static void test_storage(void) {
    struct {
        char c;
        double d;
    } a = {0, -1.0};
    union {
        uint64_t whole;
        uint32_t half[2];
    } u;
    CHECK(sizeof(gasnett_atomic_t) == 4 && sizeof(gasnett_atomic32_t) == 4 && sizeof(gasnett_atomic64_t) == 8);
    CHECK(sizeof(gasnett_strongatomic_t) == 4);
    gasnett_atomic64_set((gasnett_atomic64_t *)(void *)&a.d, 0, 0);
    CHECK(a.d == 0.0);
    u.whole = 0;
    gasnett_atomic64_add((gasnett_atomic64_t *)&u, ((uint64_t)3 << 32) | 5, 0);
    CHECK(u.half[0] + u.half[1] == 8);
}

static void test_signed(void) {
    gasnett_atomic_t x = gasnett_atomic_init(-1);
    gasnett_atomic_sval_t low = GASNETT_ATOMIC_SIGNED_MIN, high = GASNETT_ATOMIC_SIGNED_MAX;
    CHECK(gasnett_atomic_signed(gasnett_atomic_read(&x, 0)) == -1);
    gasnett_atomic_set(&x, (gasnett_atomic_val_t)high, 0);
    gasnett_atomic_increment(&x, 0);
    CHECK(gasnett_atomic_signed(gasnett_atomic_read(&x, 0)) == low);
    CHECK((gasnett_atomic_signed)(0xFFFFFFFFu) == -1 && (gasnett_strongatomic_signed)(0xFFFFFFFEu) == -2);
    CHECK(gasnett_strongatomic_signed(GASNETT_STRONGATOMIC_MAX) == -1);
    CHECK(GASNETT_STRONGATOMIC_SIGNED_MIN == low && GASNETT_STRONGATOMIC_SIGNED_MAX == high);
}

/* Strong atomics may be shared with a signal handler in every mode. */
static gasnett_strongatomic64_t from_signal = gasnett_strongatomic64_init(0);
static void on_signal(int sig) { gasnett_strongatomic64_increment(&from_signal, GASNETT_ATOMIC_REL); }

int main(void) {
    test_gasnett_atomic();
    test_gasnett_atomic32();
    test_gasnett_atomic64();
    test_gasnett_strongatomic();
    test_gasnett_strongatomic32();
    test_gasnett_strongatomic64();
    test_evaluation();
    test_storage();
    test_signed();
    gasnett_reghandler(SIGUSR1, on_signal);
    raise(SIGUSR1);
    CHECK(gasnett_strongatomic64_read(&from_signal, GASNETT_ATOMIC_ACQ) == 1);
    return test_result("tools_atomic");
}

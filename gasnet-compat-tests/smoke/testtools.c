// For packagers, to verify the tools: no job, no communication. Built in a build tree by make -C
// CONDUIT-conduit testtools-MODE. They look for "Done." in the output.
// NP: 1
// CONDUITS: smp
#include <gasnet_tools.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "FAIL testtools line %d: %s\n", __LINE__, #condition); \
            failures++;                                                            \
        }                                                                          \
    } while (0)

static void check_time(void) {
    gasnett_tick_t before = gasnett_ticks_now();
    CHECK(gasnett_nsleep(2000000) == 0);
    gasnett_tick_t after = gasnett_ticks_now();
    CHECK(gasnett_ticks_to_ns(after - before) >= 1000000);
    CHECK(gasnett_tick_granularityus() >= 0 && gasnett_tick_overheadus() >= 0);
    CHECK(gasnett_gettimeofday_us() > UINT64_C(1500000000000000));
}

static void check_environment(void) {
    char text[64];
    gasnett_setenv("TESTTOOLS_VALUE", "12K");
    CHECK(gasnett_getenv_int_withdefault("TESTTOOLS_VALUE", 0, 1) == 12 * 1024);
    gasnett_setenv("TESTTOOLS_VALUE", "y");
    CHECK(gasnett_getenv_yesno_withdefault("TESTTOOLS_VALUE", 0) == 1);
    gasnett_unsetenv("TESTTOOLS_VALUE");
    CHECK(gasnett_getenv("TESTTOOLS_VALUE") == NULL);
    CHECK(!strcmp(gasnett_format_number(1 << 20, text, sizeof text, 1), "1 MB"));
    CHECK(gasnett_parse_int("2MB", 1) == 2 << 20);
}

static void check_memory(void) {
    gasnett_atomic_t word = gasnett_atomic_init(5);
    gasnett_atomic64_t wide = gasnett_atomic64_init(0);
    gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
    gasnett_mutex_lock(&mutex);
    gasnett_local_mb();
    CHECK(gasnett_atomic_add(&word, 3, GASNETT_ATOMIC_ACQ) == 8);
    CHECK(gasnett_atomic_compare_and_swap(&word, 8, 2, 0) && gasnett_atomic_read(&word, 0) == 2);
    gasnett_atomic64_set(&wide, UINT64_C(1) << 40, GASNETT_ATOMIC_REL);
    CHECK(gasnett_atomic64_read(&wide, 0) == UINT64_C(1) << 40);
    gasnett_mutex_unlock(&mutex);
    CHECK(gasnett_count0s_uint64_t(UINT64_C(0x00ff00ff00ff00ff)) == 4);
    CHECK(gasnett_checksum("abc", 3) != gasnett_checksum("acb", 3));
}

int main(void) {
    check_time();
    check_environment();
    check_memory();
    CHECK(gasnett_cpu_count() >= 1 && gasnett_getPhysMemSz(0) > 0);
    CHECK(gasnett_gethostname()[0] != 0);
    CHECK(strstr(GASNETT_CONFIG_STRING, "RELEASE=") != NULL);
    if (failures == 0) printf("Done.\n");
    return failures != 0;
}

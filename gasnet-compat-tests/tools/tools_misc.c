/* README-tools, "Miscellaneous tools": affinity, limits, zero counting, checksum, memory, copies of
 * small values. */
#include <gasnet_tools.h>

#include <sched.h>
#include <sys/resource.h>

#include "tools_check.h"

static uintptr_t load3(const void *p) { GASNETT_VALUE_RETURN(p, 3); }

static void zero_counting(void) {
    unsigned char source[300], copy[320];
    for (int i = 0; i < 300; i++) source[i] = (unsigned char)(i % 7 == 0 || i % 11 == 0 ? 0 : i | 1);
    for (size_t from = 0; from < 9; from++) {
        for (size_t length = 0; from + length <= sizeof(source); length += 1 + length / 9) {
            size_t expected = 0;
            for (size_t i = 0; i < length; i++) expected += source[from + i] == 0;
            CHECK(gasnett_count0s(source + from, length) == expected);
            memset(copy, 0x55, sizeof(copy));
            CHECK(gasnett_count0s_copy(copy + 8, source + from, length) == expected);
            CHECK(!memcmp(copy + 8, source + from, length) && copy[7] == 0x55 && copy[8 + length] == 0x55);
        }
    }
    size_t big = 10 * 4096 + 5;
    char *a = (char *)calloc(1, big), *b = (char *)malloc(big);
    a[5000] = 1;
    CHECK(gasnett_count0s_copy(b, a, big) == big - 1 && b[5000] == 1 && b[big - 1] == 0);
    free(a);
    free(b);
    CHECK(gasnett_count0s_uint32_t(0) == 4 && gasnett_count0s_uint32_t(0x00FF0001) == 2 &&
          gasnett_count0s_uint32_t(~0u) == 0);
    CHECK(gasnett_count0s_uint64_t(0) == 8 && gasnett_count0s_uint64_t(0x8000000000000001ull) == 6);
    CHECK(gasnett_count0s_uintptr_t(0) == (int)sizeof(uintptr_t) &&
          gasnett_count0s_uintptr_t(256) == (int)sizeof(uintptr_t) - 1);
}

static void checksums(void) {
    char text[] = "some text";
    uint64_t sum = gasnett_checksum(text, sizeof(text));
    CHECK(sum == gasnett_checksum(text, sizeof(text)));
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] ^= 4;
        CHECK(sum != gasnett_checksum(text, sizeof(text)));
        text[i] ^= 4;
    }
    CHECK(gasnett_checksum(text, 3) != gasnett_checksum(text, 4));
    CHECK(gasnett_checksum(NULL, 0) == gasnett_checksum(text, 0));
}

static void limits(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0);
    limit.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
    gasnett_setenv("GASNET_MAXIMIZE_RLIMIT_CORE", "no");
    CHECK(gasnett_maximize_rlimit(RLIMIT_CORE, "RLIMIT_CORE"));
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0);
    gasnett_unsetenv("GASNET_MAXIMIZE_RLIMIT_CORE");
    CHECK(gasnett_maximize_rlimit(RLIMIT_CORE, "RLIMIT_CORE"));
    CHECK(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
    CHECK(!gasnett_maximize_rlimit(9999, "NOSUCH"));
    CHECK(gasnett_maximize_rlimits());
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
}

static void affinity(void) {
#if GASNETT_SET_AFFINITY_SUPPORT
    cpu_set_t before, after;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    CHECK(sched_getaffinity(0, sizeof(before), &before) == 0);
    if (CPU_COUNT(&before) == cpus) { /* else some processors are forbidden, and a refusal is right */
        CHECK(gasnett_set_affinity(cpus + 0) == 0);
        CHECK(sched_getaffinity(0, sizeof(after), &after) == 0);
        CHECK(CPU_COUNT(&after) == 1 && CPU_ISSET(0, &after));
        sched_setaffinity(0, sizeof(before), &before);
    }
#endif
}

int main(void) {
    unsigned char bytes[8] = {0};
    zero_counting();
    checksums();
    limits();
    affinity();
    gasnett_sched_yield();
    char *memory = (char *)gasnett_mmap(3 * GASNETT_PAGESIZE);
    CHECK(memory && (uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
    CHECK(gasnett_count0s(memory, 3 * GASNETT_PAGESIZE) == 3 * GASNETT_PAGESIZE);
    memory[3 * GASNETT_PAGESIZE - 1] = 1;

    GASNETT_VALUE_ASSIGN(bytes, 0x01020304, 4);
    uint32_t word;
    GASNETT_FAST_UNALIGNED_MEMCPY(&word, bytes, 4);
    CHECK(word == 0x01020304);
    word = 0x00030201;
    GASNETT_FAST_ALIGNED_MEMCPY(bytes, &word, 4);
    CHECK(load3(bytes) == (gasnett_isLittleEndian() ? 0x030201u : 0x000302u));
    return test_result("tools_misc");
}

/* Shared by the stress programs: client threads, and payloads that are quick to fill and to
 * verify. */
#ifndef COMPAT_TESTS_STRESS_H
#define COMPAT_TESTS_STRESS_H

#include "check.h"

#include <unistd.h>

/* Client threads per rank. */
#if defined(GASNET_PAR)
enum { STRESS_THREADS = 4 };
#else
enum { STRESS_THREADS = 1 };
#endif

typedef void stress_body_t(int thread);

#if defined(GASNET_PAR)
static stress_body_t *stress_body;
TEST_UNUSED static void *stress_thread(void *index) {
    stress_body((int)(intptr_t)index);
    return NULL;
}
#endif

/* Runs `body` in STRESS_THREADS threads (in the calling thread when there is only one), and returns
 * when all are done. */
TEST_UNUSED static void stress_run(stress_body_t *body) {
#if defined(GASNET_PAR)
    pthread_t threads[STRESS_THREADS];
    int i;
    stress_body = body;
    for (i = 0; i < STRESS_THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, stress_thread, (void *)(intptr_t)i) == 0);
    for (i = 0; i < STRESS_THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
#else
    body(0);
#endif
}

TEST_UNUSED static uint64_t stress_word(uint64_t seed, size_t i) {
    return (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i * UINT64_C(0xD1B54A32D192ED03);
}

TEST_UNUSED static void stress_fill(void *buffer, size_t bytes, uint64_t seed) {
    size_t words = bytes / 8;
    uint64_t word;
    for (size_t i = 0; i < words; i++) {
        word = stress_word(seed, i);
        memcpy((char *)buffer + 8 * i, &word, 8);
    }
    word = stress_word(seed, words);
    memcpy((char *)buffer + 8 * words, &word, bytes % 8);
}

/* Whether `buffer` holds what stress_fill wrote. */
TEST_UNUSED static int stress_same(const void *buffer, size_t bytes, uint64_t seed) {
    size_t words = bytes / 8;
    uint64_t wrong = 0, found;
    for (size_t i = 0; i < words; i++) {
        memcpy(&found, (const char *)buffer + 8 * i, 8);
        wrong |= found ^ stress_word(seed, i);
    }
    uint64_t word = stress_word(seed, words);
    return wrong == 0 && memcmp((const char *)buffer + 8 * words, &word, bytes % 8) == 0;
}

/* A number of operations such that larger jobs do not take longer: `total` shared among the ranks,
 * at least `least`. */
TEST_UNUSED static int stress_share(int total, int least) {
    int each = total / (int)np;
    return each > least ? each : least;
}

#endif

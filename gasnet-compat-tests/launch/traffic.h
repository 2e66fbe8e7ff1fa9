/* Shared by messages.h and transfers.h: the numbers that have arrived, and sizes and contents,
 * which both ends derive from sender, receiver, kind and number. */
#ifndef COMPAT_TESTS_TRAFFIC_H
#define COMPAT_TESTS_TRAFFIC_H

#include "../stress/stress.h"

static void *zeroed(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    REQUIRE(memory != NULL);
    return memory;
}

/* Numbers that have arrived. */
struct come {
    uint64_t *bits;
    uint32_t words, count, above; /* `above`: more than the highest number */
};

/* Notes a number; whether it is new. */
static int note(struct come *come, uint32_t number) {
    uint64_t bit = UINT64_C(1) << number % 64;
    uint32_t word = number / 64;
    if (word >= come->words) {
        uint32_t words = 2 * word + 16;
        come->bits = (uint64_t *)realloc(come->bits, words * sizeof *come->bits);
        REQUIRE(come->bits != NULL);
        memset(come->bits + come->words, 0, (words - come->words) * sizeof *come->bits);
        come->words = words;
    }
    if (come->bits[word] & bit) return 0;
    come->bits[word] |= bit;
    come->count++;
    if (number >= come->above) come->above = number + 1;
    return 1;
}

/* Key from which size and contents of a message or transfer derive. */
static uint64_t key_of(uint64_t seed, gex_Rank_t from, gex_Rank_t to, int kind, uint32_t number) {
    const uint64_t words[] = {from, to, (uint64_t)kind, number};
    uint64_t key = seed;
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        key = (key ^ words[i]) * UINT64_C(0x9E3779B97F4A7C15);
        key ^= key >> 32;
    }
    return key;
}

/* Sizes of all magnitudes up to `most`, small ones more often. */
static size_t size_of(uint64_t key, size_t least, size_t most) {
    static const size_t limits[] = {0, 64, 256, 256, 2000, 2000, 8000, SIZE_MAX};
    size_t limit = limits[key % ARRAY_LENGTH(limits)];
    if (limit > most) limit = most;
    return limit <= least ? least : least + (size_t)(key >> 8) % (limit - least + 1);
}

#endif

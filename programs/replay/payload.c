/* Contents: a stamp that names the message, and words that follow from it. */
#include "replay.h"

#include <string.h>

uint64_t stamp(unsigned source, int way, int handler, uint32_t number) {
    return (uint64_t)source << 48 | (uint64_t)way << 47 | (uint64_t)handler << 40 | number;
}

static uint64_t word(uint64_t seed, size_t index) {
    uint64_t x = (seed * 2 + 1) * 0xD6E8FEB86659FD93u + index * 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return index == 0 ? seed : x ^ x >> 29;
}

/* The word at an index of a payload. */
static uint64_t content(size_t bytes, uint64_t seed, size_t index) {
    return bytes < 8 ? word(seed >> 40, 1) : word(seed, index);
}

void fill(void *to, size_t bytes, uint64_t seed) {
    size_t i;
    for (i = 0; i * 8 < bytes; i++) {
        uint64_t x = content(bytes, seed, i);
        memcpy((char *)to + i * 8, &x, bytes - i * 8 < 8 ? bytes - i * 8 : 8);
    }
}

int is_filled(const void *at, size_t bytes, uint64_t seed) {
    size_t i;
    for (i = 0; i * 8 < bytes; i++) {
        uint64_t x = content(bytes, seed, i);
        if (memcmp((const char *)at + i * 8, &x, bytes - i * 8 < 8 ? bytes - i * 8 : 8) != 0) return 0;
    }
    return 1;
}

/* Data in which each byte depends on a seed and on its position: a transfer to another place, or of
 * another place, is seen. */
#include "selftest.h"

#include <string.h>

static uint64_t word(uint64_t seed, size_t index) {
    uint64_t x = (seed * 2 + 1) * 0xD6E8FEB86659FD93u + index * 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 29;
}

static unsigned char byte(uint64_t seed, size_t position) {
    return (unsigned char)(word(seed, position / 8) >> 8 * (position % 8));
}

void fill(void *to, size_t bytes, uint64_t seed, size_t position) {
    unsigned char *at = to, *end = at + bytes;
    for (; at < end && position % 8 != 0; at++) *at = byte(seed, position++);
    for (; end - at >= 8; at += 8, position += 8) {
        size_t i;
        uint64_t x = word(seed, position / 8);
        for (i = 0; i < 8; i++) at[i] = (unsigned char)(x >> 8 * i);
    }
    for (; at < end; at++) *at = byte(seed, position++);
}

static void check_byte(struct finding *found, const unsigned char *at, uint64_t seed, size_t position) {
    unsigned char expected = byte(seed, position);
    if (*at == expected) return;
    if (found->wrong++ == 0) {
        found->first = (long)position;
        found->is = *at;
        found->expected = expected;
    }
}

void check(struct finding *found, const void *what, size_t bytes, uint64_t seed, size_t position) {
    const unsigned char *at = what, *end = at + bytes;
    while (at < end) {
        size_t part = (size_t)(end - at) < 8 || position % 8 != 0 ? 1 : 8, i;
        unsigned char expected[8];
        if (part == 8) fill(expected, 8, seed, position);
        if (part == 1 || memcmp(at, expected, 8) != 0) {
            for (i = 0; i < part; i++) check_byte(found, at + i, seed, position + i);
        }
        at += part;
        position += part;
    }
}

/* Sizes: all small ones, some of each magnitude, those around powers of two, around the limits of
 * messages, and around the numbers that the environment sets or networks have: libraries change
 * their ways of transfer there. */
#include "selftest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 130, MOST_SIZES = 500 }; /* limits of inline data are among the small ones */
static struct size sizes[MOST_SIZES];
static size_t count, stride;

static void add(size_t bytes, const char *name, int distance) {
    char text[80];
    size_t i;
    if (bytes == 0 || bytes > most_bytes() || count == MOST_SIZES) return;
    for (i = 0; i < count; i++) {
        if (sizes[i].bytes == bytes) return;
    }
    if (distance == 0) snprintf(text, sizeof text, "%s", name);
    else snprintf(text, sizeof text, "%s%+d", name, distance);
    sizes[count].bytes = bytes;
    sizes[count].class = strdup(text);
    if (sizes[count].class == NULL) gasnet_exit(1);
    count++;
}

static void around(size_t bytes, const char *name) {
    int distance;
    for (distance = -1; distance <= 1; distance++) {
        if (bytes < most_bytes() || distance <= 0) add(bytes + (size_t)distance, name, distance);
    }
}

/* Numbers of the environment, in variables of GASNet and of network libraries. */
static void around_settings(void) {
    extern char **environ;
    static const char *const prefixes[] = {"GASNET_", "FI_", "UGNI_"};
    char **variable, name[48], *rest;
    size_t i;
    for (variable = environ; *variable != NULL; variable++) {
        const char *value = strchr(*variable, '=');
        for (i = 0; value != NULL && i < sizeof prefixes / sizeof prefixes[0]; i++) {
            unsigned long long bytes;
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) != 0) continue;
            errno = 0;
            bytes = strtoull(value + 1, &rest, 10);
            if (rest == value + 1 || errno != 0 || value[1] == '-') continue;
            if (*rest == 'k' || *rest == 'K') bytes <<= 10;
            if (*rest == 'm' || *rest == 'M') bytes <<= 20;
            snprintf(name, sizeof name, "%.*s", (int)(value - *variable), *variable);
            if (bytes > SMALL && bytes <= most_bytes()) around((size_t)bytes, name);
        }
    }
}

/* Those of networks whose variables are not set. */
static void around_defaults(void) {
    static const struct {
        size_t bytes;
        const char *name;
    } usual[] = {{72, "inline data of ibv"},     {1256, "injected data of ofi_rxd"}, {1500, "gathered data of ibv"},
                 {3864, "injected data of sm2"}, {4012, "packed Longs of ibv"},      {4096, "registration of gni"},
                 {16384, "rendezvous of gni"}};
    size_t i;
    for (i = 0; i < sizeof usual / sizeof usual[0]; i++) around(usual[i].bytes, usual[i].name);
}

static size_t common_divisor(size_t a, size_t b) { return b == 0 ? a : common_divisor(b, a % b); }

void plan_setup(void) {
    size_t bytes;
    int power;
    char name[24];
    for (bytes = 1; bytes <= SMALL; bytes++) add(bytes, "small", 0);
    for (; bytes <= 64 << 10; bytes += bytes / 8) add(bytes, "between", 0);
    around(gex_AM_LUBRequestMedium(), "largest Medium request");
    around(gex_AM_LUBReplyMedium(), "largest Medium reply");
    around(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 0), "largest Medium without arguments");
    around_settings();
    around_defaults();
    for (power = 6, bytes = 64; bytes <= most_bytes(); power++, bytes *= 2) {
        snprintf(name, sizeof name, "2^%d", power);
        around(bytes, name);
        if (!options.quick) {
            snprintf(name, sizeof name, "3*2^%d", power - 1);
            add(bytes / 2 * 3, name, 0);
            snprintf(name, sizeof name, "2^%d", power);
            add(bytes - GUARD, name, -GUARD); /* with a header it fills a buffer */
        }
    }
    stride = count * 5 / 13;
    while (common_divisor(stride, count) != 1) stride++;
}

size_t plan_count(void) { return count; }

/* `most` takes the place of a larger size. */
struct size plan_size(size_t turn, size_t most) {
    struct size size = sizes[turn % count * stride % count];
    if (size.bytes > most) {
        size.bytes = most;
        size.class = "largest here";
    }
    return size;
}

/* The first pass takes each size at alignments that change from turn to turn, later passes others.
 */
unsigned plan_alignment(size_t turn) {
    uint64_t state = turn + turn / count * 7919;
    if (turn % 4 == 0) return 0;
    return (unsigned)(next_random(&state) % (LINE * LINE));
}

uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t next_seed(void) {
    static uint32_t last;
    return (uint32_t)(++last + me * 0x1000193u + options.seed * 0x9E3779B1u);
}

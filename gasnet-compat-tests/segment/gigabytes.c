// In EVERYTHING: 3 GiB in one put and one get, of memory that nobody attached. The kernel copies
// less than 2 GiB at a time.
// NP: 2
// SEGMENTS: everything
// MODES: par
// TIMEOUT: 300
#include "check.h"

#include <gasnet_coll.h>

#define BYTES ((size_t)3 << 30)
enum { STEP = 4096 };

static size_t available(void) {
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %zu", &kib) != 1) continue;
    if (file) fclose(file);
    return kib << 10;
}

/* One word per page, and the last byte. */
static void mark(char *base, uint64_t seed) {
    for (size_t i = 0; i + 8 <= BYTES; i += STEP) *(uint64_t *)(void *)(base + i) = seed + i * 3;
    base[BYTES - 1] = (char)seed;
}
static void look(const char *base, uint64_t seed) {
    size_t wrong = 0;
    for (size_t i = 0; i + 8 <= BYTES; i += STEP) wrong += *(const uint64_t *)(const void *)(base + i) != seed + i * 3;
    CHECKF(wrong == 0 && base[BYTES - 1] == (char)seed, "%zu words are wrong", wrong);
}

int main(int argc, char **argv) {
    char *theirs = NULL;
    size_t free_bytes;
    test_init("gigabytes", &argc, &argv);
    size_t here = available();
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &free_bytes, &here, sizeof here, 0));
    if (free_bytes < 2 * BYTES + BYTES / 2) test_skip("needs 7.5 GiB of free memory");
    char *base = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(base != MAP_FAILED);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 1, &theirs, &base, sizeof base, 0));
    if (me == 0) {
        PHASE("put");
        mark(base, 77);
        OK(gex_RMA_PutBlocking(tm, 1, theirs, base, BYTES, 0));
    }
    barrier();
    PHASE("look, and mark again");
    if (me == 1) {
        look(base, 77);
        mark(base, 99);
    }
    barrier();
    PHASE("get");
    if (me == 0) {
        gex_Event_Wait(gex_RMA_GetNB(tm, base, 1, theirs, BYTES, 0));
        look(base, 99);
    }
    return test_finish();
}

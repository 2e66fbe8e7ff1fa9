// Puts and gets of more than 4 GiB.
// NP: 2
// SEGMENTS: fast large
// MODES: par seq
// TIMEOUT: 180
#include "stress.h"

#include <sys/mman.h>

#define WINDOW ((size_t)64 << 20)
#define LENGTH (((size_t)4 << 30) + WINDOW + 11)
#define MAPPED (LENGTH / WINDOW * WINDOW + WINDOW)

static unsigned long long available_kib(void) {
    unsigned long long value = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &value) == 1) break;
    if (file) fclose(file);
    return value;
}

/* An address range of MAPPED bytes that costs WINDOW bytes of memory: the same pages again and
 * again. */
static char *repeated(void) {
    int fd = memfd_create("window", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)WINDOW) != 0) return NULL;
    char *base = (char *)mmap(NULL, MAPPED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    for (size_t at = 0; at < MAPPED; at += WINDOW)
        if (mmap(base + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return NULL;
    close(fd);
    return base;
}

static void check_window(const char *base, size_t at, uint64_t seed) {
    size_t bytes = LENGTH - at < WINDOW ? LENGTH - at : WINDOW;
    CHECKF(stress_same(base + at, bytes, seed), "the 64 MiB from %zu on are damaged", at);
}

int main(int argc, char **argv) {
    char *local = NULL;
    test_init("rma_huge", &argc, &argv);
    share_setup();
    {
        unsigned long long kib = available_kib();
        kib = *SHARED(unsigned long long, share(&kib, sizeof kib), 0);
        if (kib < 7ULL << 20) test_skip("less than 7 GiB of memory are available");
    }
    gex_Rank_t last = np - 1;
    uintptr_t page = GASNET_PAGESIZE;
    if (gasnet_getMaxLocalSegmentSize() < LENGTH + page)
        test_skip("no segment of more than 4 GiB (GASNET_MAX_SEGSIZE)");
    test_attach(me == last ? LENGTH : page); /* one large segment; the others are one page */
    char *target = seg_of(last);
    barrier();

    PHASE("more than 4 GiB");
    test_start_watchdog();
    if (me == 0) {
        local = repeated();
        REQUIRE(local != NULL);
        stress_fill(local, WINDOW, 5);
        gex_Event_Wait(gex_RMA_PutNB(tm, last, target, local, LENGTH, GEX_EVENT_DEFER, 0));
    }
    barrier();
    test_start_watchdog();
    if (me == last)
        for (size_t at = 0; at < LENGTH; at += WINDOW) check_window(target, at, 5);
    barrier();
    test_start_watchdog();
    if (me == 0) {
        memset(local, 0, WINDOW);
        gex_RMA_GetBlocking(tm, local, last, target, LENGTH, 0);
        check_window(local, 0, 5);
        check_window(local, LENGTH / WINDOW * WINDOW, 5);
    }
    barrier();
    return test_finish();
}

// In a job that uses a network malloc keeps what the client frees: the same blocks again cause no
// page faults. GASNET_DISABLE_MUNMAP=0 restores the C library's rules, 1 keeps on every conduit.
// NP: 1 2
// TIMEOUT: 60
// VARIANT: not
// ENV: GASNET_DISABLE_MUNMAP=0
// VARIANT: set
// ENV: GASNET_DISABLE_MUNMAP=1
#include "check.h"

#include <sys/resource.h>

enum { BLOCKS = 16, BLOCK = 1 << 20, WARM_UP = 3, ROUNDS = 4 };

/* Allocates, writes and frees as a flood of large messages does; returns the page faults. */
static long flood(void) {
    struct rusage before, after;
    char *block[BLOCKS];
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE((block[i] = (char *)malloc(BLOCK)) != NULL);
        memset(block[i], i + 1, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(block[i][0] == i + 1 && block[i][BLOCK - 1] == i + 1);
        free(block[i]);
    }
    getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

int main(int argc, char **argv) {
    const char *set = getenv("GASNET_DISABLE_MUNMAP");
    gex_Rank_t neighbours = 0;
    long faults = 0;
    test_init("malloc_keeps", &argc, &argv);
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("not glibc's malloc");
#endif
    gex_System_QueryNbrhdInfo(NULL, &neighbours, NULL);
    int keeps = set ? atoi(set) : neighbours < np;
    for (int i = 0; i < WARM_UP; i++) flood();
    for (int i = 0; i < ROUNDS; i++) faults += flood();
    /* Half of what one round has where freed memory goes back. */
    if (keeps) CHECKF(faults < BLOCKS * BLOCK / 4096 / 2, "%ld page faults", faults);
    if (set && !keeps) CHECKF(faults >= ROUNDS, "%ld page faults", faults); /* of huge pages */
    barrier();
    return test_finish();
}

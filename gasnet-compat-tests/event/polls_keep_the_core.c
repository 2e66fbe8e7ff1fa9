// A poll that finds nothing does not yield: in mode SPIN never, in the others not while the process
// has other threads and a core for each rank. Yields are counted by the program's own sched_yield.
// NP: 1
// MODES: par
// TIMEOUT: 60
#include "check.h"

#ifdef TEST_HAS_THREADS
#include <sys/syscall.h>

static unsigned yields;
static int pipe_ends[2];

int sched_yield(void);
int sched_yield(void) {
    ATOMIC_ADD(&yields, 1U);
    return (int)syscall(SYS_sched_yield);
}

static void *block(void *unused) {
    char byte;
    REQUIRE(read(pipe_ends[0], &byte, 1) == 1);
    return unused;
}

static unsigned yields_of_polls(int mode) {
    unsigned before;
    int i;
    OK(gasnet_set_waitmode(mode));
    before = ATOMIC_GET(&yields);
    for (i = 0; i < 200000; i++) OK(gasnet_AMPoll());
    return ATOMIC_GET(&yields) - before;
}
#endif

int main(int argc, char **argv) {
    test_init("polls_keep_the_core", &argc, &argv);
#ifdef TEST_HAS_THREADS
    {
        pthread_t thread;
        PHASE("alone");
        CHECK(yields_of_polls(GASNET_WAIT_SPIN) == 0);
        PHASE("with another thread");
        REQUIRE(pipe(pipe_ends) == 0 && pthread_create(&thread, NULL, block, NULL) == 0);
        CHECK(yields_of_polls(GASNET_WAIT_SPIN) == 0);
        CHECK(yields_of_polls(GASNET_WAIT_SPINBLOCK) == 0);
        CHECK(yields_of_polls(GASNET_WAIT_BLOCK) == 0);
        REQUIRE(write(pipe_ends[1], "", 1) == 1 && pthread_join(thread, NULL) == 0);
    }
#else
    test_skip("needs threads");
#endif
    return test_finish();
}

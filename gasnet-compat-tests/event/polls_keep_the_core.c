// A poll that finds nothing does not yield in mode SPIN, and does in the others. Yields are counted
// by the program's own sched_yield.
// NP: 1
// MODES: par
// TIMEOUT: 60
#include "check.h"

#include <sys/syscall.h>

static unsigned yields;

int sched_yield(void);
int sched_yield(void) {
    ATOMIC_ADD(&yields, 1U);
    return (int)syscall(SYS_sched_yield);
}

static unsigned yields_of_polls(int mode) {
    OK(gasnet_set_waitmode(mode));
    unsigned before = ATOMIC_GET(&yields);
    for (int i = 0; i < 200000; i++) OK(gasnet_AMPoll());
    return ATOMIC_GET(&yields) - before;
}

int main(int argc, char **argv) {
    test_init("polls_keep_the_core", &argc, &argv);
    CHECK(yields_of_polls(GASNET_WAIT_SPIN) == 0);
    CHECK(yields_of_polls(GASNET_WAIT_SPINBLOCK) > 0);
    return test_finish();
}

// A thread that cannot sleep, since another runs a handler, yields in each iteration of its wait.
// NP: 2
// MODES: par
// CONDUITS: smp
// TIMEOUT: 60
#include "check.h"
#include <sys/syscall.h>

enum { ITERATIONS = 1500 };
static gex_AM_Index_t long_index = 150;
static int entered, release_handler, handled, yields;

/* The library's yields come here. */
int sched_yield(void) {
    ATOMIC_ADD(&yields, 1);
    return (int)syscall(SYS_sched_yield);
}

static void on_long(gex_Token_t token) {
    ATOMIC_SET(&entered, 1);
    while (!ATOMIC_GET(&release_handler)) usleep(1000);
    ATOMIC_SET(&handled, 1);
}

static void *run_handler(void *unused) {
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled));
    return NULL;
}

int main(int argc, char **argv) {
    int iterations = 0;
    uint32_t one = 1;
    pthread_t thread;
    test_init("refused_sleep_yields", &argc, &argv);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    OK(gasnet_set_waitmode(GASNET_WAIT_BLOCK));
    test_attach(GASNET_PAGESIZE);
    uint32_t *go = (uint32_t *)(void *)seg_of(1);
    barrier();
    if (me == 1) {
        GASNET_BLOCKUNTIL(ATOMIC_GET(go) == 1);
        OK(gex_AM_RequestShort0(tm, 0, long_index, 0));
    } else {
        REQUIRE(pthread_create(&thread, NULL, run_handler, NULL) == 0);
        PHASE("handler starts"); /* in the other thread, since this one does not poll now */
        OK(gex_RMA_PutBlocking(tm, 1, go, &one, sizeof one, 0));
        while (!ATOMIC_GET(&entered)) usleep(1000);
        PHASE("beside the handler");
        int before = ATOMIC_GET(&yields);
        GASNET_BLOCKUNTIL(++iterations >= ITERATIONS);
        before = yields - before;
        CHECKF(2 * before >= ITERATIONS, "%d yields in %d iterations of a wait", before, iterations);
        ATOMIC_SET(&release_handler, 1);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    barrier();
    return test_finish();
}

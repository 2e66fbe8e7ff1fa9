// GASNET_BLOCKUNTIL ends when another thread changes the word, whether that thread uses GASNet or
// not, in every wait mode; and when another thread's poll runs the handler.
// NP: 1 2
// MODES: par
// TIMEOUT: 90
#include "check.h"

#include <time.h>

static gex_AM_Index_t set_index = 150;
static volatile int word, handler_word;
static int stop;

static void on_set(gex_Token_t token, gex_AM_Arg_t value) { ATOMIC_SET(&handler_word, (int)value); }

static void *write_later(void *value) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = 20000000};
    nanosleep(&pause, NULL);
    ATOMIC_SET(&word, (int)(intptr_t)value);
    return NULL;
}
static void *poll_for_others(void *unused) {
    while (!ATOMIC_GET(&stop)) gasnet_AMPoll();
    return NULL;
}

int main(int argc, char **argv) {
    test_init("block_until_thread", &argc, &argv);
    static const int modes[] = {GASNET_WAIT_BLOCK, GASNET_WAIT_SPINBLOCK, GASNET_WAIT_SPIN};
    pthread_t thread;
    register_handler(set_index, (gex_AM_Fn_t)on_set, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    barrier();
    for (int m = 0; m < 3; m++) {
        OK(gasnet_set_waitmode(modes[m]));
        for (int i = 1; i <= 3; i++) {
            PHASE("another thread writes");
            ATOMIC_SET(&word, 0);
            REQUIRE(pthread_create(&thread, NULL, write_later, (void *)(intptr_t)i) == 0);
            GASNET_BLOCKUNTIL(ATOMIC_GET(&word) == i);
            REQUIRE(pthread_join(thread, NULL) == 0);
        }
        PHASE("another thread polls");
        ATOMIC_SET(&stop, 0);
        REQUIRE(pthread_create(&thread, NULL, poll_for_others, NULL) == 0);
        for (int i = 1; i <= 50; i++) {
            OK(gex_AM_RequestShort1(tm, (me + 1) % np, set_index, 0, m * 1000 + i));
            GASNET_BLOCKUNTIL(ATOMIC_GET(&handler_word) == m * 1000 + i);
            barrier();
        }
        ATOMIC_SET(&stop, 1);
        REQUIRE(pthread_join(thread, NULL) == 0);
        barrier();
    }
    return test_finish();
}

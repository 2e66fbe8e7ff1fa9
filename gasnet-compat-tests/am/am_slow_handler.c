// A handler that runs for long hides no other sender's message from the other threads of its
// process: it ends only when another thread has handled the messages of all other senders.
// MODES: par
// NP: 5 6 9
// SEGMENTS: fast large
// CONDUITS: smp
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t short_index = 150;
static int begun, ended;

static void on_short(gex_Token_t token) {
    if (ATOMIC_ADD(&begun, 1) == 1)
        while (ATOMIC_GET(&ended) < (int)np - 2) usleep(1000);
    ATOMIC_ADD(&ended, 1);
}

static void *helper(void *unused) {
    while (ATOMIC_GET(&begun) == 0) usleep(1000);
    while (ATOMIC_GET(&ended) < (int)np - 1) gasnet_AMPoll();
    return NULL;
}

int main(int argc, char **argv) {
    uint32_t one = 1;
    test_init("am_slow_handler", &argc, &argv);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(4096);
    volatile uint32_t *mine = (volatile uint32_t *)seg_of(me);
    barrier();
    if (me == 0) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, helper, NULL) == 0);
        PHASE("senders");
        for (gex_Rank_t r = 1; r < np; r++) OK(gex_RMA_PutBlocking(tm, r, seg_of(r), &one, sizeof one, 0));
        for (gex_Rank_t r = 1; r < np; r++)
            while (__atomic_load_n(mine + r, __ATOMIC_ACQUIRE) == 0) usleep(1000);
        PHASE("handlers");
        while (ATOMIC_GET(&ended) < (int)np - 1) gasnet_AMPoll();
        REQUIRE(pthread_join(thread, NULL) == 0);
    } else {
        /* rank 0 polls only after it has seen the words of all, and a word follows its message */
        PHASE("sending");
        while (__atomic_load_n(mine, __ATOMIC_ACQUIRE) == 0) usleep(1000);
        OK(gex_AM_RequestShort0(tm, 0, short_index, 0));
        OK(gex_RMA_PutBlocking(tm, 0, seg_of(0) + me * sizeof one, &one, sizeof one, 0));
    }
    barrier();
    return test_finish();
}

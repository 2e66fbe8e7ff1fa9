// GASNET_BLOCKUNTIL ends when its condition changes by a handler, by a neighbour's put, by an own
// non-blocking get, at once when it holds already; the condition is evaluated, not remembered;
// polling alone makes progress.
// NP: 1 2 4 7
// TIMEOUT: 90
#include "check.h"

enum { ROUNDS = 60 };
static gex_AM_Index_t set_index = 150;
static volatile int word;

static void on_set(gex_Token_t token, gex_AM_Arg_t value) { ATOMIC_SET(&word, (int)value); }

static int evaluations;
static int evaluate(void) { return ++evaluations >= 5; }

int main(int argc, char **argv) {
    test_init("block_until", &argc, &argv);
    register_handler(set_index, (gex_AM_Fn_t)on_set, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    test_attach(4096);
    volatile uint64_t *flag = (volatile uint64_t *)seg_of(me);
    *flag = 0;
    gex_Rank_t right = (me + 1) % np;
    gex_Rank_t left = (me + np - 1) % np;
    char *remote = seg_of(right);
    (void)left;
    barrier();

    PHASE("true at once");
    GASNET_BLOCKUNTIL(1);
    PHASE("evaluated again and again");
    GASNET_BLOCKUNTIL(evaluate());
    CHECK(evaluations == 5);

    PHASE("changed by a handler");
    for (int i = 1; i <= ROUNDS; i++) { /* round and round the ring */
        if (me == 0) OK(gex_AM_RequestShort1(tm, right, set_index, 0, i));
        GASNET_BLOCKUNTIL(ATOMIC_GET(&word) == i);
        if (me != 0) OK(gex_AM_RequestShort1(tm, right, set_index, 0, i));
    }
    barrier();

    PHASE("changed by a put");
    for (int i = 1; i <= ROUNDS; i++) {
        if (me == 0) OK(gex_RMA_PutBlockingVal(tm, right, remote, (gex_RMA_Value_t)i, 8, 0));
        GASNET_BLOCKUNTIL(*flag == (uint64_t)i);
        if (me != 0) OK(gex_RMA_PutBlockingVal(tm, right, remote, (gex_RMA_Value_t)i, 8, 0));
    }
    barrier();

    PHASE("changed by an own get");
    for (int i = 1; i <= ROUNDS; i++) {
        static volatile uint64_t fetched;
        fetched = 0;
        gex_Event_t event = gex_RMA_GetNB(tm, (void *)(uintptr_t)&fetched, right, remote, 8, 0);
        GASNET_BLOCKUNTIL(gex_Event_Test(event) == 0);
        CHECK(fetched == ROUNDS);
    }

    PHASE("polling");
    barrier();
    OK(gex_AM_RequestShort1(tm, right, set_index, 0, 9999));
    while (ATOMIC_GET(&word) != 9999) OK(gasnet_AMPoll());
    barrier();
    return test_finish();
}

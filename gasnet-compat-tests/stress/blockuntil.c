// GASNET_BLOCKUNTIL on a word that a peer's put, a handler or another thread changes, also where
// another thread's poll runs the handler, in every wait mode; and a wait that outlasts any
// spinning.
// NP: 1 2 4
// TIMEOUT: 60
#include "stress.h"

enum { POKE = 200, ROUNDS = 50 };
static uint64_t *mine, *next_word;
static gex_Rank_t next;
static int poked;
#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
static int by_thread;
#endif

static void on_poke(gex_Token_t token) { ATOMIC_ADD(&poked, 1); }

/* A chain around all ranks: each waits for its predecessor's put, then puts; so almost all wait all
 * the time. */
static void by_put(void) {
    uint64_t round;
    PHASE("BLOCKUNTIL by a put");
    for (round = 1; round <= ROUNDS; round++) {
        if (me == 0) gex_RMA_PutBlocking(tm, next, next_word, &round, 8, 0);
        GASNET_BLOCKUNTIL(*(volatile uint64_t *)mine == round);
        if (me != 0) gex_RMA_PutBlocking(tm, next, next_word, &round, 8, 0);
    }
    barrier();
}

static void by_handler(void) {
    PHASE("BLOCKUNTIL by a handler");
    ATOMIC_SET(&poked, 0);
    barrier();
    for (int round = 1; round <= ROUNDS; round++) {
        if (me == 0) gex_AM_RequestShort0(tm, next, POKE, 0);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&poked) >= round);
        if (me != 0) gex_AM_RequestShort0(tm, next, POKE, 0);
    }
    barrier();
}

#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
static void *later(void *value) {
    usleep(20000);                                /* long enough that the waiter sleeps, if it ever does */
    ATOMIC_SET(&by_thread, (int)(intptr_t)value); /* this thread never enters GASNet */
    return NULL;
}
#endif

#if defined(GASNET_PAR)
static int stop;
static void *poll_for_others(void *unused) {
    while (!ATOMIC_GET(&stop)) gasnet_AMPoll();
    return NULL;
}

static void by_polling_thread(void) {
    pthread_t thread;
    PHASE("BLOCKUNTIL while another thread polls");
    ATOMIC_SET(&poked, 0);
    ATOMIC_SET(&stop, 0);
    barrier();
    REQUIRE(pthread_create(&thread, NULL, poll_for_others, NULL) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        gex_AM_RequestShort0(tm, next, POKE, 0);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&poked) == round);
        barrier();
    }
    ATOMIC_SET(&stop, 1);
    REQUIRE(pthread_join(thread, NULL) == 0);
}
#endif

static void by_other_thread(void) {
#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
    int round;
    PHASE("BLOCKUNTIL by another thread");
    for (round = 1; round <= 5; round++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, later, (void *)(intptr_t)(round * 10)) == 0);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&by_thread) == round * 10);
        pthread_join(thread, NULL);
    }
#endif
    barrier();
}

/* Rank 0 does something else for a while; then it wakes everybody, by messages and by puts in
 * turn. */
static void after_long(void) {
    uint64_t value;
    PHASE("BLOCKUNTIL for long");
    for (int round = 0; round < 4; round++) {
        *mine = 0;
        ATOMIC_SET(&poked, 0);
        barrier();
        if (me == 0) {
            usleep(100000);
            value = 7;
            for (gex_Rank_t r = 0; r < np; r++)
                if (round % 2) gex_AM_RequestShort0(tm, r, POKE, 0);
                else gex_RMA_PutBlocking(tm, r, seg_of(r), &value, 8, 0);
        }
        GASNET_BLOCKUNTIL(ATOMIC_GET(&poked) == 1 || *(volatile uint64_t *)mine == 7);
        barrier();
    }
}

int main(int argc, char **argv) {
    static const int modes[] = {GASNET_WAIT_BLOCK, GASNET_WAIT_SPINBLOCK, GASNET_WAIT_SPIN};
    test_init("blockuntil", &argc, &argv);
    register_handler(POKE, (gex_AM_Fn_t)on_poke, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    test_attach(65536);
    next = (me + 1) % np;
    mine = (uint64_t *)seg_of(me);
    next_word = (uint64_t *)(void *)seg_of(next);
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        CHECK(gasnet_set_waitmode(modes[i]) == GASNET_OK);
        *mine = 0;
        barrier();
        by_put();
        by_handler();
        by_other_thread();
#if defined(GASNET_PAR)
        by_polling_thread();
#endif
        after_long();
    }
    return test_finish();
}

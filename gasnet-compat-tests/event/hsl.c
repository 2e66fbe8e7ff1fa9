// Handler-safe locks: static and dynamic initialisation, lock, trylock, unlock, several at once,
// from handlers and from the main line; the lock order that the specification allows; destruction.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { MESSAGES = 2000 };
static gex_HSL_t static_lock = GEX_HSL_INITIALIZER;
static gex_HSL_t counter_lock = GEX_HSL_INITIALIZER;
static gex_HSL_t dynamic_lock;
static gex_AM_Index_t add_index = 150, ack_index = 151;
static volatile long counter, mirror;
static int acknowledged;

static void on_add(gex_Token_t token, gex_AM_Arg_t amount) {
    gex_HSL_Lock(&counter_lock);
    CHECK(counter == mirror);
    counter = counter + amount;
    gex_HSL_Lock(&dynamic_lock);
    mirror = mirror + amount;
    gex_HSL_Unlock(&dynamic_lock);
    gex_HSL_Unlock(&counter_lock); /* before the reply, as the rules demand */
    gex_AM_ReplyShort0(token, ack_index, 0);
}
static void on_ack(gex_Token_t token) {
    gex_HSL_Lock(&static_lock);
    acknowledged++;
    gex_HSL_Unlock(&static_lock);
}
static int acknowledged_now(void) {
    gex_HSL_Lock(&static_lock);
    int n = acknowledged;
    gex_HSL_Unlock(&static_lock);
    return n;
}

static void single(void) {
    PHASE("one lock");
    gex_HSL_Init(&dynamic_lock);
    for (int i = 0; i < 1000; i++) {
        gex_HSL_Lock(&static_lock);
        gex_HSL_Unlock(&static_lock);
        CHECK(gex_HSL_Trylock(&static_lock) == GASNET_OK);
        gex_HSL_Unlock(&static_lock);
        CHECK(gex_HSL_Trylock(&dynamic_lock) == GASNET_OK);
        CHECK(gex_HSL_Trylock(&static_lock) == GASNET_OK);
        gex_HSL_Unlock(&static_lock);
        gex_HSL_Unlock(&dynamic_lock);
    }
    PHASE("many locks, initialised and destroyed");
    for (int i = 0; i < 200; i++) {
        gex_HSL_t *lock = (gex_HSL_t *)malloc(sizeof *lock);
        gex_HSL_Init(lock);
        gex_HSL_Lock(lock);
        gex_HSL_Unlock(lock);
        gex_HSL_Destroy(lock);
        free(lock);
    }
}

int main(int argc, char **argv) {
    test_init("hsl", &argc, &argv);
    register_handler(add_index, (gex_AM_Fn_t)on_add, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(ack_index, (gex_AM_Fn_t)on_ack, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    single();
    barrier();
    PHASE("handlers and the main line");
    for (int i = 0; i < MESSAGES; i++) {
        OK(gex_AM_RequestShort1(tm, (gex_Rank_t)((me + (unsigned)i) % np), add_index, 0, 3));
        gex_HSL_Lock(&counter_lock);
        CHECK(counter == mirror);
        counter = counter + 1;
        gex_HSL_Lock(&dynamic_lock);
        mirror = mirror + 1;
        gex_HSL_Unlock(&dynamic_lock);
        gex_HSL_Unlock(&counter_lock);
    }
    GASNET_BLOCKUNTIL(acknowledged_now() == MESSAGES);
    barrier();
    long total = MESSAGES;
    for (int i = 0; i < MESSAGES; i++) { /* who sent to me */
        for (gex_Rank_t r = 0; r < np; r++)
            if ((r + (unsigned)i) % np == me) total += 3;
    }
    gex_HSL_Lock(&counter_lock);
    CHECKF(counter == total && mirror == total, "%ld and %ld, not %ld", counter, mirror, total);
    gex_HSL_Unlock(&counter_lock);
    gex_HSL_Destroy(&static_lock);
    gex_HSL_Destroy(&counter_lock);
    gex_HSL_Destroy(&dynamic_lock);
    return test_finish();
}

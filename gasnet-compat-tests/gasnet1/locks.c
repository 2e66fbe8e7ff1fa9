// gasnet_hsl_*: static and dynamic, lock, trylock, several at once, shared with handlers (between
// threads: event/hsl_threads); gasnet_hold_interrupts and gasnet_resume_interrupts.
// NP: 1 2 4
// TIMEOUT: 60
#include "check1.h"

enum { MESSAGES = 500, ADD = 150, ACK = 151 };
static gasnet_hsl_t outer = GASNET_HSL_INITIALIZER, inner = GASNET_HSL_INITIALIZER;
static volatile long counter, mirror;
static int acknowledged;

static void on_add(gasnet_token_t token, gasnet_handlerarg_t amount) {
    gasnet_hsl_lock(&outer);
    CHECK(counter == mirror);
    counter = counter + amount;
    gasnet_hsl_lock(&inner);
    mirror = mirror + amount;
    gasnet_hsl_unlock(&inner);
    gasnet_hsl_unlock(&outer);
    gasnet_AMReplyShort0(token, ACK);
}
static void on_ack(gasnet_token_t token) { ATOMIC_ADD(&acknowledged, 1); }

static void single(void) {
    gasnet_hsl_t *dynamic = (gasnet_hsl_t *)malloc(sizeof *dynamic);
    PHASE("one thread");
    memset(dynamic, 0xff, sizeof *dynamic);
    gasnet_hsl_init(dynamic);
    for (int i = 0; i < 1000; i++) {
        gasnet_hold_interrupts();
        gasnet_hsl_lock(dynamic);
        CHECK(gasnet_hsl_trylock(&inner) == GASNET_OK);
        gasnet_hsl_unlock(&inner);
        gasnet_hsl_unlock(dynamic);
        gasnet_resume_interrupts();
        CHECK(gasnet_hsl_trylock(dynamic) == GASNET_OK);
        gasnet_hsl_unlock(dynamic);
    }
    gasnet_hsl_destroy(dynamic);
    free(dynamic);
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[] = {{ADD, (gex_AM_Fn_t)on_add}, {ACK, (gex_AM_Fn_t)on_ack}};
    gasnet1_init("locks", &argc, &argv);
    gasnet1_attach(table, 2, 4096);
    gasnet1_barrier();
    single();
    gasnet1_barrier();
    PHASE("handlers and the main line");
    for (int i = 0; i < MESSAGES; i++) {
        OK(gasnet_AMRequestShort1((gasnet_node_t)((me + 1) % np), ADD, 3));
        gasnet_hsl_lock(&outer);
        CHECK(counter == mirror);
        counter = counter + 1;
        gasnet_hsl_lock(&inner);
        mirror = mirror + 1;
        gasnet_hsl_unlock(&inner);
        gasnet_hsl_unlock(&outer);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&acknowledged) == MESSAGES);
    gasnet1_barrier();
    gasnet_hsl_lock(&outer);
    CHECKF(counter == 4 * MESSAGES && mirror == counter, "%ld and %ld", counter, mirror);
    gasnet_hsl_unlock(&outer);
    gasnet_hsl_destroy(&outer);
    gasnet_hsl_destroy(&inner);
    return test_finish();
}

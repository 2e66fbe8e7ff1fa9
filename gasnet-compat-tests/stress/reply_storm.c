// Reply storms: all ranks ask one that is busy and does not poll; then it answers all of them with
// maximal Mediums.
// NP: 2 4 7
// TIMEOUT: 120
// VARIANT: small (the smallest buffers that can be configured)
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
#include "stress.h"

enum { ASK = 200, ANSWER = 201 };
static int asked, answered;
static gex_Rank_t victim;

static void on_ask(gex_Token_t token, gex_AM_Arg_t seed) {
    size_t bytes = gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 1);
    void *answer = malloc(bytes);
    stress_fill(answer, bytes, (uint64_t)seed);
    gex_AM_ReplyMedium1(token, ANSWER, answer, bytes, GEX_EVENT_NOW, 0, seed);
    free(answer);
}

static void on_answer(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECKF(stress_same(payload, bytes, (uint64_t)seed), "answer %d is damaged", (int)seed);
    ATOMIC_ADD(&answered, 1);
}

/* Keeps the processor busy without entering GASNet. */
static void compute(void) {
    volatile uint64_t x = 1;
    for (int i = 0; i < 20000000; i++) x = x * 6364136223846793005ULL + 1;
}

static void ask(int thread) {
    int count = stress_share(400, 20);
    for (int i = 0; i < count; i++) {
        ATOMIC_ADD(&asked, 1);
        gex_AM_RequestShort1(tm, victim, ASK, 0, (gex_AM_Arg_t)(i * STRESS_THREADS + thread));
    }
}

int main(int argc, char **argv) {
    test_init("reply_storm", &argc, &argv);
    register_handler(ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1);
    barrier();
    for (victim = 0; victim < np; victim++) {
        PHASE("storm on one rank");
        if (victim == me) compute();
        else stress_run(ask);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == asked);
        barrier();
    }
    PHASE("storm around the ring");
    victim = (me + 1) % np;
    stress_run(ask);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == asked);
    barrier();
    return test_finish();
}

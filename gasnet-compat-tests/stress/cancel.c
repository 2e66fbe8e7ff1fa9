// Threads that are cancelled while they are inside the library end when they are outside again: no
// lock stays taken, and the job goes on. Over conduits that make system calls; emulated networks
// make calls of their own that real ones do not.
// NP: 2 3
// MODES: par
// CONDUITS: smp udp sock ofi
// TIMEOUT: 120
#define _GNU_SOURCE 1
#include "check.h"

#include <sched.h>
#include <time.h>

enum { ASK = 200, ANSWER, ROUNDS = 12, PAYLOAD = 2000 };

static int ready, never;
static char block[4096];

static void on_ask(gex_Token_t token, void *payload, size_t bytes) {
    gex_AM_ReplyMedium0(token, ANSWER, payload, bytes, GEX_EVENT_NOW, 0);
}

static void on_answer(gex_Token_t token, void *payload, size_t bytes) {}

static void *waits(void *unused) {
    ATOMIC_SET(&ready, 1);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&never));
    pthread_testcancel();
    return unused;
}

static void *polls(void *unused) {
    ATOMIC_SET(&ready, 1);
    while (!ATOMIC_GET(&never)) gasnet_AMPoll();
    pthread_testcancel();
    return unused;
}

static void *sends(void *unused) {
    ATOMIC_SET(&ready, 1);
    while (!ATOMIC_GET(&never)) {
        gex_AM_RequestMedium0(tm, (me + 1) % np, ASK, block, PAYLOAD, GEX_EVENT_NOW, 0);
        OK(gex_RMA_PutBlocking(tm, (me + 1) % np, seg_of((me + 1) % np), block, sizeof block, 0));
    }
    pthread_testcancel();
    return unused;
}

int main(int argc, char **argv) {
    static void *(*const bodies[])(void *) = {waits, polls, sends};
    const struct timespec moment = {0, 3000000};
    test_init("cancel", &argc, &argv);
    register_handler(ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0);
    test_attach(GASNET_PAGESIZE);
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *result;
        PHASE("cancelling");
        ATOMIC_SET(&ready, 0);
        ATOMIC_SET(&never, 0);
        REQUIRE(pthread_create(&thread, NULL, bodies[round % 3], NULL) == 0);
        while (!ATOMIC_GET(&ready)) sched_yield();
        nanosleep(&moment, NULL);
        REQUIRE(pthread_cancel(thread) == 0);
        nanosleep(&moment, NULL);
        ATOMIC_SET(&never, 1);
        gex_AM_RequestMedium0(tm, me, ASK, block, 8, GEX_EVENT_NOW, 0); /* wakes one that waits */
        while (pthread_tryjoin_np(thread, &result)) {
            gasnet_AMPoll();
            sched_yield();
        }
        CHECK(result == PTHREAD_CANCELED);
        PHASE("afterwards");
        barrier();
    }
    return test_finish();
}

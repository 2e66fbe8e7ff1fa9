// A rank that computes answers requests of other neighbourhoods on the library's receive thread;
// its own waits and polls go on beside that. That thread is none of the client's.
// NP: 2 3
// MODES: par
// CONDUITS: sock udp ibv gni ofi loop
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=1
// TIMEOUT: 120
// VARIANT: deferred (a thread that the client starts; loop wakes only with one of its own)
// CONDUITS: sock udp ibv gni ofi
// FLAGS: -DDEFERRED=1
// VARIANT: deferred_neighbours (such a thread serves neighbours)
// NP: 2
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=0
// FLAGS: -DDEFERRED=1
// VARIANT: mixed (a neighbour and a rank of another neighbourhood ask the rank that computes)
// NP: 3
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=2
// VARIANT: neighbours (all ranks in one neighbourhood)
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=0
// VARIANT: paced (a limited rate and load, a stack of another size)
// NP: 2
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_THREADS=1 GASNET_SUPERNODE_MAXSIZE=1
// ENV: GASNET_RCV_THREAD_RATE=500 GASNET_RCV_THREAD_LOAD=0.2 GASNET_RCV_THREAD_IDLE=100000
// ENV: GASNET_THREAD_STACK_MIN=1M
#include "check.h"

#include <sched.h>

enum { ROUNDS = 200, ASK = 200, ANSWER, GO, PAYLOAD = 3000 };

static int asked, answered, started, computing;
static pthread_t client_thread;
static int on_other_threads, on_this_thread;

static void on_ask(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    const unsigned char *data = (const unsigned char *)payload;
    CHECK(bytes == PAYLOAD && data[0] == (value & 0xff) && data[PAYLOAD - 1] == (value & 0xff));
    if (ATOMIC_GET(&computing)) {
        ATOMIC_ADD(pthread_equal(client_thread, pthread_self()) ? &on_this_thread : &on_other_threads, 1);
    }
    gex_AM_ReplyMedium1(token, ANSWER, payload, bytes, GEX_EVENT_NOW, 0, value);
    ATOMIC_ADD(&asked, 1);
}

static void on_answer(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    CHECK(bytes == PAYLOAD && *(unsigned char *)payload == (value & 0xff));
    ATOMIC_ADD(&answered, 1);
}

static void on_go(gex_Token_t token) { ATOMIC_SET(&started, 1); }

#ifdef DEFERRED
static void start_thread(void) {
    const gex_ProgressThreadInfo_t *info = NULL;
    unsigned count = 0;
    pthread_t thread;
    OK(gex_System_QueryProgressThreads(client, &count, &info, 0));
    REQUIRE(count == 1 && info->gex_thread_roles == GEX_THREAD_ROLE_RCV);
    CHECK(info->gex_progress_arg != NULL && info->gex_device_list[0] != 0);
    REQUIRE(pthread_create(&thread, NULL, info->gex_progress_fn, info->gex_progress_arg) == 0);
}
#endif

int main(int argc, char **argv) {
    gex_AM_Entry_t handlers[] = {
        {ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "ask"},
        {ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1, NULL, "answer"},
        {GO, (gex_AM_Fn_t)on_go, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "go"},
    };
    unsigned char data[PAYLOAD];
#ifdef DEFERRED
    test_init_flags("receive_thread_deferred", &argc, &argv, GEX_FLAG_DEFER_THREADS);
    start_thread();
#else
    test_init("receive_thread", &argc, &argv);
#endif
    CHECK(gex_System_QueryHiddenAMConcurrencyLevel() == 1);
    client_thread = pthread_self();
    REQUIRE(gex_EP_RegisterHandlers(ep, handlers, 3) == GASNET_OK);
    test_attach(GASNET_PAGESIZE);
    barrier();
    int total = (int)(np - 1) * ROUNDS;
    if (me == 0) {
        for (gex_Rank_t rank = 1; rank < np; rank++) gex_AM_RequestShort0(tm, rank, GO, 0);
        PHASE("computing, without a call");
        ATOMIC_SET(&computing, 1);
        while (ATOMIC_GET(&asked) < total) sched_yield();
        CHECK(ATOMIC_GET(&on_other_threads) > 0 && ATOMIC_GET(&on_this_thread) == 0);
        ATOMIC_SET(&computing, 0);
    } else {
        PHASE("asking");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&started));
        for (int i = 0; i < ROUNDS; i++) {
            memset(data, i, sizeof data);
            gex_AM_RequestMedium1(tm, 0, ASK, data, sizeof data, GEX_EVENT_NOW, 0, i);
            if (i % 8 == 7) GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == i + 1);
        }
        GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == ROUNDS);
    }
    barrier();
    return test_finish();
}

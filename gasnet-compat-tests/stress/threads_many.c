// 1,000 client threads at the same time in one process, each of which communicates.
// NP: 1 2
// MODES: par
// TIMEOUT: 180
#include "stress.h"

enum { THREADS = 1000, ECHO = 200, ECHOED = 201 };
static int done[THREADS];
static pthread_barrier_t all_here;
static uint64_t *target;
static gex_Rank_t peer;

static void on_echo(gex_Token_t token, gex_AM_Arg_t index) { gex_AM_ReplyShort1(token, ECHOED, 0, index); }
static void on_echoed(gex_Token_t token, gex_AM_Arg_t index) { ATOMIC_SET(&done[index], 1); }

static void *work(void *argument) {
    uintptr_t index = (uintptr_t)argument;
    uint64_t value = index * 3 + me, back = 0;
    gex_RMA_PutBlocking(tm, peer, target + index, &value, 8, 0);
    pthread_barrier_wait(&all_here); /* all threads have entered GASNet and are alive */
    gex_RMA_GetBlocking(tm, &back, peer, target + index, 8, 0);
    CHECK(back == value);
    gex_AM_RequestShort1(tm, peer, ECHO, 0, (gex_AM_Arg_t)index);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&done[index]));
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    test_init("threads_many", &argc, &argv);
    register_handler(ECHO, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1);
    register_handler(ECHOED, (gex_AM_Fn_t)on_echoed, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1);
    test_attach(THREADS * 8);
    uint64_t most = gex_System_QueryMaxThreads();
    if (most < THREADS + 1) test_skip("the library admits fewer than 1,001 threads");
    peer = (me + 1) % np;
    target = (uint64_t *)(void *)seg_of(peer);
    pthread_barrier_init(&all_here, NULL, THREADS);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    barrier();
    PHASE("1,000 threads");
    for (uintptr_t i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], &attributes, work, (void *)i) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    barrier();
    return test_finish();
}

// More threads between Prepare and Commit than there are payload blocks: none waits for another's
// Commit. With the library's buffers, of a Medium and of a Long as large as the limit for them.
// MODES: par
// NP: 1 2 3
// ENV: GASNET_PSHM_NETWORK_DEPTH=4
// TIMEOUT: 60
#include "check.h"

enum { THREADS = 40, H_MEDIUM = 200, H_LONG = 201 };
static int arrived;
static gex_Rank_t peer;
static char *remote;
static pthread_barrier_t all_prepared;

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    on_medium(token, payload, bytes, seed);
}

static gex_AM_Entry_t table[] = {
    {H_MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "on_medium"},
    {H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL, "on_long"},
};

static void *run(void *argument) {
    gex_AM_Arg_t seed = (gex_AM_Arg_t)(intptr_t)argument;
    size_t bytes = (size_t)(seed * 1601);
    size_t most = gex_AM_MaxRequestMedium(tm, peer, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
    if (bytes > most) bytes = most;
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes, bytes, NULL, 0, 1);
    pattern_fill(gex_AM_SrcDescAddr(desc), bytes, (uint64_t)seed);
    pthread_barrier_wait(&all_prepared);
    gex_AM_CommitRequestMedium1(desc, H_MEDIUM, bytes, seed);
    pthread_barrier_wait(&all_prepared);
    if (seed == 0) {
        most = gex_AM_MaxRequestLong(tm, peer, GEX_EVENT_NOW, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
        CHECKF(most >= 512 && most <= (1 << 20), "%zu", most);
        desc = gex_AM_PrepareRequestLong(tm, peer, NULL, most, most, remote, NULL, 0, 1);
        CHECK(gex_AM_SrcDescSize(desc) >= most);
        pattern_fill(gex_AM_SrcDescAddr(desc), most, 77);
        gex_AM_CommitRequestLong1(desc, H_LONG, most, remote, 77);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    test_init("am_prepared_threads", &argc, &argv);
    OK(gex_EP_RegisterHandlers(ep, table, ARRAY_LENGTH(table)));
    test_attach((uintptr_t)1 << 20);
    barrier();
    peer = (me + 1) % np;
    remote = seg_of(peer);
    REQUIRE(pthread_barrier_init(&all_prepared, NULL, THREADS) == 0);
    PHASE("threads");
    for (intptr_t i = 0; i < THREADS; i++) REQUIRE(pthread_create(&thread[i], NULL, run, (void *)i) == 0);
    PHASE("arrivals");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == THREADS + 1);
    for (intptr_t i = 0; i < THREADS; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
    return test_finish();
}

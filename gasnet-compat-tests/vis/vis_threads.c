// Several threads of each rank put and get scattered data at once, with handles of their own,
// implicit operations of their own, and peer completion armed by one thread for its own puts only.
// NP: 1 2 4
// MODES: par
#include "check.h"
#include <gasnet_vis.h>

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 40, PIECES = 700, PIECE = 12, STEP = 20, BYTES = PIECES * STEP, HANDLER = 200 };

static unsigned runs;

static void handler(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(bytes == 1 && *(char *)payload == 'p');
    ATOMIC_ADD(&runs, 1U);
}

static void *work(void *argument) {
    const unsigned thread = (unsigned)(uintptr_t)argument;
    const ptrdiff_t step[1] = {STEP}, packed[1] = {PIECE};
    const size_t count[1] = {PIECES};
    unsigned char *out = (unsigned char *)malloc(PIECES * PIECE), *in = (unsigned char *)malloc(PIECES * PIECE);
    void **list = (void **)malloc(PIECES * sizeof *list), *whole;
    for (unsigned round = 0; round < ROUNDS; round++) {
        gex_Rank_t peer = (me + round + thread) % np;
        char *remote = seg_of(peer) + ((size_t)me * THREADS + thread) * BYTES;
        uint64_t seed = ((uint64_t)me * THREADS + thread) * ROUNDS + round;
        pattern_fill(out, PIECES * PIECE, seed);
        memset(in, 0, PIECES * PIECE);
        for (size_t i = 0; i < PIECES; i++) list[i] = remote + i * STEP;
        if (thread % 2) gex_VIS_SetPeerCompletionHandler(HANDLER, "p", 1, 0);
        whole = out;
        switch (round % 3) {
            case 0:
                gex_Event_Wait(gex_VIS_StridedPutNB(tm, peer, remote, step, out, packed, PIECE, count, 1, 0));
                break;
            case 1:
                gex_VIS_IndexedPutNBI(tm, peer, PIECES, list, PIECE, 1, &whole, PIECES * PIECE, 0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
                break;
            default: gex_VIS_StridedPutBlocking(tm, peer, remote, step, out, packed, PIECE, count, 1, 0);
        }
        whole = in;
        if (round % 2) {
            gex_VIS_IndexedGetNBI(tm, 1, &whole, PIECES * PIECE, peer, PIECES, list, PIECE, 0);
            gex_NBI_Wait(GEX_EC_GET, 0);
        } else {
            gex_Event_Wait(gex_VIS_StridedGetNB(tm, in, packed, peer, remote, step, PIECE, count, 1, 0));
        }
        CHECK_PATTERN(in, PIECES * PIECE, seed);
    }
    free(out), free(in), free(list);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    test_init("vis_threads", &argc, &argv);
    register_handler(HANDLER, (gex_AM_Fn_t)handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0);
    test_attach((uintptr_t)np * THREADS * BYTES);
    barrier();
    PHASE("threads");
    for (uintptr_t i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    /* Every rank sends the same number to its peers in turn: all ranks together get THREADS / 2 *
     * ROUNDS * np. */
    PHASE("handlers");
    share_setup();
    for (;;) {
        unsigned sum = 0, now = ATOMIC_GET(&runs);
        gasnet_AMPoll();
        const void *table = share(&now, sizeof now);
        for (gex_Rank_t r = 0; r < np; r++) sum += *SHARED(unsigned, table, r);
        CHECK(sum <= THREADS / 2 * ROUNDS * np);
        if (sum >= THREADS / 2 * ROUNDS * np) break;
    }
    return test_finish();
}

// Many puts and gets of device memory under way at once: implicit ones, regions, explicit events in
// arrays, with messages in between; a get is complete only when its data is on the device; in PAR
// mode several threads do so at once, each with its own current context.
// NP: 1 2 4
// TIMEOUT: 120
// DEVICES: yes
#include "device.h"

enum { PIECES = 60, PIECE = 3001, SLICE = PIECES * PIECE, THREADS = 4, ROUNDS = 3, SPACE = 2 * THREADS * SLICE };

static place *place_of(unsigned n) { return &places[1 + n % (unsigned)(place_count - 1)]; }

/* Slices `THREADS + slot` of every place are the source of rank `me`, slices `slot` the target of
 * its predecessor. */
static void batch(unsigned slot, unsigned round) {
    gex_Rank_t peer = (me + 1) % np;
    place *local = place_of(slot + round), *remote = place_of(slot * 3 + 2 * round + 1);
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + (THREADS + slot) * SLICE, *theirs = remote->theirs[peer] + slot * SLICE;
    uint64_t seed = me * 1000 + slot * 10 + round;
    gex_Event_t events[PIECES];
    place_fill(local, mine, SLICE, seed);
    for (unsigned i = 0; i < PIECES; i++) { /* backwards, every other one explicit */
        size_t at = (PIECES - 1 - i) * (size_t)PIECE;
        events[i] = GEX_EVENT_INVALID;
        if (i % 2) events[i] = gex_RMA_PutNB(pair, peer, theirs + at, mine + at, PIECE, GEX_EVENT_DEFER, 0);
        else OK(gex_RMA_PutNBI(pair, peer, theirs + at, mine + at, PIECE, GEX_EVENT_DEFER, 0));
    }
    gex_Event_WaitAll(events, PIECES, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    place_fill(local, mine, SLICE, 7);
    gex_NBI_BeginAccessRegion(0);
    for (unsigned i = 0; i < PIECES; i++)
        OK(gex_RMA_GetNBI(pair, mine + i * PIECE, peer, theirs + i * PIECE, PIECE, 0));
    gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    CHECK_PLACE(local, mine, SLICE, seed);
    place_fill(local, mine, SLICE, 8);
    for (unsigned i = 0; i < PIECES; i++)
        events[i] = gex_RMA_GetNB(pair, mine + i * PIECE, peer, theirs + i * PIECE, PIECE, 0);
    while (gex_Event_TestAll(events, PIECES, 0) != GASNET_OK) gasnet_AMPoll();
    CHECK_PLACE(local, mine, SLICE, seed);
}

/* Puts that are refused rather than waited for: each is started at last, and none half. */
static void immediate(void) {
    gex_Rank_t peer = (me + 1) % np;
    place *local = place_of(0), *remote = place_of(1);
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + SPACE / 2, *theirs = remote->theirs[peer];
    PHASE("immediate");
    barrier();
    place_fill(local, mine, SLICE, me);
    for (unsigned i = 0; i < PIECES; i++)
        while (gex_RMA_PutNBI(pair, peer, theirs + i * PIECE, mine + i * PIECE, PIECE, GEX_EVENT_DEFER,
                              GEX_FLAG_IMMEDIATE))
            gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_ALL, 0);
    place_fill(local, mine, SLICE, 3);
    while (gex_RMA_GetNBI(pair, mine, peer, theirs, SLICE, GEX_FLAG_IMMEDIATE)) gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK_PLACE(local, mine, SLICE, me);
    barrier();
}

#ifdef GASNET_PAR
static void *worker(void *arg) {
    unsigned slot = (unsigned)(uintptr_t)arg;
    void *context = NULL;
    if (classes[0].devices > 0) cuda_enter(&classes[0], (int)slot % classes[0].devices);
    for (unsigned round = 0; round < ROUNDS; round++) batch(slot, round);
    if (classes[0].devices > 0) {
        REQUIRE(CALL(&classes[0], int, "cuCtxGetCurrent", (void **), &context) == 0);
        CHECK(context == cuda_context[(int)slot % classes[0].devices]);
        cuda_leave(&classes[0]);
    }
    return NULL;
}
#endif

int main(int argc, char **argv) {
    test_init("mk_batch", &argc, &argv);
    devices_required();
    make_places(SPACE);
    PHASE("batches");
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned slot = 0; slot < THREADS; slot++) batch(slot, round);
        barrier();
    }
#ifdef GASNET_PAR
    {
        pthread_t threads[THREADS];
        PHASE("threads");
        for (unsigned slot = 0; slot < THREADS; slot++)
            REQUIRE(pthread_create(&threads[slot], NULL, worker, (void *)(uintptr_t)slot) == 0);
        for (unsigned slot = 0; slot < THREADS; slot++) pthread_join(threads[slot], NULL);
    }
#endif
    immediate();
    end_places();
    return test_finish();
}

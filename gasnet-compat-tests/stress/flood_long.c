// All-to-all flood of Long requests, each answered by a Long reply; every payload is verified in
// its handler.
// NP: 1 2 4
// TIMEOUT: 120
#include "stress.h"

enum { REQUEST = 200, REPLY = 201, WINDOW = 4, LARGEST = 256 * 1024 };

/* Each rank's segment: [source rank][thread][slot] for requests, and the same again for replies. */
static size_t length;
static char **segments;
static int in_flight[STRESS_THREADS][WINDOW];
static int replies_seen;

static char *place(gex_Rank_t owner, int reply, gex_Rank_t from, int thread, int slot) {
    size_t index = (((size_t)reply * np + from) * STRESS_THREADS + (size_t)thread) * WINDOW + (size_t)slot;
    return segments[owner] + index * LARGEST;
}

static uint64_t seed_of(unsigned from, unsigned thread, unsigned sequence) {
    return ((uint64_t)from << 40) ^ ((uint64_t)thread << 32) ^ sequence;
}

static void on_request(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                       gex_AM_Arg_t slot, gex_AM_Arg_t sequence) {
    uint64_t seed = seed_of((unsigned)from, (unsigned)thread, (unsigned)sequence);
    char *answer = (char *)malloc(length);
    CHECK(payload == place(me, 0, (gex_Rank_t)from, thread, slot));
    CHECKF(bytes == length && stress_same(payload, bytes, seed), "request %d of thread %d of rank %d is damaged",
           (int)sequence, (int)thread, (int)from);
    stress_fill(answer, length, ~seed);
    gex_AM_ReplyLong4(token, REPLY, answer, length, place((gex_Rank_t)from, 1, me, thread, slot), GEX_EVENT_NOW, 0,
                      (gex_AM_Arg_t)me, thread, slot, sequence);
    free(answer);
}

static void on_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                     gex_AM_Arg_t slot, gex_AM_Arg_t sequence) {
    CHECK(payload == place(me, 1, (gex_Rank_t)from, thread, slot));
    CHECKF(bytes == length && stress_same(payload, bytes, ~seed_of((unsigned)me, (unsigned)thread, (unsigned)sequence)),
           "reply %d of rank %d is damaged", (int)sequence, (int)from);
    ATOMIC_ADD(&replies_seen, 1);
    ATOMIC_ADD(&in_flight[thread][slot], -1);
}

static void flood(int thread) {
    int count = stress_share(400, 8);
    char *buffer = (char *)malloc(length);
    for (int i = 0; i < count; i++) {
        int slot = i % WINDOW;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&in_flight[thread][slot]) == 0);
        ATOMIC_ADD(&in_flight[thread][slot], (int)np);
        stress_fill(buffer, length, seed_of(me, (unsigned)thread, (unsigned)i));
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t to = (me + r) % np;
            gex_Event_t local = GEX_EVENT_INVALID;
            /* all ways to hear of local completion, in turn */
            gex_Event_t *how = i % 3 == 0 ? GEX_EVENT_NOW : i % 3 == 1 ? GEX_EVENT_GROUP : &local;
            CHECK(gex_AM_RequestLong4(tm, to, REQUEST, buffer, length, place(to, 0, me, thread, slot), how, 0,
                                      (gex_AM_Arg_t)me, (gex_AM_Arg_t)thread, (gex_AM_Arg_t)slot,
                                      (gex_AM_Arg_t)i) == 0);
            if (how == &local) gex_Event_Wait(local);
        }
        gex_NBI_Wait(GEX_EC_AM, 0);
    }
    free(buffer);
}

int main(int argc, char **argv) {
    test_init("flood_long", &argc, &argv);
    register_handler(REQUEST, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 4);
    register_handler(REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 4);
    test_attach((uintptr_t)2 * np * STRESS_THREADS * WINDOW * LARGEST);
    segments = segs_of_all();
    length = LARGEST;
    if (gex_AM_LUBRequestLong() < length) length = gex_AM_LUBRequestLong();
    if (gex_AM_LUBReplyLong() < length) length = gex_AM_LUBReplyLong();
    barrier();
    PHASE("flood");
    stress_run(flood);
    PHASE("replies");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies_seen) == stress_share(400, 8) * (int)np * STRESS_THREADS);
    barrier();
    return test_finish();
}

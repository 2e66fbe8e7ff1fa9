// Local completion of Medium and Long requests and replies: GEX_EVENT_NOW, a pointer to an event,
// GEX_EVENT_GROUP. After local completion the source may be overwritten without changing what the
// handler sees.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { ROUNDS = 40, WINDOW = 16, BYTES = 3000 };
static gex_AM_Index_t medium_index = 150, long_index = 151, medium_reply = 152, long_reply = 153;
static char **bases;
static int handled, replies;
/* Replies with an event: the events are waited for outside the handlers, where that is allowed. */
static gex_Event_t reply_event[8192];
static int reply_events;
static char reply_source[BYTES];

static gex_Event_t *next_event(void) {
    int i = ATOMIC_ADD(&reply_events, 1) - 1;
    REQUIRE(i < (int)ARRAY_LENGTH(reply_event));
    return &reply_event[i];
}

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed, gex_AM_Arg_t reply) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&handled, 1);
    if (reply == 1) gex_AM_ReplyMedium0(token, medium_reply, reply_source, BYTES, GEX_EVENT_NOW, 0);
    if (reply == 2) gex_AM_ReplyMedium0(token, medium_reply, reply_source, BYTES, next_event(), 0);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed, gex_AM_Arg_t reply) {
    gex_Rank_t source = source_of(token);
    char *target = bases[source] + (size_t)np * WINDOW * BYTES + (size_t)me * BYTES;
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&handled, 1);
    if (reply == 1) gex_AM_ReplyLong0(token, long_reply, reply_source, BYTES, target, GEX_EVENT_NOW, 0);
    if (reply == 2) gex_AM_ReplyLong0(token, long_reply, reply_source, BYTES, target, next_event(), 0);
}
static void on_reply(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK(bytes == BYTES);
    CHECK_PATTERN(buffer, bytes, 4242);
    ATOMIC_ADD(&replies, 1);
}

static char *target_slot(gex_Rank_t peer, int i) { return bases[peer] + ((size_t)me * WINDOW + (size_t)i) * BYTES; }

/* Sends one message of the window; the target slots are reused only after the receiver handled the
 * earlier message. */
static void send(gex_Rank_t peer, int is_long, char *source, int slot, gex_AM_Arg_t seed, gex_Event_t *lc, int reply) {
    pattern_fill(source, BYTES, (uint64_t)seed);
    if (is_long)
        OK(gex_AM_RequestLong2(tm, peer, long_index, source, BYTES, target_slot(peer, slot), lc, 0, seed, reply));
    else OK(gex_AM_RequestMedium2(tm, peer, medium_index, source, BYTES, lc, 0, seed, reply));
}

static int expected;

/* Every rank sends a window and every rank receives one. */
static void settle(void) {
    expected += WINDOW;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == expected);
    barrier();
}

static void run(int is_long, gex_Rank_t hop) {
    static char sources[WINDOW][BYTES];
    gex_Event_t events[WINDOW];
    gex_Rank_t peer = (me + hop) % np;

    PHASE(is_long ? "Long, NOW" : "Medium, NOW");
    for (int i = 0; i < WINDOW; i++) {
        send(peer, is_long, sources[0], i, 1000 + i, GEX_EVENT_NOW, 0);
        memset(sources[0], 0xEE, BYTES);
    }
    settle();

    PHASE(is_long ? "Long, event" : "Medium, event");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < WINDOW; i++) {
            memset(&events[i], 0x5A, sizeof events[i]);
            send(peer, is_long, sources[i], i, 2000 + i, &events[i], 0);
            CHECK(events[i] != GEX_EVENT_NO_OP);
        }
        if (round == 0) {
            for (int i = 0; i < WINDOW; i++) {
                gex_Event_Wait(events[i]);
                memset(sources[i], 0xEE, BYTES);
            }
        } else if (round == 1) {
            for (int i = WINDOW - 1; i >= 0; i--) {
                while (gex_Event_Test(events[i])) gasnet_AMPoll();
                memset(sources[i], 0xEE, BYTES);
            }
        } else {
            gex_Event_WaitAll(events, WINDOW, 0);
            for (int i = 0; i < WINDOW; i++) {
                CHECK(events[i] == GEX_EVENT_INVALID);
                memset(sources[i], 0xEE, BYTES);
            }
        }
        settle();
    }

    PHASE(is_long ? "Long, GROUP" : "Medium, GROUP");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < WINDOW; i++) send(peer, is_long, sources[i], i, 3000 + i, GEX_EVENT_GROUP, 0);
        if (round == 0) gex_NBI_Wait(GEX_EC_AM, 0);
        else
            while (gex_NBI_Test(GEX_EC_AM, 0)) gasnet_AMPoll();
        for (int i = 0; i < WINDOW; i++) memset(sources[i], 0xEE, BYTES);
        settle();
    }

    PHASE(is_long ? "Long, replies" : "Medium, replies");
    for (int round = 1; round <= 2; round++) {
        int before = ATOMIC_GET(&replies);
        for (int i = 0; i < WINDOW; i++) {
            /* one at a time, since all replies of a Long use one slot */
            send(peer, is_long, sources[i], i, 5000 + i, GEX_EVENT_NOW, round);
            GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == before + i + 1);
        }
        settle();
        for (int i = 0; i < ATOMIC_GET(&reply_events); i++) gex_Event_Wait(reply_event[i]);
        ATOMIC_SET(&reply_events, 0);
        barrier();
    }
}

int main(int argc, char **argv) {
    test_init("am_local_completion", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2);
    register_handler(medium_reply, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(long_reply, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 0);
    if (gex_AM_LUBRequestMedium() < BYTES || gex_AM_LUBReplyMedium() < BYTES)
        test_skip("Medium payloads are too small here");
    test_attach((uintptr_t)np * (WINDOW + 1) * BYTES);
    bases = segs_of_all();
    pattern_fill(reply_source, BYTES, 4242);
    barrier();
    /* the peer must be the same distance for all, so that everyone receives as many messages as it
     * sends */
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        run(0, hop);
        run(1, hop);
    }
    return test_finish();
}

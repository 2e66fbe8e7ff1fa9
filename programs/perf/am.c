/* Active Messages: round trips, and floods that end with an acknowledgement of the target. Fixed
 * and negotiated payload. */
#include "perf.h"

#include <string.h>

enum {
    SHORT,
    MEDIUM_AM,
    LONG_AM,
    PREPARED,
    PREPARED_TO_LONG,
    FILLED,
    FILLED_PREPARED,
    PREPARED_BOTH,
    PREPARED_LONG_BOTH
};
enum {
    FIRST = 140,
    PING_SHORT = FIRST,
    PING_MEDIUM,
    PING_LONG,
    PONG_SHORT,
    PONG_MEDIUM,
    PONG_LONG,
    SHOT_SHORT,
    SHOT_MEDIUM,
    SHOT_LONG,
    DONE,
    BALL,
    BALL_MEDIUM,
    BALL_LONG,
    PING_PREPARED,
    PING_PREPARED_LONG,
    HANDLERS
};
enum { MOST_THREADS = 1024 };

/* By thread: replies received, messages of a flood received. Handlers may run concurrently. */
static struct {
    int replies, received;
    char padding[120];
} of[MOST_THREADS];

/* Balls received in the whole job: one may arrive before its receiver has begun the block. */
static int balls;

#define ADDRESS(high, low) ((void *)(uintptr_t)((uint64_t)(uint32_t)(high) << 32 | (uint32_t)(low)))
#define HIGH(address) ((gex_AM_Arg_t)((uint64_t)(uintptr_t)(address) >> 32))
#define LOW(address) ((gex_AM_Arg_t)(uintptr_t)(address))

static void count_reply(int thread) { __atomic_add_fetch(&of[thread].replies, 1, __ATOMIC_RELEASE); }
static int replies(int thread) { return __atomic_load_n(&of[thread].replies, __ATOMIC_ACQUIRE); }

static void ping_short(gex_Token_t token, gex_AM_Arg_t thread) { gex_AM_ReplyShort1(token, PONG_SHORT, 0, thread); }
static void ping_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    gex_AM_ReplyMedium1(token, PONG_MEDIUM, payload, bytes, GEX_EVENT_NOW, 0, thread);
}
static void ping_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t high,
                      gex_AM_Arg_t low) {
    gex_AM_ReplyLong1(token, PONG_LONG, payload, bytes, ADDRESS(high, low), GEX_EVENT_NOW, 0, thread);
}
static void ping_prepared(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    gex_AM_SrcDesc_t description = gex_AM_PrepareReplyMedium(token, NULL, bytes, bytes, NULL, 0, 1);
    memcpy(gex_AM_SrcDescAddr(description), payload, bytes);
    gex_AM_CommitReplyMedium1(description, PONG_MEDIUM, bytes, thread);
}
static void ping_prepared_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t high,
                               gex_AM_Arg_t low) {
    gex_AM_SrcDesc_t description = gex_AM_PrepareReplyLong(token, NULL, bytes, bytes, ADDRESS(high, low), NULL, 0, 1);
    memcpy(gex_AM_SrcDescAddr(description), payload, bytes);
    gex_AM_CommitReplyLong1(description, PONG_LONG, bytes, ADDRESS(high, low), thread);
}
static void catch_payload(gex_Token_t token, void *payload, size_t bytes) {
    (void)token;
    (void)payload;
    (void)bytes;
    __atomic_add_fetch(&balls, 1, __ATOMIC_RELEASE);
}
static void catch_ball(gex_Token_t token) {
    (void)token;
    __atomic_add_fetch(&balls, 1, __ATOMIC_RELEASE);
}
static void pong_short(gex_Token_t token, gex_AM_Arg_t thread) {
    (void)token;
    count_reply(thread);
}
static void pong_payload(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    (void)token;
    (void)payload;
    (void)bytes;
    count_reply(thread);
}
static void count_shot(gex_Token_t token, int thread, int total) {
    if (__atomic_add_fetch(&of[thread].received, 1, __ATOMIC_ACQ_REL) == total) {
        __atomic_store_n(&of[thread].received, 0, __ATOMIC_RELEASE);
        gex_AM_ReplyShort1(token, DONE, 0, thread);
    }
}
static void shot_short(gex_Token_t token, gex_AM_Arg_t thread, gex_AM_Arg_t total) { count_shot(token, thread, total); }
static void shot_payload(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t total) {
    (void)payload;
    (void)bytes;
    count_shot(token, thread, total);
}

#define ENTRY(index, function, flags, nargs) \
    { index, (gex_AM_Fn_t)(function), flags, nargs, NULL, NULL }
void am_setup(void) {
    gex_AM_Entry_t table[] = {
        ENTRY(PING_SHORT, ping_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1),
        ENTRY(PING_MEDIUM, ping_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1),
        ENTRY(PING_LONG, ping_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3),
        ENTRY(PONG_SHORT, pong_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1),
        ENTRY(PONG_MEDIUM, pong_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1),
        ENTRY(PONG_LONG, pong_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1),
        ENTRY(SHOT_SHORT, shot_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2),
        ENTRY(SHOT_MEDIUM, shot_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2),
        ENTRY(SHOT_LONG, shot_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2),
        ENTRY(DONE, pong_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1),
        ENTRY(BALL, catch_ball, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0),
        ENTRY(BALL_MEDIUM, catch_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0),
        ENTRY(BALL_LONG, catch_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0),
        ENTRY(PING_PREPARED, ping_prepared, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1),
        ENTRY(PING_PREPARED_LONG, ping_prepared_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3),
    };
    if (gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof table[0]) != GASNET_OK) gasnet_exit(1);
}

/* A request and its reply of the same category, one after the other. */
static void round_trip(struct worker *w, long count) {
    int thread = w->thread, expected = replies(thread);
    gex_AM_SrcDesc_t description;
    long i;
    for (i = 0; i < count; i++) {
        switch (w->test->variant) {
            case SHORT: gex_AM_RequestShort1(tm, w->peer, PING_SHORT, 0, thread); break;
            case MEDIUM_AM:
                gex_AM_RequestMedium1(tm, w->peer, PING_MEDIUM, w->local, w->bytes, GEX_EVENT_NOW, 0, thread);
                break;
            case LONG_AM:
                gex_AM_RequestLong3(tm, w->peer, PING_LONG, w->local, w->bytes, w->remote, GEX_EVENT_NOW, 0, thread,
                                    HIGH(w->own), LOW(w->own));
                break;
            case PREPARED_LONG_BOTH:
                description = gex_AM_PrepareRequestLong(tm, w->peer, NULL, w->bytes, w->bytes, w->remote, NULL, 0, 3);
                memcpy(gex_AM_SrcDescAddr(description), w->local, w->bytes);
                gex_AM_CommitRequestLong3(description, PING_PREPARED_LONG, w->bytes, w->remote, thread, HIGH(w->own),
                                          LOW(w->own));
                break;
            default:
                description = gex_AM_PrepareRequestMedium(tm, w->peer, NULL, w->bytes, w->bytes, NULL, 0, 1);
                memcpy(gex_AM_SrcDescAddr(description), w->local, w->bytes);
                gex_AM_CommitRequestMedium1(description, w->test->variant == PREPARED ? PING_MEDIUM : PING_PREPARED,
                                            w->bytes, thread);
        }
        expected++;
        GASNET_BLOCKUNTIL(replies(thread) == expected);
    }
}

static void throw(const struct worker *w) {
    switch (w->test->variant) {
        case SHORT: gex_AM_RequestShort0(tm, w->peer, BALL, 0); break;
        case MEDIUM_AM: gex_AM_RequestMedium0(tm, w->peer, BALL_MEDIUM, w->local, w->bytes, GEX_EVENT_NOW, 0); break;
        default: gex_AM_RequestLong0(tm, w->peer, BALL_LONG, w->local, w->bytes, w->remote, GEX_EVENT_NOW, 0); break;
    }
}

/* Ping-pong: requests in both directions by turns. */
static void ping_pong(struct worker *w, long count) {
    static int expected;
    int serves = me <= w->peer; /* a single rank sends to itself */
    long i;
    for (i = 0; i < count; i++) {
        if (serves) throw(w);
        expected++;
        GASNET_BLOCKUNTIL(__atomic_load_n(&balls, __ATOMIC_ACQUIRE) == expected);
        if (!serves) throw(w);
    }
}

/* Computes a payload of 8-byte words, different in each call. */
static void fill(void *to, size_t bytes, uint64_t seed) {
    uint64_t *words = to;
    size_t i;
    for (i = 0; i < bytes / sizeof *words; i++) words[i] = seed + i;
}

/* Requests without waiting, then the acknowledgement of all. */
static void flood(struct worker *w, long count) {
    int thread = w->thread, expected = replies(thread) + 1, total = (int)count;
    gex_AM_SrcDesc_t description;
    long i;
    for (i = 0; i < count; i++) {
        switch (w->test->variant) {
            case SHORT: gex_AM_RequestShort2(tm, w->peer, SHOT_SHORT, 0, thread, total); break;
            case MEDIUM_AM:
                gex_AM_RequestMedium2(tm, w->peer, SHOT_MEDIUM, w->local, w->bytes, GEX_EVENT_NOW, 0, thread, total);
                break;
            case LONG_AM:
                gex_AM_RequestLong2(tm, w->peer, SHOT_LONG, w->local, w->bytes, w->remote, GEX_EVENT_NOW, 0, thread,
                                    total);
                break;
            case PREPARED:
                description = gex_AM_PrepareRequestMedium(tm, w->peer, NULL, w->bytes, w->bytes, NULL, 0, 2);
                memcpy(gex_AM_SrcDescAddr(description), w->local, w->bytes);
                gex_AM_CommitRequestMedium2(description, SHOT_MEDIUM, w->bytes, thread, total);
                break;
            case FILLED:
                fill(w->local, w->bytes, (uint64_t)i);
                gex_AM_RequestMedium2(tm, w->peer, SHOT_MEDIUM, w->local, w->bytes, GEX_EVENT_NOW, 0, thread, total);
                break;
            case FILLED_PREPARED:
                description = gex_AM_PrepareRequestMedium(tm, w->peer, NULL, w->bytes, w->bytes, NULL, 0, 2);
                fill(gex_AM_SrcDescAddr(description), w->bytes, (uint64_t)i);
                gex_AM_CommitRequestMedium2(description, SHOT_MEDIUM, w->bytes, thread, total);
                break;
            default:
                description = gex_AM_PrepareRequestLong(tm, w->peer, NULL, w->bytes, w->bytes, w->remote, NULL, 0, 2);
                memcpy(gex_AM_SrcDescAddr(description), w->local, w->bytes);
                gex_AM_CommitRequestLong2(description, SHOT_LONG, w->bytes, w->remote, thread, total);
        }
    }
    GASNET_BLOCKUNTIL(replies(thread) == expected);
}

#define ALONE(which) MANY_BYTES | (which), 1, (size_t)1 << 30
#define BYTES(which) MANY_BYTES | THREADS | (which), 1, (size_t)1 << 30
const struct test am_tests[] = {
    {"am-short", "Short request and Short reply", PAIRS, THREADS, 0, 0, SHORT, round_trip, "ping-pong"},
    {"am-ball", "ping-pong of Short requests", ROUNDS, 0, 0, 0, SHORT, ping_pong, "ping-pong"},
    {"am-medium-ball", "ping-pong of Medium requests", ROUNDS, ALONE(MEDIUM), MEDIUM_AM, ping_pong, "ping-pong"},
    {"am-long-ball", "ping-pong of Long requests", ROUNDS, ALONE(LONG), LONG_AM, ping_pong, "ping-pong"},
    {"am-medium", "Medium request and Medium reply", PAIRS, BYTES(MEDIUM), MEDIUM_AM, round_trip, "ping-pong"},
    {"am-long", "Long request and Long reply", PAIRS, BYTES(LONG), LONG_AM, round_trip, "ping-pong"},
    {"np-medium", "prepared Medium request and Medium reply", PAIRS, BYTES(PREPARED_MEDIUM), PREPARED, round_trip,
     "ping-pong"},
    {"np-both", "prepared Medium request and prepared Medium reply", PAIRS, BYTES(PREPARED_MEDIUM), PREPARED_BOTH,
     round_trip, "ping-pong"},
    {"np-long", "prepared Long request and prepared Long reply", PAIRS, BYTES(PREPARED_LONG), PREPARED_LONG_BOTH,
     round_trip, "ping-pong"},
    {"am-short-flood", "Short requests", PAIRS, THREADS, 0, 0, SHORT, flood, NULL},
    {"am-medium-flood", "Medium requests", PAIRS, BYTES(MEDIUM), MEDIUM_AM, flood, "copy"},
    {"am-long-flood", "Long requests", PAIRS, BYTES(LONG), LONG_AM, flood, "copy"},
    {"np-medium-flood", "prepared Medium requests", PAIRS, BYTES(PREPARED_MEDIUM), PREPARED, flood, "copy"},
    {"am-fill-flood", "Medium requests, each with a newly computed payload", PAIRS, BYTES(MEDIUM | WORDS), FILLED,
     flood, "copy"},
    {"np-fill-flood", "prepared Medium requests, each payload computed in the library's buffer", PAIRS,
     BYTES(PREPARED_MEDIUM | WORDS), FILLED_PREPARED, flood, "copy"},
    {"np-long-flood", "prepared Long requests", PAIRS, BYTES(PREPARED_LONG), PREPARED_TO_LONG, flood, "copy"},
    {"am-medium-biflood", "Medium requests in both directions", BOTH, BYTES(MEDIUM), MEDIUM_AM, flood, NULL},
    {NULL, NULL, PAIRS, 0, 0, 0, 0, NULL, NULL}};

/* Messages of net_faults: Shorts, Mediums and Longs, numbered per receiver and category, and
 * replies of all categories to some of them. Handlers check that each arrives once, with its
 * contents; `settle_messages` checks that all have arrived. */
#ifndef COMPAT_TESTS_MESSAGES_H
#define COMPAT_TESTS_MESSAGES_H

#include "traffic.h"

enum { SHORT, MEDIUM, LONG, KINDS, NOTHING = KINDS };
enum { ON_SHORT = 200, ON_MEDIUM, ON_LONG, ON_ANSWER_SHORT, ON_ANSWER_MEDIUM, ON_ANSWER_LONG };
enum { LONGEST = 200 * 1024, ANSWER_KEY = 99 };

static uint64_t messages_seed;
static size_t largest_request[KINDS], largest_answer[KINDS];
static uint32_t (*sent)[KINDS];        /* by receiver */
static struct come (*requests)[KINDS]; /* by sender */
static struct come (*answers)[KINDS];  /* by who answered, and the kind of the request */
static uint32_t wanted, answered, all_sent;
static char **long_to, **answer_to; /* where a Long to a rank goes, and a Long answer to it */
static char *long_from_me,
    *answer_area; /* in the own segment, by sender: where Longs, and Long answers to this rank, arrive */
static int *long_is_busy, *answer_is_busy;
static char *request_buffer, *answer_buffer;

static void answer(gex_Token_t token, uint64_t key, gex_AM_Arg_t from, gex_AM_Arg_t kind, gex_AM_Arg_t number,
                   gex_AM_Arg_t want) {
    size_t bytes = size_of(key, 0, largest_answer[want == NOTHING ? 0 : want]);
    stress_fill(answer_buffer, bytes, key);
    switch (want) {
        case SHORT: OK(gex_AM_ReplyShort3(token, ON_ANSWER_SHORT, 0, (gex_AM_Arg_t)me, kind, number)); break;
        case MEDIUM:
            OK(gex_AM_ReplyMedium3(token, ON_ANSWER_MEDIUM, answer_buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                                   kind, number));
            break;
        case LONG:
            OK(gex_AM_ReplyLong3(token, ON_ANSWER_LONG, answer_buffer, bytes, answer_to[from], GEX_EVENT_NOW, 0,
                                 (gex_AM_Arg_t)me, kind, number));
            break;
        default: break;
    }
}

/* Every request ends here. */
static void on_request(gex_Token_t token, int kind, const void *payload, size_t bytes, gex_AM_Arg_t from,
                       gex_AM_Arg_t number, gex_AM_Arg_t want) {
    uint64_t key = key_of(messages_seed, (gex_Rank_t)from, me, kind, (uint32_t)number);
    CHECKF(note(&requests[from][kind], (uint32_t)number), "request %d of kind %d of rank %d came twice", (int)number,
           kind, (int)from);
    CHECKF(bytes == size_of(key, 0, largest_request[kind]), "request %d of kind %d of rank %d has %zu bytes",
           (int)number, kind, (int)from, bytes);
    CHECKF(stress_same(payload, bytes, key), "request %d of kind %d of rank %d, %zu bytes, is damaged", (int)number,
           kind, (int)from, bytes);
    answer(token, key + ANSWER_KEY, from, kind, number, want);
}

static void on_short(gex_Token_t token, gex_AM_Arg_t from, gex_AM_Arg_t number, gex_AM_Arg_t want) {
    on_request(token, SHORT, "", 0, from, number, want);
}
static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t number,
                      gex_AM_Arg_t want) {
    on_request(token, MEDIUM, payload, bytes, from, number, want);
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t number,
                    gex_AM_Arg_t want) {
    CHECK(payload == long_from_me + (size_t)from * LONGEST);
    on_request(token, LONG, payload, bytes, from, number, want);
}

/* Every answer ends here. */
static void on_answer(const void *payload, size_t bytes, size_t largest, gex_AM_Arg_t from, gex_AM_Arg_t kind,
                      gex_AM_Arg_t number) {
    uint64_t key = key_of(messages_seed, me, (gex_Rank_t)from, kind, (uint32_t)number) + ANSWER_KEY;
    CHECKF(note(&answers[from][kind], (uint32_t)number), "the answer of rank %d to request %d of kind %d came twice",
           (int)from, (int)number, (int)kind);
    CHECKF(bytes == size_of(key, 0, largest) && stress_same(payload, bytes, key),
           "the answer of rank %d to request %d, %zu bytes, is damaged", (int)from, (int)number, bytes);
    if (kind == LONG) long_is_busy[from] = 0;
    answered++;
}

static void on_answer_short(gex_Token_t token, gex_AM_Arg_t from, gex_AM_Arg_t kind, gex_AM_Arg_t number) {
    on_answer("", 0, 0, from, kind, number);
}
static void on_answer_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t kind,
                             gex_AM_Arg_t number) {
    on_answer(payload, bytes, largest_answer[MEDIUM], from, kind, number);
}
static void on_answer_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t kind,
                           gex_AM_Arg_t number) {
    CHECK(payload == answer_area + (size_t)from * LONGEST);
    on_answer(payload, bytes, largest_answer[LONG], from, kind, number);
    answer_is_busy[from] = 0;
}

static size_t smaller_size(size_t a, size_t b) { return a < b ? a : b; }

/* Before the segment is attached. */
static void register_messages(uint64_t seed) {
    messages_seed = seed;
    largest_request[MEDIUM] = gex_AM_LUBRequestMedium();
    largest_request[LONG] = smaller_size(gex_AM_LUBRequestLong(), LONGEST);
    largest_answer[MEDIUM] = gex_AM_LUBReplyMedium();
    largest_answer[LONG] = smaller_size(gex_AM_LUBReplyLong(), LONGEST);
    register_handler(ON_SHORT, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 3);
    register_handler(ON_MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 3);
    register_handler(ON_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3);
    register_handler(ON_ANSWER_SHORT, (gex_AM_Fn_t)on_answer_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 3);
    register_handler(ON_ANSWER_MEDIUM, (gex_AM_Fn_t)on_answer_medium, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 3);
    register_handler(ON_ANSWER_LONG, (gex_AM_Fn_t)on_answer_long, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 3);
}

/* Bytes that messages need of every segment. */
static size_t messages_bytes(void) { return 2 * (size_t)np * LONGEST; }

/* With `areas`, by rank, the part of its segment that is for messages. A barrier has to follow. */
static void start_messages(char *const *areas) {
    sent = (uint32_t(*)[KINDS])zeroed(np, sizeof *sent);
    requests = (struct come(*)[KINDS])zeroed(np, sizeof *requests);
    answers = (struct come(*)[KINDS])zeroed(np, sizeof *answers);
    long_is_busy = (int *)zeroed(np, sizeof *long_is_busy);
    answer_is_busy = (int *)zeroed(np, sizeof *answer_is_busy);
    long_to = (char **)zeroed(np, sizeof *long_to);
    answer_to = (char **)zeroed(np, sizeof *answer_to);
    request_buffer = (char *)zeroed(1, LONGEST);
    answer_buffer = (char *)zeroed(1, LONGEST);
    long_from_me = areas[me];
    answer_area = areas[me] + (size_t)np * LONGEST;
    for (gex_Rank_t r = 0; r < np; r++) {
        long_to[r] = areas[r] + (size_t)me * LONGEST;
        answer_to[r] = areas[r] + (size_t)(np + me) * LONGEST;
    }
}

/* Sends one request. */
static void send_request(uint64_t random, gex_Rank_t to) {
    int kind = (int)(random % KINDS);
    gex_Flags_t flags = random & 16 ? GEX_FLAG_IMMEDIATE : 0;
    gex_Event_t local = GEX_EVENT_INVALID, *how = random & 32 ? GEX_EVENT_NOW : &local;
    gex_AM_Arg_t from = (gex_AM_Arg_t)me;
    /* One Long to a rank is under way at a time, so that it is whole when its handler looks at it.
     * It has an answer always. */
    if (kind == LONG) GASNET_BLOCKUNTIL(!long_is_busy[to]);
    gex_AM_Arg_t number = (gex_AM_Arg_t)sent[to][kind]++;
    uint64_t key = key_of(messages_seed, me, to, kind, (uint32_t)number);
    size_t bytes = size_of(key, 0, largest_request[kind]);
    gex_AM_Arg_t want = (gex_AM_Arg_t)((random >> 8) % (kind == LONG ? KINDS : KINDS + 1));
    if (want == LONG && answer_is_busy[to]) want = SHORT;
    if (want == LONG) answer_is_busy[to] = 1;
    if (want != NOTHING) wanted++;
    if (kind == LONG) long_is_busy[to] = 1;
    all_sent++;
    stress_fill(request_buffer, bytes, key);
    for (;;) {
        int refused = 0;
        switch (kind) {
            case SHORT: refused = gex_AM_RequestShort3(tm, to, ON_SHORT, flags, from, number, want); break;
            case MEDIUM:
                refused =
                    gex_AM_RequestMedium3(tm, to, ON_MEDIUM, request_buffer, bytes, how, flags, from, number, want);
                break;
            default:
                refused = gex_AM_RequestLong3(tm, to, ON_LONG, request_buffer, bytes, long_to[to], how, flags, from,
                                              number, want);
        }
        if (!refused) break;
        CHECK(flags & GEX_FLAG_IMMEDIATE);
        gasnet_AMPoll();
    }
    if (kind != SHORT && how == &local) gex_Event_Wait(local);
}

/* Waits until everything that was sent has come everywhere, and checks that it is that.
 * Collective. */
static void settle_messages(void) {
    PHASE("answers");
    GASNET_BLOCKUNTIL(answered >= wanted);
    CHECKF(answered == wanted, "%u answers came to %u requests", (unsigned)answered, (unsigned)wanted);
    PHASE("requests");
    const void *table = share(sent, np * sizeof *sent);
    for (gex_Rank_t r = 0; r < np; r++)
        for (int kind = 0; kind < KINDS; kind++) {
            uint32_t expected = SHARED(uint32_t, table, r)[me * KINDS + (gex_Rank_t)kind];
            GASNET_BLOCKUNTIL(requests[r][kind].count >= expected);
            CHECKF(requests[r][kind].count == expected && requests[r][kind].above == expected,
                   "of %u requests of rank %u, kind %d, came %u", (unsigned)expected, (unsigned)r, kind,
                   (unsigned)requests[r][kind].count);
        }
    barrier();
}

#endif

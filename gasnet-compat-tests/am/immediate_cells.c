// GEX_FLAG_IMMEDIATE in every call that has it: fixed and negotiated requests and replies, puts,
// gets and VIS, of sizes that a conduit sends in different ways. A call that finds no room returns
// at once, has no effect and runs no handler; one that is accepted arrives exactly once. Over ibv
// the settings leave room for a few operations, and every call must be both accepted and refused.
// TEST_VERBOSE=1 prints how often.
// NP: 2 3
// CONDUITS: smp sock udp ibv gni elan ofi
// TIMEOUT: 120
// ENV: GASNET_AM_CREDITS_PP=8 GASNET_NETWORKDEPTH_PP=4 GASNET_BBUF_COUNT=1 GASNET_AMRDMA_MAX_PEERS=0
// ENV: GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER=32K
// VARIANT: rings (after the first 64, small messages travel through rings in memory)
// NP: 2
// CONDUITS: ibv
// ENV: GASNET_AM_CREDITS_PP=8 GASNET_NETWORKDEPTH_PP=4 GASNET_BBUF_COUNT=1
#include "outside.h"

#include <gasnet_vis.h>

enum { SLOTS = 32, SLOT = 26 << 12, LIMIT = 4000, REFUSALS = 30, ROUNDS = 4, ASKS = SLOTS / ROUNDS, PIECES = 4 };
enum { SHORT, MEDIUM, LONG, OWN_MEDIUM, OWN_LONG, LIB_MEDIUM, LIB_LONG }; /* whose buffer it is, if negotiated */
enum { PUT_NB = 10, PUT_NBI, PUT_VAL_NB, PUT_VAL_NBI, GET_NB, GET_NBI, VIS_PUT, VIS_GET, PUT, PUT_VAL, GET };
enum { MOST = 1 << 30 };                   /* the limit of the call */
enum { WORD_ASKS = 1, WORD_POKES, WORDS }; /* shared words; then one for each round of replies */
enum { REQUEST_SHORT = 150, REQUEST_MEDIUM, REQUEST_LONG, REPLY_SHORT, REPLY_MEDIUM, REPLY_LONG, ASK, POKE, DONE };

static const struct cell {
    const char *name;
    int call;
    size_t bytes;
    int now; /* the source is always to be free at return */
} cells[] = {
    {"Short", SHORT, 0, 0},
    {"Medium 8", MEDIUM, 8, 0},
    {"Medium 600", MEDIUM, 600, 0},
    {"Medium 3000", MEDIUM, 3000, 0},
    {"Medium most", MEDIUM, MOST, 0},
    {"Long 0", LONG, 0, 0},
    {"Long 8", LONG, 8, 0},
    {"Long 600", LONG, 600, 0},
    {"Long 4012", LONG, 4012, 0},
    {"Long 5000", LONG, 5000, 0},
    {"Long 100000", LONG, 100000, 0},
    {"Long 100000, NOW", LONG, 100000, 1},
    {"client's Medium 8", OWN_MEDIUM, 8, 0},
    {"client's Medium 600", OWN_MEDIUM, 600, 0},
    {"client's Medium most", OWN_MEDIUM, MOST, 0},
    {"client's Long 8", OWN_LONG, 8, 0},
    {"client's Long 600", OWN_LONG, 600, 0},
    {"client's Long 5000", OWN_LONG, 5000, 0},
    {"client's Long 100000", OWN_LONG, 100000, 0},
    {"library's Medium 8", LIB_MEDIUM, 8, 0},
    {"library's Medium 600", LIB_MEDIUM, 600, 0},
    {"library's Medium most", LIB_MEDIUM, MOST, 0},
    {"library's Long 8", LIB_LONG, 8, 0},
    {"library's Long 600", LIB_LONG, 600, 0},
    {"library's Long 5000", LIB_LONG, 5000, 0},
    {"library's Long most", LIB_LONG, MOST, 0},
    {"PutNB 8", PUT_NB, 8, 0},
    {"PutNB 600", PUT_NB, 600, 0},
    {"PutNB 600, NOW", PUT_NB, 600, 1},
    {"PutNB 100000", PUT_NB, 100000, 0},
    {"PutNBI 8", PUT_NBI, 8, 0},
    {"PutNBI 5000", PUT_NBI, 5000, 0},
    {"PutNBVal", PUT_VAL_NB, 8, 0},
    {"PutNBIVal", PUT_VAL_NBI, 8, 0},
    {"GetNB 8", GET_NB, 8, 0},
    {"GetNB 5000", GET_NB, 5000, 0},
    {"GetNB 100000", GET_NB, 100000, 0},
    {"GetNBI 600", GET_NBI, 600, 0},
    {"IndexedPutNB", VIS_PUT, 2000, 0},
    {"IndexedGetNB", VIS_GET, 2000, 0},
    {"PutBlocking 8", PUT, 8, 0},
    {"PutBlocking 5000", PUT, 5000, 0},
    {"PutBlockingVal", PUT_VAL, 8, 0},
    {"GetBlocking 8", GET, 8, 0},
    {"GetBlocking 5000", GET, 5000, 0},
};

static char *sources, *landing, *scratch, *mine, *theirs;
static int seen[LIMIT], arrived, done, pokes, asked, accepted, refused;
static gex_Event_t events[SLOTS], local[LIMIT];
static gex_Rank_t peer;
static int must_refuse, must_refuse_replies; /* over ibv, with these settings */

static int is_message(const struct cell *c) { return c->call < PUT_NB; }
static int is_get(const struct cell *c) {
    return c->call == GET || c->call == GET_NB || c->call == GET_NBI || c->call == VIS_GET;
}
static int is_long(const struct cell *c) { return c->call == LONG || c->call == OWN_LONG || c->call == LIB_LONG; }
static size_t slot_of(unsigned seq) { return (size_t)SLOT * (seq % SLOTS); }

static size_t bytes_of(const struct cell *c) {
    int is_library = c->call == LIB_MEDIUM || c->call == LIB_LONG;
    gex_Event_t *lc = is_library ? NULL : GEX_EVENT_NOW;
    gex_Flags_t flags = is_library ? GEX_FLAG_AM_PREPARE_LEAST_ALLOC : 0;
    size_t most = SLOT;
    if (is_message(c) && is_long(c)) most = gex_AM_MaxRequestLong(tm, peer, lc, flags, 2);
    else if (is_message(c)) most = gex_AM_MaxRequestMedium(tm, peer, lc, flags, 2);
    most = most < SLOT ? most : SLOT;
    return c->bytes < most ? c->bytes : most;
}

/* Too large to be copied. */
#ifdef GASNET_CONDUIT_GNI
enum { COPIED = 32768 };
#else
enum { COPIED = 60000 };
#endif
static int is_large(const struct cell *c) { return bytes_of(c) > COPIED; }
/* The call may wait for local completion, and polls; gni and elan also for that of the library's
 * buffer. */
static int waits_for_source(const struct cell *c) {
#if defined(GASNET_CONDUIT_GNI) || defined(GASNET_CONDUIT_ELAN)
    if (c->call == LIB_LONG) return is_large(c);
#endif
    if (getenv("GASNET_NONBULKPUT_BOUNCE_LIMIT")) return 1; /* less than COPIED is copied */
    return c->now && is_large(c);
}

/* Messages and their replies. */
static void note(gex_AM_Arg_t seq) {
    REQUIRE(seq >= 0 && seq < LIMIT);
    CHECKF(ATOMIC_ADD(seen + seq, 1) == 1, "message %d came twice", (int)seq);
    ATOMIC_ADD(&arrived, 1);
}
static void on_short(gex_Token_t token, gex_AM_Arg_t index, gex_AM_Arg_t seq) {
    CHECK(cells[index].call == SHORT);
    note(seq);
}
static void on_payload(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t index, gex_AM_Arg_t seq) {
    CHECK(bytes == bytes_of(cells + index));
    CHECK_PATTERN(payload, bytes, (uint64_t)seq % SLOTS);
    if (is_long(cells + index) && bytes > 0) CHECK(payload == (void *)(mine + slot_of((unsigned)seq)));
    note(seq);
}
static void on_poke(gex_Token_t token) { ATOMIC_ADD(&pokes, 1); }
static void on_done(gex_Token_t token, gex_AM_Arg_t count) { ATOMIC_SET(&done, (int)count + 1); }

/* A refused Commit leaves descriptor, buffer and payload as they were. */
#define COMMIT(verb, category, sd, ...)                                                                          \
    do {                                                                                                         \
        char *room = (char *)gex_AM_SrcDescAddr(sd);                                                             \
        REQUIRE(gex_AM_SrcDescSize(sd) >= bytes);                                                                \
        if (room != source) memcpy(room, source, bytes);                                                         \
        for (tries = 0; tries < 2; tries++) {                                                                    \
            if (gex_AM_Commit##verb##category##2_v2(sd, verb##_##category, __VA_ARGS__, flags, index, seq) == 0) \
                return 0;                                                                                        \
            CHECK(gex_AM_SrcDescAddr(sd) == (void *)room && gex_AM_SrcDescSize(sd) >= bytes &&                   \
                  memcmp(room, source, bytes) == 0);                                                             \
        }                                                                                                        \
        OK(gex_AM_Cancel##verb##category(sd, 0));                                                                \
        return 1;                                                                                                \
    } while (0)

/* Sends a message as a request or a reply. Returns 1 if it is refused. */
#define DEFINE_SEND(function, verb, ...)                                                                               \
    static int function(gex_Token_t token, gex_AM_Arg_t index, gex_AM_Arg_t seq, const char *source, char *to,         \
                        gex_Event_t *lc, gex_Flags_t flags) {                                                          \
        const struct cell *c = cells + index;                                                                          \
        size_t bytes = bytes_of(c);                                                                                    \
        const char *own = c->call == LIB_MEDIUM || c->call == LIB_LONG ? NULL : source;                                \
        gex_AM_SrcDesc_t sd;                                                                                           \
        int tries;                                                                                                     \
        if (!own) lc = NULL;                                                                                           \
        switch (c->call) {                                                                                             \
            case SHORT: return gex_AM_##verb##Short2(__VA_ARGS__, verb##_Short, flags, index, seq);                    \
            case MEDIUM:                                                                                               \
                return gex_AM_##verb##Medium2(__VA_ARGS__, verb##_Medium, (void *)(uintptr_t)source, bytes, lc, flags, \
                                              index, seq);                                                             \
            case LONG:                                                                                                 \
                return gex_AM_##verb##Long2(__VA_ARGS__, verb##_Long, (void *)(uintptr_t)source, bytes, to, lc, flags, \
                                            index, seq);                                                               \
            case OWN_MEDIUM:                                                                                           \
            case LIB_MEDIUM:                                                                                           \
                sd = gex_AM_Prepare##verb##Medium(__VA_ARGS__, own, bytes, bytes, lc, flags, 2);                       \
                if (sd == GEX_AM_SRCDESC_NO_OP) return 1;                                                              \
                COMMIT(verb, Medium, sd, bytes);                                                                       \
            default:                                                                                                   \
                sd = gex_AM_Prepare##verb##Long(__VA_ARGS__, own, bytes, bytes, to, lc, flags, 2);                     \
                if (sd == GEX_AM_SRCDESC_NO_OP) return 1;                                                              \
                COMMIT(verb, Long, sd, bytes, to);                                                                     \
        }                                                                                                              \
    }
enum { Request_Short = REQUEST_SHORT, Request_Medium, Request_Long, Reply_Short, Reply_Medium, Reply_Long };
DEFINE_SEND(request, Request, tm, peer)
DEFINE_SEND(reply, Reply, token)

/* Starts a put or get; `*event` is its root event. Returns 1 if it is refused. */
static int transfer(const struct cell *c, char *source, char *to, char *into, gex_Event_t *lc, gex_Event_t *event) {
    const gex_Flags_t f = GEX_FLAG_IMMEDIATE;
    size_t bytes = bytes_of(c), piece = bytes / PIECES;
    static void *lists[SLOTS][PIECES + 1]; /* of VIS, until the transfer is complete */
    void **there = lists[accepted], **here = there + PIECES;
    uint64_t value;
    memcpy(&value, source, sizeof value);
    for (int i = 0; i < PIECES; i++) there[i] = to + piece * (size_t)i;
    here[0] = c->call == VIS_PUT ? source : into;
    *event = GEX_EVENT_INVALID;
    switch (c->call) {
        case PUT: return gex_RMA_PutBlocking(tm, peer, to, source, bytes, f);
        case PUT_VAL: return gex_RMA_PutBlockingVal(tm, peer, to, value, 8, f);
        case GET: return gex_RMA_GetBlocking(tm, into, peer, to, bytes, f);
        case PUT_NBI: return gex_RMA_PutNBI(tm, peer, to, source, bytes, GEX_EVENT_DEFER, f);
        case PUT_VAL_NBI: return gex_RMA_PutNBIVal(tm, peer, to, value, 8, f);
        case GET_NBI: return gex_RMA_GetNBI(tm, into, peer, to, bytes, f);
        case PUT_NB: *event = gex_RMA_PutNB(tm, peer, to, source, bytes, lc, f); break;
        case PUT_VAL_NB: *event = gex_RMA_PutNBVal(tm, peer, to, value, 8, f); break;
        case GET_NB: *event = gex_RMA_GetNB(tm, into, peer, to, bytes, f); break;
        case VIS_PUT: *event = gex_VIS_IndexedPutNB(tm, peer, PIECES, there, piece, 1, here, bytes, f); break;
        default: *event = gex_VIS_IndexedGetNB(tm, 1, here, bytes, peer, PIECES, there, piece, f); break;
    }
    if (*event != GEX_EVENT_NO_OP) return 0;
    *event = GEX_EVENT_INVALID;
    return 1;
}

/* The next request or transfer of a cell, whose number is that of those accepted before. */
static int attempt(gex_AM_Arg_t index) {
    const struct cell *c = cells + index;
    unsigned seq = (unsigned)accepted;
    size_t at = slot_of(seq);
    char *source = sources + at, *to = theirs + at;
    gex_Event_t *lc = &local[seq];
    int result, has_copy = 0;
    local[seq] = GEX_EVENT_INVALID;
    if (is_message(c) || c->call == PUT_NB) {
        has_copy = c->now || (!is_large(c) && seq % 3 == 0);
        if (has_copy) lc = GEX_EVENT_NOW;
        else if (is_message(c) && seq % 3 == 1) lc = GEX_EVENT_GROUP;
    }
    if (has_copy) source = memcpy(scratch, source, SLOT);
    if (is_message(c)) result = request(NULL, index, (gex_AM_Arg_t)seq, source, to, lc, GEX_FLAG_IMMEDIATE);
    else result = transfer(c, source, to, landing + at, lc, &events[seq]);
    CHECK(result == 0 || result == 1);
    if (result) CHECK(local[seq] == GEX_EVENT_INVALID);
    if (has_copy) memset(scratch, 0x55, SLOT);
    if (result) refused++;
    else accepted++;
    return result;
}

static int is_blocking(const struct cell *c) { return c->call >= PUT; }

/* The peer is outside GASNet. */
static void flood(gex_AM_Arg_t index) {
    const struct cell *c = cells + index;
    int limit = is_message(c) && !is_long(c) ? LIMIT - 2 : SLOTS - 2, ran = ATOMIC_GET(&pokes), full = 0;
    gex_Event_t fill[SLOTS];
    size_t last = slot_of(SLOTS - 1), bytes = bytes_of(c);
    int count = 0;
    if (is_blocking(c)) { /* one that is accepted would make room, or wait for the peer */
        for (; count < SLOTS && !full; count++) {
            fill[count] =
                is_get(c) ? gex_RMA_GetNB(tm, landing + last, peer, theirs + last, bytes, GEX_FLAG_IMMEDIATE)
                          : gex_RMA_PutNB(tm, peer, theirs + last, sources, bytes, GEX_EVENT_DEFER, GEX_FLAG_IMMEDIATE);
            full = fill[count] == GEX_EVENT_NO_OP;
        }
        count -= full;
        if (must_refuse) CHECK(full);
        /* Injected faults refuse where there is room, and the call that is accepted then waits. */
        if (getenv("GASNET_FAULTS")) full = 0;
        for (int i = 0; full && i < REFUSALS; i++) CHECKF(attempt(index), "%s was accepted", c->name);
    } else {
        while (refused < REFUSALS && accepted < limit) attempt(index);
    }
    if (!waits_for_source(c)) CHECKF(ATOMIC_GET(&pokes) == ran, "%s ran a handler", c->name);
    if (must_refuse) CHECKF(refused > 0, "%s was never refused, but %d times accepted", c->name, accepted);
    proceed();
    gex_Event_WaitAll(fill, (size_t)count, 0);
}

/* Once the peer polls, calls are accepted again. */
static void recover(gex_AM_Arg_t index) {
    int before = accepted;
    while (accepted < before + 2)
        if (attempt(index)) gasnet_AMPoll();
    for (int i = 0; i < accepted; i++) gex_Event_Wait(local[i]);
    if (!is_message(cells + index)) gex_Event_WaitAll(events, (size_t)accepted, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    if (is_message(cells + index))
        for (int i = 0; i < accepted && i < SLOTS; i++)
            CHECK_PATTERN(sources + slot_of((unsigned)i), SLOT, (uint64_t)i);
}

/* The slots of what was accepted have their bytes, the next one is as it was. */
static void verify_slots(char *slots, int count, size_t bytes) {
    for (int i = 0; i < count && i < SLOTS; i++) CHECK_PATTERN(slots + slot_of((unsigned)i), bytes, (uint64_t)i);
    for (; count < SLOTS && bytes-- > 0;) CHECK(slots[slot_of((unsigned)count) + bytes] == 0);
}

static void verify_messages(int count) {
    for (int i = 0; i < LIMIT; i++) CHECKF(seen[i] == (i < count), "message %d of %d came %d times", i, count, seen[i]);
    memset(seen, 0, sizeof seen);
    ATOMIC_SET(&arrived, 0);
}

static void forget(void) { accepted = refused = done = 0; }

/* Rank 0 sends to rank 1. */
static void run_cell(gex_AM_Arg_t index) {
    const struct cell *c = cells + index;
    char *slots = is_get(c) ? landing : mine;
    size_t used = is_long(c) || !is_message(c) ? bytes_of(c) : 0;
    int tries;
    PHASE(c->name);
    forget();
    if (me < 2)
        for (int i = 0; i < SLOTS; i++) memset(landing + slot_of((unsigned)i), 0, used);
    if (me == 1)
        for (int i = 0; i < SLOTS; i++) {
            if (is_get(c)) pattern_fill(mine + slot_of((unsigned)i), used, (uint64_t)i);
            else memset(mine + slot_of((unsigned)i), 0, used);
        }
    barrier();
    if (me == 0) {
        proceed();
        await();
        flood(index);
        recover(index);
        if (is_get(c)) verify_slots(slots, accepted, used);
        if (getenv("TEST_VERBOSE")) printf("%s: %d accepted, %d refused\n", c->name, accepted, refused);
        gex_AM_RequestShort1(tm, 1, DONE, 0, accepted);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&pokes) == (int)ATOMIC_GET(shared + WORD_POKES));
    } else if (me == 1) {
        await();
        /* This request waits for rank 0 while that calls with IMMEDIATE. */
        for (tries = 0; tries < 100; tries++) {
            if (gex_AM_RequestShort0(tm, 0, POKE, GEX_FLAG_IMMEDIATE) == 0) {
                ATOMIC_ADD(shared + WORD_POKES, 1U);
                break;
            }
            gasnet_AMPoll();
        }
        proceed();
        await();
        GASNET_BLOCKUNTIL(ATOMIC_GET(&done) && (!is_message(c) || ATOMIC_GET(&arrived) >= done - 1));
        if (is_message(c)) verify_messages(done - 1);
        if (!is_get(c) && used > 0) verify_slots(slots, done - 1, used);
    }
    barrier();
}

/* Rank 1 finds several requests in one poll, and answers each: with IMMEDIATE if there is room. */
static void on_ask(gex_Token_t token, gex_AM_Arg_t index, gex_AM_Arg_t seq) {
    const struct cell *c = cells + index;
    char *source = sources + slot_of((unsigned)seq), *to = theirs + slot_of((unsigned)seq);
    gex_Event_t *lc = is_large(c) && !c->now ? &local[seq] : GEX_EVENT_NOW;
    int result = 1;
    local[seq] = GEX_EVENT_INVALID;
    if (lc == GEX_EVENT_NOW) source = memcpy(scratch, source, SLOT);
    for (int i = 0; i < 3 && result; i++) {
        result = reply(token, index, seq, source, to, lc, GEX_FLAG_IMMEDIATE);
        refused += result;
        if (result) CHECK(local[seq] == GEX_EVENT_INVALID);
    }
    accepted += !result;
    if (result) OK(reply(token, index, seq, source, to, lc, 0));
    if (source == scratch) memset(source, 0x55, SLOT);
    ATOMIC_ADD(&asked, 1);
}

static int reply_may_be_refused(const struct cell *c) {
#ifndef GASNET_SEGMENT_FAST
    if (bytes_of(c) > gex_AM_MaxReplyMedium(tm, peer, GEX_EVENT_NOW, 0, 2)) return 0; /* is copied, and sent later */
#endif
    return !waits_for_source(c);
}

static void run_replies(gex_AM_Arg_t index) {
    const struct cell *c = cells + index;
    static uint32_t rounds;
    int i, total = 0, tries;
    PHASE(c->name);
    forget();
    for (i = 0; me == 0 && i < SLOTS; i++) memset(mine + slot_of((unsigned)i), 0, is_long(c) ? bytes_of(c) : 0);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t *is_enough = shared + WORDS + rounds++;
        barrier();
        if (me == 0) {
            for (i = 0, tries = 0; i < ASKS && tries < 1000; tries++) {
                if (gex_AM_RequestShort2(tm, 1, ASK, GEX_FLAG_IMMEDIATE, index, total + i) == 0) i++;
                else gasnet_AMPoll();
            }
            total += i;
            ATOMIC_SET(shared + WORD_ASKS, (uint32_t)i);
#ifdef GASNET_SEGMENT_FAST
            if (must_refuse) /* a put is complete after the requests before it have arrived */
                OK(gex_RMA_PutBlocking(tm, 1, theirs + slot_of(SLOTS - 1), sources, 8, 0));
#endif
            proceed();
            GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == total);
        } else if (me == 1) {
            await();
            GASNET_BLOCKUNTIL(ATOMIC_GET(&asked) == (int)ATOMIC_GET(shared + WORD_ASKS));
            ATOMIC_SET(&asked, 0);
            for (i = (int)ATOMIC_GET(shared + WORD_ASKS); i > 0; i--) gex_Event_Wait(local[total++]);
            ATOMIC_SET(is_enough, accepted > 0 && refused > 0);
        }
        barrier();
        if (ATOMIC_GET(is_enough)) break;
    }
    if (me == 0) verify_messages(total);
    if (me == 1) {
        if (getenv("TEST_VERBOSE")) printf("reply %s: %d accepted, %d refused\n", c->name, accepted, refused);
        CHECKF(accepted > 0, "reply %s was never accepted", c->name);
        if (must_refuse_replies && ATOMIC_GET(shared + WORD_ASKS) > 5 && reply_may_be_refused(c))
            CHECKF(refused > 0, "reply %s was never refused, but %d times accepted", c->name, accepted);
    }
    barrier();
}

int main(int argc, char **argv) {
    gex_AM_Arg_t index;
    gex_RankInfo_t *nbrhd;
    gex_Rank_t nbrhd_size;
    static const gex_Flags_t request_flag = GEX_FLAG_AM_REQUEST, reply_flag = GEX_FLAG_AM_REPLY;
    test_init("immediate_cells", &argc, &argv);
    register_handler(REQUEST_SHORT, (gex_AM_Fn_t)on_short, request_flag | GEX_FLAG_AM_SHORT, 2);
    register_handler(REQUEST_MEDIUM, (gex_AM_Fn_t)on_payload, request_flag | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(REQUEST_LONG, (gex_AM_Fn_t)on_payload, request_flag | GEX_FLAG_AM_LONG, 2);
    register_handler(REPLY_SHORT, (gex_AM_Fn_t)on_short, reply_flag | GEX_FLAG_AM_SHORT, 2);
    register_handler(REPLY_MEDIUM, (gex_AM_Fn_t)on_payload, reply_flag | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(REPLY_LONG, (gex_AM_Fn_t)on_payload, reply_flag | GEX_FLAG_AM_LONG, 2);
    register_handler(ASK, (gex_AM_Fn_t)on_ask, request_flag | GEX_FLAG_AM_SHORT, 2);
    register_handler(POKE, (gex_AM_Fn_t)on_poke, request_flag | GEX_FLAG_AM_SHORT, 0);
    register_handler(DONE, (gex_AM_Fn_t)on_done, request_flag | GEX_FLAG_AM_SHORT, 1);
    if (gasnet_getMaxLocalSegmentSize() < (uintptr_t)SLOTS * SLOT) {
        printf("SKIP immediate_cells: less memory than %zu bytes may be locked\n", (size_t)SLOTS * SLOT);
        return TEST_SKIPPED;
    }
    test_attach((uintptr_t)SLOTS * SLOT);
    share_words();
    gex_System_QueryNbrhdInfo(&nbrhd, &nbrhd_size, NULL);
#ifdef GASNET_CONDUIT_IBV
    /* With these, up to 256 long transfers wait in the library before a call is refused. */
    must_refuse = nbrhd_size == 1 && !getenv("GASNET_USE_ODP") && !getenv("GASNET_PUT_STRIPE_SZ") &&
                  !getenv("GASNET_USE_FIREHOSE");
    /* A poll takes fewer requests from rings than fill the send queue. */
    must_refuse_replies = must_refuse && getenv("GASNET_AMRDMA_MAX_PEERS") && !atoi(getenv("GASNET_AMRDMA_MAX_PEERS"));
    /* With XRC a queue holds the operations of several peers. */
    if (getenv("GASNET_USE_XRC") && atoi(getenv("GASNET_USE_XRC"))) must_refuse_replies = 0;
#endif
    peer = me == 0 ? 1 : 0;
    mine = seg_of(me);
    theirs = seg_of(peer);
    scratch = (char *)malloc(SLOT);
    landing = (char *)calloc(SLOTS, SLOT);
    sources = (char *)malloc((size_t)SLOTS * SLOT);
    for (size_t i = 0; i < SLOTS; i++) pattern_fill(sources + SLOT * i, SLOT, i);
    for (index = 0; index < (gex_AM_Arg_t)ARRAY_LENGTH(cells); index++) {
        run_cell(index);
        if (is_message(cells + index)) run_replies(index);
    }
    return test_finish();
}

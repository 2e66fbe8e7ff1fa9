// Short, Medium and Long, request and reply, with 0 to 16 arguments, through the numbered names and
// through the names that count their arguments.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "arguments.h"
#include "check.h"

enum { BASE = 130, SLOT = 512 };
enum { SHORT_REQUEST, MEDIUM_REQUEST, LONG_REQUEST, SHORT_REPLY, MEDIUM_REPLY, LONG_REPLY, KINDS };
#define INDEX(kind, n) ((gex_AM_Index_t)(BASE + (kind)*17 + (n)))
#define BYTES(n) ((size_t)(5 * (n) + 1))
#define SEED(kind, n) ((uint64_t)((kind)*100 + (n)))

static char **bases;
static int counted; /* 1: use the names that count their arguments */
static int replies;
static char payload[KINDS][17][128];

/* Place of the Long payloads of `sender` in the segment of a receiver: one slot for requests, one
 * for replies. */
#define TARGET(receiver, sender, is_reply) (bases[receiver] + (2 * (size_t)(sender) + (is_reply)) * SLOT)

#define HANDLERS(n)                                                                                                    \
    static void short_request_##n(gex_Token_t token PARAMS_##n) {                                                      \
        VERIFY_##n(n);                                                                                                 \
        if (counted) CALL(gex_AM_ReplyShort, token, INDEX(SHORT_REPLY, n), 0 ARGS_##n);                                \
        else CALL(gex_AM_ReplyShort##n, token, INDEX(SHORT_REPLY, n), 0 ARGS_##n);                                     \
    }                                                                                                                  \
    static void medium_request_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                         \
        VERIFY_##n(n);                                                                                                 \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                                            \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REQUEST, n));                                                         \
        if (counted)                                                                                                   \
            CALL(gex_AM_ReplyMedium, token, INDEX(MEDIUM_REPLY, n), payload[MEDIUM_REPLY][n], BYTES(n), GEX_EVENT_NOW, \
                 0 ARGS_##n);                                                                                          \
        else                                                                                                           \
            CALL(gex_AM_ReplyMedium##n, token, INDEX(MEDIUM_REPLY, n), payload[MEDIUM_REPLY][n], BYTES(n),             \
                 GEX_EVENT_NOW, 0 ARGS_##n);                                                                           \
    }                                                                                                                  \
    static void long_request_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                           \
        gex_Rank_t source = source_of(token);                                                                          \
        VERIFY_##n(n);                                                                                                 \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                                            \
        CHECK(buffer == TARGET(me, source, 0));                                                                        \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REQUEST, n));                                                           \
        if (counted)                                                                                                   \
            CALL(gex_AM_ReplyLong, token, INDEX(LONG_REPLY, n), payload[LONG_REPLY][n], BYTES(n),                      \
                 TARGET(source, me, 1), GEX_EVENT_NOW, 0 ARGS_##n);                                                    \
        else                                                                                                           \
            CALL(gex_AM_ReplyLong##n, token, INDEX(LONG_REPLY, n), payload[LONG_REPLY][n], BYTES(n),                   \
                 TARGET(source, me, 1), GEX_EVENT_NOW, 0 ARGS_##n);                                                    \
    }                                                                                                                  \
    static void short_reply_##n(gex_Token_t token PARAMS_##n) {                                                        \
        VERIFY_##n(n);                                                                                                 \
        ATOMIC_ADD(&replies, 1);                                                                                       \
    }                                                                                                                  \
    static void medium_reply_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                           \
        VERIFY_##n(n);                                                                                                 \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                                            \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REPLY, n));                                                           \
        ATOMIC_ADD(&replies, 1);                                                                                       \
    }                                                                                                                  \
    static void long_reply_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                             \
        gex_Rank_t source = source_of(token);                                                                          \
        VERIFY_##n(n);                                                                                                 \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                                            \
        CHECK(buffer == TARGET(me, source, 1));                                                                        \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REPLY, n));                                                             \
        ATOMIC_ADD(&replies, 1);                                                                                       \
    }
FOR_ALL_COUNTS(HANDLERS)

#define WAIT_FOR_REPLY() GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected)

#define EXCHANGE(n)                                                                                                    \
    static void exchange_##n(gex_Rank_t peer) {                                                                        \
        int expected = ATOMIC_GET(&replies) + 1;                                                                       \
        if (counted) OK(CALL(gex_AM_RequestShort, tm, peer, INDEX(SHORT_REQUEST, n), 0 ARGS_##n));                     \
        else OK(CALL(gex_AM_RequestShort##n, tm, peer, INDEX(SHORT_REQUEST, n), 0 ARGS_##n));                          \
        WAIT_FOR_REPLY();                                                                                              \
        expected++;                                                                                                    \
        if (counted)                                                                                                   \
            OK(CALL(gex_AM_RequestMedium, tm, peer, INDEX(MEDIUM_REQUEST, n), payload[MEDIUM_REQUEST][n], BYTES(n),    \
                    GEX_EVENT_NOW, 0 ARGS_##n));                                                                       \
        else                                                                                                           \
            OK(CALL(gex_AM_RequestMedium##n, tm, peer, INDEX(MEDIUM_REQUEST, n), payload[MEDIUM_REQUEST][n], BYTES(n), \
                    GEX_EVENT_NOW, 0 ARGS_##n));                                                                       \
        WAIT_FOR_REPLY();                                                                                              \
        expected++;                                                                                                    \
        if (counted)                                                                                                   \
            OK(CALL(gex_AM_RequestLong, tm, peer, INDEX(LONG_REQUEST, n), payload[LONG_REQUEST][n], BYTES(n),          \
                    TARGET(peer, me, 0), GEX_EVENT_NOW, 0 ARGS_##n));                                                  \
        else                                                                                                           \
            OK(CALL(gex_AM_RequestLong##n, tm, peer, INDEX(LONG_REQUEST, n), payload[LONG_REQUEST][n], BYTES(n),       \
                    TARGET(peer, me, 0), GEX_EVENT_NOW, 0 ARGS_##n));                                                  \
        WAIT_FOR_REPLY();                                                                                              \
    }
FOR_ALL_COUNTS(EXCHANGE)

#define REGISTER(n)                                                                                                    \
    register_handler(INDEX(SHORT_REQUEST, n), (gex_AM_Fn_t)short_request_##n, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, \
                     n);                                                                                               \
    register_handler(INDEX(MEDIUM_REQUEST, n), (gex_AM_Fn_t)medium_request_##n,                                        \
                     GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, n);                                                     \
    register_handler(INDEX(LONG_REQUEST, n), (gex_AM_Fn_t)long_request_##n, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG,    \
                     n);                                                                                               \
    register_handler(INDEX(SHORT_REPLY, n), (gex_AM_Fn_t)short_reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, n);   \
    register_handler(INDEX(MEDIUM_REPLY, n), (gex_AM_Fn_t)medium_reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM,    \
                     n);                                                                                               \
    register_handler(INDEX(LONG_REPLY, n), (gex_AM_Fn_t)long_reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, n);

#define RUN(n)              \
    PHASE(#n " arguments"); \
    exchange_##n(peer);

static void run_all(gex_Rank_t peer) { FOR_ALL_COUNTS(RUN) }

int main(int argc, char **argv) {
    int kind, n;
    test_init("am_arguments", &argc, &argv);
    FOR_ALL_COUNTS(REGISTER)
    for (kind = 0; kind < KINDS; kind++)
        for (n = 0; n <= 16; n++) pattern_fill(payload[kind][n], BYTES(n), SEED(kind, n));
    test_attach((uintptr_t)np * 2 * SLOT);
    bases = segs_of_all();
    barrier();
    for (counted = 0; counted < 2; counted++) {
        unsigned step = np > 8 ? (unsigned)np / 4 : 1U;
        for (unsigned hop = 0; hop < np; hop += step) run_all((gex_Rank_t)((me + hop) % np));
        barrier();
    }
    return test_finish();
}

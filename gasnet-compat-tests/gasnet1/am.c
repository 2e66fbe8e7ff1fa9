// gasnet_AMRequest{Short,Medium,Long,LongAsync} and gasnet_AMReply{Short,Medium,Long} with 0 to 16
// arguments.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check1.h"

#include "arguments.h"

enum { BASE = 130, SLOT = 512 };
enum { SHORT_REQUEST, MEDIUM_REQUEST, LONG_REQUEST, SHORT_REPLY, MEDIUM_REPLY, LONG_REPLY, KINDS };
#define INDEX(kind, n) ((gasnet_handler_t)(BASE + (kind)*17 + (n)))
#define BYTES(n) ((size_t)(7 * (n) + 1))
#define SEED(kind, n) ((uint64_t)((kind)*100 + (n)))

static gasnet_handlerentry_t table[KINDS * 17];
static int entries;
static int replies;
static char payload[KINDS][17][128];

/* Place of the Long payloads of `from` in the segment of `to`: one slot for requests, one for
 * replies. */
#define TARGET(to, from, is_reply) at(to, (2 * (size_t)(from) + (is_reply)) * SLOT)

#define HANDLERS(n)                                                                                      \
    static void short_request_##n(gasnet_token_t token PARAMS_##n) {                                     \
        VERIFY_##n(n);                                                                                   \
        CHECK(CALL(gasnet_AMReplyShort##n, token, INDEX(SHORT_REPLY, n) ARGS_##n) == GASNET_OK);         \
    }                                                                                                    \
    static void medium_request_##n(gasnet_token_t token, void *buffer, size_t bytes PARAMS_##n) {        \
        VERIFY_##n(n);                                                                                   \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                              \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REQUEST, n));                                           \
        CHECK(CALL(gasnet_AMReplyMedium##n, token, INDEX(MEDIUM_REPLY, n), payload[MEDIUM_REPLY][n],     \
                   BYTES(n) ARGS_##n) == GASNET_OK);                                                     \
    }                                                                                                    \
    static void long_request_##n(gasnet_token_t token, void *buffer, size_t bytes PARAMS_##n) {          \
        gasnet_node_t source = sender(token);                                                            \
        VERIFY_##n(n);                                                                                   \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                              \
        CHECK(buffer == TARGET(me, source, 0));                                                          \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REQUEST, n));                                             \
        CHECK(CALL(gasnet_AMReplyLong##n, token, INDEX(LONG_REPLY, n), payload[LONG_REPLY][n], BYTES(n), \
                   TARGET(source, me, 1) ARGS_##n) == GASNET_OK);                                        \
    }                                                                                                    \
    static void short_reply_##n(gasnet_token_t token PARAMS_##n) {                                       \
        VERIFY_##n(n);                                                                                   \
        ATOMIC_ADD(&replies, 1);                                                                         \
    }                                                                                                    \
    static void medium_reply_##n(gasnet_token_t token, void *buffer, size_t bytes PARAMS_##n) {          \
        VERIFY_##n(n);                                                                                   \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                              \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REPLY, n));                                             \
        ATOMIC_ADD(&replies, 1);                                                                         \
    }                                                                                                    \
    static void long_reply_##n(gasnet_token_t token, void *buffer, size_t bytes PARAMS_##n) {            \
        VERIFY_##n(n);                                                                                   \
        CHECKF(bytes == BYTES(n), "%zu bytes with %d arguments", bytes, n);                              \
        CHECK(buffer == TARGET(me, sender(token), 1));                                                   \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REPLY, n));                                               \
        ATOMIC_ADD(&replies, 1);                                                                         \
    }
FOR_ALL_COUNTS(HANDLERS)

#define WAIT_FOR_REPLY()                                     \
    do {                                                     \
        expected++;                                          \
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected); \
    } while (0)

/* A payload that may be reused is destroyed at once; that of LongAsync stays until the reply. */
#define EXCHANGE(n)                                                                                             \
    static void exchange_##n(gasnet_node_t peer) {                                                              \
        int expected = ATOMIC_GET(&replies);                                                                    \
        char scratch[128];                                                                                      \
        OK(CALL(gasnet_AMRequestShort##n, peer, INDEX(SHORT_REQUEST, n) ARGS_##n));                             \
        WAIT_FOR_REPLY();                                                                                       \
        memcpy(scratch, payload[MEDIUM_REQUEST][n], BYTES(n));                                                  \
        OK(CALL(gasnet_AMRequestMedium##n, peer, INDEX(MEDIUM_REQUEST, n), scratch, BYTES(n) ARGS_##n));        \
        memset(scratch, 0, sizeof scratch);                                                                     \
        WAIT_FOR_REPLY();                                                                                       \
        memcpy(scratch, payload[LONG_REQUEST][n], BYTES(n));                                                    \
        OK(CALL(gasnet_AMRequestLong##n, peer, INDEX(LONG_REQUEST, n), scratch, BYTES(n),                       \
                TARGET(peer, me, 0) ARGS_##n));                                                                 \
        memset(scratch, 0, sizeof scratch);                                                                     \
        WAIT_FOR_REPLY();                                                                                       \
        gasnet_memset(peer, TARGET(peer, me, 0), 0, SLOT);                                                      \
        OK(CALL(gasnet_AMRequestLongAsync##n, peer, INDEX(LONG_REQUEST, n), payload[LONG_REQUEST][n], BYTES(n), \
                TARGET(peer, me, 0) ARGS_##n));                                                                 \
        WAIT_FOR_REPLY();                                                                                       \
    }
FOR_ALL_COUNTS(EXCHANGE)

static void add_handler(gasnet_handler_t index, gex_AM_Fn_t function) {
    table[entries].index = index;
    table[entries++].fnptr = function;
}

#define REGISTER(n)                                                         \
    add_handler(INDEX(SHORT_REQUEST, n), (gex_AM_Fn_t)short_request_##n);   \
    add_handler(INDEX(MEDIUM_REQUEST, n), (gex_AM_Fn_t)medium_request_##n); \
    add_handler(INDEX(LONG_REQUEST, n), (gex_AM_Fn_t)long_request_##n);     \
    add_handler(INDEX(SHORT_REPLY, n), (gex_AM_Fn_t)short_reply_##n);       \
    add_handler(INDEX(MEDIUM_REPLY, n), (gex_AM_Fn_t)medium_reply_##n);     \
    add_handler(INDEX(LONG_REPLY, n), (gex_AM_Fn_t)long_reply_##n);

#define RUN(n)              \
    PHASE(#n " arguments"); \
    exchange_##n(peer);

int main(int argc, char **argv) {
    int kind, n;
    gasnet1_init("am", &argc, &argv);
    FOR_ALL_COUNTS(REGISTER)
    for (kind = 0; kind < KINDS; kind++)
        for (n = 0; n <= 16; n++) pattern_fill(payload[kind][n], BYTES(n), SEED(kind, n));
    gasnet1_attach(table, entries, (uintptr_t)np * 2 * SLOT);
    CHECK(gasnet_AMMaxArgs() >= 16);
    gasnet1_barrier();
    unsigned step = np > 8 ? (unsigned)np / 4 : 1U;
    for (unsigned hop = 0; hop < np; hop += step) {
        gasnet_node_t peer = (gasnet_node_t)((me + hop) % np);
        FOR_ALL_COUNTS(RUN)
    }
    gasnet1_barrier();
    return test_finish();
}

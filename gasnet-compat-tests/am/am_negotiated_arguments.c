// Negotiated-payload Medium and Long, request and reply, committed with 0 to 16 arguments: numbered
// and counting names, Commit and Commit_v2.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "arguments.h"
#include "check.h"

enum { BASE = 130, SLOT = 512 };
enum { MEDIUM_REQUEST, LONG_REQUEST, MEDIUM_REPLY, LONG_REPLY, KINDS };
#define INDEX(kind, n) ((gex_AM_Index_t)(BASE + (kind)*17 + (n)))
#define BYTES(n) ((size_t)(7 * (n) + 3))
#define SEED(kind, n) ((uint64_t)((kind)*100 + (n)))
#define TARGET(receiver, sender, is_reply) (bases[receiver] + (2 * (size_t)(sender) + (is_reply)) * SLOT)

static char **bases;
static int replies;
static int form; /* bit 0: counting names, bit 1: Commit_v2 */

static void fill(gex_AM_SrcDesc_t sd, int kind, int n) {
    REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
    CHECK(gex_AM_SrcDescAddr(sd) != NULL);
    CHECK(gex_AM_SrcDescSize(sd) >= BYTES(n) && gex_AM_SrcDescSize(sd) <= BYTES(n) + 100);
    pattern_fill(gex_AM_SrcDescAddr(sd), BYTES(n), SEED(kind, n));
}

#define COMMIT_MEDIUM(what, n, kind)                                                                         \
    do {                                                                                                     \
        if (form == 0) CALL(gex_AM_Commit##what##n, sd, INDEX(kind, n), BYTES(n) ARGS_##n);                  \
        else if (form == 1) CALL(gex_AM_Commit##what, sd, INDEX(kind, n), BYTES(n) ARGS_##n);                \
        else if (form == 2) OK(CALL(gex_AM_Commit##what##n##_v2, sd, INDEX(kind, n), BYTES(n), 0 ARGS_##n)); \
        else OK(CALL(gex_AM_Commit##what##_v2, sd, INDEX(kind, n), BYTES(n), 0 ARGS_##n));                   \
    } while (0)
#define COMMIT_LONG(what, n, kind, target)                                                                           \
    do {                                                                                                             \
        if (form == 0) CALL(gex_AM_Commit##what##n, sd, INDEX(kind, n), BYTES(n), target ARGS_##n);                  \
        else if (form == 1) CALL(gex_AM_Commit##what, sd, INDEX(kind, n), BYTES(n), target ARGS_##n);                \
        else if (form == 2) OK(CALL(gex_AM_Commit##what##n##_v2, sd, INDEX(kind, n), BYTES(n), target, 0 ARGS_##n)); \
        else OK(CALL(gex_AM_Commit##what##_v2, sd, INDEX(kind, n), BYTES(n), target, 0 ARGS_##n));                   \
    } while (0)

/* TEST_SOME_REPLY_NAMES_ONLY is for libraries whose headers get some names of reply commits
 * wrong. */
#ifdef TEST_SOME_REPLY_NAMES_ONLY
#define REPLY_MEDIUM(n, kind) CALL(gex_AM_CommitReplyMedium_v2, sd, INDEX(kind, n), BYTES(n), 0 ARGS_##n)
#define REPLY_LONG(n, kind, target) CALL(gex_AM_CommitReplyLong, sd, INDEX(kind, n), BYTES(n), target ARGS_##n)
#else
#define REPLY_MEDIUM(n, kind) COMMIT_MEDIUM(ReplyMedium, n, kind)
#define REPLY_LONG(n, kind, target) COMMIT_LONG(ReplyLong, n, kind, target)
#endif

#define HANDLERS(n)                                                                            \
    static void medium_request_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) { \
        gex_AM_SrcDesc_t sd;                                                                   \
        VERIFY_##n(n);                                                                         \
        CHECK(bytes == BYTES(n));                                                              \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REQUEST, n));                                 \
        sd = gex_AM_PrepareReplyMedium(token, NULL, BYTES(n), BYTES(n) + 100, NULL, 0, n);     \
        fill(sd, MEDIUM_REPLY, n);                                                             \
        REPLY_MEDIUM(n, MEDIUM_REPLY);                                                         \
    }                                                                                          \
    static void long_request_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {   \
        gex_AM_SrcDesc_t sd;                                                                   \
        gex_Rank_t source = source_of(token);                                                  \
        VERIFY_##n(n);                                                                         \
        CHECK(bytes == BYTES(n) && buffer == TARGET(me, source, 0));                           \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REQUEST, n));                                   \
        sd = gex_AM_PrepareReplyLong(token, NULL, BYTES(n), BYTES(n) + 100, NULL, NULL, 0, n); \
        fill(sd, LONG_REPLY, n);                                                               \
        REPLY_LONG(n, LONG_REPLY, TARGET(source, me, 1));                                      \
    }                                                                                          \
    static void medium_reply_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {   \
        VERIFY_##n(n);                                                                         \
        CHECK(bytes == BYTES(n));                                                              \
        CHECK_PATTERN(buffer, bytes, SEED(MEDIUM_REPLY, n));                                   \
        ATOMIC_ADD(&replies, 1);                                                               \
    }                                                                                          \
    static void long_reply_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {     \
        VERIFY_##n(n);                                                                         \
        CHECK(bytes == BYTES(n) && buffer == TARGET(me, source_of(token), 1));                 \
        CHECK_PATTERN(buffer, bytes, SEED(LONG_REPLY, n));                                     \
        ATOMIC_ADD(&replies, 1);                                                               \
    }
FOR_ALL_COUNTS(HANDLERS)

#define EXCHANGE(n)                                                                                                \
    static void exchange_##n(gex_Rank_t peer) {                                                                    \
        int expected = ATOMIC_GET(&replies) + 1;                                                                   \
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, BYTES(n), BYTES(n) + 100, NULL, 0, n);   \
        fill(sd, MEDIUM_REQUEST, n);                                                                               \
        COMMIT_MEDIUM(RequestMedium, n, MEDIUM_REQUEST);                                                           \
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);                                                       \
        expected++;                                                                                                \
        sd = gex_AM_PrepareRequestLong(tm, peer, NULL, BYTES(n), BYTES(n) + 100, TARGET(peer, me, 0), NULL, 0, n); \
        fill(sd, LONG_REQUEST, n);                                                                                 \
        COMMIT_LONG(RequestLong, n, LONG_REQUEST, TARGET(peer, me, 0));                                            \
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);                                                       \
    }
FOR_ALL_COUNTS(EXCHANGE)

#define REGISTER(n)                                                                                                 \
    register_handler(INDEX(MEDIUM_REQUEST, n), (gex_AM_Fn_t)medium_request_##n,                                     \
                     GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, n);                                                  \
    register_handler(INDEX(LONG_REQUEST, n), (gex_AM_Fn_t)long_request_##n, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, \
                     n);                                                                                            \
    register_handler(INDEX(MEDIUM_REPLY, n), (gex_AM_Fn_t)medium_reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, \
                     n);                                                                                            \
    register_handler(INDEX(LONG_REPLY, n), (gex_AM_Fn_t)long_reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, n);

#define RUN(n)              \
    PHASE(#n " arguments"); \
    exchange_##n(peer);

static void run_all(gex_Rank_t peer) { FOR_ALL_COUNTS(RUN) }

int main(int argc, char **argv) {
    test_init("am_negotiated_arguments", &argc, &argv);
    FOR_ALL_COUNTS(REGISTER)
    test_attach((uintptr_t)np * 2 * SLOT);
    bases = segs_of_all();
    barrier();
    for (form = 0; form < 4; form++) {
        for (gex_Rank_t hop = 0; hop<np; hop += np> 8 ? np / 4 : 1) run_all((me + hop) % np);
        barrier(); /* a handler reads `form`, so all ranks change it together */
    }
    return test_finish();
}

// All-to-all flood of maximal Medium requests, each answered by a maximal Medium reply, Shorts and
// Longs between them: nothing is lost, duplicated or stuck.
// NP: 1 2 4 7
// TIMEOUT: 120
#include "check.h"

static gex_AM_Index_t medium_index = 150, medium_reply = 151, short_index = 152, short_reply = 153, long_index = 154;
static int requests, replies;
static size_t request_bytes, reply_bytes;
static char *reply_data;
static char **bases;

/* Samples: whole comparisons of every payload would dominate. */
static void spot(const char *buffer, size_t bytes, uint64_t seed) {
    for (size_t i = 0; i < bytes; i += bytes / 7 + 1) CHECK((unsigned char)buffer[i] == pattern_byte(seed, i));
    if (bytes) CHECK((unsigned char)buffer[bytes - 1] == pattern_byte(seed, bytes - 1));
}

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial) {
    CHECK(bytes == request_bytes);
    spot((const char *)buffer, bytes, 1);
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyMedium1(token, medium_reply, reply_data, reply_bytes, GEX_EVENT_NOW, 0, serial);
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial) {
    CHECK(bytes == reply_bytes);
    spot((const char *)buffer, bytes, 2);
    ATOMIC_ADD(&replies, 1);
}
static void on_short(gex_Token_t token, gex_AM_Arg_t serial) {
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyShort1(token, short_reply, 0, serial);
}
static void on_short_reply(gex_Token_t token, gex_AM_Arg_t serial) { ATOMIC_ADD(&replies, 1); }
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial) {
    spot((const char *)buffer, bytes, 3);
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyShort1(token, short_reply, 0, serial);
}

int main(int argc, char **argv) {
    int sent = 0;
    enum { LONG_BYTES = 8000 };
    test_init("am_flood", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(short_reply, (gex_AM_Fn_t)on_short_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    request_bytes = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 1);
    reply_bytes = gex_AM_MaxReplyMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 1);
    char *medium_data = (char *)malloc(request_bytes);
    reply_data = (char *)malloc(reply_bytes);
    char *long_data = (char *)malloc(LONG_BYTES);
    pattern_fill(medium_data, request_bytes, 1);
    pattern_fill(reply_data, reply_bytes, 2);
    pattern_fill(long_data, LONG_BYTES, 3);
    test_attach(LONG_BYTES);
    bases = (char **)malloc(np * sizeof *bases);
    for (gex_Rank_t r = 0; r < np; r++) bases[r] = seg_of(r);
    pattern_fill(bases[me], LONG_BYTES, 3); /* every Long writes these bytes */
    barrier();
    int rounds = np > 16 ? 3 : 2000 / (int)(np * np) + 20;
    PHASE("flood");
    for (int round = 0; round < rounds; round++) {
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t peer = (me + r) % np;
            OK(gex_AM_RequestMedium1(tm, peer, medium_index, medium_data, request_bytes, GEX_EVENT_NOW, 0, sent++));
            OK(gex_AM_RequestShort1(tm, peer, short_index, 0, sent++));
            if (round % 4 == 0)
                OK(gex_AM_RequestLong1(tm, peer, long_index, long_data, LONG_BYTES, bases[peer], GEX_EVENT_NOW, 0,
                                       sent++));
        }
    }
    PHASE("drain");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == sent);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&requests) == sent);
    barrier();
    CHECK(ATOMIC_GET(&replies) == sent && ATOMIC_GET(&requests) == sent);
    return test_finish();
}

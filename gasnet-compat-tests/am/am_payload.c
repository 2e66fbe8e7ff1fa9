// Medium and Long payloads of 0, 1, odd sizes up to the maximum, with every residue of the source
// address; the handler's buffer is aligned for any type; a Long's address arrives even when it
// carries nothing; replies of the same sizes.
// NP: 1 2 4 7
// TIMEOUT: 90
#include "check.h"

static gex_AM_Index_t medium_index[17], long_index[3], medium_reply = 180, long_reply = 181;
static char **bases;
static size_t long_slot;
static int replies;

/* Suitable for any type of the C language; 8 is what every type but the widest needs. */
static void check_alignment(const void *buffer, size_t bytes) {
    if (bytes) CHECKF((uintptr_t)buffer % 8 == 0, "%zu bytes at %p", bytes, buffer);
}

static void on_medium_0(gex_Token_t token, void *buffer, size_t bytes) {
    check_alignment(buffer, bytes);
    CHECK_PATTERN(buffer, bytes, bytes);
    gex_AM_ReplyMedium2(token, medium_reply, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, 1);
}
static void on_medium_1(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a) {
    check_alignment(buffer, bytes);
    CHECK((size_t)a == bytes);
    CHECK_PATTERN(buffer, bytes, bytes);
    gex_AM_ReplyMedium2(token, medium_reply, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, 2);
}
static void on_medium_2(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a, gex_AM_Arg_t b) {
    check_alignment(buffer, bytes);
    CHECK((size_t)a == bytes && b == -1);
    CHECK_PATTERN(buffer, bytes, bytes);
    gex_AM_ReplyMedium2(token, medium_reply, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, 3);
}
static void on_medium_3(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a, gex_AM_Arg_t b, gex_AM_Arg_t c) {
    check_alignment(buffer, bytes);
    CHECK((size_t)a == bytes && b == -1 && c == -2);
    CHECK_PATTERN(buffer, bytes, bytes);
    gex_AM_ReplyMedium2(token, medium_reply, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, 4);
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a, gex_AM_Arg_t kind) {
    check_alignment(buffer, bytes);
    CHECK((size_t)a == bytes && kind >= 1 && kind <= 4);
    CHECK_PATTERN(buffer, bytes, bytes);
    ATOMIC_ADD(&replies, 1);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t offset, gex_AM_Arg_t reply_bytes) {
    gex_Rank_t source = source_of(token);
    CHECK(buffer == bases[me] + source * 2 * long_slot + offset);
    CHECK_PATTERN(buffer, bytes, bytes);
    gex_AM_ReplyLong1(token, long_reply, buffer, (size_t)reply_bytes, bases[source] + (me * 2 + 1) * long_slot + offset,
                      GEX_EVENT_NOW, 0, offset);
}
static void on_long_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t offset) {
    gex_Rank_t source = source_of(token);
    CHECK(buffer == bases[me] + (source * 2 + 1) * long_slot + offset);
    /* the reply carries a prefix of the request, whose seed is the request's size: the sender
     * checks the content */
    ATOMIC_ADD(&replies, 1);
}

static void medium_sizes(gex_Rank_t peer, char *source, size_t limit) {
    size_t sizes[] = {0,  1,   2,   3,   4,   5,   7,    8,    9,    15,   16,    17,    31, 63, 64,
                      65, 127, 255, 511, 512, 513, 1000, 4095, 4096, 4097, 16383, 32768, 0,  0,  0};
    size_t count = ARRAY_LENGTH(sizes);
    sizes[count - 3] = limit / 2 + 1;
    sizes[count - 2] = limit - 1;
    sizes[count - 1] = limit;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = sizes[i];
        char *p = source + i % 16;
        int expected = ATOMIC_GET(&replies) + 4;
        if (bytes > limit) continue;
        pattern_fill(p, bytes, bytes);
        OK(gex_AM_RequestMedium0(tm, peer, medium_index[0], p, bytes, GEX_EVENT_NOW, 0));
        OK(gex_AM_RequestMedium1(tm, peer, medium_index[1], p, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes));
        OK(gex_AM_RequestMedium2(tm, peer, medium_index[2], p, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, -1));
        OK(gex_AM_RequestMedium3(tm, peer, medium_index[3], p, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes, -1, -2));
        memset(p, 0xDD, bytes); /* NOW: the source is free at return */
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);
    }
}

static void long_sizes(gex_Rank_t peer, char *source, size_t limit, size_t reply_limit) {
    size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 64, 100, 511, 512, 4096, 5001, 65536, 65537, 131072, 0, 0};
    size_t count = ARRAY_LENGTH(sizes);
    sizes[count - 2] = limit - 1;
    sizes[count - 1] = limit;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = sizes[i], offset = i % 9;
        char *p = source + i % 16;
        int expected = ATOMIC_GET(&replies) + 1;
        if (bytes > limit) continue;
        size_t reply_bytes = bytes < reply_limit ? bytes : reply_limit;
        pattern_fill(p, bytes, bytes);
        OK(gex_AM_RequestLong2(tm, peer, long_index[0], p, bytes, bases[peer] + me * 2 * long_slot + offset,
                               GEX_EVENT_NOW, 0, (gex_AM_Arg_t)offset, (gex_AM_Arg_t)reply_bytes));
        memset(p, 0xDD, bytes);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);
        CHECK_PATTERN(bases[me] + (peer * 2 + 1) * long_slot + offset, reply_bytes, bytes);
    }
}

int main(int argc, char **argv) {
    static const gex_Flags_t request = GEX_FLAG_AM_REQUEST;
    test_init("am_payload", &argc, &argv);
    for (int i = 0; i < 4; i++) medium_index[i] = (gex_AM_Index_t)(170 + i);
    long_index[0] = 176;
    register_handler(medium_index[0], (gex_AM_Fn_t)on_medium_0, request | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(medium_index[1], (gex_AM_Fn_t)on_medium_1, request | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(medium_index[2], (gex_AM_Fn_t)on_medium_2, request | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(medium_index[3], (gex_AM_Fn_t)on_medium_3, request | GEX_FLAG_AM_MEDIUM, 3);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(long_index[0], (gex_AM_Fn_t)on_long, request | GEX_FLAG_AM_LONG, 2);
    register_handler(long_reply, (gex_AM_Fn_t)on_long_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1);

    /* The limits common to all these messages. Longs are capped, since some networks allow
     * gigabytes. */
    size_t medium_limit = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 3);
    if (gex_AM_MaxReplyMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 2) < medium_limit)
        medium_limit = gex_AM_MaxReplyMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 2);
    size_t request_limit = gex_AM_MaxRequestLong(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 2);
    size_t reply_limit = gex_AM_MaxReplyLong(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 1);
    size_t cap = np <= 8 ? 1000000 : np <= 16 ? 100000 : 20000;
    if (request_limit > cap) request_limit = cap;
    if (reply_limit > cap) reply_limit = cap;
    if (np > 8 && medium_limit > cap) medium_limit = cap;
    long_slot = (request_limit > reply_limit ? request_limit : reply_limit) + 64;
    test_attach((uintptr_t)np * 2 * long_slot);
    bases = segs_of_all();
    char *source = (char *)malloc((medium_limit > request_limit ? medium_limit : request_limit) + 64);
    barrier();
    for (gex_Rank_t hop = 0; hop<np; hop += np> 8 ? np / 4 : 1) {
        PHASE("Medium");
        medium_sizes((me + hop) % np, source, medium_limit);
        PHASE("Long");
        long_sizes((me + hop) % np, source, request_limit, reply_limit);
    }
    barrier();
    free(source);
    return test_finish();
}

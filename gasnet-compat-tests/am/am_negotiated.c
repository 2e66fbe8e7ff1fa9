// Negotiated payload, request and reply, Medium and Long: client and library buffers, the size that
// Prepare grants, commits of fewer bytes and of none, local completion, destination given at
// Prepare or only at Commit, handler chosen late.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 2000, SLOT = 8192 };
static gex_AM_Index_t medium_index = 150, long_index = 151, medium_reply = 152, long_reply = 153, poke_medium = 154,
                      poke_long = 155, ack_index = 156;
static char **bases;
static int handled, acknowledged;
static char client_buffer[SLOT], reply_buffer[SLOT];
/* Events of replies are waited for outside the handlers. Reply buffers are only ever filled with
 * the same bytes. */
static gex_Event_t reply_event[64];
static int reply_events;

static gex_Event_t *next_event(void) {
    int i = ATOMIC_ADD(&reply_events, 1) - 1;
    REQUIRE(i < (int)ARRAY_LENGTH(reply_event));
    return &reply_event[i];
}

static char *slot(gex_Rank_t owner, gex_Rank_t writer) { return bases[owner] + (size_t)writer * SLOT; }

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected) {
    CHECKF(bytes == (size_t)expected, "%zu, not %d", bytes, (int)expected);
    CHECK_PATTERN(buffer, bytes, 7);
    ATOMIC_ADD(&handled, 1);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected, gex_AM_Arg_t offset) {
    CHECKF(bytes == (size_t)expected, "%zu, not %d", bytes, (int)expected);
    CHECK(buffer == slot(me, source_of(token)) + offset);
    CHECK_PATTERN(buffer, bytes, 7);
    ATOMIC_ADD(&handled, 1);
}

/* Requests are acknowledged, so that a slot is written again only after its handler ran. */
static void on_medium_request(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected) {
    on_medium(token, buffer, bytes, expected);
    gex_AM_ReplyShort0(token, ack_index, 0);
}
static void on_long_request(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected, gex_AM_Arg_t offset) {
    on_long(token, buffer, bytes, expected, offset);
    gex_AM_ReplyShort0(token, ack_index, 0);
}
static void on_ack(gex_Token_t token) { ATOMIC_ADD(&acknowledged, 1); }

/* Checks a descriptor. Returns the size that it grants. */
static size_t inspect(gex_AM_SrcDesc_t sd, const void *client_buf, size_t least, size_t most) {
    REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
    CHECKF(gex_AM_SrcDescSize(sd) >= least && gex_AM_SrcDescSize(sd) <= most, "size %zu not in %zu..%zu",
           gex_AM_SrcDescSize(sd), least, most);
    CHECK(gex_AM_SrcDescAddr(sd) != NULL);
    if (client_buf) CHECK(gex_AM_SrcDescAddr(sd) == client_buf);
    else CHECKF((uintptr_t)gex_AM_SrcDescAddr(sd) % 8 == 0, "%p", gex_AM_SrcDescAddr(sd));
    CHECK(gex_AM_SrcDescAddr(sd) == gex_AM_SrcDescAddr(sd) && gex_AM_SrcDescSize(sd) == gex_AM_SrcDescSize(sd));
    return gex_AM_SrcDescSize(sd);
}

/* The bytes to commit of the granted size. */
static size_t part(size_t granted, int how) {
    return how == 0 ? granted : how == 1 ? granted / 2 + 1 : how == 2 ? 1 : 0;
}

static void request_medium(gex_Rank_t peer, int buffer_kind, int how, size_t most) {
    gex_Event_t event = GEX_EVENT_INVALID;
    const void *buffer = buffer_kind ? client_buffer : NULL;
    gex_Event_t *lc = !buffer_kind       ? NULL
                      : buffer_kind == 1 ? GEX_EVENT_NOW
                      : buffer_kind == 2 ? &event
                                         : GEX_EVENT_GROUP;
    int expected = ATOMIC_GET(&acknowledged) + 1;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, buffer, 100, most, lc, 0, 1);
    size_t granted = inspect(sd, buffer, 100, most);
    size_t bytes = part(granted, how);
    pattern_fill(gex_AM_SrcDescAddr(sd), bytes, 7);
    gex_AM_CommitRequestMedium1(sd, medium_index, bytes, (gex_AM_Arg_t)bytes);
    if (buffer_kind == 2) gex_Event_Wait(event);
    if (buffer_kind == 3) gex_NBI_Wait(GEX_EC_AM, 0);
    if (buffer_kind) memset(client_buffer, 0xEE, sizeof client_buffer);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&acknowledged) == expected);
}

/* All that Prepare grants, from a library buffer. */
static void whole_medium(size_t least, size_t most) {
    int expected = ATOMIC_GET(&acknowledged) + 1;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, (me + 1) % np, NULL, least, most, NULL, 0, 1);
    size_t granted = inspect(sd, NULL, least, most);
    pattern_fill(gex_AM_SrcDescAddr(sd), granted, 7);
    gex_AM_CommitRequestMedium(sd, medium_index, granted, (gex_AM_Arg_t)granted);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&acknowledged) == expected);
}

static void request_long(gex_Rank_t peer, int buffer_kind, int how, size_t most, int late) {
    gex_Event_t event = GEX_EVENT_INVALID;
    const void *buffer = buffer_kind ? client_buffer : NULL;
    gex_Event_t *lc = !buffer_kind       ? NULL
                      : buffer_kind == 1 ? GEX_EVENT_NOW
                      : buffer_kind == 2 ? &event
                                         : GEX_EVENT_GROUP;
    gex_AM_Arg_t offset = 3 * how;
    char *target = slot(peer, me) + offset;
    int expected = ATOMIC_GET(&acknowledged) + 1;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, peer, buffer, 100, most, late ? NULL : target, lc, 0, 2);
    size_t granted = inspect(sd, buffer, 100, most);
    size_t bytes = part(granted, how);
    if (bytes > SLOT - 16) bytes = SLOT - 16;
    pattern_fill(gex_AM_SrcDescAddr(sd), bytes, 7);
    gex_AM_CommitRequestLong2(sd, long_index, bytes, target, (gex_AM_Arg_t)bytes, offset);
    if (buffer_kind == 2) gex_Event_Wait(event);
    if (buffer_kind == 3) gex_NBI_Wait(GEX_EC_AM, 0);
    if (buffer_kind) memset(client_buffer, 0xEE, sizeof client_buffer);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&acknowledged) == expected);
}

/* A poke asks for a negotiated reply: which buffer, how much, address early or late. */
static void on_poke_medium(gex_Token_t token, gex_AM_Arg_t buffer_kind, gex_AM_Arg_t how) {
    const void *buffer = buffer_kind ? reply_buffer : NULL;
    gex_Event_t *lc = !buffer_kind ? NULL : buffer_kind == 1 ? GEX_EVENT_NOW : next_event();
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, buffer, 50, BYTES, lc, 0, 1);
    size_t bytes = part(inspect(sd, buffer, 50, BYTES), (int)how);
    pattern_fill(gex_AM_SrcDescAddr(sd), bytes, 7);
    OK(gex_AM_CommitReplyMedium1_v2(sd, medium_reply, bytes, 0, (gex_AM_Arg_t)bytes));
}
static void on_poke_long(gex_Token_t token, gex_AM_Arg_t buffer_kind, gex_AM_Arg_t how, gex_AM_Arg_t late) {
    const void *buffer = buffer_kind ? reply_buffer : NULL;
    gex_Event_t *lc = !buffer_kind ? NULL : buffer_kind == 1 ? GEX_EVENT_NOW : next_event();
    gex_AM_Arg_t offset = 3 * how;
    char *target = slot(source_of(token), me) + offset;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyLong(token, buffer, 50, BYTES, late ? NULL : target, lc, 0, 2);
    size_t bytes = part(inspect(sd, buffer, 50, BYTES), (int)how);
    pattern_fill(gex_AM_SrcDescAddr(sd), bytes, 7);
    gex_AM_CommitReplyLong2(sd, long_reply, bytes, target, (gex_AM_Arg_t)bytes, offset);
}

/* Replies are asked for one at a time and the ranks take turns, as the handlers share one reply
 * buffer and event. */
static void replies_from(gex_Rank_t peer) {
    for (int buffer_kind = 0; buffer_kind < 3; buffer_kind++) {
        for (int how = 0; how < 4; how++) {
            int expected = ATOMIC_GET(&handled) + 1;
            OK(gex_AM_RequestShort2(tm, peer, poke_medium, 0, buffer_kind, how));
            GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == expected);
            for (int late = 0; late < 2; late++) {
                expected++;
                OK(gex_AM_RequestShort3(tm, peer, poke_long, 0, buffer_kind, how, late));
                GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == expected);
            }
        }
    }
}

int main(int argc, char **argv) {
    test_init("am_negotiated", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(long_reply, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 2);
    register_handler(ack_index, (gex_AM_Fn_t)on_ack, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    register_handler(poke_medium, (gex_AM_Fn_t)on_poke_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2);
    register_handler(poke_long, (gex_AM_Fn_t)on_poke_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 3);
    test_attach((uintptr_t)np * SLOT);
    bases = segs_of_all();
    barrier();

    PHASE("requests");
    for (gex_Rank_t hop = 0; hop < np && hop < 4; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        for (int buffer_kind = 0; buffer_kind < 4; buffer_kind++) {
            for (int how = 0; how < 4; how++) {
                request_medium(peer, buffer_kind, how, BYTES);
                request_long(peer, buffer_kind, how, BYTES, 0);
                request_long(peer, buffer_kind, how, BYTES, 1);
            }
        }
        barrier();
    }

    PHASE("largest least payload");
    size_t limit = gex_AM_MaxRequestMedium(tm, (me + 1) % np, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
    whole_medium(limit, limit);
    PHASE("most payload above any limit");
    whole_medium(1, (size_t)1 << 30);
    barrier();

    PHASE("replies");
    for (gex_Rank_t r = 0; r < np && r < 8; r++) {
        if (me == r) {
            replies_from((me + 1) % np);
            replies_from(me);
        }
        barrier();
        gex_Event_WaitAll(reply_event, (size_t)ATOMIC_GET(&reply_events), 0);
        ATOMIC_SET(&reply_events, 0);
        barrier();
    }
    return test_finish();
}

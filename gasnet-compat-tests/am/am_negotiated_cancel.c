// gex_AM_Cancel* for all four kinds and both buffers, thousands of times without using anything up;
// Commit_v2 and Prepare with GEX_FLAG_IMMEDIATE: a refused commit leaves the descriptor usable, a
// refused Prepare gives NO_OP.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

enum { BYTES = 1000, ITERATIONS = 3000 };
static gex_AM_Index_t medium_index = 150, long_index = 151, poke_index = 152, medium_reply = 153, short_reply = 154;
static int handled, replied, refused;
static char client_buffer[BYTES], reply_buffer[BYTES];

static void on_payload(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK(bytes == BYTES);
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&handled, 1);
}

/* Prepares a reply, cancels it, and answers with another kind of reply or with none at all. */
static void on_poke(gex_Token_t token, gex_AM_Arg_t what) {
    const void *buffer = (what & 1) ? reply_buffer : NULL;
    gex_Event_t event;
    gex_Event_t *lc = !buffer ? NULL : (what & 8) ? &event : GEX_EVENT_NOW;
    gex_AM_SrcDesc_t sd;
    if (what & 2) {
        sd = gex_AM_PrepareReplyLong(token, buffer, 10, BYTES, NULL, lc, 0, 2);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        OK(gex_AM_CancelReplyLong(sd, 0));
    } else {
        sd = gex_AM_PrepareReplyMedium(token, buffer, 10, BYTES, lc, 0, 2);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        OK(gex_AM_CancelReplyMedium(sd, 0));
    }
    if (what & 4) {
        gex_AM_ReplyShort0(token, short_reply, 0);
    } else {
        sd = gex_AM_PrepareReplyMedium(token, NULL, BYTES, BYTES, NULL, 0, 0);
        pattern_fill(gex_AM_SrcDescAddr(sd), BYTES, 3);
        gex_AM_CommitReplyMedium0(sd, medium_reply, BYTES);
    }
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK(bytes == BYTES);
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&replied, 1);
}
static void on_short_reply(gex_Token_t token) { ATOMIC_ADD(&replied, 1); }

static void cancel_requests(gex_Rank_t peer) {
    PHASE("cancelled requests");
    for (int i = 0; i < ITERATIONS; i++) {
        const void *buffer = (i & 1) ? client_buffer : NULL;
        gex_Event_t event;
        gex_Event_t *lc = !buffer ? NULL : (i & 4) ? &event : (i & 8) ? GEX_EVENT_GROUP : GEX_EVENT_NOW;
        gex_AM_SrcDesc_t sd;
        if (i & 2) {
            sd = gex_AM_PrepareRequestLong(tm, peer, buffer, 10, BYTES, NULL, lc, 0, (unsigned)i % 17);
            REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
            if (!buffer) memset(gex_AM_SrcDescAddr(sd), i, gex_AM_SrcDescSize(sd));
            OK(gex_AM_CancelRequestLong(sd, 0));
        } else {
            sd = gex_AM_PrepareRequestMedium(tm, peer, buffer, 10, BYTES, lc, 0, (unsigned)i % 17);
            REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
            if (!buffer) memset(gex_AM_SrcDescAddr(sd), i, gex_AM_SrcDescSize(sd));
            OK(gex_AM_CancelRequestMedium(sd, 0));
        }
    }
    gex_NBI_Wait(GEX_EC_ALL, 0); /* cancelled operations left nothing in the implicit set */
    barrier();
    {
        /* nothing is used up: a Prepare that may not wait finds a buffer */
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, 10, BYTES, NULL, GEX_FLAG_IMMEDIATE, 0);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        OK(gex_AM_CancelRequestMedium(sd, 0));
    }
}

/* A refused commit may be repeated; after a bounded number of refusals it is repeated without the
 * flag. */
static void commit_immediate(gex_Rank_t peer, int expected) {
    char *target = seg_of(peer); /* every Long writes the same bytes there */
    PHASE("immediate commits");
    for (int i = 0; i < 300; i++) {
        gex_AM_SrcDesc_t sd;
        gex_Flags_t flag = (i % 3) ? GEX_FLAG_IMMEDIATE : 0;
        int is_long = i & 1;
        for (int attempt = 0;; attempt++) {
            gex_Flags_t prepare_flag = attempt < 10 ? flag : 0;
            if (is_long) sd = gex_AM_PrepareRequestLong(tm, peer, NULL, BYTES, BYTES, NULL, NULL, prepare_flag, 0);
            else sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, BYTES, BYTES, NULL, prepare_flag, 0);
            if (sd != GEX_AM_SRCDESC_NO_OP) break;
            REQUIRE(prepare_flag != 0);
            gasnet_AMPoll();
        }
        pattern_fill(gex_AM_SrcDescAddr(sd), BYTES, 3);
        for (int attempt = 0;; attempt++) {
            gex_Flags_t f = attempt < 10 ? GEX_FLAG_IMMEDIATE : 0;
            void *address = gex_AM_SrcDescAddr(sd);
            size_t size = gex_AM_SrcDescSize(sd);
            int rc = is_long ? gex_AM_CommitRequestLong0_v2(sd, long_index, BYTES, target, f)
                             : gex_AM_CommitRequestMedium0_v2(sd, medium_index, BYTES, f);
            if (rc == 0) break;
            REQUIRE(f != 0);
            refused++;
            CHECK(gex_AM_SrcDescAddr(sd) == address && gex_AM_SrcDescSize(sd) == size);
            if (attempt == 8) { /* or given up */
                OK(is_long ? gex_AM_CancelRequestLong(sd, 0) : gex_AM_CancelRequestMedium(sd, 0));
                if (is_long) sd = gex_AM_PrepareRequestLong(tm, peer, NULL, BYTES, BYTES, NULL, NULL, 0, 0);
                else sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, BYTES, BYTES, NULL, 0, 0);
                REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
                pattern_fill(gex_AM_SrcDescAddr(sd), BYTES, 3);
            }
        }
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == expected);
}

int main(int argc, char **argv) {
    test_init("am_negotiated_cancel", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(long_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    register_handler(poke_index, (gex_AM_Fn_t)on_poke, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(short_reply, (gex_AM_Fn_t)on_short_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    test_attach(4 * BYTES);
    barrier();
    gex_Rank_t peer = (me + 1) % np;
    cancel_requests(peer);
    cancel_requests(me);
    barrier();
    PHASE("cancelled replies");
    for (int i = 0; i < 1000; i++) {
        OK(gex_AM_RequestShort1(tm, (i & 64) ? me : peer, poke_index, 0, i));
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == i + 1);
    }
    barrier();
    commit_immediate(me, 300);
    barrier();
    commit_immediate(peer, 600);
    barrier();
    return test_finish();
}

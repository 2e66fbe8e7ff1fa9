// Transfers that a rank completed before it sent a message or entered a barrier are visible in the
// handler, or after the barrier. The payload of a Long is visible to its handler, and to ranks that
// the handler notifies.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { ROUNDS = 200, BYTES = 1500 };
static gex_AM_Index_t note_index = 150, long_index = 151, reply_index = 152;
static char *base;
static int replied;
static volatile int notified;

static size_t place(gex_Rank_t writer) { return (size_t)writer * BYTES; }

static void on_note(gex_Token_t token, gex_AM_Arg_t writer, gex_AM_Arg_t seed) {
    CHECK_PATTERN(base + place((gex_Rank_t)writer), BYTES, (uint64_t)seed);
    gex_AM_ReplyShort0(token, reply_index, 0);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK(bytes == BYTES);
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_SET(&notified, (int)seed);
    gex_AM_ReplyShort0(token, reply_index, 0);
}
static void on_reply(gex_Token_t token) { ATOMIC_ADD(&replied, 1); }

int main(int argc, char **argv) {
    char data[BYTES];
    int expected = 0;
    test_init("rma_ordering", &argc, &argv);
    register_handler(note_index, (gex_AM_Fn_t)on_note, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    test_attach((uintptr_t)np * BYTES);
    base = (char *)seg_of(me);
    gex_Rank_t peer = (me + 1) % np;
    gex_Rank_t left = (me + np - 1) % np;
    char *remote = seg_of(peer);
    barrier();
    PHASE("put, then message");
    for (int i = 1; i <= ROUNDS; i++) {
        pattern_fill(data, BYTES, (uint64_t)i);
        switch (i % 4) {
            case 0: OK(gex_RMA_PutBlocking(tm, peer, remote + place(me), data, BYTES, 0)); break;
            case 1: gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote + place(me), data, BYTES, GEX_EVENT_DEFER, 0)); break;
            case 2:
                OK(gex_RMA_PutNBI(tm, peer, remote + place(me), data, BYTES, GEX_EVENT_DEFER, 0));
                gex_NBI_Wait(GEX_EC_PUT, 0);
                break;
            default:
                gex_NBI_BeginAccessRegion(0);
                OK(gex_RMA_PutNBI(tm, peer, remote + place(me), data, BYTES, GEX_EVENT_DEFER, 0));
                gex_Event_Wait(gex_NBI_EndAccessRegion(0));
                break;
        }
        OK(gex_AM_RequestShort2(tm, peer, note_index, 0, (gex_AM_Arg_t)me, i));
        expected++;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == expected);
    }
    barrier();
    PHASE("put, then barrier");
    for (int i = 1; i <= ROUNDS; i++) {
        pattern_fill(data, BYTES, (uint64_t)i + 7000);
        gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote + place(me), data, BYTES, GEX_EVENT_DEFER, 0));
        barrier();
        CHECK_PATTERN(base + place(left), BYTES, (uint64_t)i + 7000);
        barrier();
    }
    PHASE("Long");
    for (int i = 1; i <= ROUNDS; i++) {
        pattern_fill(data, BYTES, (uint64_t)i);
        OK(gex_AM_RequestLong1(tm, peer, long_index, data, BYTES, remote + place(me), GEX_EVENT_NOW, 0, i));
        expected++;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&notified) == i);
        CHECK_PATTERN(base + place(left), BYTES, (uint64_t)i);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == expected);
        barrier();
    }
    return test_finish();
}

// Longs without payload: the destination address reaches the handler as given, whatever it is, for
// requests and replies, fixed and negotiated; no bound segment is needed, so this works before
// attach. Mediums without payload and with a NULL source.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t long_index = 150, long_reply = 151, medium_index = 152, medium_reply = 153;
static int replies;

/* An address that belongs to nothing: it is only passed on. */
static void *odd_address(int i) { return (void *)(uintptr_t)(0x1001 + (unsigned)i * 4097U); }

static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t i) {
    CHECK(bytes == 0);
    CHECKF(buffer == odd_address((int)i), "%p, not %p", buffer, odd_address((int)i));
    gex_AM_ReplyLong1(token, long_reply, NULL, 0, odd_address((int)i + 1), GEX_EVENT_NOW, 0, i + 1);
}
static void on_long_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t i) {
    CHECK(bytes == 0);
    CHECKF(buffer == odd_address((int)i), "%p, not %p", buffer, odd_address((int)i));
    ATOMIC_ADD(&replies, 1);
}
static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t i) {
    CHECK(bytes == 0);
    gex_AM_ReplyMedium1(token, medium_reply, NULL, 0, GEX_EVENT_NOW, 0, i);
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t i) {
    CHECK(bytes == 0);
    ATOMIC_ADD(&replies, 1);
}

static void exchange(void) {
    int expected = ATOMIC_GET(&replies);
    for (int i = 0; i < 200; i++) {
        gex_Rank_t peer = (gex_Rank_t)((me + (unsigned)i) % np);
        gex_Event_t event = GEX_EVENT_INVALID;
        switch (i % 4) {
            case 0: OK(gex_AM_RequestLong1(tm, peer, long_index, NULL, 0, odd_address(i), GEX_EVENT_NOW, 0, i)); break;
            case 1:
                OK(gex_AM_RequestLong1(tm, peer, long_index, &replies, 0, odd_address(i), &event, 0, i));
                gex_Event_Wait(event);
                break;
            case 2:
                OK(gex_AM_RequestLong1(tm, peer, long_index, NULL, 0, odd_address(i), GEX_EVENT_GROUP, 0, i));
                gex_NBI_Wait(GEX_EC_AM, 0);
                break;
            default: OK(gex_AM_RequestMedium1(tm, peer, medium_index, NULL, 0, GEX_EVENT_NOW, 0, i)); break;
        }
        expected++;
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);
    barrier();
}

int main(int argc, char **argv) {
    test_init("am_long_empty", &argc, &argv);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    register_handler(long_reply, (gex_AM_Fn_t)on_long_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    barrier();
    PHASE("before attach");
    exchange();
    test_attach(4096);
    PHASE("after attach");
    exchange();
    return test_finish();
}

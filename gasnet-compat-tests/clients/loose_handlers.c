// Handlers that the reference's release build accepts: entries whose flags and argument count do
// not describe the message, a second reply to a request, and, where one thread at a time is inside
// GASNet, a handler-safe lock that is held already. The debug flavour refuses each
// (misuse/messages, misuse/locks), so there only accepted ones are tried.
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

#ifdef GASNET_DEBUG
#define LOOSE 0
#else
#define LOOSE 1
#endif
/* A network that sets one buffer aside for the reply to each request has none for a second one. */
#ifdef GASNET_CONDUIT_LOOP
#define TWICE 0
#else
#define TWICE LOOSE
#endif

static volatile int shorts, mediums, longs, replies, locked;
static char *volatile landed;
static gex_HSL_t lock = GEX_HSL_INITIALIZER;

static void on_short(gex_Token_t token, gex_AM_Arg_t a, gex_AM_Arg_t b) {
    CHECK(a == 5 && b == -6);
    shorts++;
    gex_AM_ReplyShort1(token, 203, 0, 7);
    if (TWICE) gex_AM_ReplyShort1(token, 203, 0, 7);
}

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t a) {
    CHECK(bytes == 4 && !memcmp(payload, "abc", 4) && a == 8);
    mediums++;
}

static void on_long(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(bytes == 3 && !memcmp(payload, "xyz", 3));
    landed = payload;
    longs++;
}

static void on_reply(gex_Token_t token, gex_AM_Arg_t a) {
    CHECK(a == 7);
    replies++;
}

static void on_locked(gex_Token_t token) {
    gex_HSL_Lock(&lock);
    locked++;
    gex_HSL_Unlock(&lock);
}

static void locks(gex_Rank_t peer) {
#if LOOSE && !defined(GASNET_PAR)
    gex_HSL_Lock(&lock);
    CHECK(gex_HSL_Trylock(&lock) == GASNET_OK);
    gex_HSL_Unlock(&lock);
    OK(gex_AM_RequestShort0(tm, peer, 204, 0));
    GASNET_BLOCKUNTIL(locked == 1);
    gex_HSL_Unlock(&lock);
#else
    OK(gex_AM_RequestShort0(tm, peer, 204, 0));
    GASNET_BLOCKUNTIL(locked == 1);
#endif
}

int main(int argc, char **argv) {
    enum { ANY = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQREP };
    gex_AM_Entry_t entries[] = {
        {200, (gex_AM_Fn_t)on_short, LOOSE ? GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY : ANY, LOOSE ? 0 : 2, NULL,
         "on_short"},
        {201, (gex_AM_Fn_t)on_medium, LOOSE ? GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST : ANY, LOOSE ? 4 : 1, NULL,
         "on_medium"},
        {202, (gex_AM_Fn_t)on_long, LOOSE ? GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY : ANY, 0, NULL, "on_long"},
        {203, (gex_AM_Fn_t)on_reply, LOOSE ? GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST : ANY, 1, NULL, "on_reply"},
        {204, (gex_AM_Fn_t)on_locked, ANY, 0, NULL, "on_locked"},
    };
    void *target;
    test_name = "loose_handlers";
    test_init("loose-handlers", &argc, &argv);
    gex_Rank_t peer = (me + 1) % np;
    OK(gex_Segment_Attach(&segment, tm, 65536));
    OK(gex_EP_RegisterHandlers(ep, entries, 5));
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, &target, NULL, NULL, 0));
    PHASE("entries that do not describe the message");
    OK(gex_AM_RequestShort2(tm, peer, 200, 0, 5, -6));
    OK(gex_AM_RequestMedium1(tm, peer, 201, "abc", 4, GEX_EVENT_NOW, 0, 8));
    GASNET_BLOCKUNTIL(shorts == 1 && mediums == 1 && replies == 1 + TWICE);
#ifndef GASNET_SEGMENT_EVERYTHING
    OK(gex_AM_RequestLong0(tm, peer, 202, "xyz", 3, target, GEX_EVENT_NOW, 0));
    GASNET_BLOCKUNTIL(longs == 1);
    CHECK(landed == gex_Segment_QueryAddr(segment));
#endif
    PHASE("locks");
    locks(peer);
    return test_finish();
}

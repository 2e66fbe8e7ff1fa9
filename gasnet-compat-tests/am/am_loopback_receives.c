// A thread that sends requests to its own process only, and never finds a wait that is not over at
// once, still receives what other ranks send: Short, Medium, Long and negotiated requests.
// NP: 2 3
// TIMEOUT: 60
#include "check.h"

enum { SELF = 200, ANSWER, KNOCK, BYTES = 100, KINDS = 4 };
static const char *const names[KINDS] = {"Short", "Medium", "Long", "negotiated Medium"};
static unsigned sent, answered, knocked;

static void on_answer(gex_Token_t token) { ATOMIC_ADD(&answered, 1U); }
static void on_self_short(gex_Token_t token) { OK(gex_AM_ReplyShort0(token, ANSWER, 0)); }
static void on_self(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(bytes == BYTES);
    OK(gex_AM_ReplyShort0(token, ANSWER, 0));
}
static void on_knock(gex_Token_t token) { ATOMIC_ADD(&knocked, 1U); }

static void send_to_self(int kind) {
    static char data[BYTES];
    gex_AM_Index_t handler = (gex_AM_Index_t)(SELF + 10 + kind);
    gex_AM_SrcDesc_t prepared;
    switch (kind) {
        case 0: OK(gex_AM_RequestShort0(tm, me, handler, 0)); break;
        case 1: OK(gex_AM_RequestMedium0(tm, me, handler, data, BYTES, GEX_EVENT_NOW, 0)); break;
        case 2: OK(gex_AM_RequestLong0(tm, me, handler, data, BYTES, seg_of(me), GEX_EVENT_NOW, 0)); break;
        default:
            prepared = gex_AM_PrepareRequestMedium(tm, me, data, BYTES, BYTES, GEX_EVENT_NOW, 0, 0);
            gex_AM_CommitRequestMedium0(prepared, handler, BYTES);
    }
    sent++;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == sent);
}

int main(int argc, char **argv) {
    test_init("am_loopback_receives", &argc, &argv);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    register_handler(KNOCK, (gex_AM_Fn_t)on_knock, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(SELF + 10, (gex_AM_Fn_t)on_self_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(SELF + 11, (gex_AM_Fn_t)on_self, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(SELF + 12, (gex_AM_Fn_t)on_self, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    register_handler(SELF + 13, (gex_AM_Fn_t)on_self, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    test_attach(GASNET_PAGESIZE);
    barrier();
    for (int kind = 0; kind < KINDS; kind++) {
        unsigned all = (unsigned)(kind + 1) * (np - 1);
        PHASE(names[kind]);
        if (me > 0) OK(gex_AM_RequestShort0(tm, 0, KNOCK, 0));
        else
            while (ATOMIC_GET(&knocked) < all) send_to_self(kind);
        barrier();
    }
    return test_finish();
}

// An IMMEDIATE Long of several MiB to a peer that is outside GASNet until the call has returned:
// with an event or a group for its local completion it is sent from the client's source later.
// NP: 2
// ENV: GASNET_SUPERNODE_MAXSIZE=1 GASNET_AM_CREDITS_PP=8
// CONDUITS: sock udp ibv gni elan ofi
// TIMEOUT: 60
#include "outside.h"

enum { BYTES = 4 << 20, CALLS = 4 };
static gex_AM_Index_t long_index = 150;
static char *mine, *source;
static int arrived;

static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK(payload == mine && bytes == BYTES);
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}

int main(int argc, char **argv) {
    gex_Event_t event;
    int accepted = 0;
    test_init("immediate_long_later", &argc, &argv);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    test_attach(BYTES);
    share_words();
    mine = seg_of(me);
    source = (char *)malloc(BYTES);
    for (int call = 0; call < CALLS; call++) {
        PHASE(call % 2 ? "with a group" : "with an event");
        pattern_fill(source, BYTES, (uint64_t)call);
        event = GEX_EVENT_INVALID;
        barrier();
        if (me == 0) {
            int result = gex_AM_RequestLong1(tm, 1, long_index, source, BYTES, seg_of(1),
                                             call % 2 ? GEX_EVENT_GROUP : &event, GEX_FLAG_IMMEDIATE, call);
            accepted += !result;
            if (result) CHECK(event == GEX_EVENT_INVALID);
            shared[1] = (uint32_t)accepted;
            proceed();
            PHASE("local completion");
            gex_Event_Wait(event);
            gex_NBI_Wait(GEX_EC_AM, 0);
            memset(source, 0x55, BYTES);
        } else if (me == 1) {
            await();
            PHASE("arrival");
            GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == (int)shared[1]);
        }
        barrier();
    }
    return test_finish();
}

/* The client of client_cxx11 … client_cxx20: one call of each family, all public headers. */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <gasnet_tools.h>

#include <cstdint>

#include "check.h"

static int replies;
static void on_request(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    gex_AM_ReplyMedium1(token, 201, payload, bytes, GEX_EVENT_NOW, 0, value + 1);
}
static void on_reply(gex_Token_t, void *payload, size_t bytes, gex_AM_Arg_t value) {
    CHECK(bytes == 5 && memcmp(payload, "hello", 5) == 0 && value == 8);
    ATOMIC_ADD(&replies, 1);
}

int main(int argc, char **argv) {
    test_init("client_cxx", &argc, &argv);
    register_handler(200, reinterpret_cast<gex_AM_Fn_t>(on_request), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    register_handler(201, reinterpret_cast<gex_AM_Fn_t>(on_reply), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1);
    test_attach(65536);
    barrier();
    gex_Rank_t peer = (me + 1) % np;
    char hello[] = "hello";
    gex_AM_RequestMedium(tm, peer, 200, hello, 5, GEX_EVENT_NOW, 0, 7);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == 1);
    std::uint32_t value = 77, back = 0;
    gex_RMA_PutBlocking(tm, peer, seg_of(peer), &value, sizeof value, 0);
    gex_RMA_GetBlocking(tm, &back, peer, seg_of(peer), sizeof back, 0);
    CHECK(back == 77);
    CHECK(gex_RMA_GetBlockingVal(tm, peer, seg_of(peer), 4, 0) == 77);
    gex_HSL_t lock = GEX_HSL_INITIALIZER;
    gex_HSL_Lock(&lock);
    gex_HSL_Unlock(&lock);
    gasnett_tick_t now = gasnett_ticks_now();
    CHECK(gasnett_ticks_to_ns(gasnett_ticks_now() - now) < 60000000000ULL);
    barrier();
    return test_finish();
}

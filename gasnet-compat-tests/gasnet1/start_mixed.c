// A client in transition: gex_Client_Init with GEX_FLAG_USES_GASNET1, then calls of both interfaces
// on the same objects, events and handlers.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check1.h"

static int arrived;

static void on_medium(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECK(sender(token) == info.gex_srcrank);
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}

int main(int argc, char **argv) {
    gex_Client_t c;
    gex_EP_t e;
    gex_TM_t t;
    gex_Segment_t s = (gex_Segment_t)&argc;
    char sent[600], got[600];
    test_init_flags("start_mixed", &argc, &argv, GEX_FLAG_USES_GASNET1);
    CHECK(gasnet_mynode() == me && gasnet_nodes() == np);
    gasnet_QueryGexObjects(&c, &e, &t, &s);
    CHECK(c == client && e == ep && t == tm && s == GEX_SEGMENT_INVALID);
    register_handler(180, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    test_attach(8192);
    gasnet_QueryGexObjects(NULL, NULL, NULL, &s);
    CHECK(s == segment);
    gasnet1_look_around();
    CHECK(segments[me].addr == gex_Segment_QueryAddr(segment));
    gasnet_node_t peer = (me + 1) % np;
    barrier();

    PHASE("messages of both interfaces to one handler");
    pattern_fill(sent, sizeof sent, 11);
    OK(gasnet_AMRequestMedium1(peer, 180, sent, sizeof sent, 11));
    OK(gex_AM_RequestMedium1(tm, peer, 180, sent, 500, GEX_EVENT_NOW, 0, 11));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == 2);

    PHASE("events and handles are the same");
    gasnet_handle_t handles[2] = {gasnet_put_nb_bulk(peer, at(peer, 0), sent, sizeof sent),
                                  gex_RMA_PutNB(tm, peer, at(peer, 4096), sent, sizeof sent, GEX_EVENT_DEFER, 0)};
    gex_Event_Wait(handles[0]);
    gasnet_wait_syncnb(handles[1]);
    gasnet_get_nbi(got, peer, at(peer, 4096), sizeof got);
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK(!memcmp(got, sent, sizeof got));
    memset(got, 0, sizeof got);
    gex_RMA_GetNBI(tm, got, peer, at(peer, 0), sizeof got, 0);
    gasnet_wait_syncnbi_all();
    CHECK(!memcmp(got, sent, sizeof got));
    gasnet_begin_nbi_accessregion();
    gex_RMA_PutNBI(tm, peer, at(peer, 1000), sent, 300, GEX_EVENT_NOW, 0);
    gex_Event_Wait(gasnet_end_nbi_accessregion());
    gasnet1_barrier();
    CHECK(!memcmp(at(me, 1000), sent, 300));
    barrier();
    return test_finish();
}

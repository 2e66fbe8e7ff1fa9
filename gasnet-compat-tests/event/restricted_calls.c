// The calls that the specification allows while a handler-safe lock is held and inside handlers:
// they work there.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

static gex_HSL_t outer TEST_UNUSED = GEX_HSL_INITIALIZER;
static gex_HSL_t inner TEST_UNUSED = GEX_HSL_INITIALIZER;
static gex_AM_Index_t request_index = 150, reply_index = 151;
static int answered;
static char mark;

static void all_calls(void) {
    gex_RankInfo_t *info = NULL;
    gex_Rank_t n = 0;
    void *address = NULL;
    uintptr_t size = 0;
    CHECK(gex_System_QueryJobRank() == me && gex_System_QueryJobSize() == np);
    gex_System_QueryNbrhdInfo(&info, &n, NULL);
    CHECK(info != NULL && n >= 1);
    gex_System_QueryHostInfo(&info, &n, NULL);
    CHECK(info != NULL && n >= 1);
    gex_System_QueryMyPosition(&n, NULL, NULL, NULL);
    CHECK(n >= 1);
    gex_System_SetVerboseErrors(gex_System_GetVerboseErrors());
    CHECK(gex_System_QueryMaxThreads() >= 1);
    (void)gex_System_QueryHiddenAMConcurrencyLevel();
    CHECK(gex_Client_QueryCData(client) == &mark);
    gex_Client_SetCData(client, &mark);
    gex_TM_SetCData(tm, &mark);
    gex_EP_SetCData(ep, &mark);
    gex_Segment_SetCData(segment, &mark);
    CHECK(gex_TM_QueryCData(tm) == &mark && gex_EP_QueryCData(ep) == &mark && gex_Segment_QueryCData(segment) == &mark);
    CHECK(strcmp(gex_Client_QueryName(client), "CONFORMANCE") == 0 && gex_Client_QueryFlags(client) == 0);
    CHECK(gex_Segment_QueryAddr(segment) != NULL && gex_Segment_QuerySize(segment) > 0);
    CHECK(gex_Segment_QueryClient(segment) == client && gex_Segment_QueryFlags(segment) == 0);
    CHECK(gex_EP_QuerySegment(ep) == segment && gex_EP_QueryIndex(ep) == 0 && gex_EP_QueryFlags(ep) == 0);
    CHECK(gex_EP_QueryClient(ep) == client);
    CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == np && gex_TM_QueryEP(tm) == ep);
    CHECK(gex_TM_QueryClient(tm) == client && gex_TM_QueryFlags(tm) == 0);
    CHECK(gex_TM_Pair(ep, 0) == gex_TM_Pair(ep, 0));
    CHECK(gex_AM_MaxArgs() >= 16);
    CHECK(gex_AM_MaxRequestMedium(tm, 0, GEX_EVENT_NOW, 0, 3) >= gex_AM_LUBRequestMedium());
    CHECK(gex_AM_MaxReplyMedium(tm, 0, GEX_EVENT_NOW, 0, 3) >= gex_AM_LUBReplyMedium());
    CHECK(gex_AM_MaxRequestLong(tm, 0, GEX_EVENT_NOW, 0, 3) >= gex_AM_LUBRequestLong());
    CHECK(gex_AM_MaxReplyLong(tm, 0, GEX_EVENT_NOW, 0, 3) >= gex_AM_LUBReplyLong());
    gex_Event_t event = gex_EP_QueryBoundSegmentNB(tm, me, &address, NULL, &size, GEX_FLAG_IMMEDIATE);
    CHECK(event == GEX_EVENT_INVALID && address == gex_Segment_QueryAddr(segment));
}

static void locked(void) {
    gex_HSL_Lock(&outer);
    CHECK(gex_HSL_Trylock(&inner) == GASNET_OK);
    all_calls();
    gex_HSL_Unlock(&inner);
    gex_HSL_Unlock(&outer);
}

static void on_request(gex_Token_t token) {
    all_calls();
    locked();
    CHECK(gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 0) >= 512);
    CHECK(gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, 0) >= 512);
    gex_AM_ReplyShort0(token, reply_index, 0);
}
static void on_reply(gex_Token_t token) {
    all_calls();
    locked();
    ATOMIC_ADD(&answered, 1);
}

int main(int argc, char **argv) {
    test_init("restricted_calls", &argc, &argv);
    register_handler(request_index, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    test_attach(4096);
    gex_Client_SetCData(client, &mark);
    barrier();
    PHASE("main line");
    all_calls();
    locked();
    PHASE("handlers");
    for (gex_Rank_t r = 0; r < np; r++) OK(gex_AM_RequestShort0(tm, r, request_index, 0));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == (int)np);
    barrier();
    return test_finish();
}

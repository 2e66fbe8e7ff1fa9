// Queries that the reference answers before gex_Client_Init: no ranks, no objects, no segments, and
// the limits. Events that are complete can be tested and waited for. Nothing here communicates.
// NP: 1 2
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h>

static void ranks(void) {
    gex_RankInfo_t *info = (gex_RankInfo_t *)(void *)&client;
    gex_Rank_t a = 77, b = 77, c = 77, d = 77;
    CHECK(gasnet_nodes() == 0 && gex_System_QueryJobSize() == 0);
    CHECK(gasnet_mynode() == GEX_RANK_INVALID && gex_System_QueryJobRank() == GEX_RANK_INVALID);
    gex_System_QueryNbrhdInfo(NULL, NULL, NULL);
    gex_System_QueryHostInfo(NULL, NULL, NULL);
    gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
    gex_System_QueryNbrhdInfo(&info, &a, &b);
    CHECK(!info && a == 0 && b == GEX_RANK_INVALID);
    gex_System_QueryHostInfo(&info, &a, &b);
    CHECK(!info && a == 0 && b == GEX_RANK_INVALID);
    gex_System_QueryMyPosition(&a, &b, &c, &d);
    CHECK(a == 0 && b == GEX_RANK_INVALID && c == 0 && d == GEX_RANK_INVALID);
}

static void objects(void) {
    gex_Client_t client1 = (gex_Client_t)&client;
    gex_EP_t ep1 = (gex_EP_t)&client;
    gex_TM_t tm1 = (gex_TM_t)&client;
    gex_Segment_t segment1 = (gex_Segment_t)&client;
    gasnet_seginfo_t segments[1];
    gasnet_nodeinfo_t nodes[1];
    gasnet_QueryGexObjects(NULL, NULL, NULL, NULL);
    gasnet_QueryGexObjects(&client1, &ep1, &tm1, &segment1);
    CHECK(client1 == GEX_CLIENT_INVALID && ep1 == GEX_EP_INVALID && tm1 == GEX_TM_INVALID);
    CHECK(segment1 == GEX_SEGMENT_INVALID);
    OK(gasnet_getSegmentInfo(segments, 1));
    OK(gasnet_getSegmentInfo(NULL, 0));
    OK(gasnet_getNodeInfo(nodes, 1));
    OK(gasnet_getNodeInfo(NULL, 0));
#ifndef GASNET_SEGMENT_EVERYTHING
    CHECK(gasnet_getMaxLocalSegmentSize() == 0 && gasnet_getMaxGlobalSegmentSize() == 0);
#endif
}

static void limits(void) {
    CHECK(gex_AM_MaxArgs() == 16);
    CHECK(gex_AM_LUBRequestMedium() >= 512 && gex_AM_LUBReplyMedium() >= 512);
    CHECK(gex_AM_LUBRequestLong() >= 512 && gex_AM_LUBReplyLong() >= 512);
    CHECK(gasnet_AMMaxMedium() >= 512 && gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
    CHECK(gex_System_QueryMaxThreads() >= 1);
    CHECK(gex_System_GetVerboseErrors()); /* messages are on */
    gex_System_SetVerboseErrors(1);
    CHECK(gex_System_GetVerboseErrors());
    gex_System_SetVerboseErrors(0);
    CHECK(!strcmp(gasnet_ErrorName(GASNET_ERR_RESOURCE), "GASNET_ERR_RESOURCE"));
    CHECK(gasnet_ErrorName(12345) && gasnet_ErrorDesc(12345) && gasnet_ErrorDesc(GASNET_OK));
    OK(gasnet_set_waitmode(GASNET_WAIT_BLOCK));
    OK(gasnet_set_waitmode(GASNET_WAIT_SPIN));
}

static void locks(void) {
    static gex_HSL_t lock = GEX_HSL_INITIALIZER;
    gex_HSL_t other;
    gex_HSL_Lock(&lock);
    gex_HSL_Unlock(&lock);
    gex_HSL_Init(&other);
    OK(gex_HSL_Trylock(&other));
    gex_HSL_Unlock(&other);
    gex_HSL_Destroy(&other);
}

static void environment(void) {
    CHECK(!gasnet_getenv(NULL)); /* the reference returns null */
    CHECK(!gasnet_getenv("") && !gasnett_getenv("CONTRACT_UNSET"));
    CHECK(!strcmp(gasnett_getenv_withdefault("CONTRACT_UNSET", "default"), "default"));
    gasnett_setenv("CONTRACT_NEW", "5");
    CHECK(gasnett_getenv_int_withdefault("CONTRACT_NEW", 1, 0) == 5);
    gasnett_unsetenv("CONTRACT_NEW");
    CHECK(gasnett_getenv_int_withdefault("CONTRACT_NEW", 1, 0) == 1);
    CHECK(gasnett_cpu_count() > 0);
}

int main(int argc, char **argv) {
    gex_Event_t events[3] = {GEX_EVENT_INVALID, GEX_EVENT_INVALID, GEX_EVENT_INVALID};
    test_name = "before_init";
    ranks();
    objects();
    limits();
    locks();
    environment();
    gex_Event_Wait(GEX_EVENT_INVALID);
    CHECK(!gex_Event_Test(GEX_EVENT_INVALID));
    gex_Event_WaitAll(NULL, 0, 0);
    gex_Event_WaitSome(NULL, 0, 0);
    gex_Event_WaitAll(events, 3, 0);
    CHECK(!gex_Event_TestSome(events, 3, 0));
    test_init("before_init", &argc, &argv);
    CHECK(gasnet_nodes() == np && gasnet_mynode() == me);
    barrier();
    return test_finish();
}

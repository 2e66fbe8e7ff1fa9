// The codes that the manual pages promise for refused calls: gex_Client(3), gex_EP(3), gex_AM(3),
// gex_Segment(3), gex_AM_Prepare(3) and gasnet_legacy(3). Others are in clients/edges, mk/mk_kinds
// and segment/attach_refused.
// NP: 1
// TIMEOUT: 30
#include "check.h"

#include <gasnet.h>

#define BAD(call) CHECK((call) == GASNET_ERR_BAD_ARG)
#define NONE(call) CHECK((call) == GASNET_ERR_RESOURCE)

static void never(gex_Token_t token) {}

static void client_calls(int *argc, char ***argv) {
    gex_Client_t another;
    gex_EP_t its_ep;
    gex_TM_t its_team;
    unsigned int count;
    const gex_ProgressThreadInfo_t *info;
    CHECK(gex_Client_Init(&another, &its_ep, &its_team, "again", argc, argv, 0) == GASNET_ERR_NOT_INIT);
    BAD(gex_Client_Init(NULL, &its_ep, &its_team, "again", argc, argv, 0));
    BAD(gex_System_QueryProgressThreads(client, NULL, &info, 0));
    BAD(gex_System_QueryProgressThreads(client, &count, &info, 1));
    NONE(gex_System_QueryProgressThreads(client, &count, &info, 0));
    BAD(gasnet_set_waitmode(17));
}

static void handlers(void) {
    gex_AM_Entry_t entry = {0, (gex_AM_Fn_t)never, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL};
    BAD(gex_EP_RegisterHandlers(ep, NULL, 1));
    entry.gex_nargs = 17;
    BAD(gex_EP_RegisterHandlers(ep, &entry, 1));
    entry.gex_nargs = 0;
    entry.gex_flags = GEX_FLAG_AM_SHORT;
    BAD(gex_EP_RegisterHandlers(ep, &entry, 1));
    entry.gex_flags = GEX_FLAG_AM_REQUEST;
    BAD(gex_EP_RegisterHandlers(ep, &entry, 1));
    entry.gex_fnptr = NULL;
    BAD(gex_EP_RegisterHandlers(ep, &entry, 1));
    for (entry.gex_fnptr = (gex_AM_Fn_t)never, entry.gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST;
         gex_EP_RegisterHandlers(ep, &entry, 1) == GASNET_OK; entry.gex_index = 0)
        ;
    NONE(gex_EP_RegisterHandlers(ep, &entry, 1));
}

static void endpoints_and_segments(void) {
    static char memory[4096];
    gex_EP_t made = GEX_EP_INVALID;
    gex_Segment_t of_client, of_library;
    int result = GASNET_OK;
    BAD(gex_Segment_Create(NULL, client, memory, sizeof memory, GEX_MK_HOST, 0));
    BAD(gex_Segment_Create(&of_client, client, memory, sizeof memory, GEX_MK_HOST, 1));
    BAD(gex_Segment_Create(&of_client, client, memory, 0, GEX_MK_HOST, 0));
    BAD(gex_Segment_Create(&of_client, client, memory, UINTPTR_MAX, GEX_MK_HOST, 0));
    BAD(gex_Segment_Create(&of_client, client, (void *)(uintptr_t)GASNET_PAGESIZE, 8, GEX_MK_HOST, 0));
    BAD(gex_Segment_Create(&of_client, client, NULL, UINTPTR_MAX / 2, GEX_MK_HOST, 0));
    OK(gex_Segment_Create(&of_client, client, memory, sizeof memory, GEX_MK_HOST, 0));
    OK(gex_Segment_Create(&of_library, client, NULL, sizeof memory, GEX_MK_HOST, 0));

    BAD(gex_EP_Create(&made, client, 0, 0));
    BAD(gex_EP_Create(NULL, client, GEX_EP_CAPABILITY_RMA, 0));
    BAD(gex_EP_BindSegment(ep, GEX_SEGMENT_INVALID, 0));
    BAD(gex_EP_BindSegment(ep, of_client, 1));
    OK(gex_EP_BindSegment(ep, of_client, 0));
    BAD(gex_EP_BindSegment(ep, of_library, 0));
    BAD(gex_EP_PublishBoundSegment(tm, NULL, 1, 0));
    BAD(gex_EP_PublishBoundSegment(tm, &ep, 1, 1));
    OK(gex_EP_PublishBoundSegment(tm, &ep, 1, 0));
    while (result == GASNET_OK) result = gex_EP_Create(&made, client, GEX_EP_CAPABILITY_RMA, 0);
    CHECK(result == GASNET_ERR_RESOURCE);
}

static void cancelled_twice(void) {
    gex_AM_SrcDesc_t prepared = gex_AM_PrepareRequestMedium(tm, 0, NULL, 8, 8, NULL, 0, 0);
    OK(gex_AM_CancelRequestMedium(prepared, 0));
    BAD(gex_AM_CancelRequestMedium(prepared, 0));
    BAD(gex_AM_CancelRequestMedium(GEX_AM_SRCDESC_NO_OP, 0));
}

int main(int argc, char **argv) {
    test_init("error_codes", &argc, &argv);
    gex_System_SetVerboseErrors(0);
    client_calls(&argc, &argv);
    cancelled_twice();
    endpoints_and_segments();
    handlers();
    return test_finish();
}

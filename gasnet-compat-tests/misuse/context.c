/* Calls from restricted context (GASNet-EX, "Calls from restricted context"): inside a handler,
 * with a handler-safe lock, between Prepare and Commit. Each forbidden call is made in one of
 * them. */
#include <gasnetex.h>

static void on_request(gex_Token_t token, gex_AM_Arg_t what);
static void on_medium(gex_Token_t token, void *payload, size_t bytes);
static void on_reply(gex_Token_t token, gex_AM_Arg_t what);
static void on_nothing(gex_Token_t token);
// clang-format off
#define MISUSE_HANDLERS \
    {200, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "on_request"}, \
    {201, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "on_reply"}, \
    {202, (gex_AM_Fn_t)on_nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL, "on_nothing"}, \
    {203, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP, 0, NULL, "on_medium"}
// clang-format on
#define MISUSE_HANDLER_COUNT 4
#include "misuse.h"

static void on_nothing(gex_Token_t token) {}
static void on_medium(gex_Token_t token, void *payload, size_t bytes) {}

static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static char byte[16] __attribute__((aligned(16)));
static gex_Event_t pending = GEX_EVENT_INVALID;
static gex_AD_t ad;
static uint32_t old;

/* ---- the forbidden calls ---- */

static void do_put(void) { gex_RMA_PutBlocking(tm, np - 1, last, byte, 1, 0); }
static void do_put_nb(void) { pending = gex_RMA_PutNB(tm, np - 1, last, byte, 1, GEX_EVENT_NOW, 0); }
static void do_put_nbi(void) { gex_RMA_PutNBI(tm, np - 1, last, byte, 1, GEX_EVENT_NOW, 0); }
static void do_put_value(void) { gex_RMA_PutBlockingVal(tm, np - 1, last, 1, 1, 0); }
static void do_get(void) { gex_RMA_GetBlocking(tm, byte, np - 1, last, 1, 0); }
static void do_get_nb(void) { pending = gex_RMA_GetNB(tm, byte, np - 1, last, 1, 0); }
static void do_get_value(void) { (void)gex_RMA_GetBlockingVal(tm, np - 1, last, 1, 0); }
static void do_request(void) { gex_AM_RequestShort0(tm, np - 1, 202, 0); }
static void do_request_medium(void) { gex_AM_RequestMedium0(tm, np - 1, 203, byte, 1, GEX_EVENT_NOW, 0); }
static void do_prepare(void) { gex_AM_PrepareRequestMedium(tm, np - 1, NULL, 1, 1, NULL, 0, 0); }
static void do_event_test(void) { gex_Event_Test(pending); }
static void do_event_wait(void) { gex_Event_Wait(pending); }
static void do_events_some(void) { gex_Event_WaitSome(&pending, 1, 0); }
static void do_events_all(void) { gex_Event_TestAll(&pending, 1, 0); }
static void do_nbi_wait(void) { gex_NBI_Wait(GEX_EC_ALL, 0); }
static void do_nbi_test(void) { gex_NBI_Test(GEX_EC_ALL, 0); }
static void do_region(void) { gex_NBI_BeginAccessRegion(0); }
static void do_poll(void) { gasnet_AMPoll(); }
static void do_blockuntil(void) { GASNET_BLOCKUNTIL(byte[0]); }
static void do_barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }
static void do_notify(void) { gasnet_barrier_notify(0, 0); }
static void do_try(void) { gasnet_barrier_try(0, 0); }
static void do_broadcast(void) { gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, byte, byte, 1, 0)); }
static void do_reduce(void) {
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &old, &old, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0));
}
static void do_atomic(void) { gex_AD_OpNBI_U32(ad, &old, np - 1, last, GEX_OP_GET, 0, 0, 0); }
static void do_atomic_nb(void) { gex_AD_OpNB_U32(ad, &old, np - 1, last, GEX_OP_GET, 0, 0, 0); }
static void do_ad_create(void) { gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_GET, 0); }
static void do_ad_destroy(void) { gex_AD_Destroy(ad); }
static void do_vis(void) {
    gex_Memvec_t list = {byte, 1}, far;
    far.gex_addr = last;
    far.gex_len = 1;
    gex_VIS_VectorPutBlocking(tm, np - 1, 1, &far, 1, &list, 0);
}
static void do_split(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}
static void do_translate(void) { (void)gex_TM_TranslateRankToJobrank(tm, 0); }
static void do_translate_back(void) { (void)gex_TM_TranslateJobrankToRank(tm, 0); }
static void do_locate(void) { (void)gex_TM_TranslateRankToEP(tm, 0, 0); }
static void do_bound(void) {
    void *base;
    pending = gex_EP_QueryBoundSegmentNB(tm, np - 1, &base, NULL, NULL, 0);
}
static void do_bound_old(void) {
    void *base;
    (void)gex_Segment_QueryBound(tm, np - 1, &base, NULL, NULL);
}
static void do_ep_create(void) {
    gex_EP_t made;
    gex_EP_Create(&made, client, GEX_EP_CAPABILITY_ALL, 0);
}
static void do_segment_create(void) {
    gex_Segment_t made;
    gex_Segment_Create(&made, client, NULL, 4096, GEX_MK_HOST, 0);
}
static void do_attach(void) { gex_Segment_Attach(&segment, tm, 65536); }
static void do_publish(void) { gex_EP_PublishBoundSegment(tm, &ep, 1, 0); }
static void do_register(void) {
    gex_AM_Entry_t entry = {0, (gex_AM_Fn_t)on_nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL};
    gex_EP_RegisterHandlers(ep, &entry, 1);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"put", do_put},
             {"put-nb", do_put_nb},
             {"put-nbi", do_put_nbi},
             {"put-value", do_put_value},
             {"get", do_get},
             {"get-nb", do_get_nb},
             {"get-value", do_get_value},
             {"request", do_request},
             {"request-medium", do_request_medium},
             {"prepare", do_prepare},
             {"event-test", do_event_test},
             {"event-wait", do_event_wait},
             {"events-some", do_events_some},
             {"events-all", do_events_all},
             {"nbi-wait", do_nbi_wait},
             {"nbi-test", do_nbi_test},
             {"region", do_region},
             {"poll", do_poll},
             {"blockuntil", do_blockuntil},
             {"barrier", do_barrier},
             {"notify", do_notify},
             {"try", do_try},
             {"broadcast", do_broadcast},
             {"reduce", do_reduce},
             {"atomic", do_atomic},
             {"atomic-nb", do_atomic_nb},
             {"ad-create", do_ad_create},
             {"ad-destroy", do_ad_destroy},
             {"vis", do_vis},
             {"split", do_split},
             {"translate", do_translate},
             {"translate-back", do_translate_back},
             {"locate", do_locate},
             {"bound", do_bound},
             {"bound-old", do_bound_old},
             {"ep-create", do_ep_create},
             {"segment-create", do_segment_create},
             {"attach", do_attach},
             {"publish", do_publish},
             {"register", do_register}};

/* ---- where they are made ---- */

static const misuse_case_t *chosen;
static void make_call(void) {
    const char *name = strchr(chosen->name, '-') + 1;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].name, name) == 0) calls[i].call();
    }
}
static void on_request(gex_Token_t token, gex_AM_Arg_t what) {
    switch (what) {
        case 1: make_call(); break;
        case 2:
            gex_HSL_Lock(&lock);
            gex_AM_ReplyShort0(token, 202, 0);
            break;
        case 3: gex_AM_ReplyShort1(token, 201, 0, 0); break;
        case 4: gex_AM_PrepareReplyMedium(token, NULL, 1, 1, NULL, 0, 0); break;
        default: gex_AM_ReplyShort1(token, 201, 0, 1); break;
    }
}
static void on_reply(gex_Token_t token, gex_AM_Arg_t what) {
    if (what) make_call();
    else gex_AM_ReplyShort0(token, 202, 0);
}

static void find_case(void);
static void prepare_domain(void) {
    find_case();
    gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_GET, 0);
    barrier();
}
static void in_request(void) {
    prepare_domain();
    if (first()) gex_AM_RequestShort1(tm, np - 1, 200, 0, 1);
}
static void in_reply(void) {
    prepare_domain();
    if (first()) gex_AM_RequestShort1(tm, np - 1, 200, 0, 5);
}
static void with_lock(void) {
    prepare_domain();
    if (!first()) return;
    gex_HSL_Lock(&lock);
    make_call();
    gex_HSL_Unlock(&lock);
}
static void while_prepared(void) {
    prepare_domain();
    if (!first()) return;
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, np - 1, byte, 1, 1, GEX_EVENT_NOW, 0, 0);
    make_call();
    gex_AM_CommitRequestMedium0(desc, 203, 1);
}
static void send_what(gex_AM_Arg_t what) {
    if (first()) gex_AM_RequestShort1(tm, np - 1, 200, 0, what);
}
static void reply_with_lock(void) { send_what(2); }
static void reply_to_reply(void) { send_what(3); }
static void reply_prepared(void) { send_what(4); }

#define HANDLER(name, function) \
    { "handler-" name, "debug", 2, "", function " was called inside AM handler 200 \\(on_request\\)", in_request }
#define REPLY(name, function) \
    { "replying-" name, "debug", 2, "", function " was called inside AM handler 201 \\(on_reply\\)", in_reply }
#define LOCK(name, function) \
    { "locked-" name, "debug", 2, "", function " was called while this thread holds a handler-safe lock", with_lock }
#define PREPARED(name, function)                                                                               \
    {                                                                                                          \
        "prepared-" name, "debug", 2, "", function " was called between gex_AM_PrepareRequest and its Commit", \
            while_prepared                                                                                     \
    }
const misuse_case_t misuse_cases[] = {
    HANDLER("put", "gex_RMA_PutBlocking"),
    HANDLER("put-nb", "gex_RMA_PutNB"),
    HANDLER("put-nbi", "gex_RMA_PutNBI"),
    HANDLER("put-value", "gex_RMA_PutBlockingVal"),
    HANDLER("get", "gex_RMA_GetBlocking"),
    HANDLER("get-nb", "gex_RMA_GetNB"),
    HANDLER("get-value", "gex_RMA_GetBlockingVal"),
    HANDLER("request", "gex_AM_Request"),
    HANDLER("request-medium", "gex_AM_Request"),
    HANDLER("prepare", "gex_AM_PrepareRequest"),
    HANDLER("event-test", "gex_Event_Test"),
    HANDLER("event-wait", "gex_Event_Wait"),
    HANDLER("events-some", "gex_Event_WaitSome"),
    HANDLER("events-all", "gex_Event_TestAll"),
    HANDLER("nbi-wait", "gex_NBI_Wait"),
    HANDLER("nbi-test", "gex_NBI_Test"),
    HANDLER("region", "gex_NBI_BeginAccessRegion"),
    HANDLER("poll", "gasnet_AMPoll"),
    HANDLER("blockuntil", "GASNET_BLOCKUNTIL"),
    HANDLER("barrier", "gex_Coll_BarrierNB"),
    HANDLER("notify", "gasnet_barrier_notify"),
    HANDLER("try", "gasnet_barrier_try"),
    HANDLER("broadcast", "gex_Coll_BroadcastNB"),
    HANDLER("reduce", "gex_Coll_ReduceToAllNB"),
    HANDLER("atomic", "gex_AD_OpNBI_U32"),
    HANDLER("atomic-nb", "gex_AD_OpNB_U32"),
    HANDLER("ad-create", "gex_AD_Create"),
    HANDLER("ad-destroy", "gex_AD_Destroy"),
    HANDLER("vis", "gex_VIS_\\w*"),
    HANDLER("split", "gex_TM_Split"),
    HANDLER("translate", "gex_TM_TranslateRankToJobrank"),
    HANDLER("translate-back", "gex_TM_TranslateJobrankToRank"),
    HANDLER("locate", "gex_TM_TranslateRankToEP"),
    HANDLER("bound", "gex_EP_QueryBoundSegmentNB"),
    HANDLER("bound-old", "gex_Segment_QueryBound"),
    HANDLER("ep-create", "gex_EP_Create"),
    HANDLER("segment-create", "gex_Segment_Create"),
    HANDLER("attach", "gex_Segment_Attach"),
    HANDLER("publish", "gex_EP_PublishBoundSegment"),
    HANDLER("register", "gex_EP_RegisterHandlers"),
    REPLY("get", "gex_RMA_GetBlocking"),
    REPLY("request", "gex_AM_Request"),
    REPLY("poll", "gasnet_AMPoll"),
    LOCK("put", "gex_RMA_PutBlocking"),
    LOCK("get-nb", "gex_RMA_GetNB"),
    LOCK("request", "gex_AM_Request"),
    LOCK("poll", "gasnet_AMPoll"),
    LOCK("event-wait", "gex_Event_Wait"),
    LOCK("nbi-test", "gex_NBI_Test"),
    LOCK("blockuntil", "GASNET_BLOCKUNTIL"),
    LOCK("barrier", "gex_Coll_BarrierNB"),
    LOCK("notify", "gasnet_barrier_notify"),
    LOCK("atomic", "gex_AD_OpNBI_U32"),
    LOCK("vis", "gex_VIS_\\w*"),
    LOCK("split", "gex_TM_Split"),
    LOCK("translate", "gex_TM_TranslateRankToJobrank"),
    LOCK("register", "gex_EP_RegisterHandlers"),
    LOCK("prepare", "gex_AM_PrepareRequest"),
    PREPARED("put", "gex_RMA_PutBlocking"),
    PREPARED("request", "gex_AM_Request"),
    PREPARED("poll", "gasnet_AMPoll"),
    PREPARED("barrier", "gex_Coll_BarrierNB"),
    PREPARED("event-wait", "gex_Event_Wait"),
    {"prepared-prepare", "any", 2, "",
     "gex_AM_Prepare: the last message that this thread prepared was neither committed nor "
     "cancelled|gex_AM_PrepareRequest was called between",
     while_prepared},
    {"reply-locked", "debug", 2, "", "gex_AM_Reply was called while this thread holds a handler-safe lock",
     reply_with_lock},
    {"reply-to-reply", "any", 2, "", "a reply handler may not send", reply_to_reply},
    {"reply-left-prepared", "debug", 2, "",
     "AM handler 200 \\(on_request\\) returned between gex_AM_PrepareReply and its Commit", reply_prepared},
    {NULL, NULL, 0, NULL, NULL, NULL}};

static const char *case_name;
__attribute__((constructor)) static void remember_case(int argc, char **argv) { case_name = argc > 1 ? argv[1] : ""; }
static void find_case(void) {
    for (chosen = misuse_cases; strcmp(chosen->name, case_name) != 0; chosen++) {}
}

MISUSE_MAIN

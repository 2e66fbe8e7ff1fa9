/* Clients, teams, ranks, endpoints, segments and events that do not exist, are gone, or are used
 * for something else. */
#include "misuse.h"

#define LAST (np - 1)
static char byte[64];

static void before_init(void) { gasnet_AMPoll(); }
static void before_init_put(void) { gex_RMA_PutBlocking((gex_TM_t)hidden(2), 0, byte, byte, 1, 0); }
static int init(const char *name, gex_Flags_t flags) {
    gex_Client_t c;
    gex_EP_t e;
    gex_TM_t t;
    return gex_Client_Init(&c, &e, &t, name, NULL, NULL, flags);
}
static void second_init(void) {
    if (init("SECOND", 0) != GASNET_OK) printf("refused\n");
}
static void bad_name(void) { exit(init("some-client 2.0", 0) == GASNET_OK ? 0 : 5); }
static void bad_flags(void) { exit(init("GOOD", 0x8000) == GASNET_OK ? 0 : 5); }

static void tm_invalid(void) { gex_RMA_PutBlocking((gex_TM_t)hidden(0), 0, own, byte, 1, 0); }
static void tm_garbage(void) { gex_AM_RequestShort0((gex_TM_t)hidden(64), 0, 200, 0); }
static gex_TM_t copy_of_all(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    return made;
}
static void tm_destroyed(void) {
    gex_TM_t made = copy_of_all();
    gex_TM_Destroy(made, NULL, 0);
    (void)gex_TM_QuerySize((gex_TM_t)hidden((uintptr_t)made));
}
static void tm_destroyed_twice(void) {
    gex_TM_t made = copy_of_all();
    gex_TM_Destroy(made, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    barrier();
    gex_TM_Destroy((gex_TM_t)hidden((uintptr_t)made), NULL, GEX_FLAG_GLOBALLY_QUIESCED);
}
static void tm_primordial(void) { gex_TM_Destroy(tm, NULL, 0); }
static void pair_barrier(void) { gex_Coll_BarrierNB(gex_TM_Pair(ep, 0), 0); }
static void pair_split(void) {
    gex_TM_t made;
    gex_TM_Split(&made, gex_TM_Pair(ep, 0), 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}
static void pair_size(void) { (void)gex_TM_QuerySize(gex_TM_Pair(ep, 0)); }
static void pair_publish(void) { gex_EP_PublishBoundSegment(gex_TM_Pair(ep, 0), &ep, 1, 0); }
static void pair_rank(void) { gex_RMA_PutBlocking(gex_TM_Pair(ep, 0), np, own, byte, 1, 0); }
static void pair_no_endpoint(void) { gex_RMA_PutBlocking(gex_TM_Pair(ep, 3), LAST, last, byte, 1, 0); }

static void rank_translate(void) { (void)gex_TM_TranslateRankToJobrank(tm, np); }
static void rank_translate_back(void) { (void)gex_TM_TranslateJobrankToRank(tm, np); }
static void rank_bound(void) {
    void *base;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, np, &base, NULL, NULL, 0));
}
static void rank_bound_invalid(void) {
    void *base;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, GEX_RANK_INVALID, &base, NULL, NULL, 0));
}
static void rank_limit(void) { (void)gex_AM_MaxRequestMedium(tm, np, GEX_EVENT_NOW, 0, 0); }
static void rank_limit_pair(void) { (void)gex_AM_MaxRequestLong(gex_TM_Pair(ep, 0), np, GEX_EVENT_NOW, 0, 0); }
static void rank_get(void) { gex_RMA_GetBlocking(tm, byte, GEX_RANK_INVALID, own, 1, 0); }
static void rank_value(void) { (void)gex_RMA_GetBlockingVal(tm, np + 7, own, 4, 0); }

static void tm_with_domain(void) {
    gex_TM_t made = copy_of_all();
    gex_AD_t ad;
    gex_AD_Create(&ad, made, GEX_DT_U32, GEX_OP_ADD, 0);
    barrier();
    gex_TM_Destroy(made, NULL, 0);
}
/* Rank 0 begins a barrier of a team that the last rank enters later, or not at all. */
static void tm_with_event(int others_enter) {
    gex_TM_t made = copy_of_all();
    const char begun = 1;
    if (first()) {
        gex_Coll_BarrierNB(made, 0);
        gex_RMA_PutBlocking(tm, np - 1, last, &begun, 1, 0);
    } else {
        GASNET_BLOCKUNTIL(*(volatile char *)own);
        if (others_enter) gex_Event_Wait(gex_Coll_BarrierNB(made, 0));
    }
    if (others_enter) barrier(); /* what rank 0 began is complete now */
    if (first()) gex_TM_Destroy(made, NULL, 0);
}
static void tm_with_collective(void) { tm_with_event(0); }
static void tm_with_unsynced(void) { tm_with_event(1); }
/* Valid calls: memory is lent again after the end of its team, whose domains have ended and whose
 * events were synchronised, also by arrays. Then operations of other kinds use their places. */
static void tm_in_order(void) {
    for (int turn = 0; turn < 3; turn++) {
        gex_TM_t made, next;
        gex_AD_t ad;
        gex_Event_t events[4];
        gex_TM_Split(&made, tm, 0, (int)me, own, 4096, 0);
        gex_TM_Split(&next, tm, 0, (int)me, own + 4096, 4096, 0);
        gex_AD_Create(&ad, made, GEX_DT_U32, GEX_OP_ADD, 0);
        barrier();
        gex_AD_OpNBI_U32(ad, NULL, LAST, last + 8192, GEX_OP_ADD, 1, 0, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        for (int i = 0; i < 4; i++) events[i] = gex_Coll_BarrierNB(made, 0);
        gex_Event_WaitAll(events, 4, 0);
        for (int i = 0; i < 4; i++)
            events[i] =
                i % 2 ? gex_RMA_PutNB(tm, LAST, last + 8192, byte, 8, GEX_EVENT_DEFER, 0) : gex_Coll_BarrierNB(next, 0);
        barrier();
        gex_AD_Destroy(ad);
        gex_TM_Destroy(made, NULL, 0);
        gex_Event_WaitAll(events, 4, 0);
        gex_TM_Destroy(next, NULL, 0);
    }
    barrier();
    if (first()) printf("ended in order\n");
}
static void tm_destroy_flags(void) { gex_TM_Destroy(copy_of_all(), NULL, GEX_FLAG_IMMEDIATE); }
static void split_scratch_overlap(void) {
    gex_TM_t one, two;
    gex_TM_Split(&one, tm, 0, (int)me, own, 4096, 0);
    gex_TM_Split(&two, tm, 0, (int)me, own + 4095, 4096, 0);
    gex_TM_Destroy(one, NULL, 0);
    gex_TM_Destroy(two, NULL, 0);
    barrier();
    if (first()) printf("only warned\n");
}
static void split_flags(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_IMMEDIATE);
}
static void split_flags_of_create(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, 0, own, 4096, GEX_FLAG_TM_LOCAL_SCRATCH);
}
static void create(gex_Rank_t rank, gex_EP_Index_t index, gex_Flags_t flags) {
    gex_TM_t made;
    gex_EP_Location_t where = {.gex_rank = rank, .gex_ep_index = index};
    gex_TM_Create(&made, 1, tm, &where, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | flags);
}
static void create_flags(void) { create(me, 0, GEX_FLAG_GLOBALLY_QUIESCED); }
static void scratch_size_min(void) {
    gex_TM_t made;
    gex_EP_Location_t where;
    size_t split = gex_TM_Split(&made, tm, 0, 0, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_MIN);
    where.gex_rank = me;
    where.gex_ep_index = 0;
    size_t create =
        gex_TM_Create(NULL, 1, tm, &where, 1, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_MIN | GEX_FLAG_TM_NO_SCRATCH);
    barrier();
    if (first() && split > 0 && create > 0) printf("sizes returned\n");
}
static void split_color(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, -1, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}
static void split_scratch_empty(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, 0, own, 0, 0);
}
static void split_scratch_outside(void) {
    gex_TM_t made;
    gex_TM_Split(&made, tm, 0, 0, own + 65536 - 63, 64, 0);
}
static void create_scratch_flags(void) { create(me, 0, GEX_FLAG_TM_LOCAL_SCRATCH); }
static void create_twice_named(void) {
    gex_TM_t made[2];
    gex_EP_Location_t where[2];
    where[0].gex_rank = where[1].gex_rank = me;
    where[0].gex_ep_index = where[1].gex_ep_index = 0;
    gex_TM_Create(made, 2, tm, where, 2, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}
static void create_count(void) {
    gex_TM_t made[2];
    gex_EP_Location_t where = {.gex_rank = me, .gex_ep_index = 0};
    gex_TM_Create(made, 2, tm, &where, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
}
static void create_no_endpoint(void) { create(me, 5, 0); }
static void create_no_rank(void) { create(np, 0, GEX_FLAG_RANK_IS_JOBRANK); }
static void translate_flags(void) { (void)gex_TM_TranslateRankToEP(tm, 0, 1); }

static void publish_twice(void) {
    gex_EP_t twice[2] = {ep, ep};
    gex_EP_PublishBoundSegment(tm, twice, 2, 0);
}
static void attach_team(void) {
    gex_Segment_t other;
    gex_Segment_Attach(&other, copy_of_all(), 65536);
}
static void attach_again(void) {
    gex_Segment_t other;
    gex_System_SetVerboseErrors(1);
    if (gex_Segment_Attach(&other, tm, 65536) != GASNET_OK) printf("refused\n");
}
static void segment_no_bytes(void) {
    gex_Segment_t made;
    gex_System_SetVerboseErrors(1);
    if (gex_Segment_Create(&made, client, NULL, 0, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG) printf("refused\n");
}
static void segment_wraps(void) {
    gex_Segment_t made;
    gex_System_SetVerboseErrors(1);
    if (gex_Segment_Create(&made, client, hidden(~(uintptr_t)4095), 8192, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG)
        printf("refused\n");
}
static void segment_destroy_attached(void) { gex_Segment_Destroy(segment, 0); }
static void segment_destroy_null(void) { gex_Segment_Destroy(GEX_SEGMENT_INVALID, 0); }
static void segment_destroyed(void) {
    gex_Segment_t made;
    gex_Segment_Create(&made, client, NULL, 4096, GEX_MK_HOST, 0);
    gex_Segment_Destroy(made, 0);
    (void)gex_Segment_QuerySize((gex_Segment_t)hidden((uintptr_t)made));
}
static void segment_with_scratch(void) {
    gex_Segment_t made;
    gex_EP_t other;
    gex_TM_t alone;
    gex_EP_Location_t where;
    gex_Segment_Create(&made, client, NULL, 4096, GEX_MK_HOST, 0);
    gex_EP_Create(&other, client, GEX_EP_CAPABILITY_ALL, 0);
    gex_EP_BindSegment(other, made, 0);
    gex_EP_PublishBoundSegment(tm, &other, 1, 0);
    where.gex_rank = me;
    where.gex_ep_index = gex_EP_QueryIndex(other);
    gex_Addr_t base = gex_Segment_QueryAddr(made);
    gex_TM_Create(&alone, 1, tm, &where, 1, &base, 4096, GEX_FLAG_TM_LOCAL_SCRATCH);
    gex_Segment_Destroy(made, 0);
}
static void bind_destroyed(void) {
    gex_Segment_t made;
    gex_EP_t other;
    gex_Segment_Create(&made, client, NULL, 4096, GEX_MK_HOST, 0);
    gex_Segment_Destroy(made, 0);
    gex_EP_Create(&other, client, GEX_EP_CAPABILITY_ALL, 0);
    gex_EP_BindSegment(other, (gex_Segment_t)hidden((uintptr_t)made), 0);
}
static void bind_twice(void) {
    gex_Segment_t made;
    gex_System_SetVerboseErrors(1);
    gex_Segment_Create(&made, client, NULL, 4096, GEX_MK_HOST, 0);
    if (gex_EP_BindSegment(ep, made, 0) == GASNET_ERR_BAD_ARG) printf("refused\n");
}
static void ep_null(void) { (void)gex_EP_QueryIndex((gex_EP_t)hidden(0)); }
static void segment_null(void) { (void)gex_Segment_QueryAddr((gex_Segment_t)hidden(0)); }
static void client_null(void) { (void)gex_Client_QueryName((gex_Client_t)hidden(0)); }
static void ep_garbage(void) {
    static uint64_t nothing[32];
    (void)gex_EP_QueryFlags((gex_EP_t)hidden((uintptr_t)nothing));
}
static void ep_capabilities(void) {
    gex_EP_t made;
    gex_System_SetVerboseErrors(1);
    if (gex_EP_Create(&made, client, 0, 0) == GASNET_ERR_BAD_ARG) printf("refused\n");
}
static void verbose_errors(void) { gex_System_SetVerboseErrors(2); }

/* An event that is not complete: the barrier that the last rank enters only when rank 0 has begun
 * it. */
static gex_Event_t open_event(void) {
    gex_Event_t event = GEX_EVENT_INVALID;
    const char begun = 1;
    if (first()) {
        event = gex_Coll_BarrierNB(tm, 0);
        gex_RMA_PutBlocking(tm, np - 1, last, &begun, 1, 0);
    } else {
        GASNET_BLOCKUNTIL(*(volatile char *)own);
    }
    return event;
}
static void event_no_op(void) { gex_Event_Wait(GEX_EVENT_NO_OP); }
static void event_no_op_array(void) {
    gex_Event_t events[2] = {GEX_EVENT_INVALID, GEX_EVENT_NO_OP};
    gex_Event_TestAll(events, 2, 0);
}
static void event_no_op_leaf(void) { (void)gex_Event_QueryLeaf(GEX_EVENT_NO_OP, GEX_EC_LC); }
static void event_twice(void) {
    gex_Event_t event = open_event();
    if (!first()) barrier();
    gex_Event_Wait(event);
    gex_Event_Wait(event);
}
static void event_leaf_of_leaf(void) {
    gex_Event_t root = open_event();
    if (first()) (void)gex_Event_QueryLeaf((gex_Event_t)((uintptr_t)root | GEX_EC_LC), GEX_EC_LC);
}
static void event_leaf_after_root(void) {
    gex_Event_t root = open_event();
    if (!first()) barrier();
    gex_Event_Wait(root);
    gex_Event_Wait((gex_Event_t)((uintptr_t)root | GEX_EC_LC));
}
static void event_garbage(void) { gex_Event_Wait((gex_Event_t)hidden((uintptr_t)byte & ~(uintptr_t)63)); }
static void event_category(void) { (void)gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_ALL); }
static void event_null_array(void) { gex_Event_WaitAll((gex_Event_t *)hidden(0), 2, 0); }
static void event_flags(void) {
    gex_Event_t event = GEX_EVENT_INVALID;
    gex_Event_TestSome(&event, 1, 4);
}
static void nbi_category(void) { gex_NBI_Wait((gex_EC_t)0x4000, 0); }
static void region_waits(void) {
    gex_NBI_BeginAccessRegion(0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}
static void region_tests(void) {
    gex_NBI_BeginAccessRegion(0);
    (void)gex_NBI_Test(GEX_EC_ALL, 0);
}
static void nbi_flags(void) { gex_NBI_Wait(GEX_EC_ALL, 4); }
static void region_flags(void) { gex_NBI_BeginAccessRegion(4); }
static void region_nested(void) {
    gex_NBI_BeginAccessRegion(0);
    gex_NBI_BeginAccessRegion(0);
}
static void region_not_open(void) { (void)gex_NBI_EndAccessRegion(0); }

#define REFUSED "refused\\n"
const misuse_case_t misuse_cases[] = {
    {"before-init", "any", 0, "", "called before gex_Client_Init", before_init},
    {"before-init-put", "any", 0, "", "called before gex_Client_Init", before_init_put},
    {"second-init", "any", 2, "", "=initialised already.*" REFUSED, second_init},
    {"client-name", "debug", 0, "", "=WARNING.*the client name \"some-client 2.0\" is not", bad_name},
    {"client-flags", "debug", 0, "", "=WARNING.*unknown flags 0x8000", bad_flags},
    {"tm-invalid", "any", 2, "", "is not a gex_TM_t", tm_invalid},
    {"tm-garbage", "any", 2, "", "is not a gex_TM_t", tm_garbage},
    {"tm-destroyed", "debug", 2, "", "team .* was destroyed", tm_destroyed},
    {"tm-destroyed-twice", "debug", 2, "", "team .* was destroyed", tm_destroyed_twice},
    {"tm-primordial", "any", 2, "", "the primordial team cannot be destroyed", tm_primordial},
    {"tm-with-domain", "debug", 2, "", "gex_TM_Destroy: the team has live atomic domains", tm_with_domain},
    {"tm-with-collective", "debug", 2, "",
     "gex_TM_Destroy: the event of a collective over this team was not synchronised", tm_with_collective},
    {"tm-with-unsynced", "debug", 2, "",
     "gex_TM_Destroy: the event of a collective over this team was not synchronised", tm_with_unsynced},
    {"tm-in-order", "any", 2, "", "=^ended in order\\n$", tm_in_order},
    {"tm-destroy-flags", "debug", 2, "", "gex_TM_Destroy: flags 0x1 are not for this call", tm_destroy_flags},
    {"pair-barrier", "any", 2, "", "gex_Coll_BarrierNB was given a TM-pair", pair_barrier},
    {"pair-split", "any", 2, "", "gex_TM_Split was given a TM-pair", pair_split},
    {"pair-size", "any", 2, "", "gex_TM_QuerySize was given a TM-pair", pair_size},
    {"pair-publish", "any", 2, "", "gex_EP_PublishBoundSegment was given a TM-pair", pair_publish},
    {"pair-rank", "any", 2, "", "job rank 2 does not exist in a job of 2", pair_rank},
    {"pair-no-endpoint", "debug", 2, "", "segment", pair_no_endpoint},
    {"rank-translate", "debug", 2, "", "rank 2 is not in a team of 2 members", rank_translate},
    {"rank-translate-back", "debug", 2, "", "job rank 2 does not exist", rank_translate_back},
    {"rank-bound", "debug", 2, "", "gex_EP_QueryBoundSegmentNB: rank 2", rank_bound},
    {"rank-bound-invalid", "debug", 2, "", "gex_EP_QueryBoundSegmentNB: rank", rank_bound_invalid},
    {"rank-limit", "debug", 2, "", "rank 2 is not in a team of 2 members", rank_limit},
    {"rank-limit-pair", "debug", 2, "", "job rank 2 does not exist", rank_limit_pair},
    {"rank-get", "any", 2, "", "is not in a team of 2 members", rank_get},
    {"rank-value", "any", 2, "", "rank 9 is not in a team of 2 members", rank_value},
    {"split-color", "debug", 2, "", "color -1 is negative", split_color},
    {"split-scratch-empty", "debug", 2, "", "scratch space of 0 bytes", split_scratch_empty},
    {"split-scratch-outside", "debug", 2, "",
     "scratch space of 64 bytes at 0x[0-9a-f]+ is not inside the bound segment", split_scratch_outside},
    {"split-scratch-overlap", "debug", 2, "",
     "=WARNING.*4096 bytes at 0x[0-9a-f]+ overlaps that of a live team, 4096 bytes at.*only warned",
     split_scratch_overlap},
    {"split-flags", "debug", 2, "", "gex_TM_Split: flags 0x1 are not for this call", split_flags},
    {"split-flags-of-create", "debug", 2, "", "gex_TM_Split: flags 0x1000000 are not for this call",
     split_flags_of_create},
    {"create-flags", "debug", 2, "", "gex_TM_Create: flags 0x8000000 are not for this call", create_flags},
    {"scratch-size-min", "any", 2, "", "=WARNING.*GEX_FLAG_TM_SCRATCH_SIZE_MIN is deprecated.*sizes returned",
     scratch_size_min},
    {"create-scratch-flags", "any", 2, "", "must have one of GEX_FLAG_TM_", create_scratch_flags},
    {"create-twice-named", "any", 2, "", "an endpoint is named twice", create_twice_named},
    {"create-count", "any", 2, "", "num_new_tms is 2, and args name 1 endpoints", create_count},
    {"create-no-endpoint", "any", 2, "", "has no endpoint with index 5", create_no_endpoint},
    {"create-no-rank", "any", 2, "", "rank 2 does not exist among 2", create_no_rank},
    {"translate-flags", "debug", 2, "", "gex_TM_TranslateRankToEP: flags 0x1", translate_flags},
    {"publish-twice", "debug", 2, "", "gex_EP_PublishBoundSegment: eps names an endpoint twice", publish_twice},
    {"attach-team", "debug", 2, "", "gex_Segment_Attach: the team must be the primordial one", attach_team},
    {"attach-again", "any", 2, "", "=gex_Segment_Attach: .*" REFUSED, attach_again},
    {"segment-no-bytes", "any", 2, "", "=gex_Segment_Create: .*" REFUSED, segment_no_bytes},
    {"segment-wraps", "any", 2, "", "=gex_Segment_Create: .*" REFUSED, segment_wraps},
    {"segment-destroy-attached", "any", 2, "", "the attached segment lives as long as the process",
     segment_destroy_attached},
    {"segment-destroy-null", "any", 2, "", "gex_Segment_Destroy was given GEX_SEGMENT_INVALID", segment_destroy_null},
    {"segment-destroyed", "debug", 2, "", "segment .* was destroyed", segment_destroyed},
    {"segment-null", "debug", 2, "", "GEX_SEGMENT_INVALID", segment_null},
    {"segment-with-scratch", "debug", 2, "", "gex_Segment_Destroy: the segment has the scratch space of a live team",
     segment_with_scratch},
    {"bind-destroyed", "debug", 2, "", "gex_EP_BindSegment: the segment .* was destroyed", bind_destroyed},
    {"bind-twice", "any", 2, "", "=gex_EP_BindSegment: the endpoint has a bound segment.*" REFUSED, bind_twice},
    {"ep-null", "debug", 2, "", "GEX_EP_INVALID", ep_null},
    {"ep-garbage", "debug", 2, "", "is not a gex_EP_t", ep_garbage},
    {"ep-capabilities", "any", 2, "", "=gex_EP_Create: .*" REFUSED, ep_capabilities},
    {"client-null", "debug", 2, "", "GEX_CLIENT_INVALID", client_null},
    {"verbose-errors", "debug", 2, "", "gex_System_SetVerboseErrors: 2", verbose_errors},
    {"event-no-op", "any", 2, "", "gex_Event_Wait was given GEX_EVENT_NO_OP", event_no_op},
    {"event-no-op-array", "debug", 2, "", "gex_Event_TestAll was given GEX_EVENT_NO_OP", event_no_op_array},
    {"event-no-op-leaf", "any", 2, "", "gex_Event_QueryLeaf was given GEX_EVENT_NO_OP", event_no_op_leaf},
    {"event-twice", "debug", 2, "", "gex_Event_Wait: the event .* was synchronised already", event_twice},
    {"event-leaf-of-leaf", "debug", 2, "", "gex_Event_QueryLeaf: .* is a leaf", event_leaf_of_leaf},
    {"event-leaf-after-root", "debug", 2, "", "gex_Event_Wait: the event .* was synchronised already",
     event_leaf_after_root},
    {"event-garbage", "debug", 2, "", "is not a gex_Event_t", event_garbage},
    {"event-category", "any", 2, "", "is not a single category", event_category},
    {"event-flags", "debug", 2, "", "gex_Event_TestSome: flags 0x4", event_flags},
    {"event-null-array", "debug", 2, "", "gex_Event_WaitAll: the array of 2 events is null", event_null_array},
    {"nbi-category", "debug", 2, "", "gex_NBI_Wait: event_mask 0x4000 has none of", nbi_category},
    {"region-waits", "debug", 2, "", "gex_NBI_Wait was called inside an access region", region_waits},
    {"region-tests", "debug", 2, "", "gex_NBI_Test was called inside an access region", region_tests},
    {"nbi-flags", "debug", 2, "", "gex_NBI_Wait: flags 0x4", nbi_flags},
    {"region-flags", "debug", 2, "", "gex_NBI_BeginAccessRegion: flags 0x4", region_flags},
    {"region-nested", "any", 2, "", "an access region is open already", region_nested},
    {"region-not-open", "any", 2, "", "no access region is open", region_not_open},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

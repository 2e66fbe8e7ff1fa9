/* Puts, gets, values, scattered transfers, atomics, barriers and collectives that the specification
 * forbids. */
#include <gasnet.h>

#include "misuse.h"

#define LAST (np - 1)
static char memory[4096] __attribute__((aligned(16)));

static void put_outside(void) { gex_RMA_PutBlocking(tm, LAST, last + 65536, memory, 1, 0); }
static void put_across_end(void) { gex_RMA_PutBlocking(tm, LAST, last + 65535, memory, 2, 0); }
static void get_before(void) { gex_RMA_GetBlocking(tm, memory, LAST, last - 1, 1, 0); }
static void put_rank(void) { gex_RMA_PutBlocking(tm, np + 5, own, memory, 1, 0); }
static void put_null(void) { gex_RMA_PutBlocking(tm, LAST, last, hidden(0), 4, 0); }
static void get_null(void) { gex_RMA_GetBlocking(tm, hidden(0), LAST, last, 4, 0); }
static void put_flags(void) { gex_RMA_PutBlocking(tm, LAST, last, memory, 1, GEX_FLAG_AD_MY_RANK); }
static void put_flags_exclusive(void) {
    gex_RMA_PutBlocking(tm, LAST, last, memory, 1, GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME);
}
static void get_flags_exclusive(void) {
    gex_RMA_GetBlocking(tm, memory, LAST, last, 1, GEX_FLAG_PEER_SEG_BOUND | GEX_FLAG_PEER_SEG_SOME);
}
static void never_self(void) { gex_RMA_PutBlocking(tm, me, own, memory, 1, GEX_FLAG_PEER_NEVER_SELF); }
static void never_nbrhd_self(void) { gex_RMA_GetBlocking(tm, memory, me, own, 1, GEX_FLAG_PEER_NEVER_NBRHD); }
static void never_nbrhd(void) {
    gex_Rank_t count;
    gex_System_QueryNbrhdInfo(NULL, &count, NULL);
    if (count == 1) {
        fprintf(stderr, "GEX_FLAG_PEER_NEVER_NBRHD holds: no neighbours\n");
        abort();
    }
    if (first()) gex_RMA_PutBlocking(tm, 1, last, memory, 1, GEX_FLAG_PEER_NEVER_NBRHD);
}
static void bound_untrue(void) { gex_RMA_PutBlocking(tm, LAST, last, memory, 1, GEX_FLAG_SELF_SEG_BOUND); }
static void get_bound_untrue(void) { gex_RMA_GetBlocking(tm, memory, LAST, last, 1, GEX_FLAG_SELF_SEG_BOUND); }
static void offset_outside(void) { gex_RMA_PutBlocking(tm, LAST, hidden(65536), memory, 1, GEX_FLAG_PEER_SEG_OFFSET); }
static void put_overlap(void) { gex_RMA_PutBlocking(tm, me, own, hidden((uintptr_t)own + 10), 20, 0); }
static void get_overlap(void) { gex_RMA_GetBlocking(tm, hidden((uintptr_t)own + 7), me, own, 8, 0); }
static void lc_group(void) { gex_Event_Wait(gex_RMA_PutNB(tm, LAST, last, memory, 1, GEX_EVENT_GROUP, 0)); }
static void lc_null(void) { gex_Event_Wait(gex_RMA_PutNB(tm, LAST, last, memory, 1, NULL, 0)); }
static void lc_pointer(void) {
    gex_Event_t event;
    gex_RMA_PutNBI(tm, LAST, last, memory, 1, &event, 0);
}
static void value_long(void) { gex_RMA_PutBlockingVal(tm, LAST, last, 1, (size_t)(uintptr_t)hidden(9), 0); }
static void value_empty(void) { (void)gex_RMA_GetBlockingVal(tm, LAST, last, 0, 0); }
static void value_outside(void) { gex_RMA_PutNBIVal(tm, LAST, last + 65530, 1, 8, 0); }

static gex_AD_t domain(void) {
    gex_AD_t ad;
    gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_ADD | GEX_OP_FADD | GEX_OP_GET, 0);
    barrier();
    return ad;
}
static void ad_rank(void) {
    uint32_t old;
    gex_AD_OpNB_U32(domain(), &old, np, last, GEX_OP_FADD, 1, 0, 0);
}
static void ad_destroyed(void) {
    gex_AD_t ad = domain();
    gex_AD_Destroy(ad);
    (void)gex_AD_QueryOps(ad);
}

static void ad_type(void) {
    uint64_t wide;
    gex_AD_OpNB_U64(domain(), &wide, LAST, last, GEX_OP_FADD, 1, 0, 0);
}
static void fetch_by(gex_AD_t ad, gex_Rank_t rank, char *place, gex_OP_t operation, gex_Flags_t flags) {
    uint32_t old;
    /* The function: what is inline in release objects is, as puts are, not checked there. */
    (gex_AD_OpNB_U32)(ad, &old, rank, place, operation, 1, 0, flags);
}
static void ad_operation(void) { fetch_by(domain(), LAST, last, GEX_OP_SWAP, 0); }
static void ad_two_operations(void) { fetch_by(domain(), LAST, last, GEX_OP_ADD | GEX_OP_FADD, 0); }
static void ad_no_result(void) { gex_AD_OpNB_U32(domain(), NULL, LAST, last, GEX_OP_FADD, 1, 0, 0); }
static void ad_jobrank(void) { fetch_by(domain(), np + 5, last, GEX_OP_FADD, GEX_FLAG_RANK_IS_JOBRANK); }
static void ad_not_mine(void) {
    gex_AD_t ad = domain();
    if (first()) fetch_by(ad, LAST, last, GEX_OP_FADD, GEX_FLAG_AD_MY_RANK);
}
static void ad_outside(void) { fetch_by(domain(), LAST, last + 65536, GEX_OP_FADD, 0); }
static void ad_misaligned(void) { fetch_by(domain(), LAST, last + 2, GEX_OP_FADD, 0); }
static void ad_used_destroyed(void) {
    gex_AD_t ad = domain();
    gex_AD_Destroy(ad);
    fetch_by(ad, LAST, last, GEX_OP_FADD, 0);
}
static void ad_invalid(void) { fetch_by(GEX_AD_INVALID, LAST, last, GEX_OP_FADD, 0); }
static void ad_create(gex_TM_t team, gex_DT_t type, gex_OP_t operations) {
    gex_AD_t ad;
    gex_AD_Create(&ad, team, type, operations, 0);
}
static void ad_bits_of_float(void) { ad_create(tm, GEX_DT_FLT, GEX_OP_GET | GEX_OP_XOR); }
static void ad_two_types(void) { ad_create(tm, GEX_DT_U32 | GEX_DT_I32, GEX_OP_GET); }
static void ad_pair(void) { ad_create(gex_TM_Pair(ep, 0), GEX_DT_U32, GEX_OP_GET); }
static void ad_flags(void) { gex_AD_OpNBI_U32(domain(), NULL, LAST, last, GEX_OP_ADD, 1, 0, GEX_FLAG_TM_NO_SCRATCH); }
static void ad_create_flags(void) {
    gex_AD_t ad;
    gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_ADD, GEX_FLAG_IMMEDIATE);
}
static void ad_result(void) { gex_AD_OpNBI_U32(domain(), hidden((uintptr_t)own), me, own, GEX_OP_FADD, 1, 0, 0); }
static void ad_result_offset(void) {
    gex_AD_OpNBI_U32(domain(), hidden(6), me, own + 4, GEX_OP_FADD, 1, 0, GEX_FLAG_SELF_SEG_OFFSET);
}
static void put_of_gasnet1(void) { gasnet_put(LAST, last, memory, 1); }
static void vector_of_gasnet1(void) {
    gasnet_memvec_t there, here;
    there.addr = last, here.addr = memory;
    there.len = here.len = 1;
    gasnet_putv_bulk(LAST, 1, &there, 1, &here);
}
static void notify_twice(void) {
    gasnet_barrier_notify(0, 0);
    gasnet_barrier_notify(0, 0);
}
static void wait_first(void) { (void)gasnet_barrier_wait(0, 0); }
static void try_first(void) { (void)gasnet_barrier_try(0, 0); }
static void barrier_flags(void) { gasnet_barrier_notify(0, 64); }
static void both_barriers(void) {
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gex_Coll_BarrierNB(tm, 0);
}
static void both_barriers_other(void) {
    if (first()) gex_Coll_BarrierNB(tm, 0); /* not complete: the others do not enter it */
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
}
static void root_outside(void) { gex_Coll_BroadcastNB(tm, np, memory, memory, 1, 0); }
static void reduce_root(void) {
    gex_Coll_ReduceToOneNB(tm, GEX_RANK_INVALID, memory, memory, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
}
static void reduce_type(void) { gex_Coll_ReduceToAllNB(tm, memory, memory + 64, 3, 4, 1, GEX_OP_ADD, NULL, NULL, 0); }
static void reduce_operation(void) {
    gex_Coll_ReduceToAllNB(tm, memory, memory + 64, GEX_DT_FLT, 4, 1, GEX_OP_XOR, NULL, NULL, 0);
}
static void reduce_size(void) {
    gex_Coll_ReduceToAllNB(tm, memory, memory + 64, GEX_DT_U32, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
}
static void reduce_user(void) {
    gex_Coll_ReduceToAllNB(tm, memory, memory + 64, GEX_DT_USER, 4, 1, GEX_OP_USER, NULL, NULL, 0);
}
static void barrier_nb_flags(void) { gex_Coll_BarrierNB(tm, GEX_FLAG_IMMEDIATE); }
static void broadcast_flags(void) {
    gex_Coll_BroadcastNB(tm, 0, memory, memory, 1, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
}
static void reduce_flags(void) {
    gex_Coll_ReduceToAllNB(tm, memory, memory, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, GEX_FLAG_IMMEDIATE);
}
static void reduce_one_flags(void) {
    gex_Coll_ReduceToOneNB(tm, 0, memory, memory, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, GEX_FLAG_IMMEDIATE);
}
static void scan_flags(void) {
    gasnetx_Coll_ScanNB(tm, memory, memory, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, GEX_FLAG_SELF_SEG_OFFSET);
}
static void gather_flags(void) { gasnetx_Coll_GatherNB(tm, 0, memory + 64, memory, 4, GEX_FLAG_SELF_SEG_OFFSET); }
static void broadcast_bound(void) { gex_Coll_BroadcastNB(tm, 0, memory, memory, 1, GEX_FLAG_SELF_SEG_BOUND); }
static void broadcast_offset(void) {
    gex_Coll_BroadcastNB(tm, 0, hidden(65533), hidden(0), 4, GEX_FLAG_SELF_SEG_OFFSET);
}
static void putting(const void *left, void *right, size_t count, const void *cdata) {
    gex_RMA_PutBlocking(tm, LAST, last, memory, 8, 0);
}
static void polling(const void *left, void *right, size_t count, const void *cdata) { gasnet_AMPoll(); }
static void reduce_by(gex_Coll_ReduceFn_t function) {
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, memory, memory, GEX_DT_U32, 4, 1, GEX_OP_USER, function, NULL, 0));
}
static void reduce_puts(void) { reduce_by(putting); }
static void reduce_polls(void) { reduce_by(polling); }
static void broadcast_null(void) { gex_Coll_BroadcastNB(tm, 0, memory, hidden(0), 1, 0); }
static void reduce_null(void) {
    gex_Coll_ReduceToAllNB(tm, hidden(0), memory, GEX_DT_U32, 4, 1, GEX_OP_ADD, NULL, NULL, 0);
}
static void reduce_nothing(void) { /* as Caffeine does with an array of no elements */
    gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, 0, memory, memory, GEX_DT_U32, 4, 0, GEX_OP_ADD, NULL, NULL, 0));
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, NULL, NULL, GEX_DT_U32, 4, 0, GEX_OP_ADD, NULL, NULL, 0));
    if (me == 0) printf("went on\n");
}
static void completion_flags(void) { gex_VIS_SetPeerCompletionHandler(200, memory, 1, GEX_FLAG_IMMEDIATE); }
static void broadcast_overlap(void) { gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, memory, memory + 4, 8, 0)); }
static void reduce_overlap(void) {
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, memory, memory + 4, GEX_DT_U32, 4, 4, GEX_OP_ADD, NULL, NULL, 0));
}

const misuse_case_t misuse_cases[] = {
    {"put-outside", "debug", 2, "", "segment", put_outside},
    {"put-across-end", "debug", 2, "", "segment", put_across_end},
    {"get-before", "debug", 2, "", "segment", get_before},
    {"put-rank", "any", 2, "", "rank 7 is not in", put_rank},
    {"put-null", "debug", 2, "", "gex_RMA_PutBlocking: the local address is null", put_null},
    {"get-null", "debug", 2, "", "gex_RMA_GetBlocking: the local address is null", get_null},
    {"put-flags", "debug", 2, "", "gex_RMA_PutBlocking: flags 0x20 are not for this call", put_flags},
    {"put-flags-exclusive", "debug", 2, "", "more than one GEX_FLAG_SELF_SEG_\\*", put_flags_exclusive},
    {"get-flags-exclusive", "debug", 2, "", "more than one GEX_FLAG_PEER_SEG_\\*", get_flags_exclusive},
    {"never-self", "debug", 2, "", "GEX_FLAG_PEER_NEVER_\\* was given, and the peer is in this process", never_self},
    {"never-nbrhd-self", "debug", 2, "", "GEX_FLAG_PEER_NEVER_\\* was given, and the peer is in this process",
     never_nbrhd_self},
    {"never-nbrhd", "debug", 2, "", "GEX_FLAG_PEER_NEVER_NBRHD (was given, and rank 1 is a neighbour|holds)",
     never_nbrhd},
    {"bound-untrue", "debug", 2, "", "is not in the bound segment of endpoint 0", bound_untrue},
    {"bound-untrue-get", "debug", 2, "", "promises", get_bound_untrue},
    {"offset-outside", "debug", 2, "", "segment", offset_outside},
    {"put-overlap", "debug", 2, "", "gex_RMA_PutBlocking: source and destination of 20 bytes overlap", put_overlap},
    {"get-overlap", "debug", 2, "", "gex_RMA_GetBlocking: source and destination of 8 bytes overlap", get_overlap},
    {"put-lc-group", "debug", 2, "", "gex_RMA_PutNB: lc_opt must not be GEX_EVENT_GROUP", lc_group},
    {"put-lc-null", "debug", 2, "", "gex_RMA_PutNB: lc_opt must not be NULL", lc_null},
    {"put-lc-pointer", "debug", 2, "", "gex_RMA_PutNBI: lc_opt must not be a pointer to an event", lc_pointer},
    {"value-long", "debug", 2, "", "9 bytes; a value has 1 to 8", value_long},
    {"value-empty", "debug", 2, "", "0 bytes; a value has 1 to 8", value_empty},
    {"value-outside", "debug", 2, "", "segment", value_outside},
    {"ad-rank", "debug", 2, "", "rank 2 is not in", ad_rank},
    {"ad-destroyed", "debug", 2, "", "gex_AD_QueryOps was given an atomic domain that was destroyed", ad_destroyed},
    {"ad-type", "debug", 2, "", "GEX_DT_U64", ad_type},
    {"ad-operation", "debug", 2, "", "operation", ad_operation},
    {"ad-two-operations", "debug", 2, "", "operation", ad_two_operations},
    {"ad-no-result", "debug", 2, "", "result_p", ad_no_result},
    {"ad-jobrank", "debug", 2, "", "rank 7 is not in", ad_jobrank},
    {"ad-not-mine", "debug", 2, "", "localit", ad_not_mine},
    {"ad-outside", "any", 2, "", "segment", ad_outside},
    {"ad-misaligned", "any", 2, "", "aligned", ad_misaligned},
    {"ad-used-destroyed", "debug", 2, "", "destroyed", ad_used_destroyed},
    {"ad-invalid", "debug", 2, "", "GEX_AD_INVALID", ad_invalid},
    {"ad-bits-of-float", "debug", 2, "", "GEX_DT_FLT", ad_bits_of_float},
    {"ad-two-types", "any", 2, "", "gex_AD_Create.*dt", ad_two_types},
    {"ad-pair", "any", 2, "", "TM-pair", ad_pair},
    {"ad-flags", "debug", 2, "", "gex_AD_OpNBI_U32: flags 0x4000000 are not for this call", ad_flags},
    {"ad-create-flags", "debug", 2, "", "gex_AD_Create: flags 0x1 are not for this call", ad_create_flags},
    {"ad-result", "debug", 2, "", "gex_AD_OpNBI_U32: result_p is memory of the target", ad_result},
    {"ad-result-offset", "debug", 2, "", "gex_AD_OpNBI_U32: result_p is memory of the target", ad_result_offset},
    {"gasnet1-put", "debug", 2, "", "gasnet_put is a call of GASNet-1.*GEX_FLAG_USES_GASNET1", put_of_gasnet1},
    {"gasnet1-vector", "debug", 2, "", "gasnet_putv_bulk is a call of GASNet-1.*GEX_FLAG_USES_GASNET1",
     vector_of_gasnet1},
    {"notify-twice", "any", 2, "", "gasnet_barrier_notify was called twice", notify_twice},
    {"wait-without-notify", "any", 2, "", "gasnet_barrier_wait was called without gasnet_barrier_notify", wait_first},
    {"try-without-notify", "any", 2, "", "gasnet_barrier_try was called without gasnet_barrier_notify", try_first},
    {"barrier-flags", "debug", 2, "", "gasnet_barrier_notify: flags 0x40", barrier_flags},
    {"collective-in-named-barrier", "debug", 2, "",
     "gex_Coll_BarrierNB was called between gasnet_barrier_notify and gasnet_barrier_wait", both_barriers},
    {"named-barrier-in-collective", "debug", 2, "", "gasnet_barrier_notify was called while a collective",
     both_barriers_other},
    {"root-outside", "any", 2, "", "root 2 is not in a team of 2 members", root_outside},
    {"reduce-root", "any", 2, "", "gex_Coll_ReduceToOneNB: root \\d+ is not in", reduce_root},
    {"reduce-type", "any", 2, "", "gex_Coll_ReduceToAllNB: ", reduce_type},
    {"reduce-operation", "any", 2, "", "gex_Coll_ReduceToAllNB: operation 0x4 ", reduce_operation},
    {"reduce-size", "any", 2, "", "gex_Coll_ReduceToAllNB: .*8", reduce_size},
    {"reduce-user", "any", 2, "", "gex_Coll_ReduceToAllNB: ", reduce_user},
    {"barrier-nb-flags", "debug", 2, "", "gex_Coll_BarrierNB: flags 0x1 are not for this call", barrier_nb_flags},
    {"broadcast-flags", "debug", 2, "", "gex_Coll_BroadcastNB: flags 0x20000000 are not for this call",
     broadcast_flags},
    {"reduce-flags", "debug", 2, "", "gex_Coll_ReduceToAllNB: flags 0x1 are not for this call", reduce_flags},
    {"reduce-one-flags", "debug", 2, "", "gex_Coll_ReduceToOneNB: flags 0x1 are not for this call", reduce_one_flags},
    {"scan-flags", "any", 2, "", "gasnetx_Coll_ScanNB: flags 0x20000 are not for this call", scan_flags},
    {"gather-flags", "any", 2, "", "gasnetx_Coll_GatherNB: flags 0x20000 are not for this call", gather_flags},
    {"broadcast-bound", "debug", 2, "", "gex_Coll_BroadcastNB: the local range .* is not in the bound segment",
     broadcast_bound},
    {"broadcast-offset", "debug", 2, "", "gex_Coll_BroadcastNB: the local range .* is not in the bound segment",
     broadcast_offset},
    {"reduce-puts", "debug", 2, "", "gex_RMA_PutBlocking was called inside a user-defined reduction function",
     reduce_puts},
    {"reduce-polls", "debug", 2, "", "gasnet_AMPoll was called inside a user-defined reduction function", reduce_polls},
    {"broadcast-null", "debug", 2, "", "gex_Coll_BroadcastNB: src and dst must not be null", broadcast_null},
    {"reduce-null", "debug", 2, "", "gex_Coll_ReduceToAllNB: src and dst must not be null", reduce_null},
    {"reduce-nothing", "any", 2, "", "=went on", reduce_nothing},
    {"completion-flags", "debug", 2, "", "gex_VIS_SetPeerCompletionHandler: flags 0x1 are not for this call",
     completion_flags},
    {"broadcast-overlap", "debug", 2, "", "gex_Coll_BroadcastNB: src and dst overlap", broadcast_overlap},
    {"reduce-overlap", "debug", 2, "", "gex_Coll_ReduceToAllNB: src and dst overlap", reduce_overlap},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

// gasnet_ratomic.h: remote atomic operations of GASNet-EX (specification 0.19, "Remote Atomic
// Operations").
#ifndef _GASNET_RATOMIC_H
#define _GASNET_RATOMIC_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- Domains --------------------------------------------------------------------------------------

// Makes a domain: one built-in type (GEX_DT_*) and all operations that it will be used for
// (GEX_OP_*, ORed). Collective over tm, with the same dt, ops and flags everywhere; does not
// synchronise. tm is a team, no TM-pair. Bitwise operations are for integers only; a combination
// that does not exist ends the job with a message. At most one of
// GEX_FLAG_AD_FAVOR_{MY_RANK,MY_NBRHD,REMOTE}: a hint who should be fast. A domain is carried out
// by the network if that offers all of ops, unless the hint or the team says that targets share
// memory; otherwise by the processors. That choice is the same for all members and targets.
extern void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);

// Ends a domain. Collective, does not synchronise. Everything started on it is complete everywhere:
// sync, then a barrier, then this.
extern void gex_AD_Destroy(gex_AD_t ad);

// What was passed at creation.
extern gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad);
extern gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
extern gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
extern gex_OP_t gex_AD_QueryOps(gex_AD_t ad);

// A pointer of the client's; NULL at first.
extern void gex_AD_SetCData(gex_AD_t ad, const void *val);
extern void *gex_AD_QueryCData(gex_AD_t ad);

// -- Operations -----------------------------------------------------------------------------------

// Performs opcode on the value at tgt_addr, in the bound segment of tgt_rank, atomically to all
// operations of the same domain from anywhere. The value is aligned to its size; nothing but
// operations of one domain accesses it meanwhile.
//
// *result_p gets the old value, of fetching operations only, and is valid when the operation is
// complete; others ignore result_p. operand1 is read by operations with at least one operand,
// operand2 by CAS and FCAS (expected, new), never later than at return. Integers wrap around. CAS
// and FCAS compare bits, of floating-point values, too, and do not fail spuriously.
//
// NB: an event; GEX_EVENT_INVALID when complete already, as it is for every target that shares
// memory with the caller, unless the network carries out the domain. NBI: 0, and
// gex_NBI_{Test,Wait} with GEX_EC_PUT for SET, GEX_EC_GET for GET, GEX_EC_RMW for all others.
//
// Flags: GEX_FLAG_IMMEDIATE: rather nothing (GEX_EVENT_NO_OP, or not 0) than waiting for room;
// without it the call may poll.
// GEX_FLAG_AD_REL: what the thread did and synced before is visible to who acquires after having
// seen this operation; GEX_FLAG_AD_ACQ: what the thread does after syncing this operation comes
// after it. Otherwise nothing is ordered, operations of one thread on one target included.
// GEX_FLAG_AD_MY_RANK, GEX_FLAG_AD_MY_NBRHD: the target is this process, or shares memory with it;
// checked in the debug library only. GEX_FLAG_RANK_IS_JOBRANK: tgt_rank is a rank of the job; it is
// in the domain's team. GEX_FLAG_PEER_SEG_OFFSET, GEX_FLAG_SELF_SEG_OFFSET: tgt_addr, result_p are
// offsets in the bound segment of the target, of the caller.
//
// Targets that do not share memory are served when their process is inside GASNet. Not to be called
// in AM handlers, or while a handler-safe lock is held.
#define GASNETI_AD_TYPED(NAME, type)                                                                                  \
    extern gex_Event_t gex_AD_OpNB_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t tgt_rank, void *tgt_addr,           \
                                          gex_OP_t opcode, type operand1, type operand2, gex_Flags_t flags);          \
    extern int gex_AD_OpNBI_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t tgt_rank, void *tgt_addr, gex_OP_t opcode, \
                                   type operand1, type operand2, gex_Flags_t flags);
GASNETI_AD_TYPED(I32, int32_t)
GASNETI_AD_TYPED(U32, uint32_t)
GASNETI_AD_TYPED(I64, int64_t)
GASNETI_AD_TYPED(U64, uint64_t)
GASNETI_AD_TYPED(FLT, float)
GASNETI_AD_TYPED(DBL, double)
#undef GASNETI_AD_TYPED

#ifdef __cplusplus
}
#endif

#include "gasnet_ratomic_inline.h"

#endif

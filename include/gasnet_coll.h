// gasnet_coll.h: collective operations of GASNet-EX. Those of GASNet-1 that clients still use are
// in gasnet_compat.h, which comes with this.
#ifndef _GASNET_COLL_H
#define _GASNET_COLL_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// All of these are collective: every member of tm calls, in the same order of collectives on tm,
// with arguments that agree unless said otherwise. They return at once; the event is complete when
// this member's part is: its source may be reused, its destination holds the result.
// Any number may be under way, on any teams. They advance in every call that polls, on any thread.
// Buffers are any memory of the caller, of any alignment; counts and lengths may be 0. Wrong
// arguments end the job with a message.
// flags of the calls named gex_: one of GEX_FLAG_SELF_SEG_*, each member its own. With
// GEX_FLAG_SELF_SEG_OFFSET this member's dst and src are offsets in the bound segment of the team's
// local endpoint; the others change nothing. GEX_FLAG_PEER_SEG_* are ignored. Other flags must be
// 0.

// Combines count operands: arg2_and_out[i] = arg1[i] op arg2_and_out[i]. arg1 stands for lower
// ranks. May run on any thread, in any call that polls, and may do with GASNet what is allowed
// under a handler-safe lock: no communication, no polls.
typedef void (*gex_Coll_ReduceFn_t)(const void *arg1, void *arg2_and_out, size_t count, const void *cdata);

// Copies nbytes at the root's src to everybody's dst. src is used on the root only, where it may
// equal dst.
extern gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, size_t nbytes,
                                        gex_Flags_t flags);
// Combines everybody's dt_cnt elements of dt_sz bytes, element by element in the order of ranks,
// into the root's dst, or into everybody's.
// dt: GEX_DT_*; op: GEX_OP_AND, OR, XOR (integers only), ADD, MULT, MIN, MAX, USER, or USER_NC,
// which need not commute; the last two call user_op with user_cdata. GEX_DT_USER is for these two.
// src may equal dst (ToAll: on every member or on none). The result depends on the arguments and
// the size of the team, not on timing.
extern gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, gex_DT_t dt,
                                          size_t dt_sz, size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op,
                                          void *user_cdata, gex_Flags_t flags);
extern gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt, size_t dt_sz,
                                          size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                          gex_Flags_t flags);

// -- Beyond the specification ---------------------------------------------------------------------

// Only this library has these: GASNETX_COLL is defined where they are. Arguments as above. A
// member's part is nbytes at i * nbytes, or, in the V forms, counts[i] bytes at offsets[i] (bytes);
// dst and src do not overlap, but for a member's own part, which may be in place already. flags
// must be 0.
#define GASNETX_COLL 1

// Everybody's src, in the order of ranks, into the root's dst. dst, counts and offsets are used on
// the root only.
extern gex_Event_t gasnetx_Coll_GatherNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, size_t nbytes,
                                         gex_Flags_t flags);
extern gex_Event_t gasnetx_Coll_GatherVNB(gex_TM_t tm, gex_Rank_t root, void *dst, const size_t *counts,
                                          const size_t *offsets, const void *src, size_t nbytes, gex_Flags_t flags);
// The root's src, in the order of ranks, into everybody's dst. src, counts and offsets are used on
// the root only.
extern gex_Event_t gasnetx_Coll_ScatterNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, size_t nbytes,
                                          gex_Flags_t flags);
extern gex_Event_t gasnetx_Coll_ScatterVNB(gex_TM_t tm, gex_Rank_t root, void *dst, size_t nbytes, const void *src,
                                           const size_t *counts, const size_t *offsets, gex_Flags_t flags);
// Everybody's src, in the order of ranks, into everybody's dst.
extern gex_Event_t gasnetx_Coll_AllGatherNB(gex_TM_t tm, void *dst, const void *src, size_t nbytes, gex_Flags_t flags);
extern gex_Event_t gasnetx_Coll_AllGatherVNB(gex_TM_t tm, void *dst, const size_t *counts, const size_t *offsets,
                                             const void *src, gex_Flags_t flags);
// Part j of member i's src becomes part i of member j's dst.
extern gex_Event_t gasnetx_Coll_AllToAllNB(gex_TM_t tm, void *dst, const void *src, size_t nbytes, gex_Flags_t flags);
extern gex_Event_t gasnetx_Coll_AllToAllVNB(gex_TM_t tm, void *dst, const size_t *dst_counts, const size_t *dst_offsets,
                                            const void *src, const size_t *src_counts, const size_t *src_offsets,
                                            gex_Flags_t flags);
// As gex_Coll_ReduceToAllNB, but rank i gets the combination of ranks 0 to i only; exclusive: 0 to
// i - 1, and rank 0's dst is left alone.
extern gex_Event_t gasnetx_Coll_ScanNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt, size_t dt_sz,
                                       size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                       gex_Flags_t flags);
extern gex_Event_t gasnetx_Coll_ExclusiveScanNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt, size_t dt_sz,
                                                size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op,
                                                void *user_cdata, gex_Flags_t flags);

#ifdef __cplusplus
}
#endif

#define GASNETI_COMPAT_PART 3
#include "gasnet_compat.h"

#endif

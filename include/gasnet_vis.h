// gasnet_vis.h: puts and gets of scattered data (vector, indexed, strided). Those of GASNet-1 are
// in gasnet_compat.h, which comes with this.
#ifndef _GASNET_VIS_H
#define _GASNET_VIS_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// Common to all calls below. A call moves data between local pieces and pieces of the bound segment
// of the process that tm and the rank name; the n-th byte of all source pieces in a row goes to the
// n-th byte of all destination pieces in a row, so both sides have the same length. Pieces have any
// alignment and any length, 0 included. A byte must not be in the destination twice, nor in the
// destination and in the source; source pieces may overlap each other.
//
//   Vector   each piece has an address and a length; the two sides may be divided differently
//   Indexed  all pieces of one side have the same length
//   Strided  elemsz bytes at addr + i[0]*strides[0] + i[1]*strides[1] + ... for all 0 <= i[l] <
//            count[l]. Strides are bytes, may be negative, 0 (source only) and in any order. elemsz
//            0 or a count of 0: nothing is moved, and neither tm nor the rank is looked at.
//            stridelevels 0: elemsz bytes, and the arrays are not looked at.
//
// Results: GEX_EVENT_INVALID (complete) or an event, and GEX_EVENT_NO_OP when nothing was started;
// or int: 0, and not 0 when nothing was started. Nothing is started only with GEX_FLAG_IMMEDIATE,
// when the network cannot take the first packet at once. A call to a process of the own
// neighbourhood is complete at return, and needs no polling by that process, where its attached
// segment is meant (so not in EVERYTHING). Without IMMEDIATE a call may wait for room, polling; NB
// and NBI do not wait for completion. Not ordered with other operations.
//
// The lists of Vector and Indexed and all data stay untouched until completion; the arrays of
// Strided may be reused at return. With GEX_FLAG_ENABLE_LEAF_LC a PutNB's root has a leaf GEX_EC_LC
// (gex_Event_QueryLeaf), and a PutNBI counts for gex_NBI_Wait(GEX_EC_LC, 0): then the source data
// may be reused. Not allowed in handlers.
#define GASNETI_VIS_FORMS(type, form)                                                                                  \
    extern type gex_VIS_VectorGet##form(gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[],                    \
                                        gex_Rank_t srcrank, size_t srccount, gex_Memvec_t const srclist[],             \
                                        gex_Flags_t flags);                                                            \
    extern type gex_VIS_VectorPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount,                              \
                                        gex_Memvec_t const dstlist[], size_t srccount, gex_Memvec_t const srclist[],   \
                                        gex_Flags_t flags);                                                            \
    extern type gex_VIS_IndexedGet##form(gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen,           \
                                         gex_Rank_t srcrank, size_t srccount, void *const srclist[], size_t srclen,    \
                                         gex_Flags_t flags);                                                           \
    extern type gex_VIS_IndexedPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[],      \
                                         size_t dstlen, size_t srccount, void *const srclist[], size_t srclen,         \
                                         gex_Flags_t flags);                                                           \
    extern type gex_VIS_StridedGet##form(gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank, \
                                         void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz,                   \
                                         const size_t count[], size_t stridelevels, gex_Flags_t flags);                \
    extern type gex_VIS_StridedPut##form(gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[], \
                                         void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz,                   \
                                         const size_t count[], size_t stridelevels, gex_Flags_t flags);
GASNETI_VIS_FORMS(gex_Event_t, NB)
GASNETI_VIS_FORMS(int, NBI)
GASNETI_VIS_FORMS(int, Blocking)
#undef GASNETI_VIS_FORMS

// Deprecated. Lets the peer of this thread's next VIS put run a handler when the data is there: a
// Medium reply handler without arguments (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY) of the peer's
// endpoint, which gets the payload and sees the data. It runs in a poll of the peer, also when that
// is the caller. nbytes is at most GEX_VIS_MAX_PEERCOMPLETION; the payload stays untouched until
// the put is complete (or locally complete with GEX_FLAG_ENABLE_LEAF_LC). handler 0 cancels. The
// put has no GEX_FLAG_IMMEDIATE. A put that moves nothing runs the handler, too, and then has a
// valid team and rank. flags is 0.
extern void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *source_addr, size_t nbytes,
                                             gex_Flags_t flags);

// Largest payload of such a handler, in bytes.
#define GEX_VIS_MAX_PEERCOMPLETION ((size_t)127)

#ifdef __cplusplus
}
#endif

#include "gasnet_vis_inline.h"

#define GASNETI_COMPAT_PART 4
#include "gasnet_compat.h"

#endif

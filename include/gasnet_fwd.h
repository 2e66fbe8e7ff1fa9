// gasnet_fwd.h: the constants and handle types of GASNet-EX, without any function.
//
// Safe to include anywhere: alone, without a thread mode, in a client's own public headers. Every
// macro here begins with GEX_. The constants are plain literals: usable in #if, as enumerators and
// in static assertions. The pointer constants (GEX_EVENT_*, GEX_*_INVALID) are constant expressions
// of pointer type.
#ifndef GEX_FWD_H
#define GEX_FWD_H

#include <stdint.h>

// -- Scalars --------------------------------------------------------------------------------------

typedef uint32_t gex_Rank_t;            // a position in, or the size of, an ordered set of endpoints or processes
typedef uint16_t gex_EP_Index_t;        // names an endpoint within its process and client
typedef uint32_t gex_Flags_t;           // GEX_FLAG_*
typedef uint32_t gex_DT_t;              // GEX_DT_*
typedef uint32_t gex_OP_t;              // GEX_OP_*
typedef uint32_t gex_EC_t;              // GEX_EC_*
typedef uint32_t gex_TI_t;              // GEX_TI_*
typedef uint32_t gex_EP_Capabilities_t; // GEX_EP_CAPABILITY_*
typedef void *gex_Addr_t;               // an address, or an offset where a flag says so

#define GEX_RANK_INVALID 0xffffffffU
#define GEX_EP_INDEX_INVALID 0xffffU

// -- Handles: pointers to types that no client can look into --------------------------------------

typedef struct gasneti_client_s *gex_Client_t;
typedef struct gasneti_ep_s *gex_EP_t;
typedef struct gasneti_tm_s *gex_TM_t;
typedef struct gasneti_segment_s *gex_Segment_t;
typedef struct gasneti_mk_s *gex_MK_t;
typedef struct gasneti_ad_s *gex_AD_t;
typedef struct gasneti_event_s *gex_Event_t;
typedef struct gasneti_srcdesc_s *gex_AM_SrcDesc_t;
typedef struct gasneti_token_s *gex_Token_t;

#define GEX_CLIENT_INVALID ((gex_Client_t)0)
#define GEX_EP_INVALID ((gex_EP_t)0)
#define GEX_TM_INVALID ((gex_TM_t)0)
#define GEX_SEGMENT_INVALID ((gex_Segment_t)0)
#define GEX_MK_INVALID ((gex_MK_t)0)
#define GEX_MK_HOST ((gex_MK_t)(uintptr_t)1)
#define GEX_AD_INVALID ((gex_AD_t)0)
#define GEX_AM_SRCDESC_NO_OP ((gex_AM_SrcDesc_t)0)

// An operation that is already complete, and one that was not started (GEX_FLAG_IMMEDIATE).
#define GEX_EVENT_INVALID ((gex_Event_t)0)
#define GEX_EVENT_NO_OP ((gex_Event_t)(uintptr_t)1)

// Local-completion choices, in place of a pointer to an event.
#define GEX_EVENT_NOW ((gex_Event_t *)(uintptr_t)1)
#define GEX_EVENT_DEFER ((gex_Event_t *)(uintptr_t)2)
#define GEX_EVENT_GROUP ((gex_Event_t *)(uintptr_t)3)

// -- Event categories -----------------------------------------------------------------------------

// An operation of the category PUT includes its local completion; AM operations complete locally
// only, so AM is LC.
#define GEX_EC_LC 0x2U
#define GEX_EC_AM 0x2U
#define GEX_EC_PUT 0x3U
#define GEX_EC_GET 0x4U
#define GEX_EC_RMW 0x8U
#define GEX_EC_ALL 0xffffffffU

// -- Flags ----------------------------------------------------------------------------------------

// Communication and team flags have distinct bits throughout.
#define GEX_FLAG_IMMEDIATE 0x1U
#define GEX_FLAG_AD_REL 0x2U
#define GEX_FLAG_AD_ACQ 0x4U
#define GEX_FLAG_LC_COPY_YES 0x8U
#define GEX_FLAG_LC_COPY_NO 0x10U
#define GEX_FLAG_AD_MY_RANK 0x20U
#define GEX_FLAG_AD_MY_NBRHD 0x40U
#define GEX_FLAG_ENABLE_LEAF_LC 0x80U
#define GEX_FLAG_PEER_NEVER_SELF 0x100U
#define GEX_FLAG_PEER_NEVER_NBRHD 0x200U
#define GEX_FLAG_AD_FAVOR_MY_RANK 0x400U
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT 0x800U
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC 0x1000U
#define GEX_FLAG_RANK_IS_JOBRANK 0x2000U
#define GEX_FLAG_SELF_SEG_UNKNOWN 0x4000U
#define GEX_FLAG_SELF_SEG_SOME 0x8000U
#define GEX_FLAG_SELF_SEG_BOUND 0x10000U
#define GEX_FLAG_SELF_SEG_OFFSET 0x20000U
#define GEX_FLAG_PEER_SEG_UNKNOWN 0x40000U
#define GEX_FLAG_PEER_SEG_SOME 0x80000U
#define GEX_FLAG_PEER_SEG_BOUND 0x100000U
#define GEX_FLAG_PEER_SEG_OFFSET 0x200000U
#define GEX_FLAG_SCRATCH_SEG_OFFSET 0x400000U
#define GEX_FLAG_TM_GLOBAL_SCRATCH 0x800000U
#define GEX_FLAG_TM_LOCAL_SCRATCH 0x1000000U
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH 0x2000000U
#define GEX_FLAG_TM_NO_SCRATCH 0x4000000U
#define GEX_FLAG_GLOBALLY_QUIESCED 0x8000000U
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN 0x10000000U
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED 0x20000000U
#define GEX_FLAG_AD_FAVOR_MY_NBRHD 0x40000000U
#define GEX_FLAG_AD_FAVOR_REMOTE 0x80000000U

// gex_Client_Init only.
#define GEX_FLAG_USES_GASNET1 0x1U
#define GEX_FLAG_DEFER_THREADS 0x2U

// gex_EP_RegisterHandlers only: one of the first four, ORed with one of the last three.
#define GEX_FLAG_AM_SHORT 0x1U
#define GEX_FLAG_AM_MEDIUM 0x2U
#define GEX_FLAG_AM_LONG 0x4U
#define GEX_FLAG_AM_MEDLONG 0x6U
#define GEX_FLAG_AM_REQUEST 0x8U
#define GEX_FLAG_AM_REPLY 0x10U
#define GEX_FLAG_AM_REQREP 0x18U

// gex_EP_Create only.
#define GEX_FLAG_HINT_ACCEL_AD 0x1U
#define GEX_FLAG_HINT_ACCEL_COLL 0x2U
#define GEX_FLAG_HINT_ACCEL_ALL 0x3U

// -- Endpoint capabilities ------------------------------------------------------------------------

#define GEX_EP_CAPABILITY_RMA 0x1U
#define GEX_EP_CAPABILITY_AM 0x2U
#define GEX_EP_CAPABILITY_VIS 0x4U
#define GEX_EP_CAPABILITY_COLL 0x8U
#define GEX_EP_CAPABILITY_AD 0x10U
#define GEX_EP_CAPABILITY_ALL 0x1fU

// -- Data types and operations of atomics and reductions ------------------------------------------

#define GEX_DT_I32 0x1U
#define GEX_DT_U32 0x2U
#define GEX_DT_I64 0x4U
#define GEX_DT_U64 0x8U
#define GEX_DT_FLT 0x10U
#define GEX_DT_DBL 0x20U
#define GEX_DT_USER 0x40U

// A fetching operation is its non-fetching partner, shifted left by 15.
#define GEX_OP_AND 0x1U
#define GEX_OP_OR 0x2U
#define GEX_OP_XOR 0x4U
#define GEX_OP_ADD 0x8U
#define GEX_OP_SUB 0x10U
#define GEX_OP_MULT 0x20U
#define GEX_OP_MIN 0x40U
#define GEX_OP_MAX 0x80U
#define GEX_OP_INC 0x100U
#define GEX_OP_DEC 0x200U
#define GEX_OP_SET 0x400U
#define GEX_OP_CAS 0x800U
#define GEX_OP_FAND 0x8000U
#define GEX_OP_FOR 0x10000U
#define GEX_OP_FXOR 0x20000U
#define GEX_OP_FADD 0x40000U
#define GEX_OP_FSUB 0x80000U
#define GEX_OP_FMULT 0x100000U
#define GEX_OP_FMIN 0x200000U
#define GEX_OP_FMAX 0x400000U
#define GEX_OP_FINC 0x800000U
#define GEX_OP_FDEC 0x1000000U
#define GEX_OP_SWAP 0x2000000U
#define GEX_OP_FCAS 0x4000000U
#define GEX_OP_CSWAP 0x4000000U // deprecated name of GEX_OP_FCAS
#define GEX_OP_GET 0x8000000U
#define GEX_OP_USER 0x40000000U
#define GEX_OP_USER_NC 0x80000000U

#define GEX_OP_TO_FETCHING(op) ((gex_OP_t)((gex_OP_t)(op) << 15))
#define GEX_OP_TO_NONFETCHING(op) ((gex_OP_t)((gex_OP_t)(op) >> 15))

#endif

// gasnetex.h: the GASNet-EX interface (specification 0.19), but for collectives, atomics, VIS and
// memory kinds, which have headers of their own.
//
// Every function is an exported symbol of exactly its name; macros of the same name, at the end,
// only add inline fast paths.
#ifndef _GASNETEX_H
#define _GASNETEX_H 1

// First: it chooses what the system headers show, and brings those that clients have come to rely
// on.
#include "gasnet_tools.h"

#include "gasnetex_build.h"

#include "gasnet_fwd.h"

#ifdef __cplusplus
extern "C" {
#endif

// -- Constants and types --------------------------------------------------------------------------

#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005

#define GEX_AM_INDEX_BASE 128

// For gex_Token_Info: all queries work for every token.
#define GEX_TI_SRCRANK 0x1U
#define GEX_TI_EP 0x2U
#define GEX_TI_ENTRY 0x4U
#define GEX_TI_IS_REQ 0x8U
#define GEX_TI_IS_LONG 0x10U
#define GEX_TI_ALL 0x1fU
#define GASNET_SUPPORTS_TI_SRCRANK 1
#define GASNET_SUPPORTS_TI_EP 1
#define GASNET_SUPPORTS_TI_ENTRY 1
#define GASNET_SUPPORTS_TI_IS_REQ 1
#define GASNET_SUPPORTS_TI_IS_LONG 1
#define GASNET_SUPPORTS_AM_CANCEL 20240418L
#define GASNET_SUPPORTS_AM_COMMIT_V2 20240906L

// Classes of memory kinds (gasnet_mk.h) that the library serves where it finds the vendor's library
// at run time.
// Clients include the vendor's header where one of these is defined; so they are where there is
// one. A client that needs none defines it itself.
#if defined(__has_include)
#if !defined(GASNET_HAVE_MK_CLASS_CUDA_UVA) && __has_include(<cuda.h>)
#define GASNET_HAVE_MK_CLASS_CUDA_UVA 1
#endif
#if !defined(GASNET_HAVE_MK_CLASS_HIP) && __has_include(<hip/hip_runtime.h>)
#define GASNET_HAVE_MK_CLASS_HIP 1
#endif
#if !defined(GASNET_HAVE_MK_CLASS_ZE) && __has_include(<level_zero/ze_api.h>)
#define GASNET_HAVE_MK_CLASS_ZE 1
#endif
#endif
#if !defined(GASNET_HAVE_MK_CLASS_MULTIPLE) && \
    (defined(GASNET_HAVE_MK_CLASS_CUDA_UVA) || defined(GASNET_HAVE_MK_CLASS_HIP) || defined(GASNET_HAVE_MK_CLASS_ZE))
#define GASNET_HAVE_MK_CLASS_MULTIPLE 1
#endif

#define GEX_THREAD_ROLE_RCV 1U
#define GEX_THREAD_ROLE_SND 2U

// Programs size arrays by it; not a limit.
#define GASNET_MAXNODES 65535
#define GASNET_PAGESIZE GASNETT_PAGESIZE

typedef uint8_t gex_AM_Index_t;
typedef int32_t gex_AM_Arg_t;
typedef uintptr_t gex_RMA_Value_t;
#if UINTPTR_MAX > 0xffffffffU
#define SIZEOF_GEX_RMA_VALUE_T 8
#else
#define SIZEOF_GEX_RMA_VALUE_T 4
#endif

// A pointer to a handler of any signature. Without a prototype where the language has that, so that
// no cast is needed there.
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
typedef void (*gex_AM_Fn_t)();
#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

typedef struct {
    void *gex_addr;
    size_t gex_len;
} gex_Memvec_t;

typedef struct {
    gex_Rank_t gex_rank;
    gex_EP_Index_t gex_ep_index;
} gex_EP_Location_t;

typedef const struct { gex_Rank_t gex_jobrank; } gex_RankInfo_t;

// One handler for gex_EP_RegisterHandlers. The order of the fields is fixed: clients initialise by
// position.
typedef struct {
    gex_AM_Index_t gex_index; // in GEX_AM_INDEX_BASE … 255, or 0: the library chooses and writes it here
    gex_AM_Fn_t gex_fnptr;
    gex_Flags_t gex_flags;  // GEX_FLAG_AM_*
    unsigned int gex_nargs; // 0 … 16
    const void *gex_cdata;
    const char *gex_name;
} gex_AM_Entry_t;

typedef struct {
    gex_Rank_t gex_srcrank; // job rank of the sender
    gex_EP_t gex_ep;        // where the message arrived
    const gex_AM_Entry_t *gex_entry;
    int gex_is_req;
    int gex_is_long;
} gex_Token_Info_t;

typedef struct {
    const char *gex_device_list;
    unsigned int gex_thread_roles; // GEX_THREAD_ROLE_*
    void *(*gex_progress_fn)(void *);
    void *gex_progress_arg;
} gex_ProgressThreadInfo_t;

// A handler-safe lock. Its words belong to the library; all zero is unlocked.
typedef struct {
    uint32_t gasneti_word[10];
} gex_HSL_t;
// clang-format off
#define GEX_HSL_INITIALIZER { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } }
// clang-format on

// -- System ---------------------------------------------------------------------------------------

extern gex_Rank_t gex_System_QueryJobRank(void);
extern gex_Rank_t gex_System_QueryJobSize(void);
// The conduit in use, in lower case ("smp"). Beyond the specification: with the universal library
// GASNET_CONDUIT_NAME is ANY.
extern const char *gasnetx_System_QueryConduit(void);
extern int gex_System_GetVerboseErrors(void);
extern void gex_System_SetVerboseErrors(int enable);
extern uint64_t gex_System_QueryMaxThreads(void);
extern int gex_System_QueryHiddenAMConcurrencyLevel(void);
extern int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int *count_p,
                                           const gex_ProgressThreadInfo_t **info_p, gex_Flags_t flags);
// Output pointers may be NULL. The arrays are sorted by job rank and belong to the library.
extern void gex_System_QueryNbrhdInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p, gex_Rank_t *my_info_index_p);
extern void gex_System_QueryHostInfo(gex_RankInfo_t **info_p, gex_Rank_t *info_count_p, gex_Rank_t *my_info_index_p);
extern void gex_System_QueryMyPosition(gex_Rank_t *nbrhd_set_size_p, gex_Rank_t *nbrhd_set_rank_p,
                                       gex_Rank_t *host_set_size_p, gex_Rank_t *host_set_rank_p);

// -- Client ---------------------------------------------------------------------------------------

// Collective. GASNET_OK or GASNET_ERR_*. argc and argv may be NULL.
extern int gex_Client_Init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p, const char *clientName, int *argc,
                           char ***argv, gex_Flags_t flags);
extern gex_Flags_t gex_Client_QueryFlags(gex_Client_t client);
extern const char *gex_Client_QueryName(gex_Client_t client);
extern void gex_Client_SetCData(gex_Client_t client, const void *val);
extern void *gex_Client_QueryCData(gex_Client_t client);

// -- Segment --------------------------------------------------------------------------------------

// Collective over the primordial team. size: bytes, a positive multiple of GASNET_PAGESIZE.
// In GASNET_SEGMENT_EVERYTHING a barrier: size is ignored, and *segment_p becomes
// GEX_SEGMENT_INVALID.
extern int gex_Segment_Attach(gex_Segment_t *segment_p, gex_TM_t tm, uintptr_t size);
extern int gex_Segment_Create(gex_Segment_t *segment_p, gex_Client_t client, gex_Addr_t address, uintptr_t length,
                              gex_MK_t kind, gex_Flags_t flags);
extern void gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags);
extern gex_Client_t gex_Segment_QueryClient(gex_Segment_t seg);
extern gex_Flags_t gex_Segment_QueryFlags(gex_Segment_t seg);
extern void *gex_Segment_QueryAddr(gex_Segment_t seg);
extern uintptr_t gex_Segment_QuerySize(gex_Segment_t seg);
extern void gex_Segment_SetCData(gex_Segment_t seg, const void *val);
extern void *gex_Segment_QueryCData(gex_Segment_t seg);
// Deprecated: see gex_EP_QueryBoundSegmentNB. 0: found; otherwise nothing was written.
extern int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                                  uintptr_t *size_p);

// -- Endpoint -------------------------------------------------------------------------------------

extern int gex_EP_Create(gex_EP_t *ep_p, gex_Client_t client, gex_EP_Capabilities_t capabilities, gex_Flags_t flags);
extern int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags);
extern int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags);
extern int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t *table, size_t numentries);
extern gex_Client_t gex_EP_QueryClient(gex_EP_t ep);
extern gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep);
extern gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep);
extern gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep);
extern void gex_EP_SetCData(gex_EP_t ep, const void *val);
extern void *gex_EP_QueryCData(gex_EP_t ep);
// Writes 0 to *size_p when there is no such segment. Output pointers may be NULL.
extern gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank, void **owneraddr_p, void **localaddr_p,
                                              uintptr_t *size_p, gex_Flags_t flags);

// -- Team -----------------------------------------------------------------------------------------

extern gex_Client_t gex_TM_QueryClient(gex_TM_t tm);
extern gex_EP_t gex_TM_QueryEP(gex_TM_t tm);
extern gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm);
extern gex_Rank_t gex_TM_QueryRank(gex_TM_t tm);
extern gex_Rank_t gex_TM_QuerySize(gex_TM_t tm);
extern void gex_TM_SetCData(gex_TM_t tm, const void *val);
extern void *gex_TM_QueryCData(gex_TM_t tm);
// Collective over the parent. Members that pass the same color (at least 0) form a team, ordered by
// key, then by rank in the parent; a null new_tm_p takes part in the call only. Scratch space, if
// any is lent (no GEX_FLAG_TM_NO_SCRATCH), is inside the bound segment and comes back from
// gex_TM_Destroy; collectives work as well without. With GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED:
// returns how much to lend and does nothing; GEX_FLAG_TM_SCRATCH_SIZE_MIN does the same and warns,
// once, that it is deprecated.
extern size_t gex_TM_Split(gex_TM_t *new_tm_p, gex_TM_t parent_tm, int color, int key, void *scratch_addr,
                           size_t scratch_size, gex_Flags_t flags);
// The same members in the same order (GASNet-EX Memory Kinds 2025.8, 5.2), with an order of
// collectives of its own. Collective over orig_tm. One of GEX_FLAG_TM_{SYMMETRIC,LOCAL,NO}_SCRATCH,
// or a query of scratch size as in gex_TM_Split.
extern size_t gex_TM_Dup(gex_TM_t *new_tm_p, gex_TM_t orig_tm, void *scratch_addr, size_t scratch_size,
                         gex_Flags_t flags);
// Collective over the parent, which has a member in each process that args names. args lists the
// new team's members in the order of their ranks, by rank in the parent or, with
// GEX_FLAG_RANK_IS_JOBRANK, by job rank; numargs 0 takes part in the call only. new_tms gets a
// handle for each member in this process. scratch_addrs has one entry
// (GEX_FLAG_TM_SYMMETRIC_SCRATCH), one for each local member (LOCAL), one for each member (GLOBAL),
// or is not used (NO); the entries are offsets in the bound segments with
// GEX_FLAG_SCRATCH_SEG_OFFSET.
extern size_t gex_TM_Create(gex_TM_t *new_tms, size_t num_new_tms, gex_TM_t parent_tm, gex_EP_Location_t *args,
                            size_t numargs, gex_Addr_t *scratch_addrs, size_t scratch_size, gex_Flags_t flags);
// Collective over tm, which has no collective under way here, and, with GEX_FLAG_GLOBALLY_QUIESCED,
// nowhere; then it does not communicate. Returns 1 when *scratch_p, which may be null, was set to
// the scratch space that the client lent (an offset with GEX_FLAG_SCRATCH_SEG_OFFSET).
extern int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t *scratch_p, gex_Flags_t flags);
extern gex_TM_t gex_TM_Pair(gex_EP_t local_ep, gex_EP_Index_t remote_ep_index);
extern gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank);
extern gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank);
extern gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags);

// -- Active Messages: limits and tokens -----------------------------------------------------------

// Sizes in bytes, the same during the whole job. other_rank may be GEX_RANK_INVALID: the smallest
// over all peers.
extern unsigned int gex_AM_MaxArgs(void);
extern size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                    unsigned int numargs);
extern size_t gex_AM_MaxReplyLong(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                  unsigned int numargs);
extern size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                      unsigned int numargs);
extern size_t gex_AM_MaxReplyMedium(gex_TM_t tm, gex_Rank_t other_rank, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                    unsigned int numargs);
extern size_t gex_AM_LUBRequestLong(void);
extern size_t gex_AM_LUBReplyLong(void);
extern size_t gex_AM_LUBRequestMedium(void);
extern size_t gex_AM_LUBReplyMedium(void);
extern size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                     unsigned int numargs);
extern size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t *lc_opt, gex_Flags_t flags,
                                       unsigned int numargs);
extern gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t *info, gex_TI_t mask);

// -- Remote memory access -------------------------------------------------------------------------

// int results: 0, or not 0 when nothing was started, only with GEX_FLAG_IMMEDIATE; events:
// GEX_EVENT_NO_OP in that case. nbytes of the value forms: 1 … SIZEOF_GEX_RMA_VALUE_T.
extern int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                               gex_Flags_t flags);
extern int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes, gex_Event_t *lc_opt,
                          gex_Flags_t flags);
extern gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                 gex_Event_t *lc_opt, gex_Flags_t flags);
extern int gex_RMA_GetBlocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags);
extern int gex_RMA_GetNBI(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags);
extern gex_Event_t gex_RMA_GetNB(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes, gex_Flags_t flags);
extern gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes,
                                              gex_Flags_t flags);
extern int gex_RMA_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                                  gex_Flags_t flags);
extern int gex_RMA_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                             gex_Flags_t flags);
extern gex_Event_t gex_RMA_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                                    gex_Flags_t flags);

// -- Completion -----------------------------------------------------------------------------------

// Test does not poll; 0: complete. Wait polls until complete. Completed entries of an array become
// GEX_EVENT_INVALID.
extern void gex_NBI_BeginAccessRegion(gex_Flags_t flags);
extern gex_Event_t gex_NBI_EndAccessRegion(gex_Flags_t flags);
extern int gex_NBI_Test(gex_EC_t event_mask, gex_Flags_t flags);
extern void gex_NBI_Wait(gex_EC_t event_mask, gex_Flags_t flags);
extern int gex_Event_Test(gex_Event_t event);
extern void gex_Event_Wait(gex_Event_t event);
extern int gex_Event_TestSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
extern void gex_Event_WaitSome(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
extern int gex_Event_TestAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
extern void gex_Event_WaitAll(gex_Event_t *pevent, size_t numevents, gex_Flags_t flags);
extern gex_Event_t gex_Event_QueryLeaf(gex_Event_t root, gex_EC_t event_category);

// -- Handler-safe locks ---------------------------------------------------------------------------

extern void gex_HSL_Init(gex_HSL_t *hsl);
extern void gex_HSL_Destroy(gex_HSL_t *hsl);
extern void gex_HSL_Lock(gex_HSL_t *hsl);
extern void gex_HSL_Unlock(gex_HSL_t *hsl);
extern int gex_HSL_Trylock(gex_HSL_t *hsl); // GASNET_OK, or GASNET_ERR_NOT_READY when it is held

// -- Collectives: the barrier; the others are in gasnet_coll.h ------------------------------------

extern gex_Event_t gex_Coll_BarrierNB(gex_TM_t tm, gex_Flags_t flags);

#ifdef __cplusplus
}
#endif

#include "gasnetex_am.h"
#include "gasnetex_misc.h"

#define GASNETI_COMPAT_PART 2
#include "gasnet_compat.h"

#include "gasnetex_inline.h"

#endif

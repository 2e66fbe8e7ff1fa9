// Values, sizes and layouts that clients have compiled in: one line per fact, with the clients that
// need it (C and C++).
//
// Keys of clients: bcl, bench, bupc (Berkeley UPC), caffeine, chapel, diomp, epcc, gexex
// (GASNet-examples), hpx, lcw, ocaf (OpenCoarrays), osss (OpenSHMEM), realm-ex and realm-g1
// (Legion), rust-gex (whose bindings take every GEX_ and GASNET_ name), upcxx, upcxx01 (UPC++
// v0.1), xmp (Omni); spec: no client that we know, but documented. The compiler checks all but the
// last table, which holds pointers and strings. docs/compat.md says which values are those of an
// implementation, and differ.
// NP: 1
// CONDUITS: smp
// VARIANT: cxx
// LANGUAGE: c++
#include <gasnet.h>

#include <gasnet_coll.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include <stdio.h>
#include <string.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if defined(__cplusplus)
#define MUST(who, condition) static_assert(condition, #condition " is what " #who " need")
#elif __STDC_VERSION__ >= 201112L
#define MUST(who, condition) _Static_assert(condition, #condition " is what " #who " need")
#else
#define MUST(who, condition) extern char PASTE(must_, __LINE__)[(condition) ? 1 : -1]
#endif
// An integer constant expression, also where the language wants one: an enumerator.
#define VALUE(who, name, value)   \
    MUST(who, (name) == (value)); \
    enum { PASTE(enumerator_, __LINE__) = ((name) == (value)) }
#define SIZE(who, type, bytes) MUST(who, sizeof(type) == (bytes))

// -- Errors ---------------------------------------------------------------------------------------
VALUE(upcxx upcxx01 realm - ex realm - g1 caffeine osss bench hpx lcw ocaf chapel bupc, GASNET_OK, 0);
VALUE(hpx, GASNET_ERR_NOT_INIT, 10001);
VALUE(bench hpx, GASNET_ERR_RESOURCE, 10002);
VALUE(hpx, GASNET_ERR_BAD_ARG, 10003);
VALUE(upcxx01 realm - ex hpx chapel, GASNET_ERR_NOT_READY, 10004);
VALUE(rust - gex, GASNET_ERR_BARRIER_MISMATCH, 10005);

// -- Data types and operations: bits --------------------------------------------------------------
VALUE(upcxx caffeine bcl, GEX_DT_I32, 0x1);
VALUE(upcxx bcl, GEX_DT_U32, 0x2);
VALUE(upcxx caffeine bcl, GEX_DT_I64, 0x4);
VALUE(upcxx realm - ex bcl, GEX_DT_U64, 0x8);
VALUE(upcxx caffeine bcl, GEX_DT_FLT, 0x10);
VALUE(upcxx caffeine bcl, GEX_DT_DBL, 0x20);
VALUE(upcxx caffeine, GEX_DT_USER, 0x40);
VALUE(upcxx caffeine, GEX_OP_AND, 0x1);
VALUE(upcxx caffeine, GEX_OP_OR, 0x2);
VALUE(upcxx caffeine, GEX_OP_XOR, 0x4);
VALUE(upcxx realm - ex caffeine, GEX_OP_ADD, 0x8);
VALUE(upcxx, GEX_OP_SUB, 0x10);
VALUE(upcxx, GEX_OP_MULT, 0x20);
VALUE(upcxx caffeine, GEX_OP_MIN, 0x40);
VALUE(upcxx caffeine, GEX_OP_MAX, 0x80);
VALUE(upcxx caffeine, GEX_OP_INC, 0x100);
VALUE(upcxx, GEX_OP_DEC, 0x200);
VALUE(upcxx caffeine, GEX_OP_SET, 0x400);
VALUE(rust - gex, GEX_OP_CAS, 0x800);
VALUE(upcxx caffeine bcl, GEX_OP_FAND, 0x8000);
VALUE(upcxx caffeine bcl, GEX_OP_FOR, 0x10000);
VALUE(upcxx caffeine bcl, GEX_OP_FXOR, 0x20000);
VALUE(upcxx caffeine bcl, GEX_OP_FADD, 0x40000);
VALUE(upcxx, GEX_OP_FSUB, 0x80000);
VALUE(upcxx, GEX_OP_FMULT, 0x100000);
VALUE(upcxx, GEX_OP_FMIN, 0x200000);
VALUE(upcxx, GEX_OP_FMAX, 0x400000);
VALUE(upcxx, GEX_OP_FINC, 0x800000);
VALUE(upcxx, GEX_OP_FDEC, 0x1000000);
VALUE(rust - gex, GEX_OP_SWAP, 0x2000000);
VALUE(upcxx caffeine bcl, GEX_OP_FCAS, 0x4000000);
VALUE(upcxx, GEX_OP_CSWAP, GEX_OP_FCAS);
VALUE(upcxx caffeine bcl, GEX_OP_GET, 0x8000000);
VALUE(upcxx caffeine, GEX_OP_USER, 0x40000000);
VALUE(rust - gex, GEX_OP_USER_NC, 0x80000000);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_ADD) == GEX_OP_FADD && GEX_OP_TO_FETCHING(GEX_OP_SUB) == GEX_OP_FSUB);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_MULT) == GEX_OP_FMULT && GEX_OP_TO_FETCHING(GEX_OP_MIN) == GEX_OP_FMIN);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_MAX) == GEX_OP_FMAX && GEX_OP_TO_FETCHING(GEX_OP_INC) == GEX_OP_FINC);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_DEC) == GEX_OP_FDEC && GEX_OP_TO_FETCHING(GEX_OP_AND) == GEX_OP_FAND);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_OR) == GEX_OP_FOR && GEX_OP_TO_FETCHING(GEX_OP_XOR) == GEX_OP_FXOR);
MUST(spec, GEX_OP_TO_FETCHING(GEX_OP_SET) == GEX_OP_SWAP && GEX_OP_TO_FETCHING(GEX_OP_CAS) == GEX_OP_FCAS);
MUST(spec, GEX_OP_TO_NONFETCHING(GEX_OP_SWAP) == GEX_OP_SET && GEX_OP_TO_NONFETCHING(GEX_OP_FCAS) == GEX_OP_CAS);
MUST(spec, GEX_OP_TO_NONFETCHING(GEX_OP_FXOR) == GEX_OP_XOR);
// Distinct bits: their sum is their union.
#define OPERATIONS(op)                                                                                                \
    GEX_OP_AND op GEX_OP_OR op GEX_OP_XOR op GEX_OP_ADD op GEX_OP_SUB op GEX_OP_MULT op GEX_OP_MIN op GEX_OP_MAX op   \
        GEX_OP_INC op GEX_OP_DEC op GEX_OP_SET op GEX_OP_CAS op GEX_OP_FAND op GEX_OP_FOR op GEX_OP_FXOR op           \
            GEX_OP_FADD op GEX_OP_FSUB op GEX_OP_FMULT op GEX_OP_FMIN op GEX_OP_FMAX op GEX_OP_FINC op GEX_OP_FDEC op \
                GEX_OP_SWAP op GEX_OP_FCAS op GEX_OP_GET op GEX_OP_USER op GEX_OP_USER_NC
#define PLUS_WIDE +(uint64_t)
MUST(upcxx bcl caffeine, ((uint64_t)OPERATIONS(PLUS_WIDE)) == (OPERATIONS(|)));

// -- Flags, categories, capabilities --------------------------------------------------------------
VALUE(realm - ex rust - gex, GEX_FLAG_IMMEDIATE, 0x1);
VALUE(realm - ex rust - gex, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, 1 << 11);
VALUE(upcxx realm - ex rust - gex, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1 << 12);
VALUE(upcxx chapel rust - gex, GEX_FLAG_USES_GASNET1, 0x1);
VALUE(upcxx caffeine rust - gex, GEX_FLAG_RANK_IS_JOBRANK, 0x2000);
VALUE(upcxx caffeine rust - gex, GEX_FLAG_AD_ACQ, 0x4);
VALUE(upcxx caffeine rust - gex, GEX_FLAG_AD_REL, 0x2);
VALUE(upcxx realm - ex lcw chapel, GEX_FLAG_AM_REQUEST, 0x8);
VALUE(upcxx chapel, GEX_FLAG_AM_REPLY, 0x10);
VALUE(realm - ex chapel, GEX_FLAG_AM_REQREP, 0x18);
VALUE(upcxx realm - ex chapel, GEX_FLAG_AM_SHORT, 0x1);
VALUE(upcxx realm - ex lcw chapel, GEX_FLAG_AM_MEDIUM, 0x2);
VALUE(upcxx realm - ex chapel, GEX_FLAG_AM_LONG, 0x4);
VALUE(rust - gex, GEX_FLAG_AM_MEDLONG, 0x6);
VALUE(upcxx realm - ex diomp, GEX_EP_CAPABILITY_RMA, 0x1);
VALUE(rust - gex, GEX_EP_CAPABILITY_AM, 0x2);
VALUE(rust - gex, GEX_EP_CAPABILITY_VIS, 0x4);
VALUE(rust - gex, GEX_EP_CAPABILITY_COLL, 0x8);
VALUE(rust - gex, GEX_EP_CAPABILITY_AD, 0x10);
VALUE(rust - gex, GEX_EP_CAPABILITY_ALL, 0x1f);
VALUE(realm - ex rust - gex, GEX_EC_AM, 0x2);
VALUE(upcxx rust - gex, GEX_EC_LC, 0x2);
VALUE(caffeine rust - gex, GEX_EC_RMW, 0x8);
VALUE(rust - gex, GEX_EC_PUT, 0x3);
VALUE(rust - gex, GEX_EC_GET, 0x4);
VALUE(rust - gex, GEX_EC_ALL, 0xffffffffU);
MUST(spec, GEX_FLAG_HINT_ACCEL_ALL == (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
MUST(spec, (GEX_FLAG_USES_GASNET1 & GEX_FLAG_DEFER_THREADS) == 0 && GEX_FLAG_DEFER_THREADS != 0);
MUST(spec, (GEX_THREAD_ROLE_RCV & GEX_THREAD_ROLE_SND) == 0 && GEX_THREAD_ROLE_RCV != 0 && GEX_THREAD_ROLE_SND != 0);
MUST(lcw upcxx realm - ex, (GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG) == GEX_TI_ALL);
// All flags that may meet in one call.
#define COMMUNICATION(op)                                                                                              \
    GEX_FLAG_IMMEDIATE op GEX_FLAG_LC_COPY_YES op GEX_FLAG_LC_COPY_NO op GEX_FLAG_PEER_NEVER_SELF op                   \
        GEX_FLAG_PEER_NEVER_NBRHD op GEX_FLAG_AD_MY_RANK op GEX_FLAG_AD_MY_NBRHD op GEX_FLAG_AD_FAVOR_MY_RANK op       \
            GEX_FLAG_AD_FAVOR_MY_NBRHD op GEX_FLAG_AD_FAVOR_REMOTE op GEX_FLAG_AD_ACQ op GEX_FLAG_AD_REL op            \
                GEX_FLAG_RANK_IS_JOBRANK op GEX_FLAG_AM_PREPARE_LEAST_CLIENT op GEX_FLAG_AM_PREPARE_LEAST_ALLOC op     \
                    GEX_FLAG_SELF_SEG_UNKNOWN op GEX_FLAG_SELF_SEG_SOME op GEX_FLAG_SELF_SEG_BOUND op                  \
                        GEX_FLAG_SELF_SEG_OFFSET op GEX_FLAG_PEER_SEG_UNKNOWN op GEX_FLAG_PEER_SEG_SOME op             \
                            GEX_FLAG_PEER_SEG_BOUND op GEX_FLAG_PEER_SEG_OFFSET op GEX_FLAG_ENABLE_LEAF_LC op          \
                                GEX_FLAG_SCRATCH_SEG_OFFSET op GEX_FLAG_TM_GLOBAL_SCRATCH op GEX_FLAG_TM_LOCAL_SCRATCH \
                                    op GEX_FLAG_TM_SYMMETRIC_SCRATCH op GEX_FLAG_TM_NO_SCRATCH op                      \
                                        GEX_FLAG_GLOBALLY_QUIESCED op GEX_FLAG_TM_SCRATCH_SIZE_MIN op                  \
                                            GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED
MUST(upcxx realm - ex caffeine rust - gex, ((uint64_t)COMMUNICATION(PLUS_WIDE)) == (COMMUNICATION(|)));

// -- Limits, modes, versions ----------------------------------------------------------------------
VALUE(upcxx caffeine lcw rust - gex, GEX_RANK_INVALID, 0xffffffffU);
VALUE(upcxx realm - ex lcw, GEX_AM_INDEX_BASE, 0x80);
VALUE(upcxx osss, GASNET_WAIT_SPIN, 0);
VALUE(upcxx realm - g1 hpx chapel, GASNET_WAIT_BLOCK, 1);
VALUE(osss, GASNET_WAIT_SPINBLOCK, 2);
VALUE(upcxx01 realm - g1 epcc gexex bench xmp hpx ocaf, GASNET_BARRIERFLAG_ANONYMOUS, 1);
VALUE(rust - gex, GASNET_BARRIERFLAG_MISMATCH, 2);
VALUE(upcxx01 bupc, GASNET_BARRIERFLAG_UNNAMED, 9);
VALUE(upcxx realm - ex realm - g1, GEX_SPEC_VERSION_MAJOR, 0);
VALUE(upcxx realm - ex realm - g1, GEX_SPEC_VERSION_MINOR, 19);
VALUE(rust - gex, GASNET_SPEC_VERSION_MAJOR, 1);
VALUE(rust - gex, GASNET_SPEC_VERSION_MINOR, 8);
VALUE(spec, GASNETT_SPEC_VERSION_MAJOR, 1);
VALUE(spec, GASNETT_SPEC_VERSION_MINOR, 20);
VALUE(upcxx upcxx01 realm - ex epcc gexex, GASNET_RELEASE_VERSION_MAJOR, 2025);
VALUE(upcxx upcxx01 realm - ex epcc gexex, GASNET_RELEASE_VERSION_MINOR, 8);
VALUE(upcxx realm - ex epcc gexex, GASNET_RELEASE_VERSION_PATCH, 0);
VALUE(spec, GASNET_SUPPORTS_AM_CANCEL, 20240418L);
VALUE(spec, GASNET_SUPPORTS_AM_COMMIT_V2, 20240906L);
MUST(upcxx realm - ex lcw, GASNET_SUPPORTS_TI_SRCRANK &&GASNET_SUPPORTS_TI_EP &&GASNET_SUPPORTS_TI_ENTRY);
MUST(spec, GASNET_SUPPORTS_TI_IS_REQ &&GASNET_SUPPORTS_TI_IS_LONG);
MUST(upcxx realm - ex, GASNET_MAXEPS >= 1);
#if defined(__x86_64__)
VALUE(upcxx caffeine osss xmp hpx ocaf, GASNET_PAGESIZE, 0x1000);
#endif
MUST(upcxx caffeine osss xmp hpx ocaf, GASNET_PAGESIZE >= 4096 && (GASNET_PAGESIZE & (GASNET_PAGESIZE - 1)) == 0);
MUST(chapel, GASNETT_MAX_THREADS >= 1 && GASNETI_MAX_THREADS >= 1);
#ifdef GASNET_SEQ
VALUE(chapel, GASNETI_MAX_THREADS, 1);
#else
VALUE(chapel, GASNETI_MAX_THREADS, 256); /* as many threads it may create */
#endif
VALUE(rust - gex, GASNET_COLL_IN_NOSYNC, 0x1);
VALUE(upcxx01 realm - g1 bcl bupc, GASNET_COLL_LOCAL, 0x80);
VALUE(upcxx01 realm - g1 bupc, GASNET_COLL_IN_MYSYNC, 0x2);
VALUE(upcxx01 realm - g1 bupc, GASNET_COLL_OUT_MYSYNC, 0x10);
MUST(upcxx01 bcl, (GASNET_COLL_LOCAL | GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC) == 0xa4);
VALUE(bupc, SIZEOF_GASNET_REGISTER_VALUE_T, SIZEOF_GEX_RMA_VALUE_T);

// -- 1 or undefined: HPX initialises an int with one and tests others with #if --------------------
#if defined(GASNET_PAR)
VALUE(upcxx upcxx01 realm - ex realm - g1 caffeine bcl hpx lcw, GASNET_PAR, 1);
#elif defined(GASNET_PARSYNC)
VALUE(spec, GASNET_PARSYNC, 1);
#else
VALUE(upcxx upcxx01 realm - ex caffeine bench bupc, GASNET_SEQ, 1);
#endif
#if (defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR)) != 1 || \
    (GASNET_SEQ + GASNET_PARSYNC + GASNET_PAR) != 1
#error "hpx: exactly one thread mode is defined, and is 1"
#endif
VALUE(upcxx realm - ex xmp bupc, GASNET_CONDUIT_SMP, 1);
VALUE(bupc xmp, GASNET_SMP_CONDUIT, 1);
#if GASNET_CONDUIT_UDP || GASNET_CONDUIT_IBV || GASNET_CONDUIT_ARIES || GASNET_CONDUIT_OFI || GASNET_CONDUIT_UCX || \
    GASNET_CONDUIT_MPI || GASNET_CONDUIT_PORTALS
#error "bench, hpx, upcxx, chapel, realm-ex, gexex: other conduits are undefined"
#endif
VALUE(upcxx01 xmp bupc, GASNET_PSHM, 1);
#if (defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) + defined(GASNET_SEGMENT_EVERYTHING)) != 1 || \
    (GASNET_SEGMENT_FAST + GASNET_SEGMENT_LARGE + GASNET_SEGMENT_EVERYTHING) != 1
#error "upcxx, osss, chapel: exactly one segment configuration is defined, and is 1"
#endif
#if (defined(GASNET_DEBUG) + defined(GASNET_NDEBUG)) != 1 || (GASNET_DEBUG + GASNET_NDEBUG) != 1
#error "upcxx: exactly one flavour is defined, and is 1"
#endif
#if GASNET_ALIGNED_SEGMENTS
#error "spec: segments are not aligned"
#endif
#if GASNET_SND_THREAD || GASNET_IBV_MULTIRAIL || GASNETC_IBV_MAX_HCAS_CONFIGURE || GASNETC_IBV_RCV_THREAD
#error "realm-ex, osss: what describes other conduits is undefined"
#endif
#if GASNET_DEBUG
MUST(bupc upcxx01, GASNET_TRACE == 1 && GASNET_STATS == 1 && GASNET_SRCLINES == 1);
#elif defined(GASNET_TRACE) || defined(GASNET_STATS) || defined(GASNET_SRCLINES)
#error "the release flavour leaves trace points to those who ask for them"
#endif
// In #if, where enumerators would count 0.
#if GEX_OP_ADD != 8 || GEX_DT_U64 != 8 || GEX_FLAG_IMMEDIATE != 1 || GASNET_ERR_NOT_READY != 10004 || \
    GEX_EP_CAPABILITY_RMA != 1 || GASNET_MAXEPS < 1 || GASNET_PAGESIZE < 4096 ||                      \
    SIZEOF_GEX_RMA_VALUE_T != SIZEOF_GASNET_REGISTER_VALUE_T
#error "upcxx, chapel, bupc: constants are macros of plain numbers"
#endif

// -- Sizes ----------------------------------------------------------------------------------------
SIZE(upcxx realm - ex caffeine bcl lcw chapel rust - gex, gex_Client_t, sizeof(void *));
SIZE(upcxx realm - ex caffeine bcl lcw chapel rust - gex diomp, gex_EP_t, sizeof(void *));
SIZE(upcxx realm - ex caffeine bcl lcw chapel rust - gex diomp, gex_TM_t, sizeof(void *));
SIZE(upcxx realm - ex caffeine bcl chapel rust - gex diomp, gex_Segment_t, sizeof(void *));
SIZE(upcxx realm - ex diomp, gex_MK_t, sizeof(void *));
SIZE(upcxx caffeine bcl, gex_AD_t, sizeof(void *));
SIZE(realm - ex, gex_Addr_t, sizeof(void *));
SIZE(upcxx realm - ex caffeine bcl lcw chapel rust - gex, gex_Event_t, sizeof(uintptr_t));
SIZE(upcxx realm - ex rust - gex, gex_AM_SrcDesc_t, sizeof(uintptr_t));
SIZE(upcxx realm - ex lcw rust - gex, gex_Token_t, sizeof(void *));
SIZE(upcxx realm - ex realm - g1 caffeine lcw chapel rust - gex, gex_Rank_t, 4);
SIZE(upcxx realm - ex rust - gex diomp, gex_EP_Index_t, 2);
SIZE(upcxx realm - ex lcw rust - gex, gex_AM_Arg_t, 4);
SIZE(lcw rust - gex, gex_AM_Index_t, 1);
SIZE(upcxx realm - ex caffeine bcl rust - gex, gex_Flags_t, 4);
SIZE(upcxx realm - ex caffeine bcl, gex_DT_t, 4);
SIZE(upcxx realm - ex caffeine bcl, gex_OP_t, 4);
SIZE(rust - gex, gex_EC_t, 4);
SIZE(lcw rust - gex, gex_TI_t, 4);
SIZE(realm - ex, gex_EP_Capabilities_t, 4);
SIZE(upcxx realm - ex rust - gex, gex_RankInfo_t, 4);
SIZE(upcxx, gex_EP_Location_t, 8);
SIZE(rust - gex, gex_RMA_Value_t, SIZEOF_GEX_RMA_VALUE_T);
SIZE(upcxx01 realm - g1 osss epcc xmp hpx chapel bupc, gasnet_node_t, 4);
SIZE(epcc gexex, gasnet_handler_t, 1);
SIZE(realm - g1 epcc gexex xmp hpx chapel bupc, gasnet_handlerarg_t, 4);
SIZE(upcxx01 realm - g1 osss, gasnet_handle_t, sizeof(void *));
SIZE(upcxx01 realm - g1 osss epcc gexex xmp hpx ocaf chapel bupc, gasnet_token_t, sizeof(void *));
SIZE(upcxx upcxx01 bupc, gasnett_tick_t, 8);
SIZE(bupc, gasnett_atomic_t, 4);
SIZE(upcxx, gex_HSL_t, 40);
SIZE(upcxx01 osss xmp bupc, gasnet_hsl_t, 40);
#if UINTPTR_MAX > 0xffffffffU
SIZE(upcxx realm - ex lcw chapel rust - gex, gex_AM_Entry_t, 40);
SIZE(upcxx realm - ex lcw rust - gex, gex_Token_Info_t, 32);
SIZE(upcxx, gex_Memvec_t, 16);
SIZE(upcxx01 realm - g1 osss epcc gexex xmp hpx ocaf chapel bupc, gasnet_handlerentry_t, 16);
SIZE(upcxx01 realm - g1 osss epcc gexex bench bcl xmp hpx ocaf chapel, gasnet_seginfo_t, 16);
SIZE(upcxx01 realm - g1 osss, gasnet_nodeinfo_t, 24);
SIZE(bupc, gasnet_register_value_t, 8);
SIZE(ocaf, gasnet_memvec_t, 16);
SIZE(upcxx realm - ex diomp, gex_MK_Create_args_t, 40);
#if defined(__x86_64__) && defined(GASNET_PAR)
SIZE(caffeine bupc, gasnett_mutex_t, 40);
#endif
#endif
MUST(upcxx realm - ex caffeine lcw, (gex_Rank_t)-1 > 0 && (gex_EP_Index_t)-1 > 0 && (gex_Flags_t)-1 > 0);
MUST(upcxx realm - ex lcw, (gex_AM_Arg_t)-1 < 0);
MUST(rust - gex, (gex_RMA_Value_t)-1 > 0 && (gex_AM_Index_t)-1 > 0);

// -- Layouts: fields, their order, and what is initialised by position ----------------------------
MUST(upcxx, offsetof(gex_Memvec_t, gex_addr) == 0 && offsetof(gex_Memvec_t, gex_len) == sizeof(void *));
MUST(ocaf, offsetof(gasnet_memvec_t, addr) == 0 && offsetof(gasnet_memvec_t, len) == sizeof(void *));
MUST(upcxx01 realm - g1 osss bcl,
     offsetof(gasnet_seginfo_t, addr) == 0 && offsetof(gasnet_seginfo_t, size) == sizeof(void *));
MUST(upcxx, offsetof(gex_EP_Location_t, gex_rank) == 0 && offsetof(gex_EP_Location_t, gex_ep_index) == 4);
static void handler(gex_Token_t token, gex_AM_Arg_t argument);
static void handler(gex_Token_t token, gex_AM_Arg_t argument) {
    (void)token;
    (void)argument;
}
static int client_data;
static gex_AM_Entry_t entry = {200, (gex_AM_Fn_t)handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP,
                               1,   &client_data,         "name"}; // upcxx
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
static gex_AM_Entry_t short_entry = {201, (gex_AM_Fn_t)handler, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST,
                                     1}; // lcw: not the last two
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
// epcc, gexex, realm-g1, xmp
static gasnet_handlerentry_t entry1 = {201, (gex_AM_Fn_t)handler};
// upcxx: a location from rank and index; its fragments as they are copied to and from struct {void
// *; size_t}
static const gex_EP_Location_t location = {3, 1};
static const gex_Memvec_t piece = {&client_data, sizeof client_data};

// -- Constant expressions in the places where clients use them ------------------------------------
enum { LOAD = GEX_OP_GET, WAIT = GASNET_ERR_NOT_READY, FLAGS = GEX_FLAG_IMMEDIATE | GEX_FLAG_RANK_IS_JOBRANK };
static const gex_OP_t operations[] = {GEX_OP_ADD, GEX_OP_FADD, GEX_OP_USER_NC}; // caffeine
static gex_HSL_t lock = GEX_HSL_INITIALIZER;                                    // upcxx
static gasnet_hsl_t lock1 = GASNET_HSL_INITIALIZER;                             // osss
static const int mode =                                                         // hpx
#if defined(GASNET_PAR)
    GASNET_PAR;
#elif defined(GASNET_PARSYNC)
    GASNET_PARSYNC;
#else
    GASNET_SEQ;
#endif
#ifdef __cplusplus
enum class atomic_operation : gex_OP_t {
    load = GEX_OP_GET,
    store = GEX_OP_SET,
    add = GEX_OP_ADD,
    last = GEX_OP_USER_NC
};
MUST(upcxx, static_cast<gex_OP_t>(atomic_operation::add) == GEX_OP_ADD);
struct Members { // bcl
    static constexpr gex_OP_t op = GEX_OP_FADD;
    static constexpr gex_DT_t dt = GEX_DT_U64;
};
MUST(bcl, Members::op == GEX_OP_FADD && Members::dt == GEX_DT_U64);
struct Base {
    virtual ~Base() {}
    virtual void act(gex_OP_t, gex_DT_t) {}
};
struct Derived : Base {
    static gex_HSL_t lock;                   // upcxx01
    void act(gex_DT_t, gex_OP_t) override {} // bcl: one type
};
gex_HSL_t Derived::lock = GEX_HSL_INITIALIZER;
MUST(realm - ex, GEX_EVENT_INVALID == nullptr && GEX_SEGMENT_INVALID == nullptr && GEX_AM_SRCDESC_NO_OP == nullptr);
#else
MUST(bcl, __builtin_types_compatible_p(gex_OP_t, gex_DT_t) && __builtin_types_compatible_p(gex_OP_t, uint32_t));
#endif

// -- Pointers, which no language takes for integer constant expressions ---------------------------
#define CONVERTED(type, value) \
    { "(" #type ")" #value, (uintptr_t)(type)(value), (uintptr_t)(value) }
#define IS(name, value) \
    { #name, (uintptr_t)(name), value }
static const struct {
    const char *what;
    uintptr_t is, must_be;
} pointers[] = {
    IS(GEX_EVENT_INVALID, 0),                  // upcxx realm-ex bcl chapel rust-gex
    IS(GEX_EVENT_NO_OP, 1),                    // realm-ex rust-gex
    IS(GEX_EVENT_NOW, 1),                      // upcxx realm-ex lcw rust-gex
    IS(GEX_EVENT_DEFER, 2),                    // upcxx realm-ex bcl chapel rust-gex
    IS(GEX_EVENT_GROUP, 3),                    // realm-ex rust-gex
    IS(GEX_CLIENT_INVALID, 0),                 // rust-gex
    IS(GEX_EP_INVALID, 0),                     // upcxx realm-ex rust-gex
    IS(GEX_TM_INVALID, 0),                     // upcxx rust-gex
    IS(GEX_SEGMENT_INVALID, 0),                // upcxx realm-ex rust-gex diomp
    IS(GEX_MK_INVALID, 0),                     // upcxx realm-ex
    IS(GEX_MK_HOST, 1),                        // realm-ex
    IS(GEX_AD_INVALID, 0),                     // caffeine
    IS(GEX_AM_SRCDESC_NO_OP, 0),               // upcxx realm-ex rust-gex
    IS(GASNET_INVALID_HANDLE, 0),              // rust-gex
    CONVERTED(gex_Event_t, GEX_EVENT_NO_OP),   // realm-ex: of the type it compares with
    CONVERTED(gex_Event_t *, GEX_EVENT_NOW),   // realm-ex
    CONVERTED(gex_Event_t *, GEX_EVENT_DEFER), // realm-ex
    CONVERTED(gex_Event_t *, GEX_EVENT_GROUP), // realm-ex
    CONVERTED(gex_MK_t, GEX_MK_HOST),          // realm-ex
};

static int failures;
static void must(int condition, const char *text) {
    if (!condition) {
        printf("values: not so: %s\n", text);
        failures++;
    }
}

// An object pointer: a pointer to void becomes one, one a pointer to void, and an integer becomes
// one and comes back.
#ifdef __cplusplus
#define FROM_VOID(type, p) static_cast<type>(p)
#define TO_VOID(p) static_cast<const void *>(p)
#else
#define FROM_VOID(type, p) (p)
#define TO_VOID(p) (p)
#endif
#define POINTER(who, type)                                                                                 \
    do {                                                                                                   \
        void *some = &client_data;                                                                         \
        type handle = FROM_VOID(type, some);                                                               \
        const void *back = TO_VOID(handle);                                                                \
        must(back == some && (type)(uintptr_t)handle == handle, #type " is an object pointer, for " #who); \
    } while (0)

static void check_pointers(void) {
    POINTER(upcxx realm - ex, gex_Client_t);
    POINTER(upcxx realm - ex, gex_EP_t);
    POINTER(upcxx realm - ex, gex_TM_t);
    POINTER(upcxx realm - ex, gex_Segment_t);
    POINTER(upcxx realm - ex, gex_MK_t);
    POINTER(upcxx, gex_AD_t);
    POINTER(upcxx realm - ex, gex_Event_t);
    POINTER(upcxx realm - ex, gex_AM_SrcDesc_t);
    POINTER(realm - ex, gex_Token_t);
    POINTER(realm - ex, gex_Addr_t);
    POINTER(upcxx01 realm - g1, gasnet_handle_t);
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

int main(void) {
    size_t i;
    for (i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
        must(pointers[i].is == pointers[i].must_be, pointers[i].what);
    check_pointers();
    must(entry.gex_index == 200 && entry.gex_fnptr == (gex_AM_Fn_t)handler && entry.gex_nargs == 1 &&
             entry.gex_cdata == &client_data && entry.gex_flags == (GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP) &&
             !strcmp(entry.gex_name, "name"),
         "upcxx: gex_AM_Entry_t by position");
    must(!short_entry.gex_cdata && !short_entry.gex_name && short_entry.gex_nargs == 1,
         "lcw: gex_AM_Entry_t without its last fields");
    must(entry1.index == 201 && entry1.fnptr == entry.gex_fnptr, "epcc: gasnet_handlerentry_t by position");
    must(location.gex_rank == 3 && location.gex_ep_index == 1, "upcxx: gex_EP_Location_t by position");
    must(piece.gex_addr == &client_data && piece.gex_len == sizeof(int), "upcxx: gex_Memvec_t by position");
    must(GEX_VIS_MAX_PEERCOMPLETION >= 127, "spec: GEX_VIS_MAX_PEERCOMPLETION >= 127");
    must(mode == 1, "hpx: the thread mode is 1");
    must(operations[1] == GEX_OP_FADD && LOAD == GEX_OP_GET && WAIT == 10004 && FLAGS == 0x2001,
         "upcxx, caffeine: enumerators and tables");
    must(lock.gasneti_word[0] == 0 && lock1.gasneti_word[9] == 0, "upcxx, osss: an initialised lock is zero");
    // bupc and caffeine embed these
    must(!strncmp(GASNET_CONFIG_STRING, "RELEASE=2025.8.0,SPEC=0.19,CONDUIT=SMP(SMP-", 43),
         "bupc, caffeine: GASNET_CONFIG_STRING");
    must(!strcmp(TEXT(GASNET_CONDUIT_NAME), "SMP") && !strcmp(GASNET_CONDUIT_NAME_STR, "SMP"),
         "caffeine: GASNET_CONDUIT_NAME");
    return failures != 0;
}

// Values, sizes and field orders that clients rely on (C and C++). Integer facts are checked by the compiler, pointer values when
// the program runs. Exits 0 when all hold.
#include <gasnet.h>

#include <gasnet_coll.h>
#include <gasnet_mk.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

#include <stdio.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if defined(__cplusplus)
#define MUST(condition) static_assert(condition, #condition)
#elif __STDC_VERSION__ >= 201112L
#define MUST(condition) _Static_assert(condition, #condition)
#else
#define MUST(condition) extern char PASTE(must_, __LINE__)[(condition) ? 1 : -1]
#endif

// -- Errors and small constants
MUST(GASNET_OK == 0);
MUST(GASNET_ERR_NOT_INIT == 10001);
MUST(GASNET_ERR_RESOURCE == 10002);
MUST(GASNET_ERR_BAD_ARG == 10003);
MUST(GASNET_ERR_NOT_READY == 10004);
MUST(GASNET_ERR_BARRIER_MISMATCH == 10005);
MUST(GEX_RANK_INVALID == 0xffffffffU);
MUST(GEX_AM_INDEX_BASE == 128);
MUST(GASNET_WAIT_SPIN == 0 && GASNET_WAIT_BLOCK == 1 && GASNET_WAIT_SPINBLOCK == 2);
MUST(GASNET_BARRIERFLAG_ANONYMOUS == 1 && GASNET_BARRIERFLAG_MISMATCH == 2 && GASNET_BARRIERFLAG_UNNAMED == 9);
MUST(GASNET_MAXEPS >= 1);
MUST(GASNET_PAGESIZE >= 4096 && (GASNET_PAGESIZE & (GASNET_PAGESIZE - 1)) == 0);
MUST(GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR == 19);
MUST(GASNET_SPEC_VERSION_MAJOR == 1 && GASNET_SPEC_VERSION_MINOR == 8);
MUST(GASNETT_SPEC_VERSION_MAJOR == 1 && GASNETT_SPEC_VERSION_MINOR == 20);
MUST(GASNET_RELEASE_VERSION_MAJOR == 2025 && GASNET_RELEASE_VERSION_MINOR == 8 && GASNET_RELEASE_VERSION_PATCH == 0);
MUST(GASNET_COLL_IN_NOSYNC == 1 && GASNET_COLL_LOCAL == 0x80);
MUST(GASNETT_MAX_THREADS >= 1 && GASNETI_MAX_THREADS >= 1);

// -- Preprocess-time constants
#if GEX_DT_I32 != 0x1 || GEX_DT_U32 != 0x2 || GEX_DT_I64 != 0x4 || GEX_DT_U64 != 0x8 || GEX_DT_FLT != 0x10 || \
    GEX_DT_DBL != 0x20 || GEX_DT_USER != 0x40
#error "GEX_DT_* values"
#endif
#if GEX_OP_AND != 0x1 || GEX_OP_OR != 0x2 || GEX_OP_XOR != 0x4 || GEX_OP_ADD != 0x8 || GEX_OP_SUB != 0x10 ||               \
    GEX_OP_MULT != 0x20 || GEX_OP_MIN != 0x40 || GEX_OP_MAX != 0x80 || GEX_OP_INC != 0x100 || GEX_OP_DEC != 0x200 ||       \
    GEX_OP_SET != 0x400 || GEX_OP_CAS != 0x800 || GEX_OP_FADD != 0x40000 || GEX_OP_SWAP != 0x2000000 ||                    \
    GEX_OP_FCAS != 0x4000000 || GEX_OP_GET != 0x8000000 || GEX_OP_USER != 0x40000000 || GEX_OP_USER_NC != 0x80000000
#error "GEX_OP_* values"
#endif
#if SIZEOF_GEX_RMA_VALUE_T != SIZEOF_GASNET_REGISTER_VALUE_T
#error "SIZEOF_GEX_RMA_VALUE_T"
#endif
#if GASNET_SUPPORTS_AM_CANCEL != 20240418L || GASNET_SUPPORTS_AM_COMMIT_V2 != 20240906L || !GASNET_SUPPORTS_TI_ENTRY || \
    !GASNET_SUPPORTS_TI_IS_REQ || !GASNET_SUPPORTS_TI_IS_LONG || !GASNET_SUPPORTS_TI_SRCRANK || !GASNET_SUPPORTS_TI_EP
#error "GASNET_SUPPORTS_*"
#endif
#if GASNET_ALIGNED_SEGMENTS
#error "segments are not aligned"
#endif

#define DISTINCT2(a, b) (((a) & (b)) == 0 && (a) != 0 && (b) != 0)
MUST((GEX_DT_I32 | GEX_DT_U32 | GEX_DT_I64 | GEX_DT_U64 | GEX_DT_FLT | GEX_DT_DBL | GEX_DT_USER) == 0x7f);
MUST(GEX_OP_TO_FETCHING(GEX_OP_ADD) == GEX_OP_FADD && GEX_OP_TO_FETCHING(GEX_OP_SUB) == GEX_OP_FSUB);
MUST(GEX_OP_TO_FETCHING(GEX_OP_MULT) == GEX_OP_FMULT && GEX_OP_TO_FETCHING(GEX_OP_MIN) == GEX_OP_FMIN);
MUST(GEX_OP_TO_FETCHING(GEX_OP_MAX) == GEX_OP_FMAX && GEX_OP_TO_FETCHING(GEX_OP_INC) == GEX_OP_FINC);
MUST(GEX_OP_TO_FETCHING(GEX_OP_DEC) == GEX_OP_FDEC && GEX_OP_TO_FETCHING(GEX_OP_AND) == GEX_OP_FAND);
MUST(GEX_OP_TO_FETCHING(GEX_OP_OR) == GEX_OP_FOR && GEX_OP_TO_FETCHING(GEX_OP_XOR) == GEX_OP_FXOR);
MUST(GEX_OP_TO_FETCHING(GEX_OP_SET) == GEX_OP_SWAP && GEX_OP_TO_FETCHING(GEX_OP_CAS) == GEX_OP_FCAS);
MUST(GEX_OP_TO_NONFETCHING(GEX_OP_SWAP) == GEX_OP_SET && GEX_OP_TO_NONFETCHING(GEX_OP_FCAS) == GEX_OP_CAS);
MUST(GEX_OP_TO_NONFETCHING(GEX_OP_FXOR) == GEX_OP_XOR && GEX_OP_CSWAP == GEX_OP_FCAS);

// -- Capabilities, categories, flags
MUST(GEX_EP_CAPABILITY_RMA == 1 && GEX_EP_CAPABILITY_AM == 2 && GEX_EP_CAPABILITY_VIS == 4 && GEX_EP_CAPABILITY_COLL == 8);
MUST(GEX_EP_CAPABILITY_AD == 0x10 && GEX_EP_CAPABILITY_ALL == 0x1f);
MUST(GEX_EC_AM == 2 && GEX_EC_LC == 2 && GEX_EC_RMW == 8 && GEX_EC_PUT == 3 && GEX_EC_GET == 4 && GEX_EC_ALL == 0xffffffffU);
MUST(GEX_FLAG_IMMEDIATE == 1 && GEX_FLAG_USES_GASNET1 == 1 && GEX_FLAG_RANK_IS_JOBRANK == 0x2000);
MUST(GEX_FLAG_AM_PREPARE_LEAST_CLIENT == 1 << 11 && GEX_FLAG_AM_PREPARE_LEAST_ALLOC == 1 << 12);
MUST(GEX_FLAG_AD_ACQ == 4 && GEX_FLAG_AD_REL == 2);
MUST(GEX_FLAG_AM_SHORT == 1 && GEX_FLAG_AM_MEDIUM == 2 && GEX_FLAG_AM_LONG == 4 && GEX_FLAG_AM_MEDLONG == 6);
MUST(GEX_FLAG_AM_REQUEST == 8 && GEX_FLAG_AM_REPLY == 0x10 && GEX_FLAG_AM_REQREP == 0x18);
MUST(GEX_FLAG_HINT_ACCEL_ALL == (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
MUST(DISTINCT2(GEX_FLAG_USES_GASNET1, GEX_FLAG_DEFER_THREADS));
MUST(DISTINCT2(GEX_THREAD_ROLE_RCV, GEX_THREAD_ROLE_SND));
MUST((GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG) == GEX_TI_ALL);
// All flags that may meet in one call have bits of their own: the sum of distinct bits is their union.
#define COMMUNICATION(op)                                                                                                       \
    GEX_FLAG_IMMEDIATE op GEX_FLAG_LC_COPY_YES op GEX_FLAG_LC_COPY_NO op GEX_FLAG_PEER_NEVER_SELF op GEX_FLAG_PEER_NEVER_NBRHD  \
        op GEX_FLAG_AD_MY_RANK op GEX_FLAG_AD_MY_NBRHD op GEX_FLAG_AD_FAVOR_MY_RANK op GEX_FLAG_AD_FAVOR_MY_NBRHD               \
            op GEX_FLAG_AD_FAVOR_REMOTE op GEX_FLAG_AD_ACQ op GEX_FLAG_AD_REL op GEX_FLAG_RANK_IS_JOBRANK                       \
                op GEX_FLAG_AM_PREPARE_LEAST_CLIENT op GEX_FLAG_AM_PREPARE_LEAST_ALLOC op GEX_FLAG_SELF_SEG_UNKNOWN             \
                    op GEX_FLAG_SELF_SEG_SOME op GEX_FLAG_SELF_SEG_BOUND op GEX_FLAG_SELF_SEG_OFFSET                            \
                        op GEX_FLAG_PEER_SEG_UNKNOWN op GEX_FLAG_PEER_SEG_SOME op GEX_FLAG_PEER_SEG_BOUND                       \
                            op GEX_FLAG_PEER_SEG_OFFSET op GEX_FLAG_ENABLE_LEAF_LC op GEX_FLAG_SCRATCH_SEG_OFFSET               \
                                op GEX_FLAG_TM_GLOBAL_SCRATCH op GEX_FLAG_TM_LOCAL_SCRATCH op GEX_FLAG_TM_SYMMETRIC_SCRATCH     \
                                    op GEX_FLAG_TM_NO_SCRATCH op GEX_FLAG_GLOBALLY_QUIESCED op GEX_FLAG_TM_SCRATCH_SIZE_MIN     \
                                        op GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED
#define PLUS_WIDE + (uint64_t)
MUST(((uint64_t)COMMUNICATION(PLUS_WIDE)) == (COMMUNICATION(|)));

// -- Sizes
MUST(sizeof(gex_Client_t) == sizeof(void *) && sizeof(gex_EP_t) == sizeof(void *) && sizeof(gex_TM_t) == sizeof(void *));
MUST(sizeof(gex_Segment_t) == sizeof(void *) && sizeof(gex_MK_t) == sizeof(void *) && sizeof(gex_AD_t) == sizeof(void *));
MUST(sizeof(gex_Addr_t) == sizeof(void *) && sizeof(gex_Event_t) == sizeof(void *) && sizeof(gex_Token_t) == sizeof(void *));
MUST(sizeof(gex_AM_SrcDesc_t) <= sizeof(uintptr_t));
MUST(sizeof(gex_Rank_t) == 4 && sizeof(gex_EP_Index_t) == 2 && sizeof(gex_AM_Arg_t) == 4 && sizeof(gex_AM_Index_t) == 1);
MUST(sizeof(gex_Flags_t) == 4 && sizeof(gex_DT_t) == 4 && sizeof(gex_OP_t) == 4 && sizeof(gex_EC_t) == 4);
MUST(sizeof(gex_TI_t) == 4 && sizeof(gex_EP_Capabilities_t) == 4 && sizeof(gex_RankInfo_t) == 4);
MUST(sizeof(gex_EP_Location_t) == 8 && sizeof(gex_RMA_Value_t) == SIZEOF_GEX_RMA_VALUE_T);
MUST(sizeof(gasnet_node_t) == 4 && sizeof(gasnet_handler_t) == 1 && sizeof(gasnet_handlerarg_t) == 4);
MUST(sizeof(gex_HSL_t) == 40 && sizeof(gasnet_hsl_t) == sizeof(gex_HSL_t));
MUST((gex_Rank_t)-1 > 0 && (gex_EP_Index_t)-1 > 0 && (gex_RMA_Value_t)-1 > 0 && (gex_AM_Arg_t)-1 < 0);
#if UINTPTR_MAX > 0xffffffffU
MUST(sizeof(gex_AM_Entry_t) == 40 && sizeof(gex_Token_Info_t) == 32 && sizeof(gex_Memvec_t) == 16);
MUST(sizeof(gasnet_handlerentry_t) == 16 && sizeof(gasnet_seginfo_t) == 16 && sizeof(gasnet_nodeinfo_t) == 24);
MUST(sizeof(gasnet_memvec_t) == 16 && sizeof(gex_MK_Create_args_t) == 40 && sizeof(gasnet_register_value_t) == 8);
#endif

// -- Field order: positional initialisers, and layouts that are copied
MUST(offsetof(gex_Memvec_t, gex_addr) == 0 && offsetof(gex_Memvec_t, gex_len) == sizeof(void *));
MUST(offsetof(gasnet_memvec_t, addr) == 0 && offsetof(gasnet_memvec_t, len) == sizeof(void *));
static void handler(gex_Token_t token, gex_AM_Arg_t argument);
static void handler(gex_Token_t token, gex_AM_Arg_t argument) {
    (void)token;
    (void)argument;
}
static int client_data;
static gex_AM_Entry_t entry = {200, (gex_AM_Fn_t)handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 1, &client_data, "name"};
static gasnet_handlerentry_t entry1 = {201, (gex_AM_Fn_t)handler};

// -- Constant expressions in the places where clients use them
enum { LOAD = GEX_OP_GET, WAIT = GASNET_ERR_NOT_READY, FLAGS = GEX_FLAG_IMMEDIATE | GEX_FLAG_RANK_IS_JOBRANK };
static const gex_OP_t operations[] = {GEX_OP_ADD, GEX_OP_FADD, GEX_OP_USER_NC};
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static gasnet_hsl_t lock1 = GASNET_HSL_INITIALIZER;
static const int mode =
#if defined(GASNET_PAR)
    GASNET_PAR;
#elif defined(GASNET_PARSYNC)
    GASNET_PARSYNC;
#else
    GASNET_SEQ;
#endif
MUST(GASNET_CONDUIT_SMP == 1 && GASNET_SMP_CONDUIT == 1 && GASNET_PSHM == 1);
#if GASNET_CONDUIT_UDP || GASNET_CONDUIT_IBV || GASNET_RCV_THREAD || GASNET_SND_THREAD
#error "defined, but not true"
#endif
#if GASNET_DEBUG
MUST(GASNET_TRACE == 1 && GASNET_STATS == 1 && GASNET_SRCLINES == 1);
#elif defined(GASNET_TRACE) || defined(GASNET_STATS) || defined(GASNET_SRCLINES)
#error "the release flavour leaves trace points to those who ask for them"
#endif
#if (defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) + defined(GASNET_SEGMENT_EVERYTHING)) != 1
#error "GASNET_SEGMENT_*"
#endif
#if (defined(GASNET_DEBUG) + defined(GASNET_NDEBUG)) != 1
#error "GASNET_DEBUG, GASNET_NDEBUG"
#endif

#ifdef __cplusplus
enum class atomic_operation : gex_OP_t { load = GEX_OP_GET, store = GEX_OP_SET, add = GEX_OP_ADD, last = GEX_OP_USER_NC };
static_assert(static_cast<gex_OP_t>(atomic_operation::add) == GEX_OP_ADD, "");
struct Base {
    virtual ~Base() {}
    virtual void act(gex_OP_t, gex_DT_t) {}
};
struct Derived : Base {
    static gex_HSL_t lock;
    void act(gex_DT_t, gex_OP_t) override {} // one type
};
gex_HSL_t Derived::lock = GEX_HSL_INITIALIZER;
static_assert(GEX_EVENT_INVALID == nullptr && GEX_SEGMENT_INVALID == nullptr && GEX_AM_SRCDESC_NO_OP == nullptr, "");
#endif

static int failures;
static void must(int condition, const char *text) {
    if (!condition) {
        printf("values: not so: %s\n", text);
        failures++;
    }
}
#define IS(value, number) must((uintptr_t)(value) == (number), #value " == " #number)

int main(void) {
    // Object pointers: to and from void * without a cast of the value.
    gex_Event_t event = (gex_Event_t)(void *)(uintptr_t)1;
    must(event == GEX_EVENT_NO_OP, "GEX_EVENT_NO_OP == (gex_Event_t)1");
    IS(GEX_EVENT_INVALID, 0);
    IS(GEX_EVENT_NO_OP, 1);
    IS(GEX_EVENT_NOW, 1);
    IS(GEX_EVENT_DEFER, 2);
    IS(GEX_EVENT_GROUP, 3);
    IS(GEX_CLIENT_INVALID, 0);
    IS(GEX_EP_INVALID, 0);
    IS(GEX_TM_INVALID, 0);
    IS(GEX_SEGMENT_INVALID, 0);
    IS(GEX_MK_INVALID, 0);
    IS(GEX_MK_HOST, 1);
    IS(GEX_AD_INVALID, 0);
    IS(GEX_AM_SRCDESC_NO_OP, 0);
    IS(GASNET_INVALID_HANDLE, 0);
    must(entry.gex_index == 200 && entry.gex_nargs == 1 && entry.gex_cdata == &client_data && entry.gex_name[0] == 'n',
         "gex_AM_Entry_t by position");
    must(entry1.index == 201 && entry1.fnptr == entry.gex_fnptr, "gasnet_handlerentry_t by position");
    must(GEX_VIS_MAX_PEERCOMPLETION >= 127, "GEX_VIS_MAX_PEERCOMPLETION >= 127");
    must(mode == 1, "the thread mode is 1");
    must(operations[1] == GEX_OP_FADD && LOAD == GEX_OP_GET && WAIT == 10004 && FLAGS == 0x2001, "enumerators");
    must(lock.gasneti_word[0] == 0 && lock1.gasneti_word[9] == 0, "an initialised lock is zero");
    must(GASNET_CONFIG_STRING[0] == 'R' && GASNET_CONDUIT_NAME_STR[0] == 'S', "strings");
    return failures != 0;
}

// gasnet_compat.h: names that no document lists, and that clients use all the same; beside each,
// which. New code does without them.
//
// Included by four other headers, each of which takes its part: gasnet_tools.h, gasnetex.h,
// gasnet_coll.h and gasnet_vis.h. "Tests" are the test programs of the reference. Only tested in
// #if, so left undefined: GASNETI_BUG1389_WORKAROUND (Legion passes it with =1),
// GASNET_IBV_MULTIRAIL and GASNETC_IBV_MAX_HCAS_CONFIGURE (Realm), GASNETC_IBV_RCV_THREAD
// (OpenSHMEM), GASNETI_ARCH_ALTIX (Berkeley UPC). docs/compat.md lists what is not supported.

#if GASNETI_COMPAT_PART == 1 // -- gasnet_tools.h ---

#define GASNETT_BEGIN_EXTERNC GASNETTI_BEGIN_C // Berkeley UPC
#define GASNETT_END_EXTERNC GASNETTI_END_C     // Berkeley UPC
#ifdef __cplusplus                             // tests
#define GASNETT_EXTERNC extern "C"
#else
#define GASNETT_EXTERNC extern
#endif

#ifndef _STRINGIFY // UPC++, also in lite mode
#define _STRINGIFY_HELPER(x) #x
#define _STRINGIFY(x) _STRINGIFY_HELPER(x)
#endif
#ifndef _CONCAT // UPC++, also in lite mode
#define _CONCAT_HELPER(a, b) a##b
#define _CONCAT(a, b) _CONCAT_HELPER(a, b)
#endif
#ifndef MIN // Caffeine, GASNet-examples, EPCC's benchmarks, UPC++ v0.1, Omni XMP
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#endif
#ifndef MAX // the same
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#endif
#ifndef PRIuSZ // Caffeine: the printf format of size_t
#define PRIuSZ "zu"
#endif

// UPC++ copies the expansion into a header of its own.
#define gasneti_builtin_unreachable() GASNETTI_UNREACHABLE()
#define gasneti_gethostname() gasnett_gethostname() // GASNet-examples

// Realm takes the addresses of these two, to keep compilers from warning about them.
GASNETT_INLINE(_gasneti_threadkey_init)
void _gasneti_threadkey_init(void) {}
GASNETT_FORMAT_PRINTF(_gasnett_trace_printf_noop, 1, 2,
                      static __inline__ void _gasnett_trace_printf_noop(const char *format, ...));
static __inline__ void _gasnett_trace_printf_noop(const char *format, ...) { (void)format; }

// Berkeley UPC: copies; and values of 1 to 8 bytes in memory of any alignment, from and to
// integers.
#define GASNETT_FAST_ALIGNED_MEMCPY(dest, src, nbytes) ((void)__builtin_memcpy(dest, src, nbytes))
#define GASNETT_FAST_UNALIGNED_MEMCPY(dest, src, nbytes) ((void)__builtin_memcpy(dest, src, nbytes))
#define GASNETT_VALUE_ASSIGN(dest, value, nbytes) gasnetti_value_store(dest, (uint64_t)(value), nbytes)
#define GASNETT_VALUE_RETURN(src, nbytes) return (uintptr_t)gasnetti_value_load(src, nbytes)

GASNETT_INLINE(gasnetti_value_store)
void gasnetti_value_store(void *dest, uint64_t value, size_t nbytes) {
#if PLATFORM_ARCH_BIG_ENDIAN
    __builtin_memcpy(dest, (const char *)&value + sizeof(value) - nbytes, nbytes);
#else
    __builtin_memcpy(dest, &value, nbytes);
#endif
}

GASNETT_INLINE(gasnetti_value_load)
uint64_t gasnetti_value_load(const void *src, size_t nbytes) {
    uint64_t value = 0;
#if PLATFORM_ARCH_BIG_ENDIAN
    __builtin_memcpy((char *)&value + sizeof(value) - nbytes, src, nbytes);
#else
    __builtin_memcpy(&value, src, nbytes);
#endif
    return value;
}

#elif GASNETI_COMPAT_PART == 2 // -- gasnetex.h ---

#ifdef __cplusplus
extern "C" {
#endif

// Chapel takes this as the most threads that it may create, and its tests expect the reference's
// number. No limit of the library: gex_System_QueryMaxThreads tells the truth.
#ifdef GASNET_SEQ
#define GASNETI_MAX_THREADS 1
#else
#define GASNETI_MAX_THREADS 256
#endif

// Chapel assigns a function before it attaches; the library calls it with base and size of the
// segment, unless NULL.
extern void (*gasnet_client_attach_hook)(void *, uintptr_t);

#define GASNET_BARRIERFLAG_UNNAMED 9 // Berkeley UPC, UPC++ v0.1: all processes pass ANONYMOUS
extern int gasnet_barrier(int id, int flags); // Berkeley UPC, UPC++ v0.1: notify and wait
// Tests: 0 and the name of the last barrier, which then goes to *id; not 0 if it had none.
extern int gasnet_barrier_result(int *id);
extern void gex_Coll_BarrierBlocking(gex_TM_t tm, gex_Flags_t flags); // tests

// OpenCoarrays. In the specification of GASNet-1; handlers never interrupt, so these do nothing.
extern void gasnet_hold_interrupts(void);
extern void gasnet_resume_interrupts(void);

extern int gasnet_try_syncnb_nopoll(gex_Event_t handle); // UPC++ v0.1: gasnet_try_syncnb without a poll

#define gasneti_mynode (gasnet_mynode()) // tests

// Tests. The names in a mask, joined by '|': written to buf, unless that is NULL. The bytes that
// this takes, NUL included.
extern size_t gasnett_format_dt(char *buf, gex_DT_t dt);
extern size_t gasnett_format_op(char *buf, gex_OP_t op);
extern size_t gasnett_format_ti(char *buf, gex_TI_t ti);
// Tests. The library tries itself, by sections with letters (NULL or "" for all): the number of
// failed checks. Collective over tm; uses both segments. The handlers must have been registered.
extern int gasnett_run_diagnostics(int iters, int threads, const char *sections, gex_TM_t tm, void *my_segment,
                                   gex_Rank_t peer, void *peer_segment, unsigned int seed);
extern void gasnett_diagnostic_gethandlers(gex_AM_Entry_t **table, int *count);

#ifdef __cplusplus
}
#endif

#elif GASNETI_COMPAT_PART == 3 // -- gasnet_coll.h: the collectives of GASNet-1, over all processes ---

// BCL (broadcast), Realm's GASNet-1 module (broadcast, gather, gather_all), Berkeley UPC
// (gather_all), UPC++ v0.1 (all).
// team is GASNET_TEAM_ALL; an image is a rank. IN_ALLSYNC and OUT_ALLSYNC put a barrier before and
// after; the others change nothing.
#ifdef __cplusplus
extern "C" {
#endif

typedef struct gasneti_coll_team_s *gasnet_team_handle_t;
typedef gex_Event_t gasnet_coll_handle_t;
typedef gex_Rank_t gasnet_image_t;

#define GASNET_TEAM_ALL ((gasnet_team_handle_t)(uintptr_t)1)
#define GASNET_COLL_INVALID_HANDLE GEX_EVENT_INVALID

#define GASNET_COLL_IN_NOSYNC 0x1
#define GASNET_COLL_IN_MYSYNC 0x2
#define GASNET_COLL_IN_ALLSYNC 0x4
#define GASNET_COLL_OUT_NOSYNC 0x8
#define GASNET_COLL_OUT_MYSYNC 0x10
#define GASNET_COLL_OUT_ALLSYNC 0x20
#define GASNET_COLL_SINGLE 0x40
#define GASNET_COLL_LOCAL 0x80
#define GASNET_COLL_SRC_IN_SEGMENT 0x100
#define GASNET_COLL_DST_IN_SEGMENT 0x200

#define GASNETI_COLL_GASNET1(type, form)                                                                              \
    extern type gasnet_coll_broadcast##form(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, void *src, \
                                            size_t nbytes, int flags);                                                \
    extern type gasnet_coll_scatter##form(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, void *src,   \
                                          size_t nbytes, int flags);                                                  \
    extern type gasnet_coll_gather##form(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, void *src,    \
                                         size_t nbytes, int flags);                                                   \
    extern type gasnet_coll_gather_all##form(gasnet_team_handle_t team, void *dst, void *src, size_t nbytes,          \
                                             int flags);                                                              \
    extern type gasnet_coll_exchange##form(gasnet_team_handle_t team, void *dst, void *src, size_t nbytes, int flags);
GASNETI_COLL_GASNET1(void, )
GASNETI_COLL_GASNET1(gasnet_coll_handle_t, _nb)
#undef GASNETI_COLL_GASNET1
extern void gasnet_coll_wait_sync(gasnet_coll_handle_t handle);
extern int gasnet_coll_try_sync(gasnet_coll_handle_t handle);
// Other names of gasnet_barrier_notify, _wait, _try and gasnet_barrier.
extern void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags);
extern int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags);
extern int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags);
extern int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags);
// Nothing is searched for, so there is nothing to write.
extern void gasnet_coll_dumpTuningState(char *filename, gasnet_team_handle_t team);
extern void gasnet_coll_dumpProfile(char *filename, gasnet_team_handle_t team);

#ifdef __cplusplus
}
#endif

#elif GASNETI_COMPAT_PART == 4 // -- gasnet_vis.h: scattered transfers of GASNet-1, between process numbers ---

// OpenCoarrays (putv, getv), gasnet-bench (gets). As their namesakes of GASNet-EX, except that
// count[0] is the length of a contiguous piece, count has stridelevels + 1 entries, and strides are
// not negative.
#ifdef __cplusplus
extern "C" {
#endif

#define GASNETI_VIS_GASNET1(type, form)                                                                           \
    extern type gasnet_putv##form(gasnet_node_t dstnode, size_t dstcount, gasnet_memvec_t const dstlist[],        \
                                  size_t srccount, gasnet_memvec_t const srclist[]);                              \
    extern type gasnet_getv##form(size_t dstcount, gasnet_memvec_t const dstlist[], gasnet_node_t srcnode,        \
                                  size_t srccount, gasnet_memvec_t const srclist[]);                              \
    extern type gasnet_puti##form(gasnet_node_t dstnode, size_t dstcount, void *const dstlist[], size_t dstlen,   \
                                  size_t srccount, void *const srclist[], size_t srclen);                         \
    extern type gasnet_geti##form(size_t dstcount, void *const dstlist[], size_t dstlen, gasnet_node_t srcnode,   \
                                  size_t srccount, void *const srclist[], size_t srclen);                         \
    extern type gasnet_puts##form(gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[], void *srcaddr, \
                                  const size_t srcstrides[], const size_t count[], size_t stridelevels);          \
    extern type gasnet_gets##form(void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode, void *srcaddr, \
                                  const size_t srcstrides[], const size_t count[], size_t stridelevels);
GASNETI_VIS_GASNET1(void, _bulk)
GASNETI_VIS_GASNET1(gex_Event_t, _nb_bulk)
GASNETI_VIS_GASNET1(void, _nbi_bulk)
#undef GASNETI_VIS_GASNET1

// Tests. Descriptions as text, for messages. buf has as many bytes as the function _bufsz says.
// reserved is NULL.
extern size_t gasnett_format_memveclist_bufsz(size_t count);
extern void gasnett_format_memveclist(char *buf, size_t count, gex_Memvec_t const *list);
extern size_t gasnett_format_addrlist_bufsz(size_t count);
extern void gasnett_format_addrlist(char *buf, size_t count, void *const *list, size_t len);
extern size_t gasnett_format_putsgets_bufsz(size_t stridelevels);
extern void gasnett_format_putsgets(char *buf, void *reserved, gex_TM_t tm, gex_Rank_t rank, void *dstaddr,
                                    const ptrdiff_t dststrides[], void *srcaddr, const ptrdiff_t srcstrides[],
                                    size_t elemsz, const size_t count[], size_t stridelevels);

#ifdef __cplusplus
}
#endif

#else
#error "gasnet_compat.h is not for clients: include gasnet_tools.h, gasnetex.h, gasnet_coll.h or gasnet_vis.h"
#endif
#undef GASNETI_COMPAT_PART

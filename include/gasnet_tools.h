/* libgasnet: GASNet tools, specification 1.20 (README-tools).
 *
 * Communication-free utilities: timers, memory barriers, atomics, locks, environment, backtraces,
 * system properties. Include it before any other header; a source that also uses GASNet includes
 * gasnetex.h (or gasnet.h) first.
 *
 * Thread mode. After gasnetex.h it follows from GASNET_SEQ/PARSYNC/PAR (several client threads
 * exist in PARSYNC too, so only SEQ is single-threaded). Alone, define at most one of
 *   GASNETT_THREAD_SAFE    several threads: link libgasnet_tools-par
 *   GASNETT_THREAD_SINGLE  one thread: link libgasnet_tools-seq (the default, unless _REENTRANT is
 *                          defined)
 *   GASNETT_LITE_MODE      no library at all: macros, barriers, atomics, locks and thread keys only
 * The two libraries hold the same code; what differs between the modes is in these headers.
 *
 * Fast operations are macros around inline functions. Each also exists as an exported function:
 * (gasnett_ticks_now)().
 */
#ifndef _INCLUDED_GASNET_TOOLS_H
#define _INCLUDED_GASNET_TOOLS_H

/* Strict ISO C hides what POSIX adds to pthread.h; this only has an effect before the first system
 * header. */
#if defined(__STRICT_ANSI__) && !defined(__cplusplus) && !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE) && \
    !defined(_POSIX_SOURCE) && !defined(_POSIX_C_SOURCE) && !defined(_XOPEN_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

/* Clients have come to rely on these through this header (GASNet-examples on unistd.h). */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "gasnet_config.h"
#include "gasnett_annotate.h"

#define GASNETI_COMPAT_PART 1
#include "gasnet_compat.h"

/* ---- thread mode ---- */

#if defined(GASNETT_THREAD_SAFE) + defined(GASNETT_THREAD_SINGLE) + defined(GASNETT_LITE_MODE) > 1
#error Define at most one of GASNETT_THREAD_SAFE, GASNETT_THREAD_SINGLE and GASNETT_LITE_MODE
#endif
#if defined(GASNETT_THREAD_SAFE)
#undef GASNETT_THREAD_SAFE
#define GASNETT_THREAD_SAFE 1
#elif defined(GASNETT_THREAD_SINGLE)
#undef GASNETT_THREAD_SINGLE
#define GASNETT_THREAD_SINGLE 1
#elif defined(GASNETT_LITE_MODE)
#elif defined(GASNET_PAR) || defined(GASNET_PARSYNC) || (defined(_REENTRANT) && !defined(GASNET_SEQ))
#define GASNETT_THREAD_SAFE 1
#else
#define GASNETT_THREAD_SINGLE 1
#endif

#if GASNETT_THREAD_SAFE
#define GASNETT_THREAD_MODEL PAR
#elif defined(GASNETT_LITE_MODE)
#define GASNETT_THREAD_MODEL LITE
#else
#define GASNETT_THREAD_MODEL SEQ
#endif

/* ---- versions and configuration ---- */

/* Headers installed with a debug library select the debug flavour by themselves. */
#if !defined(GASNET_DEBUG) && !defined(GASNET_NDEBUG) && GASNETI_CONFIGURED_DEBUG
#define GASNET_DEBUG 1
#elif defined(GASNET_DEBUG) && defined(GASNET_NDEBUG)
#error GASNET_DEBUG and GASNET_NDEBUG are both defined: keep one
#endif

#ifndef GASNETT_SPEC_VERSION_MAJOR
#define GASNETT_SPEC_VERSION_MAJOR 1
#define GASNETT_SPEC_VERSION_MINOR 20
#endif
#ifndef GASNETT_RELEASE_VERSION_MAJOR
#define GASNETT_RELEASE_VERSION_MAJOR GASNET_RELEASE_VERSION_MAJOR
#define GASNETT_RELEASE_VERSION_MINOR GASNET_RELEASE_VERSION_MINOR
#define GASNETT_RELEASE_VERSION_PATCH GASNET_RELEASE_VERSION_PATCH
#endif

#if GASNET_DEBUG
#define GASNETT_DEBUG_CONFIG debug
#else
#define GASNETT_DEBUG_CONFIG nodebug
#endif
#if PLATFORM_ARCH_64
#define GASNETT_PTR_CONFIG 64bit
#else
#define GASNETT_PTR_CONFIG 32bit
#endif
#define GASNETT_TIMER_CONFIG timers_native
#define GASNETT_MEMBAR_CONFIG membars_native
#define GASNETT_ATOMIC_CONFIG atomics_native
#define GASNETT_ATOMIC32_CONFIG atomic32_native
#define GASNETT_ATOMIC64_CONFIG atomic64_native
// clang-format off
#define GASNETT_CONFIG_STRING                                                                                          \
    "RELEASE=" PLATFORM_STRINGIFY(GASNETT_RELEASE_VERSION_MAJOR) "." PLATFORM_STRINGIFY(GASNETT_RELEASE_VERSION_MINOR) \
    "." PLATFORM_STRINGIFY(GASNETT_RELEASE_VERSION_PATCH) ",SPEC=" PLATFORM_STRINGIFY(GASNETT_SPEC_VERSION_MAJOR)      \
    "." PLATFORM_STRINGIFY(GASNETT_SPEC_VERSION_MINOR) ",PTR=" PLATFORM_STRINGIFY(GASNETT_PTR_CONFIG)                  \
    "," PLATFORM_STRINGIFY(GASNETT_DEBUG_CONFIG) "," PLATFORM_STRINGIFY(GASNETT_THREAD_MODEL)                          \
    "," PLATFORM_STRINGIFY(GASNETT_TIMER_CONFIG) "," PLATFORM_STRINGIFY(GASNETT_MEMBAR_CONFIG)                         \
    "," PLATFORM_STRINGIFY(GASNETT_ATOMIC_CONFIG) "," PLATFORM_STRINGIFY(GASNETT_ATOMIC32_CONFIG)                      \
    "," PLATFORM_STRINGIFY(GASNETT_ATOMIC64_CONFIG)
// clang-format on

/* ---- what the library exports ---- */

typedef uint64_t gasnett_tick_t;
#define GASNETT_TICK_MIN ((gasnett_tick_t)0)
#define GASNETT_TICK_MAX (~(gasnett_tick_t)0)

typedef void (*gasnett_sighandlerfn_t)(int);

typedef struct gasnett_backtrace_type_s {
    const char *name;   /* as in GASNET_BACKTRACE_TYPE */
    int (*fnp)(int fd); /* writes the calling thread's backtrace to fd; 0 on success */
    int threadsupport;  /* non-zero if it works in a program with several threads */
} gasnett_backtrace_type_t;

#ifndef GASNETT_LITE_MODE

GASNETTI_BEGIN_C

/* Timers and sleep */
extern gasnett_tick_t(gasnett_ticks_now)(void);
extern uint64_t gasnett_ticks_to_ns(gasnett_tick_t ticks);
extern uint64_t gasnett_ticks_to_us(gasnett_tick_t ticks);
extern double gasnett_tick_granularityus(void);
extern double gasnett_tick_overheadus(void);
extern uint64_t gasnett_gettimeofday_us(void);
extern int gasnett_nsleep(uint64_t ns_delay);

/* Environment */
extern char *gasnett_format_number(int64_t val, char *buf, size_t bufsz, int is_mem_size);
extern int64_t gasnett_parse_int(const char *str, uint64_t mem_size_multiplier);
extern void gasnett_setenv(const char *key, const char *value);
extern void gasnett_unsetenv(const char *key);
extern char *gasnett_getenv(const char *keyname);
extern char *gasnett_getenv_withdefault(const char *keyname, const char *defaultval);
extern int gasnett_getenv_yesno_withdefault(const char *keyname, int defaultval);
extern int64_t gasnett_getenv_int_withdefault(const char *keyname, int64_t defaultval, uint64_t mem_size_multiplier);
extern double gasnett_getenv_dbl_withdefault(const char *keyname, double defaultval);
extern int gasnett_verboseenv(void);
extern void gasnett_envint_display(const char *key, int64_t val, int is_dflt, int is_mem_size);
extern void gasnett_envstr_display(const char *key, const char *val, int is_dflt);
extern void gasnett_envdbl_display(const char *key, double val, int is_dflt);

/* Backtraces, debuggers, fatal errors */
extern void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagsymname);
extern void gasnett_freezeForDebuggerErr(void);
extern void gasnett_backtrace_init(const char *exename);
extern int gasnett_print_backtrace(int fd);
extern int (*gasnett_print_backtrace_ifenabled)(int fd);
extern gasnett_backtrace_type_t gasnett_backtrace_user; /* the client may define it */
extern char *gasnett_current_loc_str(const char *function, const char *file, int line);
GASNETT_FORMAT_PRINTF(gasnett_fatalerror, 1, 2, extern void(gasnett_fatalerror)(const char *msg, ...) GASNETT_NORETURN);
GASNETT_FORMAT_PRINTF(gasnett_fatalerror_nopos, 1, 2,
                      extern void gasnett_fatalerror_nopos(const char *msg, ...) GASNETT_NORETURN);
GASNETT_FORMAT_PRINTF(gasnett_fatalerror_at, 4, 5,
                      extern void gasnett_fatalerror_at(const char *function, const char *file, int line,
                                                        const char *msg, ...) GASNETT_NORETURN);
extern void gasnett_killmyprocess(int exitcode) GASNETT_NORETURN;
extern gasnett_sighandlerfn_t gasnett_reghandler(int sigtocatch, gasnett_sighandlerfn_t fp);
extern const char *gasnett_signame_fromval(int signum);

/* System properties */
extern const char *gasnett_gethostname(void);
extern const char *gasnett_exe_name(void);
extern int gasnett_cpu_count(void);
extern uint64_t gasnett_getPhysMemSz(int failureIsFatal);
extern int gasnett_isLittleEndian(void);
extern const char *gasnett_performance_warning_str(void);
extern const char *gasnett_release_version_str(void);
extern uint64_t gasnett_release_version(void);

/* Miscellaneous */
extern int gasnett_set_affinity(int rank);
extern void gasnett_sched_yield(void);
extern void gasnett_flush_streams(void);
extern void gasnett_close_streams(void);
extern void *gasnett_mmap(uintptr_t nbytes);
extern uint64_t gasnett_checksum(const void *p, int numbytes);
extern int gasnett_count0s_uint32_t(uint32_t x);
extern int gasnett_count0s_uint64_t(uint64_t x);
extern int gasnett_count0s_uintptr_t(uintptr_t x);
extern size_t gasnett_count0s(const void *p, size_t numbytes);
extern size_t gasnett_count0s_copy(void *GASNETT_RESTRICT dst, const void *GASNETT_RESTRICT src, size_t numbytes);
extern int gasnett_maximize_rlimits(void);
extern int gasnett_maximize_rlimit(int res, const char *lim_desc);

/* Debug malloc: blocks with guards. GASNET_DEBUGMALLOC says that the library allocates its own
 * memory there, too. */
typedef struct gasnett_heapstats_s {
    uint64_t allocated_bytes, freed_bytes, live_bytes, live_bytes_max;
    uint64_t allocated_objects, freed_objects, live_objects, live_objects_max;
    uint64_t overhead_bytes;
} gasnett_heapstats_t;
extern void *(gasnett_debug_malloc)(size_t size);
extern void *(gasnett_debug_calloc)(size_t count, size_t size);
extern void *(gasnett_debug_realloc)(void *ptr, size_t size);
extern void(gasnett_debug_free)(void *ptr);
extern char *(gasnett_debug_strdup)(const char *s);
extern char *(gasnett_debug_strndup)(const char *s, size_t n);
extern void(gasnett_debug_memcheck)(const void *ptr);
extern void(gasnett_debug_memcheck_one)(void);
extern void(gasnett_debug_memcheck_all)(void);
extern void gasnett_getheapstats(gasnett_heapstats_t *stats);
extern void *gasnett_debug_malloc_at(size_t size, const char *file, int line);
extern void *gasnett_debug_calloc_at(size_t count, size_t size, const char *file, int line);
extern void *gasnett_debug_realloc_at(void *ptr, size_t size, const char *file, int line);
extern void gasnett_debug_free_at(void *ptr, const char *file, int line);
extern char *gasnett_debug_strdup_at(const char *s, const char *file, int line);
extern char *gasnett_debug_strndup_at(const char *s, size_t n, const char *file, int line);
extern void gasnett_debug_memcheck_at(const void *ptr, const char *file, int line);
extern void gasnett_debug_memcheck_one_at(const char *file, int line);
extern void gasnett_debug_memcheck_all_at(const char *file, int line);

/* Not part of the interface: which clock the inline gasnett_ticks_now() reads (0 not chosen yet, 1
 * TSC, 2 system). */
extern int gasnetti_tick_source;

GASNETTI_END_C

#define GASNETT_SET_AFFINITY_SUPPORT 1

#if GASNET_DEBUG
#define GASNET_DEBUGMALLOC 1
#endif
#define gasnett_debug_malloc(size) gasnett_debug_malloc_at(size, __FILE__, __LINE__)
#define gasnett_debug_calloc(count, size) gasnett_debug_calloc_at(count, size, __FILE__, __LINE__)
#define gasnett_debug_realloc(ptr, size) gasnett_debug_realloc_at(ptr, size, __FILE__, __LINE__)
#define gasnett_debug_free(ptr) gasnett_debug_free_at(ptr, __FILE__, __LINE__)
#define gasnett_debug_strdup(s) gasnett_debug_strdup_at(s, __FILE__, __LINE__)
#define gasnett_debug_strndup(s, n) gasnett_debug_strndup_at(s, n, __FILE__, __LINE__)
#define gasnett_debug_memcheck(ptr) gasnett_debug_memcheck_at(ptr, __FILE__, __LINE__)
#define gasnett_debug_memcheck_one() gasnett_debug_memcheck_one_at(__FILE__, __LINE__)
#define gasnett_debug_memcheck_all() gasnett_debug_memcheck_all_at(__FILE__, __LINE__)

#define gasnett_fatalerror(...) gasnett_fatalerror_at(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__, __VA_ARGS__)
#define gasnett_current_loc gasnett_current_loc_str(GASNETT_CURRENT_FUNCTION, __FILE__, __LINE__)

#if GASNETTI_GNU_SYNTAX && PLATFORM_ARCH_X86_64
GASNETT_INLINE(gasnetti_ticks_now)
gasnett_tick_t gasnetti_ticks_now(void) {
    return GASNETT_PREDICT_TRUE(gasnetti_tick_source == 1) ? (gasnett_tick_t)__builtin_ia32_rdtsc()
                                                           : (gasnett_ticks_now)();
}
#define gasnett_ticks_now() gasnetti_ticks_now()
#endif

/* An undefined symbol of this name says which build of the library the program should be linked
 * with. */
#if !defined(_GASNETEX_H) && !defined(GASNETTI_NO_LINK_CHECK)
GASNETTI_BEGIN_C
#if GASNET_DEBUG
extern const int gasnett_needs_debug_library_abi0;
static const int *const gasnetti_link_check GASNETT_USED = &gasnett_needs_debug_library_abi0;
#else
extern const int gasnett_needs_release_library_abi0;
static const int *const gasnetti_link_check GASNETT_USED = &gasnett_needs_release_library_abi0;
#endif
GASNETTI_END_C
#endif

#endif /* !GASNETT_LITE_MODE */

#include "gasnett_atomic.h"
#include "gasnett_sync.h"

/* ---- assertions to the compiler ---- */

#if GASNET_DEBUG && !defined(GASNETT_LITE_MODE)
#define gasnett_unreachable() gasnett_fatalerror("reached code that was declared unreachable")
#define gasnett_assume(cond) ((cond) ? (void)0 : gasnett_fatalerror("assumption failed: %s", #cond))
#else
#define gasnett_unreachable() GASNETTI_UNREACHABLE()
#if GASNETT_USE_BUILTIN_ASSUME
#define gasnett_assume(cond) __builtin_assume(cond)
#elif GASNETT_USE_ASSUME
#define gasnett_assume(cond) __assume(cond)
#else
#define gasnett_assume(cond) ((cond) ? (void)0 : GASNETTI_UNREACHABLE())
#endif
#endif

/* ---- tracing and statistics ---- They are the library's, so they work in sources that include
 * gasnetex.h before this header; elsewhere the macros only check their arguments. Every build has
 * them; GASNET_TRACEFILE and GASNET_STATSFILE switch them on at run time. docs/tracing.md. */

#if defined(_GASNETEX_H) && !defined(GASNETT_LITE_MODE)
#define GASNETT_TRACE_ENABLED gasnetti_trace_takes_notes(0, 0)
#define GASNETT_TRACE_PRINTF gasnetti_trace_printf
#define GASNETT_TRACE_PRINTF_FORCE gasnetti_trace_printf_force
#define GASNETT_TRACE_GETMASK() gasnetti_trace_mask(0)
#define GASNETT_TRACE_SETMASK(mask) gasnetti_trace_set_mask(0, mask)
#define GASNETT_TRACE_GET_TRACELOCAL() gasnetti_trace_local()
#define GASNETT_TRACE_SET_TRACELOCAL(newval) gasnetti_trace_set_local(newval)
/* The library keeps the pointer to the file's name: pass a constant. */
#define GASNETT_TRACE_SETSOURCELINE(file, line) gasnetti_trace_set_source(file, (unsigned int)(line))
#define GASNETT_TRACE_GETSOURCELINE(pfile, pline) gasnetti_trace_source(pfile, pline)
#define GASNETT_TRACE_FREEZESOURCELINE() gasnetti_trace_freeze_source(1)
#define GASNETT_TRACE_UNFREEZESOURCELINE() gasnetti_trace_freeze_source(0)
#define GASNETT_STATS_PRINTF gasnetti_stats_printf
#define GASNETT_STATS_PRINTF_FORCE gasnetti_stats_printf_force
#define GASNETT_STATS_GETMASK() gasnetti_trace_mask(1)
#define GASNETT_STATS_SETMASK(mask) gasnetti_trace_set_mask(1, mask)
#define GASNETT_STATS_DUMP(reset) gasnetti_trace_dump((reset) ? 1 : 0)
#else
#define GASNETT_TRACE_ENABLED 0
#define GASNETT_TRACE_PRINTF _gasnett_trace_printf_noop
#define GASNETT_TRACE_PRINTF_FORCE _gasnett_trace_printf_noop
#define GASNETT_TRACE_GETMASK() ""
#define GASNETT_TRACE_SETMASK(mask) ((void)(mask))
#define GASNETT_TRACE_GET_TRACELOCAL() (0)
#define GASNETT_TRACE_SET_TRACELOCAL(newval) ((void)(newval))
#define GASNETT_TRACE_SETSOURCELINE(file, line) ((void)(file), (void)(line))
#define GASNETT_TRACE_GETSOURCELINE(pfile, pline) ((void)(*(pfile) = 0), (void)(*(pline) = 0))
#define GASNETT_TRACE_FREEZESOURCELINE() ((void)0)
#define GASNETT_TRACE_UNFREEZESOURCELINE() ((void)0)
#define GASNETT_STATS_PRINTF _gasnett_trace_printf_noop
#define GASNETT_STATS_PRINTF_FORCE _gasnett_trace_printf_noop
#define GASNETT_STATS_GETMASK() ""
#define GASNETT_STATS_SETMASK(mask) ((void)(mask))
#define GASNETT_STATS_DUMP(reset) ((void)(reset))
#endif
#define GASNETT_STATS_INIT(callbackfn) ((void)(callbackfn))

#endif /* _INCLUDED_GASNET_TOOLS_H */

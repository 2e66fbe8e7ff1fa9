// gasnetex_build.h: which library this translation unit is compiled for, the checks that it is
// linked with that one, and the identity strings that every object carries. Included by gasnetex.h
// only.
#ifndef GASNETEX_BUILD_H
#define GASNETEX_BUILD_H

#include <stdint.h>

#include "gasnet_config.h"

// -- Conduit: its directory is on the include path, or -DGASNET_CONDUIT_… names it; neither means
// the universal library ---------------------------------------------------------------------------

#if defined(__has_include)
#if __has_include(<gasnet_core_fwd.h>)
#include <gasnet_core_fwd.h>
#define GASNETI_CONDUIT_FOUND 1
#endif
#endif
#include "gasnetex_conduits.h"
#ifndef GASNETI_CONDUIT_TOKEN
#define GASNETI_CONDUIT_TOKEN any
#define GASNETI_CONDUIT_ANY 1
#define GASNET_CONDUIT_ANY 1
#define GASNET_CONDUIT_NAME ANY
#define GASNET_CONDUIT_NAME_STR "ANY"
#define GASNET_CORE_NAME ANY
#define GASNET_CORE_NAME_STR "ANY"
#define GASNET_CORE_VERSION GASNETI_LIBRARY_VERSION
#define GASNET_CORE_VERSION_STR GASNETI_LIBRARY_VERSION_STR
#define GASNET_EXTENDED_NAME ANY
#define GASNET_EXTENDED_NAME_STR "ANY"
#define GASNET_EXTENDED_VERSION GASNETI_LIBRARY_VERSION
#define GASNET_EXTENDED_VERSION_STR GASNETI_LIBRARY_VERSION_STR
#define GASNET_MAXEPS 64
#endif
#ifdef GASNETI_CONDUITS_CONFLICT
#error \
    "the GASNET_CONDUIT_... on the command line is another conduit than the ...-conduit directory on the include path"
#endif

// -- Thread mode: exactly one, and its value is 1. The universal library serves all;
// PAR is right for every client -------------------------------------------------------------------

#if defined(GASNETI_CONDUIT_ANY) && !defined(GASNET_SEQ) && !defined(GASNET_PARSYNC) && !defined(GASNET_PAR)
#define GASNET_PAR 1
#endif
#if (defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR)) != 1
#error "define exactly one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR before including a GASNet header"
#endif

// With the environment variable GASNET_RCV_THREAD a thread of the library runs handlers. smp has no
// such thread.
#if defined(GASNET_PAR) && !defined(GASNETI_CONDUIT_SMP) && !defined(GASNET_CONDUIT_SMP)
#define GASNET_RCV_THREAD 1
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 1
#else
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 0
#endif
#if defined(GASNET_SEQ)
#undef GASNET_SEQ
#define GASNET_SEQ 1
#define GASNETI_MODE_TOKEN seq
#define GASNETI_MODE_STR "SEQ"
#define GASNETI_MODE_NUMBER 0
#elif defined(GASNET_PARSYNC)
#undef GASNET_PARSYNC
#define GASNET_PARSYNC 1
#define GASNETI_MODE_TOKEN parsync
#define GASNETI_MODE_STR "PARSYNC"
#define GASNETI_MODE_NUMBER 1
#else
#undef GASNET_PAR
#define GASNET_PAR 1
#define GASNETI_MODE_TOKEN par
#define GASNETI_MODE_STR "PAR"
#define GASNETI_MODE_NUMBER 2
#endif

// -- Flavour: GASNET_DEBUG or GASNET_NDEBUG, and the segment configuration ------------------------

#if defined(GASNET_DEBUG) && defined(GASNET_NDEBUG)
#error "GASNET_DEBUG and GASNET_NDEBUG are both defined: keep one"
#endif
#if defined(GASNET_DEBUG) || (GASNETI_CONFIGURED_DEBUG && !defined(GASNET_NDEBUG))
#undef GASNET_DEBUG
#define GASNET_DEBUG 1
#define GASNETI_FLAVOUR_TOKEN debug
#define GASNETI_DEBUG_STR "debug"
#define GASNETI_DEBUGMALLOC_STR "debugmalloc"
#else
#undef GASNET_NDEBUG
#define GASNET_NDEBUG 1
#define GASNETI_FLAVOUR_TOKEN release
#define GASNETI_DEBUG_STR "nodebug"
#define GASNETI_DEBUGMALLOC_STR "nodebugmalloc"
#endif

#if (defined(GASNET_SEGMENT_FAST) + defined(GASNET_SEGMENT_LARGE) + defined(GASNET_SEGMENT_EVERYTHING)) > 1
#error "define at most one of GASNET_SEGMENT_FAST, GASNET_SEGMENT_LARGE and GASNET_SEGMENT_EVERYTHING"
#endif
#if !defined(GASNET_SEGMENT_FAST) && !defined(GASNET_SEGMENT_LARGE) && !defined(GASNET_SEGMENT_EVERYTHING)
#if defined(GASNETI_CONFIGURED_SEGMENT_EVERYTHING)
#define GASNET_SEGMENT_EVERYTHING 1
#elif defined(GASNETI_CONFIGURED_SEGMENT_LARGE)
#define GASNET_SEGMENT_LARGE 1
#else
#define GASNET_SEGMENT_FAST 1
#endif
#endif
#if defined(GASNET_SEGMENT_EVERYTHING)
#undef GASNET_SEGMENT_EVERYTHING
#define GASNET_SEGMENT_EVERYTHING 1
#define GASNETI_SEGMENT_STR "EVERYTHING"
#define GASNETI_SEGMENT_NUMBER 2
#define GASNETI_SEGMENT_TOKEN __everything
#elif defined(GASNET_SEGMENT_LARGE)
#undef GASNET_SEGMENT_LARGE
#define GASNET_SEGMENT_LARGE 1
#define GASNETI_SEGMENT_STR "LARGE"
#define GASNETI_SEGMENT_NUMBER 1
#define GASNETI_SEGMENT_TOKEN __large
#else
#undef GASNET_SEGMENT_FAST
#define GASNET_SEGMENT_FAST 1
#define GASNETI_SEGMENT_STR "FAST"
#define GASNETI_SEGMENT_NUMBER 0
#define GASNETI_SEGMENT_TOKEN
#endif

#define GASNET_PSHM 1
#define GASNET_ALIGNED_SEGMENTS 0

// -- Versions and the configuration string --------------------------------------------------------

#define GEX_SPEC_VERSION_MAJOR 0
#define GEX_SPEC_VERSION_MINOR 19
#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GASNET_VERSION 1

#define GASNETI_PASTE9_(a, b, c, d, e, f, g, h, i) a##b##c##d##e##f##g##h##i
#define GASNETI_PASTE9(a, b, c, d, e, f, g, h, i) GASNETI_PASTE9_(a, b, c, d, e, f, g, h, i)
#define GASNETI_STR_(x) #x
#define GASNETI_STR(x) GASNETI_STR_(x)

#if UINTPTR_MAX > 0xffffffffU
#define GASNETI_PTR_STR "64bit"
#else
#define GASNETI_PTR_STR "32bit"
#endif

// Tracing and statistics are in every library. These identifiers make clients compile trace points
// of their own, which cost something also when nothing is traced: so the debug flavour defines
// them, and in the release flavour -DGASNET_TRACE=1 and the like do.
#ifdef GASNET_DEBUG
#ifndef GASNET_TRACE
#define GASNET_TRACE 1
#endif
#ifndef GASNET_STATS
#define GASNET_STATS 1
#endif
#ifndef GASNET_SRCLINES
#define GASNET_SRCLINES 1
#endif
#endif
#if GASNET_TRACE
#define GASNETI_TRACE_STR "trace" GASNETI_STATS_STR
#else
#define GASNETI_TRACE_STR "notrace" GASNETI_STATS_STR
#endif
#if GASNET_STATS
#define GASNETI_STATS_STR ",stats"
#else
#define GASNETI_STATS_STR ",nostats"
#endif
#if GASNET_SRCLINES
#define GASNETI_SRCLINES_STR "srclines"
#else
#define GASNETI_SRCLINES_STR "nosrclines"
#endif

#define GASNET_CONFIG_STRING                                                                                  \
    "RELEASE=" GASNETI_RELEASE_VERSION ",SPEC=0.19,CONDUIT=" GASNET_CONDUIT_NAME_STR "(" GASNET_CORE_NAME_STR \
    "-" GASNET_CORE_VERSION_STR "/" GASNET_EXTENDED_NAME_STR "-" GASNET_EXTENDED_VERSION_STR                  \
    "),THREADMODEL=" GASNETI_MODE_STR ",SEGMENT=" GASNETI_SEGMENT_STR ",PTR=" GASNETI_PTR_STR                 \
    ",CACHE_LINE_BYTES=" GASNETI_CACHE_LINE_STR ",noalign,pshm," GASNETI_DEBUG_STR "," GASNETI_TRACE_STR      \
    "," GASNETI_DEBUGMALLOC_STR "," GASNETI_SRCLINES_STR                                                      \
    ",timers_native,membars_native,atomics_native,atomic32_native,atomic64_native,"                           \
    "notiopt"

// -- Checks ---------------------------------------------------------------------------------------

// What a client was compiled for; the library compares it with itself. Part of the ABI: fields are
// only added at the end.
struct gasneti_build_info {
    uint32_t gasneti_size;    // bytes of this structure as the client knows it
    uint32_t gasneti_abi;     // GASNETI_ABI
    uint32_t gasneti_mode;    // 0 SEQ, 1 PARSYNC, 2 PAR
    uint32_t gasneti_debug;   // 0 release, 1 debug
    char gasneti_conduit[16]; // "smp"; "any" for the universal library
    char gasneti_release[16]; // "2025.8.0"
    char gasneti_segment[16]; // "FAST"
    uint32_t gasneti_pointer_bytes;
    uint32_t gasneti_hsl_bytes;
    uint32_t gasneti_am_entry_bytes;
    uint32_t gasneti_token_info_bytes;
};

// The universal library serves all thread modes, so its check names none.
#if defined(GASNETI_CONDUIT_ANY)
#define GASNETI_LINK_MODE_TOKEN any
#else
#define GASNETI_LINK_MODE_TOKEN GASNETI_MODE_TOKEN
#endif

// An undefined reference to this name means: the program is linked with a libgasnet for another
// conduit, thread mode, flavour, segment configuration or ABI than it was compiled for.
#define GASNETI_LINK_CHECK                                                                                    \
    GASNETI_PASTE9(gasneti_link_check__conduit_, GASNETI_CONDUIT_TOKEN, __mode_, GASNETI_LINK_MODE_TOKEN, __, \
                   GASNETI_FLAVOUR_TOKEN, GASNETI_SEGMENT_TOKEN, __abi_, GASNETI_ABI)

#ifdef __cplusplus
extern "C" {
#endif
extern int GASNETI_LINK_CHECK(void);
#ifdef __cplusplus
}
#endif

#if defined(__has_attribute)
#if __has_attribute(__retain__)
#define GASNETI_KEEP __attribute__((__used__, __retain__))
#endif
#endif
#ifndef GASNETI_KEEP
#define GASNETI_KEEP __attribute__((__used__))
#endif

// The linker keeps one section of such a name: tools that read identities (UPC++'s upcxx-run)
// expect each of them once in a program.
#ifdef __ELF__
#define GASNETI_ONCE(name) __attribute__((__section__(".gnu.linkonce.r.gasneti_ident_" #name)))
#else
#define GASNETI_ONCE(name)
#endif

#ifndef GASNETI_BUILDING_LIBRARY
static int (*const gasneti_link_check_reference)(void) GASNETI_KEEP = GASNETI_LINK_CHECK;
#define GASNETI_IDENT(name, text) \
    static const char gasneti_ident_##name[] GASNETI_KEEP GASNETI_ONCE(name) = "$GASNet" #name ": " text " $";
GASNETI_IDENT(ConduitName, GASNET_CONDUIT_NAME_STR)
GASNETI_IDENT(Config, "(<link>) " GASNET_CONFIG_STRING)
GASNETI_IDENT(ThreadModel, "GASNET_" GASNETI_MODE_STR)
GASNETI_IDENT(Segment, "GASNET_SEGMENT_" GASNETI_SEGMENT_STR)
GASNETI_IDENT(EXAPIVersion, "0.19")
GASNETI_IDENT(APIVersion, "1")
GASNETI_IDENT(BuildId, GASNETI_BUILD_ID)
#endif

#endif

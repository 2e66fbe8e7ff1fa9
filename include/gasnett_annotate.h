/* libgasnet tools: compiler annotations, identification strings and properties of the system. No
 * types, no functions, no library.
 *
 * README-tools of the specification, "Compiler annotations", "Macro argument evaluation" and
 * "Feature control": a client may define any GASNETT_USE_* before the first inclusion. The
 * annotations expand to self-contained text, because some clients copy that text into headers of
 * their own.
 */
#ifndef _INCLUDED_GASNETT_ANNOTATE_H
#define _INCLUDED_GASNETT_ANNOTATE_H

#include "gasnet_portable_platform.h"

#if defined(__GNUC__) || defined(__clang__)
#define GASNETTI_GNU_SYNTAX 1
#else
#define GASNETTI_GNU_SYNTAX 0
#endif

#ifndef GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE
#define GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_NOINLINE
#define GASNETT_USE_GCC_ATTRIBUTE_NOINLINE GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_MALLOC
#define GASNETT_USE_GCC_ATTRIBUTE_MALLOC GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT
#define GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_USED
#define GASNETT_USE_GCC_ATTRIBUTE_USED GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS
#define GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_NORETURN
#define GASNETT_USE_GCC_ATTRIBUTE_NORETURN GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_PURE
#define GASNETT_USE_GCC_ATTRIBUTE_PURE GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_CONST
#define GASNETT_USE_GCC_ATTRIBUTE_CONST GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_HOT
#define GASNETT_USE_GCC_ATTRIBUTE_HOT GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_COLD
#define GASNETT_USE_GCC_ATTRIBUTE_COLD GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED
#define GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR_ARG
#define GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR_ARG GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_BUILTIN_CONSTANT_P
#define GASNETT_USE_BUILTIN_CONSTANT_P GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_BUILTIN_PREFETCH
#define GASNETT_USE_BUILTIN_PREFETCH GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_BUILTIN_EXPECT
#define GASNETT_USE_BUILTIN_EXPECT GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_BUILTIN_UNREACHABLE
#define GASNETT_USE_BUILTIN_UNREACHABLE GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_BUILTIN_ASSUME
#define GASNETT_USE_BUILTIN_ASSUME 0
#endif
#ifndef GASNETT_USE_ASSUME
#define GASNETT_USE_ASSUME 0
#endif
#ifndef GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC
#define GASNETT_USE_PRAGMA_GCC_DIAGNOSTIC GASNETTI_GNU_SYNTAX
#endif
#ifndef GASNETT_USE_CTYPE_WRAPPERS
#define GASNETT_USE_CTYPE_WRAPPERS 0
#endif
#ifndef GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH
#if defined(__has_attribute)
#if __has_attribute(__fallthrough__)
#define GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH 1
#else
#define GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH 0
#endif
#else
#define GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH 0
#endif
#endif
#ifndef GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH
#define GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH 0
#endif
#ifndef GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH
#define GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH 0
#endif

/* ---- linkage ---- */

#ifdef __cplusplus
#define GASNETTI_BEGIN_C extern "C" {
#define GASNETTI_END_C }
#else
#define GASNETTI_BEGIN_C
#define GASNETTI_END_C
#endif

/* ---- annotations of functions ---- */

#if GASNETT_USE_GCC_ATTRIBUTE_ALWAYSINLINE
#define GASNETT_INLINE(fnname) static __inline__ __attribute__((__always_inline__))
#elif defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define GASNETT_INLINE(fnname) static inline
#else
#define GASNETT_INLINE(fnname) static
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_NOINLINE
#define GASNETT_NEVER_INLINE(fnname, ...) __attribute__((__noinline__)) __VA_ARGS__
#else
#define GASNETT_NEVER_INLINE(fnname, ...) __VA_ARGS__
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_NORETURN
#define GASNETT_NORETURN __attribute__((__noreturn__))
#else
#define GASNETT_NORETURN
#endif
#define GASNETT_NORETURNP(fnname)

#if GASNETT_USE_GCC_ATTRIBUTE_MALLOC
#define GASNETT_MALLOC __attribute__((__malloc__))
#else
#define GASNETT_MALLOC
#endif
#define GASNETT_MALLOCP(fnname)

#if GASNETT_USE_GCC_ATTRIBUTE_PURE
#define GASNETT_PURE __attribute__((__pure__))
#else
#define GASNETT_PURE
#endif
#define GASNETT_PUREP(fnname)

#if GASNETT_USE_GCC_ATTRIBUTE_CONST
#define GASNETT_CONST __attribute__((__const__))
#else
#define GASNETT_CONST
#endif
#define GASNETT_CONSTP(fnname)

#if GASNETT_USE_GCC_ATTRIBUTE_HOT
#define GASNETT_HOT __attribute__((__hot__))
#else
#define GASNETT_HOT
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_COLD
#define GASNETT_COLD __attribute__((__cold__))
#else
#define GASNETT_COLD
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_DEPRECATED
#define GASNETT_DEPRECATED __attribute__((__deprecated__))
#else
#define GASNETT_DEPRECATED
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_WARNUNUSEDRESULT
#define GASNETT_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))
#else
#define GASNETT_WARN_UNUSED_RESULT
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_USED
#define GASNETT_USED __attribute__((__used__))
#else
#define GASNETT_USED
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_FORMAT
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, ...) \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) __VA_ARGS__
#else
#define GASNETT_FORMAT_PRINTF(fnname, fmtarg, firstvararg, ...) __VA_ARGS__
#endif
#if GASNETT_USE_GCC_ATTRIBUTE_FORMAT_FUNCPTR
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, ...) \
    __attribute__((__format__(__printf__, fmtarg, firstvararg))) __VA_ARGS__
#else
#define GASNETT_FORMAT_PRINTF_FUNCPTR(fnname, fmtarg, firstvararg, ...) __VA_ARGS__
#endif

#if GASNETT_USE_GCC_ATTRIBUTE_MAYALIAS
#define GASNETTI_MAY_ALIAS __attribute__((__may_alias__))
#else
#define GASNETTI_MAY_ALIAS
#endif

/* ---- restrict ---- */

#ifdef GASNETT_USE_RESTRICT
#define GASNETT_RESTRICT GASNETT_USE_RESTRICT
#elif defined(GASNETT_USE_RESTRICT_ON_TYPEDEFS)
#error GASNETT_USE_RESTRICT_ON_TYPEDEFS needs GASNETT_USE_RESTRICT
#elif GASNETTI_GNU_SYNTAX
#define GASNETT_RESTRICT __restrict__
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L
#define GASNETT_RESTRICT restrict
#else
#define GASNETT_RESTRICT
#endif

/* ---- annotations of expressions and statements ---- */

#if GASNETT_USE_BUILTIN_EXPECT
#define GASNETT_PREDICT_TRUE(expr) __builtin_expect(!!(expr), 1)
#define GASNETT_PREDICT_FALSE(expr) __builtin_expect(!!(expr), 0)
#else
#define GASNETT_PREDICT_TRUE(expr) (expr)
#define GASNETT_PREDICT_FALSE(expr) (expr)
#endif

#ifndef if_pf
#define if_pf(cond) if (GASNETT_PREDICT_FALSE(cond))
#endif
#ifndef if_pt
#define if_pt(cond) if (GASNETT_PREDICT_TRUE(cond))
#endif

#if GASNETT_USE_BUILTIN_CONSTANT_P
#define gasnett_constant_p(expr) __builtin_constant_p(expr)
#else
#define gasnett_constant_p(expr) 0
#endif

#if GASNETT_USE_BUILTIN_UNREACHABLE
#define GASNETTI_UNREACHABLE() __builtin_unreachable()
#else
#define GASNETTI_UNREACHABLE() ((void)0)
#endif

#if GASNETT_USE_CXX11_ATTRIBUTE_FALLTHROUGH && defined(__cplusplus)
#define GASNETT_FALLTHROUGH [[fallthrough]];
#elif GASNETT_USE_CXX11_ATTRIBUTE_CLANG__FALLTHROUGH && defined(__cplusplus)
#define GASNETT_FALLTHROUGH [[clang::fallthrough]];
#elif GASNETT_USE_GCC_ATTRIBUTE_FALLTHROUGH
#define GASNETT_FALLTHROUGH __attribute__((__fallthrough__));
#else
#define GASNETT_FALLTHROUGH
#endif

#if defined(__cplusplus) || GASNETTI_GNU_SYNTAX || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define GASNETT_CURRENT_FUNCTION __func__
#else
#define GASNETT_CURRENT_FUNCTION ""
#endif

/* Orders the compiler, not the processor. */
#if GASNETTI_GNU_SYNTAX
#define gasnett_compiler_fence() __asm__ __volatile__("" : : : "memory")
#else
#define gasnett_compiler_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* One polite turn of a spinning loop, and a compiler fence. */
#if GASNETTI_GNU_SYNTAX && (PLATFORM_ARCH_X86_64 || PLATFORM_ARCH_X86)
#define gasnett_spinloop_hint() __asm__ __volatile__("pause" : : : "memory")
#elif GASNETTI_GNU_SYNTAX && PLATFORM_ARCH_AARCH64
#define gasnett_spinloop_hint() __asm__ __volatile__("yield" : : : "memory")
#elif GASNETTI_GNU_SYNTAX && PLATFORM_ARCH_POWERPC
#define gasnett_spinloop_hint() __asm__ __volatile__("or 27,27,27" : : : "memory")
#else
#define gasnett_spinloop_hint() gasnett_compiler_fence()
#endif

/* Each argument is evaluated exactly once, from left to right, and its value dropped. */
#define GASNETT_UNUSED_ARGS1(a) ((void)(a))
#define GASNETT_UNUSED_ARGS2(a, b) ((void)(a), (void)(b))
#define GASNETT_UNUSED_ARGS3(a, b, c) ((void)(a), (void)(b), (void)(c))
#define GASNETT_UNUSED_ARGS4(a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define GASNETT_UNUSED_ARGS5(a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#define GASNETT_UNUSED_ARGS6(a, b, c, d, e, f) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f))
#define GASNETT_UNUSED_ARGS7(a, b, c, d, e, f, g) \
    ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f), (void)(g))
#define GASNETT_UNUSED_ARGS8(a, b, c, d, e, f, g, h) \
    ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e), (void)(f), (void)(g), (void)(h))

/* ---- identification strings ---- */

#if defined(__has_attribute)
#if __has_attribute(__retain__) && !defined(__APPLE__)
#define GASNETTI_KEEP __attribute__((__used__, __retain__))
#endif
#endif
#ifndef GASNETTI_KEEP
#define GASNETTI_KEEP GASNETT_USED
#endif

/* Embeds the string identText in the program, under the globally unique name identName. Use at file
 * scope, with ';'. */
#ifdef __cplusplus
#define GASNETT_IDENT(identName, identText)           \
    extern "C" {                                      \
    extern const char identName[];                    \
    const char identName[] GASNETTI_KEEP = identText; \
    }                                                 \
    extern "C" const char identName[]
#else
#define GASNETT_IDENT(identName, identText) \
    extern const char identName[];          \
    const char identName[] GASNETTI_KEEP = identText
#endif

/* ---- properties of the system ---- */

/* The longest cache line of an architecture's processors: of AArch64 that of the A64FX. */
#if PLATFORM_ARCH_AARCH64
#define GASNETT_CACHE_LINE_BYTES 256
#define GASNETI_CACHE_LINE_STR "256"
#elif PLATFORM_ARCH_POWERPC && PLATFORM_ARCH_64
#define GASNETT_CACHE_LINE_BYTES 128
#define GASNETI_CACHE_LINE_STR "128"
#else
#define GASNETT_CACHE_LINE_BYTES 64
#define GASNETI_CACHE_LINE_STR "64"
#endif

/* The largest page size with which the kernels of an architecture are configured; x86 has one. */
#if PLATFORM_ARCH_AARCH64 || (PLATFORM_ARCH_POWERPC && PLATFORM_ARCH_64)
#define GASNETT_PAGESHIFT 16
#else
#define GASNETT_PAGESHIFT 12
#endif
#define GASNETT_PAGESIZE (1 << GASNETT_PAGESHIFT)

/* A constant for clients that size arrays by it; the library itself has no such limit. */
#define GASNETT_MAX_THREADS 4096

#if PLATFORM_ARCH_X86_64
#define GASNETTI_ARCH_STR "x86_64"
#elif PLATFORM_ARCH_X86
#define GASNETTI_ARCH_STR "i686"
#elif PLATFORM_ARCH_AARCH64
#define GASNETTI_ARCH_STR "aarch64"
#elif PLATFORM_ARCH_POWERPC && PLATFORM_ARCH_LITTLE_ENDIAN
#define GASNETTI_ARCH_STR "powerpc64le"
#elif PLATFORM_ARCH_RISCV
#define GASNETTI_ARCH_STR "riscv64"
#else
#define GASNETTI_ARCH_STR "unknown"
#endif
#if PLATFORM_OS_LINUX
#define GASNETT_SYSTEM_TUPLE GASNETTI_ARCH_STR "-unknown-linux-gnu"
#else
#define GASNETT_SYSTEM_TUPLE GASNETTI_ARCH_STR "-unknown-unknown"
#endif

#define GASNETT_PLATFORM_COMPILER_ID PLATFORM_COMPILER_ID
#define GASNETT_PLATFORM_COMPILER_IDSTR PLATFORM_COMPILER_IDSTR
#define GASNETT_PLATFORM_COMPILER_FAMILYID PLATFORM_COMPILER_FAMILYID
#define GASNETT_PLATFORM_COMPILER_VERSION PLATFORM_COMPILER_VERSION

#endif /* _INCLUDED_GASNETT_ANNOTATE_H */

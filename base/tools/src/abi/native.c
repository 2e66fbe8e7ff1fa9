/* The part of the tools that stable Rust cannot define: variadic functions (which format and then
 * call Rust), exported variables, one of which a client may replace, and the C library's
 * streams. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "gasnett_annotate.h"

/* src/abi/diagnostic.rs */
extern void gasnetti_fatal(const char *text, const char *function, const char *file, int line) GASNETT_NORETURN;
extern int gasnetti_print_backtrace_default(int fd);

/* Formats a message; one that does not fit is cut and ends in "...". */
#define MESSAGE_BYTES 4096
static void format_message(char *out, const char *format, va_list args) {
    int length = vsnprintf(out, MESSAGE_BYTES, format, args);
    if (length < 0) snprintf(out, MESSAGE_BYTES, "(message could not be formatted) %s", format);
    if (length >= MESSAGE_BYTES) snprintf(out + MESSAGE_BYTES - 4, 4, "...");
}

#define FORMAT(out, format)                \
    do {                                   \
        va_list args;                      \
        va_start(args, format);            \
        format_message(out, format, args); \
        va_end(args);                      \
    } while (0)

extern void gasnett_fatalerror(const char *format, ...) GASNETT_NORETURN;
void gasnett_fatalerror(const char *format, ...) {
    char text[MESSAGE_BYTES];
    FORMAT(text, format);
    gasnetti_fatal(text, 0, 0, 0);
}

extern void gasnett_fatalerror_nopos(const char *format, ...) GASNETT_NORETURN;
void gasnett_fatalerror_nopos(const char *format, ...) {
    char text[MESSAGE_BYTES];
    FORMAT(text, format);
    gasnetti_fatal(text, 0, 0, 0);
}

extern void gasnett_fatalerror_at(const char *function, const char *file, int line, const char *format,
                                  ...) GASNETT_NORETURN;
void gasnett_fatalerror_at(const char *function, const char *file, int line, const char *format, ...) {
    char text[MESSAGE_BYTES];
    FORMAT(text, format);
    gasnetti_fatal(text, function, file, line);
}

/* Best effort: errors are ignored. */
extern void gasnett_flush_streams(void);
void gasnett_flush_streams(void) {
    (void)fflush(stdout);
    (void)fflush(stderr);
}

/* Points the descriptors at /dev/null instead of closing them, so that no later open() gets a
 * standard number. */
extern void gasnett_close_streams(void);
void gasnett_close_streams(void) {
    int null;
    gasnett_flush_streams();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++) {
        if (null >= 0) (void)dup2(null, fd);
        else (void)close(fd);
    }
    if (null > 2) (void)close(null);
}

/* Clients may assign this pointer. */
int (*gasnett_print_backtrace_ifenabled)(int fd) = gasnetti_print_backtrace_default;

/* Clients may define this variable; this one means that there is none. */
typedef struct {
    const char *name;
    int (*fnp)(int);
    int threadsupport;
} backtrace_type;
__attribute__((__weak__)) backtrace_type gasnett_backtrace_user;
extern const backtrace_type *gasnetti_backtrace_user(void);
const backtrace_type *gasnetti_backtrace_user(void) { return &gasnett_backtrace_user; }

/* See gasnet_tools.h: 0 not chosen yet, 1 TSC, 2 system clock. */
int gasnetti_tick_source = 0;

/* A debugger clears this to resume a frozen process. */
volatile int gasnetti_frozen = 0;

#if GASNET_DEBUG
extern const int gasnett_needs_debug_library_abi0;
const int gasnett_needs_debug_library_abi0 = 1;
#else
extern const int gasnett_needs_release_library_abi0;
const int gasnett_needs_release_library_abi0 = 1;
#endif

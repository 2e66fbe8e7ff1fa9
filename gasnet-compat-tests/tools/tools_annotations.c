/* README-tools, "Compiler annotations", "Macro argument evaluation", identification strings and
 * trace macros. */
#include <gasnet_tools.h>

#include "tools_check.h"

GASNETT_IDENT(tools_annotations_ident, "$ToolsTestIdent: " _STRINGIFY(_CONCAT(for, ty)) " $");

GASNETT_INLINE(inlined)
int inlined(int *GASNETT_RESTRICT p) { return *p + 1; }

GASNETT_NEVER_INLINE(outlined, static int outlined(int a, int b)) { return a + b; }

static void ends(void) GASNETT_NORETURN;
GASNETT_NORETURNP(ends)
static void ends(void) { gasnett_killmyprocess(5); }

GASNETT_MALLOC
static void *allocates(void) { return malloc(1); }
GASNETT_MALLOCP(allocates)

GASNETT_PURE
static int pure(const char *s) { return s[0]; }
GASNETT_PUREP(pure)

GASNETT_CONST
static int constant(int x) { return 2 * x; }
GASNETT_CONSTP(constant)

GASNETT_HOT
static int hot(void) { return 1; }
GASNETT_COLD
static int cold(void) { return 2; }
GASNETT_USED
static int used(void) { return 3; }
GASNETT_WARN_UNUSED_RESULT
static int needed(void) { return 4; }
GASNETT_DEPRECATED
int old_function(void);
int old_function(void) { return 0; }

GASNETT_FORMAT_PRINTF(formats, 2, 3, static int formats(char *out, const char *format, ...)) {
    va_list list;
    int rc;
    va_start(list, format);
    rc = vsnprintf(out, 32, format, list);
    va_end(list);
    return rc;
}
GASNETT_FORMAT_PRINTF_FUNCPTR(pointer, 2, 3, static int (*pointer)(char *, const char *, ...));

static int falls(int x) {
    int sum = 0;
    switch (x) {
        case 1: sum += 1; GASNETT_FALLTHROUGH
        case 2: sum += 2;
    }
    return sum;
}

static int never(int x) {
    gasnett_assume(x > 0);
    if (x > 0) return x;
    gasnett_unreachable();
}

static int branches(int x) {
    if_pf (x == 1) return 1;
    else if_pt (x == 2) return 2;
    return GASNETT_PREDICT_TRUE(x == 3) ? 3 : GASNETT_PREDICT_FALSE(x == 4) ? 4 : 0;
}

static int end_child(void) { ends(); }

static void evaluation(void) {
    int n = 0;
    GASNETT_UNUSED_ARGS1(n++);
    GASNETT_UNUSED_ARGS2(n++, n++);
    GASNETT_UNUSED_ARGS3(n++, n++, n++);
    GASNETT_UNUSED_ARGS4(n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS5(n++, n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS6(n++, n++, n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS7(n++, n++, n++, n++, n++, n++, n++);
    CHECK((GASNETT_UNUSED_ARGS8(n++, n++, n++, n++, n++, n++, n++, n++), n) == 36);
}

/* Without tracing the macros evaluate nothing that matters, but they exist and check their
 * arguments. */
static void tracing(void) {
    const char *file;
    unsigned int line;
    GASNETT_TRACE_GETSOURCELINE(&file, &line);
    GASNETT_TRACE_SETSOURCELINE(file, line);
    GASNETT_TRACE_FREEZESOURCELINE();
    GASNETT_TRACE_UNFREEZESOURCELINE();
    CHECK(!GASNETT_TRACE_ENABLED);
    GASNETT_TRACE_PRINTF("%d", 1);
    GASNETT_TRACE_PRINTF_FORCE("%s", "x");
    GASNETT_TRACE_SETMASK(GASNETT_TRACE_GETMASK());
    GASNETT_STATS_SETMASK(GASNETT_STATS_GETMASK());
    GASNETT_TRACE_SET_TRACELOCAL(GASNETT_TRACE_GET_TRACELOCAL());
    GASNETT_STATS_PRINTF("%d", 1);
    GASNETT_STATS_PRINTF_FORCE("%d", 1);
    GASNETT_STATS_DUMP(1);
    (void)(GASNETT_TRACE_SETSOURCELINE(__FILE__, __LINE__), 0);
    CHECK(&_gasnett_trace_printf_noop != NULL && &_gasneti_threadkey_init != NULL);
}

int main(void) {
    char text[32];
    int five = 5;
    void *memory = allocates();
    CHECK(!strcmp(tools_annotations_ident, "$ToolsTestIdent: forty $"));
    CHECK(inlined(&five) == 6 && outlined(1, 2) == 3 && memory);
    free(memory);
    CHECK(pure("a") == 'a' && constant(4) == 8 && hot() + cold() + used() + needed() == 10);
    pointer = formats;
    CHECK(formats(text, "%d %" PRIuSZ, 7, sizeof(char)) == 3 && pointer(text, "%s", "abc") == 3);
    CHECK(falls(1) == 3 && falls(2) == 2 && never(five) == 5);
    for (int i = 0; i < 5; i++) CHECK(branches(i) == i);
    CHECK(gasnett_constant_p(3) == 1 || gasnett_constant_p(3) == 0);
    CHECK(MIN(1, 2) == 1 && MAX(1, 2) == 2);
    in_child(end_child);
    CHECK(child_exited(5));
    evaluation();
    tracing();
    return test_result("tools_annotations");
}

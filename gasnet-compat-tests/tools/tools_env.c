/* README-tools, "Environment utilities": values, defaults, units, bad input, verbose reporting. */
#include <gasnet_tools.h>

#include "tools_check.h"

static void numbers(void) {
    char text[64], tiny[4];
    static const struct {
        const char *text;
        uint64_t unit;
        int64_t value;
    } cases[] = {{"42", 0, 42},
                 {"-3", 0, -3},
                 {"0x1f", 0, 31},
                 {"010", 0, 10},
                 {"5", 1, 5},
                 {"5", 1024, 5120},
                 {"5B", 1024, 5},
                 {"5KB", 1, 5120},
                 {"1.5MB", 1, 1572864},
                 {"7.25 GB", 1, 7784628224},
                 {"2.5TB", 1, 2748779069440},
                 {"-4kb", 1, -4096},
                 {"0.5", 1024, 512},
                 {"3KiB", 1, 3072},
                 {"", 0, 0},
                 {"junk", 1, 0},
                 {"12KB", 0, 12},
                 {"9999999999GB", 1, INT64_MAX}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = gasnett_parse_int(cases[i].text, cases[i].unit);
        if (value != cases[i].value) fprintf(stderr, "<%s> gave %" PRId64 "\n", cases[i].text, value);
        CHECK(value == cases[i].value);
    }
    for (int bit = 0; bit < 63; bit++) {
        for (int64_t value = ((int64_t)1 << bit) - 1; value <= ((int64_t)1 << bit); value++) {
            CHECK(gasnett_format_number(value, text, sizeof(text), 1) == text);
            CHECK(gasnett_parse_int(text, 1) == value);
            gasnett_format_number(-value, text, sizeof(text), 0);
            CHECK(gasnett_parse_int(text, 0) == -value);
        }
    }
    CHECK(!strcmp(gasnett_format_number(5ll << 30, text, sizeof(text), 1), "5 GB"));
    CHECK(!strcmp(gasnett_format_number(123456, tiny, sizeof(tiny), 0), "123"));
    CHECK(gasnett_format_number(1, tiny, 0, 0) == tiny);
}

static void values(void) {
    static const char *yes[] = {"1", "y", "Y", "yes", "YES", "Yes"}, *no[] = {"0", "n", "N", "no", "NO", "No"};
    gasnett_setenv("T_STR", "text");
    CHECK(!strcmp(getenv("T_STR"), "text") && !strcmp(gasnett_getenv("T_STR"), "text"));
    CHECK(!strcmp(gasnett_getenv_withdefault("T_STR", "other"), "text"));
    gasnett_setenv("T_STR", "");
    CHECK(!strcmp(gasnett_getenv_withdefault("T_STR", "other"), ""));
    gasnett_unsetenv("T_STR");
    CHECK(getenv("T_STR") == NULL && gasnett_getenv("T_STR") == NULL);
    CHECK(!strcmp(gasnett_getenv_withdefault("T_STR", "other"), "other"));
    CHECK(gasnett_getenv_withdefault("T_STR", NULL) == NULL);

    for (int i = 0; i < 6; i++) {
        gasnett_setenv("T_BOOL", yes[i]);
        CHECK(gasnett_getenv_yesno_withdefault("T_BOOL", 0) == 1);
        gasnett_setenv("T_BOOL", no[i]);
        CHECK(gasnett_getenv_yesno_withdefault("T_BOOL", 1) == 0);
    }
    gasnett_unsetenv("T_BOOL");
    CHECK(gasnett_getenv_yesno_withdefault("T_BOOL", 1) == 1 && gasnett_getenv_yesno_withdefault("T_BOOL", 0) == 0);

    gasnett_setenv("T_INT", "-0x10");
    CHECK(gasnett_getenv_int_withdefault("T_INT", 3, 0) == -16);
    gasnett_setenv("T_INT", "1.5");
    CHECK(gasnett_getenv_int_withdefault("T_INT", 3, 1024) == 1536);
    gasnett_setenv("T_INT", "2MB");
    CHECK(gasnett_getenv_int_withdefault("T_INT", 3, 1) == 2 << 20);
    gasnett_setenv("T_INT", "");
    CHECK(gasnett_getenv_int_withdefault("T_INT", 3, 0) == 3);
    gasnett_unsetenv("T_INT");
    CHECK(gasnett_getenv_int_withdefault("T_INT", -3, 1024) == -3);

    gasnett_setenv("T_DBL", "1.5");
    CHECK(gasnett_getenv_dbl_withdefault("T_DBL", 3) == 1.5);
    gasnett_setenv("T_DBL", "-1e4");
    CHECK(gasnett_getenv_dbl_withdefault("T_DBL", 3) == -1e4);
    gasnett_setenv("T_DBL", "0x1.8p3"); /* all that strtod takes */
    CHECK(gasnett_getenv_dbl_withdefault("T_DBL", 3) == 12);
    gasnett_setenv("T_DBL", "3/8");
    CHECK(gasnett_getenv_dbl_withdefault("T_DBL", 3) == 0.375);
    gasnett_unsetenv("T_DBL");
    CHECK(gasnett_getenv_dbl_withdefault("T_DBL", 2.5) == 2.5);
}

static const char *bad_value;
static int bad_bool(void) {
    gasnett_setenv("T_BAD", bad_value);
    return gasnett_getenv_yesno_withdefault("T_BAD", 1);
}
static int64_t taken;
static int odd_int(void) {
    gasnett_setenv("T_BAD", bad_value);
    return gasnett_getenv_int_withdefault("T_BAD", 1, 0) != taken;
}
static int odd_size(void) {
    gasnett_setenv("T_BAD", bad_value);
    return gasnett_getenv_int_withdefault("T_BAD", 1, 1024) != taken;
}
static int bad_dbl(void) {
    gasnett_setenv("T_BAD", bad_value);
    return (int)gasnett_getenv_dbl_withdefault("T_BAD", 1);
}
static int bad_verbose(void) {
    gasnett_setenv("GASNET_VERBOSEENV", bad_value);
    return gasnett_verboseenv();
}

static int bad_backtrace(void) {
    gasnett_setenv("GASNET_BACKTRACE", bad_value);
    gasnett_backtrace_init(NULL);
    return 0;
}
static int bad_freeze(void) {
    gasnett_setenv("GASNET_FREEZE_ON_ERROR", bad_value);
    gasnett_freezeForDebuggerErr();
    return 0;
}
static int bad_freeze_late(void) {
    gasnett_setenv("GASNET_FREEZE_ON_ERROR", bad_value);
    gasnett_fatalerror("first");
    return 0;
}

static void rejected(int (*body)(void), const char *value, const char *message) {
    bad_value = value;
    in_child(body);
    CHECK(child_killed(SIGABRT));
    CHECK(child_said(message));
}

/* Of an integer that is none the number counts that it begins with, with a warning. */
static void odd(int (*body)(void), const char *value, int64_t expected, const char *message) {
    bad_value = value;
    taken = expected;
    in_child(body);
    CHECK(child_exited(0));
    CHECK(child_said(message));
}

static void oddities(void) {
    odd(odd_int, "abc", 0, "T_BAD='abc'");
    odd(odd_int, "5KB", 5, "an integer");
    odd(odd_int, "1.5", 1, "T_BAD='1.5'");
    odd(odd_int, "99999999999999999999", INT64_MAX, "out of range");
    odd(odd_size, "5KX", 5 << 10, "a memory size");
    odd(odd_size, "99999999999GB", INT64_MAX, "out of range");
}

static void rejections(void) {
    rejected(bad_bool, "maybe", "T_BAD='maybe'");
    rejected(bad_bool, "2", "must be yes (1, y or yes) or no (0, n or no)");
    rejected(bad_dbl, "1/0", "out of range");
    rejected(bad_dbl, "inf", "a number or a fraction");
    rejected(bad_dbl, "1.5x", "a number or a fraction");
    /* what a fatal error itself asks for */
    rejected(bad_backtrace, "perhaps", "GASNET_BACKTRACE='perhaps'");
    rejected(bad_freeze, "perhaps", "GASNET_FREEZE_ON_ERROR='perhaps'");
    rejected(bad_freeze_late, "perhaps", "first");
    rejected(bad_verbose, "perhaps", "GASNET_VERBOSEENV='perhaps'");
}

static int quiet(void) {
    gasnett_unsetenv("GASNET_VERBOSEENV");
    gasnett_envint_display("T_A", 1, 1, 0);
    gasnett_getenv_withdefault("T_B", "x");
    return gasnett_verboseenv() ? 1 : 0;
}

static int verbose(void) {
    gasnett_setenv("GASNET_VERBOSEENV", "1");
    gasnett_setenv("T_SET", "2MB");
    gasnett_envint_display("T_SIZE", 8192, 1, 1);
    gasnett_envint_display("T_COUNT", 8192, 0, 0);
    gasnett_envstr_display("T_TEXT", "words", 0);
    gasnett_envstr_display("T_NULL", NULL, 1);
    gasnett_envdbl_display("T_REAL", 2.5, 1);
    gasnett_getenv_int_withdefault("T_SET", 1, 1);
    gasnett_getenv_int_withdefault("T_SET", 1, 1);
    gasnett_getenv_yesno_withdefault("T_YES", 1);
    gasnett_getenv_withdefault("T_DEF", "deflt");
    gasnett_getenv_dbl_withdefault("T_HALF", 0.5);
    gasnett_getenv("T_RAW");
    return gasnett_verboseenv() ? 0 : 1;
}

static void reporting(void) {
    in_child(quiet);
    CHECK(child_exited(0) && child.output[0] == 0);
    in_child(verbose);
    CHECK(child_exited(0));
    CHECK(child_said("T_SIZE = 8 KB (default)\n"));
    CHECK(child_said("T_COUNT = 8192\n"));
    CHECK(child_said("T_TEXT = words\n"));
    CHECK(child_said("T_NULL = *not set* (default)\n"));
    CHECK(child_said("T_REAL = 2.5 (default)\n"));
    CHECK(child_said("T_YES = YES (default)\n"));
    CHECK(child_said("T_DEF = deflt (default)\n"));
    CHECK(child_said("T_HALF = 0.5 (default)\n"));
    CHECK(child_said("T_SET = 2 MB\n"));
    char *once = strstr(child.output, "T_SET");
    CHECK(once && !strstr(once + 1, "T_SET"));
    CHECK(!strstr(child.output, "T_RAW"));
}

int main(void) {
    numbers();
    values();
    oddities();
    rejections();
    reporting();
    return test_result("tools_env");
}

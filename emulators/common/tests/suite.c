// suite.c: output, and the choice of tests, for the conformance programs of the emulators.
#include "suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__thread bool is_silent;

void say(const char *test, const char *format, ...) {
    va_list arguments;
    if (is_silent) return;
    printf("%s: ", test);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

void must(bool good, const char *what) {
    if (good) return;
    printf("FAILED: %s\n", what);
    fflush(stdout);
    _exit(1);
}

const char *yes(bool is) { return is ? "yes" : "no"; }

void pause_ms(int ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

bool is_named(const char *name, char **argv) {
    while (*argv != NULL && *++argv != NULL)
        if (strcmp(*argv, name) == 0) return true;
    return false;
}

void run_tests(const struct test *tests, size_t count, bool by_default, char **argv) {
    by_default = by_default && argv[1] == NULL;
    for (size_t i = 0; i < count; i++)
        if (by_default || is_named(tests[i].name, argv)) tests[i].run();
}

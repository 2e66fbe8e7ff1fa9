/* suite.h: what the conformance programs of the emulators share. A test prints what happened,
 * which is compared with the expected answers. */
#ifndef SUITE_H
#define SUITE_H

#include <stdbool.h>
#include <stddef.h>

/* A test, and the name by which an argument of the program selects it. */
struct test {
    const char *name;
    void (*run)(void);
};

/* `say` prints nothing in this thread. */
extern __thread bool is_silent;

/* Prints "test: what" as printf does. */
void say(const char *test, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the process with a message if something that must succeed did not. */
void must(bool good, const char *what);
const char *yes(bool is);
void pause_ms(int ms);

/* Whether an argument of the program is this name. */
bool is_named(const char *name, char **argv);
/* Runs the tests that arguments name. Without arguments: all, if `by_default`. */
void run_tests(const struct test *tests, size_t count, bool by_default, char **argv);

#endif

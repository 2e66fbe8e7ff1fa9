/* Helpers of the tools tests: checks, threads, and running a function in a child whose output is
 * captured.
 *
 * These programs use the communication-free tools library only (libgasnet_tools-{seq,par}). A
 * program ends with 0 (passed), 1 (failed) or 77 (skipped, with the reason). Include after
 * gasnet_tools.h. */
#ifndef TOOLS_CHECK_H
#define TOOLS_CHECK_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if GASNETT_THREAD_SAFE
#include <pthread.h>
#endif

#define TEST_UNUSED __attribute__((unused))

static int test_failures;

#define CHECK(cond)                                                         \
    do {                                                                    \
        if (!(cond)) {                                                      \
            fprintf(stderr, "FAIL %s:%d: %s\n", __FILE__, __LINE__, #cond); \
            __atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);        \
        }                                                                   \
    } while (0)

/* The last statement of main. */
static int TEST_UNUSED test_result(const char *name) {
    if (test_failures) {
        fprintf(stderr, "FAIL %s: %d checks failed\n", name, test_failures);
        return 1;
    }
    printf("%s: PASS\n", name);
    return 0;
}

static int TEST_UNUSED test_skip(const char *name, const char *reason) {
    printf("%s: SKIPPED: %s\n", name, reason);
    return 77;
}

/* Outcome of a child process. */
typedef struct {
    int status;         /* as from waitpid */
    char output[16384]; /* its standard output and standard error */
} child_result;

static child_result child;

static int child_output;

/* Whether this is the new child process, whose output the parent captures. */
static int TEST_UNUSED child_begins(void) {
    int ends[2];
    memset(&child, 0, sizeof(child));
    fflush(NULL);
    if (pipe(ends)) exit(1);
    pid_t pid = fork();
    if (pid < 0) exit(1);
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        alarm(120);
    }
    close(ends[1]);
    child_output = ends[0];
    return pid == 0;
}

static void TEST_UNUSED child_exits(int value) {
    fflush(NULL);
    _exit(value);
}

/* In the parent: sets `child`. */
static void TEST_UNUSED child_ends(void) {
    size_t used = 0;
    ssize_t got;
    while (used < sizeof(child.output) - 1 &&
           (got = read(child_output, child.output + used, sizeof(child.output) - 1 - used)) > 0) {
        used += (size_t)got;
    }
    close(child_output);
    if (wait(&child.status) < 0) exit(1);
}

/* Runs statements in a child process, which then exits with 0, and captures its output. */
#define IN_CHILD(...)         \
    do {                      \
        if (child_begins()) { \
            __VA_ARGS__;      \
            child_exits(0);   \
        }                     \
        child_ends();         \
    } while (0)

/* The same with a function, whose value is the exit code. */
static void TEST_UNUSED in_child(int (*body)(void)) { IN_CHILD(child_exits(body())); }

static int TEST_UNUSED child_exited(int code) { return WIFEXITED(child.status) && WEXITSTATUS(child.status) == code; }
static int TEST_UNUSED child_killed(int sig) { return WIFSIGNALED(child.status) && WTERMSIG(child.status) == sig; }
static int TEST_UNUSED child_said(const char *text) {
    if (strstr(child.output, text)) return 1;
    fprintf(stderr, "expected <%s> in:\n%s\n", text, child.output);
    return 0;
}

#if GASNETT_THREAD_SAFE
/* Runs `body` in `count` threads, with the thread's number as argument. */
static void TEST_UNUSED in_threads(int count, void *(*body)(void *)) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, body, (void *)(intptr_t)i)) exit(1);
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}
#endif

#endif

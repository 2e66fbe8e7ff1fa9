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

/* Runs `body` in a child process, which exits with the body's value, and captures its output. */
static TEST_UNUSED child_result *in_child(int (*body)(void)) {
    int ends[2];
    size_t used = 0;
    ssize_t got;
    pid_t pid;
    memset(&child, 0, sizeof(child));
    fflush(NULL);
    if (pipe(ends)) exit(1);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        alarm(120);
        {
            int value = body();
            fflush(NULL);
            _exit(value);
        }
    }
    close(ends[1]);
    while (used < sizeof(child.output) - 1 &&
           (got = read(ends[0], child.output + used, sizeof(child.output) - 1 - used)) > 0) {
        used += (size_t)got;
    }
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &child.status, 0) != pid) exit(1);
    return &child;
}

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

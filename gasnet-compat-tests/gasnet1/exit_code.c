// gasnet_exit of a GASNet-1 program: its code is the code of the job, whoever calls it: one rank
// while others wait in a barrier, all ranks, from a handler, before attach. The program starts
// itself once per case.
// NP: 1 2 4
// CONDUITS: smp sock
// TIMEOUT: 60
#include <sys/wait.h>

#include "check1.h"

enum { LEAVE = 160, BEFORE_ATTACH = 0, ONE_RANK, ALL_RANKS, FROM_HANDLER, CASES };

static void on_leave(gasnet_token_t token, gasnet_handlerarg_t code) { gasnet_exit(code); }

static int job(int which, int argc, char **argv) {
    gasnet_handlerentry_t table[] = {{LEAVE, (gex_AM_Fn_t)on_leave}};
    gasnet1_init("exit_code", &argc, &argv);
    if (which == BEFORE_ATTACH) {
        if (me == np - 1) gasnet_exit(40 + which);
        for (;;) pause();
    }
    gasnet1_attach(table, 1, 4096);
    gasnet1_barrier();
    if (which == ALL_RANKS || (which == ONE_RANK && me == np / 2)) gasnet_exit(40 + which);
    if (which == FROM_HANDLER && me == 0) OK(gasnet_AMRequestShort1(np - 1, LEAVE, 40 + which));
    if (which == ONE_RANK) {
        gasnet_barrier_notify(1, 0);
        gasnet_barrier_wait(1, 0);
    }
    for (;;) gasnet_AMPoll();
    return 1;
}

int main(int argc, char **argv) {
    const char *which = getenv("EXIT_CASE");
    int failures = 0;
    if (which) return job(atoi(which), argc, argv);
    for (int i = 0; i < CASES; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            char text[8];
            snprintf(text, sizeof text, "%d", i);
            setenv("EXIT_CASE", text, 1);
            execv("/proc/self/exe", argv);
            _exit(99);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 40 + i) {
            fprintf(stderr, "FAIL exit_code: case %d ended with wait status %#x\n", i, (unsigned)status);
            failures++;
        }
    }
    if (!failures) printf("PASS exit_code\n");
    return failures ? 1 : 0;
}

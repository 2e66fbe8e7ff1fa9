// A client forks; the child calls _exit, exit or execs, or dies by a signal: the job goes on.
// NP: 1 2 4
// TIMEOUT: 60
#include "stress.h"

#include <sys/wait.h>

enum { ECHO = 200, ECHOED = 201 };
static int done;

static void on_echo(gex_Token_t token) { gex_AM_ReplyShort0(token, ECHOED, 0); }
static void on_echoed(gex_Token_t token) { ATOMIC_ADD(&done, 1); }

static void child(int how) {
    switch (how) {
        case 0: _exit(7);
        case 1: exit(7);
        case 2: execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL); _exit(1);
        default:
            signal(SIGTERM, SIG_DFL);
            raise(SIGTERM);
            _exit(1);
    }
}

int main(int argc, char **argv) {
    int status;
    test_init("fork_child", &argc, &argv);
    register_handler(ECHO, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    register_handler(ECHOED, (gex_AM_Fn_t)on_echoed, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0);
    test_attach(65536);
    barrier();
    for (int how = 0; how < 4; how++) {
        PHASE("fork");
        fflush(NULL);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) child(how);
        PHASE("child ends");
        REQUIRE(waitpid(pid, &status, 0) == pid);
        if (how < 3)
            CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 7, "variant %d: status %#x", how, (unsigned)status);
        else
            CHECKF(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "variant %d: status %#x", how, (unsigned)status);
        PHASE("the job goes on");
        for (gex_Rank_t r = 0; r < np; r++) gex_AM_RequestShort0(tm, r, ECHO, 0);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&done) == (how + 1) * (int)np);
        barrier();
    }
    CHECK(system("exit 3") == 3 << 8);
    barrier();
    return test_finish();
}

// Data of an IMMEDIATE Long that a computing rank does not take delays no data to other ranks: a
// Long to another rank arrives meanwhile. The computing rank returns to GASNet only then.
// NP: 3
// CONDUITS: sock
// TIMEOUT: 60
#include "check.h"

#include <signal.h>

enum { BYTES = 1 << 20 }; /* a longer rest would wait */
static gex_AM_Index_t pid_index = 150, long_index = 151, reply_index = 152;
static int pids[3], known, arrived, replied;

static void on_pid(gex_Token_t token, gex_AM_Arg_t rank, gex_AM_Arg_t pid) {
    pids[rank] = pid;
    ATOMIC_ADD(&known, 1);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&arrived, 1);
    gex_AM_ReplyShort0(token, reply_index, 0);
}
static void on_reply(gex_Token_t token) { ATOMIC_ADD(&replied, 1); }

int main(int argc, char **argv) {
    sigset_t signals;
    test_init("am_deferred_targets", &argc, &argv);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    REQUIRE(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    register_handler(pid_index, (gex_AM_Fn_t)on_pid, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    test_attach(BYTES);
    barrier();
    OK(gex_AM_RequestShort2(tm, 0, pid_index, 0, (gex_AM_Arg_t)me, (gex_AM_Arg_t)getpid()));
    if (me == 0) {
        char *data = (char *)malloc(BYTES);
        pattern_fill(data, BYTES, 3);
        PHASE("process numbers");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&known) == 3);
        PHASE("sending");
        for (gex_Rank_t r = 1; r < 3; r++)
            while (gex_AM_RequestLong0(tm, r, long_index, data, BYTES, seg_of(r), GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE))
                gasnet_AMPoll();
        PHASE("answer of the rank that polls");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == 1);
        REQUIRE(kill(pids[1], SIGUSR1) == 0);
        PHASE("answer of the rank that computed");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == 2);
        free(data);
    } else {
        int number;
        PHASE("outside GASNet");
        if (me == 1) REQUIRE(sigwait(&signals, &number) == 0);
        PHASE("receiving");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == 1);
    }
    barrier();
    return test_finish();
}

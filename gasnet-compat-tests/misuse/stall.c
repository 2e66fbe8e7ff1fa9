/* The stall watchdog (GASNET_STALL_TIMEOUT). Rank 0 waits for the last rank, which goes on only
 * when it has read rank 0's report: no case depends on time. The text that was read goes to
 * standard output. */
#include <gasnetex.h>

#include <sys/wait.h>

static void on_short(gex_Token_t token, gex_AM_Arg_t value);

static volatile int arrived;
#define MISUSE_HANDLERS \
    { 200, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "on_short" }
#define MISUSE_HANDLER_COUNT 1
#include "misuse.h"

static void on_short(gex_Token_t token, gex_AM_Arg_t value) {
    if (value) arrived = 1;
}

static int reports[2];
__attribute__((constructor)) static void make_pipe(void) {
    if (pipe(reports) != 0) _exit(96);
}

/* Rank 0's errors go to the last rank. */
static void send_errors(void) {
    if (first()) dup2(reports[1], 2);
    barrier();
}
/* Copies rank 0's errors to standard output until a line has `text`. */
static void await(const char *text) {
    char line[4096];
    size_t used = 0;
    while (used + 1 < sizeof line && read(reports[0], line + used, 1) == 1) {
        if (line[used++] != '\n') continue;
        line[used] = 0;
        printf("%s", line);
        fflush(stdout);
        if (strstr(line, text)) return;
        used = 0;
    }
    printf("nothing came\n");
}

static void stall_barrier(void) {
    send_errors();
    if (!first()) await("STALL");
    barrier();
    if (!first()) await("resumed");
}
static void stall_named(void) {
    send_errors();
    if (!first()) await("STALL");
    gasnet_barrier(7, 0);
    if (!first()) await("resumed");
}
static void stall_all(void) {
    gex_Event_t events[3] = {GEX_EVENT_INVALID, GEX_EVENT_INVALID, GEX_EVENT_INVALID};
    send_errors();
    if (!first()) await("STALL");
    events[0] = gex_Coll_BarrierNB(tm, 0);
    events[2] = gex_Coll_BarrierNB(tm, 0);
    gex_Event_WaitAll(events, 3, 0);
    if (!first()) await("resumed");
}
static void stall_blockuntil(void) {
    send_errors();
    if (first()) {
        GASNET_BLOCKUNTIL(arrived);
    } else {
        await("STALL");
        gex_AM_RequestShort1(tm, 0, 200, 0, 1);
        await("resumed");
    }
}
static void stall_collective(void) {
    int mine = 1, sum = 0;
    send_errors();
    if (!first()) await("STALL");
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &mine, GEX_DT_I32, sizeof(int), 1, GEX_OP_ADD, NULL, NULL, 0));
    if (!first()) await("resumed");
}
static void stall_team(void) {
    gex_TM_t pair;
    send_errors();
    if (!first()) await("STALL");
    gex_TM_Split(&pair, tm, 0, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    if (!first()) await("resumed");
}
/* To a neighbour that does not poll, and so makes no room. */
static void stall_room(void) {
    send_errors();
    if (!first()) await("STALL");
    for (int i = 0; i < 300000; i++) {
        if (first()) gex_AM_RequestShort1(tm, np - 1, 200, 0, 0);
        else gasnet_AMPoll();
    }
    if (!first()) await("resumed");
}
/* A put to somebody who is no neighbour needs an answer. */
static void stall_put(void) {
    gex_RankInfo_t *neighbours;
    gex_Rank_t count;
    static char source[5000];
    gex_System_QueryNbrhdInfo(&neighbours, &count, NULL);
    if (count == np) {
        if (first()) printf("STALL not possible: all ranks are neighbours\n");
        return;
    }
#if GASNET_CONDUIT_IBV || GASNET_CONDUIT_GNI || GASNET_CONDUIT_ELAN || GASNET_CONDUIT_LOOP
    if (first()) printf("STALL not possible: the NIC of a rank that computes takes puts\n");
    return;
#endif
    send_errors();
    if (first()) {
        int i; /* the first ones may still be answered in the barrier */
        for (i = 0; i < 1000; i++) gex_RMA_PutBlocking(tm, np - 1, last, source, sizeof source, 0);
    } else {
        await("STALL");
        barrier();
        await("resumed");
        return;
    }
    barrier();
}
static void stall_exit(void) {
    send_errors();
    if (first()) gasnet_exit(0);
    await("STALL");
}
/* Nobody is stalled while a rank is stopped, be it by a signal or for a debugger. */
static void stopped(void) {
    const pid_t self = getpid();
    if (!first()) {
        const pid_t child = fork();
        if (child == 0) {
            usleep(4000000);
            kill(self, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        waitpid(child, NULL, 0);
    }
    barrier();
    if (first()) printf("went on\n");
}
static volatile int frozen;
static void thaw(int number) { frozen = 0; }
static void frozen_rank(void) {
    if (!first()) {
        signal(SIGALRM, thaw);
        alarm(4);
        gasnett_freezeForDebuggerNow(&frozen, "frozen");
    }
    barrier();
    if (first()) printf("went on\n");
}

#define SHORTLY "GASNET_STALL_TIMEOUT=0.2"
/* No thread of the conduit takes in what the other rank does not. */
#define BY_ITSELF SHORTLY " GASNET_UDP_THREAD=0"
/* A network with a barrier of its own does not know who is missing. */
#define OF_BARRIER "(waits for (member 1 \\()?rank 1|a barrier of the network has not ended)"
#define OTHERS "\\. Other ranks: gasnet_info --attach \\d+\\n"
#define RESUMED ".*STALL \\(proc 0\\): resumed after [0-9.]+ s"
const misuse_case_t misuse_cases[] = {
    {"stall-barrier", "any", 2, SHORTLY,
     "=STALL \\(proc 0\\): no progress for \\d+\\.\\d s. Waits for an event \\(1 collective outstanding\\); "
     ".*" OF_BARRIER ".*team_barrier::barrier is in progress" OTHERS
     ".*STALL \\(proc 0\\): rank 0 has waited [0-9.]+ s for an event \\(a collective\\); rank 1 has not begun as many "
     "collectives\\n" RESUMED,
     stall_barrier},
    {"stall-named-barrier", "any", 2, SHORTLY,
     "=Waits for gasnet_barrier_wait: the barrier \\(number 1\\): rank 1 has not entered it" OTHERS RESUMED,
     stall_named},
    {"stall-array", "any", 2, SHORTLY,
     "=Waits for all of 3 events; .*" OF_BARRIER ".*team_barrier::barrier is in progress.*\\n" RESUMED, stall_all},
    {"stall-blockuntil", "any", 2, SHORTLY,
     "=Waits for a condition of the client \\(GASNET_BLOCKUNTIL\\)" OTHERS RESUMED, stall_blockuntil},
    {"stall-collective", "any", 2, SHORTLY,
     "=Waits for an event \\(1 collective outstanding\\); .*collective .*waits for (member 1 \\()?rank 1.*is in "
     "progress" RESUMED,
     stall_collective},
    {"stall-team", "any", 2, SHORTLY,
     "=Waits for a blocking collective \\(gather::\\S*\\); .*waits for (member 1 \\()?rank 1\\)?" OTHERS RESUMED,
     stall_team},
    {"stall-room", "any", 2, BY_ITSELF,
     "=Waits for space for a request to rank 1, which has not handled earlier messages: does it poll\\?" OTHERS RESUMED,
     stall_room},
    {"stall-put", "any", 2, BY_ITSELF,
     "=(Waits for an event \\(1 put outstanding\\); a put to rank 1: 5000 of 5000 bytes outstanding" OTHERS RESUMED
     ")|STALL not possible",
     stall_put},
    {"stall-exit", "any", 2, SHORTLY " GASNET_EXITTIMEOUT=100",
     "=Waits for the end of the job: rank 1 has not called gasnet_exit" OTHERS, stall_exit},
    {"stall-backtrace", "any", 2, SHORTLY " GASNET_BACKTRACE=1 GASNET_BACKTRACE_TYPE=EXECINFO",
     "=STALL.*Backtrace by EXECINFO" RESUMED, stall_barrier},
    {"stall-not-stopped", "any", 2, "GASNET_STALL_TIMEOUT=2", "=^(?!.*STALL).*went on", stopped},
    {"stall-not-frozen", "any", 2, "GASNET_STALL_TIMEOUT=2", "=^(?!.*STALL).*FROZEN.*went on", frozen_rank},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

/* Every way in which a job ends. The first argument names the case; support/exits.py has its code
 * and output. A case that is not collective is started by the last rank. With "handler" as second
 * argument, ranks have a SIGQUIT handler that says so and calls gasnet_exit(4), as the
 * specification permits. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <gasnetex.h>
#include <gasnet_tools.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
#include <pthread.h>
#define HAS_THREADS 1
#endif

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;
static gex_Rank_t me, np;
static int last;
static const char *case_name;
static volatile sig_atomic_t wanted_code;

enum { EXIT_INDEX = 200, NOTHING_INDEX, PREPARE_INDEX, THREADS = 4 };

/* Exits with the code; 134 and 139 abort and raise SIGSEGV instead. */
static void exit_handler(gex_Token_t token, gex_AM_Arg_t code) {
    if (code == 134) abort();
    if (code == 139) raise(SIGSEGV);
    gasnet_exit((int)code);
}

static void nothing_handler(gex_Token_t token, void *payload, size_t bytes) {}

static void prepare_handler(gex_Token_t token, gex_AM_Arg_t code) {
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, 0, 0, NULL, 0, 0);
    if (last) gasnet_exit((int)code);
    gex_AM_CommitReplyMedium0(sd, NOTHING_INDEX, 0);
}

static void on_quit(int number) {
    static const char text[] = "in the SIGQUIT handler\n";
    ssize_t ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    gasnet_exit(4);
}

static void on_user(int number) { gasnet_exit(wanted_code); }

static void spin(void) {
    volatile int forever = 1;
    while (forever) continue;
}

static void complain(const char *text) {
    ssize_t ignored = write(2, text, strlen(text));
    (void)ignored;
}

extern volatile int gasnetti_frozen;
static volatile sig_atomic_t is_free;

static void set_free(int number) {
    is_free = 1;
    gasnetti_frozen = 0;
}

/* A child, in the role of a user with a debugger, sets this process free much later than all exit
 * timeouts of the test. */
static void free_later(int attaches) {
    pid_t parent = getpid();
    int ready[2];
    char word = 0;
    ssize_t ignored;
    signal(SIGUSR1, set_free);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (pipe(ready)) _exit(1);
    if (fork() == 0) {
        if (attaches) ptrace(PTRACE_SEIZE, parent, 0, 0);
        ignored = write(ready[1], &word, 1);
        sleep(3);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    ignored = read(ready[0], &word, 1);
    (void)ignored;
}

/* Leaves this process some percent of one processor: a child computes on it. */
static pid_t starve(void) {
    cpu_set_t one;
    int cpu = 0;
    CPU_ZERO(&one);
    if (!sched_getaffinity(0, sizeof one, &one))
        while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &one)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        spin();
    }
    if (nice(19) == -1) complain("nice has failed\n");
    return child;
}

/* Until the process has used so much processor time. */
static void compute(clock_t end) {
    while (clock() < end) {}
    complain("the handler has finished\n");
}

/* Registered before GASNet's own, which therefore runs first: the job has ended. */
static void at_exit(void) {
    complain("atexit ran\n");
    if (last && !strcmp(case_name, "handler-computes")) compute(CLOCKS_PER_SEC * 3 / 2);
    if (last && !strcmp(case_name, "handler-starved")) {
        pid_t other = starve();
        compute(clock() + CLOCKS_PER_SEC / 30);
        kill(other, SIGKILL);
    }
    if (last && !strcmp(case_name, "handler-frozen")) {
        free_later(0);
        abort();
    }
    if (!strcmp(case_name, "handler-hangs")) spin();
    if (last && (!strcmp(case_name, "handler-ends") || !strcmp(case_name, "handler-fails-late"))) _exit(7);
    if (last && !strcmp(case_name, "handler-ends-gasnet")) gasnet_exit(7);
    if (last && !strcmp(case_name, "handler-killed")) raise(SIGKILL);
    if (!strcmp(case_name, "handler-calls")) {
        for (int i = 0; i < 1000000; i++) gasnet_AMPoll(); /* not every poll looks whether the job has ended */
        complain("atexit went on\n");
    }
}

/* More than the limit that test_ends.py sets. */
static void use_memory(void) {
    enum { MIB = 1 << 20, BLOCKS = 1024 };
    for (int i = 0; i < BLOCKS; i++) {
        char *block = (char *)malloc(MIB);
        if (block) memset(block, i, MIB);
    }
    complain("there is no limit\n");
    gasnet_exit(0);
}

/* Runs after all exit handlers. */
__attribute__((destructor)) static void at_unload(void) {
    if (last && !strcmp(case_name, "destructor-aborts")) abort();
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

static void poll_for_ever(void) {
    volatile int forever = 1;
    while (forever) gasnet_AMPoll();
}

static void wait_for_ever(void) {
    static volatile int never;
    GASNET_BLOCKUNTIL(never);
}

static void send_for_ever(void) {
    volatile int forever = 1;
    while (forever) gex_AM_RequestMedium0(tm, np - 1, NOTHING_INDEX, NULL, 0, GEX_EVENT_NOW, 0);
}

/* Messages to all: a signal finds this rank inside the network most of the time. */
static void flood_for_ever(void) {
    static char payload[512];
    volatile int forever = 1;
    gex_Rank_t to = me;
    while (forever) {
        to = (to + 1) % np;
        gex_AM_RequestMedium0(tm, to, NOTHING_INDEX, payload, sizeof payload, GEX_EVENT_NOW, 0);
    }
}

static void say(const char *what) {
    if (me == 0) {
        printf("%s\n", what);
        fflush(stdout);
    }
}

#ifdef HAS_THREADS
static int thread_code;
static void (*thread_rest)(void);

static volatile int work_is_done;

static void *work(void *argument) {
    usleep(700000);
    work_is_done = 1;
    return argument;
}

/* Without end: the compiler must not see through it. */
static int deeper(volatile char *from) {
    volatile char frame[4096];
    frame[0] = *from;
    return frame[0] == 1 ? 1 : deeper(frame) + frame[0];
}

static void *overflow(void *argument) {
    volatile char start = 0;
    gasnet_AMPoll();
    if (last && argument == (void *)&thread_code) deeper(&start);
    thread_rest();
    return NULL;
}

static void *exit_in_first_thread(void *argument) {
    if (last && argument == (void *)&thread_code) {
        usleep(100000);
        gasnet_exit(thread_code);
    }
    thread_rest();
    return NULL;
}

static void *exit_in_every_thread(void *argument) {
    gasnet_exit(thread_code);
    return NULL;
}

static void run_threads(void *(*function)(void *)) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, function, i ? NULL : (void *)&thread_code);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void *read_stdin(void *argument) {
    getchar(); /* holds the lock of the stream */
    return NULL;
}
#endif

/* As daemons do; then opens files that get the same numbers. */
static void close_descriptors(void) {
    int opened = 0;
    for (int fd = 3; fd < 256; fd++) {
        if (close(fd) == 0) opened++;
    }
    while (opened-- > 0) open("/dev/null", O_RDWR);
}

/* The cases before attach. */
static void early(const char *name) {
    if (!strcmp(name, "early-collective")) gasnet_exit(6);
    if (!strcmp(name, "early-one") && last) gasnet_exit(7);
    if (!strcmp(name, "early-return-one") && last) exit(8);
    if (!strcmp(name, "early-abort") && last) abort();
}

/* Calls the function if this rank is the one, else does what the others do. */
#define ONE(action, others) \
    do {                    \
        if (last) {         \
            usleep(100000); \
            action;         \
        } else {            \
            others;         \
        }                   \
    } while (0)

static int run_messages(const char *name) {
    gex_Rank_t next = (me + 1) % np;
    if (!strcmp(name, "handlers-collective")) {
        gex_AM_RequestShort1(tm, next, EXIT_INDEX, 0, 10);
    } else if (!strcmp(name, "handler-remote")) {
        if (me == 0) gex_AM_RequestShort1(tm, np - 1, EXIT_INDEX, 0, 11);
    } else if (!strcmp(name, "handler-loopback")) {
        if (last) gex_AM_RequestShort1(tm, me, EXIT_INDEX, 0, 12);
    } else if (!strcmp(name, "handler-many")) {
        gex_AM_RequestShort1(tm, np - 1, EXIT_INDEX, 0, 13);
    } else if (!strcmp(name, "handler-abort")) {
        if (me == 0) gex_AM_RequestShort1(tm, np - 1, EXIT_INDEX, 0, 134);
    } else if (!strcmp(name, "handler-segv")) {
        if (me == 0) gex_AM_RequestShort1(tm, np - 1, EXIT_INDEX, 0, 139);
    } else if (!strcmp(name, "prepared-request")) {
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, next, NULL, 0, 0, NULL, 0, 0);
        if (last) gasnet_exit(14);
        gex_AM_CommitRequestMedium0(sd, NOTHING_INDEX, 0);
    } else if (!strcmp(name, "prepared-reply")) {
        gex_AM_RequestShort1(tm, next, PREPARE_INDEX, 0, 15);
    } else {
        return 0;
    }
    poll_for_ever();
    return 1;
}

static void run_crash(const char *name) {
    static int *volatile nowhere;
    if (!strcmp(name, "abort")) ONE(abort(), barrier());
    if (!strcmp(name, "fatalerror")) ONE(gasnett_fatalerror("a made-up error"), barrier());
    if (!strcmp(name, "segv")) ONE(*nowhere = 1, barrier());
    if (!strcmp(name, "bus")) ONE(raise(SIGBUS), barrier());
    if (!strcmp(name, "fpe")) ONE(raise(SIGFPE), barrier());
    if (!strcmp(name, "segv-everywhere")) *nowhere = 1;
    if (!strcmp(name, "kill")) ONE(raise(SIGKILL), barrier());
    if (!strcmp(name, "kill-spin")) ONE(raise(SIGKILL), spin());
    if (!strcmp(name, "kill-wait")) ONE(raise(SIGKILL), wait_for_ever());
    if (!strcmp(name, "kill-flood")) ONE(raise(SIGKILL), send_for_ever());
    if (!strcmp(name, "memory")) ONE(use_memory(), barrier());
    if (!strcmp(name, "raw-exit")) ONE(_exit(9), barrier());
    if (!strcmp(name, "raw-exit-zero")) ONE(_exit(0), (usleep(400000), gasnet_exit(5)));
    if (!strcmp(name, "stop")) {
        if (last) raise(SIGSTOP);
        gasnet_exit(16);
    }
    if (!strcmp(name, "int")) ONE(kill(getpid(), SIGINT), barrier());
    if (!strcmp(name, "term")) ONE(kill(getpid(), SIGTERM), barrier());
    if (!strcmp(name, "term-spin")) ONE(kill(getpid(), SIGTERM), spin());
    if (!strcmp(name, "wait")) wait_for_ever();
    if (!strcmp(name, "spin")) spin();
    if (last) pause();
}

static int run_process(const char *name) {
    int status = 0;
    if (!strcmp(name, "child-exits") || !strcmp(name, "child-gasnet-exits") || !strcmp(name, "child-crashes")) {
        pid_t child = fork();
        if (child == 0) {
            if (!strcmp(name, "child-exits")) exit(3);
            if (!strcmp(name, "child-crashes")) abort();
            gasnet_exit(3);
        }
        waitpid(child, &status, 0);
        barrier();
        if (strcmp(name, "child-crashes") != 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 3)) gasnet_exit(1);
        if (!strcmp(name, "child-crashes") && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)) gasnet_exit(1);
        barrier();
        say("the job went on");
        barrier();
        return 1;
    }
    if (!strcmp(name, "late-output")) {
        if (me == 0) {
            usleep(700000);
            printf("rank 0 was given time\n");
        }
        return 1;
    }
    if (!strcmp(name, "late-work") || !strcmp(name, "late-sleep") || !strcmp(name, "late-poll")) {
        /* Longer than the exit timeout; who polls does so for ever. */
        gasnett_tick_t began = gasnett_ticks_now();
        while (me == 0 && (name[5] == 'p' || gasnett_ticks_to_ns(gasnett_ticks_now() - began) < 1500000000u)) {
            if (name[5] == 's') usleep(10000);
            if (name[5] == 'p') gasnet_AMPoll();
        }
        if (me == 0) printf("rank 0 has finished its work\n");
        return 1;
    }
    if (!strcmp(name, "late-child")) { /* does the work */
        if (me == 0 && system("sleep 2") == 0) printf("rank 0 has finished its work\n");
        return 1;
    }
    if (!strcmp(name, "late-served")) {
        /* As Chapel's tasks: only a message could wake this rank. */
        while (me == 0) pause();
        return 1;
    }
    if (!strcmp(name, "unflushed")) {
        printf("rank %u wrote this\n", (unsigned)me);
        ONE(gasnet_exit(17), barrier());
    }
    if (!strcmp(name, "unflushed-spin")) {
        printf("rank %u wrote this\n", (unsigned)me);
        ONE(gasnet_exit(17), spin());
    }
    if (!strcmp(name, "kept-output")) {
        /* Nobody reads: what printf keeps is to be written at the end. */
        static const char full[4096];
        int flags = fcntl(1, F_GETFL);
        if (!me) {
            fcntl(1, F_SETFL, flags | O_NONBLOCK);
            while (write(1, full, sizeof full) > 0) {}
            fcntl(1, F_SETFL, flags);
        }
        barrier();
        printf("kept by rank %u\n", (unsigned)me);
        return 1;
    }
    if (!strcmp(name, "much-output")) {
        for (int i = 0; i < 20000; i++) printf("line %d\n", i);
        return 1;
    }
    return 0;
}

/* Returns the exit status for main, or does not return. */
static int run(const char *name) {
    if (run_messages(name) || run_process(name)) return 0;
    if (!strcmp(name, "success") || !strcmp(name, "handler-calls")) return 0;
    if (!strcmp(name, "handler-hangs")) return 20;
    if (!strncmp(name, "handler-ends", 12) || !strcmp(name, "handler-killed") || !strcmp(name, "destructor-aborts"))
        return 0;
    if (!strcmp(name, "handler-fails-late")) return 3;
    if (!strcmp(name, "collective-exit")) gasnet_exit(1);
    if (!strcmp(name, "collective-return")) return 2;
    if (!strcmp(name, "collective-different")) gasnet_exit(last ? 21 : 0);
    if (!strncmp(name, "closed-", 7)) {
        close_descriptors();
        barrier();
        if (!strcmp(name, "closed-exit")) gasnet_exit(0);
        if (!strcmp(name, "closed-one")) ONE(gasnet_exit(22), wait_for_ever());
        if (!strcmp(name, "closed-spin")) ONE(gasnet_exit(0), spin());
        return 0;
    }
    if (!strcmp(name, "exit-barrier")) ONE(gasnet_exit(3), barrier());
    if (!strcmp(name, "barriers"))
        for (;;) barrier();
    if (!strcmp(name, "exit-wait")) ONE(gasnet_exit(3), wait_for_ever());
    if (!strcmp(name, "exit-poll")) ONE(gasnet_exit(3), poll_for_ever());
    if (!strcmp(name, "exit-spin")) ONE(gasnet_exit(5), spin());
    if (!strcmp(name, "handler-computes") || !strcmp(name, "handler-frozen")) return 0;
    if (!strcmp(name, "handler-starved")) return 0;
    if (!strcmp(name, "frozen") || !strcmp(name, "traced")) {
        if (!last) gasnet_exit(0);
        free_later(!strcmp(name, "traced"));
        if (!strcmp(name, "frozen")) abort();
        while (!is_free) usleep(10000);
        gasnet_exit(5);
    }
    if (!strcmp(name, "exit-zero-barrier")) ONE(gasnet_exit(0), barrier());
    if (!strcmp(name, "return-barrier")) {
        ONE(return 8, barrier());
    }
    if (!strcmp(name, "return-spin")) {
        ONE(return 9, spin());
    }
    if (!strcmp(name, "signal-handler")) {
        wanted_code = 18;
        gasnett_reghandler(SIGUSR1, on_user);
        ONE(kill(getpid(), SIGUSR1); pause(), barrier());
    }
    if (!strcmp(name, "exit-alarm")) {
        static const struct itimerval soon = {{0, 0}, {0, 50000}};
        wanted_code = 22;
        if (last) {
            printf("kept until the end\n");
            gasnett_reghandler(SIGALRM, on_user);
            setitimer(ITIMER_REAL, &soon, NULL);
        }
        flood_for_ever();
    }
#ifdef HAS_THREADS
    if (!strcmp(name, "threads-collective")) {
        thread_code = 51;
        run_threads(exit_in_every_thread);
    }
    if (!strncmp(name, "thread-one", 10)) {
        thread_code = 53;
        thread_rest = !strcmp(name, "thread-one-spin") ? spin : poll_for_ever;
        run_threads(exit_in_first_thread);
    }
    if (!strcmp(name, "thread-overflow")) {
        thread_rest = poll_for_ever;
        run_threads(overflow);
    }
    if (!strcmp(name, "late-thread")) {
        pthread_t thread;
        if (me == 0) {
            pthread_create(&thread, NULL, work, NULL);
            GASNET_BLOCKUNTIL(work_is_done);
            printf("rank 0 has finished its work\n");
        }
        return 0;
    }
    if (!strcmp(name, "thread-reads")) {
        pthread_t thread;
        pthread_create(&thread, NULL, read_stdin, NULL);
        usleep(50000);
        gasnet_exit(19);
    }
#endif
    run_crash(name);
    return 99;
}

int main(int argc, char **argv) {
    gex_AM_Entry_t entries[3];
    const char *name = argc > 1 ? argv[1] : "success";
    case_name = name;
    atexit(at_exit);
    if (gex_Client_Init(&client, &ep, &tm, "EXIT", &argc, &argv, 0) != GASNET_OK) return 98;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    last = me == np - 1;
    if (argc > 2 && !strcmp(argv[2], "handler")) gasnett_reghandler(SIGQUIT, on_quit);
    early(name);

    memset(entries, 0, sizeof entries);
    entries[0].gex_index = EXIT_INDEX;
    entries[0].gex_fnptr = (gex_AM_Fn_t)exit_handler;
    entries[0].gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT;
    entries[0].gex_nargs = 1;
    entries[1].gex_index = NOTHING_INDEX;
    entries[1].gex_fnptr = (gex_AM_Fn_t)nothing_handler;
    entries[1].gex_flags = GEX_FLAG_AM_REQREP | GEX_FLAG_AM_MEDLONG;
    entries[2].gex_index = PREPARE_INDEX;
    entries[2].gex_fnptr = (gex_AM_Fn_t)prepare_handler;
    entries[2].gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT;
    entries[2].gex_nargs = 1;
    if (gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) != GASNET_OK) return 97;
    if (gex_EP_RegisterHandlers(ep, entries, 3) != GASNET_OK) return 96;
    barrier();
    say("started");
    barrier();
    return run(name);
}

/* Initialises GASNet in a process with other threads. The first argument:
 *   team       an OpenMP team has worked before, and works again
 *   thread     a thread initialises, and main waits for it
 *   concurrent a thread initialises while main computes; main ends the job
 *   single     no other thread: the process id of the parent is printed
 *   hang       a thread initialises, and no rank ends
 *   absent     a thread initialises, but never in rank 1
 *   changed    main first splits its second argument "a,b", leaves its folder, and blocks signals
 *   sigwait    all threads block signals, one waits for SIGUSR1
 *   forked     the process forks another one, which starts a thread and initialises */
#include <gasnetex.h>

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static const char *what;
static volatile int is_joined, is_signalled;

static int team(void) {
    int count = 0;
#pragma omp parallel num_threads(3) reduction(+ : count)
    count++;
    return count;
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

static void join(void) {
    char line[80];
    if (gex_Client_Init(&client, &ep, &tm, "THREADS", NULL, NULL, 0) != GASNET_OK) exit(3);
    barrier();
    snprintf(line, sizeof line, "rank %u of %u, parent %d\n", (unsigned)gex_TM_QueryRank(tm),
             (unsigned)gex_TM_QuerySize(tm), (int)getppid());
    fputs(line, stdout);
    fflush(stdout);
    is_joined = 1;
}

static void *starter(void *unused) {
    join();
    return unused;
}

/* Whether main begins as the program was started: arguments, folder, no blocked signal. Changes all
   of them. */
static int is_as_started(int argc, char **argv) {
    char folder[4096];
    sigset_t mask;
    int is = argc == 3 && !strcmp(argv[2], "a,b") && getcwd(folder, sizeof folder) && strcmp(folder, "/");
    is = is && !pthread_sigmask(SIG_SETMASK, NULL, &mask) && !sigismember(&mask, SIGTERM);
    if (argc == 3) argv[2][1] = 0;
    sigfillset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return is && !chdir("/");
}

static void *waiter(void *unused) {
    sigset_t mask;
    int number;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    if (!sigwait(&mask, &number)) printf("SIGUSR1 came\n");
    fflush(stdout);
    is_signalled = 1;
    return unused;
}

static void *idle(void *unused) {
    for (;;) pause();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    int before = 0, is = 0;
    what = argc > 1 ? argv[1] : "team";
    if (!strcmp(what, "team")) before = team();
    if (!strcmp(what, "sigwait")) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        if (pthread_create(&thread, NULL, waiter, NULL)) return 2;
    }
    if (!strcmp(what, "changed")) is = is_as_started(argc, argv);
    /* Only the started process has no variable of the library's own. */
    if (!strcmp(what, "absent") && getenv("_GASNET_RANK") && strstr(getenv("_GASNET_RANK"), ",1,")) return 0;
    if (!strcmp(what, "forked")) {
        int status;
        pid_t pid = fork();
        if (pid > 0) return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 9;
        if (pthread_create(&thread, NULL, idle, NULL)) return 2;
    }
    if (!strcmp(what, "team") || !strcmp(what, "single") || !strcmp(what, "forked") || !strcmp(what, "sigwait")) {
        join();
        while (!strcmp(what, "sigwait") && !is_signalled) usleep(1000);
    } else {
        if (pthread_create(&thread, NULL, starter, NULL)) return 2;
        while (!strcmp(what, "concurrent") && !is_joined) usleep(1000);
        if (pthread_join(thread, NULL)) return 2;
    }
    if (before) printf("teams of %d and %d\n", before, team());
    if (is) printf("main began as started\n");
    printf("main goes on\n");
    fflush(stdout);
    while (!strcmp(what, "hang")) pause();
    barrier();
    gasnet_exit(argc > 2 ? atoi(argv[2]) : 0);
    return 1;
}

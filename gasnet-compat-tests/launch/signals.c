/* Prints the signals that reach a rank. The first argument says when the handlers are installed:
 * "before" or "after" gex_Client_Init, or "thread": before it, in a process with another thread. */
#include <gasnetex.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int numbers[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
static volatile sig_atomic_t got;

static void on_signal(int number) { got = number; }

static void install(void) {
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

static void *idle(void *unused) {
    for (;;) pause();
    return unused;
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    pthread_t thread;
    const char *when = argc > 1 ? argv[1] : "before";
    int after = !strcmp(when, "after");
    if (!after) install();
    if (!strcmp(when, "thread") && pthread_create(&thread, NULL, idle, NULL)) return 2;
    if (gex_Client_Init(&client, &ep, &tm, "SIGNALS", &argc, &argv, 0) != GASNET_OK) return 3;
    if (after) install();
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gex_TM_QueryRank(tm) == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    for (int tries = 0; !got && tries < 60000; tries++) usleep(1000);
    printf("rank %u got signal %d\n", (unsigned)gex_TM_QueryRank(tm), (int)got);
    fflush(stdout);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
    return 1;
}

/* Threads that the thread mode of the library does not allow. */
#include <gasnetex.h>

#include <pthread.h>

static void on_start(gex_Token_t token);
#define MISUSE_HANDLERS \
    { 200, (gex_AM_Fn_t)on_start, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_start" }
#define MISUSE_HANDLER_COUNT 1
#include "misuse.h"

static void *poll_once(void *ignored) {
    gasnet_AMPoll();
    return ignored;
}
static void poll_elsewhere(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, poll_once, NULL) == 0) pthread_join(thread, NULL);
}
/* While this thread is inside a poll. */
static void on_start(gex_Token_t token) { poll_elsewhere(); }
static void during_poll(void) { gex_AM_RequestShort0(tm, me, 200, 0); }
static void in_turns(void) {
    poll_elsewhere();
    gasnet_AMPoll();
    printf("in turns\n");
}

const misuse_case_t misuse_cases[] = {
    {"thread-second-in-seq", "debug-seq", 2, "", "a second thread calls GASNet.*\\(SEQ\\)", poll_elsewhere},
    {"thread-two-in-parsync", "debug-parsync", 2, "", "two threads are inside GASNet at the same time.*\\(PARSYNC\\)",
     during_poll},
    {"thread-turns-in-parsync", "debug-parsync", 2, "", "=(in turns.*){2}", in_turns},
    {"thread-two-in-par", "debug-par", 1, "", "=^$", during_poll},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

/* GASNET_FREEZE*, GASNET_BACKTRACE* and GASNET_VERBOSEENV in a job (README, "Environment
 * variables"). A frozen rank is let go by an alarm, as a debugger would. */
#include <gasnetex.h>
#include <gasnet_tools.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

extern volatile int gasnetti_frozen;

static void thaw(int number) {
    if (gasnetti_frozen) gasnetti_frozen = 0;
    else alarm(1);
}
/* In every rank: alarms do not pass a fork. */
static void thaw_later(void) {
    signal(SIGALRM, thaw);
    alarm(1);
}
__attribute__((constructor)) static void at_start(void) {
    if (!getenv("GASNET_FREEZE")) return;
    thaw_later();
    pthread_atfork(NULL, NULL, thaw_later);
}

#include "misuse.h"

static void nothing(void) {
    if (first()) printf("went on\n");
}
static void fatal_error(void) {
    if (!first()) return;
    thaw_later();
    gasnett_fatalerror_nopos("a made-up error");
}
static void fault(void) {
    if (!first()) return;
    thaw_later();
    raise(SIGSEGV);
}
static void signal_self(void) {
    if (!first()) return;
    thaw_later();
    raise(SIGUSR2);
    printf("went on\n");
}
static void fatal_everywhere(void) {
    barrier();
    gasnett_fatalerror_nopos("a made-up error");
}
static void fatal_on_last(void) {
    if (me == np - 1) gasnett_fatalerror_nopos("a made-up error");
}

#define EXECINFO " GASNET_BACKTRACE_TYPE=EXECINFO"
const misuse_case_t misuse_cases[] = {
    {"freeze-at-start", "any", 1, "GASNET_FREEZE=1",
     "=FROZEN \\(proc 0\\): process \\d+ on \\S+ waits for a debugger.*gdb -p \\d+.*went on", nothing},
    {"freeze-at-start-all", "any", 3, "GASNET_FREEZE=yes",
     "=(?=.*FROZEN \\(proc 0\\))(?=.*FROZEN \\(proc 1\\))(?=.*FROZEN \\(proc 2\\)).*went on", nothing},
    {"freeze-not", "any", 2, "GASNET_FREEZE=0 GASNET_FREEZE_ON_ERROR=0", "=^(?!.*FROZEN).*went on", nothing},
    {"freeze-on-error", "any", 2, "GASNET_FREEZE_ON_ERROR=1", "a made-up error.*FROZEN \\(proc 0\\)", fatal_error},
    {"freeze-on-fault", "any", 2, "GASNET_FREEZE_ON_ERROR=1", "SIGSEGV\\(11\\).*FROZEN \\(proc 0\\)", fault},
    {"freeze-not-on-error", "any", 2, "", "^(?!.*FROZEN).*a made-up error", fatal_error},
    {"freeze-by-signal", "any", 2, "GASNET_FREEZE_SIGNAL=usr2", "=FROZEN \\(proc 0\\).*went on", signal_self},
    {"backtrace-on-error", "any", 2, "GASNET_BACKTRACE=1" EXECINFO,
     "a made-up error.*Backtrace by EXECINFO \\(proc 0\\).*\\[0x", fatal_error},
    {"backtrace-on-fault", "any", 2, "GASNET_BACKTRACE=1" EXECINFO,
     "SIGSEGV.*Backtrace by EXECINFO \\(proc 0\\).*\\[0x", fault},
    {"backtrace-off", "any", 2, "GASNET_BACKTRACE=0" EXECINFO, "^(?!.*Backtrace by).*a made-up error", fatal_error},
    {"backtrace-other-rank", "any", 3, "GASNET_BACKTRACE=1 GASNET_BACKTRACE_NODES=0-1" EXECINFO,
     "^(?!.*Backtrace by).*a made-up error", fatal_on_last},
    {"backtrace-this-rank", "any", 3, "GASNET_BACKTRACE=1 GASNET_BACKTRACE_NODES=0,2" EXECINFO,
     "a made-up error.*Backtrace by EXECINFO \\(proc 2\\)", fatal_on_last},
    {"backtrace-order", "any", 2, "GASNET_BACKTRACE=1 GASNET_BACKTRACE_TYPE=NONE,EXECINFO",
     "NONE is not available here.*Backtrace by EXECINFO", fatal_error},
    {"backtrace-by-signal", "any", 2, "GASNET_BACKTRACE_SIGNAL=12" EXECINFO,
     "=Backtrace by EXECINFO \\(proc 0\\).*went on", signal_self},
    {"backtrace-bad-signal", "any", 2, "GASNET_BACKTRACE_SIGNAL=SIGNONE", "GASNET_BACKTRACE_SIGNAL", nothing},
    {"backtrace-bad-nodes", "any", 2, "GASNET_BACKTRACE_NODES=a-b", "GASNET_BACKTRACE_NODES", nothing},
    {"backtrace-once", "any", 1, "GASNET_BACKTRACE=1" EXECINFO,
     "^(?!.*Backtrace by.*Backtrace by).*Backtrace by EXECINFO", fatal_everywhere},
    {"verboseenv", "any", 2, "GASNET_VERBOSEENV=1 GASNET_FREEZE_SIGNAL=usr2 GASNET_BACTRACE=1",
     "=^(?!.*GASNET_FREEZE_SIGNAL.*GASNET_FREEZE_SIGNAL)(?=.*GASNET_FREEZE_SIGNAL = "
     "SIGUSR2\\n)(?=.*GASNET_BACKTRACE_TYPE = \\S*EXECINFO "
     "\\(default\\))(?!.*GASNET_BACKTRACE_TYPE.*GASNET_BACKTRACE_TYPE)(?=.*GASNET_BACTRACE is set, but unknown to "
     "GASNet; did you mean GASNET_BACKTRACE)(?=.*GASNET_BACKTRACE = NO +\\(default\\)).*went on",
     nothing},
    {"verboseenv-off", "any", 2, "GASNET_VERBOSEENV=n GASNET_BACTRACE=1", "=^(?!.*ENV parameter).*went on", nothing},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

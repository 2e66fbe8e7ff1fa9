/* README-tools, "Backtracing and debugger attach", and the README's GASNET_BACKTRACE* and
 * GASNET_FREEZE* variables. */
#include <gasnet_tools.h>

#include <sys/mman.h>

#include "tools_check.h"

static volatile int user_fails, user_calls;
static int user_backtrace(int fd) {
    user_calls = user_calls + 1;
    if (user_fails) return 1;
    return write(fd, "frames of the client\n", 21) == 21 ? 0 : 1;
}
gasnett_backtrace_type_t gasnett_backtrace_user = {"MYAPP", &user_backtrace, 1};

static const char *type, *nodes;
static int use_mechanism(void) {
    if (type) gasnett_setenv("GASNET_BACKTRACE_TYPE", type);
    gasnett_backtrace_init("tools_backtrace");
    return gasnett_print_backtrace(STDOUT_FILENO) ? 3 : 0;
}
static int fall_through(void) {
    user_fails = 1;
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "MYAPP,EXECINFO");
    gasnett_backtrace_init(gasnett_exe_name());
    return gasnett_print_backtrace(STDOUT_FILENO) || user_calls != 1;
}
static int after_fork(void) {
    int status;
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "GDB,EXECINFO");
    gasnett_backtrace_init(NULL);
    if (fork() == 0) _exit(gasnett_print_backtrace(STDOUT_FILENO));
    return wait(&status) > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
static int if_enabled(void) {
    if (nodes) gasnett_setenv("GASNET_BACKTRACE_NODES", nodes);
    if (type) gasnett_setenv("GASNET_BACKTRACE", type);
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "MYAPP");
    gasnett_backtrace_init(NULL);
    return gasnett_print_backtrace_ifenabled(STDOUT_FILENO) == 0 ? 0 : 3;
}
static int fatal(void) {
    gasnett_setenv("GASNET_BACKTRACE", "1");
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "MYAPP");
    gasnett_fatalerror_nopos("the end");
    return 0;
}
static int replaced(int fd) { return write(fd, "replaced\n", 9) == 9 ? 0 : 1; }
static int fatal_replaced(void) {
    gasnett_print_backtrace_ifenabled = replaced;
    gasnett_fatalerror_nopos("the end");
    return 0;
}
static int by_signal(void) {
    gasnett_setenv("GASNET_BACKTRACE_SIGNAL", "SIGUSR1");
    gasnett_setenv("GASNET_BACKTRACE_TYPE", "MYAPP");
    gasnett_backtrace_init(NULL);
    errno = 1234;
    raise(SIGUSR1);
    printf("went on\n");
    return errno == 1234 ? 0 : 1;
}
static int bad_signal(void) {
    gasnett_setenv("GASNET_FREEZE_SIGNAL", "SIGNONSENSE");
    gasnett_setenv("GASNET_BACKTRACE_SIGNAL", "SIGKILL");
    gasnett_backtrace_init(NULL);
    return 0;
}

/* A process that freezes; another one, which shares the flag, clears it, as a debugger would. */
static int freeze(void) {
    volatile int *frozen = (volatile int *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((void *)frozen == MAP_FAILED) return 1;
    if (fork() == 0) {
        while (!__atomic_load_n(frozen, __ATOMIC_ACQUIRE)) gasnett_sched_yield();
        __atomic_store_n(frozen, 0, __ATOMIC_RELEASE);
        _exit(0);
    }
    gasnett_freezeForDebuggerNow(frozen, "frozen");
    return *frozen;
}
static int not_frozen(void) {
    gasnett_freezeForDebuggerErr();
    return 0;
}
static int frozen_on_error(void) {
    gasnett_setenv("GASNET_FREEZE_ON_ERROR", "1");
    alarm(2);
    gasnett_freezeForDebuggerErr();
    return 0;
}
static int frozen_by_signal(void) {
    gasnett_setenv("GASNET_FREEZE_SIGNAL", "usr2");
    gasnett_backtrace_init(NULL);
    alarm(2);
    raise(SIGUSR2);
    return 0;
}

int main(void) {
    type = "MYAPP";
    in_child(use_mechanism);
    CHECK(child_exited(0) && child_said("frames of the client"));
    type = "user"; /* any client's */
    in_child(use_mechanism);
    CHECK(child_exited(0) && child_said("frames of the client"));
    type = "EXECINFO";
    in_child(use_mechanism);
    CHECK(child_exited(0) && child_said("EXECINFO") && child_said("[0x"));
    type = "NOSUCH,MYAPP";
    in_child(use_mechanism);
    CHECK(child_exited(0) && child_said("NOSUCH is not available") && child_said("frames of the client"));
    type = "NOSUCH";
    in_child(use_mechanism);
    CHECK(child_exited(3));
    type = NULL; /* the default list starts with the client's */
    in_child(use_mechanism);
    CHECK(child_exited(0) && child_said("frames of the client"));
    in_child(fall_through);
    CHECK(child_exited(0) && child_said("EXECINFO"));
    type = "GDB";
    in_child(use_mechanism);
    CHECK(child_exited(0) ? child_said("#0 ") && child_said("use_mechanism") : child_exited(3));
    in_child(after_fork);
    CHECK(child_exited(0) && child_said("*** Backtrace by "));

    type = nodes = NULL;
    in_child(if_enabled);
    CHECK(child_exited(3) && !strstr(child.output, "frames"));
    type = "1";
    in_child(if_enabled);
    CHECK(child_exited(0) && child_said("frames of the client"));
    nodes = "1-3,5";
    in_child(if_enabled);
    CHECK(child_exited(3) && !strstr(child.output, "frames"));
    nodes = "0,2";
    in_child(if_enabled);
    CHECK(child_exited(0) && child_said("frames of the client"));

    in_child(fatal);
    CHECK(child_killed(SIGABRT) && child_said("the end") && child_said("frames of the client"));
    in_child(fatal_replaced);
    CHECK(child_killed(SIGABRT) && child_said("the end") && child_said("replaced"));
    in_child(by_signal);
    CHECK(child_exited(0) && child_said("frames of the client") && child_said("went on"));
    in_child(bad_signal);
    CHECK(child_exited(0) && child_said("GASNET_FREEZE_SIGNAL=SIGNONSENSE") && child_said("cannot be caught"));

    in_child(freeze);
    CHECK(child_exited(0) && child_said("waits for a debugger") && child_said("set var frozen = 0"));
    in_child(not_frozen);
    CHECK(child_exited(0) && child.output[0] == 0);
    in_child(frozen_on_error);
    CHECK(child_killed(SIGALRM) && child_said("waits for a debugger"));
    in_child(frozen_by_signal);
    CHECK(child_killed(SIGALRM) && child_said("waits for a debugger"));
    return test_result("tools_backtrace");
}

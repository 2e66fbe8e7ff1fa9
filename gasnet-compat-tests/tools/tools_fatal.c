/* README-tools: gasnett_fatalerror, gasnett_current_loc, gasnett_killmyprocess, gasnett_reghandler,
 * streams. */
#include <gasnet_tools.h>

#include "tools_check.h"

static int with_position(void) {
    gasnett_fatalerror("number %d of %s", 3, "four");
    return 0;
}
static void at_exit(void) { printf("exit handler ran\n"); }

static volatile sig_atomic_t seen;
static void handler(int sig) { seen = sig; }

int main(void) {
    char *place = gasnett_current_loc;
    CHECK(strstr(place, "main") && strstr(place, "tools_fatal.c"));
    free(place);
    CHECK(!strcmp(GASNETT_CURRENT_FUNCTION, "main"));

    in_child(with_position);
    CHECK(child_killed(SIGABRT));
    CHECK(child_said("*** FATAL ERROR (") && child_said("number 3 of four\n"));
    CHECK(child_said("with_position() at ") && child_said("tools_fatal.c:"));
    IN_CHILD(gasnett_fatalerror_nopos("number %d", 3));
    CHECK(child_killed(SIGABRT) && child_said("number 3\n") && !strstr(child.output, "tools_fatal.c"));
    IN_CHILD((gasnett_fatalerror)("number %d", 3));
    CHECK(child_killed(SIGABRT) && child_said("number 3\n"));
    char text[9000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    IN_CHILD(gasnett_fatalerror("%s", text));
    CHECK(child_killed(SIGABRT) && child_said("xxx...") && strlen(child.output) < 6000);

    IN_CHILD(atexit(at_exit); gasnett_killmyprocess(42));
    CHECK(child_exited(42) && !strstr(child.output, "exit handler"));
    IN_CHILD(printf("before"); gasnett_close_streams(); printf("after"); gasnett_flush_streams();
             gasnett_close_streams());
    CHECK(child_exited(0) && child_said("before") && !strstr(child.output, "after"));
    IN_CHILD(printf("buffered text"); gasnett_flush_streams(); _exit(0));
    CHECK(child_exited(0) && child_said("buffered text"));

    CHECK(gasnett_reghandler(SIGUSR2, handler) == SIG_DFL);
    raise(SIGUSR2);
    CHECK(seen == SIGUSR2);
    CHECK(gasnett_reghandler(SIGUSR2, SIG_IGN) == handler);
    raise(SIGUSR2);
    CHECK(gasnett_reghandler(SIGUSR2, SIG_DFL) == SIG_IGN);
    CHECK(gasnett_reghandler(SIGKILL, handler) == SIG_ERR);
    CHECK(!strcmp(gasnett_signame_fromval(SIGINT), "SIGINT") && !gasnett_signame_fromval(-7));
    return test_result("tools_fatal");
}

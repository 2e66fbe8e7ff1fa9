/* Exit handlers of a client before, between and after those of UCX and GASNet.
 *
 * around_ucx FIRST END
 *
 * FIRST  client: this program opens UCX, before GASNet does; network: GASNet does
 * END    return, exit, gasnet_exit
 *
 * Messages are under way at the end, and every handler calls GASNet. */
#include <gasnetex.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTHING_INDEX = 200, MESSAGES = 500 };

static gex_TM_t tm;

static void nothing_handler(gex_Token_t token, void *payload, size_t bytes) {}

static void poll_and_write(const char *text) {
    gasnet_AMPoll();
    ssize_t ignored = write(1, text, strlen(text));
    (void)ignored;
}
static void before_ucx(void) { poll_and_write("before UCX\n"); }
static void before_gasnet(void) { poll_and_write("before GASNet\n"); }
static void after_gasnet(void) { poll_and_write("after GASNet\n"); }
__attribute__((destructor)) static void at_unload(void) { poll_and_write("destructor\n"); }

static gex_AM_Entry_t handlers[] = {
    {NOTHING_INDEX, (gex_AM_Fn_t)nothing_handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, NULL},
};

int main(int argc, char **argv) {
    static char payload[512];
    gex_Client_t client;
    gex_EP_t ep;
    if (argc < 3) return 2;
    atexit(before_ucx);
    if (!strcmp(argv[1], "client") && !dlopen("libucp.so.0", RTLD_NOW | RTLD_GLOBAL)) {
        printf("skip: %s\n", dlerror());
        return 77;
    }
    atexit(before_gasnet);
    gex_Client_Init(&client, &ep, &tm, "around_ucx", &argc, &argv, 0);
    gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof *handlers);
    atexit(after_gasnet);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gex_Rank_t next = (gex_TM_QueryRank(tm) + 1) % gex_TM_QuerySize(tm);
    for (int i = 0; i < MESSAGES; i++)
        gex_AM_RequestMedium0(tm, next, NOTHING_INDEX, payload, sizeof payload, GEX_EVENT_NOW, 0);
    if (!strcmp(argv[2], "exit")) exit(0);
    if (!strcmp(argv[2], "gasnet_exit")) gasnet_exit(0);
    return 0;
}

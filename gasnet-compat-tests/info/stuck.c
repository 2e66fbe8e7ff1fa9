/* Hangs in the way that its argument names, until it is killed. test_attach.py asks gasnet_info
 * what it sees. */
#include "../common/check.h"

enum { HANDLER = 200, MEDIUM = 201 };

static void hang(void) {
    for (;;) sleep(1);
}

static void on_request(gex_Token_t token, gex_AM_Arg_t hangs) {
    if (hangs) hang();
}

static void on_medium(gex_Token_t token, void *payload, size_t bytes) {}

/* Rank 0 runs a handler of rank 1, which finds no more room. Rank 1 has received 3 Mediums. */
static void in_handler(void) {
    static char payload[100];
    for (int i = 0; me == 2 && i < 3; i++)
        gex_AM_RequestMedium0(tm, 1, MEDIUM, payload, sizeof payload, GEX_EVENT_NOW, 0);
    if (me == 0) GASNET_BLOCKUNTIL(0);
    if (me == 1) gex_AM_RequestShort1(tm, 0, HANDLER, 0, 1);
    for (; me == 1;) gex_AM_RequestShort1(tm, 0, HANDLER, 0, 0);
    hang();
}
/* Rank 1 is late for a collective. */
static void in_event(void) {
    if (me == 1) hang();
    barrier();
}
/* Rank 1 is late for the barrier, and polls. */
static void in_barrier(void) {
    while (me == 1) {
        gasnet_AMPoll();
        usleep(1000);
    }
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
}
static void in_stop(void) {
    if (me == 1) raise(SIGSTOP);
    in_barrier();
}
/* Rank 1 is late for the attachment of segments. */
static void in_attach(void) {
    if (me == 1) hang();
    OK(gex_Segment_Attach(&segment, tm, 1 << 20));
}
/* Rank 1 stops while another rank reads its memory, and one writes that of both. */
static void in_access(void) {
    static char local[8];
    test_attach(sizeof local);
    char **segs = segs_of_all();
    barrier();
    if (me == 1) raise(SIGSTOP);
    while (me == 2) gex_RMA_GetBlocking(tm, local, 1, segs[1], sizeof local, 0);
    for (gex_Rank_t to = 2;; to = 3 - to) {
        gex_RMA_PutNBI(tm, to, segs[to], local, sizeof local, GEX_EVENT_DEFER, 0);
        if (to == 1) gex_NBI_Wait(GEX_EC_ALL, 0);
    }
}
/* Rank 1 stops before the others have a connection to it. */
static void in_connect(void) {
    if (me == 1) raise(SIGSTOP);
    for (;;) gex_AM_RequestShort1(tm, 1, HANDLER, 0, 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"handler", in_handler}, {"event", in_event},     {"barrier", in_barrier}, {"stop", in_stop},
                {"attach", in_attach},   {"connect", in_connect}, {"access", in_access}};
    gex_AM_Entry_t entries[] = {
        {HANDLER, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "on_request"},
        {MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, "on_medium"}};
    test_init("stuck", &argc, &argv);
    REQUIRE(argc == 2);
    gex_EP_RegisterHandlers(ep, entries, ARRAY_LENGTH(entries));
    if (strcmp(argv[1], "connect") != 0) barrier();
    for (size_t i = 0; i < ARRAY_LENGTH(ways); i++) {
        if (strcmp(ways[i].name, argv[1]) == 0) ways[i].run();
    }
    return 1;
}

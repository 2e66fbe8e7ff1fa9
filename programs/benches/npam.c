/* Negotiated-payload AMs with the client's and with the library's buffer, divided by fixed-payload
 * AMs: round trips with a reply of the same kind, and floods that end with an acknowledgement. Each
 * payload is written anew where the call takes it from. In each round every way runs one block.
 * Printed are the time of the shortest fixed block, the ratios of the shortest blocks, and in
 * brackets the medians of the rounds' ratios. Each rank is bound to a core.
 *
 *   cc -O2 -I programs/perf -o npam programs/benches/npam.c programs/perf/limits.c \
 *       $(pkg-config --cflags --libs gasnet-ibv-par)
 *   gasnetrun_ibv -n 2 ./npam [ROUNDS [BYTES...]] */
#include "limits.h"

#include <gasnetex.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED, CLIENTS, LIBRARYS, WAYS };
enum { MEDIUM, LONG, CATEGORIES };
enum { PING_MEDIUM = 140, PING_LONG, PONG_MEDIUM, PONG_LONG, SHOT_MEDIUM, SHOT_LONG, DONE };
enum { MOST = 64 << 10, MOST_ROUNDS = 1000 };

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Rank_t me, np;
static char own[MOST] __attribute__((aligned(64))), *theirs;
static volatile int pongs, shots;
static int expected_pongs;

/* One message: to `peer` or in answer to `token`. */
#define DEFINE_SEND(function, verb, ...)                                                                            \
    static void function(gex_Token_t token, int category, int way, gex_AM_Index_t handler, size_t bytes, int arg) { \
        gex_AM_SrcDesc_t sd;                                                                                        \
        (void)token;                                                                                                \
        if (way != LIBRARYS) memset(own, arg, bytes);                                                               \
        if (way == FIXED && category == MEDIUM) {                                                                   \
            gex_AM_##verb##Medium2(__VA_ARGS__, handler, own, bytes, GEX_EVENT_NOW, 0, way, arg);                   \
        } else if (way == FIXED) {                                                                                  \
            gex_AM_##verb##Long2(__VA_ARGS__, handler, own, bytes, theirs, GEX_EVENT_NOW, 0, way, arg);             \
        } else if (category == MEDIUM) {                                                                            \
            sd = gex_AM_Prepare##verb##Medium(__VA_ARGS__, way == CLIENTS ? own : NULL, bytes, bytes,               \
                                              way == CLIENTS ? GEX_EVENT_NOW : NULL, 0, 2);                         \
            if (way == LIBRARYS) memset(gex_AM_SrcDescAddr(sd), arg, bytes);                                        \
            gex_AM_Commit##verb##Medium2(sd, handler, bytes, way, arg);                                             \
        } else {                                                                                                    \
            sd = gex_AM_Prepare##verb##Long(__VA_ARGS__, way == CLIENTS ? own : NULL, bytes, bytes, theirs,         \
                                            way == CLIENTS ? GEX_EVENT_NOW : NULL, 0, 2);                           \
            if (way == LIBRARYS) memset(gex_AM_SrcDescAddr(sd), arg, bytes);                                        \
            gex_AM_Commit##verb##Long2(sd, handler, bytes, theirs, way, arg);                                       \
        }                                                                                                           \
    }
DEFINE_SEND(request, Request, tm, 1)
DEFINE_SEND(reply, Reply, token)

static void on_ping_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t way, gex_AM_Arg_t arg) {
    (void)payload;
    reply(token, MEDIUM, way, PONG_MEDIUM, bytes, arg);
}
static void on_ping_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t way, gex_AM_Arg_t arg) {
    (void)payload;
    reply(token, LONG, way, PONG_LONG, bytes, arg);
}
static void on_pong(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t way, gex_AM_Arg_t arg) {
    (void)token, (void)payload, (void)bytes, (void)way, (void)arg;
    pongs++;
}
/* The argument of the last one is its block's length. */
static void on_shot(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t way, gex_AM_Arg_t arg) {
    (void)payload, (void)bytes, (void)way;
    if (++shots == arg) {
        shots = 0;
        gex_AM_ReplyShort0(token, DONE, 0);
    }
}
static void on_done(gex_Token_t token) {
    (void)token;
    pongs++;
}

/* Microseconds of an operation. */
static double block(int is_flood, int category, int way, size_t bytes, int count) {
    double begin = now_us();
    int i;
    for (i = 0; i < count; i++) {
        request(NULL, category, way, (gex_AM_Index_t)((is_flood ? SHOT_MEDIUM : PING_MEDIUM) + category), bytes,
                is_flood ? count : i);
        if (!is_flood || i == count - 1) {
            expected_pongs++;
            GASNET_BLOCKUNTIL(pongs == expected_pongs);
        }
    }
    return (now_us() - begin) / count;
}

static void measure(int is_flood, int category, size_t bytes, int rounds) {
    static double ratios[WAYS][MOST_ROUNDS];
    double times[WAYS], least[WAYS] = {1e9, 1e9, 1e9};
    int round, way, count = bytes > 8192 ? 200 : 500;
    for (round = -1; round < rounds; round++) { /* the first one is not counted */
        for (way = 0; way < WAYS; way++) times[way] = block(is_flood, category, way, bytes, count);
        if (round < 0) continue;
        for (way = 0; way < WAYS; way++) {
            if (times[way] < least[way]) least[way] = times[way];
            ratios[way][round] = times[way] / times[FIXED];
        }
    }
    for (way = 0; way < WAYS; way++) qsort(ratios[way], (size_t)rounds, sizeof(double), ascending);
    printf("%s %s %6zu: %8.2f us, client's %.2f (%.2f), library's %.2f (%.2f)\n",
           category == MEDIUM ? "Medium" : "Long  ", is_flood ? "flood     " : "round trip", bytes, least[FIXED],
           least[CLIENTS] / least[FIXED], ratios[CLIENTS][rounds / 2], least[LIBRARYS] / least[FIXED],
           ratios[LIBRARYS][rounds / 2]);
    fflush(stdout);
}

#define ENTRY(index, function, flags, nargs) \
    { index, (gex_AM_Fn_t)(function), flags, nargs, NULL, NULL }
int main(int argc, char **argv) {
    static const size_t usual[] = {8, 512, 4096, 32768};
    gex_AM_Entry_t table[] = {
        ENTRY(PING_MEDIUM, on_ping_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2),
        ENTRY(PING_LONG, on_ping_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2),
        ENTRY(PONG_MEDIUM, on_pong, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 2),
        ENTRY(PONG_LONG, on_pong, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 2),
        ENTRY(SHOT_MEDIUM, on_shot, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2),
        ENTRY(SHOT_LONG, on_shot, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2),
        ENTRY(DONE, on_done, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0),
    };
    gex_Segment_t segment;
    int rounds, category, is_flood, i;
    gex_Client_Init(&client, &ep, &tm, "NPAM", &argc, &argv, 0);
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    bind_to_core((int)me);
    gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof table[0]);
    gex_Segment_Attach(&segment, tm, MOST);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, me ^ 1U, (void **)&theirs, NULL, NULL, 0));
    rounds = argc > 1 ? atoi(argv[1]) : 51;
    if (np != 2 || rounds < 1 || rounds > MOST_ROUNDS) gasnet_exit(2);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    for (i = 0; me == 0 && i < (argc > 2 ? argc - 2 : 4); i++) {
        size_t bytes = argc > 2 ? (size_t)atol(argv[i + 2]) : usual[i];
        for (category = 0; category < CATEGORIES; category++)
            for (is_flood = 0; is_flood < 2; is_flood++) measure(is_flood, category, bytes, rounds);
    }
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
    return 0;
}

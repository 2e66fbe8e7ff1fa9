/* count.c OPERATION COUNT BYTES: one operation again and again, from rank 0 to rank 1, for
 * programs/benches/count.py, which counts the instructions inside of the functions bench_*.
 * Messages go in bursts, and the receiver begins to poll when a burst has been sent: neither side
 * waits for the other in what is counted. */

#include <gasnet_ratomic.h>
#include <gasnetex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANDLER = 200, WINDOW = 64, SEGMENT = 1 << 20, BURST = 8, PAUSE_US = 20000 };
#define BENCH __attribute__((noinline)) void

static gex_TM_t team;
static gex_AD_t domain;
static char *mine, *theirs;
static size_t bytes;
static volatile int got;

static void on_short(gex_Token_t token, gex_AM_Arg_t value) {
    (void)token;
    got += value;
}
static void on_payload(gex_Token_t token, void *payload, size_t length, gex_AM_Arg_t value) {
    (void)token, (void)payload, (void)length;
    got += value;
}

BENCH bench_put(int count) {
    for (int i = 0; i < count; i++) gex_RMA_PutBlocking(team, 1, theirs, mine, bytes, 0);
}
BENCH bench_get(int count) {
    for (int i = 0; i < count; i++) gex_RMA_GetBlocking(team, mine, 1, theirs, bytes, 0);
}
BENCH bench_put_flood(int count) {
    for (int i = 1; i <= count; i++) {
        gex_RMA_PutNBI(team, 1, theirs, mine, bytes, GEX_EVENT_DEFER, 0);
        if (i % WINDOW == 0 || i == count) gex_NBI_Wait(GEX_EC_PUT, 0);
    }
}
BENCH bench_get_flood(int count) {
    for (int i = 1; i <= count; i++) {
        gex_RMA_GetNBI(team, mine, 1, theirs, bytes, 0);
        if (i % WINDOW == 0 || i == count) gex_NBI_Wait(GEX_EC_GET, 0);
    }
}
BENCH bench_fadd(int count) {
    uint64_t before;
    for (int i = 0; i < count; i++) gex_Event_Wait(gex_AD_OpNB_U64(domain, &before, 1, theirs, GEX_OP_FADD, 1, 0, 0));
}
BENCH bench_short(int count) {
    for (int i = 0; i < count; i++) gex_AM_RequestShort1(team, 1, HANDLER, 0, 1);
}
BENCH bench_medium(int count) {
    for (int i = 0; i < count; i++) gex_AM_RequestMedium1(team, 1, HANDLER + 1, mine, bytes, GEX_EVENT_NOW, 0, 1);
}
BENCH bench_long(int count) {
    for (int i = 0; i < count; i++) gex_AM_RequestLong1(team, 1, HANDLER + 2, mine, bytes, theirs, GEX_EVENT_NOW, 0, 1);
}
BENCH bench_poll(int count) {
    for (int i = 0; i < count; i++) gasnet_AMPoll();
}
BENCH bench_barrier(int count) {
    for (int i = 0; i < count; i++) gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}
BENCH bench_receive(int count) {
    while (got < count) gasnet_AMPoll();
}

static const struct {
    const char *name;
    void (*run)(int);
    int is_message, is_collective;
} operations[] = {
    {"put", bench_put, 0, 0},
    {"get", bench_get, 0, 0},
    {"put-flood", bench_put_flood, 0, 0},
    {"get-flood", bench_get_flood, 0, 0},
    {"fadd", bench_fadd, 0, 0},
    {"short", bench_short, 1, 0},
    {"medium", bench_medium, 1, 0},
    {"long", bench_long, 1, 0},
    {"poll", bench_poll, 0, 0},
    {"barrier", bench_barrier, 0, 1},
};

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t endpoint;
    gex_Segment_t segment;
    gex_AM_Entry_t handlers[] = {
        {HANDLER, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "short"},
        {HANDLER + 1, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "medium"},
        {HANDLER + 2, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1, NULL, "long"},
    };
    gex_Client_Init(&client, &endpoint, &team, "count", &argc, &argv, 0);
    gex_EP_RegisterHandlers(endpoint, handlers, sizeof handlers / sizeof *handlers);
    gex_Segment_Attach(&segment, team, SEGMENT);
    gex_AD_Create(&domain, team, GEX_DT_U64, GEX_OP_FADD, 0);
    int rank = (int)gex_TM_QueryRank(team), count = argc > 2 ? atoi(argv[2]) : 0;
    bytes = argc > 3 ? (size_t)atol(argv[3]) : 8;
    size_t which = 0, known = sizeof operations / sizeof *operations;
    while (which < known && (argc < 2 || strcmp(argv[1], operations[which].name) != 0)) which++;
    if (which == known || count <= 0 || bytes > SEGMENT || gex_TM_QuerySize(team) != 2) {
        fprintf(stderr, "usage: count OPERATION COUNT BYTES, on two ranks\n");
        gasnet_exit(2);
    }
    void *base;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, 1, &base, NULL, NULL, 0));
    theirs = base, mine = gex_Segment_QueryAddr(segment);
    // The first operation makes the connection.
    if (rank == 0) gex_RMA_PutBlocking(team, 1, theirs, mine, 8, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    int burst = operations[which].is_message ? BURST : count;
    for (int done = 0; done < count; done += burst) {
        int now = count - done < burst ? count - done : burst;
        if (rank == 0 || operations[which].is_collective) {
            operations[which].run(now);
        } else if (operations[which].is_message) {
            usleep(PAUSE_US);
            bench_receive(done + now);
        }
        gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    }
    gasnet_exit(0);
}

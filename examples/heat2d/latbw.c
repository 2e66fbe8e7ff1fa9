/* 
 * Latency and bandwidth between ranks 0 and 1, as one table, beside memcpy in one process.
 *
 * put, get    blocking: from the call to completion at both ends
 * AM          round trip: a Medium (a Long above the largest Medium) with the payload, answered by
 *             a Short
 * GB/s        1e9 bytes per second: a window of implicit non-blocking transfers, completed together
 */
#include <gasnetex.h>
#include <gasnet_tools.h> /* after gasnetex.h */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PING_MEDIUM = GEX_AM_INDEX_BASE, PING_LONG, PONG, STOP };
enum { LARGEST = 1 << 20, WINDOW = 16, SEGMENT = 2 << 20 };

static gex_TM_t team;
static char *source, *target; /* own segment; the peer's */
static gasnett_atomic_t pongs = gasnett_atomic_init(0), stopped = gasnett_atomic_init(0);

static void ping_handler(gex_Token_t token, void *payload, size_t bytes) {
    (void)payload, (void)bytes;
    gex_AM_ReplyShort0(token, PONG, 0);
}
static void pong_handler(gex_Token_t token) {
    (void)token;
    gasnett_atomic_increment(&pongs, GASNETT_ATOMIC_REL);
}
static void stop_handler(gex_Token_t token) {
    (void)token;
    gasnett_atomic_increment(&stopped, GASNETT_ATOMIC_REL);
}

static double seconds_since(gasnett_tick_t begin) {
    return (double)gasnett_ticks_to_ns(gasnett_ticks_now() - begin) * 1e-9;
}

/* The timed function: `count` operations of `bytes` bytes. */
typedef void operation_t(size_t bytes, int count);

static void put_one(size_t bytes, int count) {
    while (count--) gex_RMA_PutBlocking(team, 1, target, source, bytes, 0);
}
static void get_one(size_t bytes, int count) {
    while (count--) gex_RMA_GetBlocking(team, source, 1, target, bytes, 0);
}
static void put_window(size_t bytes, int count) {
    for (int i = 0; i < count; i++) {
        gex_RMA_PutNBI(team, 1, target, source, bytes, GEX_EVENT_DEFER, 0);
        if (i % WINDOW == WINDOW - 1) gex_NBI_Wait(GEX_EC_PUT, 0);
    }
    gex_NBI_Wait(GEX_EC_PUT, 0);
}
static void get_window(size_t bytes, int count) {
    for (int i = 0; i < count; i++) {
        gex_RMA_GetNBI(team, source, 1, target, bytes, 0);
        if (i % WINDOW == WINDOW - 1) gex_NBI_Wait(GEX_EC_GET, 0);
    }
    gex_NBI_Wait(GEX_EC_GET, 0);
}
static void round_trip(size_t bytes, int count) {
    size_t largest_medium = gex_AM_MaxRequestMedium(team, 1, GEX_EVENT_NOW, 0, 0);
    gasnett_atomic_val_t expected = gasnett_atomic_read(&pongs, 0);
    while (count--) {
        if (bytes <= largest_medium) gex_AM_RequestMedium0(team, 1, PING_MEDIUM, source, bytes, GEX_EVENT_NOW, 0);
        else gex_AM_RequestLong0(team, 1, PING_LONG, source, bytes, target, GEX_EVENT_NOW, 0);
        expected++;
        GASNET_BLOCKUNTIL(gasnett_atomic_read(&pongs, GASNETT_ATOMIC_ACQ) == expected);
    }
}
static void copy(size_t bytes, int count) {
    while (count--) {
        memcpy(source + LARGEST, source, bytes);
        gasnett_compiler_fence();
    }
}

/* Microseconds per operation: the minimum of several runs, each long enough for the clock's
 * resolution. */
static double measure(operation_t *operation, size_t bytes) {
    double best = 1e9;
    int count = WINDOW;
    for (;;) {
        gasnett_tick_t begin = gasnett_ticks_now();
        operation(bytes, count);
        if (seconds_since(begin) > 2e-3 || count >= 1 << 20) break;
        count *= 2;
    }
    for (int run = 0; run < 5; run++) {
        gasnett_tick_t begin = gasnett_ticks_now();
        operation(bytes, count);
        double each = seconds_since(begin) * 1e6 / count;
        if (each < best) best = each;
    }
    return best;
}

static void print_table(void) {
    size_t largest_long = gex_AM_MaxRequestLong(team, 1, GEX_EVENT_NOW, 0, 0);
    printf("    bytes    put us   put GB/s    get us   get GB/s   AM round trip us   memcpy us   memcpy GB/s\n");
    for (size_t bytes = 8; bytes <= LARGEST; bytes *= bytes < 64 ? 8 : 4) {
        double put = measure(put_one, bytes), puts = measure(put_window, bytes);
        double get = measure(get_one, bytes), gets = measure(get_window, bytes);
        double plain = measure(copy, bytes);
        printf("%9zu %9.3f %10.2f %9.3f %10.2f ", bytes, put, (double)bytes / puts * 1e-3, get,
               (double)bytes / gets * 1e-3);
        if (bytes <= largest_long) printf("%18.2f", measure(round_trip, bytes));
        else printf("%18s", "-");
        printf(" %11.3f %13.2f\n", plain, (double)bytes / plain * 1e-3);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t endpoint;
    gex_Segment_t segment;
    static gex_AM_Entry_t handlers[] = {
        {PING_MEDIUM, (gex_AM_Fn_t)ping_handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, "ping_medium"},
        {PING_LONG, (gex_AM_Fn_t)ping_handler, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 0, NULL, "ping_long"},
        {PONG, (gex_AM_Fn_t)pong_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "pong"},
        {STOP, (gex_AM_Fn_t)stop_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "stop"}};
    if (gex_Client_Init(&client, &endpoint, &team, "LATBW", &argc, &argv, 0) != GASNET_OK) return 2;
    if (gex_EP_RegisterHandlers(endpoint, handlers, sizeof handlers / sizeof handlers[0]) != GASNET_OK ||
        gex_Segment_Attach(&segment, team, SEGMENT) != GASNET_OK) {
        fprintf(stderr, "latbw: cannot set up\n");
        gasnet_exit(2);
    }
    gex_Rank_t rank = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team);
    source = gex_Segment_QueryAddr(segment);
    memset(source, 1, SEGMENT); /* touch every page before the clock runs */
    if (size > 1) {
        void *address = NULL;
        uintptr_t bytes = 0;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, 1, &address, NULL, &bytes, 0));
        target = address;
    }
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));

    if (size == 1) printf("latbw: needs two ranks\n");
    else if (rank == 0) {
        print_table();
        for (gex_Rank_t other = 1; other < size; other++) gex_AM_RequestShort0(team, other, STOP, 0);
    } else
        GASNET_BLOCKUNTIL(
            gasnett_atomic_read(&stopped, GASNETT_ATOMIC_ACQ)); /* runs the handlers of rank 0's messages */

    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gasnet_exit(0);
    return 0;
}

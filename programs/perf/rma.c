/* Puts and gets of bytes and of values, in all forms of initiation. */
#include "perf.h"

#include <stdlib.h>

enum {
    PUT,
    GET,
    PUT_NB,
    GET_NB,
    PUT_NBI,
    GET_NBI,
    PUT_WINDOW,
    GET_WINDOW,
    PUT_FLOOD,
    GET_FLOOD,
    PUT_VALUE,
    GET_VALUE,
    PUT_VALUE_NB,
    PUT_VALUE_NBI,
    PUT_REGION
};

/* The offset of the next operation: another one each time, so that no compiler can hoist the copy
 * out of the loop. */
static size_t place(struct worker *w) { return (w->turn++ & w->places) * w->step; }

/* One operation at a time. */
static void single(struct worker *w, long count) {
    gex_RMA_Value_t sum = 0;
    long i;
    for (i = 0; i < count; i++) {
        size_t at = place(w);
        char *there = w->remote + at, *here = w->local + at;
        switch (w->test->variant) {
            case PUT: gex_RMA_PutBlocking(tm, w->peer, there, here, w->bytes, 0); break;
            case GET: gex_RMA_GetBlocking(tm, here, w->peer, there, w->bytes, 0); break;
            case PUT_NB: gex_Event_Wait(gex_RMA_PutNB(tm, w->peer, there, here, w->bytes, GEX_EVENT_DEFER, 0)); break;
            case GET_NB: gex_Event_Wait(gex_RMA_GetNB(tm, here, w->peer, there, w->bytes, 0)); break;
            case PUT_NBI:
                gex_RMA_PutNBI(tm, w->peer, there, here, w->bytes, GEX_EVENT_DEFER, 0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
                break;
            case GET_NBI:
                gex_RMA_GetNBI(tm, here, w->peer, there, w->bytes, 0);
                gex_NBI_Wait(GEX_EC_GET, 0);
                break;
            case PUT_VALUE: gex_RMA_PutBlockingVal(tm, w->peer, there, (gex_RMA_Value_t)w->turn, 8, 0); break;
            case GET_VALUE: sum += gex_RMA_GetBlockingVal(tm, w->peer, there, 8, 0); break;
            case PUT_VALUE_NB:
                gex_Event_Wait(gex_RMA_PutNBVal(tm, w->peer, there, (gex_RMA_Value_t)w->turn, 8, 0));
                break;
            case PUT_VALUE_NBI:
                gex_RMA_PutNBIVal(tm, w->peer, there, (gex_RMA_Value_t)w->turn, 8, 0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
                break;
            default:
                gex_NBI_BeginAccessRegion(0);
                gex_RMA_PutNBI(tm, w->peer, there, here, w->bytes, GEX_EVENT_DEFER, 0);
                gex_Event_Wait(gex_NBI_EndAccessRegion(0));
                break;
        }
    }
    *(volatile gex_RMA_Value_t *)w->local = sum;
}

/* A window of operations in flight. */
static void windowed(struct worker *w, long count) {
    gex_Event_t *events = NULL;
    long i = 0;
    if (w->test->variant == PUT_WINDOW || w->test->variant == GET_WINDOW) {
        events = malloc((size_t)options.window * sizeof *events);
        if (events == NULL) gasnet_exit(1);
    }
    while (i < count) {
        int used = 0;
        for (; used < options.window && i < count; used++, i++) {
            size_t at = place(w);
            char *there = w->remote + at, *here = w->local + at;
            switch (w->test->variant) {
                case PUT_WINDOW:
                    events[used] = gex_RMA_PutNB(tm, w->peer, there, here, w->bytes, GEX_EVENT_DEFER, 0);
                    break;
                case GET_WINDOW: events[used] = gex_RMA_GetNB(tm, here, w->peer, there, w->bytes, 0); break;
                case PUT_FLOOD: gex_RMA_PutNBI(tm, w->peer, there, here, w->bytes, GEX_EVENT_DEFER, 0); break;
                default: gex_RMA_GetNBI(tm, here, w->peer, there, w->bytes, 0); break;
            }
        }
        if (events != NULL) {
            gex_Event_WaitAll(events, (size_t)used, 0);
        } else {
            gex_NBI_Wait(GEX_EC_ALL, 0);
        }
    }
    free(events);
}

#define SIZES MANY_BYTES | THREADS, 1, (size_t)1 << 30
const struct test rma_tests[] = {
    {"put", "blocking put", PAIRS, SIZES, PUT, single, "copy"},
    {"get", "blocking get", PAIRS, SIZES, GET, single, "copy"},
    {"put-nb", "non-blocking put and its wait", PAIRS, SIZES, PUT_NB, single, "copy"},
    {"get-nb", "non-blocking get and its wait", PAIRS, SIZES, GET_NB, single, "copy"},
    {"put-nbi", "implicit put and its wait", PAIRS, SIZES, PUT_NBI, single, "copy"},
    {"get-nbi", "implicit get and its wait", PAIRS, SIZES, GET_NBI, single, "copy"},
    {"put-region", "an access region with one implicit put, and the wait for it", PAIRS, SIZES, PUT_REGION, single,
     "copy"},
    {"put-bw", "a window of non-blocking puts", PAIRS, SIZES, PUT_WINDOW, windowed, "copy"},
    {"get-bw", "a window of non-blocking gets", PAIRS, SIZES, GET_WINDOW, windowed, "copy"},
    {"put-flood", "a window of implicit puts", PAIRS, SIZES, PUT_FLOOD, windowed, "copy"},
    {"get-flood", "a window of implicit gets", PAIRS, SIZES, GET_FLOOD, windowed, "copy"},
    {"put-bibw", "a window of implicit puts in both directions", BOTH, SIZES, PUT_FLOOD, windowed, NULL},
    {"get-bibw", "a window of implicit gets in both directions", BOTH, SIZES, GET_FLOOD, windowed, NULL},
    {"put-value", "blocking put of an 8-byte value", PAIRS, THREADS, 8, 8, PUT_VALUE, single, NULL},
    {"get-value", "blocking get of an 8-byte value", PAIRS, THREADS, 8, 8, GET_VALUE, single, NULL},
    {"put-value-nb", "non-blocking put of an 8-byte value and its wait", PAIRS, THREADS, 8, 8, PUT_VALUE_NB, single,
     NULL},
    {"put-value-nbi", "implicit put of an 8-byte value and its wait", PAIRS, THREADS, 8, 8, PUT_VALUE_NBI, single,
     NULL},
    {NULL, NULL, PAIRS, 0, 0, 0, 0, NULL, NULL}};

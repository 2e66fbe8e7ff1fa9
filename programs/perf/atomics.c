/* Remote atomics on 8-byte words of a partner. */
#include "perf.h"

#include <gasnet_ratomic.h>

enum { FETCH_ADD, ADD, SWAP, COMPARE_SWAP, FETCH_COMPARE_SWAP, READ, WRITE, FETCH_ADD_FLOAT };

static gex_AD_t integers, floats;

void atomic_setup(void) {
    gex_AD_Create(&integers, tm, GEX_DT_U64,
                  GEX_OP_FADD | GEX_OP_ADD | GEX_OP_SWAP | GEX_OP_CAS | GEX_OP_FCAS | GEX_OP_GET | GEX_OP_SET, 0);
    gex_AD_Create(&floats, tm, GEX_DT_DBL, GEX_OP_FADD, 0);
}

static void atomics(struct worker *w, long count) {
    uint64_t *target = (uint64_t *)(void *)w->remote, old = 0;
    double fetched = 0;
    long i;
    for (i = 0; i < count; i++) {
        gex_Event_t event;
        switch (w->test->variant) {
            case FETCH_ADD: event = gex_AD_OpNB_U64(integers, &old, w->peer, target, GEX_OP_FADD, 1, 0, 0); break;
            case ADD: event = gex_AD_OpNB_U64(integers, NULL, w->peer, target, GEX_OP_ADD, 1, 0, 0); break;
            case SWAP: event = gex_AD_OpNB_U64(integers, &old, w->peer, target, GEX_OP_SWAP, (uint64_t)i, 0, 0); break;
            case COMPARE_SWAP:
                event = gex_AD_OpNB_U64(integers, NULL, w->peer, target, GEX_OP_CAS, (uint64_t)i, (uint64_t)i + 1, 0);
                break;
            case FETCH_COMPARE_SWAP:
                event = gex_AD_OpNB_U64(integers, &old, w->peer, target, GEX_OP_FCAS, old, old + 1, 0);
                break;
            case READ: event = gex_AD_OpNB_U64(integers, &old, w->peer, target, GEX_OP_GET, 0, 0, 0); break;
            case WRITE: event = gex_AD_OpNB_U64(integers, NULL, w->peer, target, GEX_OP_SET, (uint64_t)i, 0, 0); break;
            default:
                event =
                    gex_AD_OpNB_DBL(floats, &fetched, w->peer, (double *)(void *)(target + 8), GEX_OP_FADD, 1.0, 0, 0);
                break;
        }
        gex_Event_Wait(event);
    }
    *(volatile uint64_t *)(void *)w->local = old + (uint64_t)fetched;
}

#define WORD PAIRS, THREADS, 8, 8
const struct test atomic_tests[] = {
    {"ad-fadd", "atomic fetch-and-add of 64 bits", WORD, FETCH_ADD, atomics, "atomic"},
    {"ad-add", "atomic add of 64 bits", WORD, ADD, atomics, "atomic"},
    {"ad-swap", "atomic swap of 64 bits", WORD, SWAP, atomics, "atomic"},
    {"ad-cas", "atomic compare-and-swap of 64 bits", WORD, COMPARE_SWAP, atomics, "atomic"},
    {"ad-fcas", "atomic fetching compare-and-swap of 64 bits", WORD, FETCH_COMPARE_SWAP, atomics, "atomic"},
    {"ad-get", "atomic read of 64 bits", WORD, READ, atomics, NULL},
    {"ad-set", "atomic write of 64 bits", WORD, WRITE, atomics, NULL},
    {"ad-fadd-dbl", "atomic fetch-and-add of a double", WORD, FETCH_ADD_FLOAT, atomics, NULL},
    {NULL, NULL, PAIRS, 0, 0, 0, 0, NULL, NULL}};

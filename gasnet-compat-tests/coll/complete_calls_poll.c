// A loop of collectives receives Active Messages although each of them is complete at once, or at
// the wait: the last rank runs a handler within two rounds of the request.
// NP: 2 4
// CONDUITS: smp
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"
#include <gasnet_coll.h>
#include <sched.h>

enum { ROUNDS = 800, EVERY = 16, MOST = 2, KINDS = 4 };
static const char *const names[KINDS] = {"gex_Coll_BarrierNB", "gasnet_barrier_wait", "gex_Coll_BroadcastNB",
                                         "gex_Event_Wait of a complete event"};
static gex_AM_Index_t mark_index = 150;
static int now, worst, delivered;

/* Runs on the late rank, in the thread of its loop. */
static void on_mark(gex_Token_t token, gex_AM_Arg_t sent) {
    if (now - sent > worst) worst = now - sent;
    delivered++;
}

/* A rank announces a round to another one, which sees the put without a poll. */
static void announce_to(gex_Rank_t rank) {
    uint32_t round = (uint32_t)now + 1;
    OK(gex_RMA_PutBlocking(tm, rank, (uint32_t *)(void *)seg_of(rank) + me, &round, sizeof round, 0));
}

/* The others announce a round to the last rank, just before they arrive or after it. */
static void announce(void) { announce_to(np - 1); }

static void await_others(const volatile uint32_t *announced) {
    for (gex_Rank_t r = 0; r < np - 1; r++)
        while (__atomic_load_n(announced + r, __ATOMIC_RELAXED) <= (uint32_t)now) sched_yield();
    gasnett_tick_t began = gasnett_ticks_now();
    while (gasnett_ticks_to_ns(gasnett_ticks_now() - began) < 2000) {}
}

/* One round of the last rank, which arrives after the others. */
static void late_round(int kind, const volatile uint32_t *announced) {
    static char target[8];
    gex_Event_t event;
    switch (kind) {
        case 0:
            await_others(announced);
            gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
            break;
        case 1:
            await_others(announced);
            gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
            OK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
            break;
        case 2:
            await_others(announced);
            gex_Event_Wait(gex_Coll_BroadcastNB(tm, np - 1, target, names[kind], sizeof target, 0));
            break;
        default: /* first to arrive: the event is complete before the wait, and not at once */
            event = gex_Coll_BarrierNB(tm, 0);
            for (gex_Rank_t r = 0; r < np - 1; r++) announce_to(r);
            await_others(announced);
            gex_Event_TestSome(NULL, 0, 0); /* advances the barrier, receives nothing */
            gex_Event_Wait(event);
    }
}

static void early_round(int kind, const volatile uint32_t *announced) {
    static char target[8];
    gex_Event_t event;
    switch (kind) {
        case 0:
            announce();
            barrier();
            break;
        case 1:
            announce();
            gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
            OK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
            break;
        case 2:
            announce();
            gex_Event_Wait(gex_Coll_BroadcastNB(tm, np - 1, target, NULL, sizeof target, 0));
            CHECK(memcmp(target, names[kind], sizeof target) == 0);
            break;
        default:
            while (__atomic_load_n(announced + np - 1, __ATOMIC_RELAXED) <= (uint32_t)now) sched_yield();
            event = gex_Coll_BarrierNB(tm, 0);
            announce();
            gex_Event_Wait(event);
    }
}

int main(int argc, char **argv) {
    test_init("complete_calls_poll", &argc, &argv);
    register_handler(mark_index, (gex_AM_Fn_t)on_mark, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    test_attach(GASNET_PAGESIZE);
    const volatile uint32_t *announced = (const volatile uint32_t *)(void *)seg_of(me);
    for (int kind = 0; kind < KINDS; kind++) {
        PHASE(names[kind]);
        now = worst = delivered = 0;
        memset(seg_of(me), 0, np * sizeof *announced);
        barrier();
        for (now = 0; now < ROUNDS; now++) {
            if (me == 0 && now % EVERY == 0) OK(gex_AM_RequestShort1(tm, np - 1, mark_index, 0, now));
            if (me == np - 1) late_round(kind, announced);
            else early_round(kind, announced);
        }
        if (me == np - 1) {
            GASNET_BLOCKUNTIL(delivered == ROUNDS / EVERY);
            CHECKF(worst <= MOST, "%s: a request was delivered %d rounds after it was sent", names[kind], worst);
        }
        barrier();
    }
    return test_finish();
}

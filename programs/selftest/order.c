/* Data that are complete before a message or a flag follows them: the receiver sees them. */
#include "selftest.h"

#include <sched.h>
#include <string.h>

enum { BATCH = 8 };

/* Puts that have completed, then a message that checks them. */
static void messages(const struct test *test, gex_Rank_t peer, double until) {
    size_t turn;
    (void)test;
    for (turn = 0; turn < (options.quick ? 4 : 40) * plan_count() && now() < until; turn++) {
        gex_Event_t events[BATCH];
        struct size size = plan_size(turn, most_bytes() / BATCH / 2);
        struct step s = {
            "message after puts that have completed", memory_names[HEAP], size.class, size.bytes, 0, 0, peer};
        size_t apart = (size.bytes + 3 * GUARD) / GUARD * GUARD, i;
        uint64_t seed = next_seed();
        step(&s);
        for (i = 0; i < BATCH; i++) {
            size_t offset = 2 * GUARD + i * apart;
            char *from = memory_of(HEAP) + i * size.bytes;
            fill(from, size.bytes, seed, offset);
            events[i] = gex_RMA_PutNB(tm, peer, part_of(peer, LANDING) + offset, from, size.bytes, GEX_EVENT_DEFER, 0);
        }
        gex_Event_WaitAll(events, BATCH, 0);
        for (i = BATCH; i-- > 0;) judge(&s, landed_at(peer, 2 * GUARD + i * apart, size.bytes, seed));
    }
    end_turns(turn, plan_count());
}

static void by_message(const struct test *test) { in_turns(test, messages, test_ends()); }

/* Waits for a word of the segment that another rank puts. */
static void until_word(const volatile uint64_t *word, uint64_t value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        gasnet_AMPoll();
        sched_yield();
    }
}

/* A put, and when it has completed a put of a flag, which its target polls in memory. Rank i puts
 * to rank i + shift, and is the target of rank i - shift. */
static void by_flag(const struct test *test) {
    static uint64_t sequence;
    enum { FLAG = 0, ACKNOWLEDGEMENT = 64 };
    const volatile uint64_t *own = (void *)part_of(me, CONTROL);
    gex_Rank_t shift;
    int round, rounds = options.quick ? 10 : 200;
    size_t turn = 0;
    (void)test;
    for (shift = 0; shift < np; shift = shift == 0 ? 1 : 2 * shift) {
        gex_Rank_t to = (me + shift) % np, from = (me + np - shift) % np;
        for (round = 0; round < rounds; round++, turn++) {
            struct size size = plan_size(turn, 65536);
            struct step s = {"put of a flag after a put", memory_names[HEAP], size.class, size.bytes, 0, 0, to};
            struct step w = {"wait for a flag after a put", NULL, size.class, size.bytes, 0, 0, from};
            size_t offset = 2 * GUARD + turn % 500 * LINE;
            sequence++;
            step(&s);
            fill(memory_of(HEAP), size.bytes, sequence + me, offset);
            gex_RMA_PutBlocking(tm, to, part_of(to, LANDING) + offset, memory_of(HEAP), size.bytes, 0);
            gex_RMA_PutBlockingVal(tm, to, part_of(to, CONTROL) + FLAG, sequence, 8, 0);
            step(&w);
            until_word(own + FLAG / 8, sequence);
            judge(&w, landed(offset, size.bytes, sequence + from));
            gex_RMA_PutBlockingVal(tm, from, part_of(from, CONTROL) + ACKNOWLEDGEMENT, sequence, 8, 0);
            s.operation = "wait for the acknowledgement of a flag";
            step(&s);
            until_word(own + ACKNOWLEDGEMENT / 8, sequence);
        }
        barrier();
    }
}

const struct test order_tests[] = {
    {"order-message", "messages that follow completed puts find their data", 2, 0, by_message, NULL},
    {"order-flag", "flags put after completed puts, polled in memory: the data are there", 1, 0, by_flag, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};

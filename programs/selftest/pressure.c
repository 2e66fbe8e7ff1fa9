/* Many messages at once: first messages to all, floods beyond queues, ranks that sleep or do not
 * poll. Each message carries a number; receivers count them and add the numbers up. */
#include "selftest.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT_SHORT = 170, COUNT_MEDIUM, TOKEN, SLOW, SLOW_US = 50000, MOST_PAYLOAD = 512, SIZED_PEERS = 16 };
static uint64_t received, sum, damaged; /* by handlers */
static struct {
    gex_Rank_t from;
    size_t bytes;
    struct finding found;
} first_damaged;
static uint64_t expected, expected_sum, sent; /* of all bursts */
static int token_value, slow_done, slow_expected;

static void count_one(gex_AM_Arg_t number) {
    __atomic_add_fetch(&sum, (uint64_t)(uint32_t)number, __ATOMIC_RELAXED);
    __atomic_add_fetch(&received, 1, __ATOMIC_RELEASE);
}
static void on_short(gex_Token_t token, gex_AM_Arg_t number) {
    (void)token;
    count_one(number);
}
static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t number) {
    struct finding found = {0, 0, 0, 0};
    gex_Token_Info_t info;
    check(&found, payload, bytes, (uint32_t)number, 0);
    if (found.wrong > 0 && __atomic_add_fetch(&damaged, 1, __ATOMIC_RELAXED) == 1) {
        gex_Token_Info(token, &info, GEX_TI_SRCRANK);
        first_damaged.from = info.gex_srcrank;
        first_damaged.bytes = bytes;
        first_damaged.found = found;
    }
    count_one(number);
}
static void on_token(gex_Token_t token, gex_AM_Arg_t value) {
    (void)token;
    __atomic_store_n(&token_value, value, __ATOMIC_RELEASE);
}
static void on_slow(gex_Token_t token) {
    (void)token;
    usleep(SLOW_US);
    __atomic_add_fetch(&slow_done, 1, __ATOMIC_RELEASE);
}

static uint32_t number_of(gex_Rank_t from, uint32_t index) { return from * 2654435761u + index * 40503u; }

/* Sends message `index` of a burst; one in four has a payload. */
static void shot(const struct step *s, gex_Rank_t to, uint32_t index) {
    unsigned char payload[MOST_PAYLOAD];
    gex_AM_Arg_t number = (gex_AM_Arg_t)number_of(me, index);
    size_t bytes = index / 4 * 37 % MOST_PAYLOAD + 1;
    if (sent++ % 16 == 0) step(s);
    if (index % 4 != 3) {
        gex_AM_RequestShort1(tm, to, COUNT_SHORT, 0, number);
        return;
    }
    fill(payload, bytes, (uint32_t)number, 0);
    gex_AM_RequestMedium1(tm, to, COUNT_MEDIUM, payload, bytes, GEX_EVENT_NOW, 0, number);
}

/* This rank is to receive `count` messages of rank `from`. */
static void expect(gex_Rank_t from, uint32_t count) {
    uint32_t i;
    for (i = 0; i < count; i++) expected_sum += number_of(from, i);
    expected += count;
}

/* Waits for all of them, and no others. */
static void settle(const char *what) {
    struct step s = {what, NULL, NULL, 0, 0, 0, GEX_RANK_INVALID};
    step(&s);
    GASNET_BLOCKUNTIL(__atomic_load_n(&received, __ATOMIC_ACQUIRE) >= expected);
    barrier();
    if (received != expected || sum != expected_sum)
        fail(&s, "%llu messages arrived instead of %llu%s", (unsigned long long)received, (unsigned long long)expected,
             received == expected ? ", with other numbers than were sent" : "");
    if (damaged > 0) {
        s.peer = first_damaged.from;
        s.bytes = first_damaged.bytes;
        fail(&s, "%llu payloads are damaged; byte %ld of this one is 0x%02x instead of 0x%02x",
             (unsigned long long)damaged, first_damaged.found.first, first_damaged.found.is,
             first_damaged.found.expected);
    }
    received = expected;
    sum = expected_sum;
    damaged = 0;
    barrier();
}

static uint32_t burst(gex_Rank_t senders) {
    uint32_t count = (options.quick ? 8000u : 80000u) / senders;
    return count < 50 ? 50 : count;
}

/* All to all, each rank in another order. Runs first: most ranks have no connection yet. Some peers
 * get one of each magnitude: later messages may go in another way, such as by remote writes. */
static void storm(const struct test *test) {
    struct step s = {"first message of all to all", NULL, NULL, 0, 0, 0, 0};
    size_t most = gex_AM_LUBRequestMedium();
    unsigned char *payload = (unsigned char *)malloc(most);
    uint32_t index = 1;
    gex_Rank_t i;
    (void)test;
    if (payload == NULL) gasnet_exit(1);
    for (i = 0; i < np; i++) {
        s.peer = (me + i) % np;
        step(&s);
        shot(&s, s.peer, 0);
    }
    for (s.bytes = 16; s.bytes <= most; s.bytes += s.bytes / 5, index++) {
        for (i = 0; i < np && i < SIZED_PEERS; i++) {
            gex_AM_Arg_t number = (gex_AM_Arg_t)number_of(me, index);
            s.peer = (me + i) % np;
            step(&s);
            fill(payload, s.bytes, (uint32_t)number, 0);
            gex_AM_RequestMedium1(tm, s.peer, COUNT_MEDIUM, payload, s.bytes, GEX_EVENT_NOW, 0, number);
        }
    }
    free(payload);
    for (i = 0; i < np; i++) expect((me + np - i) % np, i < SIZED_PEERS ? index : 1);
    settle("first messages of all to all");
}

/* Adds up over all ranks how many messages each has sent, to the ranks that receive all of them. */
static void expect_of_all(uint32_t count, int receives) {
    uint64_t sums[2] = {count, 0};
    uint32_t i;
    for (i = 0; i < count; i++) sums[1] += number_of(me, i);
    add_all(sums, 2);
    expected += receives ? sums[0] : 0;
    expected_sum += receives ? sums[1] : 0;
}

enum { LEAST_BURST = 200 };

/* To one rank after the other, at most three of them. */
static void flood_one(const struct test *test) {
    gex_Rank_t to;
    (void)test;
    for (to = 0; to<np; to += np> 2 ? (np - 1) / 2 : 1) {
        struct step s = {"small message of a flood to one rank", NULL, NULL, 0, 0, 0, to};
        uint32_t index;
        double until = now() + (test_ends() - now()) / 3;
        for (index = 0; index < burst(np) && (index < LEAST_BURST || now() < until); index++) shot(&s, to, index);
        end_turns(index, burst(np));
        expect_of_all(index, to == me);
        settle("a flood of small messages to one rank");
    }
}

static void flood_all(const struct test *test) {
    struct step s = {"small message of a flood of all to all", NULL, NULL, 0, 0, 0, 0};
    uint32_t index, most = burst(np) / (np > 16 ? np / 16 : 1) + 1;
    gex_Rank_t i;
    (void)test;
    for (index = 0; index < most && (index < LEAST_BURST || now() < test_ends()); index++) {
        for (i = 0; i < np; i++) {
            s.peer = (me + i) % np;
            shot(&s, s.peer, index);
        }
    }
    end_turns(index, most);
    expect_of_all(index, 1);
    settle("a flood of small messages of all to all");
}

/* Puts without waiting, more than queues hold, then a message that checks them. */
static void flood_puts(const struct test *test, gex_Rank_t peer, double until) {
    size_t turn = 0, step_size;
    (void)test;
    for (step_size = 8; step_size <= 8192 && now() < until; step_size *= 4, turn++) {
        size_t bytes = most_bytes() / 2 < 4096 * step_size ? most_bytes() / 2 : 4096 * step_size, at;
        struct step s = {"implicit puts of a flood", memory_names[HEAP], NULL, bytes, 0, 0, peer};
        uint64_t seed = next_seed();
        char *from = memory_of(HEAP), *to = part_of(peer, LANDING) + 2 * GUARD;
        step(&s);
        fill(from, bytes, seed, 2 * GUARD);
        for (at = 0; at < bytes; at += step_size)
            gex_RMA_PutNBI(tm, peer, to + at, from + at, step_size, GEX_EVENT_DEFER, 0);
        gex_NBI_Wait(GEX_EC_PUT, 0);
        judge(&s, landed_at(peer, 2 * GUARD, bytes, seed));
    }
    end_turns(turn, 6);
}
static void flood_put(const struct test *test) { in_turns(test, flood_puts, test_ends()); }

/* Odd ranks do not poll for a while, then they run slow handlers; even ranks send to them. */
static void slow(const struct test *test) {
    gex_Rank_t victim = me + 1 < np ? me + 1 : me;
    struct step s = {"message to a rank that does not poll", NULL, NULL, 0, 0, 0, victim};
    uint32_t index, count = burst(1) / 8;
    (void)test;
    if (me % 2 == 1) {
        waiting("own pause without polling", 2);
        usleep(options.quick ? 300000 : 1500000);
        expect(me - 1, count);
        slow_expected++;
    } else if (victim != me) {
        gex_AM_RequestShort0(tm, victim, SLOW, 0);
        for (index = 0; index < count; index++) shot(&s, victim, index);
    }
    settle("messages to a rank that did not poll");
    step(&s);
    GASNET_BLOCKUNTIL(__atomic_load_n(&slow_done, __ATOMIC_ACQUIRE) == slow_expected);
}

/* A token goes round. Each rank sleeps in GASNET_BLOCKUNTIL, and the holder of the token beside it.
 */
static void sleepers(const struct test *test) {
    struct step s = {"GASNET_BLOCKUNTIL beside a sleeping rank", NULL, NULL, 0, 0, 0, (me + np - 1) % np};
    int round, rounds = (int)(60 / np) + 2;
    (void)test;
    __atomic_store_n(&token_value, 0, __ATOMIC_RELEASE);
    barrier();
    for (round = 1; round <= rounds; round++) {
        if (me == 0) gex_AM_RequestShort1(tm, (me + 1) % np, TOKEN, 0, round);
        step(&s);
        GASNET_BLOCKUNTIL(__atomic_load_n(&token_value, __ATOMIC_ACQUIRE) == round);
        usleep(5000);
        if (me != 0) gex_AM_RequestShort1(tm, (me + 1) % np, TOKEN, 0, round);
    }
}

static const char *single(const struct test *test) {
    (void)test;
    return np == 1 ? "one rank" : NULL;
}

void pressure_setup(void) {
    enum { REQUEST = GEX_FLAG_AM_REQUEST };
    gex_AM_Entry_t table[] = {
        {COUNT_SHORT, (gex_AM_Fn_t)on_short, REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "count"},
        {COUNT_MEDIUM, (gex_AM_Fn_t)on_medium, REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "count a payload"},
        {TOKEN, (gex_AM_Fn_t)on_token, REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "token"},
        {SLOW, (gex_AM_Fn_t)on_slow, REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "slow"},
    };
    add_handlers(table, sizeof table / sizeof table[0]);
}

const struct test storm_tests[] = {
    {"storm", "first messages of all to all at once, of all magnitudes", 1, 0, storm, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};
const struct test pressure_tests[] = {
    {"flood-one", "small messages of all to one rank, more than queues hold", 2, 0, flood_one, NULL},
    {"flood-all", "small messages of all to all, more than queues hold", 2, 0, flood_all, NULL},
    {"flood-put", "implicit puts, more than queues hold", 1, 0, flood_put, NULL},
    {"slow-peer", "messages to ranks that do not poll for a while, and to slow handlers", 1, 0, slow, single},
    {"sleep", "ranks sleep in GASNET_BLOCKUNTIL, and wake each other", 1, 0, sleepers, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};

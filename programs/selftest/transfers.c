/* Puts, gets and values in all forms of initiation, at all sizes and alignments. */
#include "selftest.h"

#include <string.h>

enum form {
    PUT_BLOCKING,
    PUT_NB,
    PUT_NB_NOW,
    PUT_NB_EVENT,
    PUT_NBI,
    PUT_NBI_NOW,
    PUT_NBI_GROUP,
    PUT_REGION,
    GET_BLOCKING,
    GET_NB,
    GET_NBI,
    GET_REGION,
    FORMS
};
static const char *const names[FORMS] = {
    "blocking put",
    "non-blocking put",
    "non-blocking put with GEX_EVENT_NOW",
    "non-blocking put with an event for local completion",
    "implicit put",
    "implicit put with GEX_EVENT_NOW",
    "implicit put with GEX_EVENT_GROUP",
    "implicit put in an access region",
    "blocking get",
    "non-blocking get",
    "implicit get",
    "implicit get in an access region",
};
const int some_put = PUT_NB, some_get = GET_NB;
enum { REMAINS = 0xee, OTHER = 0x55 };

static void put(int form, int kind, char *from, gex_Rank_t peer, char *to, size_t bytes) {
    gex_Event_t event = GEX_EVENT_INVALID, local = GEX_EVENT_INVALID;
    int is_free = 0;
    switch (form) {
        case PUT_BLOCKING: gex_RMA_PutBlocking(tm, peer, to, from, bytes, 0); break;
        case PUT_NB: event = gex_RMA_PutNB(tm, peer, to, from, bytes, GEX_EVENT_DEFER, 0); break;
        case PUT_NB_NOW:
            event = gex_RMA_PutNB(tm, peer, to, from, bytes, GEX_EVENT_NOW, 0);
            is_free = 1;
            break;
        case PUT_NB_EVENT:
            event = gex_RMA_PutNB(tm, peer, to, from, bytes, &local, 0);
            gex_Event_Wait(local);
            is_free = 1;
            break;
        case PUT_NBI: gex_RMA_PutNBI(tm, peer, to, from, bytes, GEX_EVENT_DEFER, 0); break;
        case PUT_NBI_NOW:
            gex_RMA_PutNBI(tm, peer, to, from, bytes, GEX_EVENT_NOW, 0);
            is_free = 1;
            break;
        case PUT_NBI_GROUP:
            gex_RMA_PutNBI(tm, peer, to, from, bytes, GEX_EVENT_GROUP, 0);
            gex_NBI_Wait(GEX_EC_LC, 0);
            is_free = 1;
            break;
        default:
            gex_NBI_BeginAccessRegion(0);
            gex_RMA_PutNBI(tm, peer, to, from, bytes, GEX_EVENT_DEFER, 0);
            event = gex_NBI_EndAccessRegion(0);
    }
    if (is_free && kind != READ_ONLY) memset(from, OTHER, bytes);
    if (event != GEX_EVENT_INVALID) gex_Event_Wait(event);
    else gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void get(int form, char *to, gex_Rank_t peer, char *from, size_t bytes) {
    switch (form) {
        case GET_BLOCKING: gex_RMA_GetBlocking(tm, to, peer, from, bytes, 0); break;
        case GET_NB: gex_Event_Wait(gex_RMA_GetNB(tm, to, peer, from, bytes, 0)); break;
        case GET_NBI:
            gex_RMA_GetNBI(tm, to, peer, from, bytes, 0);
            gex_NBI_Wait(GEX_EC_GET, 0);
            break;
        default:
            gex_NBI_BeginAccessRegion(0);
            gex_RMA_GetNBI(tm, to, peer, from, bytes, 0);
            gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    }
}

/* Bytes around the data that a get must leave alone. */
static void untouched(struct finding *found, const char *guard, long position) {
    int i;
    for (i = 0; i < GUARD; i++) {
        if ((unsigned char)guard[i] == REMAINS) continue;
        if (found->wrong++ > 0) continue;
        found->first = position + i;
        found->is = (unsigned char)guard[i];
        found->expected = REMAINS;
    }
}

void transfer(int form, struct local local, gex_Rank_t peer, struct size size, unsigned align) {
    uint64_t seed = next_seed();
    size_t offset = place_for(seed, align), bytes = size.bytes;
    char *at = local.at + GUARD + align % LINE;
    struct step s = {names[form], memory_names[local.kind], size.class, bytes, align % LINE, align / LINE, peer};
    struct finding found = {0, 0, 0, 0};
    step(&s);
    memory_open(local.kind, local.at);
    if (form < GET_BLOCKING) {
        fill(at, bytes, seed, offset);
        memory_close(local.kind, local.at);
        put(form, local.kind, at, peer, part_of(peer, LANDING) + offset, bytes);
        judge(&s, landed_at(peer, offset, bytes, seed));
        return;
    }
    memset(at - GUARD, REMAINS, bytes + 2 * GUARD);
    memory_close(local.kind, local.at);
    get(form, at, peer, part_of(peer, SOURCE) + offset, bytes);
    check(&found, at, bytes, 1000 + peer, offset);
    found.first -= (long)offset;
    untouched(&found, at - GUARD, -GUARD);
    untouched(&found, at + bytes, (long)bytes);
    judge(&s, found);
}

/* All sizes, once from private memory and once from the segment, until the time is over. */
static void sizes(const struct test *test, gex_Rank_t peer, double until) {
    static const int last[] = {[PUT_BLOCKING] = PUT_BLOCKING, [PUT_NB] = PUT_NB_EVENT, [PUT_NBI] = PUT_REGION,
                               [GET_BLOCKING] = GET_BLOCKING, [GET_NB] = GET_NB,       [GET_NBI] = GET_REGION};
    size_t turn, passes = options.quick ? 2 : 20;
    int form = test->variant;
    for (turn = 0; turn < passes * plan_count() && now() < until; turn++) {
        int kind = turn / plan_count() % 2 == 0 ? HEAP : SEGMENT;
        struct local local = {kind, memory_of(kind)};
        transfer(form, local, peer, plan_size(turn, most_bytes()), plan_alignment(turn));
        form = form < last[test->variant] ? form + 1 : test->variant;
    }
    end_turns(turn, plan_count());
}

/* Both ends at every distance from a multiple of 8, at the begin and the end of a cache line. */
static void alignments(const struct test *test, gex_Rank_t peer, double until) {
    static const size_t bytes[] = {1, 2, 3, 4, 7, 8, 9, 16, 31, 64, 100, 257, 1000, 4096, 10000};
    enum { SIZES = sizeof bytes / sizeof bytes[0] };
    size_t turn;
    (void)test;
    for (turn = 0; turn < (size_t)16 * 16 * SIZES && now() < until; turn++) {
        size_t at = turn * 7919 % (16 * 16 * SIZES); /* covers all, and much of each early */
        unsigned local = (unsigned)at % 16, remote = (unsigned)at / 16 % 16;
        struct size size = {bytes[at / 256], "alignment"};
        struct local heap = {HEAP, memory_of(HEAP)};
        if (local >= 8) local += 48;
        if (remote >= 8) remote += 48;
        transfer(turn % 2 ? some_get : some_put, heap, peer, size, remote * LINE + local);
    }
    end_turns(turn, (size_t)16 * 16 * SIZES);
}

static void values(const struct test *test, gex_Rank_t peer, double until) {
    static const char *const forms[] = {"blocking put of a value", "non-blocking put of a value",
                                        "implicit put of a value", "blocking get of a value"};
    size_t turn;
    (void)test;
    for (turn = 0; turn < 4 * 8 * 64 && now() < until; turn++) {
        size_t bytes = turn / 4 % 8 + 1;
        uint64_t seed = next_seed();
        size_t offset = place_for(seed, plan_alignment(turn));
        char *to = part_of(peer, LANDING) + offset;
        struct step s = {forms[turn % 4], NULL, NULL, bytes, 0, (unsigned)(offset % LINE), peer};
        struct finding found = {0, 0, 0, 0};
        gex_RMA_Value_t value = 0;
        step(&s);
        fill(&value, bytes, seed, offset); /* on a big-endian machine the last bytes count */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        value >>= 8 * (sizeof value - bytes);
#endif
        switch (turn % 4) {
            case 0: gex_RMA_PutBlockingVal(tm, peer, to, value, bytes, 0); break;
            case 1: gex_Event_Wait(gex_RMA_PutNBVal(tm, peer, to, value, bytes, 0)); break;
            case 2:
                gex_RMA_PutNBIVal(tm, peer, to, value, bytes, 0);
                gex_NBI_Wait(GEX_EC_PUT, 0);
                break;
            default: value = gex_RMA_GetBlockingVal(tm, peer, part_of(peer, SOURCE) + offset, bytes, 0);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
                value <<= 8 * (sizeof value - bytes);
#endif
                check(&found, &value, bytes, 1000 + peer, offset);
                found.first -= (long)offset;
        }
        if (turn % 4 != 3) found = landed_at(peer, offset, bytes, seed);
        judge(&s, found);
    }
    end_turns(turn, 4 * 8 * 64);
}

static void by_sizes(const struct test *test) { in_turns(test, sizes, test_ends()); }
static void by_alignment(const struct test *test) { in_turns(test, alignments, test_ends()); }
static void by_value(const struct test *test) { in_turns(test, values, test_ends()); }

const struct test transfer_tests[] = {
    {"put-blocking", "blocking puts of all sizes", 2, PUT_BLOCKING, by_sizes, NULL},
    {"put-nb", "non-blocking puts, with each kind of local completion", 3, PUT_NB, by_sizes, NULL},
    {"put-nbi", "implicit puts, with each kind of local completion, and access regions", 3, PUT_NBI, by_sizes, NULL},
    {"get-blocking", "blocking gets of all sizes", 2, GET_BLOCKING, by_sizes, NULL},
    {"get-nb", "non-blocking gets", 2, GET_NB, by_sizes, NULL},
    {"get-nbi", "implicit gets, and access regions", 2, GET_NBI, by_sizes, NULL},
    {"value", "puts and gets of values of 1 to 8 bytes", 1, 0, by_value, NULL},
    {"alignment", "puts and gets at all alignments of both ends", 3, 0, by_alignment, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};

// Local, neighbouring and remote initiators on the same locations at the same time: nothing is
// lost, no ticket is given twice.
// NP: 1 2 3 4 7
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { EACH = 150, WINDOW = 30 };

// Places of the locations in each rank's segment.
enum { TICKET, SUM, SWAPPED, CHAIN, CLAIMED, BITS, PRODUCT, LEAST, MOST, SWORD, REAL, SINGLE, PLACES };
static char *at(gex_Rank_t rank, int place) { return seg_of(rank) + 64 * place; }
static void *tickets_of(gex_Rank_t rank) { return seg_of(rank) + 64 * PLACES; }

static gex_AD_t u64, i32, dbl, flt, u64_tickets;

static uint64_t value_u64(gex_AD_t ad, gex_Rank_t rank, void *place) {
    uint64_t value = 99;
    blocking_U64(ad, &value, rank, place, GEX_OP_GET, 0, 0, 0, 0);
    return value;
}

static void reset(void) {
    memset(seg_of(me), 0, 64 * PLACES);
    memset(tickets_of(me), 0, (size_t)EACH * np);
    *(uint64_t *)(void *)at(me, PRODUCT) = 1;
    *(uint64_t *)(void *)at(me, LEAST) = UINT64_MAX;
    barrier();
}

// Every rank on the locations of `home`, windows of operations under way.
static void hammer(gex_Rank_t home) {
    uint64_t ticket[WINDOW], swapped[WINDOW], before;
    uint64_t chain = 0;
    for (int round = 0; round < EACH / WINDOW; round++) {
        gex_Event_t event[WINDOW];
        for (int i = 0; i < WINDOW; i++) {
            const uint64_t unique = 1 + (uint64_t)me * EACH + (uint64_t)(round * WINDOW + i);
            event[i] = gex_AD_OpNB_U64(u64, &ticket[i], home, at(home, TICKET), GEX_OP_FINC, 7, 7, 0);
            OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, SUM), GEX_OP_ADD, unique, 7, 0));
            OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, BITS), GEX_OP_XOR, (uint64_t)1 << (unique % 64), 7, 0));
            OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, LEAST), GEX_OP_MIN, unique, 7, 0));
            OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, MOST), GEX_OP_MAX, unique, 7, 0));
            // By inline code and by the library's own function (a name in parentheses is no macro).
            if (i % 2) OK(gex_AD_OpNBI_U64(u64, NULL, home, at(home, PRODUCT), GEX_OP_MULT, 3, 7, 0));
            else OK((gex_AD_OpNBI_U64)(u64, NULL, home, at(home, PRODUCT), GEX_OP_MULT, 3, 7, 0));
            OK(gex_AD_OpNBI_U64(u64, &swapped[i], home, at(home, SWAPPED), GEX_OP_SWAP, unique, 7, 0));
            OK(gex_AD_OpNBI_I32(i32, NULL, home, at(home, SWORD), i % 3 ? GEX_OP_INC : GEX_OP_DEC, 7, 7, 0));
            if (i % 3) OK(gex_AD_OpNBI_DBL(dbl, NULL, home, at(home, REAL), GEX_OP_ADD, (double)unique / 4, 7, 0));
            else OK((gex_AD_OpNBI_DBL)(dbl, NULL, home, at(home, REAL), GEX_OP_ADD, (double)unique / 4, 7, 0));
            OK(gex_AD_OpNBI_FLT(flt, NULL, home, at(home, SINGLE), i % 2 ? GEX_OP_ADD : GEX_OP_SUB, 0.5F, 7, 0));
        }
        gex_Event_WaitAll(event, WINDOW, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        for (int i = 0; i < WINDOW; i++) {
            CHECKF(ticket[i] < (uint64_t)EACH * np, "ticket %llu", (unsigned long long)ticket[i]);
            blocking_U64(u64_tickets, &before, home, (char *)tickets_of(home) + ticket[i] / 8 * 8, GEX_OP_FOR,
                         (uint64_t)1 << (ticket[i] % 8 * 8), 0, 0, i % 2);
            CHECKF((before >> (ticket[i] % 8 * 8) & 1) == 0, "ticket %llu was given twice",
                   (unsigned long long)ticket[i]);
            chain ^= swapped[i];
        }
    }
    // A swap takes the value that another one left: values put in and taken out cancel, except the
    // last.
    blocking_U64(u64, NULL, home, at(home, CHAIN), GEX_OP_XOR, chain, 0, 0, 0);
}

static void check(void) {
    const uint64_t all = (uint64_t)EACH * np, sum = all * (all + 1) / 2;
    uint64_t bits = 0, product = 1, chain, i;
    int32_t word;
    double real;
    float single;
    for (i = 1; i <= all; i++) {
        bits ^= (uint64_t)1 << (i % 64);
        product *= 3;
    }
    CHECK(value_u64(u64, me, at(me, TICKET)) == all);
    CHECK(value_u64(u64, me, at(me, SUM)) == sum);
    CHECK(value_u64(u64, me, at(me, BITS)) == bits);
    CHECK(value_u64(u64, me, at(me, PRODUCT)) == product);
    CHECK(value_u64(u64, me, at(me, LEAST)) == 1);
    CHECK(value_u64(u64, me, at(me, MOST)) == all);
    for (chain = 0, i = 1; i <= all; i++) chain ^= i;
    CHECK((value_u64(u64, me, at(me, CHAIN)) ^ value_u64(u64, me, at(me, SWAPPED))) == chain);
    blocking_I32(i32, &word, me, at(me, SWORD), GEX_OP_GET, 0, 0, 0, 0);
    CHECK(word == (int32_t)all / 3);
    blocking_DBL(dbl, &real, me, at(me, REAL), GEX_OP_GET, 0, 0, 0, 0);
    CHECK(real == (double)sum / 4);
    blocking_FLT(flt, &single, me, at(me, SINGLE), GEX_OP_GET, 0, 0, 0, 0);
    CHECK(single == 0);
}

// A counter that is advanced by compare-and-swap only, in all types: each success counts one.
#define CAS_COUNTER(NAME, type, wide, ops)                                                                        \
    static void count_##NAME(gex_Rank_t home) {                                                                   \
        gex_AD_t ad;                                                                                              \
        type seen, old;                                                                                           \
        int done = 0;                                                                                             \
        PHASE("counting by CAS, " #NAME);                                                                         \
        memset(at(me, CLAIMED), 0, 8);                                                                            \
        gex_AD_Create(&ad, tm, GEX_DT_##NAME, GEX_OP_GET | GEX_OP_FCAS, 0);                                       \
        barrier();                                                                                                \
        blocking_##NAME(ad, &seen, home, at(home, CLAIMED), GEX_OP_GET, 0, 0, 0, 0);                              \
        while (done < 40) {                                                                                       \
            blocking_##NAME(ad, &old, home, at(home, CLAIMED), GEX_OP_FCAS, seen, (type)(seen + 1), 0, done % 2); \
            if (old == seen) done++, seen = (type)(seen + 1);                                                     \
            else seen = old;                                                                                      \
        }                                                                                                         \
        barrier();                                                                                                \
        blocking_##NAME(ad, &seen, home, at(home, CLAIMED), GEX_OP_GET, 0, 0, 0, 0);                              \
        CHECKF(seen == (type)(40 * np), "%.17g", (double)seen);                                                   \
        barrier();                                                                                                \
        gex_AD_Destroy(ad);                                                                                       \
    }
FOR_TYPES(CAS_COUNTER)
#define RUN(NAME, type, wide, ops) count_##NAME(np - 1);

int main(int argc, char **argv) {
    test_init("atomic_mixed", &argc, &argv);
    test_attach(64 * PLACES + (uintptr_t)EACH * np + 64);
    gex_AD_Create(&u64, tm, GEX_DT_U64, OPS_INTEGER, 0);
    gex_AD_Create(&u64_tickets, tm, GEX_DT_U64, GEX_OP_FOR, 0);
    gex_AD_Create(&i32, tm, GEX_DT_I32, GEX_OP_INC | GEX_OP_DEC | GEX_OP_GET, 0);
    gex_AD_Create(&dbl, tm, GEX_DT_DBL, GEX_OP_ADD | GEX_OP_GET, GEX_FLAG_AD_FAVOR_REMOTE);
    gex_AD_Create(&flt, tm, GEX_DT_FLT, GEX_OP_ADD | GEX_OP_SUB | GEX_OP_GET, GEX_FLAG_AD_FAVOR_MY_NBRHD);
    PHASE("all on one");
    reset();
    hammer(0);
    barrier();
    if (me == 0) check();
    barrier();
    PHASE("all on all");
    reset();
    for (gex_Rank_t hop = 0; hop < np; hop++) hammer((me + hop) % np);
    barrier();
    check();
    barrier();
    FOR_TYPES(RUN)
    gex_AD_Destroy(u64);
    gex_AD_Destroy(u64_tickets);
    gex_AD_Destroy(i32);
    gex_AD_Destroy(dbl);
    gex_AD_Destroy(flt);
    return test_finish();
}

// Completion of remote atomics: categories of implicit operations, leaves, access regions,
// thousands under way, IMMEDIATE.
// NP: 1 2 4 7
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
// FLAGS: -DMANY=400
#include "atomic.h"

#ifndef MANY
#define MANY 3000
#endif

static gex_AD_t ad;
static gex_Rank_t peer;
static char *place;
static uint64_t results[MANY];

// After the wait for its category an operation is complete, and its result is there.
static void categories(void) {
    uint64_t old = 99;
    for (int i = 0; i < 200; i++) {
        OK(gex_AD_OpNBI_U64(ad, NULL, peer, place, GEX_OP_SET, (uint64_t)i, 0, 0));
        gex_NBI_Wait(GEX_EC_PUT, 0);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
        OK(gex_AD_OpNBI_U64(ad, &old, peer, place, GEX_OP_GET, 0, 0, 0));
        gex_NBI_Wait(GEX_EC_GET, 0);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0 && old == (uint64_t)i);
        OK(gex_AD_OpNBI_U64(ad, &old, peer, place, GEX_OP_FADD, 5, 0, 0));
        gex_NBI_Wait(GEX_EC_RMW, 0);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0 && old == (uint64_t)i);
        OK(gex_AD_OpNBI_U64(ad, NULL, peer, place, GEX_OP_ADD, 5, 0, 0));
        while (gex_NBI_Test(GEX_EC_RMW, 0)) gasnet_AMPoll();
        OK(gex_AD_OpNBI_U64(ad, &old, peer, place, GEX_OP_SWAP, 0, 0, 0));
        gex_NBI_Wait(GEX_EC_ALL, 0);
        CHECK(old == (uint64_t)i + 10);
    }
}

// An operation that is under way shows in its own category, and in no other. Where it is complete
// at return there is nothing to see.
static void leaves(void) {
    static const struct {
        gex_OP_t op;
        gex_EC_t own;
    } cases[] = {
        {GEX_OP_SET, GEX_EC_PUT}, {GEX_OP_GET, GEX_EC_GET}, {GEX_OP_FADD, GEX_EC_RMW}, {GEX_OP_CAS, GEX_EC_RMW}};
    static const gex_EC_t all[] = {GEX_EC_PUT, GEX_EC_GET, GEX_EC_RMW};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t old = 0;
        gex_Event_t event = gex_AD_OpNB_U64(ad, &old, peer, place, cases[i].op, 1, 2, 0);
        if (at_once(peer)) CHECK(event == GEX_EVENT_INVALID);
        if (event != GEX_EVENT_INVALID) {
            for (size_t k = 0; k < ARRAY_LENGTH(all); k++) {
                gex_Event_t leaf = gex_Event_QueryLeaf(event, all[k]);
                if (all[k] != cases[i].own)
                    CHECKF(leaf == GEX_EVENT_INVALID, "operation %#x, category %u", (unsigned)cases[i].op,
                           (unsigned)all[k]);
                else gex_Event_Wait(leaf);
            }
            CHECK(gex_Event_Test(event) == GASNET_OK);
        }
        // The same in the implicit set: the categories of others have nothing to wait for.
        OK(gex_AD_OpNBI_U64(ad, &old, peer, place, cases[i].op, 1, 2, 0));
        for (size_t k = 0; k < ARRAY_LENGTH(all); k++)
            if (all[k] != cases[i].own) CHECK(gex_NBI_Test(all[k], 0) == 0);
        gex_NBI_Wait(cases[i].own, 0);
        CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    }
}

static void many(void) {
    static gex_Event_t events[MANY];
    static unsigned char seen[MANY];
    int open = 0;
    memset(seen, 0, sizeof seen);
    blocking_U64(ad, NULL, peer, place, GEX_OP_SET, 0, 0, 0, 0);
    for (int i = 0; i < MANY; i++) {
        results[i] = MANY;
        events[i] = gex_AD_OpNB_U64(ad, &results[i], peer, place, GEX_OP_FADD, 1, 0, 0);
        CHECK(events[i] != GEX_EVENT_NO_OP);
        open += events[i] != GEX_EVENT_INVALID;
    }
    CHECKF(at_once(peer) ? open == 0 : open > 0, "%d events", open);
    gex_Event_WaitAll(events, MANY, 0);
    for (int i = 0; i < MANY; i++) {
        REQUIRE(results[i] < MANY && !seen[results[i]]);
        seen[results[i]] = 1;
    }
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < MANY; i++) OK(gex_AD_OpNBI_U64(ad, &results[i], peer, place, GEX_OP_FADD, 1, 0, 0));
    gex_Event_t region = gex_NBI_EndAccessRegion(0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0);
    gex_Event_Wait(region);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < MANY; i++) {
        REQUIRE(results[i] >= MANY && results[i] < 2 * MANY && !seen[results[i] - MANY]);
        seen[results[i] - MANY] = 1;
    }
}

// IMMEDIATE gives the whole operation or nothing: the sum is the number of those that were taken.
static void immediate(void) {
    uint64_t taken = 0, old = 0;
    const char *faults = getenv("GASNET_FAULTS");
    const int refusals = faults && strstr(faults, "busy="); // refused for no reason
    int refused = 0;
    blocking_U64(ad, NULL, peer, place, GEX_OP_SET, 0, 0, 0, 0);
    for (int i = 0; i < MANY; i++) {
        if (i % 2) {
            if (gex_AD_OpNBI_U64(ad, NULL, peer, place, GEX_OP_INC, 0, 0, GEX_FLAG_IMMEDIATE) == 0) taken++;
            else refused++;
        } else {
            gex_Event_t event = gex_AD_OpNB_U64(ad, &results[i], peer, place, GEX_OP_FINC, 0, 0, GEX_FLAG_IMMEDIATE);
            if (event == GEX_EVENT_NO_OP) refused++;
            else {
                taken++;
                gex_Event_Wait(event);
            }
        }
        if (i % 50 == 0) gasnet_AMPoll();
    }
    gex_NBI_Wait(GEX_EC_RMW, 0);
    if (at_once(peer)) CHECK(refused == 0);
    blocking_U64(ad, &old, peer, place, GEX_OP_GET, 0, 0, 0, 0);
    CHECKF(old == taken, "%llu operations of %llu", (unsigned long long)old, (unsigned long long)taken);
    // With an idle peer and empty queues it succeeds.
    barrier();
    for (int i = 0; i < 100; i++) {
        gex_Event_t event = gex_AD_OpNB_U64(ad, &old, peer, place, GEX_OP_GET, 0, 0, GEX_FLAG_IMMEDIATE);
        CHECK(event != GEX_EVENT_NO_OP || refusals);
        if (event == GEX_EVENT_NO_OP) continue;
        gex_Event_Wait(event);
        CHECK(old == taken);
    }
    barrier();
}

int main(int argc, char **argv) {
    test_init("atomic_events", &argc, &argv);
    test_attach((uintptr_t)np * 64);
    gex_AD_Create(&ad, tm, GEX_DT_U64, OPS_INTEGER, 0);
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        peer = (me + hop) % np;
        place = seg_of(peer) + 64 * me;
        barrier();
        PHASE("categories");
        categories();
        PHASE("leaves");
        leaves();
        PHASE("many under way");
        many();
        PHASE("immediate");
        immediate();
    }
    barrier();
    gex_AD_Destroy(ad);
    return test_finish();
}

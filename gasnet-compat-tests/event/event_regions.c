// Access regions: their event stands for exactly the implicit operations begun inside, those
// outside stay apart, explicit ones too; leaves of the region's event per category; empty regions;
// several regions pending at once.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { COUNT = 16, BYTES = 20000 };
static char *source, *back, *remote;
static gex_Rank_t peer;
static gex_AM_Index_t medium_index = 150;
static int arrived;

static void on_medium(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 77);
    ATOMIC_ADD(&arrived, 1);
}

static char *slot(char *base, int i) { return base + (size_t)i * BYTES; }
static void fill(int salt) {
    for (int i = 0; i < COUNT; i++) pattern_fill(slot(source, i), BYTES, (uint64_t)(salt + i));
}
static void check_remote(int from, int to, int salt) {
    for (int i = from; i < to; i++) {
        OK(gex_RMA_GetBlocking(tm, slot(back, i), peer, slot(remote, i), BYTES, 0));
        CHECK_PATTERN(slot(back, i), BYTES, (uint64_t)(salt + i));
    }
}

static void empty(void) {
    PHASE("empty region");
    gex_NBI_BeginAccessRegion(0);
    gex_Event_t event = gex_NBI_EndAccessRegion(0);
    CHECK(event != GEX_EVENT_NO_OP);
    gex_Event_Wait(event);
    gex_NBI_BeginAccessRegion(0);
    event = gex_NBI_EndAccessRegion(0);
    while (gex_Event_Test(event)) gasnet_AMPoll();
}

static void puts_in_a_region(void) {
    PHASE("puts");
    fill(10);
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < COUNT; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES, GEX_EVENT_DEFER, 0));
    gex_Event_t event = gex_NBI_EndAccessRegion(0);
    CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == 0); /* none of them belongs to the implicit set any more */
    gex_Event_Wait(event);
    check_remote(0, COUNT, 10);
}

static void inside_and_outside(void) {
    PHASE("inside, outside, explicit");
    fill(30);
    for (int i = 0; i < 4; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES, GEX_EVENT_DEFER, 0));
    gex_NBI_BeginAccessRegion(0);
    for (int i = 4; i < 8; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES, GEX_EVENT_DEFER, 0));
    gex_Event_t explicit_event = gex_RMA_PutNB(tm, peer, slot(remote, 8), slot(source, 8), BYTES, GEX_EVENT_DEFER, 0);
    OK(gex_RMA_PutNBIVal(tm, peer, slot(remote, 10), 0x11, 1, 0));
    gex_Event_t event = gex_NBI_EndAccessRegion(0);
    for (int i = 11; i < COUNT; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES, GEX_EVENT_DEFER, 0));
    gex_Event_Wait(event);
    check_remote(4, 8, 30);
    gex_Event_Wait(explicit_event);
    check_remote(8, 9, 30);
    CHECK(gex_RMA_GetBlockingVal(tm, peer, slot(remote, 10), 1, 0) == 0x11);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    check_remote(0, 4, 30);
    check_remote(11, COUNT, 30);
}

static void leaves(void) {
    static int expected;
    static char message[400];
    PHASE("leaves of a region");
    pattern_fill(message, sizeof message, 77);
    fill(60);
    for (int i = 0; i < 4; i++) OK(gex_RMA_PutBlocking(tm, peer, slot(remote, i), slot(source, i), BYTES, 0));
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < 4; i++) OK(gex_RMA_GetNBI(tm, slot(back, i), peer, slot(remote, i), BYTES, 0));
    for (int i = 4; i < COUNT; i++)
        OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES, GEX_EVENT_GROUP, 0));
    OK(gex_AM_RequestMedium0(tm, peer, medium_index, message, sizeof message, GEX_EVENT_GROUP, 0));
    gex_Event_t event = gex_NBI_EndAccessRegion(0);
    gex_Event_t leaf = gex_Event_QueryLeaf(event, GEX_EC_GET);
    CHECK(leaf != GEX_EVENT_NO_OP);
    gex_Event_Wait(leaf);
    for (int i = 0; i < 4; i++) CHECK_PATTERN(slot(back, i), BYTES, (uint64_t)(60 + i));
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_LC));
    memset(source, 0xEE, (size_t)COUNT * BYTES);
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_AM));
    memset(message, 0xEE, sizeof message);
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_PUT));
    check_remote(4, COUNT, 60);
    gex_Event_Wait(gex_Event_QueryLeaf(event, GEX_EC_RMW));
    gex_Event_Wait(event);
    expected++; /* one rank sends to this one, too */
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) >= expected);
    barrier();
}

static void many_regions(void) {
    gex_Event_t events[COUNT];
    int round;
    PHASE("many regions pending");
    for (round = 0; round < 20; round++) {
        fill(90 + round);
        for (int i = 0; i < COUNT; i++) {
            gex_NBI_BeginAccessRegion(0);
            OK(gex_RMA_PutNBI(tm, peer, slot(remote, i), slot(source, i), BYTES / 2, GEX_EVENT_DEFER, 0));
            OK(gex_RMA_PutNBI(tm, peer, slot(remote, i) + BYTES / 2, slot(source, i) + BYTES / 2, BYTES / 2,
                              GEX_EVENT_DEFER, 0));
            events[i] = gex_NBI_EndAccessRegion(0);
        }
        if (round % 2) gex_Event_WaitAll(events, COUNT, 0);
        else
            for (int i = COUNT - 1; i >= 0; i--) gex_Event_Wait(events[i]);
    }
    check_remote(0, COUNT, 90 + round - 1);
}

int main(int argc, char **argv) {
    test_init("event_regions", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    test_attach((uintptr_t)COUNT * BYTES);
    source = (char *)malloc((size_t)COUNT * BYTES);
    back = (char *)malloc((size_t)COUNT * BYTES);
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        peer = (me + hop) % np;
        remote = seg_of(peer);
        barrier();
        empty();
        puts_in_a_region();
        inside_and_outside();
        leaves();
        many_regions();
        barrier();
    }
    return test_finish();
}

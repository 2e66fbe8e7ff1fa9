// More than 65,535 operations in flight at once: NB puts and gets with an event each, NBI, also by
// value, access regions, AM events.
// NP: 1 2 3
// TIMEOUT: 120
#include "stress.h"

enum { COUNT = 70000, SINK = 200 };
static gex_Event_t events[COUNT];
static uint64_t values[COUNT], back[COUNT];
static int sunk;

static void on_sink(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    uint64_t found;
    memcpy(&found, payload, 8);
    CHECK(bytes == 8 && found == (uint64_t)value * 3);
    ATOMIC_ADD(&sunk, 1);
}

static void check_back(const char *what) {
    for (int i = 0; i < COUNT; i++)
        if (back[i] != values[i]) {
            CHECKF(0, "%s: value %d is %llu, expected %llu", what, i, (unsigned long long)back[i],
                   (unsigned long long)values[i]);
            break;
        }
    memset(back, 0, sizeof back);
}

static void new_values(uint64_t seed) {
    for (int i = 0; i < COUNT; i++) values[i] = stress_word(seed * np + me, (size_t)i);
}

/* Waits for all events, a random few at a time, as a client with its own scheduler does. */
static void wait_in_pieces(void) {
    uint64_t random = 12345 + me;
    size_t at = 0;
    while (at < COUNT) {
        size_t some = 1 + (size_t)(next_random(&random) % 1000);
        if (some > COUNT - at) some = COUNT - at;
        switch (next_random(&random) % 4) {
            case 0: gex_Event_WaitAll(events + at, some, 0); break;
            case 1:
                while (gex_Event_TestAll(events + at, some, 0) == GASNET_ERR_NOT_READY) gasnet_AMPoll();
                break;
            case 2:
                gex_Event_WaitSome(events + at, some, 0);
                gex_Event_WaitAll(events + at, some, 0);
                break;
            default: {
                for (size_t i = some; i-- > 0;) gex_Event_Wait(events[at + i]); /* last first */
            }
        }
        at += some;
    }
}

int main(int argc, char **argv) {
    test_init("many_in_flight", &argc, &argv);
    register_handler(SINK, (gex_AM_Fn_t)on_sink, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    test_attach(COUNT * sizeof(uint64_t));
    gex_Rank_t peer = (me + 1) % np;
    uint64_t *target = (uint64_t *)(void *)seg_of(peer);
    barrier();

    PHASE("NB");
    new_values(1);
    for (int i = 0; i < COUNT; i++) events[i] = gex_RMA_PutNB(tm, peer, target + i, values + i, 8, GEX_EVENT_DEFER, 0);
    wait_in_pieces();
    for (int i = 0; i < COUNT; i++) events[i] = gex_RMA_GetNB(tm, back + i, peer, target + i, 8, 0);
    wait_in_pieces();
    check_back("NB");

    PHASE("NBI");
    new_values(2);
    for (int i = 0; i < COUNT; i++) CHECK(gex_RMA_PutNBI(tm, peer, target + i, values + i, 8, GEX_EVENT_DEFER, 0) == 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    for (int i = 0; i < COUNT; i++) CHECK(gex_RMA_GetNBI(tm, back + i, peer, target + i, 8, 0) == 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
    check_back("NBI");

    PHASE("NBI by value");
    new_values(4);
    for (int i = 0; i < COUNT; i++) OK(gex_RMA_PutNBIVal(tm, peer, target + i, values[i], 8, 0));
    gex_NBI_Wait(GEX_EC_ALL, 0);
    for (int i = 0; i < COUNT; i++) OK(gex_RMA_GetNBI(tm, back + i, peer, target + i, 8, 0));
    gex_NBI_Wait(GEX_EC_ALL, 0);
    check_back("NBI by value");

    PHASE("access region");
    new_values(3);
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < COUNT; i++) gex_RMA_PutNBI(tm, peer, target + i, values + i, 8, GEX_EVENT_DEFER, 0);
    gex_Event_t region = gex_NBI_EndAccessRegion(0);
    gex_Event_Wait(region);
    gex_NBI_BeginAccessRegion(0);
    for (int i = 0; i < COUNT; i++) gex_RMA_GetNBI(tm, back + i, peer, target + i, 8, 0);
    region = gex_NBI_EndAccessRegion(0);
    gex_Event_Wait(region);
    check_back("access region");

    PHASE("AM events");
    for (int i = 0; i < COUNT; i++) {
        values[i] = (uint64_t)i * 3;
        gex_AM_RequestMedium1(tm, peer, SINK, values + i, 8, &events[i], 0, i);
    }
    wait_in_pieces();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&sunk) == COUNT);
    barrier();
    return test_finish();
}

// An IMMEDIATE put or get of much data, to a peer that is outside GASNet, is accepted and keeps no
// copy of what finds no room: the data leaves from the client's source until local completion.
// NP: 2
// CONDUITS: smp
// SEGMENTS: fast large
// ENV: GASNET_PSHM_KERNEL_COPY=0
// TIMEOUT: 90
#include "check.h"
#include <gasnet_vis.h>

enum { BIG = 64 << 20, PIECE = 256, PIECES = BIG / 2 / PIECE, MOST = BIG / 4 };
static gex_EP_t other;
static char *mine, *theirs, *here;
static void *remote_pieces[PIECES], *local_pieces[PIECES];
static uint32_t *go, turn;

static void make(void) {
    gex_Segment_t made;
    void *address = NULL;
    test_attach(GASNET_PAGESIZE);
    go = (uint32_t *)(void *)seg_of(1);
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_Segment_Create(&made, client, NULL, BIG, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(other, made, 0));
    OK(gex_EP_PublishBoundSegment(tm, &other, 1, 0));
    mine = (char *)gex_Segment_QueryAddr(made);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, 1), !me, &address, NULL, NULL, 0));
    theirs = (char *)address;
    here = (char *)malloc(BIG);
    for (int i = 0; i < PIECES; i++) {
        local_pieces[i] = here + 2 * PIECE * i;
        remote_pieces[i] = theirs + 2 * PIECE * (PIECES - 1 - i);
    }
    memset(mine, 0, BIG);
    pattern_fill(here, BIG, 5);
}

/* Rank 1 is outside GASNet until rank 0 has ended its call. */
static void stay_outside(void) {
    while (ATOMIC_GET(go) < turn) usleep(1000);
}
static void call_ended(void) { OK(gex_RMA_PutBlocking(tm, 1, go, &turn, sizeof turn, 0)); }

static void begin(const char *what) {
    PHASE(what);
    turn++;
    barrier();
}

int main(int argc, char **argv) {
    gex_Event_t lc = GEX_EVENT_INVALID;
    test_init("immediate_bounded", &argc, &argv);
    make();
    gex_TM_t pair = gex_TM_Pair(ep, gex_EP_QueryIndex(other));

    begin("put");
    if (me == 0) {
        size_t before = resident();
        gex_Event_t event = gex_RMA_PutNB(pair, 1, theirs, here, BIG, &lc, GEX_FLAG_IMMEDIATE);
        CHECKF(resident() < before + MOST, "%zu bytes more", resident() - before);
        REQUIRE(event != GEX_EVENT_NO_OP);
        CHECK(lc != GEX_EVENT_INVALID);
        call_ended();
        gex_Event_Wait(lc);
        memset(here, 1, BIG);
        gex_Event_Wait(event);
        pattern_fill(here, BIG, 5);
    } else {
        stay_outside();
    }
    barrier();
    if (me == 1) CHECK_PATTERN(mine, BIG, 5);

    begin("put with GEX_EVENT_NOW"); /* may wait for room */
    if (me == 0) {
        size_t before = resident();
        gex_Event_t event = gex_RMA_PutNB(pair, 1, theirs, here + 1, BIG - 1, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE);
        REQUIRE(event != GEX_EVENT_NO_OP);
        CHECKF(resident() < before + MOST, "%zu bytes more", resident() - before);
        memset(here, 1, BIG);
        gex_Event_Wait(event);
        pattern_fill(here, BIG, 5);
    }
    barrier();
    if (me == 1) CHECK(mine[0] == here[1] && memcmp(mine, here + 1, BIG - 1) == 0);
    memset(mine, 0, BIG);

    begin("VIS put");
    if (me == 0) {
        size_t before = resident();
        gex_Event_t event = gex_VIS_IndexedPutNB(pair, 1, PIECES, remote_pieces, PIECE, PIECES, local_pieces, PIECE,
                                                 GEX_FLAG_IMMEDIATE | GEX_FLAG_ENABLE_LEAF_LC);
        CHECKF(resident() < before + MOST, "%zu bytes more", resident() - before);
        REQUIRE(event != GEX_EVENT_NO_OP);
        lc = gex_Event_QueryLeaf(event, GEX_EC_LC);
        CHECK(lc != GEX_EVENT_INVALID);
        call_ended();
        gex_Event_Wait(lc);
        memset(here, 1, BIG);
        gex_Event_Wait(event);
        pattern_fill(here, BIG, 5);
    } else {
        stay_outside();
    }
    barrier();
    for (int i = 0; me == 1 && i < PIECES; i++)
        CHECK(memcmp(mine + 2 * PIECE * (PIECES - 1 - i), here + 2 * PIECE * i, PIECE) == 0);

    begin("get");
    pattern_fill(mine, BIG, 6);
    barrier();
    if (me == 0) {
        gex_Event_t event = gex_RMA_GetNB(pair, here, 1, theirs, BIG, GEX_FLAG_IMMEDIATE);
        REQUIRE(event != GEX_EVENT_NO_OP);
        call_ended();
        gex_Event_Wait(event);
        CHECK_PATTERN(here, BIG, 6);
    } else {
        stay_outside();
    }

    begin("VIS get");
    if (me == 0) {
        memset(here, 0, BIG);
        gex_Event_t event = gex_VIS_IndexedGetNB(pair, PIECES, local_pieces, PIECE, 1, PIECES, remote_pieces, PIECE,
                                                 GEX_FLAG_IMMEDIATE);
        REQUIRE(event != GEX_EVENT_NO_OP);
        call_ended();
        gex_Event_Wait(event);
        for (int i = 0; i < PIECES; i++)
            CHECK(memcmp(mine + 2 * PIECE * (PIECES - 1 - i), here + 2 * PIECE * i, PIECE) == 0);
    } else {
        stay_outside();
    }
    return test_finish();
}

// Puts and gets between any two kinds of memory: the primordial segment, another of host memory,
// and two devices of each class; to this rank, to the next and to the one before; every form,
// empty, odd, larger than a packet and several MiB; local completion, offsets, values.
// NP: 1 2 4
// TIMEOUT: 240
// FLAGS: -O2
// DEVICES: yes
#include "device.h"

enum { MOST = (3 << 20) + 17, SPACE = 2 * MOST + 4096 };

static char *host;

/* A put of `bytes` in one of the forms, complete at return. */
static void put(int form, gex_TM_t pair, gex_Rank_t peer, void *to, void *from, size_t bytes, gex_Flags_t flags) {
    gex_Event_t lc = GEX_EVENT_INVALID, event;
    switch (form % 5) {
        case 0: OK(gex_RMA_PutBlocking(pair, peer, to, from, bytes, flags)); return;
        case 1: gex_Event_Wait(gex_RMA_PutNB(pair, peer, to, from, bytes, GEX_EVENT_DEFER, flags)); return;
        case 2:
            event = gex_RMA_PutNB(pair, peer, to, from, bytes, &lc, flags);
            gex_Event_Wait(lc);
            gex_Event_Wait(event);
            return;
        case 3:
            OK(gex_RMA_PutNBI(pair, peer, to, from, bytes, GEX_EVENT_NOW, flags));
            gex_NBI_Wait(GEX_EC_ALL, 0);
            return;
        default:
            gex_NBI_BeginAccessRegion(0);
            OK(gex_RMA_PutNBI(pair, peer, to, from, bytes, GEX_EVENT_DEFER, flags));
            gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    }
}

static void get(int form, gex_TM_t pair, void *to, gex_Rank_t peer, void *from, size_t bytes, gex_Flags_t flags) {
    switch (form % 3) {
        case 0: OK(gex_RMA_GetBlocking(pair, to, peer, from, bytes, flags)); return;
        case 1: gex_Event_Wait(gex_RMA_GetNB(pair, to, peer, from, bytes, flags)); return;
        default: OK(gex_RMA_GetNBI(pair, to, peer, from, bytes, flags)); gex_NBI_Wait(GEX_EC_ALL, 0);
    }
}

/* Rank `me` works with the first half of rank `peer`'s memory: nobody else does, since the distance
 * is everybody's. Its own second half is the local side. */
static void transfer(place *local, place *remote, gex_Rank_t distance, size_t bytes, int form) {
    gex_Rank_t peer = (me + distance) % np, source = (me + np - distance) % np;
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    size_t there = bytes % 64, here = MOST + 2048 + bytes % 32;
    char *mine = local->base + here, *theirs = remote->theirs[peer] + there;
    uint64_t seed = me * 131 + bytes + (uint64_t)form;
    gex_Flags_t flags = form % 2 ? GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET : 0;
    void *a = form % 2 ? place_offset(local, local->base, mine) : mine;
    void *b = form % 2 ? place_offset(remote, remote->theirs[peer], theirs) : theirs;
    place_fill(local, mine, bytes, seed);
    put(form, pair, peer, b, a, bytes, flags);
    place_fill(local, mine, bytes, 1); /* the source is the client's again */
    barrier();
    CHECK_PLACE(remote, remote->base + there, bytes, source * 131 + bytes + (uint64_t)form);
    get(form, pair, a, peer, b, bytes, flags);
    CHECK_PLACE(local, mine, bytes, seed);
    barrier();
}

static void values(place *local, place *remote, gex_Rank_t distance) {
    static const uint64_t value = UINT64_C(0x8877665544332211);
    gex_Rank_t peer = (me + distance) % np;
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *theirs = remote->theirs[peer];
    for (size_t n = 1; n <= 8; n++) {
        uint64_t mask = n == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * n) - 1;
        char *at = theirs + 100 + 16 * n;
        OK(gex_RMA_PutBlockingVal(pair, peer, at, value + n, n, 0));
        CHECK(gex_RMA_GetBlockingVal(pair, peer, at, n, 0) == ((value + n) & mask));
        gex_Event_Wait(gex_RMA_PutNBVal(pair, peer, at, value - n, n, 0));
        CHECK(gex_RMA_GetBlockingVal(pair, peer, at, n, 0) == ((value - n) & mask));
        OK(gex_RMA_PutNBIVal(pair, peer, at, value + 2 * n, n,
                             GEX_FLAG_SELF_SEG_OFFSET)); /* a value is nowhere: the flag is idle */
        gex_NBI_Wait(GEX_EC_ALL, 0);
        CHECK(gex_RMA_GetBlockingVal(pair, peer, at, n, 0) == ((value + 2 * n) & mask));
    }
    barrier();
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {0, 1, 3, 8, 100, 4097, 65536, 70001};
    static char phase[128];
    int form = 0;
    test_init("mk_pairs", &argc, &argv);
    devices_required();
    host = (char *)malloc(MOST);
    make_places(SPACE);
    for (int from = 0; from < place_count; from++) {
        for (int to = 0; to < place_count; to++) {
            snprintf(phase, sizeof phase, "%s to %s", place_name(&places[from]), place_name(&places[to]));
            PHASE(phase);
            for (gex_Rank_t distance = 0; distance < np; distance++) {
                if (distance > 1 && distance < np - 1) continue;
                for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
                    transfer(&places[from], &places[to], distance, sizes[i], form++);
                values(&places[from], &places[to], distance);
            }
            /* several pieces of the library's own staging */
            transfer(&places[from], &places[to], np > 1, (from + to) % 3 ? 300001 : MOST, form++);
        }
    }
    /* a host buffer outside of every segment */
    for (int to = 0; to < place_count; to++) {
        gex_Rank_t peer = (me + 1) % np;
        gex_TM_t pair = gex_TM_Pair(ep, places[to].index);
        pattern_fill(host, MOST, me);
        OK(gex_RMA_PutBlocking(pair, peer, places[to].theirs[peer] + 5, host, MOST, 0));
        memset(host, 0, MOST);
        OK(gex_RMA_GetBlocking(pair, host, peer, places[to].theirs[peer] + 5, MOST, 0));
        CHECK_PATTERN(host, MOST, me);
        barrier();
    }
    end_places();
    free(host);
    return test_finish();
}

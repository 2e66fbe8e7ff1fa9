// Root and leaf events: leaves by pointer and by gex_Event_QueryLeaf, in both orders, mixed with
// their roots in arrays; syncing the root alone syncs its leaves.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { WINDOW = 32, BYTES = 40000 };
static char *source, *back;
static gex_Rank_t peer;
static char *remote;

static void fill(int salt) {
    for (int i = 0; i < WINDOW; i++) pattern_fill(source + (size_t)i * BYTES, BYTES, (uint64_t)(salt + i));
}
static void check(int salt) {
    for (int i = 0; i < WINDOW; i++) {
        OK(gex_RMA_GetBlocking(tm, back, peer, remote + (size_t)i * BYTES, BYTES, 0));
        CHECK_PATTERN(back, BYTES, (uint64_t)(salt + i));
    }
}
static gex_Event_t put(int i, gex_Event_t *lc) {
    return gex_RMA_PutNB(tm, peer, remote + (size_t)i * BYTES, source + (size_t)i * BYTES, BYTES, lc, 0);
}

static void queried_leaves(void) {
    gex_Event_t root[WINDOW];
    fill(100);
    for (int i = 0; i < WINDOW; i++) {
        gex_Event_t given;
        root[i] = put(i, &given);
        gex_Event_t asked = gex_Event_QueryLeaf(root[i], GEX_EC_LC);
        CHECK(asked != GEX_EVENT_NO_OP);
        /* a query makes nothing new: either one may be synchronised, and asking again gives the
         * same event */
        if (asked != GEX_EVENT_INVALID && gex_Event_QueryLeaf(root[i], GEX_EC_LC) != GEX_EVENT_INVALID)
            CHECK(gex_Event_QueryLeaf(root[i], GEX_EC_LC) == asked);
        if (i % 2) gex_Event_Wait(asked);
        else gex_Event_Wait(given);
        memset(source + (size_t)i * BYTES, 0xEE, BYTES);
    }
    for (int i = 0; i < WINDOW; i++) gex_Event_Wait(root[i]);
    check(100);
    CHECK(gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_LC) != GEX_EVENT_NO_OP);
    gex_Event_Wait(gex_Event_QueryLeaf(GEX_EVENT_INVALID, GEX_EC_LC));
}

/* Roots and leaves in one array, in any relative order. */
static void mixed_arrays(void) {
    gex_Event_t all[2 * WINDOW];
    int i, left;
    for (int how = 0; how < 4; how++) {
        fill(200 + how * 50);
        for (i = 0; i < WINDOW; i++) {
            int root_at = (how & 1) ? i : 2 * WINDOW - 1 - i, leaf_at = (how & 1) ? WINDOW + i : WINDOW - 1 - i;
            all[root_at] = put(i, &all[leaf_at]);
        }
        if (how < 2) {
            gex_Event_WaitAll(all, 2 * WINDOW, 0);
        } else {
            do {
                gex_Event_WaitSome(all, 2 * WINDOW, 0);
                for (left = 0, i = 0; i < 2 * WINDOW; i++) left += all[i] != GEX_EVENT_INVALID;
            } while (left);
        }
        for (i = 0; i < 2 * WINDOW; i++) CHECK(all[i] == GEX_EVENT_INVALID);
        check(200 + how * 50);
    }
}

static void root_only(void) {
    gex_Event_t root[WINDOW], leaf[WINDOW];
    int round;
    for (round = 0; round < 20; round++) {
        fill(500 + round);
        for (int i = 0; i < WINDOW; i++) root[i] = put(i, &leaf[i]);
        for (int i = 0; i < WINDOW; i++) gex_Event_Wait(root[i]); /* the leaves must not be passed any more */
    }
    check(500 + round - 1);
}

int main(int argc, char **argv) {
    test_init("event_leaf", &argc, &argv);
    test_attach((uintptr_t)WINDOW * BYTES);
    source = (char *)malloc((size_t)WINDOW * BYTES);
    back = (char *)malloc(BYTES);
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) {
        peer = (me + hop) % np;
        remote = seg_of(peer);
        barrier();
        PHASE("queried leaves");
        queried_leaves();
        PHASE("roots and leaves in arrays");
        mixed_arrays();
        PHASE("roots only");
        root_only();
        barrier();
    }
    return test_finish();
}

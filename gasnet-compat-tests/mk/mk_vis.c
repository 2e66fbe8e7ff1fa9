// Scattered puts and gets of device memory: vectors, lists and strides between any two kinds, in
// every form; and telling the peer, whose handler sees all data.
// NP: 1 2 4
// TIMEOUT: 120
// DEVICES: yes
#include "device.h"

#include <gasnet_vis.h>

enum {
    ROWS = 6,
    COLUMNS = 5,
    ELEM = 40,
    STEP = 64,
    PITCH = 500,
    BYTES = ROWS * COLUMNS * ELEM,
    SPACE = 40000,
    LOCAL = 20000,
    HANDLER = 201
};

static const size_t count[2] = {COLUMNS, ROWS};
static const ptrdiff_t steps[2] = {STEP, PITCH}, dense[2] = {ELEM, ELEM *COLUMNS};
static int notified;

static size_t scattered(size_t i) { return i / COLUMNS * PITCH + i % COLUMNS * STEP; }

/* Pieces at `base` + scattered places, in order or turned round. */
static void list(void **to, char *base, int turned) {
    for (size_t i = 0; i < ROWS * COLUMNS; i++) to[i] = base + scattered(turned ? ROWS * COLUMNS - 1 - i : i);
}
static void check_scattered(place *p, char *base, uint64_t seed, int turned) {
    char *all = (char *)malloc(SPACE);
    place_read(p, all, base, (ROWS - 1) * PITCH + COLUMNS * STEP);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        for (size_t j = 0; j < ELEM; j++)
            CHECKF((unsigned char)all[scattered(turned ? ROWS * COLUMNS - 1 - i : i) + j] ==
                       pattern_byte(seed, i * ELEM + j),
                   "piece %zu", i);
    free(all);
}

static void strided(place *local, place *remote, gex_Rank_t peer, uint64_t seed) {
    static const gex_Flags_t flags = GEX_FLAG_IMMEDIATE | GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET;
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + LOCAL, *theirs = remote->theirs[peer];
    place_fill(local, mine, BYTES, seed);
    OK(gex_VIS_StridedPutBlocking(pair, peer, theirs, steps, mine, dense, ELEM, count, 2, 0));
    place_fill(local, mine, BYTES, 1);
    barrier();
    check_scattered(remote, remote->base, (me + np - 1) % np + seed - me, 0);
    gex_Event_Wait(gex_VIS_StridedGetNB(pair, mine, dense, peer, theirs, steps, ELEM, count, 2, 0));
    CHECK_PLACE(local, mine, BYTES, seed);
    /* by offsets, and refused rather than waited for */
    place_fill(local, mine, BYTES, 1);
    while (gex_VIS_StridedGetNBI(pair, place_offset(local, local->base, mine), dense, peer,
                                 place_offset(remote, theirs, theirs), steps, ELEM, count, 2, flags))
        gasnet_AMPoll();
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK_PLACE(local, mine, BYTES, seed);
    barrier();
}

static void lists(place *local, place *remote, gex_Rank_t peer, uint64_t seed) {
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + LOCAL, *theirs = remote->theirs[peer];
    void *pieces[ROWS * COLUMNS], *whole[1];
    gex_Memvec_t here[2], there[ROWS * COLUMNS];
    place_fill(local, mine, BYTES, seed);
    list(pieces, theirs, 1);
    whole[0] = mine;
    gex_Event_Wait(gex_VIS_IndexedPutNB(pair, peer, ROWS * COLUMNS, pieces, ELEM, 1, whole, BYTES, 0));
    place_fill(local, mine, BYTES, 1);
    barrier();
    check_scattered(remote, remote->base, (me + np - 1) % np + seed - me, 1);
    here[0].gex_addr = mine, here[0].gex_len = 101;
    here[1].gex_addr = mine + 101, here[1].gex_len = BYTES - 101;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) there[i].gex_addr = pieces[i], there[i].gex_len = ELEM;
    OK(gex_VIS_VectorGetNBI(pair, 2, here, peer, ROWS * COLUMNS, there, 0));
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK_PLACE(local, mine, BYTES, seed);
    OK(gex_VIS_VectorPutBlocking(pair, peer, 0, NULL, 0, NULL, 0));
    barrier();
}

/* The payload. */
struct note {
    uint64_t seed;
    int place;
};
static void handler(gex_Token_t token, void *payload, size_t bytes) {
    struct note note;
    REQUIRE(bytes == sizeof note);
    memcpy(&note, payload, sizeof note);
    check_scattered(&places[note.place], places[note.place].base, note.seed, 0);
    ATOMIC_ADD(&notified, 1);
}

static void tell(place *local, int remote, gex_Rank_t peer, uint64_t seed) {
    gex_TM_t pair = gex_TM_Pair(local->ep, places[remote].index);
    char *mine = local->base + LOCAL, *theirs = places[remote].theirs[peer];
    struct note note;
    int want = ATOMIC_GET(&notified) + 1;
    barrier();
    note.seed = seed, note.place = remote;
    place_fill(local, mine, BYTES, seed);
    gex_VIS_SetPeerCompletionHandler(HANDLER, &note, sizeof note, 0);
    gex_Event_Wait(gex_VIS_StridedPutNB(pair, peer, theirs, steps, mine, dense, ELEM, count, 2, 0));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&notified) == want);
    barrier();
}

int main(int argc, char **argv) {
    uint64_t seed = 100;
    test_init("mk_vis", &argc, &argv);
    devices_required();
    register_handler(HANDLER, (gex_AM_Fn_t)handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0);
    make_places(SPACE);
    for (int from = 0; from < place_count; from++) {
        for (int to = 0; to < place_count; to++) {
            PHASE("strided");
            strided(&places[from], &places[to], (me + 1) % np, me + (seed += 10));
            PHASE("lists");
            lists(&places[from], &places[to], (me + 1) % np, me + (seed += 10));
            PHASE("peer completion");
            tell(&places[from], to, (me + 1) % np, me + (seed += 10));
        }
    }
    end_places();
    return test_finish();
}

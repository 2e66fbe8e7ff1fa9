// gex_VIS_SetPeerCompletionHandler: the handler runs at the target, once per put, as a reply
// handler, with its payload aligned and whole, and sees all data of the put, whatever its shape,
// size and distance.
// NP: 1 2 3 4 7
#include "check.h"
#include <gasnet_vis.h>

enum { HANDLER = 201, OTHER = 202, LARGE = 300000, PIECE = 8, STEP = 16 };

/* The payload: place of the data at the target, and their expected contents. */
struct note {
    uint64_t seed;
    uint32_t offset, pieces;
};

static gex_AM_Entry_t entries[2];
static unsigned runs, empty_runs, other_runs;
static char *own;

static void check_token(gex_Token_t token) {
    gex_Token_Info_t info;
    gex_TI_t known = gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK((known & GEX_TI_SRCRANK) && info.gex_srcrank < np);
    if (known & GEX_TI_EP) CHECK(info.gex_ep == ep);
    if (known & GEX_TI_IS_REQ) CHECK(!info.gex_is_req);
    if (known & GEX_TI_IS_LONG) CHECK(!info.gex_is_long);
    if (known & GEX_TI_ENTRY)
        CHECK(info.gex_entry->gex_fnptr == entries[0].gex_fnptr && info.gex_entry->gex_nargs == 0);
}

static void handler(gex_Token_t token, void *payload, size_t bytes) {
    check_token(token);
    if (bytes >= sizeof(struct note)) {
        struct note note;
        CHECKF((uintptr_t)payload % 8 == 0, "payload at %p", payload);
        memcpy(&note, payload, sizeof note);
        for (size_t i = sizeof note; i < bytes; i++)
            CHECKF(((unsigned char *)payload)[i] == 0xA5, "payload byte %zu", i);
        for (size_t i = 0; i < note.pieces; i++)
            for (size_t j = 0; j < PIECE; j++)
                CHECKF((unsigned char)own[note.offset + i * STEP + j] == pattern_byte(note.seed, i * PIECE + j),
                       "piece %zu of %u", i, (unsigned)note.pieces);
    } else {
        CHECK(bytes == 0);
        ATOMIC_ADD(&empty_runs, 1U);
    }
    ATOMIC_ADD(&runs, 1U);
}

static void other_handler(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(bytes == 5);
    ATOMIC_ADD(&other_runs, 1U);
}

static unsigned sent, sent_empty, sent_other;
static unsigned char payload[GEX_VIS_MAX_PEERCOMPLETION];

static void arm(uint64_t seed, uint32_t offset, uint32_t pieces, size_t bytes) {
    struct note note;
    note.seed = seed, note.offset = offset, note.pieces = pieces;
    memset(payload, 0xA5, sizeof payload);
    memcpy(payload, &note, sizeof note);
    gex_VIS_SetPeerCompletionHandler(HANDLER, payload, bytes, 0);
    sent++;
}

/* Puts `pieces` pieces by all shapes; each put is announced to the target. */
static void puts_of(gex_Rank_t peer, char *remote, uint32_t offset, uint32_t pieces, size_t bytes) {
    static unsigned char source[LARGE];
    static gex_Memvec_t to[LARGE / STEP], from[1];
    static void *list[LARGE / STEP], *whole[1];
    const ptrdiff_t steps[1] = {STEP}, packed[1] = {PIECE};
    const size_t count[1] = {pieces};
    static uint64_t seed;
    for (uint32_t i = 0; i < pieces; i++) {
        to[i].gex_addr = list[i] = remote + (size_t)i * STEP;
        to[i].gex_len = PIECE;
    }
    from[0].gex_addr = whole[0] = source;
    from[0].gex_len = (size_t)pieces * PIECE;
    pattern_fill(source, (size_t)pieces * PIECE, ++seed);
    arm(seed, offset, pieces, bytes);
    OK(gex_VIS_VectorPutBlocking(tm, peer, pieces, to, 1, from, 0));
    barrier();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&runs) == sent);
    barrier();
    pattern_fill(source, (size_t)pieces * PIECE, ++seed);
    arm(seed, offset, pieces, bytes);
    gex_Event_Wait(gex_VIS_IndexedPutNB(tm, peer, pieces, list, PIECE, 1, whole, (size_t)pieces * PIECE, 0));
    barrier();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&runs) == sent);
    barrier();
    pattern_fill(source, (size_t)pieces * PIECE, ++seed);
    arm(seed, offset, pieces, bytes);
    gex_VIS_StridedPutNBI(tm, peer, remote, steps, source, packed, PIECE, count, 1, GEX_FLAG_ENABLE_LEAF_LC);
    gex_NBI_Wait(GEX_EC_LC, 0);
    memset(source, 0, sizeof source);
    memset(payload, 0, sizeof payload);
    gex_NBI_Wait(GEX_EC_PUT, 0);
    barrier();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&runs) == sent);
    barrier();
}

/* A put that moves nothing still tells; only the next put does; 0 disarms. */
static void corners(gex_Rank_t peer, char *remote) {
    const ptrdiff_t step[1] = {8};
    const size_t none[1] = {0};
    char byte = 1;
    gex_Memvec_t one = {remote, 1}, mine = {&byte, 1};
    gex_VIS_SetPeerCompletionHandler(HANDLER, NULL, 0, 0);
    OK(gex_VIS_VectorPutBlocking(tm, peer, 0, NULL, 0, NULL, 0));
    gex_VIS_SetPeerCompletionHandler(HANDLER, NULL, 0, 0);
    OK(gex_VIS_IndexedPutNBI(tm, peer, 0, NULL, 9, 0, NULL, 7, 0));
    gex_VIS_SetPeerCompletionHandler(HANDLER, NULL, 0, 0);
    OK(gex_VIS_StridedPutBlocking(tm, peer, NULL, step, NULL, step, 8, none, 1, 0));
    gex_VIS_SetPeerCompletionHandler(OTHER, "wrong", 5, 0);
    gex_VIS_SetPeerCompletionHandler(HANDLER, NULL, 0, 0); /* instead */
    OK(gex_VIS_VectorPutBlocking(tm, peer, 1, &one, 1, &mine, 0));
    OK(gex_VIS_VectorPutBlocking(tm, peer, 1, &one, 1, &mine, 0)); /* tells nobody */
    gex_VIS_SetPeerCompletionHandler(OTHER, "wrong", 5, 0);
    gex_VIS_SetPeerCompletionHandler(0, NULL, 0, 0);
    OK(gex_VIS_VectorPutBlocking(tm, peer, 1, &one, 1, &mine, 0));
    gex_VIS_SetPeerCompletionHandler(OTHER, "right", 5, 0);
    OK(gex_RMA_PutBlocking(tm, peer, remote, &byte, 1, 0)); /* no VIS operation */
    OK(gex_VIS_VectorPutBlocking(tm, peer, 1, &one, 1, &mine, 0));
    gex_NBI_Wait(GEX_EC_ALL, 0);
    sent += 4;
    sent_empty += 4;
    sent_other += 1;
    barrier();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&runs) == sent && ATOMIC_GET(&other_runs) == sent_other);
    CHECK(ATOMIC_GET(&empty_runs) == sent_empty);
    barrier();
}

int main(int argc, char **argv) {
    static const uint32_t pieces[] = {1, 100, 3000, LARGE / STEP};
    test_init("vis_peer", &argc, &argv);
    for (size_t i = 0; i < 2; i++) {
        entries[i].gex_index = (gex_AM_Index_t)(i ? OTHER : HANDLER);
        entries[i].gex_fnptr = i ? (gex_AM_Fn_t)other_handler : (gex_AM_Fn_t)handler;
        entries[i].gex_flags = GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY;
    }
    OK(gex_EP_RegisterHandlers(ep, entries, 2));
    test_attach((uintptr_t)np * LARGE);
    own = seg_of(me);
    for (gex_Rank_t distance = 0; distance < np; distance++) {
        gex_Rank_t peer = (me + distance) % np;
        PHASE("data and payload");
        for (size_t i = 0; i < ARRAY_LENGTH(pieces); i++)
            puts_of(peer, seg_of(peer) + (size_t)me * LARGE, me * LARGE, pieces[i],
                    i % 2 ? GEX_VIS_MAX_PEERCOMPLETION : sizeof(struct note));
        PHASE("corners");
        corners(peer, seg_of(peer) + (size_t)me * LARGE);
    }
    return test_finish();
}

/* Operations on the stack, heap and static data of a neighbour, for the programs in this folder
 * (EVERYTHING): puts and gets of all forms and odd sizes, Longs up to 1.1 MB, non-contiguous
 * transfers, atomics, memset. */
#ifndef COMPAT_TESTS_EVERYWHERE_H
#define COMPAT_TESTS_EVERYWHERE_H

#include "check.h"

#include <gasnet.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>

enum { AREA = 1100003, ROWS = 37, ROW = 8192, PIECE = 4099, SMALL_PIECE = 13, H_LONG = 210, H_BACK = 211, AREAS = 4 };

/* Addresses of one process, as all others know them. */
struct areas {
    char *base[AREAS];
};
static struct areas *all_areas;
static char static_area[AREA + 64];
static int long_requests, long_replies;

static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t area, gex_AM_Arg_t high,
                    gex_AM_Arg_t low) {
    char *back = (char *)((uintptr_t)(uint32_t)high << 32 | (uint32_t)low);
    CHECK((char *)payload == all_areas[me].base[area] + 7);
    CHECK_PATTERN(payload, bytes, bytes + 1);
    ATOMIC_ADD(&long_requests, 1);
    OK(gex_AM_ReplyLong0(token, H_BACK, payload, bytes, back, GEX_EVENT_NOW, 0));
}
static void on_back(gex_Token_t token, void *payload, size_t bytes) {
    CHECK_PATTERN(payload, bytes, bytes + 1);
    ATOMIC_ADD(&long_replies, 1);
}

/* A put of each form to `remote`, and a get of each form back. */
static void puts_and_gets(gex_Rank_t peer, char *remote, char *out, char *in) {
    static const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 63, 1000, 4096, 65537, AREA - 9};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i], shift = bytes % 3;
        for (int form = 0; form < 3; form++) {
            pattern_fill(out, bytes, (uint64_t)form * 1000 + bytes + me);
            memset(in, 0x5a, bytes + 1);
            if (form == 0) {
                OK(gex_RMA_PutBlocking(tm, peer, remote + shift, out, bytes, 0));
                OK(gex_RMA_GetBlocking(tm, in, peer, remote + shift, bytes, 0));
            } else if (form == 1) {
                gex_Event_t lc;
                gex_Event_t event = gex_RMA_PutNB(tm, peer, remote + shift, out, bytes, &lc, 0);
                gex_Event_Wait(lc);
                gex_Event_Wait(event);
                gex_Event_Wait(gex_RMA_GetNB(tm, in, peer, remote + shift, bytes, 0));
            } else {
                gex_RMA_PutNBI(tm, peer, remote + shift, out, bytes, GEX_EVENT_NOW, 0);
                gex_NBI_Wait(GEX_EC_ALL, 0);
                gex_RMA_GetNBI(tm, in, peer, remote + shift, bytes, 0);
                gex_NBI_Wait(GEX_EC_ALL, 0);
            }
            CHECK_PATTERN(in, bytes, (uint64_t)form * 1000 + bytes + me);
            CHECK(in[bytes] == 0x5a);
        }
    }
    OK(gex_RMA_PutBlockingVal(tm, peer, remote + 8, 0x0102030405060708, 8, 0));
    CHECK(gex_RMA_GetBlockingVal(tm, peer, remote + 8, 8, 0) == 0x0102030405060708);
    gex_Event_Wait(gex_RMA_PutNBVal(tm, peer, remote + 11, 0x7f, 1, 0));
    CHECK(gex_RMA_GetBlockingVal(tm, peer, remote + 11, 1, 0) == 0x7f);
    gasnet_memset(peer, remote + 5, 0x33, 40000);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, 40006, 0));
    CHECK(in[5] == 0x33 && in[40004] == 0x33 && in[30000] == 0x33);
}

/* Rows of `piece` bytes of a matrix there and back, strided and indexed. */
static void scattered(gex_Rank_t peer, char *remote, char *out, char *in, size_t piece) {
    ptrdiff_t there[1] = {ROW}, here[1] = {(ptrdiff_t)piece};
    size_t count[1] = {ROWS};
    void *far_list[ROWS], *near_list[1];
    pattern_fill(out, ROWS * piece, piece + me);
    memset(in, 0, ROWS * piece);
    OK(gex_VIS_StridedPutBlocking(tm, peer, remote, there, out, here, piece, count, 1, 0));
    OK(gex_VIS_StridedGetBlocking(tm, in, here, peer, remote, there, piece, count, 1, 0));
    CHECK_PATTERN(in, ROWS * piece, piece + me);
    memset(in, 0, ROWS * piece);
    for (int i = 0; i < ROWS; i++) far_list[i] = remote + (size_t)i * ROW;
    near_list[0] = in;
    OK(gex_VIS_IndexedGetBlocking(tm, 1, near_list, ROWS * piece, peer, ROWS, far_list, piece, 0));
    CHECK_PATTERN(in, ROWS * piece, piece + me);
}

static void longs(gex_Rank_t peer, int area, char *out, char *in) {
    static const size_t sizes[] = {0, 1, 8, 2048, 2049, 65536, 65537, AREA - 100};
    size_t most =
        MIN(gex_AM_MaxRequestLong(tm, peer, GEX_EVENT_NOW, 0, 3), gex_AM_MaxReplyLong(tm, peer, GEX_EVENT_NOW, 0, 0));
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = MIN(sizes[i], most);
        for (int form = 0; form < 2; form++) {
            gex_Flags_t flags = form ? GEX_FLAG_IMMEDIATE : 0;
            int refused;
            pattern_fill(out, bytes, bytes + 1);
            memset(in, 0, bytes);
            int want = ATOMIC_GET(&long_replies) + 1;
            do {
                refused = gex_AM_RequestLong3(tm, peer, H_LONG, out, bytes, all_areas[peer].base[area] + 7,
                                              GEX_EVENT_NOW, flags, (gex_AM_Arg_t)area,
                                              (gex_AM_Arg_t)((uintptr_t)in >> 32), (gex_AM_Arg_t)(uintptr_t)in);
                if (refused) gasnet_AMPoll();
            } while (refused && form);
            CHECK(!refused);
            GASNET_BLOCKUNTIL(ATOMIC_GET(&long_replies) == want);
            CHECK_PATTERN(in, bytes, bytes + 1);
        }
    }
}

static void atomics(gex_Rank_t peer, char *remote) {
    uint64_t *target = (uint64_t *)(((uintptr_t)remote + 63) / 64 * 64), old = 0;
    gex_AD_t ad;
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_SET | GEX_OP_FADD | GEX_OP_GET, 0);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, NULL, peer, target, GEX_OP_SET, 1000 + me, 0, 0));
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, peer, target, GEX_OP_FADD, 5, 0, 0));
    CHECK(old == 1000 + me);
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, peer, target, GEX_OP_GET, 0, 0, 0));
    CHECK(old == 1005 + me);
    barrier();
    gex_AD_Destroy(ad);
}

/* All of it, on every process's memory in turn: only one process writes to an area at a time.
 * `stack` has AREA + 64 bytes. */
static void everywhere(char *stack) {
    char *out = (char *)malloc(AREA + 64), *in = (char *)malloc(AREA + 64);
    struct areas mine = {0};
    mine.base[0] = static_area + 5;
    mine.base[1] = stack + 3;
    mine.base[2] = (char *)malloc(AREA + 64);
    mine.base[3] = (char *)mmap(NULL, AREA + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    all_areas = (struct areas *)malloc(np * sizeof *all_areas);
    for (gex_Rank_t r = 0; r < np; r++)
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, &all_areas[r], &mine, sizeof mine, 0));
    barrier();
    for (gex_Rank_t hop = 0; hop < np; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        for (int area = 0; area < AREAS; area++) {
            char *remote = all_areas[peer].base[area];
            PHASE("puts and gets");
            puts_and_gets(peer, remote, out, in);
            PHASE("scattered");
            scattered(peer, remote, out, in, PIECE);
            scattered(peer, remote, out, in, SMALL_PIECE);
            PHASE("atomics");
            atomics(peer, remote);
            PHASE("Longs");
            longs(peer, area, out, in);
            barrier();
        }
    }
    munmap(mine.base[3], AREA + 64);
    free(mine.base[2]);
    free(all_areas);
    free(in);
    free(out);
}

TEST_UNUSED static void everywhere_handlers(void) {
    register_handler(H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3);
    register_handler(H_BACK, (gex_AM_Fn_t)on_back, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 0);
    barrier();
}

#endif

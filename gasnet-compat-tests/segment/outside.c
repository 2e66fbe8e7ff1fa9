// GEX_FLAG_PEER_SEG_UNKNOWN and GEX_FLAG_PEER_SEG_SOME: remote memory that lies outside the bound
// segment, on the heap, static, in another endpoint's segment, half inside, or inside after all;
// puts, gets, values, scattered data, Longs of fixed and negotiated payload and their replies.
// NP: 1 2 3 4
// ENV: GASNET_LIMIT_TO_SEGMENTS=0
// TIMEOUT: 120
#include "check.h"

#include <gasnet_coll.h>
#include <gasnet_vis.h>

enum { MOST = 200001, BLOCK = 2 * MOST + 64 };
static char fixed[BLOCK];
static gex_AM_Index_t request_index = 170, reply_index = 171;
static int handled, answered, rounds;
static char **table;

static void tell(char *mine) { gex_Event_Wait(gasnetx_Coll_AllGatherNB(tm, table, &mine, sizeof mine, 0)); }

static void on_request(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed, gex_AM_Arg_t high,
                       gex_AM_Arg_t low) {
    char *back = (char *)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
    gex_Token_Info_t info;
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    CHECK((gex_Token_Info(token, &info, GEX_TI_EP) & GEX_TI_EP) != 0 && info.gex_ep == ep);
    ATOMIC_ADD(&handled, 1);
    OK(gex_AM_ReplyLong1(token, reply_index, buffer, bytes, back, GEX_EVENT_NOW, GEX_FLAG_PEER_SEG_UNKNOWN, seed));
}
static void on_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&answered, 1);
}

/* Everything that can be done with the right neighbour's block. The first half of a block is for
 * others, the second for answers. */
static void exchange(char *block, gex_Flags_t flag) {
    static const size_t sizes[] = {0, 1, 7, 8, 4096, 70000, MOST};
    gex_Rank_t right = (me + 1) % np, left = (me + np - 1) % np;
    char *data = (char *)malloc(MOST), *got = (char *)malloc(MOST);
    REQUIRE(data != NULL && got != NULL);
    tell(block);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        uint64_t seed = 100 * i + 5;
        for (int form = 0; form < 3; form++) {
            memset(block, 0, MOST + 1);
            pattern_fill(data, bytes, seed + me + (uint64_t)form);
            barrier();
            if (form == 0) OK(gex_RMA_PutBlocking(tm, right, table[right], data, bytes, flag));
            if (form == 1) gex_Event_Wait(gex_RMA_PutNB(tm, right, table[right], data, bytes, GEX_EVENT_NOW, flag));
            if (form == 2) {
                OK(gex_RMA_PutNBI(tm, right, table[right], data, bytes, GEX_EVENT_DEFER, flag));
                gex_NBI_Wait(GEX_EC_ALL, 0);
            }
            barrier();
            CHECK_PATTERN(block, bytes, seed + left + (uint64_t)form);
            CHECK(block[bytes] == 0);
            memset(got, 0, bytes);
            if (form == 0) OK(gex_RMA_GetBlocking(tm, got, right, table[right], bytes, flag));
            if (form == 1) gex_Event_Wait(gex_RMA_GetNB(tm, got, right, table[right], bytes, flag));
            if (form == 2) {
                OK(gex_RMA_GetNBI(tm, got, right, table[right], bytes, flag));
                gex_NBI_Wait(GEX_EC_ALL, 0);
            }
            CHECK_PATTERN(got, bytes, seed + me + (uint64_t)form);
            barrier();
        }
        /* scattered: one source, two remote pieces in turned order, and back */
        size_t half = bytes / 2;
        gex_Memvec_t there[2], here[1];
        there[0].gex_addr = table[right] + half;
        there[0].gex_len = bytes - half;
        there[1].gex_addr = table[right];
        there[1].gex_len = half;
        here[0].gex_addr = data;
        here[0].gex_len = bytes;
        memset(block, 0, MOST + 1);
        pattern_fill(data, bytes, seed + me);
        barrier();
        OK(gex_VIS_VectorPutBlocking(tm, right, 2, there, 1, here, flag));
        barrier();
        pattern_fill(got, bytes, seed + left);
        CHECK(memcmp(got, block + half, bytes - half) == 0 && memcmp(got + (bytes - half), block, half) == 0);
        here[0].gex_addr = got;
        OK(gex_VIS_VectorGetBlocking(tm, 1, here, right, 2, there, flag));
        CHECK_PATTERN(got, bytes, seed + me);
        barrier();
        if (bytes > 0) { /* a Long there, its answer into the own second half; then the same with a prepared payload */
            char *back = block + MOST + 8;
            gex_AM_Arg_t high = (gex_AM_Arg_t)((uint64_t)(uintptr_t)back >> 32), low = (gex_AM_Arg_t)(uintptr_t)back;
            size_t most = gex_AM_MaxRequestLong(tm, right, NULL, 0, 3);
            pattern_fill(data, bytes, 77 + i);
            OK(gex_AM_RequestLong3(tm, right, request_index, data, bytes, table[right], GEX_EVENT_NOW, flag,
                                   (gex_AM_Arg_t)(77 + i), high, low));
            rounds++;
            GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) >= rounds && ATOMIC_GET(&handled) >= rounds);
            barrier();
            CHECK(most >= bytes);
            size_t prepared = bytes < 512 ? bytes : 512;
            /* Without a buffer of the client's there is no local side to describe. */
            gex_AM_SrcDesc_t sd =
                gex_AM_PrepareRequestLong(tm, right, NULL, 1, prepared, i % 2 ? NULL : table[right], NULL,
                                          flag & (GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_SOME), 3);
            REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
            if (gex_AM_SrcDescSize(sd) < prepared) prepared = gex_AM_SrcDescSize(sd);
            pattern_fill(gex_AM_SrcDescAddr(sd), prepared, 99 + i);
            gex_AM_CommitRequestLong3(sd, request_index, prepared, table[right], (gex_AM_Arg_t)(99 + i), high, low);
            rounds++;
            GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) >= rounds && ATOMIC_GET(&handled) >= rounds);
            barrier();
        }
    }
    OK(gex_RMA_PutBlockingVal(tm, right, table[right] + 1, 0x1234567, 4, flag));
    CHECK(gex_RMA_GetBlockingVal(tm, right, table[right] + 1, 4, flag) == 0x1234567);
    gex_Event_Wait(gex_RMA_PutNBVal(tm, right, table[right] + 8, 42, 8, flag));
    CHECK(gex_RMA_GetBlockingVal(tm, right, table[right] + 8, 8, flag) == 42);
    barrier();
    free(data);
    free(got);
}

int main(int argc, char **argv) {
    gex_EP_t other;
    gex_Segment_t more;
    test_init("outside", &argc, &argv);
    table = (char **)calloc(np, sizeof *table);
    char *heap = (char *)malloc(BLOCK);
    REQUIRE(table != NULL && heap != NULL);
    register_handler(request_index, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1);
    barrier();
    PHASE("before attach");
    exchange(heap, GEX_FLAG_PEER_SEG_UNKNOWN);
    test_attach(BLOCK + 4096);
    PHASE("heap");
    exchange(heap, GEX_FLAG_PEER_SEG_UNKNOWN);
    PHASE("static");
    exchange(fixed, GEX_FLAG_PEER_SEG_UNKNOWN);
    PHASE("inside");
    exchange(seg_of(me), GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_UNKNOWN);
    PHASE("inside, some segment");
    exchange(seg_of(me), GEX_FLAG_PEER_SEG_SOME);
    PHASE("another endpoint's segment");
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_Segment_Create(&more, client, NULL, (BLOCK + 4095) / 4096 * 4096, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(other, more, 0));
    exchange((char *)gex_Segment_QueryAddr(more), GEX_FLAG_PEER_SEG_SOME);
    barrier();
    free(heap);
    free(table);
    return test_finish();
}

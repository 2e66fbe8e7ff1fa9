// Further endpoints: segments of the client's memory (unaligned) and of the library's, bound,
// published over a permuted team; puts, gets and messages of all categories to and from them, by
// TM-pair and by teams of endpoints, two members per process; destroyed and bound anew.
// NP: 1 2 3 4
// TIMEOUT: 90
// VARIANT: messages (neighbours reach the memory by messages only)
// NP: 2 3
// ENV: GASNET_PSHM_KERNEL_COPY=0
#include "check.h"

#include <gasnet_coll.h>

enum { H_REQUEST = 210, H_REPLY = 211, BYTES = 300001, COUNT = 3 };

static gex_EP_t eps[COUNT]; /* [0] is the primordial one, without any segment */
static gex_Segment_t segments[COUNT];
static char *bases[COUNT];
static char client_memory[BYTES + 64];
static int requests[COUNT], replies[COUNT];

static int index_of(gex_Token_t token) {
    gex_Token_Info_t info;
    CHECK(gex_Token_Info(token, &info, GEX_TI_EP) & GEX_TI_EP);
    for (int i = 0; i < COUNT; i++)
        if (info.gex_ep == eps[i]) return i;
    CHECK(!"unknown endpoint");
    return 0;
}

static void request_short(gex_Token_t token, gex_AM_Arg_t value) {
    ATOMIC_ADD(&requests[index_of(token)], 1);
    OK(gex_AM_ReplyShort1(token, H_REPLY, 0, value + 1));
}
static void reply_short(gex_Token_t token, gex_AM_Arg_t value) {
    CHECK(value == 8);
    ATOMIC_ADD(&replies[index_of(token)], 1);
}
static void request_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    CHECK_PATTERN(payload, bytes, (uint64_t)value);
    ATOMIC_ADD(&requests[index_of(token)], 1);
    OK(gex_AM_ReplyMedium1(token, H_REPLY + 2, payload, bytes, GEX_EVENT_NOW, 0, value));
}
static void reply_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    CHECK_PATTERN(payload, bytes, (uint64_t)value);
    ATOMIC_ADD(&replies[index_of(token)], 1);
}
/* The reply goes to the sender's endpoint, whose address comes as arguments. */
static void request_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value, gex_AM_Arg_t high,
                         gex_AM_Arg_t low) {
    int i = index_of(token);
    char *back = (char *)((uintptr_t)(uint32_t)high << 32 | (uint32_t)low);
    CHECK((char *)payload == bases[i] + 1000);
    CHECK_PATTERN(payload, bytes, (uint64_t)value);
    ATOMIC_ADD(&requests[i], 1);
    OK(gex_AM_ReplyLong1(token, H_REPLY + 4, payload, bytes, back, GEX_EVENT_NOW, 0, value));
}
static void reply_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    int i = index_of(token);
    CHECK((char *)payload == bases[i] + 150000);
    CHECK_PATTERN(payload, bytes, (uint64_t)value);
    ATOMIC_ADD(&replies[i], 1);
}

#define REQ GEX_FLAG_AM_REQUEST
#define REP GEX_FLAG_AM_REPLY
static gex_AM_Entry_t table[] = {
    {H_REQUEST, (gex_AM_Fn_t)request_short, GEX_FLAG_AM_SHORT | REQ, 1, NULL, "request_short"},
    {H_REPLY, (gex_AM_Fn_t)reply_short, GEX_FLAG_AM_SHORT | REP, 1, NULL, "reply_short"},
    {H_REQUEST + 2, (gex_AM_Fn_t)request_medium, GEX_FLAG_AM_MEDIUM | REQ, 1, NULL, "request_medium"},
    {H_REPLY + 2, (gex_AM_Fn_t)reply_medium, GEX_FLAG_AM_MEDIUM | REP, 1, NULL, "reply_medium"},
    {H_REQUEST + 4, (gex_AM_Fn_t)request_long, GEX_FLAG_AM_LONG | REQ, 3, NULL, "request_long"},
    {H_REPLY + 4, (gex_AM_Fn_t)reply_long, GEX_FLAG_AM_LONG | REP, 1, NULL, "reply_long"},
};

static gex_TM_t split_reversed(void) {
    gex_TM_t team;
    gex_TM_Split(&team, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    return team;
}

/* Segment 1 is the client's and unaligned, segment 2 the library's. */
static void make(void) {
    gex_Segment_t none = GEX_SEGMENT_INVALID;
    PHASE("make");
    OK(gex_Segment_Create(&segments[1], client, client_memory + 13, BYTES, GEX_MK_HOST, 0));
    OK(gex_Segment_Create(&segments[2], client, NULL, BYTES, GEX_MK_HOST, 0));
    CHECK(gex_Segment_QueryAddr(segments[1]) == client_memory + 13 && gex_Segment_QuerySize(segments[1]) == BYTES);
    CHECK(gex_Segment_QuerySize(segments[2]) >= BYTES && gex_Segment_QueryClient(segments[2]) == client);
    CHECK(gex_Segment_QueryFlags(segments[1]) == 0 && gex_Segment_QueryCData(segments[1]) == NULL);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Segment_Create(&none, client, NULL, 0, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_Segment_Create(&none, client, client_memory, 100, GEX_MK_HOST, 1) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_BindSegment(GEX_EP_INVALID, segments[1], 0) == GASNET_ERR_BAD_ARG);
    CHECK(gex_EP_BindSegment(eps[1], GEX_SEGMENT_INVALID, 0) == GASNET_ERR_BAD_ARG);
    CHECK(none == GEX_SEGMENT_INVALID);
    for (int i = 1; i < COUNT; i++) {
        CHECK(gex_EP_QuerySegment(eps[i]) == GEX_SEGMENT_INVALID);
        OK(gex_EP_BindSegment(eps[i], segments[i], 0));
        CHECK(gex_EP_BindSegment(eps[i], segments[COUNT - i], 0) == GASNET_ERR_BAD_ARG);
        CHECK(gex_EP_QuerySegment(eps[i]) == segments[i]);
        bases[i] = (char *)gex_Segment_QueryAddr(segments[i]);
    }
    gex_System_SetVerboseErrors(1);
    PHASE("publish");
    gex_TM_t reversed = split_reversed();
    /* different numbers of endpoints on different ranks, in two calls */
    OK(gex_EP_PublishBoundSegment(reversed, eps + (me % 2 ? 1 : 0), me % 2 ? 2 : 1, 0));
    OK(gex_EP_PublishBoundSegment(reversed, eps + 1, me % 2 ? 0 : 2, 0));
    gex_TM_Destroy(reversed, NULL, 0);
}

/* Base of endpoint `i`'s segment on `rank`. */
static char *base_of(gex_Rank_t rank, int i) {
    void *address = NULL, *local = &local;
    uintptr_t bytes = 0;
    gex_TM_t pair = gex_TM_Pair(eps[0], (gex_EP_Index_t)i);
    CHECK(gex_EP_QueryBoundSegmentNB(pair, rank, &address, &local, &bytes, GEX_FLAG_IMMEDIATE) == GEX_EVENT_INVALID);
    CHECK(bytes >= BYTES);
    CHECK(rank != me || (address == bases[i] && local == bases[i]));
    return (char *)address;
}

static void transfers(int from, int to) {
    static const size_t sizes[] = {0, 1, 8, 1000, 65536, 70001, BYTES};
    gex_Rank_t peer = (me + 1) % np;
    gex_TM_t pair = gex_TM_Pair(eps[from], (gex_EP_Index_t)to);
    char *remote = base_of(peer, to), *out = (char *)malloc(BYTES), *in = (char *)malloc(BYTES);
    gex_Event_t lc;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i], shift = bytes < BYTES ? 5 : 0;
        pattern_fill(out, bytes, me * 7 + bytes);
        barrier();
        gex_Event_t event = gex_RMA_PutNB(pair, peer, remote + shift, out, bytes, &lc, 0);
        gex_Event_Wait(lc);
        gex_Event_Wait(event);
        barrier();
        CHECK_PATTERN(bases[to] + shift, bytes, (me + np - 1) % np * 7 + bytes);
        memset(in, 0, bytes);
        OK(gex_RMA_GetBlocking(pair, in, peer, remote + shift, bytes, 0));
        CHECK_PATTERN(in, bytes, me * 7 + bytes);
        memset(in, 0, bytes);
        gex_RMA_GetNBI(pair, in, peer, remote + shift, bytes, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        CHECK_PATTERN(in, bytes, me * 7 + bytes);
    }
    barrier(); /* everybody has looked */
    OK(gex_RMA_PutBlockingVal(pair, peer, remote + 3, 0x1234, 2, 0));
    CHECK(gex_RMA_GetBlockingVal(pair, peer, remote + 3, 2, 0) == 0x1234);
    barrier();
    free(out);
    free(in);
}

static int is_neighbour(gex_Rank_t rank) {
    gex_RankInfo_t *info;
    gex_Rank_t count, i;
    gex_System_QueryNbrhdInfo(&info, &count, NULL);
    for (i = 0; i < count && info[i].gex_jobrank != rank; i++) continue;
    return i < count;
}

static void messages(int from, int to) {
    gex_Rank_t peer = (me + 1) % np;
    gex_TM_t pair = gex_TM_Pair(eps[from], (gex_EP_Index_t)to);
    char *remote = base_of(peer, to);
    size_t most = gex_AM_MaxRequestMedium(pair, peer, GEX_EVENT_NOW, 0, 1), sizes[4];
    char *data = (char *)malloc(BYTES);
    int want = ATOMIC_GET(&replies[from]);
    OK(gex_AM_RequestShort1(pair, peer, H_REQUEST, 0, 7));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies[from]) == want + 1);
    sizes[0] = 0, sizes[1] = 33, sizes[2] = most < 5000 ? most / 2 : 5000, sizes[3] = most;
    for (size_t i = 0; i < 4; i++) {
        pattern_fill(data, sizes[i], 100 + i);
        OK(gex_AM_RequestMedium1(pair, peer, H_REQUEST + 2, data, sizes[i], GEX_EVENT_NOW, 0, (gex_AM_Arg_t)(100 + i)));
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies[from]) == want + 2 + (int)i);
    }
    want += 5;
    size_t long_most = gex_AM_MaxRequestLong(pair, peer, GEX_EVENT_NOW, 0, 3);
    CHECK(long_most >= 512);
    CHECK(!is_neighbour(peer) || long_most >= 0x7fffffff);
    sizes[3] = long_most > 140000 ? 140000 : long_most;
    for (size_t i = 0; from > 0 && i < 4; i++) { /* the reply needs a segment here */
        char *back = bases[from] + 150000;
        pattern_fill(data, sizes[i], 200 + i);
        OK(gex_AM_RequestLong3(pair, peer, H_REQUEST + 4, data, sizes[i], remote + 1000, GEX_EVENT_NOW, 0,
                               (gex_AM_Arg_t)(200 + i), (gex_AM_Arg_t)((uintptr_t)back >> 32),
                               (gex_AM_Arg_t)(uintptr_t)back));
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies[from]) == want + 1 + (int)i);
        memset(back, 0, sizes[i]);
    }
    barrier();
    free(data);
}

/* A team of endpoints 1 and 2 of every process: two members here. */
static void team_of_endpoints(void) {
    gex_EP_Location_t members[512];
    gex_TM_t pair[2];
    gex_Event_t event[2];
    int64_t src[2], dst[2], sum = 0;
    PHASE("team of endpoints");
    for (gex_Rank_t r = 0; r < 2 * np; r++) {
        members[r].gex_rank = r / 2;
        members[r].gex_ep_index = (gex_EP_Index_t)(1 + r % 2);
        sum += r * r;
    }
    gex_TM_Create(pair, 2, tm, members, 2 * np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    for (int i = 0; i < 2; i++) {
        gex_Rank_t rank = 2 * me + (gex_Rank_t)i;
        CHECK(gex_TM_QueryRank(pair[i]) == rank && gex_TM_QuerySize(pair[i]) == 2 * np &&
              gex_TM_QueryEP(pair[i]) == eps[i + 1]);
        src[i] = (int64_t)rank * rank;
        event[i] = gex_Coll_ReduceToAllNB(pair[i], &dst[i], &src[i], GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
    }
    gex_Event_WaitAll(event, 2, 0);
    CHECK(dst[0] == sum && dst[1] == sum);
    for (int i = 0; i < 2; i++) {
        gex_Rank_t to = (2 * me + (gex_Rank_t)i + 1) % (2 * np);
        void *address;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair[i], to, &address, NULL, NULL, 0));
        OK(gex_RMA_PutBlockingVal(pair[i], to, (char *)address + 16, to + 50, 4, 0));
    }
    for (int i = 0; i < 2; i++) event[i] = gex_Coll_BarrierNB(pair[i], 0);
    gex_Event_WaitAll(event, 2, 0);
    for (int i = 0; i < 2; i++) {
        uint32_t value;
        memcpy(&value, bases[i + 1] + 16, 4);
        CHECK(value == 2 * me + (gex_Rank_t)i + 50);
    }
    for (int i = 0; i < 2; i++) gex_TM_Destroy(pair[i], NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    barrier();
}

int main(int argc, char **argv) {
    gex_EP_t bad = GEX_EP_INVALID;
    test_init("endpoints", &argc, &argv);
    eps[0] = ep;
    OK(gex_EP_RegisterHandlers(eps[0], table, ARRAY_LENGTH(table)));
    for (int i = 1; i < COUNT; i++) {
        OK(gex_EP_Create(&eps[i], client, GEX_EP_CAPABILITY_ALL, i == 1 ? GEX_FLAG_HINT_ACCEL_AD : 0));
        CHECK(gex_EP_QueryIndex(eps[i]) == i && gex_EP_QueryClient(eps[i]) == client);
        CHECK(gex_EP_QueryFlags(eps[i]) == (i == 1 ? GEX_FLAG_HINT_ACCEL_AD : 0));
        OK(gex_EP_RegisterHandlers(eps[i], table, ARRAY_LENGTH(table)));
    }
    gex_System_SetVerboseErrors(0);
    CHECK(gex_EP_Create(&bad, client, 0, 0) == GASNET_ERR_BAD_ARG && bad == GEX_EP_INVALID);
    gex_System_SetVerboseErrors(1);
    for (int i = 0; i < 2; i++) { /* the second time with new segments at other places */
        make();
        for (int from = 0; from < COUNT; from++) {
            for (int to = 1; to < COUNT; to++) {
                PHASE("transfers");
                transfers(from, to);
                PHASE("messages");
                messages(from, to);
            }
        }
        team_of_endpoints();
        gex_Segment_Destroy(segments[1], 0);
        gex_Segment_Destroy(segments[2], 0);
        CHECK(gex_EP_QuerySegment(eps[1]) == GEX_SEGMENT_INVALID);
        barrier();
    }
    PHASE("attach, after all");
    test_attach(4096);
    OK(gex_RMA_PutBlockingVal(tm, (me + 1) % np, seg_of((me + 1) % np), 9, 1, 0));
    barrier();
    CHECK(*(char *)seg_of(me) == 9);
    PHASE("as many as there can be");
    gex_System_SetVerboseErrors(0);
    for (int i = COUNT; i < GASNET_MAXEPS; i++) OK(gex_EP_Create(&bad, client, GEX_EP_CAPABILITY_RMA, 0));
    CHECK(gex_EP_Create(&bad, client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_ERR_RESOURCE);
    gex_System_SetVerboseErrors(1);
    return test_finish();
}

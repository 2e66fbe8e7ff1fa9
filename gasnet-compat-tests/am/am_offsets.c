// GEX_FLAG_SELF_SEG_OFFSET and GEX_FLAG_PEER_SEG_OFFSET in Active Messages: sources and
// destinations that count from the base of the bound segment, in requests and replies, fixed and
// negotiated payload, between primordial endpoints and between further ones; and the other
// disposition flags, which change nothing.
// NP: 1 2 3 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

enum { MEDIUM = 200, LONG = 201, LONG_BACK = 202, PREPARED = 203, MEDIUM_BACK = 204 };
enum { FROM = 101, TO = 100000, BACK = 200000, PLACE = 300000, SIZE = 400000 };
#define SELF GEX_FLAG_SELF_SEG_OFFSET
#define PEER GEX_FLAG_PEER_SEG_OFFSET

static char *base[2];
static gex_EP_t second;
static int got, want;

static void *offset(size_t bytes) { return (void *)(uintptr_t)bytes; }

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    gex_AM_ReplyMedium1(token, MEDIUM_BACK, offset(FROM), bytes, GEX_EVENT_NOW, SELF, (gex_AM_Arg_t)bytes);
}
static void on_medium_back(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t expected) {
    CHECK(bytes == (size_t)expected);
    ATOMIC_ADD(&got, 1);
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t which, gex_AM_Arg_t seed) {
    CHECK(payload == base[which] + TO);
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    gex_AM_ReplyLong2(token, LONG_BACK, offset(TO), bytes, offset(BACK), GEX_EVENT_NOW, SELF | PEER, which, seed);
}
static void on_long_back(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t which, gex_AM_Arg_t seed) {
    CHECK(payload == base[which] + BACK);
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&got, 1);
}
static void on_prepared(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t which, gex_AM_Arg_t seed) {
    CHECK(payload == base[which] + PLACE);
    gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyLong(token, NULL, bytes, bytes, offset(BACK), NULL, PEER, 2);
    memcpy(gex_AM_SrcDescAddr(sd), payload, bytes);
    gex_AM_CommitReplyLong2(sd, LONG_BACK, bytes, offset(BACK), which, seed);
}

static void await(void) {
    want++;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&got) == want);
}

static void everything(gex_TM_t team, int which) {
    gex_Rank_t right = (me + 1) % np;
    static const size_t sizes[] = {1, 8, 777, 30000};
    char *mine = base[which];
    size_t most = gex_AM_MaxRequestMedium(team, right, GEX_EVENT_NOW, SELF, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        gex_AM_Arg_t seed = (gex_AM_Arg_t)(bytes * 100 + me);
        pattern_fill(mine + FROM, bytes, (uint64_t)seed);
        OK(gex_AM_RequestMedium1(team, right, MEDIUM, offset(FROM), bytes < most ? bytes : most, GEX_EVENT_NOW, SELF,
                                 seed));
        await();
        OK(gex_AM_RequestLong2(team, right, LONG, offset(FROM), bytes, offset(TO), GEX_EVENT_NOW, SELF | PEER, which,
                               seed));
        await();
        CHECK_PATTERN(mine + BACK, bytes, (uint64_t)seed);
        OK(gex_AM_RequestLong2(team, right, LONG, mine + FROM, bytes, offset(TO), GEX_EVENT_NOW,
                               PEER | GEX_FLAG_SELF_SEG_BOUND, which, seed));
        await();
        barrier(); /* the right is done with our PLACE of the last round */
        gex_AM_SrcDesc_t sd =
            gex_AM_PrepareRequestLong(team, right, NULL, bytes, bytes, i % 2 ? offset(PLACE) : NULL, NULL, PEER, 2);
        memcpy(gex_AM_SrcDescAddr(sd), mine + FROM, bytes);
        gex_AM_CommitRequestLong2(sd, PREPARED, bytes, offset(PLACE), which, seed);
        await();
        sd = gex_AM_PrepareRequestLong(team, right, mine + FROM, 1, bytes, NULL, GEX_EVENT_NOW, PEER, 2);
        CHECK(gex_AM_SrcDescSize(sd) == bytes);
        gex_AM_CommitRequestLong2(sd, PREPARED, bytes, offset(PLACE), which, seed);
        await();
        barrier();
    }
}

int main(int argc, char **argv) {
    gex_Segment_t more;
    test_init("am_offsets", &argc, &argv);
    test_attach(SIZE);
    OK(gex_EP_Create(&second, client, GEX_EP_CAPABILITY_ALL, 0));
    OK(gex_Segment_Create(&more, client, NULL, SIZE, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(second, more, 0));
    OK(gex_EP_PublishBoundSegment(tm, &second, 1, 0));
    base[0] = gex_Segment_QueryAddr(segment);
    base[1] = gex_Segment_QueryAddr(more);
    gex_EP_t eps[2] = {ep, second};
    for (int i = 0; i < 2; i++) {
        gex_AM_Entry_t entries[] = {
            {MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "medium"},
            {LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "long"},
            {LONG_BACK, (gex_AM_Fn_t)on_long_back, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 2, NULL, "long back"},
            {PREPARED, (gex_AM_Fn_t)on_prepared, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "prepared"},
            {MEDIUM_BACK, (gex_AM_Fn_t)on_medium_back, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, NULL, "medium back"},
        };
        OK(gex_EP_RegisterHandlers(eps[i], entries, ARRAY_LENGTH(entries)));
    }
    barrier();
    PHASE("primordial endpoints");
    everything(tm, 0);
    PHASE("further endpoints");
    everything(gex_TM_Pair(second, gex_EP_QueryIndex(second)), 1);
    barrier();
    return test_finish();
}

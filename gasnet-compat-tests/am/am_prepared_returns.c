// The conduit's buffer of a prepared message comes back when the message is cancelled or sent:
// with one message at a time, the same buffer serves all. Of Mediums, of Longs in a packet, and of
// Longs that the network puts; as requests and as replies.
// NP: 2
// CONDUITS: loop
// TIMEOUT: 60
#include "check.h"

enum { ROUNDS = 40, H_MEDIUM = 200, H_LONG = 201, H_ANSWER = 202, H_POKE = 203 };
static const size_t sizes[] = {100, 400, 3000, 8000};
static int arrived;
static void *reply_place;

static void check_place(void **place, gex_AM_SrcDesc_t desc, int round) {
    void *now = gex_AM_SrcDescAddr(desc);
    if (round == 0) *place = now;
    CHECKF(now == *place, "round %d: the buffer at %p, but %p before", round, now, *place);
}

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    gex_AM_ReplyShort0(token, H_ANSWER, 0);
}
static void on_answer(gex_Token_t token) { ATOMIC_ADD(&arrived, 1); }
/* The prepared reply is cancelled, and a Short is sent instead. */
static void on_poke(gex_Token_t token, gex_AM_Arg_t round) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareReplyMedium(token, NULL, 500, 500, NULL, 0, 3);
    check_place(&reply_place, desc, round);
    OK(gex_AM_CancelReplyMedium(desc, 0));
    gex_AM_ReplyShort0(token, H_ANSWER, 0);
}

static gex_AM_Entry_t table[] = {
    {H_MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "on_medium"},
    {H_LONG, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL, "on_long"},
    {H_ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "on_answer"},
    {H_POKE, (gex_AM_Fn_t)on_poke, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "on_poke"},
};

static void await(void) {
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == 1);
    ATOMIC_SET(&arrived, 0);
}

int main(int argc, char **argv) {
    gex_RankInfo_t *neighbours;
    gex_Rank_t count;
    void *place = NULL;
    gex_AM_SrcDesc_t desc;
    test_init("am_prepared_returns", &argc, &argv);
    OK(gex_EP_RegisterHandlers(ep, table, ARRAY_LENGTH(table)));
    test_attach((uintptr_t)1 << 20);
    gex_System_QueryNbrhdInfo(&neighbours, &count, NULL);
    if (count > 1) test_skip("the ranks are neighbours");
    barrier();
    gex_Rank_t peer = 1 - me;
    char *remote = seg_of(peer);
    PHASE("cancelled");
    for (int round = 0; round < ROUNDS; round++) {
        desc = gex_AM_PrepareRequestMedium(tm, peer, NULL, 1, 700, NULL, 0, 1);
        check_place(&place, desc, round);
        OK(gex_AM_CancelRequestMedium(desc, 0));
    }
    for (size_t size = 0; size < ARRAY_LENGTH(sizes); size++) {
        const size_t bytes = sizes[size];
        gex_AM_Arg_t seed = (gex_AM_Arg_t)bytes;
        PHASE("Mediums");
        for (int round = 0; round < ROUNDS && bytes <= gex_AM_MaxRequestMedium(tm, peer, NULL, 0, 1); round++) {
            desc = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes, bytes, NULL, 0, 1);
            check_place(&place, desc, round);
            pattern_fill(gex_AM_SrcDescAddr(desc), bytes, (uint64_t)seed);
            gex_AM_CommitRequestMedium1(desc, H_MEDIUM, bytes, seed);
            await();
        }
        PHASE("Longs");
        for (int round = 0; round < ROUNDS; round++) {
            desc = gex_AM_PrepareRequestLong(tm, peer, NULL, bytes, bytes, remote, NULL, 0, 1);
            check_place(&place, desc, round);
            pattern_fill(gex_AM_SrcDescAddr(desc), bytes, (uint64_t)seed);
            gex_AM_CommitRequestLong1(desc, H_LONG, bytes, remote, seed);
            await();
        }
    }
    barrier();
    PHASE("cancelled replies");
    for (int round = 0; round < ROUNDS; round++) {
        gex_AM_RequestShort1(tm, peer, H_POKE, 0, round);
        await();
    }
    return test_finish();
}

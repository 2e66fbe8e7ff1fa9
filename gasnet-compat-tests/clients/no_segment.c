// A client that never attaches a segment (lcw), and keeps its own data with the endpoint, where
// every handler looks for it (realm-ex): messages with fixed and negotiated payload, their replies,
// and collectives.
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

#include <gasnet_coll.h>

enum { REQUEST = 200, REPLY = 201, ROUNDS = 200, BYTES = 500 };

typedef struct {
    unsigned requests, replies;
} counts;
static counts mine;

/* realm-ex: who sent it, and whose endpoint it came to. */
static counts *of(gex_Token_t token, gex_Rank_t expected) {
    gex_Token_Info_t info;
    gex_TI_t got = gex_Token_Info(token, &info, GEX_TI_SRCRANK | GEX_TI_EP);
    CHECK((got & (GEX_TI_SRCRANK | GEX_TI_EP)) == (GEX_TI_SRCRANK | GEX_TI_EP));
    CHECK(info.gex_srcrank == expected);
    return (counts *)gex_EP_QueryCData(info.gex_ep);
}
static void on_request(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t source, gex_AM_Arg_t round) {
    CHECK_PATTERN(payload, bytes, (uint64_t)(source * ROUNDS + round));
    ATOMIC_ADD(&of(token, (gex_Rank_t)source)->requests, 1U);
    gex_AM_ReplyShort1(token, REPLY, 0, (gex_AM_Arg_t)me);
}
static void on_reply(gex_Token_t token, gex_AM_Arg_t source) {
    ATOMIC_ADD(&of(token, (gex_Rank_t)source)->replies, 1U);
}

int main(void) {
    unsigned char out[BYTES];
    gex_Event_t barriers[16];
    test_init("no_segment", NULL, NULL);
    gex_EP_SetCData(ep, &mine); /* realm-ex: before anybody can send */
    register_handler(REQUEST, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    barrier();
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    CHECK(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 2) >= BYTES); /* lcw, upcxx */
    PHASE("messages");
    for (unsigned round = 0; round < ROUNDS; round++) {
        gex_Rank_t peer = (me + round) % np;
        pattern_fill(out, BYTES, me * ROUNDS + round);
        if (round % 2) {
            gex_AM_RequestMedium2(tm, peer, REQUEST, out, BYTES, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                                  (gex_AM_Arg_t)round);
            continue;
        }
        /* upcxx, realm-ex: a buffer of the library, filled in part */
        gex_AM_SrcDesc_t sd =
            gex_AM_PrepareRequestMedium(tm, peer, NULL, BYTES, 2 * BYTES, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 2);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        CHECK(gex_AM_SrcDescSize(sd) >= BYTES);
        memcpy(gex_AM_SrcDescAddr(sd), out, BYTES);
        gex_AM_CommitRequestMedium2(sd, REQUEST, BYTES, (gex_AM_Arg_t)me, (gex_AM_Arg_t)round);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&mine.replies) == ROUNDS);
    PHASE("collectives");
    gex_Event_WaitAll(NULL, 0, 0); /* realm-ex: what it does with no collective at all */
    for (unsigned i = 0; i < 16; i++) barriers[i] = gex_Coll_BarrierNB(tm, 0);
    gex_Event_WaitAll(barriers, 16, 0);
    CHECK(ATOMIC_GET(&mine.requests) > 0);
    return test_finish();
}

// gex_TM_Pair: comparison, RMA, Active Messages, translations and limit queries through a pair.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t handler_index = 204;
static int handled;

static void handler(gex_Token_t token, gex_AM_Arg_t rank) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK | GEX_TI_EP);
    CHECK(info.gex_srcrank == (gex_Rank_t)rank);
    CHECK(info.gex_ep == ep);
    CHECK(gex_TM_Pair(ep, 0) != GEX_TM_INVALID); /* allowed here */
    ATOMIC_ADD(&handled, 1);
}

int main(int argc, char **argv) {
    test_init("tm_pair", &argc, &argv);
    register_handler(handler_index, (gex_AM_Fn_t)handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    test_attach(65536);
    barrier();
    gex_TM_t pair = gex_TM_Pair(ep, 0);
    CHECK(pair != GEX_TM_INVALID && pair != tm);
    CHECK(pair == gex_TM_Pair(ep, 0));
#if GASNET_MAXEPS > 1
    CHECK(pair != gex_TM_Pair(ep, 1));
#endif

    PHASE("RMA");
    for (gex_Rank_t r = 0; r < np; r++) {
        char *slot = seg_of(r) + 1024 * (me % 16);
        char out[300], in[300];
        if (me >= 16) break;
        pattern_fill(out, sizeof out, me * 31 + r);
        OK(gex_RMA_PutBlocking(pair, r, slot, out, sizeof out, 0));
        memset(in, 0, sizeof in);
        OK(gex_RMA_GetBlocking(pair, in, r, slot, sizeof in, 0));
        CHECK(memcmp(in, out, sizeof in) == 0);
        gex_Event_Wait(gex_RMA_PutNBVal(pair, r, slot, 77, 2, 0));
        CHECK(gex_RMA_GetBlockingVal(pair, r, slot, 2, 0) == 77);
    }

    PHASE("Active Messages");
    for (gex_Rank_t r = 0; r < np; r++) OK(gex_AM_RequestShort1(pair, r, handler_index, 0, (gex_AM_Arg_t)me));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == (int)np);

    PHASE("translations: ranks are job ranks");
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_EP_Location_t where = gex_TM_TranslateRankToEP(gex_TM_Pair(ep, 3), r, 0);
        CHECK(where.gex_rank == r && where.gex_ep_index == 3);
        CHECK(gex_TM_TranslateRankToJobrank(pair, r) == r && gex_TM_TranslateJobrankToRank(pair, r) == r);
    }

    PHASE("limits do not depend on how the endpoint is named");
    for (gex_Rank_t r = 0; r < np; r++) {
        for (unsigned n = 0; n <= 16; n += 4) {
            CHECK(gex_AM_MaxRequestMedium(pair, r, GEX_EVENT_NOW, 0, n) ==
                  gex_AM_MaxRequestMedium(tm, r, GEX_EVENT_NOW, 0, n));
            CHECK(gex_AM_MaxReplyMedium(pair, r, GEX_EVENT_NOW, 0, n) ==
                  gex_AM_MaxReplyMedium(tm, r, GEX_EVENT_NOW, 0, n));
            CHECK(gex_AM_MaxRequestLong(pair, r, GEX_EVENT_NOW, 0, n) ==
                  gex_AM_MaxRequestLong(tm, r, GEX_EVENT_NOW, 0, n));
            CHECK(gex_AM_MaxReplyLong(pair, r, GEX_EVENT_NOW, 0, n) == gex_AM_MaxReplyLong(tm, r, GEX_EVENT_NOW, 0, n));
        }
    }
    barrier();
    return test_finish();
}

// Every function that has a macro or an inline form is also callable as a function: the address of
// its symbol works, for a client that takes a pointer, for another language, after #undef.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

#undef gex_Client_Init
#undef gex_RMA_PutBlocking
#undef gex_RMA_PutNBI
#undef gex_RMA_PutNB
#undef gex_RMA_PutBlockingVal
#undef gex_RMA_PutNBIVal
#undef gex_RMA_PutNBVal
#undef gex_RMA_GetBlocking
#undef gex_RMA_GetNBI
#undef gex_RMA_GetNB
#undef gex_RMA_GetBlockingVal
#undef gex_Event_Test
#undef gex_Event_Wait

/* Volatile pointers: the compiler cannot see which function they hold. */
typedef int (*init_fn)(gex_Client_t *, gex_EP_t *, gex_TM_t *, const char *, int *, char ***, gex_Flags_t);
static init_fn volatile client_init = gex_Client_Init;
static int (*volatile put_blocking)(gex_TM_t, gex_Rank_t, void *, const void *, size_t,
                                    gex_Flags_t) = gex_RMA_PutBlocking;
static int (*volatile put_nbi)(gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Event_t *,
                               gex_Flags_t) = gex_RMA_PutNBI;
static gex_Event_t (*volatile put_nb)(gex_TM_t, gex_Rank_t, void *, const void *, size_t, gex_Event_t *,
                                      gex_Flags_t) = gex_RMA_PutNB;
static int (*volatile get_blocking)(gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t) = gex_RMA_GetBlocking;
static int (*volatile get_nbi)(gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t) = gex_RMA_GetNBI;
static gex_Event_t (*volatile get_nb)(gex_TM_t, void *, gex_Rank_t, void *, size_t, gex_Flags_t) = gex_RMA_GetNB;
static int (*volatile put_val)(gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t,
                               gex_Flags_t) = gex_RMA_PutBlockingVal;
static int (*volatile put_nbi_val)(gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t,
                                   gex_Flags_t) = gex_RMA_PutNBIVal;
static gex_Event_t (*volatile put_nb_val)(gex_TM_t, gex_Rank_t, void *, gex_RMA_Value_t, size_t,
                                          gex_Flags_t) = gex_RMA_PutNBVal;
static gex_RMA_Value_t (*volatile get_val)(gex_TM_t, gex_Rank_t, void *, size_t, gex_Flags_t) = gex_RMA_GetBlockingVal;
static int (*volatile event_test)(gex_Event_t) = gex_Event_Test;
static void (*volatile event_wait)(gex_Event_t) = gex_Event_Wait;
static void (*volatile nbi_wait)(gex_EC_t, gex_Flags_t) = gex_NBI_Wait;
static int (*volatile poll_once)(void) = gasnet_AMPoll;
static void (*volatile leave)(int) = gasnet_exit;
static void (*volatile barrier_blocking)(gex_TM_t, gex_Flags_t) = gex_Coll_BarrierBlocking;
/* Macros that count arguments end in functions whose pointers have ordinary types. */
static int (*volatile request_short)(gex_TM_t, gex_Rank_t, gex_AM_Index_t, gex_Flags_t,
                                     gex_AM_Arg_t) = gex_AM_RequestShort1;
static int (*volatile reply_short)(gex_Token_t, gex_AM_Index_t, gex_Flags_t, gex_AM_Arg_t) = gex_AM_ReplyShort1;
static int (*volatile cancel_medium)(gex_AM_SrcDesc_t, gex_Flags_t) = gex_AM_CancelRequestMedium;
static int (*volatile cancel_long)(gex_AM_SrcDesc_t, gex_Flags_t) = gex_AM_CancelRequestLong;

enum { REQUEST = 200, REPLY = 201, BYTES = 3000 };
static int answered;

static void on_request(gex_Token_t token, gex_AM_Arg_t x) { reply_short(token, REPLY, 0, x + 1); }
static void on_reply(gex_Token_t token, gex_AM_Arg_t x) {
    CHECK(x == 42);
    ATOMIC_ADD(&answered, 1);
}

static void transfers(gex_Rank_t peer) {
    char *far_away = seg_of(peer) + (size_t)me * BYTES;
    char out[BYTES], in[BYTES];
    for (int kind = 0; kind < 3; kind++) {
        gex_RMA_Value_t value = (gex_RMA_Value_t)(0x1234567 + kind);
        pattern_fill(out, BYTES, (uint64_t)kind);
        memset(in, 0, BYTES);
        if (kind == 0) CHECK(put_blocking(tm, peer, far_away, out, BYTES, 0) == 0);
        if (kind == 1) CHECK(put_nbi(tm, peer, far_away, out, BYTES, GEX_EVENT_NOW, 0) == 0);
        if (kind == 2) event_wait(put_nb(tm, peer, far_away, out, BYTES, GEX_EVENT_DEFER, 0));
        nbi_wait(GEX_EC_ALL, 0);
        if (kind == 0) CHECK(get_blocking(tm, in, peer, far_away, BYTES, 0) == 0);
        if (kind == 1) CHECK(get_nbi(tm, in, peer, far_away, BYTES, 0) == 0);
        if (kind == 2) {
            gex_Event_t event = get_nb(tm, in, peer, far_away, BYTES, 0);
            while (event_test(event) != GASNET_OK) poll_once();
        }
        nbi_wait(GEX_EC_ALL, 0);
        CHECK_PATTERN(in, BYTES, (uint64_t)kind);
        if (kind == 0) CHECK(put_val(tm, peer, far_away, value, 8, 0) == 0);
        if (kind == 1) CHECK(put_nbi_val(tm, peer, far_away, value, 8, 0) == 0);
        if (kind == 2) event_wait(put_nb_val(tm, peer, far_away, value, 8, 0));
        nbi_wait(GEX_EC_ALL, 0);
        CHECK(get_val(tm, peer, far_away, 8, 0) == value);
    }
}

int main(int argc, char **argv) {
    test_name = "exported_symbols";
    if (client_init(&client, &ep, &tm, "SYMBOLS", &argc, &argv, 0) != GASNET_OK) return 1;
    test_start_watchdog();
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    register_handler(REQUEST, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    test_attach((uintptr_t)np * BYTES);
    barrier_blocking(tm, 0);
    for (gex_Rank_t r = 0; r<np; r += np> 8 ? np / 4 : 1) transfers((me + r) % np);
    PHASE("messages");
    gex_Rank_t peer = (me + 1) % np;
    OK(request_short(tm, peer, REQUEST, 0, 41));
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, 8, 64, NULL, 0, 0);
    OK(cancel_medium(sd, 0));
    sd = gex_AM_PrepareRequestLong(tm, peer, NULL, 8, 64, seg_of(peer), NULL, 0, 0);
    OK(cancel_long(sd, 0));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == 1);
    PHASE("end");
    barrier_blocking(tm, 0);
    if (test_failures == 0 && me == 0) printf("PASS exported_symbols on %u ranks\n", (unsigned)np);
    fflush(stdout);
    barrier_blocking(tm, 0);
    leave(test_failures ? 1 : 0);
    return 1;
}

// A client that has all floating-point traps on starts, communicates and ends, and the library
// leaves none of its sticky flags set. All numbers here are exact in binary.
// NP: 1 2 3
// FLAVOURS: release
// ENV: GASNET_RCV_THREAD=1 GASNET_MAX_SEGSIZE=0.3/P GASNET_STATSFILE=/dev/null GASNET_STATSMASK=A
#define _GNU_SOURCE 1
#include "check.h"

#include <fenv.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnet_vis.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define TRAPS_ON() feenableexcept(FE_ALL_EXCEPT)
#else
#define TRAPS_ON() 0
#endif

/* The traps end a program at the instruction; flags tell it where there are no traps. */
#define UNTOUCHED(text)                                                          \
    do {                                                                         \
        int flags = fetestexcept(FE_ALL_EXCEPT);                                 \
        CHECKF(flags == 0, "flags %#x are set after %s", (unsigned)flags, text); \
    } while (0)

enum { BYTES = 200000 };
static char out[BYTES], in[BYTES];
static unsigned replies;

static void on_reply(gex_Token_t token) { ATOMIC_ADD(&replies, 1U); }

static void on_payload(gex_Token_t token, void *payload, size_t bytes) { gex_AM_ReplyShort0(token, 200, 0); }

static void messages(gex_Rank_t peer) {
    char *remote = seg_of(peer);
    size_t medium = gex_AM_LUBRequestMedium(), longest = gex_AM_LUBRequestLong();
    ATOMIC_SET(&replies, 0U);
    if (longest > BYTES) longest = BYTES;
    gex_AM_RequestMedium0(tm, peer, 201, out, medium, GEX_EVENT_NOW, 0);
    gex_AM_RequestMedium0(tm, peer, 201, out, 0, GEX_EVENT_NOW, 0);
    gex_AM_RequestLong0(tm, peer, 202, out, longest, remote, GEX_EVENT_NOW, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == 3);
    UNTOUCHED("messages");
}

static void transfers(gex_Rank_t peer) {
    static const size_t sizes[] = {8, 4096, BYTES}, count[2] = {5, 7};
    static const ptrdiff_t steps[2] = {16, 160};
    char *remote = seg_of(peer);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        OK(gex_RMA_PutBlocking(tm, peer, remote, out, sizes[i], 0));
        OK(gex_RMA_GetBlocking(tm, in, peer, remote, sizes[i], 0));
    }
    OK(gex_VIS_StridedPutBlocking(tm, peer, remote, steps, out, steps, 8, count, 2, 0));
    UNTOUCHED("transfers");
}

static void atomics(gex_Rank_t peer) {
    gex_AD_t domain;
    double old = 0;
    barrier(); /* the word has had its last transfer */
    gex_AD_Create(&domain, tm, GEX_DT_DBL, GEX_OP_FADD | GEX_OP_SET | GEX_OP_FMAX, 0);
    gex_Event_Wait(gex_AD_OpNB_DBL(domain, NULL, me, seg_of(me), GEX_OP_SET, 1.5, 0, 0));
    barrier();
    gex_Event_Wait(gex_AD_OpNB_DBL(domain, &old, peer, seg_of(peer), GEX_OP_FADD, 0.25, 0, 0));
    CHECK(old == 1.5);
    gex_Event_Wait(gex_AD_OpNB_DBL(domain, &old, peer, seg_of(peer), GEX_OP_FMAX, 8, 0, 0));
    CHECK(old == 1.75);
    barrier();
    gex_AD_Destroy(domain);
    UNTOUCHED("atomics");
}

static void collectives(void) {
    double mine[3], sums[3];
    for (size_t i = 0; i < 3; i++) mine[i] = 0.5 + (double)i;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, sums, mine, GEX_DT_DBL, sizeof *mine, 3, GEX_OP_ADD, NULL, NULL, 0));
    for (size_t i = 0; i < 3; i++) CHECK(sums[i] == (0.5 + (double)i) * (double)np);
    for (gex_Rank_t r = 0; r < np; r++) gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, in, out, BYTES, 0));
    barrier();
    UNTOUCHED("collectives");
}

static void tools(void) {
    gasnett_tick_t start = gasnett_ticks_now();
    gasnett_setenv("TEST_FLOATING_SIZE", "1.3M");
    gasnett_setenv("TEST_FLOATING_NUMBER", "0.1");
    CHECK(gasnett_getenv_int_withdefault("TEST_FLOATING_SIZE", 0, 1) == 1363148);
    CHECK(gasnett_getenv_dbl_withdefault("TEST_FLOATING_NUMBER", 7) == 0.1);
    CHECK(gasnett_tick_granularityus() > 0 && gasnett_tick_overheadus() > 0);
    gasnett_nsleep(1000);
    CHECK(gasnett_ticks_to_ns(gasnett_ticks_now() - start) > 0);
    UNTOUCHED("tools");
}

int main(int argc, char **argv) {
    (void)TRAPS_ON();
    gasnett_ticks_to_ns(1); /* calibrates the counter, outside of the start */
    UNTOUCHED("calibration");
    test_init("floating_point", &argc, &argv);
    UNTOUCHED("gex_Client_Init");
    gex_Rank_t peer = (me + 1) % np;
    register_handler(200, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    register_handler(201, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(202, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    test_attach(1 << 20);
    barrier();
    UNTOUCHED("attach");
    messages(peer);
    transfers(peer);
    atomics(peer);
    collectives();
    tools();
    return test_finish();
}

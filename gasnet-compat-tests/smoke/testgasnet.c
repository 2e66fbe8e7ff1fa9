// For packagers, to verify an installation: a little of everything between all pairs of ranks, then
// the library's own diagnosis. Built in a build tree by make -C CONDUIT-conduit testgasnet-MODE.
// They look for "done." in the output.
// NP: 1 2 4
// TIMEOUT: 120
#include "check.h"

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

enum { ECHO = 200, ANSWER = 201, BYTES = 3000, SEGMENT_BYTES = 1 << 20 };

static unsigned answers;
static unsigned char answered[BYTES];

static void echo(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    gex_AM_ReplyMedium1(token, ANSWER, payload, bytes, GEX_EVENT_NOW, 0, seed);
}
static void answer(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    (void)token;
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    memcpy(answered, payload, bytes);
    ATOMIC_ADD(&answers, 1U);
}

/* A put, a get, a message and its answer, and an atomic, to and from one rank. Each rank has a slot
 * in everybody's segment. */
static void meet(gex_Rank_t peer, gex_AD_t domain, unsigned turn) {
    unsigned char out[BYTES], in[BYTES];
    char *slot = seg_of(peer) + 4096 * (1 + (size_t)me % 128);
    uint64_t before = 0;
    pattern_fill(out, BYTES, me + turn);
    memset(in, 0, BYTES);
    gex_Event_Wait(gex_RMA_PutNB(tm, peer, slot, out, BYTES, GEX_EVENT_NOW, 0));
    gex_Event_Wait(gex_RMA_GetNB(tm, in, peer, slot, BYTES, 0));
    CHECKF(!memcmp(in, out, BYTES), "rank %u", (unsigned)peer);
    gex_AM_RequestMedium1(tm, peer, ECHO, out, BYTES, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)(me + turn));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answers) == turn + 1);
    CHECK(!memcmp(answered, out, BYTES));
    gex_Event_Wait(gex_AD_OpNB_U64(domain, &before, peer, seg_of(peer), GEX_OP_FADD, 1, 0, 0));
    CHECK(before < np);
}

int main(int argc, char **argv) {
    gex_AM_Entry_t *table = NULL;
    int count = 0;
    gex_AD_t domain;
    uint64_t sum = 0;
    test_init("testgasnet", &argc, &argv);
    register_handler(ECHO, (gex_AM_Fn_t)echo, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    gasnett_diagnostic_gethandlers(&table, &count);
    OK(gex_EP_RegisterHandlers(ep, table, (size_t)count));
    test_attach(SEGMENT_BYTES);
    gex_AD_Create(&domain, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_SET, 0);
    gex_Event_Wait(gex_AD_OpNB_U64(domain, NULL, me, seg_of(me), GEX_OP_SET, 0, 0, 0));
    barrier();
    PHASE("pairs");
    for (gex_Rank_t i = 0; i < np; i++) meet((me + i) % np, domain, i);
    barrier();
    CHECK(*(volatile uint64_t *)(void *)seg_of(me) == np);
    PHASE("collectives");
    uint64_t mine = me + 1;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &mine, GEX_DT_U64, sizeof sum, 1, GEX_OP_ADD, NULL, NULL, 0));
    CHECK(sum == (uint64_t)np * (np + 1) / 2);
    gex_AD_Destroy(domain);
    barrier();
    PHASE("diagnosis");
    gex_Rank_t peer = (me + 1) % np;
    CHECK(gasnett_run_diagnostics(20, 2, NULL, tm, seg_of(me), peer, seg_of(peer), 1) == 0);
    if (ATOMIC_GET(&test_failures) == 0) {
        printf("rank %u of %u over %s: done.\n", (unsigned)me, (unsigned)np, GASNET_CONDUIT_NAME_STR);
        fflush(stdout);
    }
    return test_finish();
}

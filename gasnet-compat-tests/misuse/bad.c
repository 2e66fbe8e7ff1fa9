/* Makes one wrong call, named by the first argument; test_misuse.py judges how the job ends.
 * The job must not outlive it: a rank that is still alive after 40 seconds says so and exits
 * with 99. */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gex_TM_t tm;
static gex_EP_t ep;
static gex_Client_t client;
static gex_Segment_t segment;
static gex_Rank_t me, np;

static void still_alive(int number) {
    static const char text[] = "bad: this rank is still alive\n";
    ssize_t ignored = write(2, text, sizeof text - 1);
    (void)ignored;
    _exit(99);
}

static void on_nothing(gex_Token_t token) {}
static gex_AD_t ad;
static void on_atomic(gex_Token_t token) {
    uint32_t old;
    gex_AD_OpNB_U32(ad, &old, 0, NULL, GEX_OP_GET, 0, 0, 0);
}
static void on_poll(gex_Token_t token) { gasnet_AMPoll(); }
static void on_send(gex_Token_t token) { gex_AM_RequestShort0(tm, 0, 200, 0); }
static void on_reply_twice(gex_Token_t token) {
    gex_AM_ReplyShort0(token, 200, 0);
    gex_AM_ReplyShort0(token, 200, 0);
}

static gex_HSL_t lock_a = GEX_HSL_INITIALIZER, lock_b = GEX_HSL_INITIALIZER;
static void on_lock(gex_Token_t token) { gex_HSL_Lock(&lock_a); }
static void on_lock_reply(gex_Token_t token) {
    gex_HSL_Lock(&lock_a);
    gex_AM_ReplyShort0(token, 200, 0);
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }
static char *base_of(gex_Rank_t rank) {
    void *base = NULL;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &base, NULL, NULL, 0));
    return (char *)base;
}
static int is(const char *what, const char *name) { return strcmp(what, name) == 0; }

static void lock_misuse(const char *what) {
    if (is(what, "lock-not-held")) gex_HSL_Unlock(&lock_a);
    if (is(what, "lock-in-handler")) gex_AM_RequestShort0(tm, np - 1, 208, 0);
    if (is(what, "lock-in-reply")) gex_AM_RequestShort0(tm, np - 1, 209, 0);
    if (is(what, "lock-destroyed")) {
        gex_HSL_Destroy(&lock_b);
        gex_HSL_Lock(&lock_b);
    }
    if (is(what, "lock-destroyed-twice")) {
        gex_HSL_Destroy(&lock_b);
        gex_HSL_Destroy(&lock_b);
    }
    if (is(what, "lock-twice") || is(what, "lock-try-twice") || is(what, "lock-order") || is(what, "lock-poll")) {
        gex_HSL_Lock(&lock_a);
        if (is(what, "lock-twice")) gex_HSL_Lock(&lock_a);
        if (is(what, "lock-try-twice")) gex_HSL_Trylock(&lock_a);
        if (is(what, "lock-poll")) gasnet_AMPoll();
        gex_HSL_Lock(&lock_b);
        if (is(what, "lock-order")) gex_HSL_Unlock(&lock_a);
    }
}

/* The domain has ADD, FADD and GET on uint32_t. */
static void atomic_misuse(const char *what) {
    uint32_t old = 0;
    uint64_t wide = 0;
    const gex_Rank_t last = np - 1;
    char *place = base_of(last);
    if (is(what, "atomic-type")) gex_AD_OpNB_U64(ad, &wide, last, place, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-operation")) gex_AD_OpNB_U32(ad, &old, last, place, GEX_OP_SWAP, 1, 0, 0);
    if (is(what, "atomic-two-operations")) gex_AD_OpNBI_U32(ad, &old, last, place, GEX_OP_ADD | GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-no-result")) gex_AD_OpNB_U32(ad, NULL, last, place, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-rank")) gex_AD_OpNB_U32(ad, &old, np + 5, place, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-jobrank"))
        gex_AD_OpNB_U32(ad, &old, np + 5, place, GEX_OP_FADD, 1, 0, GEX_FLAG_RANK_IS_JOBRANK);
    if (is(what, "atomic-not-mine")) gex_AD_OpNB_U32(ad, &old, last, place, GEX_OP_FADD, 1, 0, GEX_FLAG_AD_MY_RANK);
    /* The function: what is inline in release objects is, as puts are, not checked there. */
    if (is(what, "atomic-outside")) (gex_AD_OpNB_U32)(ad, &old, last, place + 65536, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-misaligned")) gex_AD_OpNB_U32(ad, &old, last, place + 2, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-in-handler")) gex_AM_RequestShort0(tm, last, 210, 0);
    if (is(what, "atomic-destroyed")) {
        gex_AD_Destroy(ad);
        gex_AD_OpNB_U32(ad, &old, last, place, GEX_OP_FADD, 1, 0, 0);
    }
    if (is(what, "atomic-no-domain")) gex_AD_OpNB_U32(GEX_AD_INVALID, &old, last, place, GEX_OP_FADD, 1, 0, 0);
    if (is(what, "atomic-bits-of-float")) gex_AD_Create(&ad, tm, GEX_DT_FLT, GEX_OP_GET | GEX_OP_XOR, 0);
    if (is(what, "atomic-two-types")) gex_AD_Create(&ad, tm, GEX_DT_U32 | GEX_DT_I32, GEX_OP_GET, 0);
    if (is(what, "atomic-pair")) gex_AD_Create(&ad, gex_TM_Pair(ep, 0), GEX_DT_U32, GEX_OP_GET, 0);
}

static void misuse(const char *what) {
    char byte[2] = {1, 1};
    if (strncmp(what, "atomic-", 7) == 0) gex_AD_Create(&ad, tm, GEX_DT_U32, GEX_OP_ADD | GEX_OP_FADD | GEX_OP_GET, 0);
    if (me == 0) {
        char *base = base_of(0);
        if (is(what, "rank-am")) gex_AM_RequestShort0(tm, np + 5, 200, 0);
        if (is(what, "endpoint-am")) gex_AM_RequestShort0(gex_TM_Pair(ep, 9), np - 1, 200, 0);
        if (is(what, "endpoint-none")) gex_AM_RequestShort0(gex_TM_Pair(GEX_EP_INVALID, 0), np - 1, 200, 0);
        if (is(what, "rank-put")) gex_RMA_PutBlocking(tm, np + 5, base, byte, 1, 0);
        if (is(what, "handler-index")) gex_AM_RequestShort0(tm, np - 1, 250, 0);
        if (is(what, "address-put")) gex_RMA_PutBlocking(tm, np - 1, base_of(np - 1) + 65536, byte, 1, 0);
        if (is(what, "address-get")) gex_RMA_GetBlocking(tm, byte, np - 1, base_of(np - 1) - 1, 1, 0);
        if (is(what, "address-span")) gex_RMA_PutBlocking(tm, np - 1, base_of(np - 1) + 65535, byte, 2, 0);
        if (is(what, "two-places")) {
            gex_RMA_PutBlocking(tm, np - 1, base_of(np - 1), byte, 1,
                                GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_UNKNOWN);
        }
        if (is(what, "not-bound")) gex_RMA_GetBlocking(tm, byte, np - 1, base_of(np - 1), 1, GEX_FLAG_SELF_SEG_BOUND);
        if (is(what, "offset-beyond")) {
            gex_AM_RequestMedium0(tm, np - 1, 203, (void *)(uintptr_t)65536, 1, GEX_EVENT_NOW,
                                  GEX_FLAG_SELF_SEG_OFFSET);
        }
        if (is(what, "prepared-offset"))
            gex_AM_PrepareRequestMedium(tm, np - 1, byte, 1, 1, GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET, 0);
        if (is(what, "too-long")) {
            size_t most = gex_AM_MaxRequestMedium(tm, np - 1, GEX_EVENT_NOW, 0, 0);
            gex_AM_RequestMedium0(tm, np - 1, 203, calloc(1, most + 1), most + 1, GEX_EVENT_NOW, 0);
        }
        if (is(what, "poll-in-handler")) gex_AM_RequestShort0(tm, np - 1, 204, 0);
        if (is(what, "request-in-handler")) gex_AM_RequestShort0(tm, np - 1, 205, 0);
        if (is(what, "two-replies")) gex_AM_RequestShort0(tm, np - 1, 206, 0);
        if (strncmp(what, "lock-", 5) == 0) lock_misuse(what);
        if (strncmp(what, "atomic-", 7) == 0) atomic_misuse(what);
    }
    for (;;) barrier(); /* the job ends from elsewhere */
}

static gex_AM_Entry_t handlers[] = {
    {200, (gex_AM_Fn_t)on_nothing, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL, "on_nothing"},
    {203, (gex_AM_Fn_t)on_nothing, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL, "on_medium"},
    {204, (gex_AM_Fn_t)on_poll, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_poll"},
    {205, (gex_AM_Fn_t)on_send, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_send"},
    {206, (gex_AM_Fn_t)on_reply_twice, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_reply_twice"},
    {208, (gex_AM_Fn_t)on_lock, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_lock"},
    {209, (gex_AM_Fn_t)on_lock_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_lock_reply"},
    {210, (gex_AM_Fn_t)on_atomic, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_atomic"}};

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "fine";
    uintptr_t bytes = 65536;
    signal(SIGALRM, still_alive);
    alarm(40);
    if (gex_Client_Init(&client, &ep, &tm, "BAD", &argc, &argv, 0) != GASNET_OK) return 3;
    signal(SIGALRM, still_alive);
    alarm(40);
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof handlers[0]) != GASNET_OK) gasnet_exit(3);
    if (is(what, "segment-huge")) bytes = (uintptr_t)1 << 46;
    if (is(what, "segment-odd")) bytes = 65537;
    if (is(what, "segment-zero")) bytes = 0;
    if (is(what, "segment-max")) bytes = gasnet_getMaxLocalSegmentSize();
    if (gex_Segment_Attach(&segment, tm, bytes) != GASNET_OK) {
        fprintf(stderr, "bad: gex_Segment_Attach refused\n");
        gasnet_exit(4);
    }
    barrier();
    if (!is(what, "fine") && strncmp(what, "segment-", 8) != 0) misuse(what);
    if (me == 0) printf("fine: %u ranks\n", (unsigned)np);
    fflush(stdout);
    barrier();
    gasnet_exit(0);
    return 0;
}

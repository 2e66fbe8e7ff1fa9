/* Traffic of every kind for a recording: two threads, requests of all categories with
 * replies of all categories, puts, gets, atomics, and both kinds of barriers.
 * Arguments: the number of rounds; "kill", with which rank 1 kills itself. */
#include "../common/check.h"

#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <pthread.h>

enum { ASK = 150, ANSWER = 160, BYTES = 1 << 20, PART = 4096, THREADS = 2 };

static gex_AD_t domain;
static int answers[THREADS];
static int rounds = 20;
static char **segments; /* handlers may not query them */

static char *part_of(gex_Rank_t rank, gex_Rank_t user, int thread, int use) {
    return segments[rank] + PART * ((user * THREADS + (unsigned)thread) * 4 + (unsigned)use);
}

/* Answers a request of each category by a reply of the next one. */
static void ask_short(gex_Token_t token, gex_AM_Arg_t thread) {
    char text[40] = "medium";
    gex_AM_ReplyMedium1(token, ANSWER + 1, text, sizeof text, GEX_EVENT_NOW, 0, thread);
}
static void ask_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    gex_AM_ReplyLong1(token, ANSWER + 2, payload, bytes, part_of(info.gex_srcrank, me, thread, 0), GEX_EVENT_NOW, 0,
                      thread);
}
static void ask_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    memset(payload, 0, bytes);
    gex_AM_ReplyShort1(token, ANSWER, 0, thread);
}
static void answer_short(gex_Token_t token, gex_AM_Arg_t thread) {
    (void)token;
    __atomic_add_fetch(&answers[thread], 1, __ATOMIC_RELEASE);
}
static void answer_payload(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t thread) {
    (void)payload;
    (void)bytes;
    answer_short(token, thread);
}

static void await(int thread, int count) {
    GASNET_BLOCKUNTIL(__atomic_load_n(&answers[thread], __ATOMIC_ACQUIRE) >= count);
}

/* A Medium; every second one is negotiated, every fourth one with an immediate Commit. */
static void ask(int round, gex_Rank_t peer, const void *from, size_t bytes, int thread) {
    gex_AM_SrcDesc_t prepared;
    if (round % 2 == 0) {
        gex_AM_RequestMedium1(tm, peer, ASK + 1, (void *)(uintptr_t)from, bytes, GEX_EVENT_NOW, 0, thread);
        return;
    }
    prepared = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes, bytes, NULL, 0, 1);
    memcpy(gex_AM_SrcDescAddr(prepared), from, bytes);
    if (round % 4 == 1 || gex_AM_CommitRequestMedium1_v2(prepared, ASK + 1, bytes, GEX_FLAG_IMMEDIATE, thread))
        gex_AM_CommitRequestMedium1(prepared, ASK + 1, bytes, thread);
}

static void *work(void *number) {
    int thread = (int)(intptr_t)number, asked = 0, round;
    unsigned char from[PART];
    uint64_t old;
    size_t i;
    for (i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + (size_t)thread);
    for (round = 0; round < rounds; round++) {
        gex_Rank_t peer = (me + 1 + (unsigned)round) % np;
        size_t bytes = 8 + (size_t)round * 97 % 500;
        gex_AM_RequestShort1(tm, peer, ASK, 0, thread);
        ask(round, peer, from, bytes, thread);
        await(thread, asked += 2);
        gex_AM_RequestLong1(tm, peer, ASK + 2, from, bytes, part_of(peer, me, thread, 1), GEX_EVENT_NOW, 0, thread);
        gex_Event_Wait(gex_RMA_PutNB(tm, peer, part_of(peer, me, thread, 2), from, PART, GEX_EVENT_NOW, 0));
        gex_RMA_PutBlocking(tm, peer, part_of(peer, me, thread, 3), from, bytes, 0);
        gex_RMA_GetNBI(tm, from, peer, part_of(peer, me, thread, 3), bytes, 0);
        gex_AD_OpNBI_U64(domain, &old, peer, seg_of(peer) + BYTES - 8, GEX_OP_FADD, 1, 0, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        await(thread, ++asked);
    }
    return NULL;
}

int main(int argc, char **argv) {
    gex_AM_Entry_t table[] = {
        {ASK, (gex_AM_Fn_t)ask_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "ask"},
        {ASK + 1, (gex_AM_Fn_t)ask_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, "ask"},
        {ASK + 2, (gex_AM_Fn_t)ask_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1, NULL, "ask"},
        {ANSWER, (gex_AM_Fn_t)answer_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL, "answer"},
        {ANSWER + 1, (gex_AM_Fn_t)answer_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1, NULL, "answer"},
        {ANSWER + 2, (gex_AM_Fn_t)answer_payload, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 1, NULL, "answer"},
    };
    uint64_t value = 0;
    pthread_t other;
    gex_Rank_t rank;
    int round;
    test_init("traffic", &argc, &argv);
    if (argc > 1) rounds = atoi(argv[1]);
    OK(gex_EP_RegisterHandlers(ep, table, ARRAY_LENGTH(table)));
    test_attach(BYTES);
    REQUIRE(np < BYTES / PART / THREADS / 4);
    segments = malloc(np * sizeof *segments);
    REQUIRE(segments != NULL);
    for (rank = 0; rank < np; rank++) segments[rank] = seg_of(rank);
    memset(segments[me], 0, BYTES);
    gex_AD_Create(&domain, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_GET, 0);
    for (round = 0; round < 3; round++) {
        memset(answers, 0, sizeof answers);
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        REQUIRE(pthread_create(&other, NULL, work, (void *)1) == 0);
        work(NULL);
        REQUIRE(pthread_join(other, NULL) == 0);
        if (argc > 2 && round == 1 && me == 1) raise(SIGKILL);
        gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
        REQUIRE(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    }
    gex_Event_Wait(gex_AD_OpNB_U64(domain, &value, me, seg_of(me) + BYTES - 8, GEX_OP_GET, 0, 0, 0));
    CHECKF(value == 3U * (unsigned)rounds * THREADS, "%u", (unsigned)value);
    return test_finish();
}

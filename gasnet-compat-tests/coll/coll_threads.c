// Collectives from several threads at once, each on a team of its own, synced by another thread;
// teams made and destroyed meanwhile.
// MODES: par
// NP: 1 2 4
// TIMEOUT: 90
#include "coll.h"

enum { THREADS = 5, ROUNDS = 60 };

static gex_TM_t teams[THREADS];
/* Events that one thread starts and the next one waits for. */
static struct {
    gex_Event_t event;
    int full;
    int64_t src, dst;
} box[THREADS];

static void *run(void *argument) {
    int t = (int)(intptr_t)argument, next = (t + 1) % THREADS;
    gex_TM_t mine = teams[t];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t src[3] = {me, round, t}, dst[3] = {0, 0, 0};
        char text[40];
        GASNET_BLOCKUNTIL(!ATOMIC_GET(&box[t].full));
        box[t].src = (int64_t)me * 10 + t + round;
        box[t].event =
            gex_Coll_ReduceToAllNB(mine, &box[t].dst, &box[t].src, GEX_DT_I64, 8, 1, GEX_OP_MAX, NULL, NULL, 0);
        ATOMIC_SET(&box[t].full, 1);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&box[next].full));
        gex_Event_Wait(box[next].event);
        CHECK(box[next].dst == (int64_t)(np - 1) * 10 + next + round);
        ATOMIC_SET(&box[next].full, 0);
        gex_Event_Wait(gex_Coll_ReduceToOneNB(mine, (gex_Rank_t)round % np, dst, src, GEX_DT_I64, 8, 3, GEX_OP_ADD,
                                              NULL, NULL, 0));
        if (gex_TM_QueryRank(mine) == (gex_Rank_t)round % np)
            CHECK(dst[0] == (int64_t)np * (np - 1) / 2 && dst[1] == (int64_t)np * round && dst[2] == (int64_t)np * t);
        memset(text, 0, sizeof text);
        snprintf(text, sizeof text, "round %d of thread %d", round, t);
        if (gex_TM_QueryRank(mine) != 0) memset(text, 'x', sizeof text);
        gex_Event_Wait(gex_Coll_BroadcastNB(mine, 0, text, text, sizeof text, 0));
        char expected[40];
        memset(expected, 0, sizeof expected);
        snprintf(expected, sizeof expected, "round %d of thread %d", round, t);
        CHECK(memcmp(text, expected, sizeof text) == 0);
        if (round % 10 == 0) {
            gex_TM_t sub = split(mine, (int)(gex_TM_QueryRank(mine) % 2), 0);
            meet(sub);
            gex_TM_Destroy(sub, NULL, 0);
        }
        meet(mine);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[THREADS];
    test_init("coll_threads", &argc, &argv);
    for (int i = 0; i < THREADS; i++) teams[i] = split(tm, 0, i % 2 ? (int)me : -(int)me);
    PHASE("threads");
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&thread[i], NULL, run, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) gex_TM_Destroy(teams[i], NULL, 0);
    return test_finish();
}

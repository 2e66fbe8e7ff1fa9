// The collectives of GASNet-1: data, blocking and not, synchronisation flags, the barrier by its
// other name.
// NP: 1 2 3 4 7
// TIMEOUT: 60
#include "coll.h"

#define MY (GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_LOCAL)
#define ALL (GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC | GASNET_COLL_LOCAL)
#define NO (GASNET_COLL_IN_NOSYNC | GASNET_COLL_OUT_NOSYNC | GASNET_COLL_LOCAL)

static uint64_t seed(gex_Rank_t from, gex_Rank_t to) { return from * 1009u + to; }

static void finish(gasnet_coll_handle_t handle, int spin) {
    if (spin) {
        int rc;
        while ((rc = gasnet_coll_try_sync(handle)) == GASNET_ERR_NOT_READY) gasnet_AMPoll();
        CHECK(rc == GASNET_OK);
    } else {
        gasnet_coll_wait_sync(handle);
    }
}

static void data(size_t bytes, int flags, int nb) {
    char *all = (char *)malloc(np * bytes + 1), *parts = (char *)malloc(np * bytes + 1),
         *one = (char *)malloc(bytes + 1);
    gex_Rank_t root = np - 1;
    pattern_fill(one, bytes, me == root ? 5 : 6);
    if (nb) {
        finish(gasnet_coll_broadcast_nb(GASNET_TEAM_ALL, all, root, one, bytes, flags), nb == 2);
    } else {
        gasnet_coll_broadcast(GASNET_TEAM_ALL, all, root, one, bytes, flags);
    }
    CHECK_PATTERN(all, bytes, 5);
    pattern_fill(one, bytes, seed(me, root));
    if (nb) {
        finish(gasnet_coll_gather_nb(GASNET_TEAM_ALL, root, all, one, bytes, flags), nb == 2);
    } else {
        gasnet_coll_gather(GASNET_TEAM_ALL, root, all, one, bytes, flags);
    }
    for (gex_Rank_t r = 0; me == root && r < np; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, root));
    if (nb) {
        finish(gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, all, one, bytes, flags), nb == 2);
    } else {
        gasnet_coll_gather_all(GASNET_TEAM_ALL, all, one, bytes, flags);
    }
    for (gex_Rank_t r = 0; r < np; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, root));
    for (gex_Rank_t r = 0; r < np; r++) pattern_fill(parts + r * bytes, bytes, seed(me, r));
    if (nb) {
        finish(gasnet_coll_scatter_nb(GASNET_TEAM_ALL, one, root, parts, bytes, flags), nb == 2);
    } else {
        gasnet_coll_scatter(GASNET_TEAM_ALL, one, root, parts, bytes, flags);
    }
    CHECK_PATTERN(one, bytes, seed(root, me));
    if (nb) {
        finish(gasnet_coll_exchange_nb(GASNET_TEAM_ALL, all, parts, bytes, flags), nb == 2);
    } else {
        gasnet_coll_exchange(GASNET_TEAM_ALL, all, parts, bytes, flags);
    }
    for (gex_Rank_t r = 0; r < np; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, me));
    free(all);
    free(parts);
    free(one);
}

/* OUT_ALLSYNC: when the call returns, everybody has its data; IN_ALLSYNC: nothing moves before
 * everybody has called. */
static void synchronisation(void) {
    char *base = (char *)seg_of(me);
    for (int round = 1; round <= 20; round++) {
        gex_Rank_t peer = (me + 1) % np;
        int32_t src = round;
        gasnet_coll_broadcast(GASNET_TEAM_ALL, base, 0, &src, sizeof src, ALL);
        OK(gex_RMA_GetBlocking(tm, &src, peer, seg_of(peer), sizeof src, 0));
        CHECKF(src == round, "%d in round %d", (int)src, round);
        CHECK(gasnet_coll_barrier(GASNET_TEAM_ALL, round, 0) == GASNET_OK);
    }
    gasnet_coll_barrier_notify(GASNET_TEAM_ALL, (int)me, me == 0 ? 0 : GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(gasnet_coll_barrier_wait(GASNET_TEAM_ALL, (int)me, me == 0 ? 0 : GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
    gasnet_coll_barrier_notify(GASNET_TEAM_ALL, (int)me, 0);
    int rc;
    while ((rc = gasnet_coll_barrier_try(GASNET_TEAM_ALL, (int)me, 0)) == GASNET_ERR_NOT_READY) continue;
    CHECK(rc == (np == 1 ? GASNET_OK : GASNET_ERR_BARRIER_MISMATCH));
    gasnet_coll_dumpTuningState(NULL, GASNET_TEAM_ALL);
    gasnet_coll_dumpProfile(NULL, GASNET_TEAM_ALL);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1, 13, 4096, 100000};
    static const int flags[] = {MY, ALL, NO};
    test_init_flags("coll_gasnet1", &argc, &argv, GEX_FLAG_USES_GASNET1);
    test_attach(4096);
    PHASE("data");
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        for (size_t j = 0; j < ARRAY_LENGTH(flags); j++)
            for (int nb = 0; nb < 3; nb++) data(sizes[i], flags[j], nb);
    PHASE("synchronisation");
    synchronisation();
    return test_finish();
}

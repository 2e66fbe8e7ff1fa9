// Atomic domains: what they remember, many at once over different data, how targets are named,
// hints and assertions about locality.
// NP: 1 2 3 4 7
// SEGMENTS: fast large
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { DOMAINS = 200 };

static const gex_Flags_t favours[] = {0, GEX_FLAG_AD_FAVOR_MY_RANK, GEX_FLAG_AD_FAVOR_MY_NBRHD,
                                      GEX_FLAG_AD_FAVOR_REMOTE};

static void queries(void) {
    static char mark;
    size_t i;
#define QUERIES(NAME, type, wide, ops)                                                                          \
    for (i = 0; i < ARRAY_LENGTH(favours); i++) {                                                               \
        gex_AD_t ad = GEX_AD_INVALID;                                                                           \
        gex_AD_Create(&ad, tm, GEX_DT_##NAME, ops, favours[i]);                                                 \
        CHECK(ad != GEX_AD_INVALID);                                                                            \
        CHECK(gex_AD_QueryTM(ad) == tm && gex_AD_QueryDT(ad) == GEX_DT_##NAME && gex_AD_QueryOps(ad) == (ops)); \
        CHECK(gex_AD_QueryFlags(ad) == favours[i] && gex_AD_QueryCData(ad) == NULL);                            \
        gex_AD_SetCData(ad, &mark);                                                                             \
        CHECK(gex_AD_QueryCData(ad) == &mark);                                                                  \
        gex_AD_SetCData(ad, NULL);                                                                              \
        CHECK(gex_AD_QueryCData(ad) == NULL);                                                                   \
        barrier();                                                                                              \
        gex_AD_Destroy(ad);                                                                                     \
    }
    FOR_TYPES(QUERIES)
}

// Many domains at once, each over a location of its own; half of them go, others come.
static void crowd(void) {
    static gex_AD_t ads[DOMAINS];
    const gex_Rank_t peer = (me + 1) % np;
    int i;
    memset(seg_of(me), 0, 8 * DOMAINS);
    for (i = 0; i < DOMAINS; i++)
        gex_AD_Create(&ads[i], tm, i % 2 ? GEX_DT_I64 : GEX_DT_DBL, GEX_OP_ADD | GEX_OP_GET, favours[i % 4]);
    for (int round = 0; round < 3; round++) {
        barrier();
        for (i = 0; i < DOMAINS; i++) {
            char *place = seg_of(peer) + 8 * i;
            if (i % 2) OK(gex_AD_OpNBI_I64(ads[i], NULL, peer, place, GEX_OP_ADD, i, 0, 0));
            else OK(gex_AD_OpNBI_DBL(ads[i], NULL, peer, place, GEX_OP_ADD, i, 0, 0));
        }
        gex_NBI_Wait(GEX_EC_ALL, 0);
        barrier();
        for (i = round; i < DOMAINS; i += 2) {
            gex_AD_Destroy(ads[i]);
            gex_AD_Create(&ads[i], tm, i % 2 ? GEX_DT_I64 : GEX_DT_DBL, GEX_OP_ADD | GEX_OP_GET, 0);
        }
    }
    barrier();
    for (i = 0; i < DOMAINS; i++) {
        int64_t whole = -1;
        double real = -1;
        char *place = seg_of(me) + 8 * i;
        if (i % 2) blocking_I64(ads[i], &whole, me, place, GEX_OP_GET, 0, 0, GEX_FLAG_AD_MY_RANK, 0);
        else blocking_DBL(ads[i], &real, me, place, GEX_OP_GET, 0, 0, GEX_FLAG_AD_MY_NBRHD, 0);
        CHECK(i % 2 ? whole == 3 * i : real == 3 * i);
    }
    barrier();
    for (i = 0; i < DOMAINS; i++) gex_AD_Destroy(ads[i]);
}

// A target by rank of the team or of the job, by address or by offset, a result by address or by
// offset.
static void naming(gex_Flags_t favour) {
    gex_AD_t ad;
    uint32_t mine[2] = {7, 7};
    uint32_t *own = (uint32_t *)(void *)seg_of(me);
    gex_AD_Create(&ad, tm, GEX_DT_U32, OPS_INTEGER, favour);
    own[0] = 0;
    barrier();
    for (gex_Rank_t peer = 0; peer < np; peer++) {
        gex_Flags_t near = peer == me ? GEX_FLAG_AD_MY_RANK : is_neighbour(peer) ? GEX_FLAG_AD_MY_NBRHD : 0;
        gex_Rank_t job = gex_TM_TranslateRankToJobrank(tm, peer);
        blocking_U32(ad, NULL, peer, seg_of(peer), GEX_OP_ADD, 1, 0, near, 0);
        blocking_U32(ad, NULL, job, seg_of(peer), GEX_OP_ADD, 2, 0, near | GEX_FLAG_RANK_IS_JOBRANK, 1);
        blocking_U32(ad, NULL, peer, (void *)0, GEX_OP_ADD, 4, 0, near | GEX_FLAG_PEER_SEG_OFFSET, 0);
        blocking_U32(ad, NULL, job, (void *)0, GEX_OP_INC, 99, 0, GEX_FLAG_RANK_IS_JOBRANK | GEX_FLAG_PEER_SEG_OFFSET,
                     1);
        // A result inside the own segment, named by its offset, 4 and 8; those of others are
        // elsewhere.
        own[1] = own[2] = UINT32_MAX;
        blocking_U32(ad, (uint32_t *)(uintptr_t)8, peer, seg_of(peer), GEX_OP_GET, 0, 0, GEX_FLAG_SELF_SEG_OFFSET, 0);
        blocking_U32(ad, (uint32_t *)(uintptr_t)4, peer, (void *)0, GEX_OP_FOR, 0, 0,
                     GEX_FLAG_SELF_SEG_OFFSET | GEX_FLAG_PEER_SEG_OFFSET, 1);
        blocking_U32(ad, mine, peer, (void *)0, GEX_OP_FADD, 0, 0, GEX_FLAG_PEER_SEG_OFFSET, 1);
        CHECK(own[2] >= 8 && own[2] <= 8 * np && own[1] >= own[2] && own[1] <= 8 * np && mine[0] >= own[1] &&
              mine[0] <= 8 * np);
        CHECK(mine[1] == 7);
        // Ignored where nothing is fetched.
        blocking_U32(ad, (uint32_t *)(uintptr_t)UINTPTR_MAX, peer, seg_of(peer), GEX_OP_OR, 0, 0,
                     GEX_FLAG_SELF_SEG_OFFSET, 1);
    }
    barrier();
    blocking_U32(ad, mine, me, seg_of(me), GEX_OP_GET, 0, 0, 0, 0);
    CHECKF(mine[0] == 8 * np, "%u", mine[0]);
    barrier();
    gex_AD_Destroy(ad);
}

int main(int argc, char **argv) {
    size_t i;
    test_init("atomic_domain", &argc, &argv);
    PHASE("queries before attach");
    queries();
    test_attach(8 * DOMAINS);
    PHASE("queries");
    queries();
    PHASE("many domains");
    crowd();
    PHASE("naming");
    for (i = 0; i < ARRAY_LENGTH(favours); i++) naming(favours[i]);
    return test_finish();
}

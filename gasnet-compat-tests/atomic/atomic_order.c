// GEX_FLAG_AD_REL and GEX_FLAG_AD_ACQ: what was written and put before a release is seen after the
// acquire that saw it.
// NP: 1 2 3 4 7
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

enum { ROUNDS = 300, WORDS = 8, LOCKED = 60 };

static gex_AD_t ad;
static uint64_t *mine;

// Segment: a flag, a lock, then the words that they protect. Each on lines of its own.
static char *flag_of(gex_Rank_t rank) { return seg_of(rank); }
static char *lock_of(gex_Rank_t rank) { return seg_of(rank) + 128; }
static char *words_of(gex_Rank_t rank) { return seg_of(rank) + 256; }

static void wait_for(gex_Rank_t rank, uint64_t wanted, int nbi) {
    uint64_t seen = 0;
    do {
        blocking_U64(ad, &seen, rank, flag_of(rank), GEX_OP_GET, 0, 0, GEX_FLAG_AD_ACQ, nbi);
        if (seen != wanted) gasnet_AMPoll();
    } while (seen != wanted);
}

// Around the ring: put the words to the right, set the flag there; whoever sees the own flag reads
// the own words, as memory and by a get.
static void hand_on(void) {
    const gex_Rank_t right = (me + 1) % np;
    uint64_t words[WORDS], back[WORDS];
    for (int round = 1; round <= ROUNDS; round++) {
        const uint64_t stamp = (uint64_t)round;
        for (int i = 0; i < WORDS; i++) words[i] = stamp * 1000 + (uint64_t)i;
        if (me == 0) {
            OK(gex_RMA_PutBlocking(tm, right, words_of(right), words, sizeof words, 0));
            blocking_U64(ad, NULL, right, flag_of(right), round % 2 ? GEX_OP_SET : GEX_OP_MAX, stamp, 0,
                         GEX_FLAG_AD_REL, round % 3 == 0);
        }
        wait_for(me, stamp, round % 2);
        for (int i = 0; i < WORDS; i++)
            CHECKF(mine[i] == words[i], "round %d word %d is %llu", round, i, (unsigned long long)mine[i]);
        OK(gex_RMA_GetBlocking(tm, back, me, words_of(me), sizeof back, 0));
        CHECK(memcmp(back, words, sizeof words) == 0);
        if (me != 0) {
            OK(gex_RMA_PutBlocking(tm, right, words_of(right), mine, sizeof words, 0));
            blocking_U64(ad, NULL, right, flag_of(right), round % 2 ? GEX_OP_SET : GEX_OP_ADD, round % 2 ? stamp : 1, 0,
                         GEX_FLAG_AD_REL, round % 3 == 1);
        }
    }
}

// A lock by FCAS and SET around words that puts and gets change: nobody sees half of a change.
static void exclude(void) {
    uint64_t words[WORDS], old;
    for (int round = 0; round < LOCKED; round++) {
        for (;;) {
            blocking_U64(ad, &old, 0, lock_of(0), GEX_OP_FCAS, 0, me + 1, GEX_FLAG_AD_ACQ, round % 2);
            if (old == 0) break;
            gasnet_AMPoll();
        }
        OK(gex_RMA_GetBlocking(tm, words, 0, words_of(0), sizeof words, 0));
        for (int i = 0; i < WORDS; i++)
            CHECKF(words[i] == words[0], "word %d is %llu, word 0 %llu", i, (unsigned long long)words[i],
                   (unsigned long long)words[0]);
        for (int i = 0; i < WORDS; i++) words[i]++;
        OK(gex_RMA_PutBlocking(tm, 0, words_of(0), words, sizeof words, 0));
        if (round % 2) blocking_U64(ad, NULL, 0, lock_of(0), GEX_OP_SET, 0, 0, GEX_FLAG_AD_REL, 0);
        else {
            blocking_U64(ad, &old, 0, lock_of(0), GEX_OP_FCAS, me + 1, 0, GEX_FLAG_AD_REL | GEX_FLAG_AD_ACQ, 1);
            CHECK(old == me + 1);
        }
    }
    barrier();
    OK(gex_RMA_GetBlocking(tm, words, 0, words_of(0), sizeof words, 0));
    for (int i = 0; i < WORDS; i++) CHECK(words[i] == (uint64_t)LOCKED * np);
}

int main(int argc, char **argv) {
    test_init("atomic_order", &argc, &argv);
    test_attach(256 + sizeof(uint64_t) * WORDS);
    mine = (uint64_t *)(void *)words_of(me);
    memset(seg_of(me), 0, 256 + sizeof(uint64_t) * WORDS);
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_SET | GEX_OP_GET | GEX_OP_MAX | GEX_OP_ADD | GEX_OP_FCAS, 0);
    barrier();
    PHASE("handing on");
    hand_on();
    barrier();
    memset(seg_of(me), 0, 256 + sizeof(uint64_t) * WORDS);
    barrier();
    PHASE("excluding");
    exclude();
    barrier();
    gex_AD_Destroy(ad);
    return test_finish();
}

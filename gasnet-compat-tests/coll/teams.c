// Teams: split by color and key, made from lists, nested, reversed, of one member, many at a time;
// translations both ways; scratch space given back; messages, puts and barriers by team ranks.
// NP: 1 2 3 4 7
// SEGMENTS: fast large
// TIMEOUT: 90
#include "coll.h"

enum { H_ADD = 200 };
static int received;

static void add_handler(gex_Token_t token, gex_AM_Arg_t value) { ATOMIC_ADD(&received, value); }

static gex_AM_Entry_t table[] = {
    {H_ADD, (gex_AM_Fn_t)add_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "add"},
};

/* Checks size, own rank and both translations against the job ranks that the team should have. */
static void check_members(gex_TM_t team, const gex_Rank_t *expected, gex_Rank_t count) {
    CHECKF(gex_TM_QuerySize(team) == count, "%u instead of %u", (unsigned)gex_TM_QuerySize(team), (unsigned)count);
    CHECK(expected[gex_TM_QueryRank(team)] == me);
    CHECK(gex_TM_QueryClient(team) == client && gex_TM_QueryEP(team) == ep);
    for (gex_Rank_t r = 0; r < count; r++) {
        gex_EP_Location_t place = gex_TM_TranslateRankToEP(team, r, 0);
        CHECK(gex_TM_TranslateRankToJobrank(team, r) == expected[r]);
        CHECK(gex_TM_TranslateJobrankToRank(team, expected[r]) == r);
        CHECK(place.gex_rank == expected[r] && place.gex_ep_index == 0);
    }
    for (gex_Rank_t other = 0; other < np; other++) {
        int member = 0;
        for (gex_Rank_t r = 0; r < count; r++) member |= expected[r] == other;
        if (!member) CHECK(gex_TM_TranslateJobrankToRank(team, other) == GEX_RANK_INVALID);
    }
}

/* Every member puts a word into, and sends a message to, the member to its right. */
static void use(gex_TM_t team, int round) {
    gex_Rank_t size = gex_TM_QuerySize(team), rank = gex_TM_QueryRank(team), to = (rank + 1) % size;
    volatile int *word = (volatile int *)gex_Segment_QueryAddr(segment);
    void *address = NULL;
    int before = ATOMIC_GET(&received);
    meet(team);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, to, &address, NULL, NULL, 0));
    CHECK(address == seg_of(gex_TM_TranslateRankToJobrank(team, to)));
    OK(gex_RMA_PutBlockingVal(team, to, address, (gex_RMA_Value_t)(round * 100 + (int)rank), sizeof(int), 0));
    meet(team);
    CHECK(*word == round * 100 + (int)((rank + size - 1) % size));
    gex_RMA_Value_t value = gex_RMA_GetBlockingVal(team, to, address, sizeof(int), 0);
    CHECK((int)value == round * 100 + (int)rank);
    OK(gex_AM_RequestShort1(team, to, H_ADD, 0, 1));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&received) == before + 1);
    meet(team);
}

static void colors_and_keys(void) {
    gex_Rank_t expected[1024], count = 0;
    PHASE("even and odd");
    gex_TM_t team = split(tm, (int)(me % 2), 0);
    for (gex_Rank_t r = me % 2; r < np; r += 2) expected[count++] = r;
    check_members(team, expected, count);
    CHECK(gex_TM_QueryFlags(team) == GEX_FLAG_TM_NO_SCRATCH);
    gex_TM_SetCData(team, expected);
    CHECK(gex_TM_QueryCData(team) == expected && gex_TM_QueryCData(tm) != expected);
    use(team, 1);
    PHASE("a team of a team, reversed");
    gex_TM_t sub = split(team, 5, -(int)gex_TM_QueryRank(team));
    for (gex_Rank_t r = 0; r < count / 2; r++) {
        gex_Rank_t swap = expected[r];
        expected[r] = expected[count - 1 - r];
        expected[count - 1 - r] = swap;
    }
    check_members(sub, expected, count);
    use(sub, 2);
    CHECK(gex_TM_Destroy(sub, NULL, 0) == 0);
    use(team, 3);
    CHECK(gex_TM_Destroy(team, NULL, 0) == 0);
    PHASE("everybody backwards");
    gex_TM_t back = split(tm, 0, -(int)me);
    for (gex_Rank_t r = 0; r < np; r++) expected[r] = np - 1 - r;
    check_members(back, expected, np);
    use(back, 4);
    meet(tm);
    CHECK(gex_TM_Destroy(back, NULL, GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    PHASE("alone, and not at all");
    team = split(tm, (int)me, 7);
    check_members(team, &me, 1);
    use(team, 5);
    CHECK(gex_TM_Destroy(team, NULL, 0) == 0);
    team = split(tm, me == 0 ? -1 : 3, 0);
    CHECK((team == GEX_TM_INVALID) == (me == 0));
    if (me != 0) {
        use(team, 6);
        CHECK(gex_TM_Destroy(team, NULL, 0) == 0);
    }
}

static void scratch_space(void) {
    gex_TM_t team;
    gex_Memvec_t back = {NULL, 0};
    char *base = (char *)gex_Segment_QueryAddr(segment) + 4096;
    PHASE("scratch");
    size_t bytes = gex_TM_Split(&team, tm, 1, (int)me, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    CHECK(bytes > 0 && bytes <= 4096);
    CHECK(gex_TM_Split(NULL, tm, 1, (int)me, NULL, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED) == 0);
    gex_TM_Split(&team, tm, 1, (int)me, base, bytes, 0);
    use(team, 7);
    CHECK(gex_TM_Destroy(team, &back, 0) != 0);
    CHECK(back.gex_addr == base && back.gex_len == bytes);
    back.gex_len = 77;
    gex_TM_Split(&team, tm, 1, (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    CHECK(gex_TM_Destroy(team, &back, 0) == 0 && back.gex_len == 77);
}

static void lists(void) {
    gex_EP_Location_t args[1024];
    gex_Rank_t expected[1024], count = 0;
    gex_TM_t team = GEX_TM_INVALID, sub = GEX_TM_INVALID;
    gex_Addr_t where[1024];
    gex_Memvec_t back = {NULL, 0};
    PHASE("made from lists");
    /* odd ranks descending, even ranks ascending: two teams in one call */
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_Rank_t rank = me % 2 ? np - 1 - r : r;
        if (rank % 2 == me % 2) {
            args[count].gex_rank = rank;
            args[count].gex_ep_index = 0;
            expected[count++] = rank;
        }
    }
    size_t bytes = gex_TM_Create(NULL, 1, tm, args, count, NULL, 0,
                                 GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED | GEX_FLAG_RANK_IS_JOBRANK);
    CHECK(bytes > 0 && bytes <= 4096);
    where[0] = (char *)gex_Segment_QueryAddr(segment) + 4096;
    gex_TM_Create(&team, 1, tm, args, count, where, bytes, GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    check_members(team, expected, count);
    use(team, 8);
    PHASE("made from ranks of a parent; some take no part");
    for (gex_Rank_t r = 0; r < count; r++) {
        args[r].gex_rank = count - 1 - r;
        expected[count - 1 - r] = gex_TM_TranslateRankToJobrank(team, r);
    }
    for (gex_Rank_t r = 0; r < count; r++) where[r] = (gex_Addr_t)(uintptr_t)(4096 + 128);
    if (me % 2) {
        gex_TM_Create(&sub, 1, team, args, count, where, 64, GEX_FLAG_TM_GLOBAL_SCRATCH | GEX_FLAG_SCRATCH_SEG_OFFSET);
        check_members(sub, expected, count);
        use(sub, 9);
        CHECK(gex_TM_Destroy(sub, &back, GEX_FLAG_SCRATCH_SEG_OFFSET) != 0);
        CHECK(back.gex_addr == (void *)(uintptr_t)(4096 + 128) && back.gex_len == 64);
    } else {
        gex_TM_Create(NULL, 0, team, NULL, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    }
    CHECK(gex_TM_Destroy(team, NULL, 0) == 0);
}

static void many(void) {
    enum { COUNT = 300 };
    static gex_TM_t teams[COUNT];
    gex_Event_t event[COUNT];
    PHASE("hundreds at a time");
    for (int i = 0; i < COUNT; i++) teams[i] = split(i < 2 ? tm : teams[i % 7 / 4], 0, i % 3 ? (int)me : -(int)me);
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < COUNT; i++) event[i] = gex_Coll_BarrierNB(teams[(i * 7 + j) % COUNT], 0);
        gex_Event_WaitAll(event, COUNT, 0);
    }
    for (int i = 0; i < COUNT; i += 50) use(teams[i], 10 + i);
    for (int i = 0; i < COUNT; i++) CHECK(gex_TM_Destroy(teams[i], NULL, i % 2 ? 0 : GEX_FLAG_GLOBALLY_QUIESCED) == 0);
    barrier();
}

int main(int argc, char **argv) {
    test_init("teams", &argc, &argv);
    OK(gex_EP_RegisterHandlers(ep, table, ARRAY_LENGTH(table)));
    gex_TM_t early = split(tm, 0, (int)me); /* before there are segments */
    test_attach(8192);
    barrier();
    use(early, 11);
    CHECK(gex_TM_Destroy(early, NULL, 0) == 0);
    colors_and_keys();
    scratch_space();
    lists();
    many();
    return test_finish();
}

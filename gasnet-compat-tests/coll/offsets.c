// Buffers of collectives as offsets in the bound segment of the team's local member
// (GEX_FLAG_SELF_SEG_OFFSET), and what the other flags of segment disposition change: nothing.
// Broadcasts, reductions to one and to all, in place and not, with members that pass offsets beside
// members that pass addresses, on the primordial team, a reversed one, and one of endpoints that
// have segments of their own.
// NP: 1 2 3 4
#include "coll.h"

enum { BYTES = 80000 };
static gex_TM_t team;
static gex_Rank_t rank, size;
/* Three buffers in the segment of the team's local member, and where that segment begins. */
static char *input, *output, *base;

/* A buffer as its owner names it: everybody by offset, or by address, or by offset on every second
 * rank only. */
static int by_offset(int how) { return how == 0 || (how == 1 && rank % 2 == 0); }
static char *name_of(char *buffer, int how) { return by_offset(how) ? (char *)(uintptr_t)(buffer - base) : buffer; }
static gex_Flags_t flag(int how) {
    static const gex_Flags_t others[] = {0, GEX_FLAG_SELF_SEG_BOUND, GEX_FLAG_SELF_SEG_UNKNOWN,
                                         GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_PEER_SEG_BOUND};
    return by_offset(how) ? GEX_FLAG_SELF_SEG_OFFSET : others[(how + rank) % ARRAY_LENGTH(others)];
}

static void broadcasts(size_t bytes, int how) {
    for (gex_Rank_t root = 0; root < size; root++) {
        uint64_t seed = root * 77u + bytes + (uint64_t)how;
        memset(output, 0x33, bytes + 1);
        if (rank == root) pattern_fill(input, bytes, seed);
        /* src is ignored on all ranks other than the root */
        gex_Event_Wait(gex_Coll_BroadcastNB(team, root, name_of(output, how),
                                            rank == root ? name_of(input, how) : (char *)-1, bytes, flag(how)));
        CHECK_PATTERN(output, bytes, seed);
        CHECK(output[bytes] == 0x33);
        gex_Event_Wait(gex_Coll_BroadcastNB(team, root, name_of(output, how), name_of(output, how), bytes, flag(how)));
        CHECK_PATTERN(output, bytes, seed);
    }
}

static void fill(char *at, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t value = (uint32_t)(i * 3 + rank + 1);
        memcpy(at + 4 * i, &value, 4);
    }
}
static void check(const char *at, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, at + 4 * i, 4);
        CHECKF(value == size * (uint32_t)(i * 3) + size * (size + 1) / 2, "element %zu is %u", i, (unsigned)value);
    }
    CHECK(at[4 * count] == 0x33);
}
static void reductions(size_t count, int how) {
    for (gex_Rank_t root = 0; root < size; root++) {
        fill(input, count);
        memset(output, 0x33, 4 * count + 1);
        /* dst is used on the root only */
        gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, rank == root ? name_of(output, how) : (char *)-1,
                                              name_of(input, how), GEX_DT_U32, 4, count, GEX_OP_ADD, NULL, NULL,
                                              flag(how)));
        if (rank == root) check(output, count);
    }
    memset(output, 0x33, 4 * count + 1);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(team, name_of(output, how), name_of(input, how), GEX_DT_U32, 4, count,
                                          GEX_OP_ADD, NULL, NULL, flag(how)));
    check(output, count);
    input[4 * count] = 0x33;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(team, name_of(input, how), name_of(input, how), GEX_DT_U32, 4, count,
                                          GEX_OP_ADD, NULL, NULL, flag(how)));
    check(input, count);
}

static void everything(gex_TM_t with, char *segment_base, char *buffers) {
    static const size_t counts[] = {1, 3, 250, 17000};
    team = with, base = segment_base;
    rank = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team);
    input = buffers + 4, output = input + BYTES;
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++)
        for (int how = 0; how < 3; how++) {
            broadcasts(4 * counts[i] + 1, how);
            reductions(counts[i], how);
        }
    broadcasts(0, 0);
    meet(team);
}

int main(int argc, char **argv) {
    gex_TM_t others;
    gex_EP_t other;
    gex_Segment_t own_segment;
    gex_EP_Location_t *where;
    void *start = NULL;
    test_init("offsets", &argc, &argv);
    test_attach(3 * BYTES);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, me, &start, NULL, NULL, 0));
    PHASE("primordial team");
    everything(tm, (char *)start, seg_of(me));
    PHASE("reversed team");
    gex_TM_t reversed = split(tm, 0, (int)(np - me));
    everything(reversed, (char *)start, seg_of(me));
    PHASE("team of other endpoints");
    OK(gex_Segment_Create(&own_segment, client, NULL, 3 * BYTES, GEX_MK_HOST, 0));
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_ALL, 0));
    OK(gex_EP_BindSegment(other, own_segment, 0));
    OK(gex_EP_PublishBoundSegment(tm, &other, 1, 0));
    where = (gex_EP_Location_t *)malloc(np * sizeof *where);
    for (gex_Rank_t r = 0; r < np; r++) {
        where[r].gex_rank = r;
        where[r].gex_ep_index = gex_EP_QueryIndex(other);
    }
    gex_TM_Create(&others, 1, tm, where, np, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    start = gex_Segment_QueryAddr(own_segment);
    everything(others, (char *)start, (char *)start);
    gex_TM_Destroy(others, NULL, 0);
    gex_TM_Destroy(reversed, NULL, 0);
    free(where);
    return test_finish();
}

// Collectives of every kind with sizes on both sides of every point where the algorithm changes (a
// note, a chunk, few operands in all, direct reading, a message), on the heap and in the segment,
// in place and not, aligned and not, on teams in every order and size; several at a time, overtaken
// by each other; members that come late.
// NP: 1 2 3 4 5 7
// TIMEOUT: 200
// SEGMENTS: fast large
#include "coll.h"

/* 112 bytes fit a note, 16384 a chunk, 16384 / members is where parts begin, 8192 or 65536 is read
 * directly, 65536 is one message; from 131072 on chunks grow, and 524288 fill a staging area. */
static const size_t sizes[] = {8,     104,   112,   120,   2040,  3280,  4096,  4104,   8192,   8200,
                               16376, 16384, 16392, 40000, 65528, 65536, 65544, 131072, 131080, 530000};
enum { MOST = 530432, MOST_PARTS = 150000, GUARD = 0x5a };

static gex_TM_t team;
static gex_Rank_t rank, size;
/* Two buffers on the heap, two in the segment. */
static char *buffer[4];

static void guard(char *p, size_t bytes) { memset(p + bytes, GUARD, 8); }
static void check_guard(const char *p, size_t bytes) {
    for (size_t i = 0; i < 8; i++) CHECK(p[bytes + i] == GUARD);
}

static uint64_t value(gex_Rank_t from, size_t i, size_t salt) {
    return (from + 1) * UINT64_C(0x100000001b3) + i * (salt | 1);
}

static void fill(char *p, size_t bytes, size_t salt) {
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t v = value(rank, i, salt);
        memcpy(p + 8 * i, &v, 8);
    }
}

/* Checks the sum over the first `members`. */
static void check_sum(const char *p, size_t bytes, size_t salt, gex_Rank_t members, const char *what) {
    for (size_t i = 0; i < bytes / 8; i += 1 + i / 50) {
        uint64_t sum = 0, got;
        for (gex_Rank_t r = 0; r < members; r++) sum += value(r, i, salt);
        memcpy(&got, p + 8 * i, 8);
        CHECKF(got == sum, "%s: word %zu of %zu bytes on %u members", what, i, bytes, (unsigned)size);
        if (got != sum) return;
    }
}

/* A user's function that shows order: strings of operand intervals. Elements of 24 bytes do not
 * divide a chunk. */
typedef struct {
    uint32_t first, last;
    uint64_t sum, calls;
} row_t;

static void join(const void *left, void *right, size_t count, const void *cdata) {
    const row_t *l = (const row_t *)left;
    row_t *r = (row_t *)right;
    CHECK(cdata == &buffer && ((uintptr_t)left | (uintptr_t)right) % 8 == 0);
    for (size_t i = 0; i < count; i++) {
        CHECKF(l[i].last + 1 == r[i].first, "%u … %u, %u … %u", (unsigned)l[i].first, (unsigned)l[i].last,
               (unsigned)r[i].first, (unsigned)r[i].last);
        r[i].first = l[i].first;
        r[i].sum += l[i].sum;
        r[i].calls += l[i].calls + 1;
    }
}

static void ordered(size_t bytes, gex_Rank_t root, char *src, char *dst) {
    size_t count = bytes / sizeof(row_t);
    row_t *in = (row_t *)src, *out = (row_t *)dst;
    if (count == 0) return;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < count; i++) {
            in[i].first = in[i].last = rank;
            in[i].sum = i + rank;
            in[i].calls = 0;
        }
        if (round == 0) {
            gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, dst, src, GEX_DT_USER, sizeof(row_t), count,
                                                  GEX_OP_USER_NC, join, &buffer, 0));
            if (rank != root) continue;
        } else if (round == 1) {
            gex_Event_Wait(gex_Coll_ReduceToAllNB(team, dst, src, GEX_DT_USER, sizeof(row_t), count, GEX_OP_USER_NC,
                                                  join, &buffer, 0));
        } else {
            gex_Event_Wait(gasnetx_Coll_ScanNB(team, dst, src, GEX_DT_USER, sizeof(row_t), count, GEX_OP_USER_NC, join,
                                               &buffer, 0));
        }
        for (size_t i = 0; i < count; i += 1 + i / 50) {
            gex_Rank_t members = round == 2 ? rank + 1 : size;
            CHECKF(out[i].first == 0 && out[i].last == members - 1 && out[i].calls == members - 1,
                   "round %d, element %zu of %zu", round, i, count);
            CHECK(out[i].sum == (uint64_t)members * i + (uint64_t)members * (members - 1) / 2);
        }
    }
}

static void one_size(size_t bytes, gex_Rank_t root, char *src, char *dst) {
    size_t count = bytes / 8;
    guard(dst, bytes);
    fill(src, bytes, 3);
    gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, rank == root ? dst : NULL, src, GEX_DT_U64, 8, count, GEX_OP_ADD,
                                          NULL, NULL, 0));
    if (rank == root) check_sum(dst, bytes, 3, size, "to one");
    fill(src, bytes, 5);
    gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, src, src, GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0));
    if (rank == root) check_sum(src, bytes, 5, size, "to one in place");
    fill(src, bytes, 7);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(team, dst, src, GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0));
    check_sum(dst, bytes, 7, size, "to all");
    fill(src, bytes, 9); /* must be free to change at once */
    gex_Event_Wait(gex_Coll_ReduceToAllNB(team, src, src, GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0));
    check_sum(src, bytes, 9, size, "to all in place");
    if (rank == root) pattern_fill(src, bytes, bytes + root);
    gex_Event_Wait(gex_Coll_BroadcastNB(team, root, dst, src, bytes, 0));
    if (rank == root) memset(src, 1, bytes);
    CHECK_PATTERN(dst, bytes, bytes + root);
    check_guard(dst, bytes);
    if (bytes * size <= MOST_PARTS) {
        pattern_fill(src, bytes, bytes + rank);
        guard(dst, bytes * size);
        gex_Event_Wait(gasnetx_Coll_GatherNB(team, root, dst, src, bytes, 0));
        for (gex_Rank_t r = 0; rank == root && r < size; r++) CHECK_PATTERN(dst + r * bytes, bytes, bytes + r);
        gex_Event_Wait(gasnetx_Coll_AllGatherNB(team, dst, src, bytes, 0));
        for (gex_Rank_t r = 0; r < size; r++) CHECK_PATTERN(dst + r * bytes, bytes, bytes + r);
        for (gex_Rank_t r = 0; r < size; r++) pattern_fill(src + r * bytes, bytes, bytes + rank * 37 + r);
        gex_Event_Wait(gasnetx_Coll_AllToAllNB(team, dst, src, bytes, 0));
        for (gex_Rank_t r = 0; r < size; r++) CHECK_PATTERN(dst + r * bytes, bytes, bytes + r * 37 + rank);
        check_guard(dst, bytes * size);
        memset(dst, 3, bytes);
        guard(dst, bytes);
        gex_Event_Wait(gasnetx_Coll_ScatterNB(team, root, dst, src, bytes, 0));
        CHECK_PATTERN(dst, bytes, bytes + root * 37 + rank);
        check_guard(dst, bytes);
    }
    ordered(bytes, root, src, dst);
}

/* Many operations at a time, of mixed kinds and sizes, waited for in another order than they
 * began. */
static void mixed(uint64_t seed) {
    enum { COUNT = 14 };
    static char *src[COUNT], *dst[COUNT];
    gex_Event_t event[COUNT];
    size_t bytes[COUNT];
    gex_Rank_t root[COUNT];
    int kind[COUNT], order = (int)(next_random(&seed) % 3);
    for (int i = 0; i < COUNT; i++) {
        kind[i] = (int)(next_random(&seed) % 4);
        root[i] = (gex_Rank_t)(next_random(&seed) % size);
        bytes[i] = sizes[next_random(&seed) % (ARRAY_LENGTH(sizes) - 1)];
        src[i] = (char *)malloc(bytes[i] + 8);
        dst[i] = (char *)malloc(bytes[i] + 8);
        guard(dst[i], bytes[i]);
        fill(src[i], bytes[i], (size_t)i);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t count = bytes[i] / 8;
        switch (kind[i]) {
            case 0: event[i] = gex_Coll_BarrierNB(team, 0); break;
            case 1: event[i] = gex_Coll_BroadcastNB(team, root[i], dst[i], src[i], bytes[i], 0); break;
            case 2:
                event[i] = gex_Coll_ReduceToOneNB(team, root[i], dst[i], src[i], GEX_DT_U64, 8, count, GEX_OP_ADD, NULL,
                                                  NULL, 0);
                break;
            default:
                event[i] =
                    gex_Coll_ReduceToAllNB(team, dst[i], src[i], GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0);
        }
    }
    if (order == 0) gex_Event_WaitAll(event, COUNT, 0);
    for (int i = 0; order != 0 && i < COUNT; i++) gex_Event_Wait(event[order == 1 ? i : COUNT - 1 - i]);
    for (int i = 0; i < COUNT; i++) {
        if (kind[i] == 1) {
            for (size_t j = 0; j < bytes[i] / 8; j += 1 + j / 20) {
                uint64_t got, wanted = value(root[i], j, (size_t)i);
                memcpy(&got, dst[i] + 8 * j, 8);
                CHECKF(got == wanted, "word %zu of %zu", j, bytes[i]);
            }
        }
        if (kind[i] == 3 || (kind[i] == 2 && rank == root[i])) check_sum(dst[i], bytes[i], (size_t)i, size, "mixed");
        check_guard(dst[i], bytes[i]);
        free(src[i]);
        free(dst[i]);
    }
}

/* One member comes late, and comes only when the others have notified it that their events, which
 * do not need it, are complete. */
static gex_AM_Index_t done_index = GEX_AM_INDEX_BASE;
static int done_count;
static void on_done(gex_Token_t token) { ATOMIC_ADD(&done_count, 1); }

static void late(void) {
    for (gex_Rank_t who = 0; who < size; who++) {
        int64_t src = rank, dst = -1, src2 = 7;
        if (rank == who) {
            GASNET_BLOCKUNTIL(ATOMIC_GET(&done_count) == (int)size - 1);
            ATOMIC_SET(&done_count, 0);
            gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
            gex_Event_Wait(gex_Coll_ReduceToAllNB(team, &dst, &src, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0));
            gex_Event_Wait(gex_Coll_BroadcastNB(team, 0, &src2, &src2, sizeof src2, 0));
        } else {
            gex_Event_t first = gex_Coll_BarrierNB(team, 0);
            gex_Event_t second = gex_Coll_ReduceToAllNB(team, &dst, &src, GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
            gex_Event_t third = gex_Coll_BroadcastNB(team, 0, &src2, &src2, sizeof src2, 0);
            CHECK(size == 1 || gex_Event_Test(first) != 0);
            CHECK(size == 1 || gex_Event_Test(second) != 0);
            gex_AM_RequestShort0(team, who, done_index, 0);
            gex_Event_Wait(third);
            gex_Event_Wait(second);
            gex_Event_Wait(first);
        }
        CHECK(dst == (int64_t)size * (size - 1) / 2 && src2 == 7);
        for (gex_Rank_t r = 0; r < 3; r++) meet(team);
    }
}

static void everything(gex_TM_t on) {
    team = on;
    rank = gex_TM_QueryRank(on);
    size = gex_TM_QuerySize(on);
    PHASE("sizes");
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (int where = 0; where < 2; where++) {
            gex_Rank_t root = (gex_Rank_t)(i + (size_t)where) % size;
            /* Each member places its buffers as it likes. */
            int mine = (where + (int)(rank % 3 == 1)) % 2;
            size_t shift = sizes[i] % 16 == 0 ? 0 : 8;
            one_size(sizes[i], root, buffer[2 * mine] + shift, buffer[2 * mine + 1] + shift);
        }
    }
    PHASE("mixed");
    for (size_t i = 0; i < 12; i++) mixed(i * 77 + 5);
    PHASE("late");
    late();
}

int main(int argc, char **argv) {
    test_init("switch", &argc, &argv);
    register_handler(done_index, (gex_AM_Fn_t)on_done, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(2 * MOST);
    for (int i = 0; i < 2; i++) buffer[i] = (char *)malloc(MOST);
    for (int i = 0; i < 2; i++) buffer[2 + i] = (char *)gex_Segment_QueryAddr(segment) + i * MOST;
    barrier();
    everything(tm);
    gex_TM_t other = split(tm, 0, -(int)me);
    everything(other);
    gex_TM_Destroy(other, NULL, 0);
    other = split(tm, 0, (int)(me * 5 % 7)); /* neighbours apart */
    everything(other);
    gex_TM_Destroy(other, NULL, 0);
    other = split(tm, me % 3 == 2, (int)(me % 2)); /* two of three, evens first; the rest */
    everything(other);
    gex_TM_Destroy(other, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    barrier();
    return test_finish();
}

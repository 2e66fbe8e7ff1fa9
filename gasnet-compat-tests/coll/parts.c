// Gather, scatter, all-gather and all-to-all of equal and unequal parts, and scans: every root,
// sizes from nothing to several messages, in place, on the primordial team, a reversed one and one
// of every second rank.
// NP: 1 2 3 4 7
// TIMEOUT: 120
#include "coll.h"

static gex_TM_t team;
static gex_Rank_t rank, size;

/* Seed of the data from member `from` to member `to`. */
static uint64_t seed(gex_Rank_t from, gex_Rank_t to, size_t bytes) { return from * 1000003u + to * 101u + bytes; }

static void equal_parts(size_t bytes) {
    char *parts = (char *)malloc(size * bytes + 1), *all = (char *)malloc(size * bytes + 1),
         *one = (char *)malloc(bytes + 1);
    for (gex_Rank_t root = 0; root < size; root++) {
        pattern_fill(one, bytes, seed(rank, root, bytes));
        memset(all, 0x11, size * bytes + 1);
        gex_Event_Wait(gasnetx_Coll_GatherNB(team, root, rank == root ? all : NULL, one, bytes, 0));
        for (gex_Rank_t r = 0; rank == root && r < size; r++)
            CHECK_PATTERN(all + r * bytes, bytes, seed(r, root, bytes));
        CHECK(all[size * bytes] == 0x11);
        for (gex_Rank_t r = 0; r < size; r++) pattern_fill(parts + r * bytes, bytes, seed(root, r, bytes));
        memset(one, 0x22, bytes + 1);
        gex_Event_Wait(gasnetx_Coll_ScatterNB(team, root, one, rank == root ? parts : NULL, bytes, 0));
        CHECK_PATTERN(one, bytes, seed(root, rank, bytes));
        CHECK(one[bytes] == 0x22);
    }
    pattern_fill(one, bytes, seed(rank, 0, bytes));
    memset(all, 0x11, size * bytes + 1);
    gex_Event_Wait(gasnetx_Coll_AllGatherNB(team, all, one, bytes, 0));
    for (gex_Rank_t r = 0; r < size; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, 0, bytes));
    memset(all, 0x11, size * bytes);
    memcpy(all + rank * bytes, one, bytes);
    gex_Event_Wait(gasnetx_Coll_AllGatherNB(team, all, all + rank * bytes, bytes, 0)); /* in place */
    for (gex_Rank_t r = 0; r < size; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, 0, bytes));
    for (gex_Rank_t r = 0; r < size; r++) pattern_fill(parts + r * bytes, bytes, seed(rank, r, bytes));
    gex_Event_Wait(gasnetx_Coll_AllToAllNB(team, all, parts, bytes, 0));
    for (gex_Rank_t r = 0; r < size; r++) CHECK_PATTERN(all + r * bytes, bytes, seed(r, rank, bytes));
    CHECK(all[size * bytes] == 0x11);
    free(parts);
    free(all);
    free(one);
}

/* Bytes from member `from` for member `to`: often none, sometimes more than a message. */
static size_t length(gex_Rank_t from, gex_Rank_t to, size_t scale) { return (from * 5 + to * 3) % 4 * scale; }

static void unequal_parts(size_t scale) {
    size_t counts[1024], offsets[1024], in_counts[1024], in_offsets[1024], total, in_total, most = 4 * scale, gap = 3;
    char *mine = (char *)malloc(most + 1), *in;
    gex_Rank_t r;
    for (gex_Rank_t root = 0; root < size; root++) {
        /* parts lie backwards, with gaps */
        for (total = 0, r = size; r-- > 0;) {
            counts[r] = length(r, root, scale);
            offsets[r] = total;
            total += counts[r] + gap;
        }
        in = (char *)malloc(total);
        memset(in, 0x55, total);
        pattern_fill(mine, counts[rank], seed(rank, root, scale));
        gex_Event_Wait(gasnetx_Coll_GatherVNB(team, root, in, rank == root ? counts : NULL,
                                              rank == root ? offsets : NULL, mine, counts[rank], 0));
        for (r = 0; rank == root && r < size; r++) {
            CHECK_PATTERN(in + offsets[r], counts[r], seed(r, root, scale));
            CHECK(in[offsets[r] + counts[r]] == 0x55);
        }
        memset(in, 0x55, total);
        gex_Event_Wait(gasnetx_Coll_AllGatherVNB(team, in, counts, offsets, mine, 0));
        for (r = 0; r < size; r++) {
            CHECK_PATTERN(in + offsets[r], counts[r], seed(r, root, scale));
            CHECK(in[offsets[r] + counts[r]] == 0x55);
        }
        for (r = 0; r < size; r++) pattern_fill(in + offsets[r], counts[r], seed(root, r, scale));
        memset(mine, 0x66, most + 1);
        gex_Event_Wait(gasnetx_Coll_ScatterVNB(team, root, mine, counts[rank], in, rank == root ? counts : NULL,
                                               rank == root ? offsets : NULL, 0));
        CHECK_PATTERN(mine, counts[rank], seed(root, rank, scale));
        CHECK(mine[counts[rank]] == 0x66);
        free(in);
    }
    for (total = in_total = 0, r = 0; r < size; r++) {
        counts[r] = length(rank, r, scale);
        offsets[r] = total;
        total += counts[r] + gap;
        in_counts[r] = length(r, rank, scale);
        in_offsets[r] = in_total;
        in_total += in_counts[r] + gap;
    }
    char *out = (char *)malloc(total);
    in = (char *)malloc(in_total);
    memset(in, 0x55, in_total);
    for (r = 0; r < size; r++) pattern_fill(out + offsets[r], counts[r], seed(rank, r, scale));
    gex_Event_Wait(gasnetx_Coll_AllToAllVNB(team, in, in_counts, in_offsets, out, counts, offsets, 0));
    for (r = 0; r < size; r++) {
        CHECK_PATTERN(in + in_offsets[r], in_counts[r], seed(r, rank, scale));
        CHECK(in[in_offsets[r] + in_counts[r]] == 0x55);
    }
    free(out);
    free(in);
    free(mine);
}

/* Keeps the first operand's first and the last operand's last: shows order and gaps. */
typedef struct {
    uint32_t first, last;
} row_t;

static void join(const void *left, void *right, size_t count, const void *cdata) {
    const row_t *l = (const row_t *)left;
    row_t *r = (row_t *)right;
    for (size_t i = 0; i < count; i++) {
        CHECKF(l[i].last + 1 == r[i].first, "%u … %u, %u … %u", (unsigned)l[i].first, (unsigned)l[i].last,
               (unsigned)r[i].first, (unsigned)r[i].last);
        r[i].first = l[i].first;
    }
}

static void scans(size_t count) {
    row_t *src = (row_t *)malloc(count * sizeof *src), *dst = (row_t *)malloc(count * sizeof *dst);
    for (size_t i = 0; i < count; i++) src[i].first = src[i].last = rank;
    gex_Event_Wait(gasnetx_Coll_ScanNB(team, dst, src, GEX_DT_USER, sizeof *src, count, GEX_OP_USER_NC, join, NULL, 0));
    for (size_t i = 0; i < count; i++) CHECK(dst[i].first == 0 && dst[i].last == rank);
    memset(dst, 0x77, count * sizeof *dst);
    gex_Event_Wait(
        gasnetx_Coll_ExclusiveScanNB(team, dst, src, GEX_DT_USER, sizeof *src, count, GEX_OP_USER_NC, join, NULL, 0));
    for (size_t i = 0; i < count; i++) {
        if (rank == 0) CHECK(dst[i].first == 0x77777777);
        if (rank > 0) CHECK(dst[i].first == 0 && dst[i].last == rank - 1);
    }
    gex_Event_Wait(gasnetx_Coll_ScanNB(team, src, src, GEX_DT_USER, sizeof *src, count, GEX_OP_USER_NC, join, NULL,
                                       0)); /* in place */
    for (size_t i = 0; i < count; i++) CHECK(src[i].first == 0 && src[i].last == rank);
    free(src);
    free(dst);
}

static void everything(gex_TM_t on) {
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 30000, 65536, 200001};
    team = on;
    rank = gex_TM_QueryRank(on);
    size = gex_TM_QuerySize(on);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        if (size * sizes[i] > 1000000) continue;
        PHASE("equal parts");
        equal_parts(sizes[i]);
        PHASE("unequal parts");
        unequal_parts(sizes[i] / 2);
    }
    PHASE("scans");
    scans(1);
    scans(100);
    scans(30000);
}

int main(int argc, char **argv) {
    test_init("parts", &argc, &argv);
    everything(tm);
    gex_TM_t other = split(tm, 0, -(int)me);
    everything(other);
    gex_TM_Destroy(other, NULL, 0);
    other = split(tm, (int)me % 2, 0);
    everything(other);
    gex_TM_Destroy(other, NULL, 0);
    return test_finish();
}

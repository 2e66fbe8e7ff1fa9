/* Barriers and collectives of a replay, over teams with the recorded members. */
#include "play.h"

#include <stdlib.h>
#include <string.h>

int is_left_out(const struct record *r) {
    return np < plan.ranks && (r->number > PRIMORDIAL || r->kind == COLL_START || r->kind == COLL_DONE);
}

/* Replays of a recording that run side by side have teams of their own. */
void make_teams(void) {
    unsigned shift = me / plan.ranks * plan.ranks, k;
    uint32_t i;
    plan.series[PRIMORDIAL].tm = tm;
    for (i = PRIMORDIAL + 1; i < plan.series_count && np >= plan.ranks; i++) {
        struct series *series = &plan.series[i];
        gex_EP_Location_t *members = allocate(series->size, sizeof *members);
        int is_mine = 0;
        for (k = 0; k < series->size && series->known == series->size; k++) {
            members[k].gex_rank = series->members[k] + shift;
            is_mine |= members[k].gex_rank == me;
        }
        gex_TM_Create(&series->tm, is_mine, tm, members, is_mine ? series->size : 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
        free(members);
    }
}

/* The rank of the root in its team. */
static gex_Rank_t root_of(const struct record *r) {
    const struct series *series = &plan.series[r->number];
    gex_Rank_t rank = 0;
    if (r->peer == NO_PEER || series->members == NULL) return r->peer == NO_PEER ? 0 : r->peer;
    while (rank + 1 < series->size && series->members[rank] != r->peer) rank++;
    return rank;
}

static uint64_t seed_of(const struct record *r) { return (uint64_t)r->number << 32 | place_of(r); }

/* Words of a reduction. Word i of a member is i plus its rank. */
static size_t words_of(const struct record *r) { return bytes_of(r) < 8 ? 1 : bytes_of(r) / 8; }

/* Of collectives without contents, and of others, only the synchronisation is replayed. */
static int has_contents(const struct record *r) {
    return r->kind == COLL_START && bytes_of(r) > 0 && r->code >= BROADCAST && r->code <= REDUCE_TO_ALL;
}

void start_collective(struct open *open, const struct record *r) {
    gex_TM_t team = plan.series[r->number].tm;
    size_t bytes = bytes_of(r), words = words_of(r), i;
    gex_Rank_t root = root_of(r), rank;
    open->record = r;
    if (r->kind == BARRIER_NOTIFY) gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    else if (!has_contents(r)) open->event = gex_Coll_BarrierNB(team, 0);
    if (!has_contents(r)) return;
    open->from = allocate(bytes + 8, 1);
    open->to = allocate(bytes + 8, 1);
    rank = gex_TM_QueryRank(team);
    if (r->code == BROADCAST && rank == root) fill(open->from, bytes, seed_of(r));
    for (i = 0; r->code != BROADCAST && i < words; i++) open->from[i] = i + rank;
    if (r->code == BROADCAST) open->event = gex_Coll_BroadcastNB(team, root, open->to, open->from, bytes, 0);
    else if (r->code == REDUCE_TO_ONE)
        open->event =
            gex_Coll_ReduceToOneNB(team, root, open->to, open->from, GEX_DT_U64, 8, words, GEX_OP_ADD, NULL, NULL, 0);
    else
        open->event =
            gex_Coll_ReduceToAllNB(team, open->to, open->from, GEX_DT_U64, 8, words, GEX_OP_ADD, NULL, NULL, 0);
}

static int is_sum(const struct open *open, uint64_t size) {
    size_t i;
    for (i = 0; i < words_of(open->record); i++) {
        if (open->to[i] != size * i + size * (size - 1) / 2) return 0;
    }
    return 1;
}

static void check_contents(const struct open *open) {
    const struct record *r = open->record;
    const struct series *series = &plan.series[r->number];
    int is_right;
    if (r->code == REDUCE_TO_ONE && root_of(r) != gex_TM_QueryRank(series->tm)) return;
    if (r->code == BROADCAST) is_right = is_filled(open->to, bytes_of(r), seed_of(r));
    else is_right = is_sum(open, gex_TM_QuerySize(series->tm));
    if (!is_right) fail("collective %u of team %llx has a wrong result", place_of(r), (unsigned long long)series->team);
}

int is_over(struct open *open) {
    if (open->record->kind == BARRIER_NOTIFY) return gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK;
    if (gex_Event_Test(open->event) != GASNET_OK) return 0;
    if (options.is_checked && open->to != NULL) check_contents(open);
    free(open->from);
    free(open->to);
    return 1;
}

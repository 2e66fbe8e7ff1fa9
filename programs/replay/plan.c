/* What all recordings together say about the ranks that this process plays: the messages that will
 * arrive, the replies to them, the barriers that all ranks enter. A message and the run of its
 * handler are matched by their order in a channel, so a recording without a beginning or an end has
 * a consistent replay. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 256 };
#define NO_TEAM UINT64_MAX /* of the series of GASNet-1 barriers */

uint32_t first_run(uint32_t ran, uint32_t sent) { return ran > sent ? ran - sent : 0; }

unsigned count_ranks(const char *pattern) {
    struct recording *first = load(pattern, 0);
    unsigned ranks = first->ranks;
    free(first->records);
    free(first);
    return ranks;
}

static int handler(const struct record *record) { return record->code - FIRST_HANDLER; }

/* Pass 1: counts of a local rank. */
static struct rank *local_rank(const char *pattern, unsigned number, unsigned ranks) {
    struct rank *rank = allocate(1, sizeof *rank);
    size_t i;
    rank->recording = load(pattern, number);
    if (rank->recording->ranks != ranks) wrong("%s are not recordings of one job", pattern);
    rank->from = allocate(ranks, sizeof *rank->from);
    rank->sent = allocate(ranks, sizeof *rank->sent);
    rank->threads = 1;
    for (i = 0; i < rank->recording->count; i++) {
        const struct record *r = &rank->recording->records[i];
        if (r->thread >= rank->threads) rank->threads = r->thread + 1u;
        if (is_send(r->kind)) rank->sent[r->peer][is_reply(r->kind)][handler(r)]++;
        if (is_run(r->kind)) rank->from[r->peer][is_reply(r->kind)][handler(r)].ran++;
    }
    return rank;
}

static void *grow(void *memory, size_t size, size_t old, size_t count) {
    char *grown = realloc(memory, count * size);
    if (grown == NULL) wrong("there is not enough memory for %zu barriers", count);
    memset(grown + old * size, 0, (count - old) * size);
    return grown;
}

/* The number of the series of a barrier, collective or member of a team; a new one if need be. */
static uint32_t number_series(struct plan *plan, const struct record *r) {
    static uint32_t last; /* of a team */
    uint64_t team = r->kind == BARRIER_NOTIFY || r->kind == BARRIER_WAIT ? NO_TEAM : r->offset;
    uint32_t i;
    if (team == NO_TEAM) return SPLIT_PHASE;
    if (last < plan->series_count && plan->series[last].team == team) return last;
    for (i = PRIMORDIAL; i < plan->series_count && plan->series[i].team != team;) i++;
    if (i == plan->series_count) {
        plan->series = grow(plan->series, sizeof *plan->series, i, i + 1);
        plan->series[i].team = team;
        plan->series_count++;
    }
    last = i;
    return i;
}

static void note_begin(struct series *series, uint32_t place) {
    if (place >= series->most) {
        series->begun = grow(series->begun, sizeof *series->begun, series->most, 2 * place + 16);
        series->most = 2 * place + 16;
    }
    series->begun[place]++;
}

static void note_member(struct plan *plan, struct series *series, const struct record *r) {
    if (r->bytes >= plan->ranks)
        wrong("a recording is damaged: a team has a member %llu", (unsigned long long)r->bytes);
    if (series->members == NULL) series->members = allocate(plan->ranks, sizeof *series->members);
    series->members[r->bytes] = r->peer;
    series->known++;
    if (r->bytes >= series->size) series->size = (unsigned)r->bytes + 1;
}

int is_common(const struct series *series, uint32_t place) {
    return series->known == series->size && place < series->most && series->begun[place] == series->size;
}

static void note_form(struct plan *plan, const struct record *r) {
    struct form *form = &plan->forms[handler(r)];
    unsigned arguments = r->flags & ARGUMENTS;
    if (form->is_used) return;
    form->is_used = 1;
    form->is_short = r->kind == REQUEST_SHORT || r->kind == REPLY_SHORT || r->kind == RAN_REQUEST_SHORT ||
                     r->kind == RAN_REPLY_SHORT;
    form->arguments = arguments > 0 ? arguments : 1; /* one says which ranks the message is of */
}

static void note_extent(struct plan *plan, const struct record *r) {
    int is_addressed = r->kind <= PUT_STRIDED || r->kind == REQUEST_LONG || r->kind == REPLY_LONG;
    if (r->kind > PUT_STRIDED && !is_send(r->kind)) return;
    if (r->bytes > plan->most) plan->most = r->bytes;
    if (!is_addressed) return;
    if (r->flags & OUTSIDE) {
        if (r->bytes > plan->outside) plan->outside = r->bytes;
    } else if (r->offset + r->bytes > plan->data) {
        plan->data = r->offset + r->bytes;
    }
}

static void note(struct plan *plan, const struct record *r) {
    struct rank *target = r->peer == NO_PEER ? NULL : plan->local[r->peer];
    if (r->at < plan->first_at) plan->first_at = r->at;
    if (r->at > plan->last_at) plan->last_at = r->at;
    note_extent(plan, r);
    if (is_send(r->kind) || is_run(r->kind)) note_form(plan, r);
    if (is_start(r->kind) || is_of_team(r)) {
        uint32_t number = number_series(plan, r); /* may move them */
        struct series *series = &plan->series[number];
        if (is_start(r->kind)) note_begin(series, place_of(r));
        if (r->kind == TEAM) note_member(plan, series, r);
    }
    if (target != NULL && (r->kind == ATOMIC_NB || r->kind == ATOMIC_NBI)) target->atomics++;
}

/* Pass 2: the messages of a rank to local ones. A reply belongs to the next run of a request
 * handler of its thread, as that is recorded at its end. */
static void expect(struct plan *plan, const struct recording *recording) {
    counts *ran = allocate(plan->ranks, sizeof *ran), *seen = allocate(plan->ranks, sizeof *seen);
    const struct record *replies[THREADS] = {NULL};
    unsigned source = recording->rank;
    size_t i;
    for (i = 0; i < recording->count; i++) {
        const struct record *r = &recording->records[i];
        if (is_run(r->kind)) ran[r->peer][is_reply(r->kind)][handler(r)]++;
    }
    for (i = 0; i < recording->count; i++) {
        const struct record *r = &recording->records[i];
        struct rank *peer = r->peer == NO_PEER ? NULL : plan->local[r->peer];
        note(plan, r);
        if (is_send(r->kind) && is_reply(r->kind)) replies[r->thread] = r;
        else if (is_send(r->kind) && peer != NULL) peer->from[source][0][handler(r)].expected++;
        if (!is_run(r->kind) || is_reply(r->kind)) continue;
        if (replies[r->thread] != NULL && peer != NULL &&
            seen[r->peer][0][handler(r)] >= first_run(ran[r->peer][0][handler(r)], peer->sent[source][0][handler(r)]))
            peer->from[source][1][handler(replies[r->thread])].expected++;
        seen[r->peer][0][handler(r)]++;
        replies[r->thread] = NULL;
    }
    free(ran);
    free(seen);
}

/* Pass 3: the replies of a local rank, by run. */
static void arrange(struct plan *plan, struct rank *rank) {
    const struct record *replies[THREADS] = {NULL};
    unsigned source;
    int way, h;
    size_t i;
    for (source = 0; source < plan->ranks; source++) {
        for (way = 0; way < 2; way++) {
            for (h = 0; h < HANDLERS; h++) {
                struct channel *c = &rank->from[source][way][h];
                c->first = first_run(c->ran, c->expected);
                if (c->ran > 0 && way == 0) c->replies = allocate(c->ran, sizeof(*c->replies));
                if (c->expected > 0) c->seen = allocate(c->expected / 8 + 1, 1);
                plan->messages += c->expected;
                c->ran = 0;
                rank->sent[source][way][h] = 0;
            }
        }
    }
    for (i = 0; i < rank->recording->count; i++) {
        struct record *r = &rank->recording->records[i];
        struct channel *c;
        if (is_send(r->kind) && is_reply(r->kind)) replies[r->thread] = r;
        if (is_start(r->kind) || (is_marker(r->kind) && !is_run(r->kind))) r->number = number_series(plan, r);
        if (!is_run(r->kind)) continue;
        c = &rank->from[r->peer][is_reply(r->kind)][handler(r)];
        if (c->replies != NULL) {
            c->replies[c->ran] = replies[r->thread];
            replies[r->thread] = NULL;
        }
        r->number = c->ran++;
    }
}

void make_plan(struct plan *plan, const char *pattern, int (*is_local)(unsigned rank)) {
    unsigned rank;
    uint32_t i;
    plan->first_at = UINT64_MAX;
    plan->series_count = PRIMORDIAL + 1;
    plan->series = allocate(plan->series_count, sizeof *plan->series);
    for (i = 0; i < plan->series_count; i++) plan->series[i].size = plan->series[i].known = plan->ranks;
    plan->series[SPLIT_PHASE].team = NO_TEAM;
    plan->local = allocate(plan->ranks, sizeof *plan->local);
    for (rank = 0; rank < plan->ranks; rank++) {
        if (is_local(rank)) plan->local[rank] = local_rank(pattern, rank, plan->ranks);
    }
    for (rank = 0; rank < plan->ranks; rank++) {
        struct rank *own = plan->local[rank];
        struct recording *other = own == NULL ? load(pattern, rank) : NULL;
        const struct recording *recording = own == NULL ? other : own->recording;
        if (recording->ranks != plan->ranks) wrong("%s are not recordings of one job", pattern);
        plan->is_cut |= recording->is_cut;
        expect(plan, recording);
        if (other != NULL) free(other->records);
        free(other);
    }
    for (rank = 0; rank < plan->ranks; rank++) {
        if (plan->local[rank] == NULL) continue;
        plan->threads += plan->local[rank]->threads;
        arrange(plan, plan->local[rank]);
        plan->local[rank]->entered = allocate(plan->series_count, sizeof(uint32_t));
    }
    for (i = 0; i < plan->series_count; i++) {
        plan->series[i].entered = allocate(plan->series[i].most, sizeof *plan->series[i].entered);
        plan->series[i].done = allocate(plan->series[i].most, 1);
    }
}

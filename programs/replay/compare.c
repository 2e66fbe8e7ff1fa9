/* Compares what was sent with what handlers ran for, by checksums: of each channel (source, target,
 * way, handler) both are a multiset, as messages may overtake each other. */
#include "replay.h"

#include <stdlib.h>

enum { MOST_REPORTS = 20 };

/* A message or a run. */
struct side {
    uint32_t source, target;
    const struct record *record;
};

static int order(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_channel(const void *one, const void *other) {
    const struct side *a = one, *b = other;
    int result = order((uint64_t)a->source << 32 | a->target, (uint64_t)b->source << 32 | b->target);
    if (result == 0) result = order(is_reply(a->record->kind), is_reply(b->record->kind));
    if (result == 0) result = order(a->record->code, b->record->code);
    if (result == 0) result = order(a->record->checksum, b->record->checksum);
    return result;
}

/* Reports messages or runs beyond those of the other side. */
static void report(const struct side *side, long surplus) {
    const struct record *r = side->record;
    const char *what = is_reply(r->kind) ? "reply" : "request";
    unsigned long long checksum = (unsigned long long)r->checksum;
    if (is_run(r->kind))
        printf("handler %u of rank %u ran %ld times for a %s that rank %u did not send", r->code, side->target, surplus,
               what, side->source);
    else
        printf("rank %u sent rank %u a %s %ld times for which handler %u did not run", side->source, side->target, what,
               surplus, r->code);
    printf(": %llu bytes, checksum %016llx\n", (unsigned long long)r->bytes, checksum);
}

int compare(const char *pattern) {
    unsigned ranks = count_ranks(pattern), rank;
    size_t count = 0, used = 0, i, first, differences = 0;
    struct recording **all = allocate(ranks, sizeof *all);
    struct side *sides;
    for (rank = 0; rank < ranks; rank++) {
        all[rank] = load(pattern, rank);
        if (all[rank]->is_cut)
            wrong("rank %u lacks the beginning of its recording: choose a larger GASNET_RECORD_SIZE", rank);
        count += all[rank]->count;
    }
    sides = allocate(count, sizeof *sides);
    for (rank = 0; rank < ranks; rank++) {
        for (i = 0; i < all[rank]->count; i++) {
            const struct record *r = &all[rank]->records[i];
            struct side side = {rank, r->peer, r};
            if (!r->has_checksum || (!is_send(r->kind) && !is_run(r->kind))) continue;
            if (is_run(r->kind)) {
                side.source = r->peer;
                side.target = rank;
            }
            sides[used++] = side;
        }
    }
    if (used == 0) wrong("there are no checksums: record with GASNET_RECORD_PAYLOAD=checksum");
    qsort(sides, used, sizeof *sides, by_channel);
    for (first = 0; first < used; first = i) {
        const struct side *last[2] = {NULL, NULL};
        long surplus = 0; /* of runs */
        for (i = first; i < used && by_channel(&sides[first], &sides[i]) == 0; i++) {
            int ran = is_run(sides[i].record->kind);
            last[ran] = &sides[i];
            surplus += ran ? 1 : -1;
        }
        if (surplus != 0 && differences++ < MOST_REPORTS) report(last[surplus > 0], labs(surplus));
    }
    printf("gasnet_replay: %zu messages and runs of %u ranks have %zu differences\n", used, ranks, differences);
    return differences > 0;
}

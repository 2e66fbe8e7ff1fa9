/* Recordings that no program has made (--model): traffic in the likeness of a large runtime, by
 * chance. All ranks are simulated at once, so that their recordings agree: a handler runs after its
 * message was sent, a place is written again after its reader is done, and each wait ends. */
#include "play.h"

#include <stdlib.h>
#include <string.h>

enum {
    BURST = 30 /* batches in one */,
    SLOTS = 4,
    SHORTS = 130,
    MEDIUMS = 134,
    LONGS = 138,
    SHORT_REPLY = 142,
    MEDIUM_REPLY,
    MOST_STEP_NS = 4000
};
static const uint8_t arguments[] = {1, 4, 8, 12};

/* Percentages: of legion and upcxx from recordings (docs/recording.md). */
static const struct style {
    const char *name;
    unsigned threads;
    unsigned shorts, mediums, longs, puts, gets; /* of the calls; the rest are atomics */
    unsigned replied, immediate;                 /* of the requests; Longs have a reply */
    unsigned polled;                             /* calls after polls in vain */
    unsigned batch;                              /* most calls of a thread in a row */
    unsigned calls;                              /* of all ranks between two barriers */
    size_t medium, large;                        /* bytes at most: of a Medium; of a Long, put or get */
    int locked, unmapped;                        /* see struct options */
} styles[] = {
    {"legion", 4, 60, 28, 8, 2, 2, 2, 95, 15, 12, 5000, 2048, 65536, 1, 1},
    {"upcxx", 2, 0, 62, 0, 15, 15, 0, 0, 45, 12, 400, 512, 65536, 0, 1},
    {"chapel", 8, 15, 25, 0, 25, 30, 80, 0, 30, 4, 3000, 512, 16384, 0, 0},
};
static const struct style *style;
static uint64_t chance;
static unsigned ranks;

struct sent {
    unsigned source, thread, slot; /* of a Long: its place, which the reply frees */
    int is_replied;
    struct record record; /* at the source */
};
static struct simulated {
    struct recording *recording;
    size_t room;
    struct sent *inbox;
    size_t first, count, inbox_room;
    uint64_t idle, deaf; /* until then without calls; without polls */
    struct {
        unsigned busy;             /* bits: places of Longs */
        unsigned pending, started; /* operations */
    } * threads;
} * all;
static uint64_t now;                 /* nanoseconds */
static unsigned only_peer = NO_PEER; /* of a burst */

static unsigned below(size_t limit) { return (unsigned)(next_random(&chance) >> 11) % (unsigned)limit; }
static unsigned next_peer(void) { return only_peer != NO_PEER ? only_peer : below(ranks); }
static int is_one_of(unsigned hundredths) { return below(100) < hundredths; }
/* As many small as large ones. */
static size_t size_up_to(size_t most) {
    size_t bytes = 16;
    while (bytes < most && below(8) > 0) bytes *= 2;
    bytes += below(bytes);
    return bytes < most ? bytes : most;
}

static void *grown(void *items, size_t count, size_t *room, size_t size) {
    if (count < *room) return items;
    *room = 2 * *room + 64;
    items = realloc(items, *room * size);
    if (items == NULL) wrong("there is not enough memory for the model");
    return items;
}

static struct record *append(unsigned rank, unsigned thread, int kind, unsigned peer, size_t bytes) {
    struct simulated *s = &all[rank];
    struct recording *r = s->recording;
    struct record *record;
    r->records = grown(r->records, r->count, &s->room, sizeof *record);
    record = &r->records[r->count++];
    memset(record, 0, sizeof *record);
    record->at = now += 1 + below(MOST_STEP_NS);
    record->kind = (uint8_t)kind;
    record->thread = (uint8_t)thread;
    record->peer = (uint16_t)peer;
    record->bytes = bytes;
    if (now >= s->deaf && is_one_of(style->polled)) record->polls = 1 + below(8);
    return record;
}

static void deliver(unsigned source, unsigned thread, unsigned slot, int is_replied, const struct record *record) {
    struct simulated *target = &all[record->peer];
    struct sent *message;
    target->inbox = grown(target->inbox, target->first + target->count, &target->inbox_room, sizeof *message);
    message = &target->inbox[target->first + target->count++];
    *message = (struct sent){source, thread, slot, is_replied, *record};
}

/* The place of a thread in the segment of a target: for Longs, then for puts. */
static uint64_t place(unsigned rank, unsigned thread, unsigned slot) {
    return ((uint64_t)(rank * style->threads + thread) * (2 * SLOTS + 1) + slot) * style->large;
}

static void run_handlers(unsigned rank, unsigned thread, unsigned most) {
    struct simulated *s = &all[rank];
    for (; s->count > 0 && most > 0; most--) {
        struct sent m = s->inbox[s->first++];
        struct record *run;
        s->count--;
        if (m.is_replied) {
            int is_medium = is_one_of(20);
            struct record *reply = append(rank, thread, is_medium ? REPLY_MEDIUM : REPLY_SHORT, m.source,
                                          is_medium ? size_up_to(style->medium) : 0);
            reply->code = is_medium ? MEDIUM_REPLY : SHORT_REPLY;
            reply->flags = 2;
            deliver(rank, m.thread, m.slot, 0, reply);
        }
        run = append(rank, thread, m.record.kind + RAN_REQUEST_SHORT - REQUEST_SHORT, m.source, m.record.bytes);
        run->code = m.record.code;
        run->flags = m.record.flags & ARGUMENTS;
        if (is_reply(m.record.kind)) s->threads[m.thread].busy &= ~m.slot;
    }
    if (s->count == 0) s->first = 0;
}

static void request(unsigned rank, unsigned thread, int kind) {
    unsigned variant = below(4), slot = 0, number = 0, peer = next_peer();
    size_t bytes = kind == REQUEST_SHORT ? 0 : size_up_to(kind == REQUEST_MEDIUM ? style->medium : style->large);
    struct record *r;
    if (kind == REQUEST_LONG) {
        while (number < SLOTS && all[rank].threads[thread].busy & 1u << number) number++;
        if (number == SLOTS) return;
        slot = 1u << number;
        all[rank].threads[thread].busy |= slot;
    }
    r = append(rank, thread, kind, peer, bytes);
    r->code = (uint8_t)((kind == REQUEST_SHORT ? SHORTS : kind == REQUEST_MEDIUM ? MEDIUMS : LONGS) + variant);
    r->flags = (uint8_t)(arguments[variant] | (is_one_of(style->immediate) ? IMMEDIATE : 0));
    r->offset = kind == REQUEST_LONG ? place(rank, thread, number) : 0;
    deliver(rank, thread, slot, kind == REQUEST_LONG || is_one_of(style->replied), r);
}

/* The oldest operation is synchronised before its place is used again. */
static void one_sided(unsigned rank, unsigned thread, int blocking, int nb) {
    unsigned *pending = &all[rank].threads[thread].pending, slot = SLOTS;
    int is_nb = is_one_of(60);
    struct record *r;
    if (is_nb) {
        slot += 1 + all[rank].threads[thread].started++ % SLOTS;
        if (*pending == SLOTS) append(rank, thread, WAIT, NO_PEER, 0)->code = EVENT;
        else ++*pending;
    }
    r = append(rank, thread, is_nb ? nb : blocking, next_peer(), size_up_to(style->large));
    r->offset = place(rank, thread, slot);
}

static void call(unsigned rank, unsigned thread) {
    unsigned kind = below(100);
    if (kind < style->shorts) request(rank, thread, REQUEST_SHORT);
    else if ((kind -= style->shorts) < style->mediums) request(rank, thread, REQUEST_MEDIUM);
    else if ((kind -= style->mediums) < style->longs) request(rank, thread, REQUEST_LONG);
    else if ((kind -= style->longs) < style->puts) one_sided(rank, thread, PUT, PUT_NB);
    else if (kind - style->puts < style->gets) one_sided(rank, thread, GET, GET_NB);
    else append(rank, thread, ATOMIC_NBI, below(ranks), 8)->code = (uint8_t)below(16);
}

/* Some ranks pause, some do not poll for a while, some send a burst to one rank, and the others go
 * on. */
static void step(void) {
    unsigned rank = below(ranks), thread = below(style->threads), left = 1 + below(style->batch);
    struct simulated *s = &all[rank];
    now += ranks;
    if (now < s->idle) return;
    if (below(500) == 0) s->idle = now + 1000 * below(3000);
    if (below(300) == 0) s->deaf = now + 1000 * below(3000);
    if (now >= s->deaf) run_handlers(rank, thread, 1 + below(2 * style->batch));
    if (below(4) == 0) return;
    if (below(200) == 0) {
        only_peer = below(ranks);
        left = style->batch * BURST;
    }
    while (left-- > 0) call(rank, thread);
    only_peer = NO_PEER;
}

static void barrier(uint64_t number) {
    unsigned rank;
    for (rank = 0; rank < ranks; rank++) append(rank, 0, BARRIER_START, NO_PEER, number);
    for (rank = 0; rank < ranks; rank++) append(rank, 0, BARRIER_DONE, NO_PEER, number);
}

void model_options(const struct model *model, struct options *options) {
    size_t i;
    for (i = 0; i < sizeof styles / sizeof *styles; i++) {
        if (strcmp(styles[i].name, model->name) == 0) style = &styles[i];
    }
    if (style == NULL) wrong("there is no model '%s'; there are legion, upcxx and chapel", model->name);
    options->is_locked |= style->locked;
    options->is_unmapped |= style->unmapped;
}

/* After model_options. */
void make_model(const struct model *model) {
    size_t i, made, next;
    uint64_t barriers = 0;
    ranks = model->ranks;
    chance = model->seed * 2 + 1;
    all = allocate(ranks, sizeof *all);
    for (i = 0; i < ranks; i++) {
        all[i].recording = new_recording((unsigned)i, ranks);
        all[i].threads = allocate(style->threads, sizeof *all[i].threads);
    }
    for (made = 0, next = 0; made < model->calls;) {
        step();
        for (i = 0, made = 0; i < ranks; i++) made += all[i].recording->count;
        if (made >= next) barrier(++barriers), next = made + style->calls;
    }
    for (made = 1; made > 0;) {
        for (i = 0, made = 0; i < ranks; i++) {
            made += all[i].count;
            run_handlers((unsigned)i, 0, (unsigned)all[i].count);
        }
    }
}

struct recording *modelled(unsigned rank) {
    struct recording *r = allocate(1, sizeof *r);
    *r = *all[rank].recording;
    r->records = allocate(r->count, sizeof *r->records);
    memcpy(r->records, all[rank].recording->records, r->count * sizeof *r->records);
    return r;
}

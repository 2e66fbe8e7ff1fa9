// Random scattered puts and gets of every shape and form, several in flight, to every rank: each
// byte is compared with a model. Arguments: operations, bytes of a slot, seed.
// NP: 1 2 3 4 7
// ARGS: 150 9000 1
// TIMEOUT: 120
#include "check.h"
#include <gasnet_vis.h>

enum { SLOTS = 4, MAX_PIECES = 3000, MAX_LEVELS = 12, DONE = 200 };
enum shape { VECTOR, INDEXED, STRIDED, SHAPES };
enum form { BLOCKING, NB, NBI, FORMS };

/* One side: what the client describes, and byte by byte where that is. */
struct side {
    gex_Memvec_t vector[MAX_PIECES];
    void *list[MAX_PIECES];
    size_t count, len; /* indexed: length of a piece */
    ptrdiff_t strides[MAX_LEVELS];
    size_t first; /* strided: offset of the first element */
    size_t *map;  /* offset of the n-th byte */
};

/* One operation in flight. Slots use different memory, so that operations do not meet. */
struct operation {
    struct side to, from;
    enum shape shape;
    enum form form;
    int is_put, busy;
    gex_Rank_t peer;
    size_t total, elem, levels, counts[MAX_LEVELS];
    gex_Event_t event;
    unsigned char *local;  /* the slot's local memory */
    unsigned char *wanted; /* what the destination is to be */
    char payload[GEX_VIS_MAX_PEERCOMPLETION];
};

static struct operation *operations;
static uint64_t state;
static size_t slot_bytes;
static unsigned char *heap, *shadow, *scratch;
static unsigned *notified; /* by rank: handlers that are to run there */
static unsigned arrivals, bad_payloads;

static size_t pick(size_t low, size_t high) { return low + (size_t)(next_random(&state) % (high - low + 1)); }

/* The slot of this rank in the segment of `rank`, and its model. */
static char *remote_slot(gex_Rank_t rank, int slot) {
    return seg_of(rank) + ((size_t)me * SLOTS + (size_t)slot) * slot_bytes;
}
static unsigned char *shadow_slot(gex_Rank_t rank, int slot) {
    return shadow + ((size_t)rank * SLOTS + (size_t)slot) * slot_bytes;
}

static void done_handler(gex_Token_t token, void *payload, size_t bytes) {
    const unsigned char *p = (const unsigned char *)payload;
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != pattern_byte(info.gex_srcrank, i)) ATOMIC_ADD(&bad_payloads, 1U);
    ATOMIC_ADD(&arrivals, 1U);
}

/* Random cuts of `total` bytes into pieces, 0 included; returns their number. */
static size_t cut(size_t total, size_t lengths[], size_t most) {
    size_t n = 0, mean = pick(1, 1 + total / (n + 1 + pick(0, 200)));
    while (total > 0 && n + 1 < most) {
        size_t length = pick(0, 7) == 0 ? 0 : pick(1, 2 * mean);
        if (length > total) length = total;
        lengths[n++] = length;
        total -= length;
    }
    if (total > 0) lengths[n++] = total;
    if (n < most && pick(0, 3) == 0) lengths[n++] = 0;
    return n;
}

static void shuffle(size_t a[], size_t b[], size_t n) {
    for (size_t i = 1; i < n; i++) {
        size_t j = pick(0, i), t = a[i];
        a[i] = a[j], a[j] = t;
        t = b[i], b[i] = b[j], b[j] = t;
    }
}

/* Places pieces so that they do not overlap, with the rest of the memory between them, in any
 * order; or anywhere. */
static void place(struct side *s, char *base, size_t lengths[], size_t n, size_t total, int apart) {
    static size_t offsets[MAX_PIECES];
    size_t at = 0, spare = slot_bytes - total, k = 0;
    if (apart) {
        static size_t order[MAX_PIECES], sorted[MAX_PIECES];
        for (size_t i = 0; i < n; i++) order[i] = i, sorted[i] = lengths[i];
        shuffle(order, sorted, n);
        for (size_t i = 0; i < n; i++) {
            size_t gap = pick(0, 1) ? pick(0, spare / (n - i)) : 0;
            spare -= gap;
            offsets[order[i]] = at + gap;
            at += gap + sorted[i];
        }
    } else {
        for (size_t i = 0; i < n; i++) offsets[i] = pick(0, slot_bytes - lengths[i]);
    }
    for (size_t i = 0; i < n; i++) {
        s->vector[i].gex_addr = lengths[i] > 0 || pick(0, 1) ? base + offsets[i] : NULL;
        s->vector[i].gex_len = lengths[i];
        s->list[i] = base + offsets[i];
        for (size_t j = 0; j < lengths[i]; j++) s->map[k++] = offsets[i] + j;
    }
    s->count = n;
}

static void make_lists(struct operation *o, char *to, char *from) {
    static size_t lengths[MAX_PIECES];
    if (o->shape == VECTOR) {
        o->total = pick(0, 5) == 0 ? pick(0, 20) : pick(0, slot_bytes);
        size_t n = cut(o->total, lengths, MAX_PIECES);
        place(&o->to, to, lengths, n, o->total, 1);
        n = cut(o->total, lengths, MAX_PIECES);
        place(&o->from, from, lengths, n, o->total, 0);
        return;
    }
    static const size_t common[] = {1, 2, 4, 8, 16, 24, 100, 256, 300, 1000, 8, 8};
    size_t len = common[pick(0, ARRAY_LENGTH(common) - 1)], ratio = pick(0, 2) ? 1 : pick(1, 5);
    struct side *few = pick(0, 1) ? &o->to : &o->from, *many = few == &o->to ? &o->from : &o->to;
    if (len * ratio > slot_bytes) ratio = len = 1;
    size_t most = smaller((unsigned)(slot_bytes / (len * ratio)), MAX_PIECES / (unsigned)ratio);
    few->count = pick(0, 6) == 0 ? 0 : pick(1, most);
    few->len = len * ratio;
    many->count = few->count * ratio;
    many->len = len;
    if (few->count == 0 && pick(0, 1)) many->count = 3, many->len = 0;
    o->total = few->count * few->len;
    for (size_t i = 0; i < o->to.count; i++) lengths[i] = o->to.len;
    place(&o->to, to, lengths, o->to.count, o->total, 1);
    for (size_t i = 0; i < o->from.count; i++) lengths[i] = o->from.len;
    place(&o->from, from, lengths, o->from.count, o->total, 0);
}

/* Strides in which elements do not overlap; returns the bytes from the lowest to the highest. */
static size_t make_strides(struct operation *o, struct side *s, size_t room) {
    size_t order[MAX_LEVELS], extent = o->elem, lowest = 0;
    for (size_t i = 0; i < o->levels; i++) order[i] = i;
    if (pick(0, 1)) {
        size_t dummy[MAX_LEVELS] = {0};
        shuffle(order, dummy, o->levels);
    }
    for (size_t i = 0; i < o->levels; i++) {
        size_t l = order[i], count = o->counts[l];
        size_t outer = count;
        for (size_t j = i + 1; j < o->levels; j++) outer *= o->counts[order[j]];
        size_t slack = outer > 0 ? (room - extent * outer) / outer / (o->levels - i) : 0;
        size_t stride = extent + (pick(0, 1) ? pick(0, slack) : 0);
        s->strides[l] = (ptrdiff_t)stride;
        if (count > 1 || pick(0, 1) == 0) {
            if (pick(0, 3) == 0) {
                s->strides[l] = -(ptrdiff_t)stride;
                lowest += count > 0 ? stride * (count - 1) : 0;
            }
        }
        if (count > 1) extent = stride * (count - 1) + extent;
        if (count == 1 && pick(0, 1)) s->strides[l] = (ptrdiff_t)pick(0, 1u << 30); /* means nothing */
    }
    s->first = lowest;
    return extent;
}

static void strided_map(const struct operation *o, struct side *s) {
    size_t k = 0;
    for (size_t n = 0; n < o->total / o->elem; n++) {
        size_t rest = n, at = s->first;
        for (size_t l = 0; l < o->levels; l++) {
            at += (size_t)((ptrdiff_t)(rest % o->counts[l]) * s->strides[l]);
            rest /= o->counts[l];
        }
        for (size_t j = 0; j < o->elem; j++) s->map[k++] = at + j;
    }
}

static void make_strided(struct operation *o) {
    static const size_t common[] = {1, 2, 3, 4, 8, 8, 12, 16, 20, 32, 48, 64, 100, 300};
    size_t room = slot_bytes;
    o->elem = common[pick(0, ARRAY_LENGTH(common) - 1)];
    if (o->elem > room) o->elem = 8;
    if (pick(0, 20) == 0) o->elem = 0;
    o->levels = pick(0, MAX_LEVELS);
    o->total = o->elem;
    for (size_t i = 0; i < o->levels; i++) {
        size_t most = o->total > 0 ? room / o->total : 1;
        o->counts[i] = pick(0, 3) == 0 ? 1 : pick(1, most < 1 ? 1 : most > 40 ? pick(1, 40) : most);
        if (pick(0, 60) == 0) o->counts[i] = 0;
        o->total *= o->counts[i];
    }
    size_t extent = make_strides(o, &o->to, room);
    if (o->total > 0) o->to.first += pick(0, room - extent);
    extent = make_strides(o, &o->from, room);
    if (o->total > 0) o->from.first += pick(0, room - extent);
    if (o->levels > 0 && pick(0, 4) == 0)
        o->from.strides[pick(0, o->levels - 1)] = 0; /* the same source again and again */
    if (o->total > 0) {
        strided_map(o, &o->to);
        strided_map(o, &o->from);
    }
}

/* The call itself, by shape and direction. */
#define START(result, form)                                                                                            \
    do {                                                                                                               \
        if (o->shape == VECTOR && o->is_put)                                                                           \
            result =                                                                                                   \
                gex_VIS_VectorPut##form(tm, o->peer, o->to.count, o->to.vector, o->from.count, o->from.vector, flags); \
        else if (o->shape == VECTOR)                                                                                   \
            result =                                                                                                   \
                gex_VIS_VectorGet##form(tm, o->to.count, o->to.vector, o->peer, o->from.count, o->from.vector, flags); \
        else if (o->shape == INDEXED && o->is_put)                                                                     \
            result = gex_VIS_IndexedPut##form(tm, o->peer, o->to.count, o->to.list, o->to.len, o->from.count,          \
                                              o->from.list, o->from.len, flags);                                       \
        else if (o->shape == INDEXED)                                                                                  \
            result = gex_VIS_IndexedGet##form(tm, o->to.count, o->to.list, o->to.len, o->peer, o->from.count,          \
                                              o->from.list, o->from.len, flags);                                       \
        else if (o->is_put)                                                                                            \
            result = gex_VIS_StridedPut##form(tm, o->peer, to + o->to.first, o->to.strides, from + o->from.first,      \
                                              o->from.strides, o->elem, o->counts, o->levels, flags);                  \
        else                                                                                                           \
            result = gex_VIS_StridedGet##form(tm, to + o->to.first, o->to.strides, o->peer, from + o->from.first,      \
                                              o->from.strides, o->elem, o->counts, o->levels, flags);                  \
    } while (0)

static int try_start(struct operation *o, char *to, char *from, gex_Flags_t flags) {
    int refused;
    switch (o->form) {
        case BLOCKING: START(refused, Blocking); return refused;
        case NBI: START(refused, NBI); return refused;
        default:
            START(o->event, NB);
            refused = o->event == GEX_EVENT_NO_OP;
            return refused;
    }
}

static void start(int slot) {
    struct operation *o = operations + slot;
    char *to, *from;
    gex_Flags_t flags = 0;
    int armed = 0, tries = 0;
    o->shape = (enum shape)pick(0, SHAPES - 1);
    o->form = (enum form)pick(0, FORMS - 1);
    o->is_put = (int)pick(0, 1);
    o->peer = (gex_Rank_t)pick(0, np - 1);
    o->event = GEX_EVENT_INVALID;
    char *remote = remote_slot(o->peer, slot);
    pattern_fill(o->local, slot_bytes, next_random(&state));
    to = o->is_put ? remote : (char *)o->local;
    from = o->is_put ? (char *)o->local : remote;
    if (o->shape == STRIDED) make_strided(o);
    else make_lists(o, to, from);
    const unsigned char *source = o->is_put ? o->local : shadow_slot(o->peer, slot);
    memcpy(o->wanted, o->is_put ? shadow_slot(o->peer, slot) : o->local, slot_bytes);
    for (size_t i = 0; i < o->total; i++) o->wanted[o->to.map[i]] = source[o->from.map[i]];
    if (o->is_put && pick(0, 3) == 0) {
        size_t bytes = pick(0, 3) == 0 ? GEX_VIS_MAX_PEERCOMPLETION : pick(0, GEX_VIS_MAX_PEERCOMPLETION);
        pattern_fill(o->payload, bytes, me);
        gex_VIS_SetPeerCompletionHandler(DONE, bytes ? o->payload : NULL, bytes, 0);
        notified[o->peer]++;
        armed = 1;
    } else if (pick(0, 3) == 0) {
        flags |= GEX_FLAG_IMMEDIATE;
    }
    if (o->is_put && o->form != BLOCKING && pick(0, 1)) flags |= GEX_FLAG_ENABLE_LEAF_LC;
    while (try_start(o, to, from, flags)) {
        CHECK(flags & GEX_FLAG_IMMEDIATE);
        if (++tries > 100) flags &= ~GEX_FLAG_IMMEDIATE;
        gasnet_AMPoll();
    }
    memset(o->to.strides, 0x55, sizeof o->to.strides); /* strided metadata are ours again */
    memset(o->from.strides, 0x55, sizeof o->from.strides);
    if (o->shape == STRIDED) memset(o->counts, 0x55, sizeof o->counts);
    if (flags & GEX_FLAG_ENABLE_LEAF_LC) { /* and so is the source after local completion */
        if (o->form == NB) gex_Event_Wait(gex_Event_QueryLeaf(o->event, GEX_EC_LC));
        else gex_NBI_Wait(GEX_EC_LC, 0);
        memset(o->local, 0xEE, slot_bytes);
        if (armed) memset(o->payload, 0xEE, sizeof o->payload);
    }
    o->busy = 1;
}

static void finish(int slot) {
    struct operation *o = operations + slot;
    size_t i;
    if (!o->busy) return;
    if (o->form == NB) gex_Event_Wait(o->event);
    if (o->form == NBI) gex_NBI_Wait(o->is_put ? GEX_EC_PUT : GEX_EC_GET, 0);
    o->busy = 0;
    if (o->is_put) {
        memcpy(shadow_slot(o->peer, slot), o->wanted, slot_bytes);
        gex_RMA_GetBlocking(tm, scratch, o->peer, remote_slot(o->peer, slot), slot_bytes, 0);
    } else {
        memcpy(scratch, o->local, slot_bytes);
    }
    for (i = 0; i < slot_bytes && scratch[i] == o->wanted[i]; i++) continue;
    CHECKF(i == slot_bytes, "byte %zu of %zu: shape %d form %d put %d peer %u total %zu", i, slot_bytes, (int)o->shape,
           (int)o->form, o->is_put, (unsigned)o->peer, o->total);
}

int main(int argc, char **argv) {
    unsigned wanted = 0;
    test_init("vis_random", &argc, &argv);
    register_handler(DONE, (gex_AM_Fn_t)done_handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0);
    share_setup();
    slot_bytes = argc > 2 ? (size_t)atol(argv[2]) : 9000;
    state = 0x9E3779B97F4A7C15u * (uint64_t)(me + 1) + (argc > 3 ? (uint64_t)atol(argv[3]) : 1);
    test_attach((uintptr_t)np * SLOTS * slot_bytes);
    operations = (struct operation *)calloc(SLOTS, sizeof *operations);
    heap = (unsigned char *)malloc(SLOTS * slot_bytes);
    shadow = (unsigned char *)calloc((size_t)np * SLOTS, slot_bytes);
    scratch = (unsigned char *)malloc(slot_bytes);
    notified = (unsigned *)calloc(np, sizeof *notified);
    for (int s = 0; s < SLOTS; s++) {
        operations[s].local = heap + (size_t)s * slot_bytes;
        operations[s].wanted = (unsigned char *)malloc(slot_bytes);
        operations[s].to.map = (size_t *)malloc(slot_bytes * sizeof(size_t));
        operations[s].from.map = (size_t *)malloc(slot_bytes * sizeof(size_t));
    }
    barrier();
    PHASE("operations");
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 100); i++) {
        int s = (int)pick(0, SLOTS - 1);
        finish(s);
        start(s);
    }
    for (int s = 0; s < SLOTS; s++) finish(s);
    PHASE("handlers");
    for (gex_Rank_t r = 0; r < np; r++) {
        const unsigned *theirs = SHARED(unsigned, share(&notified[r], sizeof *notified), 0);
        const void *table = theirs;
        if (r == me)
            for (gex_Rank_t q = 0; q < np; q++) wanted += *SHARED(unsigned, table, q);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrivals) == wanted);
    barrier();
    CHECK(ATOMIC_GET(&arrivals) == wanted && ATOMIC_GET(&bad_payloads) == 0);
    return test_finish();
}

/* The calls of a replay, with contents that name their message and are verified at the target. */
#include "play.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ATOMICS = 4096, WORDS = ATOMICS / 8, PAGE = 65536, READ_BACK = 8, HANDLER_PAUSE_US = 50 };

static char **bases; /* segments, by rank of the job */
static gex_AD_t domain;

/* The job has fewer ranks, and recorded ones are placed cyclically, or plays all several times. */
static unsigned job_rank(unsigned rank) { return np < plan.ranks ? rank % np : me / plan.ranks * plan.ranks + rank; }

static size_t rounded(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }
static size_t slot_bytes(void) { return rounded(ATOMICS + plan.data) + rounded(plan.outside); }
static char *slot_of(unsigned rank) { return bases[job_rank(rank)] + (np < plan.ranks ? rank / np : 0) * slot_bytes(); }
static char *address_of(unsigned rank, const struct record *r) {
    if (r->flags & OUTSIDE) return slot_of(rank) + rounded(ATOMICS + plan.data);
    return slot_of(rank) + ATOMICS + r->offset;
}
static int is_outside(unsigned rank, const char *address) {
    return address >= slot_of(rank) + rounded(ATOMICS + plan.data);
}

/* One buffer for requests and puts, and one for replies, which a blocked request may send; or
 * memory of its own (--unmap), which `give_back` unmaps, and other calls get again. */
static char *buffer(int is_for_reply, size_t bytes) {
    static __thread char *buffers[2];
    if (options.is_unmapped) {
        char *mapped = mmap(NULL, bytes + 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) wrong("cannot map %zu bytes: %s", bytes, strerror(errno));
        return mapped;
    }
    if (buffers[is_for_reply] == NULL) buffers[is_for_reply] = allocate(plan.most + 8, 1);
    return buffers[is_for_reply];
}
static void give_back(void *buffer, size_t bytes) {
    if (options.is_unmapped) munmap(buffer, bytes + 8);
}

/* `token` is NULL for a request. */
static void send_recorded(struct rank *rank, const struct record *r, gex_Token_t token, gex_Rank_t requester) {
    int h = r->code - FIRST_HANDLER, way = token != NULL, result;
    const struct form *form = &plan.forms[h];
    unsigned source = rank->recording->rank;
    uint32_t number = __atomic_fetch_add(&rank->sent[r->peer][way][h], 1, __ATOMIC_RELAXED);
    struct message m = {0};
    m.kind = form->is_short ? REQUEST_SHORT : (r->kind - REQUEST_SHORT) % 3 == 2 ? REQUEST_LONG : REQUEST_MEDIUM;
    m.token = token;
    m.target = token != NULL ? requester : job_rank(r->peer);
    m.flags = token == NULL && r->flags & IMMEDIATE ? GEX_FLAG_IMMEDIATE : 0;
    m.handler = r->code;
    m.arguments = form->arguments;
    if (!form->is_short) {
        size_t most = token != NULL
                          ? (m.kind == REQUEST_LONG ? gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, m.arguments)
                                                    : gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, m.arguments))
                      : m.kind == REQUEST_LONG ? gex_AM_MaxRequestLong(tm, m.target, GEX_EVENT_NOW, 0, m.arguments)
                                               : gex_AM_MaxRequestMedium(tm, m.target, GEX_EVENT_NOW, 0, m.arguments);
        m.bytes = r->bytes < most ? r->bytes : most;
        m.payload = buffer(way, m.bytes);
        fill(m.payload, m.bytes, stamp(source, way, h, number));
        if (m.kind == REQUEST_LONG) m.to = address_of(r->peer, r);
    }
    m.kind += way * (REPLY_SHORT - REQUEST_SHORT);
    while ((result = send_message(&m, (gex_AM_Arg_t)(source << 16 | r->peer))) != 0) {
        if (!m.flags) wrong("the library refuses a %s", name_of(m.kind));
        gasnet_AMPoll();
    }
    if (m.payload != NULL) give_back(m.payload, m.bytes);
}

static void check_payload(struct channel *c, unsigned source, unsigned target, int way, int h, const char *payload,
                          size_t bytes, int is_long) {
    uint64_t own = stamp(source, way, h, 0), found = own;
    const char *what = NULL;
    /* Without its beginning, a recording lacks what kept Longs to the same place apart. */
    if (bytes == 0 || (is_long && (plan.is_cut || is_outside(target, payload)))) return;
    if (bytes >= 8) memcpy(&found, payload, 8);
    if (!is_filled(payload, bytes, found)) what = "is damaged, or has not arrived";
    else if (bytes >= 8 && found >> 40 != own >> 40) what = is_long ? NULL : "is that of another message";
    else if (bytes >= 8 && (uint32_t)found >= c->expected) what = "has a number that nobody has sent";
    else if (bytes >= 8 &&
             __atomic_fetch_or(&c->seen[(uint32_t)found / 8], 1 << (uint32_t)found % 8, __ATOMIC_RELAXED) &
                 1 << (uint32_t)found % 8)
        what = is_long ? "is an earlier one, or arrived twice" : "arrived twice";
    if (what != NULL)
        fail("handler %d ran for a %s of rank %u to rank %u, whose payload of %zu bytes %s", h + FIRST_HANDLER,
             way ? "reply" : "request", source, target, bytes, what);
}

void arrived(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t ranks) {
    static __thread uint64_t random;
    unsigned source = (uint32_t)ranks >> 16, target = (uint32_t)ranks & 0xffff;
    gex_Token_Info_t info;
    struct channel *c;
    uint32_t k;
    int way, h;
    gex_Token_Info(token, &info, GEX_TI_ALL);
    h = info.gex_entry->gex_index - FIRST_HANDLER;
    way = !info.gex_is_req;
    if (source >= plan.ranks || target >= plan.ranks || plan.local[target] == NULL) {
        fail("a message for rank %u has come, which this process does not play", target);
        return;
    }
    c = &plan.local[target]->from[source][way][h];
    k = __atomic_fetch_add(&c->begun, 1, __ATOMIC_RELAXED);
    if (k >= c->expected) {
        fail("handler %d ran more often for %s of rank %u to rank %u than %u were sent", h + FIRST_HANDLER,
             way ? "replies" : "requests", source, target, c->expected);
        return;
    }
    if (options.is_checked) check_payload(c, source, target, way, h, payload, bytes, info.gex_is_long);
    if (options.jitter != 0) {
        if (random == 0) random = options.jitter * 104729 + me + 1;
        if (next_random(&random) % 16 == 0) spin(random % HANDLER_PAUSE_US);
    }
    if (way == 0) {
        const struct record *reply = c->first + k < c->ran ? c->replies[c->first + k] : NULL;
        if (reply != NULL) send_recorded(plan.local[target], reply, token, info.gex_srcrank);
    }
    __atomic_add_fetch(&c->ended, 1, __ATOMIC_RELEASE);
    note_arrival();
}

static void add_pending(struct thread *t, gex_Event_t event, const struct record *put, uint64_t seed) {
    struct pending one = {event, put, seed};
    if (event == GEX_EVENT_INVALID && put == NULL) return;
    if (t->first + t->count == t->room) {
        if (t->first > 0) memmove(t->pending, t->pending + t->first, t->count * sizeof one);
        t->first = 0;
        if (t->count == t->room) {
            t->room = 2 * t->room + 64;
            t->pending = realloc(t->pending, t->room * sizeof one);
            if (t->pending == NULL) wrong("there is not enough memory for %zu operations", t->room);
        }
    }
    t->pending[t->first + t->count++] = one;
}

/* Reads a put back. Others, and later puts of this thread, may have written there since. */
static void read_back(struct thread *t, const struct record *put, uint64_t seed) {
    uint64_t found;
    if (put->bytes < 8 || put->flags & OUTSIDE || !options.is_checked || t->puts % READ_BACK != 0) return;
    gex_RMA_GetBlocking(tm, t->back, job_rank(put->peer), address_of(put->peer, put), put->bytes, 0);
    memcpy(&found, t->back, 8);
    if (found >> 32 == seed >> 32 && found < seed)
        fail("a put of %zu bytes to rank %u is complete, and has not arrived", (size_t)put->bytes, put->peer);
    if (found == seed && !is_filled(t->back, put->bytes, seed))
        fail("a put of %zu bytes to rank %u is complete, and has arrived in part", (size_t)put->bytes, put->peer);
}

static void finish_oldest(struct thread *t) {
    struct pending *one = &t->pending[t->first];
    if (t->count == 0) return;
    t->first++;
    t->count--;
    gex_Event_Wait(one->event);
    if (one->put != NULL) read_back(t, one->put, one->seed);
}

void finish(struct thread *t, int what) {
    if (what == IMPLICIT) gex_NBI_Wait(GEX_EC_ALL, 0);
    else finish_oldest(t);
    while (what == ALL && t->count > 0) finish_oldest(t);
}

static void put(struct thread *t, const struct record *r) {
    gex_Rank_t target = job_rank(r->peer);
    char *to = address_of(r->peer, r), *from = buffer(0, r->bytes);
    /* As if by a reply handler; the thread tells its puts from those of others. */
    uint64_t seed = stamp(t->rank->recording->rank, 1, HANDLERS - 1, 0) | (uint64_t)t->number << 32 | ++t->puts, value;
    fill(from, r->bytes, seed);
    memcpy(&value, from, 8);
    switch (r->kind) {
        case PUT_NB:
        case PUT_NB_VAL:
            add_pending(t, gex_RMA_PutNB(tm, target, to, from, r->bytes, GEX_EVENT_NOW, 0), r, seed);
            break;
        case PUT_NBI: gex_RMA_PutNBI(tm, target, to, from, r->bytes, GEX_EVENT_NOW, 0); break;
        case PUT_NBI_VAL: gex_RMA_PutNBIVal(tm, target, to, value, r->bytes, 0); break;
        case PUT_VAL:
            gex_RMA_PutBlockingVal(tm, target, to, value, r->bytes, 0);
            read_back(t, r, seed);
            break;
        default: gex_RMA_PutBlocking(tm, target, to, from, r->bytes, 0); read_back(t, r, seed);
    }
    give_back(from, r->bytes);
}

static void get(struct thread *t, const struct record *r) {
    gex_Rank_t target = job_rank(r->peer);
    char *from = address_of(r->peer, r);
    switch (r->kind) {
        case GET_NB: add_pending(t, gex_RMA_GetNB(tm, t->sink, target, from, r->bytes, 0), NULL, 0); break;
        case GET_NBI: gex_RMA_GetNBI(tm, t->sink, target, from, r->bytes, 0); break;
        case GET_VAL: gex_RMA_GetBlockingVal(tm, target, from, r->bytes, 0); break;
        default: {
            char *to = buffer(0, r->bytes);
            gex_RMA_GetBlocking(tm, to, target, from, r->bytes, 0);
            give_back(to, r->bytes);
        }
    }
}

/* Adds 1 to a word that stands for the recorded one, fetching if that was fetched. */
static void atomic(struct thread *t, const struct record *r) {
    static __thread uint64_t result;
    int is_fetching = 1u << r->code > GEX_OP_CAS;
    gex_OP_t op = is_fetching ? GEX_OP_FADD : GEX_OP_ADD;
    void *to = slot_of(r->peer) + 8 * (r->offset / 8 % WORDS);
    if (r->kind == ATOMIC_NB)
        add_pending(t, gex_AD_OpNB_U64(domain, &result, job_rank(r->peer), to, op, 1, 0, 0), NULL, 0);
    else gex_AD_OpNBI_U64(domain, &result, job_rank(r->peer), to, op, 1, 0, 0);
}

void perform(struct thread *t, const struct record *r) {
    if (r->kind <= GET_STRIDED) get(t, r);
    else if (r->kind <= PUT_STRIDED) put(t, r);
    else if (r->kind <= ATOMIC_NBI) atomic(t, r);
    else if (r->kind <= WAIT) finish(t, r->code);
    else if (is_send(r->kind)) send_recorded(t->rank, r, NULL, 0);
}

void check_atomics(void) {
    unsigned rank;
    for (rank = 0; rank < plan.ranks; rank++) {
        const uint64_t *words;
        uint64_t all = 0;
        int i;
        if (plan.local[rank] == NULL) continue;
        words = (const uint64_t *)slot_of(rank);
        for (i = 0; i < WORDS; i++) all += words[i];
        if (all != plan.local[rank]->atomics)
            fail("%llu of %llu atomics on rank %u have had an effect", (unsigned long long)all,
                 (unsigned long long)plan.local[rank]->atomics, rank);
    }
}

void clear_atomics(unsigned rank) { memset(slot_of(rank), 0, ATOMICS); }

void attach(gex_EP_t ep) {
    size_t bytes = (np < plan.ranks ? (plan.ranks + np - 1) / np : 1) * slot_bytes();
    gex_AM_Entry_t table[HANDLERS];
    gex_Segment_t segment;
    size_t count = 0;
    unsigned i;
    int h;
    memset(table, 0, sizeof table);
    for (h = 0; h < HANDLERS; h++) {
        const struct form *form = &plan.forms[h];
        if (!form->is_used) continue;
        table[count].gex_index = (gex_AM_Index_t)(h + FIRST_HANDLER);
        table[count].gex_fnptr = handler_for(form);
        table[count].gex_flags = GEX_FLAG_AM_REQREP | (form->is_short ? GEX_FLAG_AM_SHORT : GEX_FLAG_AM_MEDLONG);
        table[count++].gex_nargs = form->arguments;
    }
    if (gex_EP_RegisterHandlers(ep, table, count) != GASNET_OK) gasnet_exit(1);
    if (gex_Segment_Attach(&segment, tm, bytes) != GASNET_OK)
        wrong("cannot attach a segment of %zu bytes, which the offsets in the recording need", bytes);
    bases = allocate(np, sizeof *bases);
    for (i = 0; i < np; i++) {
        void *base;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, i, &base, NULL, NULL, 0));
        bases[i] = base;
    }
    gex_AD_Create(&domain, tm, GEX_DT_U64, GEX_OP_ADD | GEX_OP_FADD, 0);
}

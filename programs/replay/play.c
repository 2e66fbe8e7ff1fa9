/* Replays a recording: each thread makes the calls of its recorded one, in their order. Before each
 * it waits for what had happened before in its rank: runs of handlers, and ends of barriers. */
#include "replay.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ATOMICS = 4096, WORDS = ATOMICS / 8, PAGE = 65536, MOST_REPORTS = 10, READ_BACK = 8, STALLED_US = 1000000 };
enum { MOST_POLLS = 16, HANDLER_PAUSE_US = 50, PAUSE_US = 300, TICK_US = 100000 };

gex_TM_t tm;
static gex_Client_t client;
static gex_EP_t ep;
static gex_Rank_t me, np;
static struct options options;
static struct plan plan;
static char **bases; /* segments, by rank of the job */
static gex_AD_t domain;
static uint64_t repetition, began; /* the one under way, and the start of it */
static unsigned locals;

/* An operation that its thread has not synchronised. */
struct pending {
    gex_Event_t event;
    const struct record *put; /* NULL: something else */
    uint64_t seed;
};
/* A barrier that this thread has started for its process. */
struct open {
    int kind;
    uint64_t number;
    gex_Event_t event;
};
enum { MOST_OPEN = 64 };
struct thread {
    pthread_t id;
    struct rank *rank;
    unsigned number;
    uint64_t random;
    size_t at, cursor;           /* records: under way; up to which all has happened */
    const struct record *awaits; /* NULL: it is in the call, or has finished */
    int has_finished;
    struct pending *pending;
    size_t first, count, room; /* of `pending` */
    struct open open[MOST_OPEN];
    unsigned opened;
    uint32_t puts;
    char *sink;
};
static struct thread *threads;
static unsigned finished;
static pthread_mutex_t barrier_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned *entries[2]; /* of barriers, by kind and number: local ranks */
static uint64_t done[2];     /* number of the last barrier that is over */
static uint64_t progress, arrivals, failures;
static uint64_t stalled_us; /* since there was progress, by the watchdog */

static uint64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

static void advance(void) { __atomic_add_fetch(&progress, 1, __ATOMIC_RELAXED); }

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...) {
    char text[400];
    va_list arguments;
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) >= MOST_REPORTS) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gasnet_replay: rank %u: %s\n", (unsigned)me, text);
}

/* The job has fewer ranks, and recorded ones are placed cyclically, or plays all several times. */
static unsigned job_rank(unsigned rank) { return np < plan.ranks ? rank % np : me / plan.ranks * plan.ranks + rank; }
static int is_local(unsigned rank) { return np < plan.ranks ? rank % np == me : rank == me % plan.ranks; }

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

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void spin(uint64_t us) {
    uint64_t end = now_us() + us;
    while (now_us() < end) {}
}

/* One buffer for requests and puts, and one for replies, which a blocked request may send. */
static char *buffer(int is_for_reply) {
    static __thread char *buffers[2];
    if (buffers[is_for_reply] == NULL) buffers[is_for_reply] = allocate(plan.most + 8, 1);
    return buffers[is_for_reply];
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
        m.payload = buffer(way);
        fill(m.payload, m.bytes, stamp(source, way, h, number));
        if (m.kind == REQUEST_LONG) m.to = address_of(r->peer, r);
    }
    m.kind += way * (REPLY_SHORT - REQUEST_SHORT);
    while ((result = send_message(&m, (gex_AM_Arg_t)(source << 16 | r->peer))) != 0) {
        if (!m.flags) wrong("the library refuses a %s", name_of(m.kind));
        gasnet_AMPoll();
    }
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
        int64_t run = (int64_t)k + c->first;
        const struct record *reply = run >= 0 && run < (int64_t)c->ran ? c->replies[run] : NULL;
        if (reply != NULL) send_recorded(plan.local[target], reply, token, info.gex_srcrank);
    }
    __atomic_add_fetch(&c->ended, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&arrivals, 1, __ATOMIC_RELEASE);
    advance();
}

static void test_barriers(struct thread *t) {
    unsigned i = 0;
    while (i < t->opened) {
        struct open *open = &t->open[i];
        int is_over = open->kind == 1 ? gex_Event_Test(open->event) == GASNET_OK
                                      : gasnet_barrier_try(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK;
        if (!is_over) {
            i++;
            continue;
        }
        __atomic_store_n(&done[open->kind], open->number, __ATOMIC_RELEASE);
        *open = t->open[--t->opened];
        advance();
    }
}

static int is_released(void) { return plan.is_cut && __atomic_load_n(&stalled_us, __ATOMIC_RELAXED) > STALLED_US; }

/* Whether a marker has happened in this replay. A recording without its beginning may lack the
 * cause: the wait is given up. */
static int has_happened(struct thread *t, const struct record *r) {
    test_barriers(t);
    if (is_run(r->kind)) {
        struct channel *c = &t->rank->from[r->peer][is_reply(r->kind)][r->code - FIRST_HANDLER];
        int64_t number = (int64_t)r->number - (c->first > 0 ? c->first : 0);
        if (number < (int64_t)__atomic_load_n(&c->ended, __ATOMIC_ACQUIRE)) return 1;
    } else {
        int kind = r->kind == BARRIER_DONE;
        if (!is_common(&plan, kind, r->bytes) || __atomic_load_n(&done[kind], __ATOMIC_ACQUIRE) >= r->bytes) return 1;
    }
    return is_released();
}

static void await(struct thread *t, const struct record *r) {
    if (has_happened(t, r)) return;
    __atomic_store_n(&t->awaits, r, __ATOMIC_RELAXED);
    GASNET_BLOCKUNTIL(has_happened(t, r));
    __atomic_store_n(&t->awaits, NULL, __ATOMIC_RELAXED);
    advance();
}

/* Ranks enter their barriers in order, also by several threads. The last local rank starts that of
 * the process. */
static void enter_barrier(struct thread *t, const struct record *r) {
    int kind = r->kind == BARRIER_START;
    uint64_t before = r->bytes - 1;
    uint32_t *entered = &t->rank->entered[kind];
    if (!is_common(&plan, kind, r->bytes)) return;
    while (before > 0 && !is_common(&plan, kind, before)) before--;
    GASNET_BLOCKUNTIL((test_barriers(t), __atomic_load_n(entered, __ATOMIC_ACQUIRE) >= before || is_released()));
    pthread_mutex_lock(&barrier_lock);
    if (++entries[kind][r->bytes] == locals) {
        struct open *open = &t->open[t->opened];
        if (t->opened++ == MOST_OPEN) wrong("a thread has more than %d barriers under way", MOST_OPEN);
        open->kind = kind;
        open->number = r->bytes;
        if (kind == 1) open->event = gex_Coll_BarrierNB(tm, 0);
        else gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    }
    pthread_mutex_unlock(&barrier_lock);
    __atomic_store_n(entered, (uint32_t)r->bytes, __ATOMIC_RELEASE);
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
    gex_RMA_GetBlocking(tm, t->sink, job_rank(put->peer), address_of(put->peer, put), put->bytes, 0);
    memcpy(&found, t->sink, 8);
    if (found >> 32 == seed >> 32 && found < seed)
        fail("a put of %zu bytes to rank %u is complete, and has not arrived", (size_t)put->bytes, put->peer);
    if (found == seed && !is_filled(t->sink, put->bytes, seed))
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

static void finish(struct thread *t, int what) {
    if (what == IMPLICIT) gex_NBI_Wait(GEX_EC_ALL, 0);
    else finish_oldest(t);
    while (what == ALL && t->count > 0) finish_oldest(t);
}

static void put(struct thread *t, const struct record *r) {
    gex_Rank_t target = job_rank(r->peer);
    char *to = address_of(r->peer, r), *from = buffer(0);
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
}

static void get(struct thread *t, const struct record *r) {
    gex_Rank_t target = job_rank(r->peer);
    char *from = address_of(r->peer, r);
    switch (r->kind) {
        case GET_NB: add_pending(t, gex_RMA_GetNB(tm, t->sink, target, from, r->bytes, 0), NULL, 0); break;
        case GET_NBI: gex_RMA_GetNBI(tm, t->sink, target, from, r->bytes, 0); break;
        case GET_VAL: gex_RMA_GetBlockingVal(tm, target, from, r->bytes, 0); break;
        default: gex_RMA_GetBlocking(tm, t->sink, target, from, r->bytes, 0);
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

static void perform(struct thread *t, const struct record *r) {
    if (r->kind <= GET_STRIDED) get(t, r);
    else if (r->kind <= PUT_STRIDED) put(t, r);
    else if (r->kind <= ATOMIC_NBI) atomic(t, r);
    else if (r->kind <= WAIT) finish(t, r->code);
    else if (r->kind == BARRIER_NOTIFY || r->kind == BARRIER_START) enter_barrier(t, r);
    else if (is_send(r->kind)) send_recorded(t->rank, r, NULL, 0);
}

/* Lets as much time pass as in the recording, with polls if there were any. */
static void pause_before(struct thread *t, const struct record *r) {
    uint32_t polls = r->polls < MOST_POLLS ? r->polls : MOST_POLLS;
    if (options.jitter != 0) {
        uint64_t random = next_random(&t->random);
        if (random % 8 == 0) spin(random / 8 % PAUSE_US);
        if (random % 64 == 1) sched_yield();
    }
    if (options.speed > 0) {
        uint64_t at = began + (uint64_t)((double)(r->at - plan.first_at) / 1000 / options.speed), now;
        while ((now = now_us()) < at) {
            advance();
            if (r->polls > 0) gasnet_AMPoll();
            else if (at - now > 100) usleep(at - now > 10000 ? 10000 : (unsigned)(at - now) - 50);
        }
    }
    while (polls-- > 0) gasnet_AMPoll();
}

static void make_calls(struct thread *t) {
    const struct recording *recording = t->rank->recording;
    size_t last = 0, i; /* end of this thread's last record */
    for (i = 0; i < recording->count; i++) {
        const struct record *r = &recording->records[i];
        size_t before = r->flags & IMMEDIATE && is_send(r->kind) ? last : i; /* recorded after the call */
        if (r->thread != t->number) continue;
        last = i + 1;
        if (is_marker(r->kind) || (is_send(r->kind) && is_reply(r->kind))) continue;
        t->at = i;
        for (; t->cursor < before; t->cursor++) {
            if (is_marker(recording->records[t->cursor].kind)) await(t, &recording->records[t->cursor]);
        }
        pause_before(t, r);
        perform(t, r);
        advance();
    }
    finish(t, ALL);
    finish(t, IMPLICIT);
}

static int is_complete(struct thread *t) {
    test_barriers(t);
    return __atomic_load_n(&finished, __ATOMIC_ACQUIRE) == plan.threads && t->opened == 0 &&
           __atomic_load_n(&arrivals, __ATOMIC_ACQUIRE) >= plan.messages;
}

/* A thread that has finished goes on to poll for the others. */
static void *run(void *thread) {
    struct thread *t = thread;
    make_calls(t);
    t->has_finished = 1;
    __atomic_add_fetch(&finished, 1, __ATOMIC_RELEASE);
    GASNET_BLOCKUNTIL(is_complete(t));
    return NULL;
}

static int describe(char *text, size_t size, const struct thread *t) {
    const struct record *r = __atomic_load_n(&t->awaits, __ATOMIC_RELAXED);
    int used = snprintf(text, size, "rank %u thread %u ", t->rank->recording->rank, t->number);
    size_t rest = size - (size_t)used;
    if (t->has_finished) return used + snprintf(text + used, rest, "has made its calls");
    used += snprintf(text + used, rest, "at record %zu of %zu, %s", t->at + 1, t->rank->recording->count,
                     name_of(t->rank->recording->records[t->at].kind));
    rest = size - (size_t)used;
    if (r == NULL) return used;
    if (!is_run(r->kind))
        return used + snprintf(text + used, rest, ", waits for barrier %llu", (unsigned long long)r->bytes);
    return used + snprintf(text + used, rest, ", waits for run %u of handler %u for %s of rank %u; %u have ended",
                           r->number + 1, r->code, is_reply(r->kind) ? "replies" : "requests", r->peer,
                           t->rank->from[r->peer][is_reply(r->kind)][r->code - FIRST_HANDLER].ended);
}

static void report_hang(void) {
    char text[400];
    unsigned i, rank, h;
    for (i = 0; i < plan.threads && i < 64; i++) {
        describe(text, sizeof text, &threads[i]);
        fprintf(stderr, "gasnet_replay: no progress for %.0f s: %s\n", options.limit, text);
    }
    for (i = 0; i < plan.ranks; i++) {
        for (rank = 0; rank < plan.ranks && plan.local[i] != NULL; rank++) {
            for (h = 0; h < 2 * HANDLERS; h++) {
                const struct channel *c = &plan.local[i]->from[rank][h / HANDLERS][h % HANDLERS];
                if (c->ended < c->expected)
                    fprintf(stderr, "gasnet_replay: rank %u: %u of %u %s of rank %u for handler %u have arrived\n", i,
                            c->ended, c->expected, h < HANDLERS ? "requests" : "replies", rank,
                            h % HANDLERS + FIRST_HANDLER);
            }
        }
    }
}

static int is_between; /* replays: this process waits for the others */

static void *watch(void *unused) {
    uint64_t seen = 0, since = now_us();
    double span = options.speed > 0 ? (double)(plan.last_at - plan.first_at) / 1e9 / options.speed : 0;
    for (;;) {
        uint64_t current = __atomic_load_n(&progress, __ATOMIC_RELAXED), us;
        if (current != seen) since = now_us();
        seen = current;
        us = now_us() - since;
        __atomic_store_n(&stalled_us, us, __ATOMIC_RELAXED);
        if ((double)us / 1e6 > options.limit + (is_between ? options.limit + span : 0)) {
            if (is_between) fprintf(stderr, "gasnet_replay: rank %u: no progress between two replays\n", (unsigned)me);
            else report_hang();
            alarm(60); /* the library may not end the job */
            gasnet_exit(1);
        }
        usleep(TICK_US);
    }
    return unused;
}

static void barrier(void) {
    __atomic_store_n(&is_between, 1, __ATOMIC_RELAXED);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    advance();
    __atomic_store_n(&is_between, 0, __ATOMIC_RELAXED);
}

static uint64_t sum(uint64_t value) {
    uint64_t result;
    __atomic_store_n(&is_between, 1, __ATOMIC_RELAXED);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &result, &value, GEX_DT_U64, sizeof value, 1, GEX_OP_ADD, NULL, NULL, 0));
    advance();
    __atomic_store_n(&is_between, 0, __ATOMIC_RELAXED);
    return result;
}

static void reset(void) {
    unsigned rank, source, i;
    int way, h;
    for (rank = 0; rank < plan.ranks; rank++) {
        struct rank *local = plan.local[rank];
        if (local == NULL) continue;
        memset(local->entered, 0, sizeof local->entered);
        memset(local->sent, 0, plan.ranks * sizeof *local->sent);
        memset(slot_of(rank), 0, ATOMICS);
        for (source = 0; source < plan.ranks; source++) {
            for (way = 0; way < 2; way++) {
                for (h = 0; h < HANDLERS; h++) {
                    struct channel *c = &local->from[source][way][h];
                    c->begun = c->ended = 0;
                    if (c->seen != NULL) memset(c->seen, 0, c->expected / 8 + 1);
                }
            }
        }
    }
    for (i = 0; i < 2; i++) {
        done[i] = 0;
        memset(entries[i], 0, plan.most_barriers[i] * sizeof *entries[i]);
    }
    for (i = 0; i < plan.threads; i++) {
        threads[i].at = threads[i].cursor = 0;
        threads[i].has_finished = 0;
    }
    finished = 0;
    arrivals = 0;
}

static void check_atomics(void) {
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

static uint64_t replay_once(void) {
    unsigned i;
    reset();
    barrier();
    began = now_us();
    for (i = 1; i < plan.threads; i++) {
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0) wrong("cannot create a thread");
    }
    run(&threads[0]);
    for (i = 1; i < plan.threads; i++) pthread_join(threads[i].id, NULL);
    barrier();
    check_atomics();
    return sum(failures);
}

static void setup(void) {
    size_t bytes = (np < plan.ranks ? (plan.ranks + np - 1) / np : 1) * slot_bytes();
    gex_AM_Entry_t table[HANDLERS];
    gex_Segment_t segment;
    size_t count = 0;
    unsigned rank, i, used = 0;
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
    for (i = 0; i < 2; i++) entries[i] = allocate(plan.most_barriers[i], sizeof *entries[i]);
    threads = allocate(plan.threads, sizeof *threads);
    for (rank = 0; rank < plan.ranks; rank++) {
        struct rank *local = plan.local[rank];
        if (local == NULL) continue;
        locals++;
        for (i = 0; i < local->threads; i++, used++) {
            threads[used].rank = local;
            threads[used].number = i;
            threads[used].random = options.jitter * 7919 + rank * 104729u + i + 1;
            threads[used].sink = allocate(plan.most + 8, 1);
        }
    }
}

int play(const char *pattern, const struct options *wanted, int *argc, char ***argv) {
    uint64_t failed = 0;
    pthread_t watcher;
    options = *wanted;
    plan.ranks = count_ranks(pattern); /* before there are ranks, which would all report an error */
    if (gex_Client_Init(&client, &ep, &tm, "GASNET_REPLAY", argc, argv, 0) != GASNET_OK) return 1;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (np > plan.ranks && np % plan.ranks != 0)
        wrong("the recording is of %u ranks: start as many, fewer, or a multiple, not %u", plan.ranks, (unsigned)np);
    make_plan(&plan, pattern, is_local);
    setup();
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) wrong("cannot create a thread");
    while (failed == 0 && (options.is_until_fail || repetition < options.repeat)) {
        repetition++;
        failed = replay_once();
    }
    if (me == 0 && failed > 0) fprintf(stderr, "gasnet_replay: replay %llu failed\n", (unsigned long long)repetition);
    if (me == 0 && failed == 0)
        printf("gasnet_replay: replayed %llu times on %u ranks: %u recorded ranks%s\n", (unsigned long long)repetition,
               (unsigned)np, plan.ranks, plan.is_cut ? ", whose beginnings are missing" : "");
    barrier();
    gasnet_exit(failed > 0);
    return 1;
}

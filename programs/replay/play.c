/* Replays a recording: each thread makes the calls of its recorded one, in their order. Before each
 * it waits for what had happened before in its rank: runs of handlers, and ends of barriers. */
#include "play.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_REPORTS = 10, STALLED_US = 1000000, MOST_POLLS = 16, PAUSE_US = 300, TICK_US = 100000 };

gex_TM_t tm;
gex_Rank_t me, np;
struct options options;
struct plan plan;
static gex_Client_t client;
static gex_EP_t ep;
static uint64_t repetition, began; /* the one under way, and the start of it */
static unsigned locals;
static struct thread *threads;
static unsigned finished;
static int has_left_out; /* collectives */
static pthread_mutex_t barrier_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t progress, arrivals, failures;
static uint64_t stalled_us; /* since there was progress, by the watchdog */

static uint64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

void advance(void) { __atomic_add_fetch(&progress, 1, __ATOMIC_RELAXED); }

void note_arrival(void) {
    __atomic_add_fetch(&arrivals, 1, __ATOMIC_RELEASE);
    advance();
}

void fail(const char *format, ...) {
    char text[400];
    va_list arguments;
    if (__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED) >= MOST_REPORTS) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "gasnet_replay: rank %u: %s\n", (unsigned)me, text);
}

uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void spin(uint64_t us) {
    uint64_t end = now_us() + us;
    while (now_us() < end) {}
}

static void note_done(const struct record *r) {
    __atomic_store_n(&plan.series[r->number].done[place_of(r)], 1, __ATOMIC_RELEASE);
    advance();
}

static void test_collectives(struct thread *t) {
    unsigned i = 0;
    while (i < t->opened) {
        struct open *open = &t->open[i];
        if (!is_over(open)) {
            i++;
            continue;
        }
        note_done(open->record);
        *open = t->open[--t->opened];
    }
}

static int is_released(void) { return plan.is_cut && __atomic_load_n(&stalled_us, __ATOMIC_RELAXED) > STALLED_US; }

/* Whether a marker has happened in this replay. A recording without its beginning may lack the
 * cause: the wait is given up. */
static int has_happened(struct thread *t, const struct record *r) {
    test_collectives(t);
    if (is_run(r->kind)) {
        struct channel *c = &t->rank->from[r->peer][is_reply(r->kind)][r->code - FIRST_HANDLER];
        if (r->number < c->first + __atomic_load_n(&c->ended, __ATOMIC_ACQUIRE)) return 1;
    } else {
        struct series *series = &plan.series[r->number];
        if (!is_common(series, place_of(r)) || __atomic_load_n(&series->done[place_of(r)], __ATOMIC_ACQUIRE)) return 1;
    }
    return is_released();
}

/* The lock of a rank (--lock). A thread that waits for it does not poll; one that holds it waits
 * for nobody but in a call, which polls. */
static void lock_rank(struct thread *t) {
    if (!options.is_locked || t->holds) return;
    pthread_mutex_lock(&t->rank->lock);
    t->holds = 1;
}
static void unlock_rank(struct thread *t) {
    if (t->holds) pthread_mutex_unlock(&t->rank->lock);
    t->holds = 0;
}

static void await(struct thread *t, const struct record *r) {
    if (has_happened(t, r)) return;
    unlock_rank(t);
    __atomic_store_n(&t->awaits, r, __ATOMIC_RELAXED);
    GASNET_BLOCKUNTIL(has_happened(t, r));
    __atomic_store_n(&t->awaits, NULL, __ATOMIC_RELAXED);
    advance();
}

/* Ranks enter their barriers and collectives in order, also by several threads. The last local rank
 * starts that of the process. */
static void enter(struct thread *t, const struct record *r) {
    struct series *series = &plan.series[r->number];
    uint32_t before = place_of(r) - 1, *entered = &t->rank->entered[r->number];
    if (!is_common(series, place_of(r))) return;
    unlock_rank(t);
    while (before > 0 && !is_common(series, before)) before--;
    GASNET_BLOCKUNTIL((test_collectives(t), __atomic_load_n(entered, __ATOMIC_ACQUIRE) >= before || is_released()));
    pthread_mutex_lock(&barrier_lock);
    if (is_left_out(r)) {
        has_left_out = 1;
        note_done(r);
    } else if (++series->entered[place_of(r)] == locals) {
        struct open none = {0};
        if (t->opened == MOST_OPEN) wrong("a thread has more than %d collectives under way", MOST_OPEN);
        t->open[t->opened] = none;
        start_collective(&t->open[t->opened++], r);
    }
    pthread_mutex_unlock(&barrier_lock);
    __atomic_store_n(entered, place_of(r), __ATOMIC_RELEASE);
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
            unlock_rank(t);
            advance();
            if (r->polls > 0) gasnet_AMPoll();
            else if (at - now > 100) usleep(at - now > 10000 ? 10000 : (unsigned)(at - now) - 50);
        }
    }
    while (polls-- > 0) gasnet_AMPoll();
}

static void make_calls(struct thread *t) {
    const struct recording *recording = t->rank->recording;
    size_t last = 0, last_other = 0, i; /* end of this thread's last record; of those but runs for its own rank */
    for (i = 0; i < recording->count; i++) {
        const struct record *r = &recording->records[i];
        size_t before = i;
        /* Recorded after the call, which for the own rank has run the handlers. */
        if (r->flags & IMMEDIATE && is_send(r->kind)) before = r->peer == recording->rank ? last_other : last;
        if (r->thread != t->number) continue;
        last = i + 1;
        if (!is_run(r->kind) || r->peer != recording->rank) last_other = last;
        if (is_marker(r->kind) || (is_send(r->kind) && is_reply(r->kind))) continue;
        t->at = i;
        pause_before(t, r);
        for (; t->cursor < before; t->cursor++) {
            if (is_marker(recording->records[t->cursor].kind)) await(t, &recording->records[t->cursor]);
        }
        if (is_start(r->kind)) {
            enter(t, r);
        } else {
            lock_rank(t);
            perform(t, r);
        }
        advance();
    }
    unlock_rank(t);
    finish(t, ALL);
    finish(t, IMPLICIT);
}

static int is_complete(struct thread *t) {
    test_collectives(t);
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
    if (!is_run(r->kind)) return used + snprintf(text + used, rest, ", waits for %s %u", name_of(r->kind), place_of(r));
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
        memset(local->entered, 0, plan.series_count * sizeof *local->entered);
        memset(local->sent, 0, plan.ranks * sizeof *local->sent);
        clear_atomics(rank);
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
    for (i = 0; i < plan.series_count; i++) {
        memset(plan.series[i].done, 0, plan.series[i].most);
        memset(plan.series[i].entered, 0, plan.series[i].most * sizeof *plan.series[i].entered);
    }
    for (i = 0; i < plan.threads; i++) {
        threads[i].at = threads[i].cursor = 0;
        threads[i].has_finished = 0;
    }
    finished = 0;
    arrivals = 0;
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
    unsigned rank, i, used = 0;
    attach(ep);
    make_teams();
    threads = allocate(plan.threads, sizeof *threads);
    for (rank = 0; rank < plan.ranks; rank++) {
        struct rank *local = plan.local[rank];
        if (local == NULL) continue;
        locals++;
        pthread_mutex_init(&local->lock, NULL);
        for (i = 0; i < local->threads; i++, used++) {
            threads[used].rank = local;
            threads[used].number = i;
            threads[used].random = options.jitter * 7919 + rank * 104729u + i + 1;
            threads[used].sink = allocate(plan.most + 8, 1);
            threads[used].back = allocate(plan.most + 8, 1);
        }
    }
}

/* The job has fewer ranks, and recorded ones are placed cyclically, or plays all several times. */
static int is_local(unsigned rank) { return np < plan.ranks ? rank % np == me : rank == me % plan.ranks; }

int play(const char *pattern, struct model *model, const struct options *wanted, int *argc, char ***argv) {
    uint64_t failed = 0;
    pthread_t watcher;
    options = *wanted;
    /* Before there are ranks, which would all report an error. */
    if (pattern != NULL) plan.ranks = count_ranks(pattern);
    if (gex_Client_Init(&client, &ep, &tm, "GASNET_REPLAY", argc, argv, 0) != GASNET_OK) return 1;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (pattern == NULL) {
        if (model->ranks == 0) model->ranks = np;
        make_model(model);
        plan.ranks = model->ranks;
    }
    if (np > plan.ranks && np % plan.ranks != 0)
        wrong("the recording is of %u ranks: start as many, fewer, or a multiple, not %u", plan.ranks, (unsigned)np);
    make_plan(&plan, pattern, is_local);
    setup();
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) wrong("cannot create a thread");
    while (failed == 0 && (options.is_until_fail || repetition < options.repeat)) {
        repetition++;
        failed = replay_once();
    }
    if (me == 0 && has_left_out)
        printf("gasnet_replay: on fewer ranks than recorded, teams and collectives were left out\n");
    if (me == 0 && failed > 0) fprintf(stderr, "gasnet_replay: replay %llu failed\n", (unsigned long long)repetition);
    if (me == 0 && failed == 0)
        printf("gasnet_replay: replayed %llu times on %u ranks: %u recorded ranks%s\n", (unsigned long long)repetition,
               (unsigned)np, plan.ranks, plan.is_cut ? ", whose beginnings are missing" : "");
    barrier();
    gasnet_exit(failed > 0);
    return 1;
}

/* Blocks of operations, and their statistics. */
#include "perf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static char *buffers; /* of all workers of this process */
static char *segment_of_peer, *own_segment;
static size_t room;

void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

static gex_Rank_t partner(gex_Rank_t rank) {
    gex_Rank_t half = np / 2;
    if (np == 1) return 0;
    return rank < half ? rank + half : rank - half;
}

static int is_active(const struct test *test) {
    if (test->shape == ALL) return 1;
    if (np % 2 == 1 && np > 1 && me == np - 1) return 0; /* has no partner */
    return test->shape != PAIRS || np == 1 || me < np / 2;
}

/* The threads of a process synchronise twice per block. */
static pthread_barrier_t gate;
static struct {
    struct worker *workers;
    long count;
    int over;
} job;

static void *work(void *argument) {
    struct worker *worker = argument;
    for (;;) {
        pthread_barrier_wait(&gate);
        if (job.over) return NULL;
        worker->test->run(worker, job.count);
        pthread_barrier_wait(&gate);
    }
}

/* The time of a block of this process. */
static double block(struct worker *workers, int threads, long count) {
    double start;
    if (threads == 1) {
        start = now_us();
        workers[0].test->run(&workers[0], count);
        return now_us() - start;
    }
    job.count = count;
    pthread_barrier_wait(&gate);
    start = now_us();
    workers[0].test->run(&workers[0], count);
    pthread_barrier_wait(&gate);
    return now_us() - start;
}

/* A block of the whole job. Returns the maximum time of all ranks, on every rank. */
static double collective_block(const struct test *test, struct worker *workers, int threads, long count) {
    double mine = 0, longest = 0;
    barrier();
    if (is_active(test)) mine = block(workers, threads, count);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &longest, &mine, GEX_DT_DBL, sizeof mine, 1, GEX_OP_MAX, NULL, NULL, 0));
    return longest;
}

/* Memory of the workers: local buffers as large as their part of the peer's segment. */
static void prepare(struct worker *workers, const struct test *test, size_t bytes, int threads) {
    int i;
    if (buffers == NULL) {
        gex_Segment_t segment = gex_EP_QuerySegment(ep);
        size_t whole = (size_t)gex_Segment_QuerySize(segment);
        void *base;
        uintptr_t size;
        size_t parts = (size_t)options.threads * (options.in_segment ? 2 : 1);
        room = whole / parts / 4096 * 4096;
        own_segment = gex_Segment_QueryAddr(segment);
        buffers =
            options.in_segment ? own_segment + room * (size_t)options.threads : malloc(room * (size_t)options.threads);
        if (buffers == NULL) {
            fprintf(stderr, "gasnet_perf: no memory for buffers of %zu bytes; try a smaller -m\n",
                    room * (size_t)options.threads);
            gasnet_exit(1);
        }
        memset(buffers, 1, room * (size_t)options.threads);
        memset(own_segment, 1, room * (size_t)options.threads); /* so that no test has page faults */
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, partner(me), &base, NULL, &size, 0));
        segment_of_peer = base;
    }
    for (i = 0; i < threads; i++) {
        workers[i].test = test;
        workers[i].peer = np % 2 == 1 && np > 1 && me == np - 1 ? me : partner(me);
        workers[i].thread = i;
        workers[i].bytes = bytes;
        workers[i].local = buffers + room * (size_t)i;
        workers[i].remote = segment_of_peer + room * (size_t)i;
        workers[i].own = own_segment + room * (size_t)i;
        workers[i].room = room;
        workers[i].step = (bytes + 63) / 64 * 64;
        workers[i].places = places_for(workers[i].step, room);
        workers[i].turn = 0;
    }
}

struct result measure(const struct test *test, size_t bytes) {
    int threads = test->flags & THREADS ? options.threads : 1, i;
    struct worker *workers = calloc((size_t)threads, sizeof *workers);
    pthread_t *handles = calloc((size_t)threads, sizeof *handles);
    double *times = calloc((size_t)options.blocks, sizeof *times), active;
    struct result result;
    long count = 1;
    if (workers == NULL || handles == NULL || times == NULL) gasnet_exit(1);
    prepare(workers, test, bytes, threads);
    if (threads > 1) {
        job.workers = workers;
        job.over = 0;
        pthread_barrier_init(&gate, NULL, (unsigned)threads);
        for (i = 1; i < threads; i++) pthread_create(&handles[i], NULL, work, &workers[i]);
    }
    /* Warm up, and find the number of operations per block. All ranks use the maximum time, so they
     * find the same number. */
    collective_block(test, workers, threads, 3);
    for (;;) {
        double time = collective_block(test, workers, threads, count), goal = options.block_ms * 1e3;
        if (time >= goal / 4) { /* repeat: another process may have used the core */
            double again = collective_block(test, workers, threads, count);
            if (again < time) time = again;
        }
        if (time >= goal / 4 || count > (1L << 28)) {
            count = (long)((double)count * goal / (time > 0.1 ? time : 0.1)) + 1;
            break;
        }
        count *= 4;
    }
    for (i = 0; i < options.blocks; i++) times[i] = collective_block(test, workers, threads, count) / (double)count;
    if (threads > 1) {
        job.over = 1;
        pthread_barrier_wait(&gate);
        for (i = 1; i < threads; i++) pthread_join(handles[i], NULL);
        pthread_barrier_destroy(&gate);
    }
    active = test->shape == ALL || np == 1 ? 1 : test->shape == BOTH ? np / 2 * 2 : np / 2;
    result.test = test;
    result.bytes = bytes;
    result.ranks = np;
    result.threads = threads;
    result.us = figures_of(times, options.blocks);
    result.per_second = active * threads * 1e6 / result.us.median;
    result.limit = 0;
    free(workers);
    free(handles);
    free(times);
    return result;
}

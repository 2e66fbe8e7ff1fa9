/* Time of collectives: barriers, broadcast, reduction to one and to all, from 8 bytes to 4 MiB. Public interfaces only, so that it runs over any
 * library with them. The numbers are microseconds per operation, the mean over a block of operations, and of the blocks the median.
 *
 *   collectives [-s] [-b BLOCKS] [-m MOST_BYTES] [-o LETTERS]
 *
 * -s takes the buffers from the segment instead of the heap. LETTERS chooses: n named barrier, t team barrier, b broadcast, r reduction to one, a
 * reduction to all. Every broadcast and reduction to one has the next member as root, so that no member runs ahead. GASNET_BENCH_PIN=1 binds rank i to
 * core i modulo the number of cores. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <gasnet.h>
#include <gasnet_coll.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;
static gex_Rank_t me, np;
static char *src, *dst;
static int blocks = 11;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void named(size_t bytes, int i) {
    (void)bytes;
    gasnet_barrier_notify(i, 0);
    gasnet_barrier_wait(i, 0);
}

static void team(size_t bytes, int i) {
    (void)bytes;
    (void)i;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void broadcast(size_t bytes, int i) {
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, (gex_Rank_t)i % np, dst, src, bytes, 0));
}

static void to_one(size_t bytes, int i) {
    gex_Event_Wait(
        gex_Coll_ReduceToOneNB(tm, (gex_Rank_t)i % np, dst, src, GEX_DT_DBL, 8, bytes / 8, GEX_OP_ADD, NULL, NULL, 0));
}

static void to_all(size_t bytes, int i) {
    (void)i;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_DBL, 8, bytes / 8, GEX_OP_ADD, NULL, NULL, 0));
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over the blocks of rank 0's time for an operation. */
static void measure(const char *name, void (*operation)(size_t, int), size_t bytes) {
    double *time = (double *)calloc((size_t)blocks, sizeof *time), start, once;
    int block, i, count;
    for (i = 0; i < (int)np; i++) operation(bytes, i); /* warm */
    start = now();
    for (i = 0; i < 2 * (int)np; i++) operation(bytes, i);
    once = (now() - start) / (2 * np);
    count = (int)(4000 / (once > 0.1 ? once : 0.1)); /* blocks of about 4 ms */
    if (count < 1) count = 1;
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &count, &count, sizeof count, 0));
    count = (count + (int)np - 1) / (int)np * (int)np;
    for (block = 0; block < blocks; block++) {
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        start = now();
        for (i = 0; i < count; i++) operation(bytes, i);
        time[block] = (now() - start) / count;
    }
    qsort(time, (size_t)blocks, sizeof *time, ascending);
    if (me == 0) {
        printf("%-10s %3u ranks %8zu bytes %12.3f us\n", name, (unsigned)np, bytes, time[blocks / 2]);
        fflush(stdout);
    }
    free(time);
}

int main(int argc, char **argv) {
    size_t most = 4 << 20, bytes;
    int option, in_segment = 0;
    const char *letters = "ntbra";
    if (gex_Client_Init(&client, &ep, &tm, "collectives", &argc, &argv, GEX_FLAG_USES_GASNET1) != GASNET_OK) return 1;
    while ((option = getopt(argc, argv, "sb:m:o:")) != -1) switch (option) {
            case 's': in_segment = 1; break;
            case 'b': blocks = atoi(optarg) > 0 ? atoi(optarg) : 1; break;
            case 'm': most = (size_t)atol(optarg); break;
            case 'o': letters = optarg; break;
            default: fprintf(stderr, "usage: collectives [-s] [-b BLOCKS] [-m MOST_BYTES] [-o LETTERS]\n"); gasnet_exit(2);
        }
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (getenv("GASNET_BENCH_PIN")) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((int)me % (int)sysconf(_SC_NPROCESSORS_ONLN), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    if (gex_Segment_Attach(&segment, tm, 16 << 20) != GASNET_OK) return 1;
    if (in_segment) {
        src = (char *)gex_Segment_QueryAddr(segment);
        dst = src + (8 << 20);
    } else {
        src = (char *)malloc(most + 64);
        dst = (char *)malloc(most + 64);
    }
    memset(src, 0, most);
    memset(dst, 0, most);
    if (strchr(letters, 'n')) measure("named", named, 0);
    if (strchr(letters, 't')) measure("team", team, 0);
    for (bytes = 8; bytes <= most; bytes = bytes == 8 ? 1024 : bytes * 4) {
        if (strchr(letters, 'b')) measure("broadcast", broadcast, bytes);
        if (strchr(letters, 'r')) measure("to one", to_one, bytes);
        if (strchr(letters, 'a')) measure("to all", to_all, bytes);
    }
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
    return 0;
}

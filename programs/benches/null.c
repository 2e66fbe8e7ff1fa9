/* null.c: what the runtime itself adds to an operation of the network, and whether it allocates.
 * Runs on conduit-null, whose operations take no time: GASNET_SUPERNODE_MAXSIZE=1, 2 ranks.
 * Prints nanoseconds per operation (of the fastest of 50 batches), the throughput of several
 * threads as a multiple of one, and allocations. Exits with 1 if an operation allocates. Run by
 * programs/benches/null.sh. */

#include <gasnet_ratomic.h>
#include <gasnetex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A counting allocator: glibc's own, under the names that the library calls. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
static __thread unsigned long allocations;
void *malloc(size_t bytes) { return allocations++, __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return allocations++, __libc_calloc(count, bytes); }
void *realloc(void *memory, size_t bytes) { return allocations++, __libc_realloc(memory, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return allocations++, __libc_memalign(alignment, bytes); }
int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    allocations++;
    *memory = __libc_memalign(alignment, bytes);
    return *memory ? 0 : 12;
}

enum { WINDOW = 64, HANDLER = 200, MOST_THREADS = 8, BATCHES = 50 };

static gex_TM_t team;
static gex_AD_t domain;
static char *remote;
static long rounds = 20000;
static __thread unsigned long handled;

static void on_short(gex_Token_t token, gex_AM_Arg_t value) {
    (void)token;
    handled += (unsigned long)value;
}

static void put_blocking(void) {
    uint64_t value = 7;
    for (int i = 0; i < WINDOW; i++) gex_RMA_PutBlocking(team, 1, remote, &value, sizeof value, 0);
}
static void put_nb(void) {
    uint64_t value = 7;
    for (int i = 0; i < WINDOW; i++)
        gex_Event_Wait(gex_RMA_PutNB(team, 1, remote, &value, sizeof value, GEX_EVENT_DEFER, 0));
}
static void put_nbi(void) {
    uint64_t value = 7;
    for (int i = 0; i < WINDOW; i++) gex_RMA_PutNBI(team, 1, remote, &value, sizeof value, GEX_EVENT_NOW, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}
static void get_nbi(void) {
    uint64_t value[WINDOW];
    for (int i = 0; i < WINDOW; i++) gex_RMA_GetNBI(team, &value[i], 1, remote, sizeof value[i], 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
}
static void fadd_nbi(void) {
    uint64_t value[WINDOW];
    for (int i = 0; i < WINDOW; i++) gex_AD_OpNBI_U64(domain, &value[i], 1, remote, GEX_OP_FADD, 1, 0, 0);
    gex_NBI_Wait(GEX_EC_RMW, 0);
}
static void am_short(void) {
    for (int i = 0; i < WINDOW; i++) gex_AM_RequestShort1(team, 1, HANDLER, 0, 1);
    while (handled < WINDOW) gasnet_AMPoll();
    handled = 0;
}

typedef void (*Operation)(void);
struct Work {
    Operation operation;
    double ns;
    unsigned long allocated;
};
static pthread_barrier_t start;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void *work(void *argument) {
    struct Work *w = argument;
    for (int i = 0; i < 100; i++) w->operation();
    pthread_barrier_wait(&start);
    const unsigned long before = allocations;
    const long batch = rounds / BATCHES + 1;
    for (int b = 0; b < BATCHES; b++) {
        const double began = now_ns();
        for (long i = 0; i < batch; i++) w->operation();
        const double ns = (now_ns() - began) / ((double)batch * WINDOW);
        if (b == 0 || ns < w->ns) w->ns = ns;
    }
    w->allocated = allocations - before;
    return NULL;
}

/* Nanoseconds between two operations of `threads` threads together. */
static double run(Operation operation, int threads, unsigned long *allocated) {
    pthread_t thread[MOST_THREADS];
    struct Work each[MOST_THREADS];
    double per_ns = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        each[i].operation = operation;
        if (pthread_create(&thread[i], NULL, work, &each[i])) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        per_ns += 1 / each[i].ns;
        *allocated += each[i].allocated;
    }
    pthread_barrier_destroy(&start);
    return 1 / per_ns;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        Operation operation;
    } all[] = {
        {"put, blocking", put_blocking},        {"put, NB, one by one", put_nb},
        {"put, NBI, windows of 64", put_nbi},   {"get, NBI, windows of 64", get_nbi},
        {"FADD, NBI, windows of 64", fadd_nbi}, {"Short request and its delivery", am_short},
    };
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    gex_AM_Entry_t entry = {HANDLER, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, NULL};
    void *base;
    gex_Client_Init(&client, &ep, &team, "NULL", &argc, &argv, 0);
    gex_EP_RegisterHandlers(ep, &entry, 1);
    gex_Segment_Attach(&segment, team, 1 << 20);
    gex_AD_Create(&domain, team, GEX_DT_U64, GEX_OP_FADD, 0);
    if (gex_TM_QueryRank(team) != 0) GASNET_BLOCKUNTIL(0); /* rank 0 ends the job */
    gex_EP_QueryBoundSegmentNB(team, 1, &base, NULL, NULL, 0);
    remote = base;
    if (argc > 1) rounds = atol(argv[1]);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int threads = cores < MOST_THREADS ? (int)cores : MOST_THREADS;
    unsigned long allocated = 0;
    printf("%-32s %8s %12s %12s\n", "operation of 8 bytes", "ns", "threads", "throughput");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const double one = run(all[i].operation, 1, &allocated);
        const double many = run(all[i].operation, threads, &allocated);
        printf("%-32s %8.1f %12d %11.2fx\n", all[i].name, one, threads, one / many);
    }
    printf("allocations: %lu\n", allocated);
    fflush(stdout);
    gasnet_exit(allocated != 0);
    return 0;
}

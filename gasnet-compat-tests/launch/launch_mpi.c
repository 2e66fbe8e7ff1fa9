/* MPI and GASNet in one program: launch_mpi ORDER LEVEL END [CODE].
 *
 * ORDER  mpi-first, gasnet-first: which library is initialised first
 *        mpi-between: MPI between gex_Client_Init and gex_Segment_Attach
 * LEVEL  init (MPI_Init), or the level for MPI_Init_thread: single, funneled, serialized, multiple
 * END    finalize-return  MPI_Finalize, then main returns CODE
 *        finalize-exit    MPI_Finalize, then gasnet_exit(CODE)
 *        exit             gasnet_exit(CODE), MPI is left as it is
 *        return           main returns CODE, both libraries are left as they are
 *        one-exits        the last rank calls gasnet_exit(CODE), the others wait in GASNet
 *        one-exits-mpi    the last rank calls gasnet_exit(CODE), the others wait in MPI
 *        abort            rank 0 calls MPI_Abort(CODE), the others wait in GASNet
 *        atexit           MPI_Finalize in a handler of atexit, main returns CODE
 *
 * The conduit mpi may have initialised MPI before; then this program does not.
 * Each rank prints one line when both libraries are there, and one when both have been used. */
#include <mpi.h>

#include <gasnetex.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20, WORDS = 512, HANDLER = GEX_AM_INDEX_BASE };

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;
static unsigned me, np;
static int mpi_rank = -1, mpi_size;
static unsigned long failures, messages;

static void check(int good, const char *what) {
    if (good) return;
    failures++;
    fprintf(stderr, "rank %u (MPI %d): %s is wrong\n", me, mpi_rank, what);
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

static void count(gex_Token_t token, gex_AM_Arg_t value) {
    __atomic_add_fetch(&messages, (unsigned long)value, __ATOMIC_RELAXED);
}

static void start_mpi(const char *level, int *argc, char ***argv) {
    static const struct {
        const char *name;
        int level;
    } LEVELS[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    int given = -1, initialized = 1;
    /* The reference's advice: other conduits may have done it. */
    MPI_Initialized(&initialized);
#if !GASNET_CONDUIT_MPI
    check(!initialized, "MPI_Initialized");
#endif
    if (!initialized && !strcmp(level, "init")) MPI_Init(argc, argv);
    for (size_t i = 0; !initialized && i < sizeof LEVELS / sizeof *LEVELS; i++) {
        if (strcmp(level, LEVELS[i].name)) continue;
        MPI_Init_thread(argc, argv, LEVELS[i].level, &given);
        check(given >= LEVELS[i].level, "the thread level");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
}

/* One phase of MPI: ends with its barrier. */
static void use_mpi(int round) {
    int own = mpi_rank + round, sum = -1, i;
    int next = (mpi_rank + 1) % mpi_size, before = (mpi_rank + mpi_size - 1) % mpi_size;
    static int out[1 << 16], in[1 << 16];
    MPI_Status status;
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == mpi_size * (mpi_size - 1) / 2 + mpi_size * round, "the sum of MPI_Allreduce");
    /* More than an eager message. */
    for (i = 0; i < 1 << 16; i++) out[i] = mpi_rank * 1000 + round + i, in[i] = -1;
    MPI_Sendrecv(out, 1 << 16, MPI_INT, next, round, in, 1 << 16, MPI_INT, before, round, MPI_COMM_WORLD, &status);
    for (i = 0; i < 1 << 16 && in[i] == before * 1000 + round + i; i++) continue;
    check(i == 1 << 16, "a message of MPI");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One phase of GASNet: ends with its barrier. */
static void use_gasnet(unsigned round) {
    uint64_t words[WORDS];
    void *base, *remote;
    unsigned next = (me + 1) % np, before = (me + np - 1) % np, i;
    gex_Event_t event = gex_EP_QueryBoundSegmentNB(tm, next, &remote, NULL, NULL, 0);
    gex_Event_Wait(event);
    gex_Segment_QueryBound(tm, me, &base, NULL, NULL);
    uint64_t *own = base;
    for (i = 0; i < WORDS; i++) words[i] = me * 1000000u + round * 1000u + i;
    check(gex_RMA_PutBlocking(tm, next, remote, words, sizeof words, 0) == 0, "a put");
    for (unsigned rank = 0; rank < np; rank++) gex_AM_RequestShort1(tm, rank, HANDLER, 0, (gex_AM_Arg_t)me + 1);
    GASNET_BLOCKUNTIL(__atomic_load_n(&messages, __ATOMIC_RELAXED) >= (unsigned long)(round + 1) * np * (np + 1) / 2);
    barrier();
    for (i = 0; i < WORDS && own[i] == before * 1000000u + round * 1000u + i; i++) continue;
    check(i == WORDS, "what a put has brought");
    check(messages == (unsigned long)(round + 1) * np * (np + 1) / 2, "the number of active messages");
    barrier();
}

static void finalize(void) { MPI_Finalize(); }

int main(int argc, char **argv) {
    gex_AM_Fn_t function = (gex_AM_Fn_t)count;
    gex_AM_Entry_t handlers[] = {{HANDLER, function, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "count"}};
    /* The number of ranks that udp takes is there until gex_Client_Init. */
    int at = argc > 1 && atoi(argv[1]) > 0;
    const char *order = argc > at + 1 ? argv[at + 1] : "gasnet-first", *level = argc > at + 2 ? argv[at + 2] : "init";
    const char *end = argc > at + 3 ? argv[at + 3] : "finalize-return";
    const char *worlds = getenv("LAUNCH_MPI_WORLDS");
    int code = argc > at + 4 ? atoi(argv[at + 4]) : 0;
    unsigned seconds = 40;

    if (!strcmp(order, "mpi-first")) start_mpi(level, &argc, &argv);
    if (gex_Client_Init(&client, &ep, &tm, "LAUNCH_MPI", &argc, &argv, 0) != GASNET_OK) return 3;
    alarm(seconds);
    me = (unsigned)gex_TM_QueryRank(tm);
    np = (unsigned)gex_TM_QuerySize(tm);
    if (!strcmp(order, "mpi-between")) start_mpi(level, &argc, &argv);
    if (gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) != GASNET_OK) return 4;
    if (gex_EP_RegisterHandlers(ep, handlers, 1) != GASNET_OK) return 5;
    if (!strcmp(order, "gasnet-first") && !worlds) start_mpi(level, &argc, &argv);
    /* One MPI after the other: each makes the folder of the host if it is not there, and Open MPI
     * 4.1 fails if another one is faster. */
    for (unsigned rank = 0; worlds && rank < np; rank++) {
        if (rank == me) start_mpi(level, &argc, &argv);
        barrier();
    }
    barrier();
    printf("rank %u of %u is %d of %d in MPI\n", me, np, mpi_rank, mpi_size);
    fflush(stdout);
    /* Without a process manager there is an MPI of one in each rank. */
    if (!worlds) check(mpi_size == (int)np && mpi_rank == (int)me, "the place in MPI");
    for (int round = 0; round < ROUNDS; round++) {
        use_mpi(round);
        use_gasnet((unsigned)round);
    }
    printf("rank %u has used both: %lu failures\n", me, failures);
    /* Left in the stream: the end of the job has to write it. */
    if (failures) code = 9;
    barrier();

    if (!strcmp(end, "abort")) {
        fflush(stdout);
        barrier();
        if (me == 0) MPI_Abort(MPI_COMM_WORLD, code);
        GASNET_BLOCKUNTIL(0);
    }
    if (!strcmp(end, "one-exits") || !strcmp(end, "one-exits-mpi")) {
        fflush(stdout);
        barrier();
        if (me == np - 1) gasnet_exit(code);
        if (!strcmp(end, "one-exits-mpi")) MPI_Barrier(MPI_COMM_WORLD);
        GASNET_BLOCKUNTIL(0);
    }
    if (!strcmp(end, "atexit")) atexit(finalize);
    if (!strncmp(end, "finalize", 8)) MPI_Finalize();
    if (!strcmp(end, "exit") || !strcmp(end, "finalize-exit")) gasnet_exit(code);
    return code;
}

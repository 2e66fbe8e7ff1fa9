/* 
 * Heat on a plate: explicit diffusion in two dimensions, distributed over the ranks of a GASNet-EX
 * job.
 *
 *   heat INPUT PICTURE.png
 *
 * Each rank owns a block of the plate. In every step it puts the edge of its block into the halo of
 * each neighbour (RMA), signals the neighbour (Active Message), computes the cells that need no
 * halo, waits for the neighbours' signals and computes the rest. At the end rank 0 gets all blocks,
 * compares the field with a serial run, bit by bit, and writes it as a picture.
 */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h> /* after gasnetex.h */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "picture.h"

/* A rank's view of one neighbour. */
typedef struct {
    int rank; /* -1: the edge of the plate */
    extent_t extent;
    memory_t memory;
    double *base; /* start of its communicated memory, as an address in that rank */
} neighbour_t;

typedef struct {
    gex_TM_t team;
    gex_Segment_t segment;
    int rank, size;
    problem_t problem;
    layout_t layout;
    block_t block;
    neighbour_t neighbours[SIDE_COUNT];
} job_t;

static const side_t opposite[SIDE_COUNT] = {SIDE_SOUTH, SIDE_NORTH, SIDE_EAST, SIDE_WEST};

/* Ends the job on every rank; rank 0 prints the message. All ranks call it together, or only the
 * one with the error. */
static void fail(const job_t *job, const char *message) {
    if (job->rank == 0) fprintf(stderr, "heat: %s\n", message);
    gasnet_exit(2);
}

static void barrier(const job_t *job) { gex_Event_Wait(gex_Coll_BarrierNB(job->team, 0)); }

/* ------------------------------------------------------------------------------------------------
 * signals */

/* Halos received from each side. Step s may use a side's halo when its count is above s. */
static gasnett_atomic_t halos_arrived[SIDE_COUNT] = {gasnett_atomic_init(0), gasnett_atomic_init(0),
                                                     gasnett_atomic_init(0), gasnett_atomic_init(0)};

static void halo_handler(gex_Token_t token, gex_AM_Arg_t side) {
    (void)token;
    gasnett_atomic_increment(&halos_arrived[side], GASNETT_ATOMIC_REL);
}

enum { HALO_HANDLER = GEX_AM_INDEX_BASE };

/* -------------------------------------------------------------------------------------------------
 * set-up */

/* Rank 0 reads the input and sends it to all. The result is malloc'ed, or NULL after rank 0 has
 * printed a message. */
static char *read_input(const job_t *job, const char *path) {
    int64_t length = -1;
    char *text = NULL;
    if (job->rank == 0) {
        FILE *file = fopen(path, "rb");
        if (file && fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && length < 1 << 20) {
            rewind(file);
            text = malloc((size_t)length + 1);
            if (!text || fread(text, 1, (size_t)length, file) != (size_t)length) length = -1;
        } else {
            length = -1;
        }
        if (file) fclose(file);
    }
    gex_Event_Wait(gex_Coll_BroadcastNB(job->team, 0, &length, &length, sizeof length, 0));
    if (length < 0) {
        free(text);
        return NULL;
    }
    if (!text) text = malloc((size_t)length + 1);
    if (!text) fail(job, "no memory for the input");
    if (length > 0) gex_Event_Wait(gex_Coll_BroadcastNB(job->team, 0, text, text, (size_t)length, 0));
    text[length] = '\0';
    return text;
}

static void load_problem(job_t *job, const char *path) {
    char error[512];
    char *text = read_input(job, path);
    if (!text) {
        snprintf(error, sizeof error, "cannot read %.400s (it must be a text file below 1 MiB)", path);
        fail(job, error);
    }
    if (problem_parse(&job->problem, text, path, error, sizeof error) != 0) fail(job, error);
    free(text);
    job->layout = layout_choose(&job->problem, job->size);
    if (job->layout.across == 0) {
        snprintf(error, sizeof error, "a plate of %d x %d cells cannot be divided among %d ranks; use fewer ranks",
                 job->problem.columns, job->problem.rows, job->size);
        fail(job, error);
    }
}

static double *segment_of(const job_t *job, int rank) {
    void *base = NULL;
    uintptr_t bytes = 0;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(job->team, (gex_Rank_t)rank, &base, NULL, &bytes, 0));
    return base;
}

static void set_up_block(job_t *job) {
    static gex_AM_Entry_t handlers[] = {
        {HALO_HANDLER, (gex_AM_Fn_t)halo_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "halo_handler"}};
    extent_t extent = layout_extent(&job->problem, job->layout, job->rank);
    uintptr_t bytes = memory_of(extent).total * sizeof(double);
    uintptr_t page = GASNET_PAGESIZE;

    if (gex_EP_RegisterHandlers(gex_TM_QueryEP(job->team), handlers, 1) != GASNET_OK)
        fail(job, "cannot register a handler");
    bytes = (bytes + page - 1) / page * page;
    if (bytes > gasnet_getMaxLocalSegmentSize()) fail(job, "the plate does not fit into the largest GASNet segment");
    if (gex_Segment_Attach(&job->segment, job->team, bytes) != GASNET_OK) fail(job, "cannot attach the segment");
    if (block_init(&job->block, &job->problem, extent, gex_Segment_QueryAddr(job->segment)) != 0)
        fail(job, "no memory");

    for (int side = 0; side < SIDE_COUNT; side++) {
        neighbour_t *neighbour = &job->neighbours[side];
        neighbour->rank = layout_neighbour(job->layout, job->rank, (side_t)side);
        if (neighbour->rank < 0) continue;
        neighbour->extent = layout_extent(&job->problem, job->layout, neighbour->rank);
        neighbour->memory = memory_of(neighbour->extent);
        neighbour->base = segment_of(job, neighbour->rank);
    }
    barrier(job); /* every halo is initialised before the first put arrives */
}

/* ------------------------------------------------------------------------------------------------
 * stepping */

/* Starts the put of the edge on `side` into the neighbour's halo of step `step`. */
static void put_edge(job_t *job, int step, side_t side) {
    const neighbour_t *neighbour = &job->neighbours[side];
    block_t *block = &job->block;
    double *source, *target;
    size_t cells;
    if (side == SIDE_NORTH || side == SIDE_SOUTH) {
        int own_row = side == SIDE_NORTH ? 0 : block->extent.height - 1;
        int halo_row = side == SIDE_NORTH ? neighbour->extent.height : -1;
        source = block->base + block->memory.fields[step % 2] + block_at(&block->extent, 0, own_row);
        target = neighbour->base + neighbour->memory.fields[step % 2] + block_at(&neighbour->extent, 0, halo_row);
        cells = (size_t)block->extent.width;
    } else {
        block_pack_column(block, step, side);
        source = block->base + block->memory.column_out[side == SIDE_EAST];
        target = neighbour->base + neighbour->memory.column_in[step % 2][opposite[side] == SIDE_EAST];
        cells = (size_t)block->extent.height;
    }
    gex_RMA_PutNBI(job->team, (gex_Rank_t)neighbour->rank, target, source, cells * sizeof(double), GEX_EVENT_DEFER, 0);
}

static int halos_complete(const job_t *job, int step) {
    for (int side = 0; side < SIDE_COUNT; side++)
        if (job->neighbours[side].rank >= 0 &&
            (int)gasnett_atomic_read(&halos_arrived[side], GASNETT_ATOMIC_ACQ) <= step)
            return 0;
    return 1;
}

/* 
 * One step. Two copies of a halo suffice: a neighbour writes the halo of step s + 2 only after it
 * has received this rank's signal for step s + 1, and this rank sends that signal after it has
 * finished with the halo of step s.
 */
static void take_step(job_t *job, int step) {
    for (int side = 0; side < SIDE_COUNT; side++)
        if (job->neighbours[side].rank >= 0) put_edge(job, step, (side_t)side);
    gex_NBI_Wait(GEX_EC_PUT, 0); /* the data has arrived ... */
    for (int side = 0; side < SIDE_COUNT; side++)
        if (job->neighbours[side].rank >= 0) /* ... so signal it: for the neighbour it came from the opposite side */
            gex_AM_RequestShort1(job->team, (gex_Rank_t)job->neighbours[side].rank, HALO_HANDLER, 0,
                                 (gex_AM_Arg_t)opposite[side]);

    block_sweep_inner(&job->block, step);
    GASNET_BLOCKUNTIL(halos_complete(job, step));
    for (int side = SIDE_WEST; side <= SIDE_EAST; side++)
        if (job->neighbours[side].rank >= 0) block_unpack_column(&job->block, step, (side_t)side);
    block_sweep_edge(&job->block, step);
}

/* -------------------------------------------------------------------------------------------------
 * results */

/* Copies the interior of a block's final field to its position in the whole field. */
static void place(const job_t *job, extent_t extent, const double *field, double *whole) {
    for (int y = 0; y < extent.height; y++)
        memcpy(whole + (size_t)(extent.y0 + y) * (size_t)job->problem.columns + (size_t)extent.x0,
               field + block_at(&extent, 0, y), (size_t)extent.width * sizeof(double));
}

/* Rank 0 gets every block's field. The result is malloc'ed. */
static double *gather(const job_t *job) {
    double *whole = malloc((size_t)job->problem.columns * (size_t)job->problem.rows * sizeof(double));
    double **fields = malloc((size_t)job->size * sizeof *fields);
    if (!whole || !fields) fail(job, "no memory for the whole plate");
    for (int rank = 0; rank < job->size; rank++) {
        extent_t extent = layout_extent(&job->problem, job->layout, rank);
        size_t bytes = ((size_t)extent.width + 2) * ((size_t)extent.height + 2) * sizeof(double);
        double *source = segment_of(job, rank) + memory_of(extent).fields[job->problem.steps % 2];
        fields[rank] = malloc(bytes);
        if (!fields[rank]) fail(job, "no memory for the whole plate");
        gex_RMA_GetNBI(job->team, fields[rank], (gex_Rank_t)rank, source, bytes, 0);
    }
    gex_NBI_Wait(GEX_EC_GET, 0);
    for (int rank = 0; rank < job->size; rank++) {
        place(job, layout_extent(&job->problem, job->layout, rank), fields[rank], whole);
        free(fields[rank]);
    }
    free(fields);
    return whole;
}

/* The same computation in one block. The result is malloc'ed. */
static double *run_serial(const job_t *job) {
    const problem_t *problem = &job->problem;
    layout_t one = {1, 1};
    extent_t extent = layout_extent(problem, one, 0);
    double *whole = malloc((size_t)problem->columns * (size_t)problem->rows * sizeof(double));
    double *base = malloc(memory_of(extent).total * sizeof(double));
    block_t block;
    if (!whole || !base || block_init(&block, problem, extent, base) != 0) fail(job, "no memory for the serial run");
    for (int step = 0; step < problem->steps; step++) block_sweep(&block, step, 0, 0, extent.width, extent.height);
    place(job, extent, base + block.memory.fields[problem->steps % 2], whole);
    block_free(&block);
    free(base);
    return whole;
}

/* Prints the comparison and returns the number of cells that differ. */
static size_t compare(const job_t *job, const double *parallel, const double *serial) {
    size_t cells = (size_t)job->problem.columns * (size_t)job->problem.rows, different = 0;
    double worst = 0, low = parallel[0], high = parallel[0], sum = 0;
    for (size_t i = 0; i < cells; i++) {
        if (memcmp(&parallel[i], &serial[i], sizeof(double)) != 0) different++;
        if (fabs(parallel[i] - serial[i]) > worst) worst = fabs(parallel[i] - serial[i]);
        if (parallel[i] < low) low = parallel[i];
        if (parallel[i] > high) high = parallel[i];
        sum += parallel[i];
    }
    printf("temperature   %.3f lowest, %.3f mean, %.3f highest\n", low, sum / (double)cells, high);
    if (different == 0) printf("verified      all %zu cells are equal to the serial run, bit for bit\n", cells);
    else printf("WRONG         %zu of %zu cells differ from the serial run, by up to %g\n", different, cells, worst);
    return different;
}

static int report(const job_t *job, double parallel_seconds, const char *picture) {
    double *whole = gather(job);
    gasnett_tick_t begin = gasnett_ticks_now();
    double *serial = run_serial(job);
    double serial_seconds = (double)gasnett_ticks_to_ns(gasnett_ticks_now() - begin) * 1e-9;
    double updates = (double)job->problem.columns * job->problem.rows * job->problem.steps * 1e-6;
    printf("plate         %d x %d cells, %d steps\n", job->problem.columns, job->problem.rows, job->problem.steps);
    printf("ranks         %d, as %d across and %d down\n", job->size, job->layout.across, job->layout.down);
    printf("time          %.3f s (%.0f million cell updates per second); the serial run took %.3f s\n",
           parallel_seconds, updates / parallel_seconds, serial_seconds);
    size_t different = compare(job, whole, serial);
    int written = picture_write(picture, &job->problem, whole);
    if (written == 0) printf("picture       %s\n", picture);
    else fprintf(stderr, "heat: cannot write the picture %s\n", picture);
    fflush(stdout);
    free(whole);
    free(serial);
    return different == 0 && written == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    static job_t job;
    gex_Client_t client;
    gex_EP_t endpoint;
    int status = 0;
    if (gex_Client_Init(&client, &endpoint, &job.team, "HEAT2D", &argc, &argv, 0) != GASNET_OK) return 2;
    job.rank = (int)gex_TM_QueryRank(job.team);
    job.size = (int)gex_TM_QuerySize(job.team);
    if (argc != 3) fail(&job, "usage: heat INPUT PICTURE.png");

    load_problem(&job, argv[1]);
    set_up_block(&job);
    gasnett_tick_t begin = gasnett_ticks_now();
    for (int step = 0; step < job.problem.steps; step++) take_step(&job, step);
    barrier(&job); /* every block is final before rank 0 reads it */
    double seconds = (double)gasnett_ticks_to_ns(gasnett_ticks_now() - begin) * 1e-9;

    if (job.rank == 0) status = report(&job, seconds, argv[2]);
    /* All ranks exit with rank 0's status. */
    gex_Event_Wait(gex_Coll_BroadcastNB(job.team, 0, &status, &status, sizeof status, 0));
    block_free(&job.block);
    gasnet_exit(status);
    return status;
}

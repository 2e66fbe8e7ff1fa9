/* mpi: what MPI allows between two processes of this host, without GASNet: the program that
 * conduit-mpi is compared with.
 *
 *   mpicc -O2 -I programs/perf programs/benches/{mpi,raw}.c programs/perf/limits.c -o mpi
 *   mpiexec -n 2 ./mpi [-y] [-n ROUNDS]
 *
 *   -y  yield between empty polls; the default spins unless both processes share a core
 *   -n  rounds in each of 11 blocks; a printed time is the median of the blocks
 *
 * One thread of each process calls MPI. Messages meet posted receives; puts and gets go to memory
 * of MPI_Win_allocate, locked once. Every failure ends both processes. */
#define _GNU_SOURCE
#include "limits.h"
#include "raw.h"

#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSTED = 512, SLOT = 8192 }; /* receives; bytes of the largest message */

static MPI_Win window;
static char *source;        /* LARGEST bytes */
static char (*slots)[SLOT]; /* of the receives */
static MPI_Request receives[POSTED], operations[WINDOW];
static int oldest; /* receive that the next message meets */

static void post(int slot) { MPI_Irecv(slots[slot], SLOT, MPI_BYTE, !rank, 0, MPI_COMM_WORLD, &receives[slot]); }

void poll_library(void) {
    int is_done;
    MPI_Test(&receives[oldest], &is_done, MPI_STATUS_IGNORE);
    if (is_done) {
        post(oldest);
        oldest = (oldest + 1) % POSTED;
        received++;
    } else if (options.yield) {
        sched_yield();
    }
}

void send_message(size_t bytes) { MPI_Send(source, (int)bytes, MPI_BYTE, !rank, 0, MPI_COMM_WORLD); }

void flush(void) { MPI_Win_flush(1, window); }

void put(size_t bytes, int slot) {
    MPI_Rput(source, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window, &operations[slot]);
}

void get(size_t bytes, int slot) {
    MPI_Rget(source, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window, &operations[slot]);
}

void complete(int slot) { MPI_Wait(&operations[slot], MPI_STATUS_IGNORE); }

void put_whole(size_t bytes) {
    MPI_Put(source, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
    flush();
}

void get_whole(size_t bytes) {
    MPI_Get(source, (int)bytes, MPI_BYTE, 1, 0, (int)bytes, MPI_BYTE, window);
    flush();
}

void add_one(size_t bytes) {
    static uint64_t one = 1, result;
    (void)bytes;
    MPI_Fetch_and_op(&one, &result, MPI_UINT64_T, 1, 0, MPI_SUM, window);
    flush();
}

static void open_memory(void) {
    void *target;
    MPI_Win_allocate(LARGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &target, &window);
    memset(target, 0, LARGEST);
    source = calloc(1, LARGEST);
    slots = calloc(POSTED, SLOT);
    if (source == NULL || slots == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    for (int slot = 0; slot < POSTED; slot++) post(slot);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int size, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    read_options(argc, argv, "mpi", false);
    if (size != 2) {
        fprintf(stderr, "mpi: 2 processes are expected, not %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bind_to_core(rank);
    open_memory();
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    if (rank == 0) printf("# %s, %s\n", version, options.yield ? "yields" : "spins");
    measure();
    for (int slot = 0; slot < POSTED; slot++) {
        MPI_Cancel(&receives[slot]);
        MPI_Wait(&receives[slot], MPI_STATUS_IGNORE);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}

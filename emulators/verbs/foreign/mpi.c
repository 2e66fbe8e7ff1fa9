// mpi.c: two-sided, collective and one-sided communication of MPI between all ranks, with data that
// tell where they come from. Prints "right" once.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, CELLS = 1 << 16, ADDITIONS = 20 };

static unsigned char sent[MOST], got[MOST];
static int rank, ranks;

static void must(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char byte(int from, int size, int i) { return (unsigned char)(31 * from + 7 * size + i + i / 251); }

// Each sends `size` bytes to the next in a ring.
static void ring(int size, int tag) {
    int i, count, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Status status;
    for (i = 0; i < size; i++) sent[i] = byte(rank, size + tag, i);
    for (i = 0; i < size; i++) got[i] = 0xee;
    MPI_Sendrecv(sent, size, MPI_BYTE, next, tag, got, MOST, MPI_BYTE, last, tag, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    must(count == size, "length of a message");
    for (i = 0; i < size; i++) must(got[i] == byte(last, size + tag, i), "data of a message");
}

// Every size class, small ones several times.
static void messages(void) {
    int bit, more, tag;
    ring(0, 0);
    for (bit = 0; bit < 20; bit++)
        for (more = 0; more < 2; more++)
            for (tag = 0; tag < (bit < 12 ? 8 : 1); tag++) ring((1 << bit) + more, tag);
    ring(MOST, 0);
}

static void collectives(void) {
    static double in[CELLS], out[CELLS];
    int i;
    for (i = 0; i < CELLS; i++) in[i] = rank + i;
    MPI_Allreduce(in, out, CELLS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < CELLS; i++) must(out[i] == ranks * (ranks - 1) / 2 + (double)i * ranks, "sum");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void windows(void) {
    long *memory, one = 1, old;
    MPI_Win window;
    int i, next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Win_allocate(CELLS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    memset(memory, 0, CELLS * sizeof *memory);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < CELLS; i++) ((long *)sent)[i] = 1000L * rank + i;
    MPI_Win_fence(0, window);
    MPI_Put((long *)sent + 1, CELLS - 1, MPI_LONG, next, 1, CELLS - 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (i = 1; i < CELLS; i++) must(memory[i] == 1000L * last + i, "put");
    MPI_Get(got, CELLS - 1, MPI_LONG, next, 1, CELLS - 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (i = 0; i < CELLS - 1; i++) must(((long *)got)[i] == 1000L * rank + i + 1, "get");
    MPI_Win_fence(0, window);
    MPI_Win_lock_all(0, window);
    for (i = 0; i < ADDITIONS; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        must(memory[0] == (long)ranks * ADDITIONS, "additions");
        MPI_Win_unlock(0, window);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    messages();
    collectives();
    if (argc < 2) windows();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("right\n");
    MPI_Finalize();
    return 0;
}

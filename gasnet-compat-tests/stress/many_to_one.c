// All ranks send requests to rank 0, which computes between its polls: what waits for it stays
// within a bound. The first argument is the number of requests of each sender. With IN_MPI
// (launch/test_mpi.py), rank 0 is in MPI meanwhile, which takes what arrives.
// NP: 2 4
// TIMEOUT: 120
#include "check.h"
#ifdef IN_MPI
#include <mpi.h>
enum { MOST_KB = 8 * 1024 };
#else
enum { MOST_KB = 64 * 1024 };
#endif

enum { NOTE = 200, BYTES = 256, PAUSES = 20 };
static unsigned arrived;

static void on_note(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t rank) {
    CHECK(bytes == BYTES && *(unsigned char *)payload == (unsigned char)rank);
    ATOMIC_ADD(&arrived, 1U);
}

/* The most memory that this process has had, in kB; 0 where the system does not tell. */
static long peak(void) {
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (file) fclose(file);
    return kb;
}

static void compute(void) {
#ifdef IN_MPI
    double start = MPI_Wtime();
    int any;
    while (MPI_Wtime() < start + 0.02) MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
#else
    usleep(20000);
#endif
}

int main(int argc, char **argv) {
    char payload[BYTES];
    test_init("many_to_one", &argc, &argv);
    unsigned each = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    register_handler(NOTE, (gex_AM_Fn_t)on_note, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    test_attach(65536);
    memset(payload, (int)me, sizeof payload);
    long before = peak();
    barrier();
    PHASE("requests");
    if (me == 0) {
        for (unsigned pause = 0; pause < PAUSES; pause++) {
            compute();
            gasnet_AMPoll();
        }
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == each * (np - 1));
        CHECKF(peak() - before < MOST_KB, "%ld kB came to %ld kB", peak() - before, before);
        printf("%u requests: %ld kB, before %ld kB\n", each * (np - 1), peak(), before);
    } else {
        for (unsigned sent = 0; sent < each; sent++)
            gex_AM_RequestMedium1(tm, 0, NOTE, payload, sizeof payload, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
    }
    return test_finish();
}

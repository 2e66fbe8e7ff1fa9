/* gasnet_perf: what the parts of the program share. A test is a function that does an operation so many times; measure.c finds out how many times
 * make a block of a few milliseconds, repeats blocks, and takes the median. Only public GASNet interfaces are used, so that the program builds over
 * any library that has them. */
#ifndef GASNET_PERF_H
#define GASNET_PERF_H

#include <gasnet_coll.h>
#include <gasnetex.h>

#include "limits.h"

#include <stdio.h>

/* Who is active in a test. */
enum shape {
    PAIRS,  /* the ranks of the lower half, each towards one of the upper half; a single rank towards itself */
    ROUNDS, /* the same pairs, but both take part in every operation */
    BOTH,   /* the same pairs, both active */
    ALL     /* all ranks, in one collective operation */
};

/* What a worker (a thread of an active rank) works with. */
struct worker {
    const struct test *test;
    gex_Rank_t peer;
    int thread;
    size_t bytes;
    char *local;        /* memory of its own, outside the segment */
    char *remote;       /* its part of the peer's segment, as the peer addresses it */
    char *own;          /* the same part of the own segment */
    size_t room;        /* bytes in each of the two */
    size_t step;        /* between places for data of `bytes` */
    size_t places;      /* such places, a power of two, less one: a division would take as long as a small put */
    unsigned long turn; /* counts operations: addresses and values follow it */
    char apart[128];    /* threads count at the same time */
};

enum {
    MANY_BYTES = 1,
    THREADS = 2,
    MEDIUM = 4,
    LONG = 8,
    PREPARED_MEDIUM = 16,
    PREPARED_LONG = 32,
    GATHERS = 64,
    WORDS = 128,
    ROWS = 256,
    PLANES = 512
};

struct test {
    const char *name;
    const char *about;
    enum shape shape;
    int flags;          /* MANY_BYTES: for a range of sizes. THREADS: several threads may. GATHERS: of every rank.
                           * WORDS, ROWS, PLANES: whole words of 8 bytes, rows of 64, and from 1024 on planes of that.
                           * The others: no larger than such a message. */
    size_t least, most; /* sizes that it can have, with MANY_BYTES */
    int variant;        /* what the function shall do, where one serves several tests */
    void (*run)(struct worker *worker, long count);
    const char *limit; /* what of the machine bounds it ("memcpy", "ping-pong", "yield-barrier"), or NULL */
};

/* The job. */
extern gex_Client_t client;
extern gex_EP_t ep;
extern gex_TM_t tm;
extern gex_Rank_t me, np;

/* Ends the program after an error, and the job if there is one. */
void give_up(void);

/* What the user asked for. */
struct options {
    const char *wanted; /* names or beginnings of names, with commas; NULL for all */
    size_t least, most; /* sizes */
    int blocks;
    double block_ms;
    int window; /* operations in flight */
    int threads;
    int limits;
    int pin;        /* rank i on core i */
    int in_segment; /* local buffers, too */
    const char *json, *svg;
    int start[16], starts; /* ranks of jobs to start, and how many such numbers */
    const char *launcher;  /* a command that starts them, %d for the number of ranks */
    int wait_mode;         /* of gasnet_set_waitmode, or -1 */
    int in_job;            /* this is such a job */
};
extern struct options options;

/* The tables of tests, each ended by one without name. */
extern const struct test am_tests[], rma_tests[], scattered_tests[], atomic_tests[], group_tests[];
/* Registers handlers, makes domains and teams. Collective, before any test. */
void am_setup(void);
void atomic_setup(void);

/* measure.c */
struct result {
    const struct test *test;
    size_t bytes;
    gex_Rank_t ranks;
    int threads;
    double us;         /* median time of an operation */
    double low, high;  /* quartiles */
    double least;      /* the shortest time */
    double per_second; /* operations of all active workers */
    double limit;      /* microseconds that the machine needs for as much; 0 if unknown */
};
/* Measures; the result means something on rank 0. Collective. */
struct result measure(const struct test *test, size_t bytes);
void barrier(void);
const char *conduit_name(void);

/* report.c: rank 0 only. */
FILE *report_table(void); /* where the table goes */
void report_begin(void);
void report_result(const struct result *result);
void report_end(void);
FILE *report_file(const char *name); /* ends the program if that fails */
void report_close(FILE *file, const char *name);

/* start.c: without a job, and the part that each job does. */
void start_measure(void);
void start_in_job(void);

#endif

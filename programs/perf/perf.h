/* gasnet_perf: shared declarations. A test is a function that performs an operation a number of
 * times. measure.c finds the number for a block of a few milliseconds, repeats blocks, and takes
 * the median. The program uses public GASNet interfaces only, so that it builds over any GASNet
 * library. */
#ifndef GASNET_PERF_H
#define GASNET_PERF_H

#include <gasnet_coll.h>
#include <gasnetex.h>

#include "limits.h"

#include <stdio.h>

/* The active ranks of a test. */
enum shape {
    PAIRS,  /* each rank of the lower half works with one of the upper half; a single rank with itself */
    ROUNDS, /* the same pairs; both take part in every operation */
    BOTH,   /* the same pairs, both active */
    ALL     /* all ranks, in one collective operation */
};

/* A worker: a thread of an active rank. */
struct worker {
    const struct test *test;
    gex_Rank_t peer;
    int thread;
    size_t bytes;
    char *local;  /* its memory outside the segment */
    char *remote; /* its part of the peer's segment, in the peer's address space */
    char *own;    /* the same part of this rank's segment */
    size_t room;  /* bytes of each part */
    size_t step;  /* distance between slots for data of `bytes` */
    size_t
        /* number of slots, a power of two, minus 1: used as a mask, because a division takes as
         * long as a small put */
        places;
    unsigned long turn; /* counts operations; addresses and values derive from it */
    char padding[128];  /* padding: threads count concurrently */
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
    size_t least, most; /* range of sizes, with MANY_BYTES */
    int variant;        /* selects the operation, if a function serves several tests */
    void (*run)(struct worker *worker, long count);
    const char *limit; /* limit of the machine that applies ("memcpy", "ping-pong", "yield-barrier"), or NULL */
};

/* The job. */
extern gex_Client_t client;
extern gex_EP_t ep;
extern gex_TM_t tm;
extern gex_Rank_t me, np;

/* Ends the program, and its job, after an error. */
void give_up(void);

/* The command line. */
struct options {
    const char *wanted; /* names or prefixes, separated by commas; NULL for all */
    size_t least, most; /* sizes */
    int blocks;
    double block_ms;
    int window; /* operations in flight */
    int threads;
    int limits;
    int pin;        /* rank i on core i */
    int in_segment; /* local buffers, too */
    const char *json, *svg, *html;
    char *reports;         /* files of earlier runs to draw instead of measuring, separated by commas */
    int start[16], starts; /* numbers of ranks of the jobs to start, and their count */
    const char *launcher;  /* command that starts them; %d is the number of ranks */
    int wait_mode;         /* of gasnet_set_waitmode, or -1 */
    int in_job;            /* whether this is such a job */
};
extern struct options options;

/* The tables of tests; the last entry has no name. */
extern const struct test am_tests[], rma_tests[], scattered_tests[], atomic_tests[], group_tests[];
/* Registers handlers, creates atomic domains. Collective, before the tests. */
void am_setup(void);
void atomic_setup(void);

/* measure.c */
struct result {
    const struct test *test;
    size_t bytes;
    gex_Rank_t ranks;
    int threads;
    struct figures us; /* times of an operation */
    double per_second; /* operations of all active workers */
    double limit;      /* microseconds at the limit of the machine; 0 if unknown */
};
/* Measures; the result is valid on rank 0. Collective. */
struct result measure(const struct test *test, size_t bytes);
void barrier(void);
const char *conduit_name(void);

/* report.c: rank 0 only. */
FILE *report_table(void); /* output of the table */
void report_begin(void);
void report_progress(const char *format, ...); /* a line on a terminal, until the next output or call */
void report_erase(void);
void report_result(const struct result *result);
void report_end(void);
FILE *report_file(const char *name); /* ends the program on failure */
void report_close(FILE *file, const char *name);
void report_figures(FILE *out, struct figures us); /* members of an object of JSON */

/* html.c: a page of reports, as --json writes them. */
struct report {
    const char *name;
    char *text;
};
void html_write(FILE *out, const struct report *reports, int count);
void html_compare(char *names, const char *to); /* of files */

/* start.c: the process without a job, and the part inside each job. */
void start_measure(void);
void start_in_job(void);

#endif

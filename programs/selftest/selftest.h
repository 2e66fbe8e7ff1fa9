/* gasnet_selftest: shared declarations. A test runs on all ranks at once, for its share of the
 * time; it names each operation (`step`) before the call, and reports what it finds wrong (`fail`).
 * The program uses public GASNet interfaces only, in thread mode PAR. */
#ifndef GASNET_SELFTEST_H
#define GASNET_SELFTEST_H

#include <gasnet_coll.h>
#include <gasnetex.h>

#include <stdio.h>

enum { GUARD = 64, TEXT = 400, LINE = 64 };

/* An operation: names a failure and a wait. */
struct step {
    const char *operation;
    const char *memory; /* kind of the local memory, or NULL */
    const char *class;  /* why this size is tested, or NULL */
    size_t bytes;
    unsigned local, remote; /* distance of both ends from a multiple of LINE */
    gex_Rank_t peer;        /* GEX_RANK_INVALID: all ranks */
};

/* main.c */
extern gex_Client_t client;
extern gex_EP_t ep;
extern gex_TM_t tm;
extern gex_Rank_t me, np;
struct options {
    int quick;
    double seconds; /* for all tests */
    double limit;   /* seconds without progress until a test fails */
    uint64_t seed;
    const char *report; /* files are this name with .txt and .json */
    const char *wanted;
    int exit_code; /* -1: runs the tests */
};
extern struct options options;
double now(void); /* seconds */
const char *conduit_name(void);
void barrier(void);
enum { MOST_SUMS = 8 };
/* Adds up over all ranks; collective. Returns 0, and fails the test, if the sums are damaged. */
int add_all(uint64_t *values, size_t count);
void add_handlers(gex_AM_Entry_t *table, size_t count);
/* The whole team, in turns: in each, rank i works with rank i + shift, and no other rank does. */
struct test;
void in_turns(const struct test *test, void (*work)(const struct test *test, gex_Rank_t peer, double until),
              double until);
double test_ends(void);                   /* the end of the test's share of the time */
void end_turns(size_t turns, size_t all); /* reports that a test did not come to all of its cases in time */

struct test {
    const char *name, *about;
    int weight; /* share of the time */
    int variant;
    void (*run)(const struct test *test);
    const char *(*obstacle)(const struct test *test); /* the reason to skip, or NULL */
};
/* Tables of tests; the last entry has no name. */
extern const struct test storm_tests[], layout_tests[], transfer_tests[], memory_tests[], message_tests[],
    order_tests[], atomic_tests[], pressure_tests[], device_tests[], exit_tests[];

/* plan.c: sizes around each cut-over, in an order that covers all magnitudes early. */
struct size {
    size_t bytes;
    const char *class;
};
void plan_setup(void);
size_t plan_count(void);
struct size plan_size(size_t turn, size_t most);
unsigned plan_alignment(size_t turn); /* of both ends: LINE * remote + local */
uint64_t next_seed(void);             /* 32 bits, another for each transfer */
uint64_t next_random(uint64_t *state);

/* patterns.c: each byte depends on a seed and on its position. */
struct finding {
    size_t wrong;
    long first; /* position of the first wrong byte */
    unsigned char is, expected;
};
void fill(void *to, size_t bytes, uint64_t seed, size_t position);
void check(struct finding *found, const void *at, size_t bytes, uint64_t seed, size_t position);

/* segment.c: the parts of each rank's segment. */
enum { LANDING, SOURCE, LOCAL, CONTROL, PARTS };
size_t most_bytes(void); /* the largest transfer */
size_t segment_bytes(void);
void segment_setup(void);
char *part_of(gex_Rank_t rank, int part);
size_t place_for(uint64_t seed, unsigned align); /* a place within a part, at the alignment of the other end */
size_t part_offset(const void *own_address);     /* within LANDING */
/* Checks what has landed and its surroundings, and restores the background. */
struct finding landed(size_t offset, size_t bytes, uint64_t seed);

/* answers.c: a request that another rank answers with what it found. */
int expect_answer(void); /* its number */
void answer(int number, struct finding found);
struct finding wait_for_answer(int number);
struct finding landed_at(gex_Rank_t peer, size_t offset, size_t bytes, uint64_t seed);
void send_answer(gex_Token_t token, int number, struct finding found);
void judge(const struct step *s, struct finding found); /* `fail`, if something is wrong */
void answers_setup(void);

/* memory.c: kinds of local memory. */
enum { HEAP, SEGMENT, STACK, STATIC, READ_ONLY, HUGE_PAGES, FORKED, SHARED, REMAPPED, MEMORIES };
extern const char *const memory_names[MEMORIES];
enum { AROUND = 2 * GUARD + LINE };    /* bytes of local memory beside the data */
char *memory_of(int kind);             /* most_bytes() + AROUND, or fewer for some kinds; of HEAP and SEGMENT */
void memory_open(int kind, char *at);  /* before data are written there */
void memory_close(int kind, char *at); /* after that */

/* transfers.c, messages.c: one operation with its check, `local` of a kind of memory. */
struct local {
    int kind;
    char *at;
};
extern const int some_put, some_get, some_long;
void transfer(int form, struct local local, gex_Rank_t peer, struct size size, unsigned align);
void message(int form, struct local local, gex_Rank_t peer, struct size size, unsigned align);
size_t most_of_message(int form, gex_Rank_t peer);
void messages_setup(void);
void pressure_setup(void);

/* watch.c: ends the job when an operation does not; names the operation when the library aborts. */
void step(const struct step *s);
void waiting(const char *what, double seconds); /* for all ranks, which may take so long */
void watch_test(const struct test *test);
void watch_start(void);
void watch_stop(void);
void watch_setup(void);

/* report.c: failures are collected on rank 0. */
enum { PASS, FAIL, SKIP, NOT_RUN, UNDER_WAY };
int describe(char *text, size_t size, const struct step *s); /* returns the length */
void fail(const struct step *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note(const char *text); /* a reason of this rank to fail or to skip the test */
void report_setup(const struct test **tests, size_t count);
void report_started(void); /* all ranks are there */
void report_begin(const struct test *test);
void report_forget(void); /* removes the report of an earlier job */
void report_result(int result, uint64_t cases, uint64_t failures, int is_short, double seconds);
int report_end(int complete); /* the exit code */
void report_late(void);
void report_hang(const char *text); /* after report_late */
/* Counts of this rank since the last call. */
uint64_t take_cases(void);
uint64_t take_notes(void);
uint64_t take_failures(void);
void report_await(uint64_t notes_of_all);
void report_unsound(void);   /* the last test fails */
void report_unsettled(void); /* how many notes there are in all is unknown from now on */
void report_handlers(void);

/* facts.c: versions, hosts, limits and settings. */
void facts_setup(void);
void facts_gather(void); /* collective */
void facts_ask(void);    /* gasnet_info, which takes a while */
const char *host_of(gex_Rank_t rank);
const char *path_to(gex_Rank_t rank); /* self, neighbour or network */
void facts_text(FILE *out);
void facts_info(FILE *out); /* gasnet_info */
void facts_json(FILE *out);
void json_string(FILE *out, const char *text);

#endif

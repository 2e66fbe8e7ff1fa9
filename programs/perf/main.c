/* gasnet_perf: measures the performance of GASNet operations. */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gex_Client_t client;
gex_EP_t ep;
gex_TM_t tm;
gex_Rank_t me, np;
struct options options = {
    .least = 8, .most = (size_t)4 << 20, .blocks = 11, .block_ms = 4, .window = 64, .threads = 1, .wait_mode = -1};
static struct limits limits;

static const struct test *const tables[] = {am_tests, rma_tests, scattered_tests, atomic_tests, group_tests};
enum { TABLES = sizeof tables / sizeof tables[0], MOST_THREADS = 1024 };

const char *conduit_name(void) {
#ifdef GASNETI_LIBRARY_VERSION
    return gasnetx_System_QueryConduit();
#else
    return GASNET_CONDUIT_NAME_STR;
#endif
}

static const char usage[] =
    "usage: gasnetrun -n <n> gasnet_perf [options] [test[,test...]]\n"
    "       gasnet_perf --start <n>[,<n>...] [--launcher COMMAND] [-b JOBS] [--json FILE]\n"
    "       gasnet_perf --html FILE --reports JSON[,JSON...]\n"
    "Measures GASNet operations between the ranks of a job. A test is a name, or a prefix of several names; "
    "without one all tests run.\n"
    "  -l, --list         print names and descriptions of the tests\n"
    "  -m FROM:TO         sizes in bytes, doubling from FROM to TO (8:4M)\n"
    "  -b BLOCKS          blocks of operations; the result is their median (11)\n"
    "  -d MS              duration of a block in milliseconds (4)\n"
    "  -w COUNT           operations in flight in tests with a window (64)\n"
    "  -t THREADS         threads of each active rank that run the test concurrently (1)\n"
    "  -p, --pin          bind rank i to core i of those that it may use, modulo their number\n"
    "  -s, --segment      also allocate the local buffers in the segment\n"
    "  --wait MODE        gasnet_set_waitmode: spin, block or spinblock; by default the policy of the library\n"
    "  --limits           measure the limits of the machine first, and print ratios to them\n"
    "  --start RANKS      start jobs with these numbers of ranks, one after the other: time to the first line and to "
    "the end, "
    "memory of the ranks\n"
    "  --launcher COMMAND command that starts them, with %d for the number of ranks: \"gasnetrun -n %d\"; by default "
    "GASNET_PSHM_NODES is set\n"
    "  --json FILE        also write the results as JSON; - is standard output\n"
    "  --svg FILE         also write them as plots\n"
    "  --html FILE        also write them as a page with curves beside the limits of the machine\n"
    "  --reports FILES    measure nothing: compare files of --json on the page of --html, to the first\n"
    "  -h, --help         print this text\n"
    "The exit status is 0, 1 if the job or a file fails, 2 for invalid options.\n";

void give_up(void) {
    if (client != NULL) gasnet_exit(1);
    exit(1);
}

/* A wrong option: prints a message and ends the process. Called before the job starts, perhaps in
 * every rank. */
static void wrong(const char *what, const char *value) {
    fprintf(stderr, "gasnet_perf: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", usage);
    exit(2);
}

static size_t size(const char *text, const char **end) {
    static const char units[] = "kKmMgG";
    const char *unit;
    char *rest;
    unsigned long long value;
    errno = 0;
    value = strtoull(text, &rest, 10);
    if (rest == text || errno != 0 || *text == '-') wrong("a number of bytes is expected, for example 64 or 4M", text);
    if (value > (1ULL << 30)) wrong("sizes end at 1G", text);
    unit = *rest != '\0' ? strchr(units, *rest) : NULL;
    if (unit != NULL) {
        value <<= 10 * (1 + (unit - units) / 2);
        rest++;
    }
    *end = rest;
    if (value > (1ULL << 30)) wrong("sizes end at 1G", text);
    return (size_t)value;
}

static long number(const char *text, long least, long most) {
    char *rest;
    long value = strtol(text, &rest, 10);
    if (*text == '\0' || *rest != '\0' || value < least || value > most) {
        char what[80];
        snprintf(what, sizeof what, "a whole number from %ld to %ld is expected", least, most);
        wrong(what, text);
    }
    return value;
}

static int wait_mode(const char *word) {
    if (strcmp(word, "spin") == 0) return GASNET_WAIT_SPIN;
    if (strcmp(word, "block") == 0) return GASNET_WAIT_BLOCK;
    if (strcmp(word, "spinblock") == 0) return GASNET_WAIT_SPINBLOCK;
    wrong("spin, block or spinblock is expected", word);
    return -1;
}

/* Numbers of ranks, separated by commas. */
static void read_starts(char *text) {
    char *word;
    int room = sizeof options.start / sizeof options.start[0];
    for (word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        if (options.starts == room) wrong("too many numbers of ranks", word);
        options.start[options.starts++] = (int)number(word, 1, 1 << 20);
    }
    if (options.starts == 0) wrong("numbers of ranks are expected", NULL);
}

/* The number of tests that the first `length` characters of `word` name, exactly or as a prefix. */
static int named(const char *word, size_t length, int whole) {
    int found = 0, t;
    const struct test *test;
    for (t = 0; t < TABLES; t++) {
        for (test = tables[t]; test->name != NULL; test++) {
            found += strncmp(test->name, word, length) == 0 && (!whole || test->name[length] == '\0');
        }
    }
    return found;
}

/* Whether a test is selected. An exact name does not select longer names. */
static int is_wanted(const char *name) {
    const char *at = options.wanted;
    if (at == NULL) return 1;
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        if (strncmp(name, at, length) == 0 && (name[length] == '\0' || !named(at, length, 1))) return 1;
        at += length + (at[length] == ',');
    }
    return 0;
}

/* Every word must select a test. */
static void check_names(void) {
    const char *at = options.wanted;
    if (at != NULL && *at == '\0') wrong("the name of a test is empty", NULL);
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ",");
        if (length == 0 || !named(at, length, 0)) wrong("no such test; --list prints their names", at);
        at += length + (at[length] == ',');
    }
}

static void list(void) {
    int t;
    const struct test *test;
    for (t = 0; t < TABLES; t++) {
        for (test = tables[t]; test->name != NULL; test++) printf("%-18s %s\n", test->name, test->about);
    }
    printf("Times are per operation. Ranks work in pairs, one of the lower half with one of the upper half; barriers, "
           "collectives and teams use all ranks.\n");
    exit(0);
}

static void read_sizes(const char *text) {
    const char *end;
    options.least = options.most = size(text, &end);
    if (*end == ':') options.most = size(end + 1, &end);
    if (*end != '\0' || options.least > options.most || options.least == 0)
        wrong("FROM:TO is expected, with FROM at least 1", text);
}

static void read_tests(const char *text) {
    if (options.wanted != NULL) wrong("separate the names of tests by commas", text);
    options.wanted = text;
}

/* Codes of the options without a letter. */
enum { LIMITS = 256, IN_JOB, WAIT, START, LAUNCHER, JSON, SVG, HTML, REPORTS };
static const struct option names[] = {
    {"list", no_argument, NULL, 'l'},
    {"pin", no_argument, NULL, 'p'},
    {"segment", no_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},
    {"limits", no_argument, NULL, LIMITS},
    {"in-job", no_argument, NULL, IN_JOB},
    {"wait", required_argument, NULL, WAIT},
    {"launcher", required_argument, NULL, LAUNCHER},
    {"start", required_argument, NULL, START},
    {"json", required_argument, NULL, JSON},
    {"svg", required_argument, NULL, SVG},
    {"html", required_argument, NULL, HTML},
    {"reports", required_argument, NULL, REPORTS},
    {NULL, 0, NULL, 0},
};

static void read_options(int argc, char **argv) {
    int option = 0;
    /* With some networks the first argument is the number of ranks; the ranks themselves do not get
     * it. */
    optind = argc > 1 && argv[1][0] && strspn(argv[1], "0123456789") == strlen(argv[1]) ? 2 : 1;
    while (option != -1) {
        const char *word = argv[optind]; /* holds the option of an error */
        option = getopt_long(argc, argv, "-:lpshm:b:d:w:t:", names, NULL);
        switch (option) {
            case -1: break;
            case 'l': list(); break;
            case 'h': fputs(usage, stdout); exit(0);
            case 'p': options.pin = 1; break;
            case 's': options.in_segment = 1; break;
            case 'm': read_sizes(optarg); break;
            case 'b': options.blocks = (int)number(optarg, 1, 100000); break;
            case 'd': options.block_ms = (double)number(optarg, 1, 100000); break;
            case 'w': options.window = (int)number(optarg, 1, 65536); break;
            case 't': options.threads = (int)number(optarg, 1, MOST_THREADS); break;
            case LIMITS: options.limits = 1; break;
            case IN_JOB: options.in_job = 1; break;
            case WAIT: options.wait_mode = wait_mode(optarg); break;
            case START: read_starts(optarg); break;
            case LAUNCHER: options.launcher = optarg; break;
            case JSON: options.json = optarg; break;
            case SVG: options.svg = optarg; break;
            case HTML: options.html = optarg; break;
            case REPORTS: options.reports = optarg; break;
            case 1: read_tests(optarg); break;
            case ':': wrong("an option without its value", word); break;
            default: wrong("an unknown option", word);
        }
    }
    while (optind < argc) read_tests(argv[optind++]);
    check_names();
    if (options.starts > 0 && (options.svg != NULL || options.html != NULL)) wrong("--start cannot write plots", NULL);
    if (options.reports != NULL && options.html == NULL) wrong("--reports needs --html", NULL);
    if (options.html != NULL) options.limits = 1; /* the curves beside the results */
#ifndef GASNET_PAR
    if (options.threads > 1) wrong("several threads need a library of thread mode PAR", NULL);
#endif
}

/* The largest size of a test, the same on all ranks. */
static size_t largest(const struct test *test, size_t share) {
    size_t most = test->most < options.most ? test->most : options.most;
    int flags = test->flags;
    uint64_t mine, least;
#define AT_MOST(limit) most = most < (limit) ? most : (limit)
    if (flags & MEDIUM) AT_MOST(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 2));
    if (flags & LONG) AT_MOST(gex_AM_MaxRequestLong(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, 3));
    if (flags & PREPARED_MEDIUM)
        AT_MOST(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 2));
    if (flags & PREPARED_LONG)
        AT_MOST(gex_AM_MaxRequestLong(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 2));
    AT_MOST(share / 2 / (flags & GATHERS ? np : 1));
    mine = most;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &least, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_MIN, NULL, NULL, 0));
    return (size_t)least;
}

/* `bytes`, rounded down to the granularity of a test. */
static size_t whole_parts(const struct test *test, size_t bytes) {
    size_t part;
    if (!(test->flags & MANY_BYTES)) return bytes;
    part = test->flags & PLANES && bytes >= 1024 ? 1024
           : test->flags & (PLANES | ROWS)       ? 64
           : test->flags & WORDS                 ? 8
                                                 : 1;
    return bytes < part ? part : bytes / part * part;
}

/* The limit of a test. Between ranks without shared memory, the limit of a message is a datagram
 * over loopback. */
static const char *limit_of(const struct test *test) {
    gex_Rank_t neighbours = 0;
    gex_System_QueryNbrhdInfo(NULL, &neighbours, NULL);
    return neighbours < np && test->limit != NULL && strcmp(test->limit, "ping-pong") == 0 ? "datagram" : test->limit;
}

enum { LONG_MS = 2000 }; /* until progress is shown */

static void run(const struct test *test, size_t share) {
    size_t bytes = test->least, most = bytes;
    int is_long = options.blocks * options.block_ms > LONG_MS;
    if (test->flags & MANY_BYTES) {
        bytes = test->least > options.least ? test->least : options.least;
        most = largest(test, share);
    }
    for (; bytes <= most; bytes *= 2) {
        if (me == 0 && is_long) report_progress("%s, %zu bytes: %d blocks", test->name, bytes, options.blocks);
        struct result result = measure(test, whole_parts(test, bytes));
        result.limit = limit_for(&limits, limit_of(test), result.bytes);
        if (me == 0) report_result(&result);
        if (bytes == 0 || !(test->flags & MANY_BYTES)) break;
    }
}

int main(int argc, char **argv) {
    gex_Segment_t segment;
    size_t share, whole, page = (size_t)sysconf(_SC_PAGESIZE);
    const char *nodes = getenv("GASNET_PSHM_NODES");
    int t;
    const struct test *test;
    read_options(argc, argv);
    if (options.reports != NULL) {
        html_compare(options.reports, options.html);
        return 0;
    }
    if (options.starts > 0) {
        start_measure();
        return 0;
    }
    if (options.limits) {
        report_progress("measuring the limits of this machine");
        limits_measure(&limits, nodes ? atoi(nodes) : 1);
        report_erase();
    }
    if (gex_Client_Init(&client, &ep, &tm, "GASNET_PERF", &argc, &argv, 0) != GASNET_OK) return 1;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (options.pin) bind_to_core((int)me);
    if (options.wait_mode >= 0) gasnet_set_waitmode(options.wait_mode);
    share = 2 * (options.most > NEAR_BYTES ? options.most : NEAR_BYTES);
    whole = options.in_job ? page
                           : (share * (size_t)options.threads + page - 1) / page * page * (options.in_segment ? 2 : 1);
    if (gex_Segment_Attach(&segment, tm, whole) != GASNET_OK) {
        fprintf(stderr, "gasnet_perf: cannot attach a segment of %zu bytes; try a smaller -m\n", whole);
        gasnet_exit(1);
    }
    if (options.in_job) {
        start_in_job();
        gasnet_exit(0);
    }
    am_setup();
    atomic_setup();
    barrier();
    if (me == 0) {
        fprintf(report_table(), "# gasnet_perf: %s\n# conduit %s, %u ranks, %d threads, %d blocks of %.0f ms%s%s\n",
                GASNET_CONFIG_STRING, conduit_name(), (unsigned)np, options.threads, options.blocks, options.block_ms,
                options.pin ? ", pinned" : "", options.in_segment ? ", buffers in the segment" : "");
        if (options.limits) limits_print(&limits, report_table());
        report_begin();
    }
    for (t = 0; t < TABLES; t++) {
        for (test = tables[t]; test->name != NULL; test++) {
            if (is_wanted(test->name)) run(test, share);
        }
    }
    if (me == 0) report_end();
    barrier();
    gasnet_exit(0);
    return 0;
}

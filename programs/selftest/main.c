/* gasnet_selftest: tests a GASNet library on a site's machine. */
#include "selftest.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

gex_Client_t client;
gex_EP_t ep;
gex_TM_t tm;
gex_Rank_t me, np;
struct options options = {0, 0, 60, 1, "gasnet_selftest", NULL, -1};

static const struct test *const tables[] = {layout_tests, storm_tests,  transfer_tests, memory_tests, message_tests,
                                            order_tests,  atomic_tests, pressure_tests, device_tests, exit_tests};
enum { TABLES = sizeof tables / sizeof tables[0], MOST_TESTS = 100 };
/* Time for the tests, without --time. One that needs less or more leaves more or less to later
 * ones. */
enum { QUICK_SECONDS = 40, SECONDS = 520 };
static const double LEAST_SECONDS = 0.2;
/* gasnet_info on the host of rank 0, while the others wait. */
enum { INFO_SECONDS = 60 };

static const char usage[] =
    "usage: gasnetrun -n <n> gasnet_selftest [options] [test[,test...]]\n"
    "Tests transfers, messages, atomics and waiting between the ranks of a job, with data that it verifies. A test is "
    "a name, or a prefix of several names; without one all tests run.\n"
    "  -l, --list         print names and descriptions of the tests\n"
    "  -q, --quick        a minute instead of ten\n"
    "  -o, --output NAME  write the report to NAME.txt and NAME.json (gasnet_selftest)\n"
    "  --time SECONDS     time for all tests (520; with --quick 40)\n"
    "  --limit SECONDS    time without progress until a test fails (60)\n"
    "  --seed N           seed of the data (1)\n"
    "  --exit CODE        only end the job with this code, from its last rank; the launcher must return it\n"
    "  -h, --help         print this text\n"
    "The exit status is 0 if no test fails, 1 if one does, 2 for invalid options.\n";

static void wrong(const char *what, const char *value) {
    fprintf(stderr, "gasnet_selftest: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", usage);
    exit(2);
}

static unsigned long number(const char *text, unsigned long least, unsigned long most) {
    char *rest, what[80];
    unsigned long value;
    errno = 0;
    value = strtoul(text, &rest, 10);
    if (*text >= '0' && *text <= '9' && *rest == '\0' && errno == 0 && value >= least && value <= most) return value;
    snprintf(what, sizeof what, "a whole number from %lu to %lu is expected", least, most);
    wrong(what, text);
    return 0;
}

/* Whether a name, or a prefix of it, is among the words. */
static int is_wanted(const char *name) {
    const char *at = options.wanted;
    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, ",");
        if (length > 0 && strncmp(name, at, length) == 0) return 1;
        at += length + (at[length] == ',');
    }
    return at == NULL;
}

static size_t select_tests(const struct test **selected) {
    size_t count = 0;
    const struct test *test;
    int t;
    for (t = 0; t < TABLES; t++) {
        for (test = tables[t]; test->name != NULL; test++) {
            if (is_wanted(test->name)) selected[count++] = test;
        }
    }
    return count;
}

static void list(void) {
    const struct test *all[MOST_TESTS];
    size_t i, count = select_tests(all);
    for (i = 0; i < count; i++) printf("%-20s %s\n", all[i]->name, all[i]->about);
    exit(0);
}

static void read_options(int argc, char **argv) {
    enum { LIMIT = 256, SEED, EXIT, TIME };
    static const struct option names[] = {
        {"list", no_argument, NULL, 'l'},
        {"quick", no_argument, NULL, 'q'},
        {"output", required_argument, NULL, 'o'},
        {"limit", required_argument, NULL, LIMIT},
        {"seed", required_argument, NULL, SEED},
        {"exit", required_argument, NULL, EXIT},
        {"help", no_argument, NULL, 'h'},
        {"time", required_argument, NULL, TIME},
        {NULL, 0, NULL, 0},
    };
    int option = 0;
    /* With some networks the first argument is the number of ranks. */
    optind = argc > 1 && argv[1][0] && strspn(argv[1], "0123456789") == strlen(argv[1]) ? 2 : 1;
    while (option != -1) {
        const char *word = argv[optind]; /* holds the option of an error */
        option = getopt_long(argc, argv, ":lqho:", names, NULL);
        switch (option) {
            case -1: break;
            case 'l': list(); break;
            case 'q': options.quick = 1; break;
            case 'o': options.report = optarg; break;
            case 'h': fputs(usage, stdout); exit(0);
            case TIME: options.seconds = (double)number(optarg, 1, 86400); break;
            case LIMIT: options.limit = (double)number(optarg, 1, 86400); break;
            case SEED: options.seed = number(optarg, 0, 0xffffffff); break;
            case EXIT: options.exit_code = (int)number(optarg, 0, 255); break;
            case ':': wrong("an option without its value", word); break;
            default: wrong("an unknown option", word);
        }
    }
    if (argc - optind > 1) wrong("separate the names of tests by commas", argv[optind + 1]);
    options.wanted = argv[optind];
    if (options.seconds <= 0) options.seconds = options.quick ? QUICK_SECONDS : SECONDS;
    if (strlen(options.report) > 900) wrong("the name of the report is too long", options.report);
}

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

const char *conduit_name(void) {
#ifdef GASNETI_LIBRARY_VERSION
    return gasnetx_System_QueryConduit();
#else
    return GASNET_CONDUIT_NAME_STR;
#endif
}

static double share, ends; /* of the time for the test under way */
double test_ends(void) { return ends; }
static uint64_t short_turns;
void end_turns(size_t turns, size_t all) { short_turns += turns < all; }

/* Other ranks may take all their share before they come. */
void barrier(void) {
    waiting("barrier", share);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

void add_all(uint64_t *values, size_t count) {
    uint64_t own[8];
    memcpy(own, values, count * sizeof *own);
    waiting("reduction", share);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, values, own, GEX_DT_U64, sizeof *own, count, GEX_OP_ADD, NULL, NULL, 0));
}

void add_handlers(gex_AM_Entry_t *table, size_t count) {
    if (gex_EP_RegisterHandlers(ep, table, count) != GASNET_OK) gasnet_exit(1);
}

void in_turns(const struct test *test, void (*work)(const struct test *test, gex_Rank_t peer, double until),
              double until) {
    gex_Rank_t shifts[80], shift;
    int count = 0, i;
    for (shift = 0; shift < np; shift = np <= 8 || shift == 0 ? shift + 1 : 2 * shift) shifts[count++] = shift;
    if (shifts[count - 1] != np - 1) shifts[count++] = np - 1;
    for (i = 0; i < count; i++) {
        barrier();
        work(test, (me + shifts[i]) % np, now() + (until - now()) / (count - i));
    }
    barrier();
}

static void run(const struct test *test, double seconds) {
    double started = now();
    const char *obstacle;
    uint64_t sums[5];
    watch_test(test);
    report_begin(test);
    share = seconds;
    barrier();
    obstacle = test->obstacle != NULL ? test->obstacle(test) : NULL;
    if (obstacle != NULL) note(obstacle);
    sums[0] = obstacle != NULL;
    add_all(sums, 1);
    if (sums[0] == 0) {
        ends = now() + seconds;
        test->run(test);
        barrier();
    }
    sums[1] = take_cases();
    sums[2] = take_failures();
    sums[3] = take_notes();
    sums[4] = short_turns;
    short_turns = 0;
    add_all(sums, 5);
    waiting("reports of failures", 0);
    report_await(sums[3]);
    report_result(sums[0] > 0 ? SKIP : sums[2] > 0 ? FAIL : PASS, sums[1], sums[2], sums[4] > 0, now() - started);
}

int main(int argc, char **argv) {
    const struct test *selected[MOST_TESTS];
    gex_Segment_t segment;
    size_t count, i, weights = 0, spare = 0;
    double end;
    uint64_t code = 0;
    read_options(argc, argv);
    count = select_tests(selected);
    if (count == 0) wrong("no such test; --list prints their names", options.wanted);
    if (gex_Client_Init(&client, &ep, &tm, "GASNET_SELFTEST", &argc, &argv, 0) != GASNET_OK) return 1;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (gex_Segment_Attach(&segment, tm, segment_bytes()) != GASNET_OK) {
        fprintf(stderr, "gasnet_selftest: cannot attach a segment of %zu bytes\n", segment_bytes());
        gasnet_exit(1);
    }
    if (options.exit_code >= 0) {
        if (me == np - 1) gasnet_exit(options.exit_code);
        barrier(); /* ends with the job */
    }
    answers_setup();
    messages_setup();
    pressure_setup();
    watch_setup();
    report_handlers();
    facts_setup();
    plan_setup();
    report_setup(selected, count);
    watch_start();
    barrier();
    facts_gather();
    share = INFO_SECONDS;
    waiting("output of gasnet_info", share);
    if (me == 0) facts_ask();
    segment_setup();
    barrier();
    report_started();
    for (i = 0; i < count; i++) weights += (size_t)selected[i]->weight;
    if (options.wanted != NULL && weights < 30) spare = 30 - weights; /* a test's share is not the whole time */
    for (end = now() + options.seconds, i = 0; i < count; i++) {
        double seconds = (end - now()) * (double)selected[i]->weight / (double)(weights + spare);
        run(selected[i], seconds > LEAST_SECONDS ? seconds : LEAST_SECONDS);
        weights -= (size_t)selected[i]->weight;
    }
    watch_stop();
    if (me == 0) code = (uint64_t)report_end(1);
    add_all(&code, 1);
    gasnet_exit((int)code);
    return 1;
}

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
enum { LEAST_LIMIT = 3 }; /* tests themselves pause for less */
static const double LEAST_SECONDS = 0.2;
/* gasnet_info on the host of rank 0, while the others wait. */
enum { INFO_SECONDS = 60 };

static const char usage[] =
    "usage: gasnetrun -n <n> gasnet_selftest [options] [test[,test...]]\n"
    "Tests transfers, messages, atomics and waiting between the ranks of a job, with data that it verifies. A test is "
    "a name, or the beginning of several names; without one all tests run.\n"
    "  -l, --list         print names and descriptions of the tests\n"
    "  -q, --quick        a minute instead of ten\n"
    "  -o, --output NAME  write the report to NAME.txt and NAME.json (gasnet_selftest)\n"
    "  --time SECONDS     time for all tests (520; with --quick 40)\n"
    "  --limit SECONDS    time without progress until a test fails (60, at least 3)\n"
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

static size_t all_tests(const struct test **all) {
    size_t count = 0;
    const struct test *test;
    int t;
    for (t = 0; t < TABLES; t++) {
        for (test = tables[t]; test->name != NULL; test++) all[count++] = test;
    }
    return count;
}

/* Marks the test of this name, or those whose names begin so. Returns whether there are any. */
static int mark(const struct test **all, size_t count, int *marks, const char *word, size_t length) {
    size_t i;
    int found = 0;
    for (i = 0; i < count; i++) {
        if (strlen(all[i]->name) == length && strncmp(all[i]->name, word, length) == 0) return marks[i] = 1;
    }
    for (i = 0; i < count && length > 0; i++) {
        if (strncmp(all[i]->name, word, length) == 0) found = marks[i] = 1;
    }
    return found;
}

static size_t select_tests(const struct test **selected) {
    int marks[MOST_TESTS] = {0};
    size_t i, count = all_tests(selected), wanted = 0;
    const char *at = options.wanted;
    if (at == NULL) return count;
    while (*at != '\0') {
        size_t length = strcspn(at, ",");
        if (!mark(selected, count, marks, at, length)) wrong("no such test; --list prints their names", at);
        at += length + (at[length] == ',');
    }
    for (i = 0; i < count; i++) {
        if (marks[i]) selected[wanted++] = selected[i];
    }
    return wanted;
}

static void list(void) {
    const struct test *all[MOST_TESTS];
    size_t i, count = all_tests(all);
    for (i = 0; i < count; i++) printf("%-20s %s\n", all[i]->name, all[i]->about);
    exit(0);
}

static int is_timed; /* --time was given */

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
            case LIMIT: options.limit = (double)number(optarg, LEAST_LIMIT, 86400); break;
            case SEED: options.seed = number(optarg, 0, 0xffffffff); break;
            case EXIT: options.exit_code = (int)number(optarg, 0, 255); break;
            case ':': wrong("an option without its value", word); break;
            default: wrong("an unknown option", word);
        }
    }
    if (argc - optind > 1) wrong("separate the names of tests by commas", argv[optind + 1]);
    options.wanted = argv[optind];
    is_timed = options.seconds > 0;
    if (!is_timed) options.seconds = options.quick ? QUICK_SECONDS : SECONDS;
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

/* The network under test carries the sums, too: second ones, of multiples, tell damage. */
int add_all(uint64_t *values, size_t count) {
    static const uint64_t factor = 0x9E3779B97F4A7C15u;
    struct step s = {"sums over all ranks", NULL, NULL, 0, 0, 0, GEX_RANK_INVALID};
    uint64_t own[2 * MOST_SUMS], sums[2 * MOST_SUMS];
    size_t i, damaged = 0;
    for (i = 0; i < count; i++) {
        own[i] = values[i];
        own[count + i] = values[i] * factor;
    }
    waiting("reduction", share);
    gex_Event_Wait(
        gex_Coll_ReduceToAllNB(tm, sums, own, GEX_DT_U64, sizeof *own, 2 * count, GEX_OP_ADD, NULL, NULL, 0));
    for (i = 0; i < count; i++) {
        values[i] = sums[i];
        damaged += sums[count + i] != sums[i] * factor;
    }
    if (damaged > 0) fail(&s, "%zu of %zu are damaged", damaged, count);
    return damaged == 0;
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
    uint64_t sums[5], own_failures;
    int is_skipped, is_sound;
    watch_test(test);
    report_begin(test);
    share = seconds;
    barrier();
    obstacle = test->obstacle != NULL ? test->obstacle(test) : NULL;
    if (obstacle != NULL) note(obstacle);
    sums[0] = obstacle != NULL;
    is_sound = add_all(sums, 1);
    is_skipped = is_sound && sums[0] > 0;
    if (!is_skipped) {
        ends = now() + seconds;
        test->run(test);
        barrier();
    }
    sums[1] = take_cases();
    own_failures = sums[2] = take_failures();
    sums[3] = take_notes();
    sums[4] = short_turns;
    short_turns = 0;
    if (add_all(sums, 5)) {
        waiting("reports of failures", 0);
        report_await(sums[3]);
    } else {
        /* The failures of others are unknown; those of this rank, and this one, are not. */
        memset(sums, 0, sizeof sums);
        sums[2] = own_failures + take_failures();
        report_unsettled();
    }
    report_result(is_skipped && sums[2] == 0 ? SKIP
                  : sums[2] > 0 || !is_sound ? FAIL
                                             : PASS,
                  sums[1], sums[2], sums[4] > 0, now() - started);
}

int main(int argc, char **argv) {
    const struct test *selected[MOST_TESTS];
    gex_Segment_t segment;
    size_t count, i, weights = 0, spare = 0;
    double end;
    uint64_t code;
    read_options(argc, argv);
    count = select_tests(selected);
    if (count == 0) wrong("no test; --list prints their names", NULL);
    if (options.exit_code < 0) report_forget(); /* a job that does not start leaves none */
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
    if (options.wanted != NULL && !is_timed && weights < 30)
        spare = 30 - weights; /* a test's share is not the whole time */
    for (end = now() + options.seconds, i = 0; i < count; i++) {
        double seconds = (end - now()) * (double)selected[i]->weight / (double)(weights + spare);
        run(selected[i], seconds > LEAST_SECONDS ? seconds : LEAST_SECONDS);
        weights -= (size_t)selected[i]->weight;
    }
    watch_stop();
    /* Sums that were damaged after the last test. */
    code = take_failures();
    if (!add_all(&code, 1) || code > 0) report_unsound();
    code = me == 0 ? (uint64_t)report_end(1) : 0;
    if (!add_all(&code, 1)) code = 1;
    gasnet_exit((int)code);
    return 1;
}

/* gasnet_replay: replays recordings of GASNET_RECORD. */
#include "replay.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 60, CALLS = 20000, RANKS = 4, MOST_MODELLED = 1000, START_SECONDS = 60, MOST_WORDS = 60 };

static const char usage[] =
    "usage: gasnetrun -n <n> gasnet_replay [options] RECORDING\n"
    "       gasnet_replay --reduce NAME [options] RECORDING -- gasnetrun -n %n\n"
    "       gasnet_replay --show|--contents|--compare RECORDING\n"
    "       gasnetrun -n <n> gasnet_replay --model NAME [options]\n"
    "Replays the calls that a program made, which GASNET_RECORD=RECORDING has recorded, with data that it verifies. % "
    "in "
    "a name stands for the rank. The job has as many ranks as the recording, fewer, or a multiple.\n"
    "  --speed FACTOR     1: pauses as recorded (default); 10: a tenth of them; 0: none\n"
    "  --jitter SEED      pause at random, too\n"
    "  --repeat N         replay so many times (1)\n"
    "  --until-fail       replay until one fails\n"
    "  --lock             the threads of a rank make their calls under one lock; a thread keeps it until it must wait\n"
    "  --unmap            payloads lie in memory that is mapped for the call and unmapped after it\n"
    "  --no-check         leave payloads unverified: for programs whose Longs and puts overwrite each other\n"
    "  --limit SECONDS    time without progress until a replay fails (60)\n"
    "  --reduce NAME      write a recording that is as small as it can be while its replay, with the other options, "
    "fails; %n stands for the number of ranks\n"
    "  --run-limit SECONDS  time for one run of --reduce (twice --limit and a minute); a run that takes longer has "
    "failed, with --until-fail it has not\n"
    "  --show             print the calls of a recording\n"
    "  --contents         print them with the arguments and payloads of GASNET_RECORD_PAYLOAD=all\n"
    "  --compare          compare messages with the runs of their handlers, by the checksums of "
    "GASNET_RECORD_PAYLOAD\n"
    "  --model NAME       instead of a recording: traffic in the likeness of legion, upcxx or chapel\n"
    "  --seed N           another traffic of the model (1)\n"
    "  --calls N          records of the model (20000)\n"
    "  --ranks N          ranks of the model (those of the job; 4 with --reduce and --show)\n"
    "  -h, --help         print this text\n"
    "The exit status is 0 if all replays end with the right data, or no message differs from its run; 1 if not; 2 for "
    "invalid options or files.\n";

static void invalid(const char *what, const char *value) {
    fprintf(stderr, "gasnet_replay: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", usage);
    exit(2);
}

static double number(const char *text, double least) {
    char *rest;
    double value = strtod(text, &rest);
    if (*text == '\0' || *rest != '\0' || !(value >= least && value <= 1e15)) invalid("a number is expected", text);
    return value;
}

/* Arguments as numbers, and the payload as bytes. */
static void show_contents(const struct record *r) {
    size_t at = 0, end = (is_send(r->kind) || is_run(r->kind) ? r->flags & ARGUMENTS : 0) * sizeof(gex_AM_Arg_t);
    gex_AM_Arg_t argument;
    for (; at < end; at += sizeof argument) {
        memcpy(&argument, r->contents + at, sizeof argument);
        printf("%s%d", at == 0 ? " args=" : ",", (int)argument);
    }
    if (r->bytes > 0) printf(" payload=");
    for (end += r->bytes; at < end; at++) printf("%02x", r->contents[at]);
}

static void show(const char *pattern) {
    static const char *const whats[] = {"event", "some", "all", "implicit"};
    static const char *const operations[] = {"other", "broadcast", "reduce-to-one", "reduce-to-all"};
    unsigned ranks = count_ranks(pattern), rank;
    size_t i;
    for (rank = 0; rank < ranks; rank++) {
        const struct recording *recording = load(pattern, rank);
        printf("rank %u of %u, %.16s, mode %.8s, %zu calls%s: %.255s\n", rank, ranks, recording->header + 64,
               recording->header + 80, recording->count, recording->is_cut ? ", without the beginning" : "",
               recording->header + 128);
        for (i = 0; i < recording->count; i++) {
            const struct record *r = &recording->records[i];
            printf("%u:%u %llu.%09llu %s", rank, r->thread, (unsigned long long)(r->at / 1000000000),
                   (unsigned long long)(r->at % 1000000000), name_of(r->kind));
            if (is_of_team(r)) {
                if (r->kind == TEAM) printf(" rank=%u", place_of(r));
                else printf(" number=%u", place_of(r));
                if (r->kind == COLL_START || r->kind == COLL_DONE)
                    printf(" op=%s bytes=%u", operations[r->code < 4 ? r->code : 0], bytes_of(r));
                if (r->peer != NO_PEER) printf(" peer=%u", r->peer);
                if (r->offset > 0) printf(" team=%llx", (unsigned long long)r->offset);
            } else if (r->peer != NO_PEER) printf(" peer=%u bytes=%llu", r->peer, (unsigned long long)r->bytes);
            else if (r->kind == TEST || r->kind == WAIT) printf(" what=%s", whats[r->code & 3]);
            else printf(" number=%llu", (unsigned long long)r->bytes);
            if (is_send(r->kind) || is_run(r->kind)) printf(" handler=%u nargs=%u", r->code, r->flags & ARGUMENTS);
            if (r->flags & IMMEDIATE) printf(" immediate");
            if (r->flags & OUTSIDE) printf(" outside");
            else if (r->offset > 0 && !is_of_team(r)) printf(" offset=%llu", (unsigned long long)r->offset);
            if (r->polls > 0) printf(" polls=%u", r->polls);
            if (r->has_checksum) printf(" checksum=%016llx", (unsigned long long)r->checksum);
            if (r->contents != NULL) show_contents(r);
            printf("\n");
        }
    }
    exit(0);
}

/* The launcher's command, and behind it this program with its options. */
static char **child_command(char **launcher, int count, const struct options *o, const char *to) {
    static char texts[4][40], program[4096], recording[4096];
    char **words = allocate((size_t)count + 18, sizeof *words);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    int used = 0;
    if (length < 0) invalid("cannot find this program", strerror(errno));
    for (; used < count; used++) words[used] = launcher[used];
    snprintf(texts[0], sizeof texts[0], "--speed=%g", o->speed);
    snprintf(texts[1], sizeof texts[1], "--limit=%g", o->limit);
    snprintf(texts[2], sizeof texts[2], "--repeat=%lu", o->repeat);
    snprintf(texts[3], sizeof texts[3], "--jitter=%lu", o->jitter);
    snprintf(recording, sizeof recording, "%s.try", to);
    words[used++] = program;
    for (int i = 0; i < 4; i++) words[used++] = texts[i];
    if (!o->is_checked) words[used++] = "--no-check";
    if (o->is_locked) words[used++] = "--lock";
    if (o->is_unmapped) words[used++] = "--unmap";
    if (o->is_until_fail) words[used++] = "--until-fail";
    words[used] = recording;
    return words;
}

int main(int argc, char **argv) {
    enum {
        SPEED = 256,
        JITTER,
        REPEAT,
        UNTIL_FAIL,
        NO_CHECK,
        LOCK,
        UNMAP,
        LIMIT,
        REDUCE,
        RUN_LIMIT,
        SHOW,
        SHOW_CONTENTS,
        COMPARE,
        MODEL,
        SEED,
        CALL_COUNT,
        RANK_COUNT
    };
    static const struct option names[] = {
        {"speed", required_argument, NULL, SPEED},
        {"jitter", required_argument, NULL, JITTER},
        {"repeat", required_argument, NULL, REPEAT},
        {"until-fail", no_argument, NULL, UNTIL_FAIL},
        {"no-check", no_argument, NULL, NO_CHECK},
        {"lock", no_argument, NULL, LOCK},
        {"unmap", no_argument, NULL, UNMAP},
        {"limit", required_argument, NULL, LIMIT},
        {"reduce", required_argument, NULL, REDUCE},
        {"run-limit", required_argument, NULL, RUN_LIMIT},
        {"show", no_argument, NULL, SHOW},
        {"contents", no_argument, NULL, SHOW_CONTENTS},
        {"compare", no_argument, NULL, COMPARE},
        {"model", required_argument, NULL, MODEL},
        {"seed", required_argument, NULL, SEED},
        {"calls", required_argument, NULL, CALL_COUNT},
        {"ranks", required_argument, NULL, RANK_COUNT},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {1, 0, 1, 0, 1, 0, 0, LIMIT_SECONDS};
    struct model model = {NULL, 0, 1, CALLS};
    const char *to = NULL, *from = NULL;
    double run_limit = 0;
    int option = 0, shows = 0, compares = 0;
    /* With some networks the first argument is the number of ranks. */
    optind = argc > 1 && argv[1][0] && strspn(argv[1], "0123456789") == strlen(argv[1]) ? 2 : 1;
    while (option != -1) {
        const char *word = argv[optind]; /* holds the option of an error */
        option = getopt_long(argc, argv, "+:h", names, NULL);
        switch (option) {
            case -1: break;
            case SPEED: options.speed = number(optarg, 0); break;
            case JITTER: options.jitter = (unsigned long)number(optarg, 0); break;
            case REPEAT: options.repeat = (unsigned long)number(optarg, 1); break;
            case UNTIL_FAIL: options.is_until_fail = 1; break;
            case NO_CHECK: options.is_checked = 0; break;
            case LOCK: options.is_locked = 1; break;
            case UNMAP: options.is_unmapped = 1; break;
            case LIMIT: options.limit = number(optarg, 1); break;
            case REDUCE: to = optarg; break;
            case RUN_LIMIT: run_limit = number(optarg, 1); break;
            case SHOW_CONTENTS: wants_contents = 1; /* fall through */
            case SHOW: shows = 1; break;
            case COMPARE: compares = 1; break;
            case MODEL: model.name = optarg; break;
            case SEED: model.seed = (uint64_t)number(optarg, 0); break;
            case CALL_COUNT: model.calls = (size_t)number(optarg, 1); break;
            case RANK_COUNT: model.ranks = (unsigned)number(optarg, 1); break;
            case 'h': fputs(usage, stdout); exit(0);
            case ':': invalid("an option without its value", word); break;
            default: invalid("an unknown option", word);
        }
    }
    if (model.ranks > MOST_MODELLED) invalid("a model has at most 1000 ranks", NULL);
    if (model.name == NULL && optind >= argc) invalid("the name of a recording is missing", NULL);
    if (model.name == NULL) from = argv[optind++];
    else model_options(&model, &options);
    if (model.name != NULL && (shows || compares || to != NULL)) {
        if (model.ranks == 0) model.ranks = RANKS;
        make_model(&model);
    }
    if (shows) show(from);
    if (compares) return compare(from);
    if (to != NULL) {
        int first = optind < argc && strcmp(argv[optind], "--") == 0 ? optind + 1 : optind;
        if (first >= argc || argc - first > MOST_WORDS) invalid("the command of a launcher is expected after --", NULL);
        if (run_limit == 0) run_limit = 2 * options.limit + START_SECONDS;
        return reduce(from, to, child_command(argv + first, argc - first, &options, to), run_limit,
                      options.is_until_fail);
    }
    if (optind < argc) invalid("one recording is expected", argv[optind]);
    return play(from, &model, &options, &argc, &argv);
}

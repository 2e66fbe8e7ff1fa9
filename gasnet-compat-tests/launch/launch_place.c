/* A client of every spawner: says where each rank is and what it was started with, checks that all
 * ranks agree on that and can talk to each other, and ends as --end requests.
 * The tests over several hosts start it and compare what it prints.
 *
 * launch_place [--end=WAY] [--env=NAME]... [--input] [--] [argument...]
 *
 *   --end=     ok (gasnet_exit(0)), exit:N, return:N (from main), one:N (the last rank exits, the
 *              others compute), poll:N (the others wait inside GASNET), kill (the last rank kills
 *              itself), abort, stop (the last rank stops itself while the others exit), wait (until
 *              a signal comes), late-exit:N, late-kill, late-abort (all return 0, then the last
 *              rank ends in an exit handler), frozen (the last rank aborts and waits for a
 *              debugger, the others exit)
 *   --env=     rank 0 and the last rank print the variable
 *   --folder   rank 0 and the last rank print the current folder
 *   --lines=N  every rank prints so many lines
 *   --input    rank 0 prints how much standard input holds, and a checksum
 */
#include "place.h"

#include <ctype.h>
#include <gasnet_coll.h>

enum { MEDIUM_BYTES = 4000, ROUNDS = 3 };

static struct place *places;
static unsigned shorts, mediums, replies;
static gex_AM_Index_t short_index, medium_index, reply_index;

static void on_short(gex_Token_t token, gex_AM_Arg_t source) {
    ATOMIC_ADD(&shorts, 1U);
    gex_AM_ReplyShort1(token, reply_index, 0, source);
}

static void on_reply(gex_Token_t token, gex_AM_Arg_t source) {
    CHECK((gex_Rank_t)source == me);
    ATOMIC_ADD(&replies, 1U);
}

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t source) {
    CHECK(bytes == MEDIUM_BYTES);
    CHECK_PATTERN(payload, bytes, (uint64_t)source * 1000 + me);
    ATOMIC_ADD(&mediums, 1U);
}

static gex_AM_Index_t registered(gex_AM_Fn_t function, gex_Flags_t flags) {
    gex_AM_Entry_t entry = {.gex_fnptr = function, .gex_flags = flags, .gex_nargs = 1};
    OK(gex_EP_RegisterHandlers(ep, &entry, 1));
    return entry.gex_index;
}

/* Every rank's own words, by collectives. */
static void gather(void) {
    struct place mine;
    PHASE("places");
    find_place(&mine);
    places = (struct place *)calloc(np, sizeof *places);
    REQUIRE(places != NULL);
    for (gex_Rank_t r = 0; r < np; r++) gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, &places[r], &mine, sizeof mine, 0));
}

/* Ranks whose place is like this rank's, by host name or by neighbourhood, are exactly those that
 * the library lists, in their order. */
static void check_list(int by_host) {
    gex_RankInfo_t *info = NULL;
    gex_Rank_t count = 0, own = 0, i = 0;
    if (by_host) gex_System_QueryHostInfo(&info, &count, &own);
    else gex_System_QueryNbrhdInfo(&info, &count, &own);
    REQUIRE(info != NULL && own < count);
    CHECK(info[own].gex_jobrank == me);
    for (gex_Rank_t r = 0; r < np; r++) {
        int like =
            by_host ? !strcmp(places[r].host, places[me].host) : places[r].nbrhd_number == places[me].nbrhd_number;
        if (!like) continue;
        CHECKF(i < count && info[i].gex_jobrank == r, "rank %u is missing in the list of %s", (unsigned)r,
               by_host ? "the host" : "the neighbourhood");
        i++;
    }
    CHECKF(i == count, "%u ranks are listed, %u are there", (unsigned)count, (unsigned)i);
}

/* Numbers of hosts and neighbourhoods mean the same to all, and follow the names. */
static void check_places(void) {
    gex_Rank_t hosts = 0, nbrhds = 0;
    PHASE("agreement");
    for (gex_Rank_t r = 0; r < np; r++) {
        int new_host = 1, new_nbrhd = 1;
        CHECK(places[r].hosts == places[0].hosts && places[r].nbrhds == places[0].nbrhds);
        CHECK(places[r].host_number < places[r].hosts && places[r].nbrhd_number < places[r].nbrhds);
        for (gex_Rank_t s = 0; s < r; s++) {
            int same = !strcmp(places[r].host, places[s].host);
            CHECKF(same == (places[r].host_number == places[s].host_number),
                   "ranks %u (%s) and %u (%s) have host numbers %u and %u", (unsigned)s, places[s].host, (unsigned)r,
                   places[r].host, (unsigned)places[s].host_number, (unsigned)places[r].host_number);
            CHECKF(same || places[r].nbrhd_number != places[s].nbrhd_number,
                   "ranks %u and %u are neighbours on different hosts", (unsigned)s, (unsigned)r);
            if (same) new_host = 0;
            if (places[r].nbrhd_number == places[s].nbrhd_number) new_nbrhd = 0;
        }
        hosts += (gex_Rank_t)new_host;
        nbrhds += (gex_Rank_t)new_nbrhd;
    }
    CHECKF(hosts == places[0].hosts, "%u hosts are there, rank 0 counts %u", (unsigned)hosts,
           (unsigned)places[0].hosts);
    CHECKF(nbrhds == places[0].nbrhds, "%u neighbourhoods are there, rank 0 counts %u", (unsigned)nbrhds,
           (unsigned)places[0].nbrhds);
    check_list(1);
    check_list(0);
}

/* Every rank puts a word of its own to every rank, gets all words of every rank, and sends each a
 * short and a medium message. */
static void check_network(void) {
    uint64_t *words = (uint64_t *)(void *)seg_of(me);
    uint64_t *copy = (uint64_t *)calloc(np, sizeof *copy);
    unsigned char *payload = (unsigned char *)malloc(MEDIUM_BYTES);
    REQUIRE(copy != NULL && payload != NULL);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        PHASE("puts");
        for (gex_Rank_t r = 0; r < np; r++) {
            uint64_t word = ((uint64_t)i << 48) + ((uint64_t)me << 24) + r;
            OK(gex_RMA_PutBlocking(tm, r, seg_of(r) + me * sizeof word, &word, sizeof word, 0));
        }
        barrier();
        for (gex_Rank_t s = 0; s < np; s++) CHECK(words[s] == ((uint64_t)i << 48) + ((uint64_t)s << 24) + me);
        PHASE("gets");
        for (gex_Rank_t r = 0; r < np; r++) {
            OK(gex_RMA_GetBlocking(tm, copy, r, seg_of(r), np * sizeof *copy, 0));
            for (gex_Rank_t s = 0; s < np; s++) CHECK(copy[s] == ((uint64_t)i << 48) + ((uint64_t)s << 24) + r);
        }
        PHASE("messages");
        for (gex_Rank_t r = 0; r < np; r++) {
            pattern_fill(payload, MEDIUM_BYTES, (uint64_t)me * 1000 + r);
            OK(gex_AM_RequestShort1(tm, r, short_index, 0, (gex_AM_Arg_t)me));
            OK(gex_AM_RequestMedium1(tm, r, medium_index, payload, MEDIUM_BYTES, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me));
        }
        GASNET_BLOCKUNTIL(ATOMIC_GET(&shorts) == i * np && ATOMIC_GET(&mediums) == i * np &&
                          ATOMIC_GET(&replies) == i * np);
        barrier();
    }
    free(copy);
    free(payload);
}

/* A text in one word that any log keeps: letters and digits are themselves, other bytes \xNN. */
static void print_quoted(const char *text) {
    putchar('[');
    for (; *text; text++) {
        if (isalnum((unsigned char)*text)) putchar(*text);
        else printf("\\x%02x", (unsigned char)*text);
    }
    printf("]\n");
}

static void print_input(void) {
    unsigned long bytes = 0;
    uint32_t sum = 0;
    int c;
    while ((c = getchar()) != EOF) bytes++, sum = sum * 31 + (uint32_t)c;
    printf("rank 0 input %lu bytes sum %lu\n", bytes, (unsigned long)sum);
}

static void print_start(int argc, char **argv, int first_plain) {
    if (me != 0 && me != np - 1) return;
    for (int i = first_plain; i < argc; i++) {
        printf("rank %u arg ", (unsigned)me);
        print_quoted(argv[i]);
    }
    for (int i = 1; i < first_plain; i++) {
        if (!strcmp(argv[i], "--folder")) {
            char folder[4096];
            printf("rank %u folder ", (unsigned)me);
            print_quoted(getcwd(folder, sizeof folder) ? folder : "");
        }
        if (strncmp(argv[i], "--env=", 6)) continue;
        const char *value = getenv(argv[i] + 6);
        printf("rank %u env %s ", (unsigned)me, argv[i] + 6);
        if (value) print_quoted(value);
        else printf("unset\n");
    }
}

static void print_lines(unsigned lines) {
    for (unsigned i = 0; i < lines; i++) printf("rank %u says line %u\n", (unsigned)me, i);
}

static void compute(void) {
    volatile unsigned long work = 0;
    for (;;) work++;
}

static const char *late_way;

/* Registered before GASNet's own, so it runs when the job has ended. */
static void end_late(void) {
    if (!late_way || me != np - 1) return;
    if (!strcmp(late_way, "late-kill")) raise(SIGKILL);
    if (!strcmp(late_way, "late-abort")) abort();
    _exit(atoi(strchr(late_way, ':') + 1));
}

extern volatile int gasnetti_frozen;

static void set_free(int number) { gasnetti_frozen = 0; }

/* A child sets this process free as a user with a debugger does, after the exit timeouts. */
static void abort_frozen(void) {
    signal(SIGUSR1, set_free);
    if (fork() == 0) {
        sleep(3);
        kill(getppid(), SIGUSR1);
        _exit(0);
    }
    abort();
}

/* Ends as `way` says; returns what main shall return. */
static int end(const char *way) {
    const char *colon = strchr(way, ':');
    int code = colon ? atoi(colon + 1) : 0, last = me == np - 1;
    size_t length = colon ? (size_t)(colon - way) : strlen(way);
    if (!strncmp(way, "return", length)) return code;
    if (!strncmp(way, "late", 4)) {
        late_way = way;
        return 0;
    }
    if (!strncmp(way, "exit", length) || !strncmp(way, "ok", length)) gasnet_exit(code);
    if (!strncmp(way, "one", length)) {
        if (last) gasnet_exit(code);
        compute();
    }
    if (!strncmp(way, "poll", length)) {
        if (last) gasnet_exit(code);
        barrier();
    }
    if (!strncmp(way, "kill", length)) {
        if (last) raise(SIGKILL);
        compute();
    }
    if (!strncmp(way, "abort", length)) {
        if (last) abort();
        barrier();
    }
    if (!strncmp(way, "stop", length)) {
        if (last) raise(SIGSTOP);
        gasnet_exit(0);
    }
    if (!strncmp(way, "frozen", length)) {
        if (last) abort_frozen();
        gasnet_exit(0);
    }
    if (!strncmp(way, "wait", length)) {
        if (me == 0) {
            printf("waiting\n");
            fflush(stdout);
        }
        for (;;) pause();
    }
    fprintf(stderr, "launch_place: --end=%s is not known\n", way);
    return 2;
}

int main(int argc, char **argv) {
    const char *way = "ok";
    unsigned lines = 0;
    int i, input = 0;
    atexit(end_late);
    test_init("launch_place", &argc, &argv);
    for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
        if (!strncmp(argv[i], "--end=", 6)) way = argv[i] + 6;
        else if (!strcmp(argv[i], "--input")) input = 1;
        else if (!strncmp(argv[i], "--lines=", 8)) lines = (unsigned)atoi(argv[i] + 8);
        else if (!argv[i][2]) {
            i++;
            break;
        }
    }
    int first_plain = i;
    short_index = registered((gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT);
    reply_index = registered((gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT);
    medium_index = registered((gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM);
    test_attach(np * sizeof(uint64_t));
    gather();
    check_places();
    check_network();
    print_place(&places[me]);
    print_start(argc, argv, first_plain);
    if (input && me == 0) print_input();
    print_lines(lines);
    fflush(stdout);
    PHASE("end");
    barrier();
    if (ATOMIC_GET(&test_failures)) gasnet_exit(1);
    return end(way);
}

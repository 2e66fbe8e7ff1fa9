/* Facts for the report: versions, the hosts and their ranks, limits, settings, and the report of
 * gasnet_info, which is installed beside this program. Also the tests of the layout. */
#include "selftest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { HELLO = 180, NAME = 64 };

static struct host { char name[NAME], system[3 * NAME]; } own, *hosts; /* by rank, on rank 0 */
static char (*names)[NAME];                                            /* of all hosts, by rank */
static gex_Rank_t greetings, host_ranks, nbrhd_ranks;
static gex_RankInfo_t *host_info, *nbrhd_info;
static gex_Rank_t host_index, nbrhd_index;
static char *info_text, *info_json, started[40];

static void on_hello(gex_Token_t token, void *payload, size_t bytes) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    if (bytes == sizeof *hosts) memcpy(&hosts[info.gex_srcrank], payload, bytes);
    __atomic_add_fetch(&greetings, 1, __ATOMIC_RELEASE);
}

const char *host_of(gex_Rank_t rank) {
    gex_Rank_t i;
    for (i = 0; i < host_ranks; i++) {
        if (host_info[i].gex_jobrank == rank) return own.name;
    }
    return names[rank][0] != '\0' ? names[rank] : "another host";
}

const char *path_to(gex_Rank_t rank) {
    gex_Rank_t i;
    if (rank == me) return "to itself";
    for (i = 0; i < nbrhd_ranks; i++) {
        if (nbrhd_info[i].gex_jobrank == rank) return "through shared memory";
    }
    return "over the network";
}

/* The output of gasnet_info, or NULL. */
static char *output_of_info(const char *options_of_info) {
    char path[2048] = "", command[2200], *text = NULL;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    size_t used = 0, room = 0;
    FILE *output;
    if (length <= 0 || strchr(path, '\'') != NULL || strrchr(path, '/') == NULL) return NULL;
    *strrchr(path, '/') = '\0';
    snprintf(command, sizeof command, "PATH='%s':\"$PATH\" gasnet_info %s 2>/dev/null </dev/null", path,
             options_of_info);
    output = popen(command, "r");
    while (output != NULL && !feof(output) && !ferror(output)) {
        if (room - used < 4096) text = realloc(text, room += 65536);
        if (text == NULL) break;
        used += fread(text + used, 1, room - used - 1, output);
        text[used] = '\0';
    }
    if (output != NULL) pclose(output);
    return used > 0 ? text : NULL;
}

void facts_setup(void) {
    gex_AM_Entry_t table[] = {
        {HELLO, (gex_AM_Fn_t)on_hello, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, "hello"}};
    struct utsname system;
    time_t seconds = time(NULL);
    add_handlers(table, 1);
    gethostname(own.name, sizeof own.name - 1);
    if (uname(&system) == 0)
        snprintf(own.system, sizeof own.system, "%.60s %.60s %.60s", system.sysname, system.release, system.machine);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
    gex_System_QueryHostInfo(&host_info, &host_ranks, &host_index);
    gex_System_QueryNbrhdInfo(&nbrhd_info, &nbrhd_ranks, &nbrhd_index);
    names = calloc(np, sizeof *names);
    if (names == NULL) gasnet_exit(1);
    if (me != 0) return;
    hosts = calloc(np, sizeof *hosts);
    if (hosts == NULL) gasnet_exit(1);
}

void facts_gather(void) {
    struct step s = {"first message to rank 0", NULL, NULL, 0, 0, 0, 0};
    char(*all)[NAME] = NULL;
    gex_Rank_t rank;
    step(&s);
    gex_AM_RequestMedium0(tm, 0, HELLO, &own, sizeof own, GEX_EVENT_NOW, 0);
    waiting("first messages to rank 0", 0);
    if (me == 0) {
        GASNET_BLOCKUNTIL(__atomic_load_n(&greetings, __ATOMIC_ACQUIRE) == np);
        all = calloc(np, sizeof *all);
        if (all == NULL) gasnet_exit(1);
        for (rank = 0; rank < np; rank++) memcpy(all[rank], hosts[rank].name, NAME);
    }
    waiting("broadcast of the names of hosts", 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, names, all, np * sizeof *names, 0));
    free(all);
}

void facts_ask(void) {
    info_text = output_of_info("-v -c -b -l -k");
    info_json = output_of_info("--json -v -c -b -l -k");
}

/* Variables that select what the job does; none whose name is that of a secret. */
static int is_setting(const char *variable) {
    static const char *const prefixes[] = {"GASNET_", "FI_", "UGNI_", "IBV_", "RDMAV_", "MLX5_", "CUDA_VISIBLE"};
    static const char *const secret[] = {"KEY", "SECRET", "TOKEN", "PASS", "COOKIE", "AUTH", "UUID", "SSH_OPTIONS"};
    size_t i, length = strcspn(variable, "=");
    char name[128];
    if (length >= sizeof name) return 0;
    memcpy(name, variable, length);
    name[length] = '\0';
    for (i = 0; i < sizeof secret / sizeof secret[0]; i++) {
        if (strstr(name, secret[i]) != NULL) return 0;
    }
    for (i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return 1;
    }
    return 0;
}

/* A setting as mails and JSON take it. */
static const char *clean(const char *text) {
    static char copy[4096];
    size_t i;
    for (i = 0; text[i] != '\0' && i < sizeof copy - 1; i++) copy[i] = text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i];
    copy[i] = '\0';
    return copy;
}

static const struct {
    const char *name;
    size_t (*value)(void);
} limits[] = {
    {"largest Medium request", gex_AM_LUBRequestMedium},
    {"largest Medium reply", gex_AM_LUBReplyMedium},
    {"largest Long request", gex_AM_LUBRequestLong},
    {"largest Long reply", gex_AM_LUBReplyLong},
    {"largest transfer tested", most_bytes},
    {"segment", segment_bytes},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

/* Ranks from `first` on that follow each other on one host. */
static gex_Rank_t alike(gex_Rank_t first) {
    gex_Rank_t end = first + 1;
    while (end < np && memcmp(&hosts[first], &hosts[end], sizeof *hosts) == 0) end++;
    return end - first;
}

void facts_text(FILE *out) {
    extern char **environ;
    char **variable;
    gex_Rank_t rank;
    size_t i;
    fprintf(out, "started   %s, seed %llu, limit without progress %.0f s%s\n", started,
            (unsigned long long)options.seed, options.limit, options.quick ? ", --quick" : "");
    fprintf(out, "library   %s\nconduit   %s\nranks     %u\n", GASNET_CONFIG_STRING, conduit_name(), (unsigned)np);
    for (rank = 0; rank < np; rank += alike(rank))
        if (hosts[rank].name[0] != '\0')
            fprintf(out, "host      %s: %u ranks from rank %u on, %s\n", hosts[rank].name, (unsigned)alike(rank),
                    (unsigned)rank, hosts[rank].system);
    for (i = 0; i < LIMITS; i++) fprintf(out, "limit     %s: %zu bytes\n", limits[i].name, limits[i].value());
    for (variable = environ; *variable != NULL; variable++) {
        if (is_setting(*variable)) fprintf(out, "setting   %s\n", clean(*variable));
    }
}

void facts_info(FILE *out) {
    fprintf(out, "\ngasnet_info on the host of rank 0\n\n%s", info_text != NULL ? info_text : "not found\n");
}

void facts_json(FILE *out) {
    extern char **environ;
    char **variable;
    const char *comma = "";
    gex_Rank_t rank;
    size_t i;
    fprintf(out, "  \"started\": \"%s\", \"seed\": %llu, \"limit\": %.0f, \"quick\": %s,\n  \"library\": ", started,
            (unsigned long long)options.seed, options.limit, options.quick ? "true" : "false");
    json_string(out, GASNET_CONFIG_STRING);
    fprintf(out, ",\n  \"conduit\": \"%s\", \"ranks\": %u,\n  \"hosts\": [", conduit_name(), (unsigned)np);
    for (rank = 0; rank < np; rank += alike(rank)) {
        fprintf(out, "%s\n    {\"first\": %u, \"ranks\": %u, \"name\": ", rank > 0 ? "," : "", (unsigned)rank,
                (unsigned)alike(rank));
        json_string(out, hosts[rank].name);
        fprintf(out, ", \"system\": ");
        json_string(out, hosts[rank].system);
        fprintf(out, "}");
    }
    fprintf(out, "],\n  \"limits\": {");
    for (i = 0; i < LIMITS; i++) fprintf(out, "%s\"%s\": %zu", i > 0 ? ", " : "", limits[i].name, limits[i].value());
    fprintf(out, "},\n  \"settings\": {");
    for (variable = environ; *variable != NULL; variable++) {
        char name[128];
        size_t length = strcspn(*variable, "=");
        if (!is_setting(*variable)) continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *variable);
        fprintf(out, "%s\n    ", comma);
        json_string(out, clean(name));
        fprintf(out, ": ");
        json_string(out, clean(*variable + length + ((*variable)[length] == '=')));
        comma = ",";
    }
    fprintf(out, "},\n  \"gasnet_info\": %s,\n", info_json != NULL && info_json[0] == '{' ? info_json : "null");
}

/* ---- tests ---- */

static void layout(const struct test *test) {
    struct step s = {"layout of the job", NULL, NULL, 0, 0, 0, me};
    gex_Rank_t i, j, found = 0;
    uint64_t sums[2];
    (void)test;
    step(&s);
    if (host_info[host_index].gex_jobrank != me || nbrhd_info[nbrhd_index].gex_jobrank != me)
        fail(&s, "the tables of neighbours have another rank in this one's place");
    for (i = 0; i < nbrhd_ranks; i++) {
        for (j = 0; j < host_ranks; j++) found += nbrhd_info[i].gex_jobrank == host_info[j].gex_jobrank;
    }
    if (found != nbrhd_ranks) fail(&s, "%u neighbours are on other hosts", (unsigned)(nbrhd_ranks - found));
    sums[0] = nbrhd_index == 0 ? nbrhd_ranks : 0;
    sums[1] = host_index == 0 ? host_ranks : 0;
    add_all(sums, 2);
    if (sums[0] != np || sums[1] != np)
        fail(&s, "the neighbourhoods have %llu ranks, the hosts %llu, the job %u", (unsigned long long)sums[0],
             (unsigned long long)sums[1], (unsigned)np);
}

/* The tests before this one ran on uneven hosts, or did not. */
static const char *even(const struct test *test) {
    uint64_t least = host_ranks, all, most = 0;
    (void)test;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &most, &least, GEX_DT_U64, sizeof most, 1, GEX_OP_MAX, NULL, NULL, 0));
    all = least;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &least, &all, GEX_DT_U64, sizeof least, 1, GEX_OP_MIN, NULL, NULL, 0));
    if (least == np) return "one host";
    return least == most ? "all hosts have the same number of ranks: repeat with one rank fewer" : NULL;
}

static void nothing(const struct test *test) {
    struct step s = {test->name, NULL, NULL, 0, 0, 0, me};
    step(&s);
}

static const char *own_job(const struct test *test) {
    (void)test;
    return "needs a job of its own: `gasnet_selftest --exit 37` started as this job; `echo $?` must print 37";
}

const struct test layout_tests[] = {{"layout", "neighbourhoods and hosts fit together", 1, 0, layout, NULL},
                                    {NULL, NULL, 0, 0, NULL, NULL}};
const struct test exit_tests[] = {
    {"uneven", "the tests above, on hosts with different numbers of ranks", 1, 0, nothing, even},
    {"exit-code", "the launcher returns the exit code of a rank", 1, 0, nothing, own_job},
    {NULL, NULL, 0, 0, NULL, NULL}};

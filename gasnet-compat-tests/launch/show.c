/* Shows what a rank was started with. The first argument says what; output is one line per rank,
 * written at once. */
#include <gasnetex.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

int main(int argc, char **argv) {
    char line[8192];
    const char *what = argc > 1 ? argv[1] : "rank";
    size_t used = 0;
    /* Clients that have no argc and argv at hand pass NULL. */
    int bare = !strcmp(what, "bare") || getenv("SHOW_BARE") != NULL;
    /* Others parse theirs before initialisation, or pass copies. */
    int early_argc = argc;
    char **early_argv = argv;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "loud")) printf("loud\n");
    }
    int rc = gex_Client_Init(&client, &ep, &tm, "SHOW", bare ? NULL : &argc, bare ? NULL : &argv, 0);
    if (rc != GASNET_OK) return 3;
    unsigned me = (unsigned)gex_TM_QueryRank(tm);
    unsigned np = (unsigned)gex_TM_QuerySize(tm);
    if (gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) != GASNET_OK) return 4;
    barrier();
    if (!strcmp(what, "early") || !strcmp(what, "3")) {
        for (int i = 1; i < early_argc; i++)
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", i > 1 ? " " : "", early_argv[i]);
        used += (size_t)snprintf(line + used, sizeof line - used, ", then");
        for (int i = 1; i < argc; i++) used += (size_t)snprintf(line + used, sizeof line - used, " %s", argv[i]);
        used += (size_t)snprintf(line + used, sizeof line - used, "\n");
    } else if (!strcmp(what, "loud")) {
    } else if (!strcmp(what, "rank") || bare) {
        used = (size_t)snprintf(line, sizeof line, "rank %u of %u\n", me, np);
    } else if (!strcmp(what, "arguments")) {
        for (int i = 2; i < argc; i++) used += (size_t)snprintf(line + used, sizeof line - used, "[%s]", argv[i]);
        used += (size_t)snprintf(line + used, sizeof line - used, "\n");
    } else if (!strcmp(what, "environment")) {
        const char *own = getenv(argv[2]), *tools = gasnett_getenv(argv[2]), *gasnets = gasnet_getenv(argv[2]);
        used = (size_t)snprintf(line, sizeof line, "{%s}{%s}{%s}\n", own ? own : "none", tools ? tools : "none",
                                gasnets ? gasnets : "none");
    } else if (!strcmp(what, "limit")) {
        used = (size_t)snprintf(line, sizeof line, "at most %zu bytes\n", (size_t)gasnet_getMaxLocalSegmentSize());
    } else if (!strcmp(what, "nested")) {
        /* A rank starts another job, as test drivers do. */
        fflush(stdout);
        if (me == 0) {
            rc = system(argv[2]);
            used = (size_t)snprintf(line, sizeof line, "the inner job ended with %d\n",
                                    WIFEXITED(rc) ? WEXITSTATUS(rc) : -1);
        }
    } else if (!strcmp(what, "uninitialised")) {
        /* An error for valgrind, in rank 0. */
        volatile char *byte = (volatile char *)malloc(1);
        if (me == 0 && byte && *byte) used = (size_t)snprintf(line, sizeof line, "it is set\n");
    } else if (!strcmp(what, "input")) {
        size_t total = 0, sum = 0;
        int c;
        while ((c = getchar()) != EOF) total++, sum = sum * 31 + (unsigned)c;
        used = (size_t)snprintf(line, sizeof line, "rank %u read %zu bytes, sum %zx\n", me, total, sum);
    } else if (!strcmp(what, "terminal")) {
        used = (size_t)snprintf(line, sizeof line, "rank %u: %d %d %d\n", me, isatty(0), isatty(1), isatty(2));
    } else if (!strcmp(what, "streams")) {
        fprintf(stderr, "error line of %u\n", me);
        used = (size_t)snprintf(line, sizeof line, "first line of %u\nsecond line of %u\nno end", me, me);
    } else if (!strcmp(what, "descriptors")) {
        /* Descriptors that a program run by the client inherits: three streams. */
        fflush(stdout);
        if (me == 0) rc = system("ls /proc/self/fd | wc -l");
    } else if (!strcmp(what, "wait")) {
        volatile int forever = 1;
        printf("rank %u waits\n", me);
        fflush(stdout);
        while (forever) sleep(1);
    }
    if (used) {
        fwrite(line, 1, used, stdout);
        fflush(stdout);
    }
    barrier();
    if (bare) return argc > 2 ? atoi(argv[2]) : 0;
    gasnet_exit(argc > 2 && !strcmp(what, "rank") ? atoi(argv[2]) : 0);
    return 1;
}

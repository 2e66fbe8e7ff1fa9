/* Measures the time of a job from the command to its first line and to its end, and the memory of
 * its ranks at the first line. A process outside any job starts jobs of this program, one after the
 * other. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Kinds of memory in KiB. PROPORTIONAL divides shared pages by the number of processes that share
 * them. */
enum { PROPORTIONAL, RESIDENT, PRIVATE, PEAK, KINDS };
static const char *const kinds[KINDS] = {"proportional", "resident", "private", "peak"};

struct job {
    double first_us, end_us;
    double kib[KINDS]; /* mean over the ranks */
};

/* In the jobs: the value of `key` in a file of /proc, in KiB. */
static double figure(const char *file, const char *key) {
    char line[200];
    double sum = 0;
    size_t length = strlen(key);
    FILE *text = fopen(file, "r");
    if (text == NULL) return 0;
    while (fgets(line, sizeof line, text) != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == ':') sum += strtod(line + length + 1, NULL);
    }
    fclose(text);
    return sum;
}

void start_in_job(void) {
    static const char rollup[] = "/proc/self/smaps_rollup";
    double mine[KINDS], all[KINDS];
    int i;
    if (me == 0) {
        printf("first line\n");
        fflush(stdout);
    }
    mine[PROPORTIONAL] = figure(rollup, "Pss");
    mine[RESIDENT] = figure(rollup, "Rss");
    mine[PRIVATE] = figure(rollup, "Private_Clean") + figure(rollup, "Private_Dirty");
    mine[PEAK] = figure("/proc/self/status", "VmHWM");
    barrier(); /* an exit would change the proportional memory of the others */
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, all, mine, GEX_DT_DBL, sizeof(double), KINDS, GEX_OP_ADD, NULL, NULL, 0));
    if (me == 0) {
        for (i = 0; i < KINDS; i++) printf("%.0f ", all[i] / np);
        printf("\n");
        fflush(stdout);
    }
}

/* In the forked process: executes the launcher, or this program without one. */
static void become_job(char *self, int ranks) {
    char number[16], *launcher = options.launcher ? strdup(options.launcher) : NULL, *words[66], *word;
    int count = 0;
    snprintf(number, sizeof number, "%d", ranks);
    if (launcher == NULL) setenv("GASNET_PSHM_NODES", number, 1);
    for (word = launcher ? strtok(launcher, " ") : NULL; word != NULL && count < 60; word = strtok(NULL, " ")) {
        words[count++] = strcmp(word, "%d") == 0 ? number : word;
    }
    words[count++] = self;
    words[count++] = (char *)(uintptr_t) "--in-job";
    words[count] = NULL;
    execvp(words[0], words);
    fprintf(stderr, "gasnet_perf: cannot start %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static struct job one_job(char *self, int ranks) {
    struct job job = {0, 0, {0}};
    int ends[2], status, i, well;
    char line[400], *at = line;
    double start, measured;
    FILE *output;
    pid_t child;
    fflush(stdout);
    if (pipe(ends) != 0) {
        perror("gasnet_perf: pipe");
        exit(1);
    }
    start = now_us();
    child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        become_job(self, ranks);
    }
    close(ends[1]);
    output = fdopen(ends[0], "r");
    well = child > 0 && output != NULL && fgets(line, sizeof line, output) != NULL && strcmp(line, "first line\n") == 0;
    job.first_us = now_us() - start;
    well = well && fgets(line, sizeof line, output) != NULL;
    for (i = 0; well && i < KINDS; i++) job.kib[i] = strtod(at, &at);
    measured = now_us();
    if (!well && output != NULL) { /* so that writers get SIGPIPE */
        fclose(output);
        output = NULL;
    }
    well = waitpid(child, &status, 0) == child && status == 0 && well && job.kib[RESIDENT] > 0;
    /* Without the time in which the job looked at its memory: it grows with ranks and mappings. */
    job.end_us = job.first_us + (now_us() - measured);
    if (output != NULL) fclose(output);
    if (!well) {
        fprintf(stderr,
                "gasnet_perf: a job of %d ranks failed; --launcher sets the command that starts jobs "
                "(%s)\n",
                ranks, options.launcher ? options.launcher : "the variable GASNET_PSHM_NODES");
        exit(1);
    }
    return job;
}

/* The figures at offset `at` in each job. */
static struct figures over(const struct job *jobs, int count, size_t at) {
    double *values = malloc((size_t)count * sizeof *values);
    struct figures result;
    int i;
    if (values == NULL) exit(1);
    for (i = 0; i < count; i++) memcpy(&values[i], (const char *)&jobs[i] + at, sizeof *values);
    result = figures_of(values, count);
    free(values);
    return result;
}

static void times_to(FILE *out, const char *test, int ranks, struct figures f) {
    fprintf(out, "%s\n  {\"test\": \"%s\", \"bytes\": 0, \"ranks\": %d", strcmp(test, "start") == 0 ? "" : ",", test,
            ranks);
    report_figures(out, f);
    fprintf(out, "}");
}

static void jobs_of(char *self, int ranks, struct job *jobs, FILE *json, int first) {
    FILE *table = report_table();
    struct figures to_line, to_end, kib[KINDS];
    int i, kind;
    one_job(self, ranks); /* warm up the page cache */
    for (i = 0; i < options.blocks; i++) {
        report_progress("%d ranks: job %d of %d", ranks, i + 1, options.blocks);
        jobs[i] = one_job(self, ranks);
    }
    report_erase();
    to_line = over(jobs, options.blocks, offsetof(struct job, first_us));
    to_end = over(jobs, options.blocks, offsetof(struct job, end_us));
    for (kind = 0; kind < KINDS; kind++)
        kib[kind] = over(jobs, options.blocks, offsetof(struct job, kib) + (size_t)kind * sizeof(double));
    fprintf(table, "  %6d %12.2f %7.1f %12.2f", ranks, to_line.median / 1e3,
            50 * (to_line.high - to_line.low) / to_line.median, to_end.median / 1e3);
    for (kind = 0; kind < KINDS; kind++) fprintf(table, " %12.0f", kib[kind].median);
    fprintf(table, "\n");
    fflush(table);
    if (json == NULL) return;
    if (!first) fprintf(json, ",");
    times_to(json, "start", ranks, to_line);
    times_to(json, "end", ranks, to_end);
    for (kind = 0; kind < KINDS; kind++) {
        fprintf(json, ",\n  {\"test\": \"memory, %s\", \"bytes\": 0, \"ranks\": %d, \"kib\": %.6g}", kinds[kind], ranks,
                kib[kind].median);
    }
}

void start_measure(void) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct job *jobs = calloc((size_t)options.blocks, sizeof *jobs);
    FILE *json = options.json != NULL ? report_file(options.json) : NULL;
    int i, kind;
    if (length <= 0 || jobs == NULL) {
        fprintf(stderr, "gasnet_perf: cannot determine the file of this program\n");
        exit(1);
    }
    self[length] = '\0';
    fprintf(report_table(),
            "# gasnet_perf: %s\n# time from the command to the first line and to the end; mean memory of a rank, KiB; "
            "%d jobs each\n",
            GASNET_CONFIG_STRING, options.blocks);
    fprintf(report_table(), "# %6s %12s %7s %12s", "ranks", "start, ms", "+-%", "end, ms");
    for (kind = 0; kind < KINDS; kind++) fprintf(report_table(), " %12s", kinds[kind]);
    fprintf(report_table(), "\n");
    if (json != NULL) fprintf(json, "{\"library\": \"%s\", \"results\": [", GASNET_CONFIG_STRING);
    for (i = 0; i < options.starts; i++) jobs_of(self, options.start[i], jobs, json, i == 0);
    free(jobs);
    if (json == NULL) return;
    fprintf(json, "\n]}\n");
    report_close(json, options.json);
}

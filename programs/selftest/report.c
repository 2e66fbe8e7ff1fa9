/* The report. Failures of all ranks come to rank 0, which writes the files anew after each test, so
 * that a job that dies leaves one. */
#include "selftest.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTE = 190, PER_RANK = 5, PER_TEST = 100 };
static const char *const words[] = {"PASS", "FAIL", "SKIP", "not run", "the job ended during this test"};

static struct result {
    const struct test *test;
    int result, is_short;
    double seconds;
    uint64_t cases, failures;
    char *texts[PER_TEST];
    size_t count;
} * results, *current, *hung; /* hung: the test under way when an operation was late */
static size_t tests;
static const struct test start = {"start", "the ranks of the job reach each other", 0, 0, NULL, NULL};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t notes, failures, received; /* of this rank in this test; of all, on rank 0 */
static int ended;

/* On a terminal, rank 0 names the test under way, and results have colours. */
static int is_terminal(void) { return isatty(STDOUT_FILENO); }
static const char *coloured(int result) {
    static const char *const texts[] = {"\033[32mPASS\033[0m", "\033[31mFAIL\033[0m", "\033[33mSKIP\033[0m"};
    return result <= SKIP && is_terminal() && getenv("NO_COLOR") == NULL ? texts[result] : words[result];
}

static void on_note(gex_Token_t token, void *text, size_t bytes) {
    (void)token;
    pthread_mutex_lock(&lock);
    if (current->count < PER_TEST) current->texts[current->count++] = strndup(text, bytes);
    pthread_mutex_unlock(&lock);
    __atomic_add_fetch(&received, 1, __ATOMIC_RELEASE);
}

void note(const char *text) {
    notes++;
    gex_AM_RequestMedium0(tm, 0, NOTE, (void *)(uintptr_t)text, strlen(text), GEX_EVENT_NOW, 0);
}

int describe(char *text, size_t size, const struct step *s) {
    size_t used = 0;
#define ADD(...) used += used < size ? (size_t)snprintf(text + used, size - used, __VA_ARGS__) : 0
    ADD("%s", s->operation);
    if (s->bytes > 0) ADD(", %zu bytes", s->bytes);
    if (s->class != NULL) ADD(" (%s)", s->class);
    if (s->memory != NULL) ADD(", local memory: %s", s->memory);
    if (s->bytes > 0) ADD(", alignment %u here and %u there", s->local, s->remote);
    if (s->peer == GEX_RANK_INVALID) ADD(", rank %u on %s with all ranks", (unsigned)me, host_of(me));
    else
        ADD(", rank %u on %s with rank %u on %s %s", (unsigned)me, host_of(me), (unsigned)s->peer, host_of(s->peer),
            path_to(s->peer));
    return (int)(used < size ? used : size - 1);
}

void fail(const struct step *s, const char *format, ...) {
    char text[TEXT];
    va_list arguments;
    int used;
    if (++failures > PER_RANK) return;
    used = describe(text, sizeof text, s);
    used += snprintf(text + used, sizeof text - (size_t)used, ": ");
    va_start(arguments, format);
    if (used < TEXT) vsnprintf(text + used, (size_t)(TEXT - used), format, arguments);
    va_end(arguments);
    fprintf(stderr, "gasnet_selftest: FAIL %s\n", text); /* in case that the network takes no message */
    note(text);
}

uint64_t take_failures(void) {
    uint64_t all = failures;
    failures = 0;
    return all;
}
uint64_t take_notes(void) {
    uint64_t all = notes;
    notes = 0;
    return all;
}

void json_string(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f) fprintf(out, "\\u%04x", c);
        else fputc(c, out);
    }
    fputc('"', out);
}

static int verdict(void) {
    size_t i;
    for (i = 0; i < tests; i++) {
        if (results[i].result != PASS && results[i].result != SKIP) return 1;
    }
    return 0;
}

static void table(FILE *out) {
    size_t i, t, of[UNDER_WAY + 1] = {0};
    for (i = 0; i < tests; i++) {
        const struct result *r = &results[i];
        of[r->result]++;
        fprintf(out, "  %-7s %-20s %8llu  %6.1f s  %s%s\n", r->result == UNDER_WAY ? "FAIL" : words[r->result],
                r->test->name, (unsigned long long)r->cases, r->seconds,
                r->result == SKIP && r->count > 0 ? r->texts[0] : r->test->about,
                r->is_short ? " (not all in its time)" : "");
        if (r->result == UNDER_WAY) fprintf(out, "        %s\n", words[UNDER_WAY]);
        for (t = 0; t < r->count && r->result != SKIP; t++) fprintf(out, "        %s\n", r->texts[t]);
        if (r->failures > r->count && r->result == FAIL)
            fprintf(out, "        %llu failures in all\n", (unsigned long long)r->failures);
    }
    fprintf(out, "%zu PASS, %zu FAIL, %zu SKIP, %zu not run\n", of[PASS], of[FAIL] + of[UNDER_WAY], of[SKIP],
            of[NOT_RUN]);
}

static void json(FILE *out, int complete) {
    size_t i, t;
    fprintf(out, "{\n  \"program\": \"gasnet_selftest\", \"complete\": %s, \"result\": \"%s\",\n",
            complete ? "true" : "false", words[verdict()]);
    facts_json(out);
    fprintf(out, "  \"tests\": [");
    for (i = 0; i < tests; i++) {
        const struct result *r = &results[i];
        fprintf(out, "%s\n    {\"test\": \"%s\", \"about\": ", i > 0 ? "," : "", r->test->name);
        json_string(out, r->test->about);
        fprintf(
            out,
            ", \"result\": \"%s\", \"cases\": %llu, \"all\": %s, \"seconds\": %.2f, \"failures\": %llu, \"texts\": [",
            r->result == UNDER_WAY ? "FAIL" : words[r->result], (unsigned long long)r->cases,
            r->is_short ? "false" : "true", r->seconds, (unsigned long long)r->failures);
        for (t = 0; t < r->count; t++) {
            fprintf(out, t > 0 ? ", " : "");
            json_string(out, r->texts[t]);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "\n  ]\n}\n");
}

static const char *name_of(const char *suffix, char *name, size_t size) {
    snprintf(name, size, "%s%s", options.report, suffix);
    return name;
}

/* Writes a file beside its name, and renames it. */
static FILE *begin_file(const char *suffix, char *name, size_t size) {
    FILE *file;
    snprintf(name, size, "%s%s.new", options.report, suffix);
    file = fopen(name, "w");
    if (file == NULL) {
        fprintf(stderr, "gasnet_selftest: cannot write %s\n", name);
        perror("gasnet_selftest");
    }
    return file;
}
static int end_file(FILE *file, const char *name, const char *suffix) {
    char final[1000];
    int bad = ferror(file);
    name_of(suffix, final, sizeof final);
    bad |= fclose(file) != 0;
    if (!bad && rename(name, final) == 0) return 1;
    fprintf(stderr, "gasnet_selftest: cannot write %s\n", final);
    unlink(name);
    return 0;
}

/* With `lock` held. */
static int write_files(int complete) {
    char name[1000];
    FILE *file = begin_file(".txt", name, sizeof name);
    int good = 0;
    if (file == NULL) return 0;
    fprintf(file, "gasnet_selftest: %s\n\n", !complete ? "INCOMPLETE" : words[verdict()]);
    facts_text(file);
    fprintf(file, "\n");
    table(file);
    facts_info(file);
    good = end_file(file, name, ".txt");
    file = begin_file(".json", name, sizeof name);
    if (file == NULL) return 0;
    json(file, complete);
    return end_file(file, name, ".json") && good;
}

void report_setup(const struct test **all, size_t count) {
    size_t i;
    results = calloc(count + 1, sizeof *results);
    if (results == NULL) gasnet_exit(1);
    tests = count + 1;
    current = results;
    current->test = &start;
    current->result = UNDER_WAY;
    for (i = 1; i < tests; i++) {
        results[i].test = all[i - 1];
        results[i].result = NOT_RUN;
    }
}

void report_started(void) {
    uint64_t cases = take_cases();
    pthread_mutex_lock(&lock);
    current->result = PASS;
    current->cases = cases * np;
    pthread_mutex_unlock(&lock);
    if (me != 0) return;
    printf("gasnet_selftest: tests this library on this machine; %zu tests, about %s\n", tests - 1,
           options.quick ? "a minute" : "ten minutes");
    facts_text(stdout);
    printf("report    %s.txt, %s.json\n\n", options.report, options.report);
    fflush(stdout);
}

void report_begin(const struct test *test) {
    static int was_written;
    int written;
    pthread_mutex_lock(&lock);
    current++;
    current->test = test;
    current->result = UNDER_WAY;
    if (me == 0 && !ended && is_terminal()) {
        printf("[%2zu/%zu] .... %s", (size_t)(current - results), tests - 1, test->name);
        fflush(stdout);
    }
    written = me != 0 || ended || write_files(0);
    was_written |= written;
    pthread_mutex_unlock(&lock);
    if (!was_written) gasnet_exit(1); /* a disk that is full later does not end the tests */
}

void report_forget(void) {
    char name[1000];
    remove(name_of(".txt", name, sizeof name));
    remove(name_of(".json", name, sizeof name));
}

void report_result(int result, uint64_t cases, uint64_t failed, int is_short, double seconds) {
    pthread_mutex_lock(&lock);
    current->result = current == hung ? FAIL : result;
    current->is_short = is_short;
    current->cases = cases;
    current->failures = failed;
    current->seconds = seconds;
    if (me == 0 && !ended) {
        printf("%s[%2zu/%zu] %s %-20s %8llu cases %6.1f s\n", is_terminal() ? "\r\033[K" : "",
               (size_t)(current - results), tests - 1, coloured(current->result), current->test->name,
               (unsigned long long)cases, seconds);
        fflush(stdout);
    }
    pthread_mutex_unlock(&lock);
}

void report_unsound(void) {
    pthread_mutex_lock(&lock);
    current->result = FAIL;
    pthread_mutex_unlock(&lock);
}

/* Rank 0 has all notes of this test. */
static int unsettled;
void report_unsettled(void) { unsettled = 1; }
void report_await(uint64_t sent) {
    static uint64_t all;
    all += sent;
    if (me == 0 && !unsettled) GASNET_BLOCKUNTIL(__atomic_load_n(&received, __ATOMIC_ACQUIRE) == all);
}

int report_end(int complete) {
    int code = 0;
    pthread_mutex_lock(&lock);
    if (!ended) {
        ended = 1;
        printf("\n");
        table(stdout);
        code = !write_files(complete) || verdict();
        printf("%s: mail %s.txt and %s.json\n", coloured(verdict()), options.report, options.report);
        fflush(stdout);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

/* Late operations may end yet, and other tests begin. */
void report_late(void) {
    pthread_mutex_lock(&lock);
    hung = current;
    pthread_mutex_unlock(&lock);
}

void report_hang(const char *text) {
    char line[TEXT + 64];
    pthread_mutex_lock(&lock);
    hung->result = FAIL;
    snprintf(line, sizeof line, "no progress within the limit of %.0f s (--limit); each rank waits:", options.limit);
    for (;;) {
        size_t length = strcspn(text, "\n");
        if (hung->count < PER_TEST) hung->texts[hung->count++] = strdup(line);
        if (length == 0 || length >= sizeof line) break;
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] == '\n');
    }
    pthread_mutex_unlock(&lock);
    report_end(1);
}

void report_handlers(void) {
    gex_AM_Entry_t table_of_handlers[] = {
        {NOTE, (gex_AM_Fn_t)on_note, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, "note"}};
    add_handlers(table_of_handlers, 1);
}

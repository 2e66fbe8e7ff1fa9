/* Watches the operations of the main thread. One that does not end fails its test: rank 0 asks all
 * ranks for the operation that each waits for, writes the report, and ends the job. An abort of the
 * library names the operation, too. */
#include "selftest.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUERY = 160, STATUS, HUNG, GRACE = 5, MOST_LISTED = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct step step;
    double since, allowed;
    const struct test *test;
    uint64_t cases;
} current;
static int reported, over;     /* a rank reports an operation that does not end; the tests are over */
static char (*statuses)[TEXT]; /* rank 0: by rank */

void step(const struct step *s) {
    pthread_mutex_lock(&lock);
    current.step = *s;
    current.since = now();
    current.allowed = options.limit;
    current.cases++;
    pthread_mutex_unlock(&lock);
}

void waiting(const char *what, double seconds) {
    struct step s = {what, NULL, NULL, 0, 0, 0, GEX_RANK_INVALID};
    pthread_mutex_lock(&lock);
    current.step = s;
    current.since = now();
    current.allowed = options.limit + seconds;
    pthread_mutex_unlock(&lock);
}

void watch_test(const struct test *test) {
    pthread_mutex_lock(&lock);
    current.test = test;
    pthread_mutex_unlock(&lock);
}

uint64_t take_cases(void) {
    uint64_t cases;
    pthread_mutex_lock(&lock);
    cases = current.cases;
    current.cases = 0;
    pthread_mutex_unlock(&lock);
    return cases;
}

/* This rank's operation; returns by how much it exceeds its limit. */
static double describe_current(char *text, size_t size) {
    double late;
    int used;
    pthread_mutex_lock(&lock);
    used = describe(text, size, &current.step);
    snprintf(text + used, size - (size_t)used, ": for %.0f s, in test %s", now() - current.since,
             current.test != NULL ? current.test->name : "start");
    late = now() - current.since - current.allowed;
    pthread_mutex_unlock(&lock);
    return late;
}

/* An abort in another thread may come while `lock` is held: the operation is read without it. */
static struct sigaction before_abort;
static void on_abort(int number) {
    char text[2 * TEXT], name[1000];
    struct step s = current.step;
    int files[2] = {STDERR_FILENO, -1}, i;
    int used = snprintf(text, sizeof text, "gasnet_selftest: the library ends the job in test %s: ",
                        current.test != NULL ? current.test->name : "start");
    used += describe(text + used, sizeof text - (size_t)used - 1, &s);
    text[used++] = '\n';
    /* The report is there on the host of rank 0, or in a folder that hosts share. */
    snprintf(name, sizeof name, "%s.txt", options.report);
    files[1] = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
    for (i = 0; i < 2; i++) {
        if (files[i] >= 0 && write(files[i], text, (size_t)used) < 0) continue; /* the other one may take it */
    }
    sigaction(number, &before_abort, NULL);
    raise(number); /* when this handler has returned */
}

static void on_query(gex_Token_t token) {
    char text[TEXT];
    describe_current(text, sizeof text);
    gex_AM_ReplyMedium0(token, STATUS, text, strlen(text) + 1, GEX_EVENT_NOW, 0);
}

static void on_status(gex_Token_t token, void *text, size_t bytes) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    if (statuses == NULL || bytes > TEXT) return;
    memcpy(statuses[info.gex_srcrank], text, bytes);
}

static void on_hung(gex_Token_t token, void *text, size_t bytes) {
    on_status(token, text, bytes);
    __atomic_store_n(&reported, 1, __ATOMIC_RELEASE);
}

/* Threads of their own send: on a network that takes no more messages they wait forever. */
static void *ask_all(void *unused) {
    gex_Rank_t rank;
    for (rank = 0; rank < np; rank++) {
        if (rank != me) gex_AM_RequestShort0(tm, rank, QUERY, 0);
    }
    for (;;) {
        gasnet_AMPoll();
        usleep(1000);
    }
    return unused;
}
static void *report_to_rank_0(void *text) {
    gex_AM_RequestMedium0(tm, 0, HUNG, text, strlen(text) + 1, GEX_EVENT_NOW, 0);
    return NULL;
}

static void leave(int signal) {
    (void)signal;
    _exit(1);
}
/* Ends this process if it does not end otherwise. */
static void end_within(unsigned seconds) {
    signal(SIGALRM, leave);
    alarm(seconds);
}

static void end_job(void) {
    static char text[(MOST_LISTED + 2) * (TEXT + 2)];
    pthread_t thread;
    size_t used = 0;
    gex_Rank_t rank, listed = 0;
    end_within(6 * GRACE);
    report_late();
    describe_current(statuses[0], TEXT);
    if (pthread_create(&thread, NULL, ask_all, NULL) != 0) _exit(1);
    sleep(GRACE);
    for (rank = 0; rank < np && listed < MOST_LISTED; rank++, listed++) {
        if (statuses[rank][0] == '\0')
            snprintf(statuses[rank], TEXT, "rank %u on %s does not answer: its process is stopped, or its network",
                     (unsigned)rank, host_of(rank));
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", statuses[rank]);
    }
    if (listed < np) snprintf(text + used, sizeof text - used, "and %u ranks more\n", (unsigned)(np - listed));
    report_hang(text);
    gasnet_exit(1);
}

static void *watch(void *unused) {
    static char text[TEXT];
    int is_reported = 0;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        pthread_t thread;
        int is_late;
        usleep(200000);
        if (is_reported) continue;
        is_late = describe_current(text, sizeof text) > 0;
        if (is_late) fprintf(stderr, "gasnet_selftest: no progress: %s\n", text);
        if (me == 0 && (is_late || __atomic_load_n(&reported, __ATOMIC_ACQUIRE))) end_job();
        if (!is_late) continue;
        is_reported = 1;
        end_within((unsigned)options.limit + 12 * GRACE);
        if (pthread_create(&thread, NULL, report_to_rank_0, text) == 0) pthread_detach(thread);
    }
    return unused;
}

static pthread_t watcher;
void watch_start(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_abort;
    sigaction(SIGABRT, &action, &before_abort);
    if (me == 0) {
        statuses = calloc(np, sizeof *statuses);
        if (statuses == NULL) gasnet_exit(1);
    }
    waiting("start", 0);
    if (pthread_create(&watcher, NULL, watch, NULL) != 0) gasnet_exit(1);
}

void watch_stop(void) {
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(watcher, NULL);
    end_within((unsigned)options.limit + 12 * GRACE);
}

void watch_setup(void) {
    gex_AM_Entry_t table[] = {
        {QUERY, (gex_AM_Fn_t)on_query, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, "query"},
        {STATUS, (gex_AM_Fn_t)on_status, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0, NULL, "status"},
        {HUNG, (gex_AM_Fn_t)on_hung, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, "hung"},
    };
    add_handlers(table, sizeof table / sizeof table[0]);
}

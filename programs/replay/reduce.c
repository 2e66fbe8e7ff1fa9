/* Makes a recording smaller while its replay fails: without some ranks, some threads, some
 * operations, by halves. An operation is a message with the run of its handler and its reply, a
 * barrier of all ranks, or another call. */
#include "replay.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, MOST_WORDS = 100, GRACE = 5 };

static unsigned ranks;
static struct recording **all;
static size_t units;
static unsigned char *keep, *is_barrier; /* by unit */
static const char *target_pattern;
static char try_pattern[4096];
static char **command;
static double run_limit;
static int is_endless;                    /* replays that do not fail */
static volatile sig_atomic_t interrupted; /* by this signal */

/* Records of a channel, in order. */
struct list {
    struct record **records;
    size_t count;
};
typedef struct list lists[2][HANDLERS];

static void append(struct list *list, struct record *record) {
    if ((list->count & (list->count - 1)) == 0) {
        list->records = realloc(list->records, (list->count ? 2 * list->count : 1) * sizeof *list->records);
        if (list->records == NULL) wrong("there is not enough memory for the recordings");
    }
    list->records[list->count++] = record;
}

/* A barrier of all ranks remains, as teams are not made smaller. */
static int is_dropped(const struct record *r) { return is_of_team(r) && (r->kind < BARRIER_NOTIFY || r->offset > 0); }

static struct recording *load_without_teams(const char *pattern, unsigned rank) {
    struct recording *recording = load(pattern, rank);
    size_t i, kept = 0;
    for (i = 0; i < recording->count; i++) {
        if (!is_dropped(&recording->records[i])) recording->records[kept++] = recording->records[i];
    }
    recording->count = kept;
    return recording;
}

static uint32_t new_unit(void) { return (uint32_t)units++; }

/* Gives the run of each message its unit, and passes it on to the reply. */
static void match(struct list *sent, struct list *ran, struct record **replies) {
    size_t first = first_run((uint32_t)ran->count, (uint32_t)sent->count);
    size_t i;
    for (i = 0; i < ran->count; i++) {
        ran->records[i]->number = i >= first ? sent->records[i - first]->number : new_unit();
        if (replies != NULL && replies[i] != NULL) replies[i]->number = ran->records[i]->number;
    }
}

/* The replies of each run of a list: those before it in its thread. */
static struct record **replies_of(const struct recording *recording, const struct list *ran) {
    struct record **replies = allocate(ran->count, sizeof *replies), *last[THREADS] = {NULL};
    size_t i, k = 0;
    for (i = 0; i < recording->count && k < ran->count; i++) {
        struct record *r = &recording->records[i];
        if (is_send(r->kind) && is_reply(r->kind)) last[r->thread] = r;
        if (!is_run(r->kind) || is_reply(r->kind)) continue;
        if (r == ran->records[k]) replies[k++] = last[r->thread];
        last[r->thread] = NULL;
    }
    return replies;
}

static void assign_units(void) {
    lists *sent = allocate((size_t)ranks * ranks, sizeof *sent), *ran = allocate((size_t)ranks * ranks, sizeof *ran);
    uint32_t *barriers[2] = {NULL, NULL};
    uint64_t most[2] = {0, 0};
    unsigned from, to;
    size_t i;
    int way, h;
    for (from = 0; from < ranks; from++) {
        for (i = 0; i < all[from]->count; i++) {
            const struct record *r = &all[from]->records[i];
            int kind = r->kind == BARRIER_START || r->kind == BARRIER_DONE;
            if ((r->kind == BARRIER_NOTIFY || r->kind == BARRIER_WAIT || kind) && r->bytes >= most[kind])
                most[kind] = r->bytes + 1;
        }
    }
    for (i = 0; i < 2; i++) barriers[i] = allocate(most[i], sizeof *barriers[i]);
    for (from = 0; from < ranks; from++) {
        for (i = 0; i < all[from]->count; i++) {
            struct record *r = &all[from]->records[i];
            int kind = r->kind == BARRIER_START || r->kind == BARRIER_DONE;
            if (is_send(r->kind)) append(&sent[from * ranks + r->peer][is_reply(r->kind)][r->code - FIRST_HANDLER], r);
            if (is_run(r->kind)) append(&ran[r->peer * ranks + from][is_reply(r->kind)][r->code - FIRST_HANDLER], r);
            if (kind || r->kind == BARRIER_NOTIFY || r->kind == BARRIER_WAIT) {
                uint32_t *unit = &barriers[kind][r->bytes];
                if (*unit == 0) *unit = new_unit() + 1;
                r->number = *unit - 1;
            } else if (!is_run(r->kind)) {
                r->number = new_unit();
            }
        }
    }
    for (way = 0; way < 2; way++) {
        for (i = 0; i < (size_t)ranks * ranks * HANDLERS; i++) {
            struct list *s = &sent[i / HANDLERS][way][i % HANDLERS], *r = &ran[i / HANDLERS][way][i % HANDLERS];
            struct record **replies = NULL;
            from = (unsigned)(i / HANDLERS / ranks);
            to = (unsigned)(i / HANDLERS % ranks);
            if (way == 0) replies = replies_of(all[to], r);
            match(s, r, replies);
            free(replies);
        }
    }
    for (i = 0; i < (size_t)ranks * ranks; i++) {
        for (way = 0; way < 2; way++) {
            for (h = 0; h < HANDLERS; h++) {
                free(sent[i][way][h].records);
                free(ran[i][way][h].records);
            }
        }
    }
    free(sent);
    free(ran);
    is_barrier = allocate(units, 1);
    for (way = 0; way < 2; way++) {
        for (i = 0; i < most[way]; i++) {
            if (barriers[way][i] > 0) is_barrier[barriers[way][i] - 1] = 1;
        }
        free(barriers[way]);
    }
}

/* Orders units by time, so that neighbours belong together. */
static uint64_t *times;
static int by_time(const void *a, const void *b) {
    uint64_t x = times[*(const uint32_t *)a], y = times[*(const uint32_t *)b];
    return (x > y) - (x < y);
}
static uint32_t *in_order(void) {
    uint32_t *order = allocate(units, sizeof *order);
    unsigned rank;
    size_t i;
    times = allocate(units, sizeof *times);
    for (rank = 0; rank < ranks; rank++) {
        for (i = all[rank]->count; i-- > 0;) times[all[rank]->records[i].number] = all[rank]->records[i].at;
    }
    for (i = 0; i < units; i++) order[i] = (uint32_t)i;
    qsort(order, units, sizeof *order, by_time);
    return order;
}

/* The ranks that a selection needs: those with more than barriers, and peers. Returns their number.
 * With barriers only, all ranks. */
static unsigned number_ranks(const unsigned char *kept, uint16_t *numbers) {
    unsigned char *is_needed = allocate(ranks, 1);
    unsigned rank, count = 0;
    size_t i;
    for (rank = 0; rank < ranks; rank++) {
        for (i = 0; i < all[rank]->count; i++) {
            const struct record *r = &all[rank]->records[i];
            if (!kept[r->number] || is_barrier[r->number]) continue;
            is_needed[rank] = 1;
            if (r->peer != NO_PEER) is_needed[r->peer] = 1;
        }
    }
    for (rank = 0; rank < ranks; rank++) count += is_needed[rank];
    if (count == 0) memset(is_needed, 1, ranks);
    for (rank = 0, count = 0; rank < ranks; rank++) {
        numbers[rank] = NO_PEER;
        if (is_needed[rank]) numbers[rank] = (uint16_t)count++;
    }
    free(is_needed);
    return count;
}

static void remove_files(const char *pattern, unsigned from) {
    unsigned rank;
    for (rank = from; rank < ranks; rank++) {
        char name[4200];
        file_name(name, sizeof name, pattern, rank);
        unlink(name);
    }
}

/* Writes the recordings of a selection, and removes those of ranks that it no longer has. */
static unsigned store_selection(const char *pattern, const unsigned char *kept) {
    uint16_t *numbers = allocate(ranks, sizeof *numbers);
    unsigned rank, count = number_ranks(kept, numbers);
    size_t i;
    remove_files(pattern, count);
    for (rank = 0; rank < ranks; rank++) {
        struct recording part = *all[rank];
        if (numbers[rank] == NO_PEER) continue;
        part.rank = numbers[rank];
        part.ranks = count;
        part.records = allocate(part.count, sizeof *part.records);
        part.count = 0;
        for (i = 0; i < all[rank]->count; i++) {
            struct record r = all[rank]->records[i];
            if (!kept[r.number]) continue;
            if (r.peer != NO_PEER) r.peer = numbers[r.peer];
            part.records[part.count++] = r;
        }
        store(pattern, &part);
        free(part.records);
    }
    free(numbers);
    return count;
}

static void remove_tries(void) { remove_files(try_pattern, 0); }

/* A word of the command, with the number of ranks in the place of %n. */
static char *with_number(const char *word, const char *number) {
    size_t used = 0, length = strlen(number);
    char *result = allocate(strlen(word) * (length + 1) + 1, 1);
    for (; *word != '\0'; word++) {
        if (word[0] == '%' && word[1] == 'n') {
            memcpy(result + used, number, length);
            used += length;
            word++;
        } else {
            result[used++] = *word;
        }
    }
    return result;
}

static void interrupt(int signal) { interrupted = signal; }

/* Runs the command, and returns its exit status. One that does not end in time is ended, and has
 * failed unless its replays are endless. */
static int run_command(unsigned count) {
    char number[20], *words[MOST_WORDS + 1];
    struct timespec tick = {0, 20000000};
    double waited, end = run_limit;
    int i, status;
    pid_t child;
    snprintf(number, sizeof number, "%u", count);
    fflush(NULL);
    child = fork();
    if (child < 0) wrong("cannot create a process: %s", strerror(errno));
    if (child == 0) {
        setpgid(0, 0);
        /* The last word is the recording, whose name may have %n. */
        for (i = 0; command[i] != NULL; i++)
            words[i] = command[i + 1] != NULL ? with_number(command[i], number) : command[i];
        words[i] = NULL;
        execvp(words[0], words);
        fprintf(stderr, "gasnet_replay: cannot run %s: %s\n", words[0], strerror(errno));
        _exit(2);
    }
    for (waited = 0; waitpid(child, &status, WNOHANG) == 0; waited += 0.02) {
        if (interrupted && waited < end) end = waited;
        if (waited > end + GRACE) kill(-child, SIGKILL);
        else if (waited > end) kill(-child, SIGTERM);
        nanosleep(&tick, NULL);
    }
    if (interrupted) {
        remove_tries();
        signal(interrupted, SIG_DFL);
        raise(interrupted);
    }
    if (waited > end) return !is_endless;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static size_t count_kept(const unsigned char *kept) {
    size_t i, count = 0;
    for (i = 0; i < units; i++) count += kept[i];
    return count;
}

/* Runs the command with a selection, and returns its status and number of ranks. */
static int try_selection(const unsigned char *kept, unsigned *count) {
    int status;
    *count = store_selection(try_pattern, kept);
    status = run_command(*count);
    if (status != 2) return status;
    remove_tries();
    wrong("the replay cannot run; its message precedes");
}

/* Whether the replay of a selection fails. If so, it is kept. */
static int fails(const unsigned char *kept) {
    unsigned count;
    if (try_selection(kept, &count) == 0) return 0;
    memcpy(keep, kept, units);
    store_selection(target_pattern, keep);
    printf("gasnet_replay: %zu operations of %u ranks fail\n", count_kept(keep), count);
    return 1;
}

/* Marks the units of group `g`: of a rank, of a thread of a rank, or one. */
enum { RANKS, RANK_THREADS, UNITS };
static uint32_t *order;
static void drop_group(unsigned char *kept, int kind, size_t g) {
    unsigned rank;
    size_t i;
    if (kind == UNITS) {
        kept[order[g]] = 0;
        return;
    }
    for (rank = 0; rank < ranks; rank++) {
        for (i = 0; i < all[rank]->count; i++) {
            const struct record *r = &all[rank]->records[i];
            int is_in = kind == RANKS ? rank == g || r->peer == g
                                      : rank == g / THREADS && r->thread == g % THREADS && !is_marker(r->kind);
            if (is_in && !is_barrier[r->number]) kept[r->number] = 0;
        }
    }
}

/* Drops groups, half of them first, while the replay fails. */
static void shrink(int kind, size_t groups) {
    unsigned char *kept = allocate(units, 1);
    size_t part, first, i;
    for (part = (groups + 1) / 2; part > 0; part = part > 1 ? (part + 1) / 2 : 0) {
        for (first = 0; first < groups; first += part) {
            memcpy(kept, keep, units);
            for (i = first; i < groups && i < first + part; i++) drop_group(kept, kind, i);
            if (memcmp(kept, keep, units) != 0) fails(kept);
        }
    }
    free(kept);
}

int reduce(const char *from, const char *to, char **launcher, double limit, int does_not_end) {
    unsigned rank, count;
    size_t before;
    ranks = count_ranks(from);
    all = allocate(ranks, sizeof *all);
    for (rank = 0; rank < ranks; rank++) all[rank] = load_without_teams(from, rank);
    if (ranks > 1 && strchr(to, '%') == NULL) wrong("write %% in place of the rank in %s", to);
    target_pattern = to;
    snprintf(try_pattern, sizeof try_pattern, "%s.try", to);
    command = launcher;
    run_limit = limit;
    is_endless = does_not_end;
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    assign_units();
    order = in_order();
    keep = allocate(units, 1);
    memset(keep, 1, units);
    if (!is_endless && try_selection(allocate(units, 1), &count) != 0) {
        remove_tries();
        wrong("the command fails without any operation, too: can it start jobs?");
    }
    if (!fails(keep)) {
        remove_tries();
        wrong("the replay does not fail");
    }
    shrink(RANKS, ranks);
    shrink(RANK_THREADS, (size_t)ranks * THREADS);
    do {
        before = count_kept(keep);
        shrink(UNITS, units);
    } while (count_kept(keep) < before / 2);
    remove_tries();
    printf("gasnet_replay: %zu of %zu operations are in %s\n", count_kept(keep), units, to);
    return 0;
}

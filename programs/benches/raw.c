#define _GNU_SOURCE
#include "raw.h"

#include "limits.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BLOCKS = 11,
    SECONDS = 120,     /* a run takes seconds: more is a hang */
    OUTSTANDING = 256, /* messages of the flood without credit */
    CREDITS = 64       /* messages per credit */
};

struct options options = {.rounds = 1000};
int rank;
long received;
static long expected; /* messages, since the start */

/* Some may have arrived while this process polled for others. */
void receive(long count) {
    expected += count;
    while (received < expected) poll_library();
}

/* Ends a phase in which rank 1 only polls. */
static void end_phase(void) {
    if (rank == 0) {
        send_message(8);
    } else {
        receive(1);
    }
}

static double median(double *times) {
    qsort(times, BLOCKS, sizeof *times, ascending);
    return times[BLOCKS / 2];
}

static double one_sided_us(void (*operation)(size_t), size_t bytes) {
    double times[BLOCKS] = {0};
    for (int block = -1; rank == 0 && block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < options.rounds; i++) operation(bytes);
        if (block >= 0) times[block] = (now_us() - start) / (double)options.rounds;
    }
    end_phase();
    return median(times);
}

/* Microseconds per put or get of a series with one flush, `WINDOW` of them outstanding. */
static double flood_us(void (*start_one)(size_t, int), size_t bytes) {
    double times[BLOCKS] = {0};
    long count = bytes > 65536 ? 64 : options.rounds;
    for (int block = -1; rank == 0 && block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < count + WINDOW; i++) {
            if (i >= WINDOW) complete((int)(i % WINDOW));
            if (i < count) start_one(bytes, (int)(i % WINDOW));
        }
        flush();
        if (block >= 0) times[block] = (now_us() - start) / (double)count;
    }
    end_phase();
    return median(times);
}

static double round_trip_us(size_t bytes) {
    double times[BLOCKS] = {0};
    for (int block = -1; block < BLOCKS; block++) {
        double start = now_us();
        for (long i = 0; i < options.rounds; i++) {
            if (rank == 0) send_message(bytes);
            receive(1);
            if (rank == 1) send_message(bytes);
        }
        if (block >= 0) times[block] = (now_us() - start) / (double)options.rounds;
    }
    return median(times);
}

/* Microseconds per message from rank 0 to rank 1. A credit comes back per CREDITS messages. */
static double message_us(size_t bytes) {
    double times[BLOCKS] = {0};
    long count = (options.rounds * 4 + CREDITS - 1) / CREDITS * CREDITS;
    for (int block = -1; block < BLOCKS; block++) {
        long first = expected;
        double start = now_us();
        if (rank == 0) {
            for (long i = 0; i < count; i++) {
                while (i - (received - first) * CREDITS >= OUTSTANDING) poll_library();
                send_message(bytes);
            }
            receive(count / CREDITS);
        } else {
            for (long i = CREDITS; i <= count; i += CREDITS) {
                receive(CREDITS);
                send_message(8);
            }
        }
        if (block >= 0) times[block] = (now_us() - start) / (double)count;
    }
    return median(times);
}

static void print(const char *what, size_t bytes, double us) {
    if (rank != 0) return;
    printf("#   %s of %zu bytes: %.3f us\n", what, bytes, us);
    fflush(stdout);
}

void measure(void) {
    static const size_t sizes[] = {8, 1024, 8192, 65536, 1 << 20};
    for (int i = 0; i < 3; i++) print("round trip", sizes[i], round_trip_us(sizes[i]));
    for (int i = 0; i < 3; i++) print("flood of messages", sizes[i], message_us(sizes[i]));
    for (int i = 0; i < 5; i++) {
        print("put and flush", sizes[i], one_sided_us(put_whole, sizes[i]));
        print("get", sizes[i], one_sided_us(get_whole, sizes[i]));
        print("flood of puts", sizes[i], flood_us(put, sizes[i]));
        print("flood of gets", sizes[i], flood_us(get, sizes[i]));
    }
    print("fetching addition", 8, one_sided_us(add_one, 8));
}

static void on_alarm(int signal) {
    static const char message[] = "not finished after 120 s: an operation hangs (lower -n)\n";
    (void)signal;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(1);
    _exit(1);
}

void read_options(int argc, char **argv, const char *name, bool has_wakeup) {
    int option;
    cpu_set_t cores;
    while ((option = getopt(argc, argv, "ywn:")) != -1) {
        if (option == 'y') options.yield = true;
        else if (option == 'w' && has_wakeup) options.wakeup = true;
        else if (option == 'n') options.rounds = atol(optarg);
        else optind = argc + 1;
    }
    if (optind != argc || options.rounds < 1) {
        fprintf(stderr, "usage: %s [-y]%s [-n ROUNDS]\n", name, has_wakeup ? " [-w]" : "");
        exit(2);
    }
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) < 2) options.yield = true;
    signal(SIGALRM, on_alarm);
    alarm(SECONDS);
}

/* Limits of the machine, independent of the library: copies, cache-line transfers, ways to wait.
 * Measured by processes of its own, before the job starts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "limits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 7 };

double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
struct figures figures_of(double *values, int count) {
    struct figures figures;
    qsort(values, (size_t)count, sizeof *values, ascending);
    figures.median = values[count / 2];
    figures.least = values[0];
    figures.low = values[count / 4];
    figures.high = values[count - 1 - count / 4];
    return figures;
}
static double median(double *values, int count) { return figures_of(values, count).median; }

static void *shared(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("gasnet_perf: mmap");
        exit(1);
    }
    return memory;
}

/* Forks a process that is killed when this one ends. */
static pid_t helper(void) {
    pid_t parent = getpid(), child = fork();
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) _exit(1);
    return child;
}

static void core_of(int index, int *core) {
    cpu_set_t set;
    int i, seen = 0, count;
    *core = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return;
    count = CPU_COUNT(&set);
    for (i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET((size_t)i, &set) && seen++ == index % count) *core = i;
    }
}

/* May fail: the results then vary more. */
static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    sched_setaffinity(0, sizeof set, &set);
}
void bind_to_core(int index) {
    int core;
    core_of(index, &core);
    pin(core);
}

size_t places_for(size_t step, size_t room) {
    size_t bytes = room < NEAR_BYTES ? room : NEAR_BYTES, places = step > 0 && bytes > step ? bytes / step : 1;
    while ((places & (places - 1)) != 0) places &= places - 1;
    return places - 1;
}

static double copy_often(char *to, const char *from, size_t bytes, size_t step, size_t places, long count) {
    double start = now_us();
    long i;
    for (i = 0; i < count; i++) {
        size_t at = ((size_t)i & places) * step;
        memcpy(to + at, from + at, bytes);
        __asm__ volatile("" ::: "memory");
    }
    return now_us() - start;
}

static double copies(size_t bytes) {
    double times[BLOCKS];
    size_t step = (bytes + 63) / 64 * 64, places = places_for(step, NEAR_BYTES), whole = (places + 1) * step;
    char *from = malloc(whole), *to = malloc(whole);
    long count = 1;
    int block;
    if (from == NULL || to == NULL) return 0;
    memset(from, 1, whole);
    memset(to, 2, whole);
    for (;; count *= 4) { /* blocks of 2 ms; repeated, because another process may have used the core */
        double time = copy_often(to, from, bytes, step, places, count), again;
        if (time < 300) continue;
        again = copy_often(to, from, bytes, step, places, count);
        time = again < time ? again : time;
        if (time < 300) continue;
        count = (long)((double)count * 2000 / time) + 1;
        break;
    }
    for (block = 0; block < BLOCKS; block++)
        times[block] = (double)bytes * (double)count / copy_often(to, from, bytes, step, places, count);
    free(from);
    free(to);
    return median(times, BLOCKS);
}

/* The time of a turn of two processes that alternate `rounds` times. */
enum placement { TWO_CORES, ONE_CORE };
static double turns(void (*turn)(void *memory, int me, long round), void *memory, long rounds, enum placement place) {
    double times[BLOCKS];
    int block, mine, its;
    pid_t other;
    long i;
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    core_of(0, &mine);
    core_of(place == TWO_CORES, &its);
    other = helper();
    if (other == 0) {
        pin(its);
        for (i = 0; i < rounds * BLOCKS; i++) turn(memory, 1, i);
        _exit(0);
    }
    if (other < 0) return 0;
    pin(mine);
    for (block = 0; block < BLOCKS; block++) {
        double start = now_us();
        for (i = 0; i < rounds; i++) turn(memory, 0, block * rounds + i);
        times[block] = (now_us() - start) / (double)rounds;
    }
    waitpid(other, NULL, 0);
    sched_setaffinity(0, sizeof before, &before);
    return median(times, BLOCKS);
}

struct line {
    long word;
    char padding[120];
};
static int cores_here;
/* Both increment one word by turns. */
static void one_line(void *memory, int me, long round) {
    struct line *line = memory;
    long wanted = 2 * round + me;
    int spins = 0;
    while (__atomic_load_n(&line->word, __ATOMIC_ACQUIRE) != wanted) {
        if (cores_here == 1 || ++spins > 100000) sched_yield();
    }
    __atomic_store_n(&line->word, wanted + 1, __ATOMIC_RELEASE);
}
static void two_lines(void *memory, int me, long round) {
    struct line *lines = memory;
    long seen;
    int spins = 0;
    if (me == 0) __atomic_store_n(&lines[0].word, round + 1, __ATOMIC_RELEASE);
    do {
        seen = __atomic_load_n(&lines[1 - me].word, __ATOMIC_ACQUIRE); /* each process writes its own line */
        if (cores_here == 1 || ++spins > 100000) sched_yield();
    } while (seen <= round);
    if (me == 1) __atomic_store_n(&lines[1].word, round + 1, __ATOMIC_RELEASE);
}

static int pipes[2][2];
static void through_pipe(void *memory, int me, long round) {
    char byte = (char)round;
    (void)memory;
    if (me == 0 && write(pipes[0][1], &byte, 1) != 1) _exit(1);
    if (read(pipes[1 - me][0], &byte, 1) != 1) _exit(1);
    if (me == 1 && write(pipes[1][1], &byte, 1) != 1) _exit(1);
}

static int sockets[2], socket_flags;
static struct sockaddr_in places[2];
static void by_datagram(void *memory, int me, long round) {
    (void)memory;
    if (me == 0 && sendto(sockets[0], &round, sizeof round, 0, (struct sockaddr *)&places[1], sizeof places[1]) < 0)
        _exit(1);
    while (recv(sockets[me], &round, sizeof round, socket_flags) < 0) {
        if (errno != EAGAIN) _exit(1);
        if (cores_here == 1) sched_yield();
    }
    if (me == 1 && sendto(sockets[1], &round, sizeof round, 0, (struct sockaddr *)&places[0], sizeof places[0]) < 0)
        _exit(1);
}
static double datagrams(int flags) {
    double time = 0;
    int i, ready = 1;
    for (i = 0; i < 2; i++) {
        socklen_t length = sizeof places[i];
        memset(&places[i], 0, sizeof places[i]);
        places[i].sin_family = AF_INET;
        places[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        ready &= bind(sockets[i], (struct sockaddr *)&places[i], length) == 0 &&
                 getsockname(sockets[i], (struct sockaddr *)&places[i], &length) == 0;
    }
    socket_flags = flags;
    if (ready) time = turns(by_datagram, NULL, 3000, TWO_CORES);
    for (i = 0; i < 2; i++) close(sockets[i]);
    return time;
}

/* Each blocks until the other has incremented the word. */
static void by_futex(void *memory, int me, long round) {
    int *word = memory, wanted = (int)(2 * round + me), seen;
    while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != wanted)
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    __atomic_store_n(word, wanted + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* A barrier of processes: they increment a counter in shared memory, and wait for the last one. */
struct process_barrier {
    int arrived, round;
};
static void enter_barrier(struct process_barrier *barrier, int members, int sleeps) {
    int round = __atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) == members) {
        __atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&barrier->round, round + 1, __ATOMIC_RELEASE);
        if (sleeps) syscall(SYS_futex, &barrier->round, FUTEX_WAKE, members, NULL, NULL, 0);
        return;
    }
    while (__atomic_load_n(&barrier->round, __ATOMIC_ACQUIRE) == round) {
        if (sleeps) {
            syscall(SYS_futex, &barrier->round, FUTEX_WAIT, round, NULL, NULL, 0);
        } else {
            sched_yield();
        }
    }
}
static double time_barrier(int members, int sleeps) {
    struct process_barrier *barrier = shared(sizeof *barrier);
    double times[BLOCKS];
    long rounds = 20000 / (members + 1) + 10, i;
    int block, k;
    for (k = 1; k < members; k++) {
        pid_t child = helper();
        if (child < 0) { /* the others are killed with this process */
            fprintf(stderr, "gasnet_perf: cannot start %d processes for the barriers: %s\n", members, strerror(errno));
            exit(1);
        }
        if (child == 0) {
            for (i = 0; i < rounds * BLOCKS; i++) enter_barrier(barrier, members, sleeps);
            _exit(0);
        }
    }
    for (block = 0; block < BLOCKS; block++) {
        double start = now_us();
        for (i = 0; i < rounds; i++) enter_barrier(barrier, members, sleeps);
        times[block] = (now_us() - start) / (double)rounds;
    }
    for (k = 1; k < members; k++) wait(NULL);
    munmap(barrier, sizeof *barrier);
    return median(times, BLOCKS);
}

/* The time of one of `count` steps of a function. */
static double time_of(void (*steps)(long count), long count) {
    double times[BLOCKS];
    int block;
    for (block = 0; block < BLOCKS; block++) {
        double start = now_us();
        steps(count);
        times[block] = (now_us() - start) / (double)count;
    }
    return median(times, BLOCKS);
}
static void system_calls(long count) {
    while (count-- > 0) syscall(SYS_getppid);
}
static void forks(long count) {
    while (count-- > 0) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waitpid(child, NULL, 0);
    }
}
static void atomics(long count) {
    uint64_t word = 0;
    while (count-- > 0) __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
}

void limits_measure(struct limits *limits, int processes) {
    void *memory = shared(4096);
    cpu_set_t set;
    int i, place;
    memset(limits, 0, sizeof *limits);
    cores_here = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    limits->cores = cores_here;
    limits->processes = processes;
    for (i = 3; i <= 26; i++) limits->memcpy_mbs[i] = copies((size_t)1 << i);
    limits->ping_pong_us = turns(one_line, memory, cores_here > 1 ? 20000 : 500, TWO_CORES);
    memset(memory, 0, 4096);
    limits->two_lines_us = turns(two_lines, memory, cores_here > 1 ? 20000 : 500, TWO_CORES);
    for (place = 0; place < 2; place++) {
        memset(memory, 0, 4096);
        limits->futex_us[place] = turns(by_futex, memory, 1000, (enum placement)place);
        if (pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0)
            limits->pipe_us[place] = turns(through_pipe, NULL, 1000, (enum placement)place);
        for (i = 0; i < 4; i++) close(pipes[i / 2][i % 2]);
    }
    if (processes > 1) {
        limits->yield_barrier_us = time_barrier(processes, 0);
        limits->futex_barrier_us = time_barrier(processes, 1);
    }
    limits->datagram_us[0] = datagrams(MSG_DONTWAIT);
    limits->datagram_us[1] = datagrams(0);
    limits->atomic_us = time_of(atomics, 100000);
    limits->system_call_us = time_of(system_calls, 10000);
    limits->fork_us = time_of(forks, 1);
    munmap(memory, 4096);
}

void limits_print(const struct limits *limits, FILE *out) {
    int i;
    fprintf(out, "# limits of this machine, %d cores\n", limits->cores);
    fprintf(out, "#   round trip of a cache line %.3f us, of two lines %.3f us\n", limits->ping_pong_us,
            limits->two_lines_us);
    fprintf(
        out,
        "#   round trip on two cores and on one: byte through pipes %.2f and %.2f us, futex wake-up %.2f and %.2f us\n",
        limits->pipe_us[0], limits->pipe_us[1], limits->futex_us[0], limits->futex_us[1]);
    fprintf(out, "#   round trip of an 8-byte datagram: polling %.2f us, blocking %.2f us\n", limits->datagram_us[0],
            limits->datagram_us[1]);
    if (limits->processes > 1) {
        fprintf(out, "#   barrier of %d processes: by sched_yield %.2f us, by futex %.2f us\n", limits->processes,
                limits->yield_barrier_us, limits->futex_barrier_us);
    }
    fprintf(out, "#   atomic addition %.4f us, system call %.3f us, fork and wait %.0f us\n", limits->atomic_us,
            limits->system_call_us, limits->fork_us);
    fprintf(out, "#   memcpy, MB/s:");
    for (i = 3; i <= 26; i++) {
        if ((i - 3) % 3 == 0 || i == 26) fprintf(out, " %zu: %.0f", (size_t)1 << i, limits->memcpy_mbs[i]);
    }
    fprintf(out, "\n");
}

double limit_for(const struct limits *limits, const char *name, size_t bytes) {
    int power = 3;
    if (name == NULL) return 0;
    while (power < 26 && ((size_t)1 << power) < bytes) power++;
    if (strcmp(name, "copy") == 0) return limits->memcpy_mbs[power] > 0 ? (double)bytes / limits->memcpy_mbs[power] : 0;
    if (strcmp(name, "ping-pong") == 0) return limits->ping_pong_us;
    if (strcmp(name, "datagram") == 0) return limits->datagram_us[0];
    if (strcmp(name, "barrier") == 0) return limits->yield_barrier_us;
    if (strcmp(name, "atomic") == 0) return limits->atomic_us;
    return 0;
}

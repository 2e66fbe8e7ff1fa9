/* Limits of this machine, independent of the library. Does not use GASNet. */
#ifndef GASNET_PERF_LIMITS_H
#define GASNET_PERF_LIMITS_H

#include <stddef.h>
#include <stdio.h>

/* Microseconds on the monotonic clock. */
double now_us(void);
/* Compares doubles, for qsort. */
int ascending(const void *a, const void *b);

/* Statistics of values. */
struct figures {
    double median, least, low, high; /* low, high: the quartiles */
};
/* Sorts the values. */
struct figures figures_of(double *values, int count);

struct limits {
    int cores, processes;
    double ping_pong_us;     /* round trip of a cache line between two processes that write the same line */
    double two_lines_us;     /* the same with one line per direction, as for messages */
    double yield_barrier_us; /* barrier with sched_yield of as many processes as ranks */
    double futex_barrier_us; /* the same with a futex */
    double pipe_us[2];       /* round trip of a byte through pipes: on two cores, on one */
    double datagram_us[2];   /* round trip of an 8-byte datagram over loopback: with polling, with blocking */
    double futex_us[2];      /* round trip of futex wake-ups: on two cores, on one */
    double system_call_us;
    double atomic_us;      /* an uncontended atomic addition */
    double fork_us;        /* fork, exit and wait */
    double memcpy_mbs[64]; /* by the binary logarithm of the size */
};
/* Measures the limits with processes of its own. Call it before the job starts. */
void limits_measure(struct limits *limits, int processes);
void limits_print(const struct limits *limits, FILE *out);
/* Binds this process to the core with this index among those that it may use, modulo their number.
 * */
void bind_to_core(int number);
/* The slots of operations stay within these bytes, unless one operation needs more. */
enum { NEAR_BYTES = 256 << 10 };
/* The number of slots, `step` apart, within `room`: a power of two, minus 1. */
size_t places_for(size_t step, size_t room);
double limit_for(const struct limits *limits, const char *name, size_t bytes);

#endif

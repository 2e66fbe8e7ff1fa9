/* What this machine allows, whatever the library. Knows nothing of GASNet. */
#ifndef GASNET_PERF_LIMITS_H
#define GASNET_PERF_LIMITS_H

#include <stddef.h>
#include <stdio.h>

/* Microseconds since some moment. */
double now_us(void);
/* For qsort of doubles. */
int ascending(const void *a, const void *b);

struct limits {
    int cores, processes;
    double ping_pong_us;     /* a cache line to another process and back: both write the same one */
    double two_lines_us;     /* the same with a line for each direction, as messages have */
    double yield_barrier_us; /* sched_yield barrier of as many processes as there are ranks */
    double futex_barrier_us; /* the same with a futex */
    double pipe_us[2];       /* a byte through a pipe to another process and back: on two cores, on one */
    double datagram_us
        [2]; /* a datagram of 8 bytes to another process over the loop-back interface and back; both look again and again, or sleep */
    double futex_us[2]; /* a futex wake-up to and fro, likewise */
    double system_call_us;
    double atomic_us;      /* an atomic addition that meets nobody */
    double fork_us;        /* until a forked process has ended and was waited for */
    double memcpy_mbs[64]; /* by the binary logarithm of the size */
};
/* Measures what this machine can do, with processes of its own. Before the job starts. */
void limits_measure(struct limits *limits, int processes);
void limits_print(const struct limits *limits, FILE *out);
/* Binds this process to the core that has the number among those that it may use, modulo how many these are. */
void bind_to_core(int number);
/* Bytes that a walk over places for operations stays within, unless one operation takes more. */
enum { NEAR_BYTES = 256 << 10 };
/* Such places, `step` apart, within `room`: a power of two, less one. */
size_t places_for(size_t step, size_t room);
double limit_for(const struct limits *limits, const char *name, size_t bytes);

#endif

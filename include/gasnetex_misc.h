// gasnetex_misc.h: what gasnet.h and gasnetex.h share: gasnet_… names that a GASNet-EX client needs
// as well (polling, exit, the barrier, segment limits). Included by gasnetex.h only.
#ifndef GASNETEX_MISC_H
#define GASNETEX_MISC_H

#ifdef __cplusplus
extern "C" {
#endif

typedef gex_Rank_t gasnet_node_t;

typedef struct {
    void *addr;
    uintptr_t size;
} gasnet_seginfo_t;

typedef struct {
    void *addr;
    size_t len;
} gasnet_memvec_t;

// Processes on one host have the same host number, those that share memory the same supernode
// number. offset: what to add to an address in that process's segment to reach it from here, where
// it is mapped (in EVERYTHING it is not).
typedef struct {
    gasnet_node_t host;
    gasnet_node_t supernode;
    uintptr_t offset;
    uintptr_t gasneti_reserved;
} gasnet_nodeinfo_t;

#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2

#define GASNET_BARRIERFLAG_ANONYMOUS 1
#define GASNET_BARRIERFLAG_MISMATCH 2

// -- The job --------------------------------------------------------------------------------------

extern gasnet_node_t gasnet_mynode(void);
extern gasnet_node_t gasnet_nodes(void);
extern void gasnet_exit(int exitcode) __attribute__((__noreturn__));
// The environment of the process that started the job. NULL: not set. Do not modify the result.
extern char *gasnet_getenv(const char *name);
extern const char *gasnet_ErrorName(int errval);
extern const char *gasnet_ErrorDesc(int errval);
// In EVERYTHING all three say (uintptr_t)-1 bytes, and address 0.
extern uintptr_t gasnet_getMaxLocalSegmentSize(void);  // bytes
extern uintptr_t gasnet_getMaxGlobalSegmentSize(void); // bytes
extern int gasnet_getSegmentInfo(gasnet_seginfo_t *seginfo_table, int numentries);
extern int gasnet_getNodeInfo(gasnet_nodeinfo_t *nodeinfo_table, int numentries);

// -- Progress and waiting -------------------------------------------------------------------------

extern int gasnet_AMPoll(void);
extern int gasnet_set_waitmode(int wait_mode);
// One step of GASNET_BLOCKUNTIL: polls, and waits by the library's policy. *state is 0 at the first
// step.
extern void gasneti_blockuntil_step(uint32_t *state);
// The end of the loop if a step gave way (the highest bit of the state): another thread may have to
// wait for messages now.
extern void gasneti_blockuntil_done(void);

// Waits, while handlers run, until the condition holds. It is evaluated again and again, and may
// contain commas and side effects.
#define GASNET_BLOCKUNTIL(...)                        \
    do {                                              \
        uint32_t gasneti_state_ = 0;                  \
        while (!(__VA_ARGS__)) {                      \
            gasneti_blockuntil_step(&gasneti_state_); \
        }                                             \
        if (gasneti_state_ >> 31) {                   \
            gasneti_blockuntil_done();                \
        }                                             \
        GASNETI_ACQUIRE_FENCE();                      \
    } while (0)

#if defined(__SANITIZE_THREAD__)
#define GASNETI_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GASNETI_THREAD_SANITIZER 1
#endif
#endif

// gcc's thread sanitizer does not know fences.
#ifdef GASNETI_THREAD_SANITIZER
#define GASNETI_ACQUIRE_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define GASNETI_ACQUIRE_FENCE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#endif

// -- The barrier of GASNet-1 ----------------------------------------------------------------------

extern void gasnet_barrier_notify(int id, int flags);
extern int gasnet_barrier_wait(int id, int flags);
extern int gasnet_barrier_try(int id, int flags);

// -- Tracing and statistics: what the macros GASNETT_{TRACE,STATS}_* of gasnet_tools.h call -------

#if defined(__GNUC__)
#define GASNETI_PRINTF __attribute__((__format__(__printf__, 1, 2)))
#else
#define GASNETI_PRINTF
#endif
extern void gasnetti_trace_printf(const char *format, ...) GASNETI_PRINTF;
extern void gasnetti_trace_printf_force(const char *format, ...) GASNETI_PRINTF;
extern void gasnetti_stats_printf(const char *format, ...) GASNETI_PRINTF;
extern void gasnetti_stats_printf_force(const char *format, ...) GASNETI_PRINTF;
// which: 0 the trace, 1 the statistics.
extern int gasnetti_trace_takes_notes(int which, int forced);
extern const char *gasnetti_trace_mask(int which);
extern void gasnetti_trace_set_mask(int which, const char *mask);
extern int gasnetti_trace_local(void);
extern void gasnetti_trace_set_local(int on);
extern void gasnetti_trace_set_source(const char *file, unsigned int line);
extern void gasnetti_trace_source(const char **file, unsigned int *line);
extern void gasnetti_trace_freeze_source(int on);
extern void gasnetti_trace_dump(int reset);

// -- What GASNet-1 hands from call to call; nothing here ------------------------------------------

typedef void *gasnet_threadinfo_t;
#define GASNET_GET_THREADINFO() ((gasnet_threadinfo_t)0)
#define GASNET_POST_THREADINFO(info) ((void)(info))
#define GASNET_BEGIN_FUNCTION() ((void)0)

#ifdef __cplusplus
}
#endif

#endif

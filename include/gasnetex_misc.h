// gasnetex_misc.h: what gasnet.h and gasnetex.h share: gasnet_… names that a GASNet-EX client needs as well (polling, exit, the
// barrier, segment limits), and names that clients use though no document lists them. Included by gasnetex.h only.
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

// Processes on one host have the same host number, those that share memory the same supernode number. offset: what to add to an
// address in that process's segment to reach it from here, where it is mapped (in EVERYTHING it is not).
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
#define GASNET_BARRIERFLAG_UNNAMED 9 // all processes pass ANONYMOUS

// -- The job ---------------------------------------------------------------------------------------------------------------

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

// -- Progress and waiting --------------------------------------------------------------------------------------------------

extern int gasnet_AMPoll(void);
extern int gasnet_set_waitmode(int wait_mode);
extern void gasnet_hold_interrupts(void);
extern void gasnet_resume_interrupts(void);
// One step of GASNET_BLOCKUNTIL: polls, and waits by the library's policy. *state is 0 at the first step.
extern void gasneti_blockuntil_step(uint32_t *state);

// Waits, while handlers run, until the condition holds. It is evaluated again and again, and may contain commas and side effects.
#define GASNET_BLOCKUNTIL(...)                           \
    do {                                                 \
        uint32_t gasneti_state_ = 0;                     \
        while (!(__VA_ARGS__)) {                         \
            gasneti_blockuntil_step(&gasneti_state_);    \
        }                                                \
        GASNETI_ACQUIRE_FENCE();                         \
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

// -- The barrier of GASNet-1 -----------------------------------------------------------------------------------------------

extern void gasnet_barrier_notify(int id, int flags);
extern int gasnet_barrier_wait(int id, int flags);
extern int gasnet_barrier_try(int id, int flags);
extern int gasnet_barrier(int id, int flags);
// Whether the last barrier was named; its name then goes to *id.
extern int gasnet_barrier_result(int *id);

// -- Not in any specification, but used by clients ---------------------------------------------------------------------------

// Called by the library with base and size of the segment when it is attached, unless NULL.
extern void (*gasnet_client_attach_hook)(void *, uintptr_t);
// The names in a mask, joined by '|': written to buf, unless that is NULL. The bytes that this takes, NUL included.
extern size_t gasnett_format_dt(char *buf, gex_DT_t dt);
extern size_t gasnett_format_op(char *buf, gex_OP_t op);
extern size_t gasnett_format_ti(char *buf, gex_TI_t ti);
#define gasneti_mynode (gasnet_mynode())
// gasneti_gethostname() and _gasneti_threadkey_init come with gasnet_tools.h.

typedef void *gasnet_threadinfo_t;
#define GASNET_GET_THREADINFO() ((gasnet_threadinfo_t)0)
#define GASNET_POST_THREADINFO(info) ((void)(info))
#define GASNET_BEGIN_FUNCTION() ((void)0)

#ifndef gasneti_builtin_unreachable
#define gasneti_builtin_unreachable() __builtin_unreachable()
#endif
#ifndef MIN
#define MIN(x, y) ((x) < (y) ? (x) : (y))
#endif
#ifndef MAX
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#endif
#ifndef PRIuSZ
#define PRIuSZ "zu"
#endif

#ifdef __cplusplus
}
#endif

#endif

/* Helpers shared by the C and C++ test programs: initialisation, checks, a watchdog, segment
 * addresses, a small all-gather. A program ends with 0 (passed), 1 (failed) or 77 (skipped, the
 * reason is the last line printed).
 *
 * Only the public GASNet headers are used. Everything here works for any number of ranks, any
 * conduit and any thread mode; nothing assumes that two ranks share memory. */
#ifndef COMPAT_TESTS_CHECK_H
#define COMPAT_TESTS_CHECK_H

#include <gasnetex.h>
#ifdef GASNET_SEGMENT_EVERYTHING
#include <gasnet_coll.h>
#include <sys/mman.h>
#endif

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(GASNET_PAR) || defined(GASNET_PARSYNC)
#include <pthread.h>
#define TEST_HAS_THREADS 1
#endif

#define TEST_UNUSED __attribute__((unused))

/* Objects of every program. `me` and `np` are the rank and the size of the primordial team. */
static gex_Client_t client TEST_UNUSED;
static gex_EP_t ep TEST_UNUSED;
static gex_TM_t tm TEST_UNUSED;
static gex_Segment_t segment TEST_UNUSED;
static gex_Rank_t me TEST_UNUSED, np TEST_UNUSED;

static const char *test_name = "test";
static const char *volatile test_phase = "initialisation";
static int test_failures;

enum { TEST_MAX_MESSAGES = 20, TEST_SKIPPED = 77 };

/* Names what the program does now; the watchdog prints it. */
#define PHASE(text) ((void)(test_phase = (text)))

/* Shared counters: handlers may run on any thread. */
#define ATOMIC_ADD(p, v) __atomic_add_fetch((p), (v), __ATOMIC_ACQ_REL)
#define ATOMIC_GET(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ATOMIC_SET(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))

__attribute__((format(printf, 4, 5))) static void test_fail(const char *file, int line, const char *what,
                                                            const char *format, ...) {
    char text[512];
    va_list list;
    int count = ATOMIC_ADD(&test_failures, 1);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fprintf(stderr, "FAIL %s rank %u of %u, %s:%d (%s): %s %s\n", test_name, (unsigned)me, (unsigned)np, file, line,
            test_phase, what, text);
    fflush(stderr);
    if (count >= TEST_MAX_MESSAGES) gasnet_exit(1);
}

/* Records a failure and goes on. */
#define CHECK(cond)                                                  \
    do {                                                             \
        if (!(cond)) test_fail(__FILE__, __LINE__, #cond, "%s", ""); \
    } while (0)
/* The same with a printf-style explanation. */
#define CHECKF(cond, ...)                                               \
    do {                                                                \
        if (!(cond)) test_fail(__FILE__, __LINE__, #cond, __VA_ARGS__); \
    } while (0)
/* A failure after which going on makes no sense. */
#define REQUIRE(cond)                                       \
    do {                                                    \
        if (!(cond)) {                                      \
            test_fail(__FILE__, __LINE__, #cond, "%s", ""); \
            gasnet_exit(1);                                 \
        }                                                   \
    } while (0)
/* A call that must return GASNET_OK. */
#define OK(call)                                                           \
    do {                                                                   \
        int test_rc_ = (call);                                             \
        if (test_rc_ != GASNET_OK) {                                       \
            test_fail(__FILE__, __LINE__, #call, "returned %d", test_rc_); \
            gasnet_exit(1);                                                \
        }                                                                  \
    } while (0)

static void test_watchdog(int signal_number) {
    static const char text[] = "\nFAIL watchdog: no progress in phase: ";
    const char *phase = test_phase;
    ssize_t ignored = write(2, text, sizeof text - 1);
    ignored = write(2, phase, strlen(phase));
    ignored = write(2, "\n", 1);
    (void)ignored;
    _exit(1);
}

/* Ends the process with a message when the program hangs. TEST_WATCHDOG sets the seconds. */
static void test_start_watchdog(void) {
    const char *text = getenv("TEST_WATCHDOG");
    int seconds = text ? atoi(text) : 0;
    signal(SIGALRM, test_watchdog);
    alarm(seconds > 0 ? (unsigned)seconds : 55U);
}

/* Whether an aligned word that the network writes appears at once. Emulators copy through the
 * kernel, which copies less than eight bytes one by one. */
static inline int word_is_whole(size_t bytes) {
    return bytes == 1 || bytes == 8 || !(getenv("EMU_VERBS") || getenv("EMU_UGNI") || getenv("EMU_ELAN"));
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

/* Fails unless this program uses the network that it is to test: TEST_NBRHD_MOST is the most ranks
 * that may share memory. */
static void test_check_network(void) {
    const char *most = getenv("TEST_NBRHD_MOST");
    gex_Rank_t ranks;
    if (!most) return;
    gex_System_QueryNbrhdInfo(NULL, &ranks, NULL);
    CHECKF(ranks <= (gex_Rank_t)atoi(most), "%u ranks share memory", (unsigned)ranks);
}

/* Fails unless this process has loaded the library that it is to use: TEST_LIBRARY is its file. */
static void test_check_library(void) {
    const char *library = getenv("TEST_LIBRARY");
    char line[4096];
    int is_loaded = 0;
    if (!library) return;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) is_loaded |= strstr(line, library) != NULL;
    if (maps) fclose(maps);
    CHECKF(is_loaded, "%s is not loaded", library);
}

/* Creates client, endpoint and team. */
static void test_init_flags(const char *name, int *argc, char ***argv, gex_Flags_t flags) {
    test_name = name;
    int rc = gex_Client_Init(&client, &ep, &tm, "CONFORMANCE", argc, argv, flags);
    if (rc != GASNET_OK) {
        fprintf(stderr, "FAIL %s: gex_Client_Init returned %d\n", name, rc);
        exit(1);
    }
    test_start_watchdog(); /* only now: the process that waits for the job may never leave gex_Client_Init */
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    test_check_network();
    test_check_library();
}

TEST_UNUSED static void test_init(const char *name, int *argc, char ***argv) { test_init_flags(name, argc, argv, 0); }

#ifdef GASNET_SEGMENT_EVERYTHING

/* All memory is the segment; a block of the program's own stands in for what others attach. */
static char **test_blocks TEST_UNUSED;
static uintptr_t test_block_bytes TEST_UNUSED;

/* Makes a block of zeroed memory and tells its address to all. Collective. */
TEST_UNUSED static void test_make_block(uintptr_t bytes) {
    char *mine = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mine != MAP_FAILED);
    test_blocks = (char **)malloc(np * sizeof *test_blocks);
    test_block_bytes = bytes;
    for (gex_Rank_t r = 0; r < np; r++)
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, &test_blocks[r], &mine, sizeof mine, 0));
    barrier();
}

TEST_UNUSED static void test_attach(uintptr_t bytes) {
    uintptr_t page = GASNET_PAGESIZE;
    PHASE("attach");
    segment = (gex_Segment_t)&segment;
    OK(gex_Segment_Attach(&segment, tm, 1)); /* the size means nothing */
    CHECK(segment == GEX_SEGMENT_INVALID);
    test_make_block((bytes + page - 1) / page * page);
}

TEST_UNUSED static char *seg_of(gex_Rank_t rank) { return test_blocks[rank]; }

#else

/* Attaches a segment of at least `bytes` bytes, rounded up to pages. */
TEST_UNUSED static void test_attach(uintptr_t bytes) {
    uintptr_t page = GASNET_PAGESIZE;
    PHASE("attach");
    OK(gex_Segment_Attach(&segment, tm, (bytes + page - 1) / page * page));
}

/* The segment of `rank`, as its owner addresses it: what RMA and Long AMs take as remote
 * address. */
TEST_UNUSED static char *seg_of(gex_Rank_t rank) {
    void *address = NULL;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &address, NULL, NULL, 0));
    return (char *)address;
}

#endif

/* Those of all ranks, for handlers, which must not ask. */
TEST_UNUSED static char **segs_of_all(void) {
    char **all = (char **)malloc(np * sizeof *all);
    for (gex_Rank_t r = 0; r < np; r++) all[r] = seg_of(r);
    return all;
}

TEST_UNUSED static gex_Rank_t source_of(gex_Token_t token) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    return info.gex_srcrank;
}

/* Memory of this process, in bytes. */
TEST_UNUSED static size_t resident(void) {
    unsigned long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    REQUIRE(file != NULL && fscanf(file, "%lu %lu", &size, &pages) == 2);
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Successful ranks meet before they leave, so that a failing rank's exit code decides. */
TEST_UNUSED static int test_finish(void) {
    PHASE("end");
    if (ATOMIC_GET(&test_failures) == 0) {
        barrier();
        if (me == 0) {
            printf("PASS %s on %u ranks\n", test_name, (unsigned)np);
            fflush(stdout);
        }
        barrier();
    }
    signal(SIGALRM, SIG_DFL);
    alarm(30);
    gasnet_exit(ATOMIC_GET(&test_failures) ? 1 : 0);
    return 1;
}

/* Leaves with the code for a skipped test; every rank calls it. */
TEST_UNUSED static void test_skip(const char *reason) {
    barrier();
    if (me == 0) {
        printf("SKIP %s: %s\n", test_name, reason);
        fflush(stdout);
    }
    barrier();
    gasnet_exit(TEST_SKIPPED);
}

TEST_UNUSED static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }

/* A byte pattern that depends on a seed and on the position. */
TEST_UNUSED static unsigned char pattern_byte(uint64_t seed, size_t i) {
    uint64_t x = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i * UINT64_C(0xD1B54A32D192ED03);
    return (unsigned char)(x >> 56);
}

TEST_UNUSED static void pattern_fill(void *buffer, size_t bytes, uint64_t seed) {
    unsigned char *p = (unsigned char *)buffer;
    for (size_t i = 0; i < bytes; i++) p[i] = pattern_byte(seed, i);
}

/* Index of the first byte that differs from the pattern, or `bytes`. */
TEST_UNUSED static size_t pattern_mismatch(const void *buffer, size_t bytes, uint64_t seed) {
    const unsigned char *p = (const unsigned char *)buffer;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != pattern_byte(seed, i)) return i;
    return bytes;
}

#define CHECK_PATTERN(buffer, bytes, seed)                                               \
    do {                                                                                 \
        size_t test_n_ = (bytes), test_i_ = pattern_mismatch((buffer), test_n_, (seed)); \
        CHECKF(test_i_ == test_n_, "byte %zu of %zu is wrong", test_i_, test_n_);        \
    } while (0)

/* A small deterministic generator (xorshift). */
TEST_UNUSED static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x;
}

/* ---- Collecting one small record from every rank ---- */

enum { SHARE_MAX_BYTES = 512 };
static unsigned char *share_table[2];
static unsigned share_arrived[2];
static unsigned share_round;
static gex_AM_Index_t share_index;

TEST_UNUSED static void share_handler(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t source,
                                      gex_AM_Arg_t slot) {
    memcpy(share_table[slot] + (size_t)source * SHARE_MAX_BYTES, payload, bytes);
    ATOMIC_ADD(&share_arrived[slot], 1U);
}

/* Registers the handler behind `share`. Collective. */
TEST_UNUSED static void share_setup(void) {
    gex_AM_Entry_t entry;
    memset(&entry, 0, sizeof entry);
    entry.gex_fnptr = (gex_AM_Fn_t)share_handler;
    entry.gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM;
    entry.gex_nargs = 2;
    for (int i = 0; i < 2; i++) share_table[i] = (unsigned char *)malloc((size_t)np * SHARE_MAX_BYTES);
    OK(gex_EP_RegisterHandlers(ep, &entry, 1));
    share_index = entry.gex_index;
    barrier();
}

/* Gathers `bytes` (at most SHARE_MAX_BYTES) of every rank. Collective; the result is valid until
 * the next call but one. */
TEST_UNUSED static const void *share(const void *mine, size_t bytes) {
    unsigned slot = share_round++ % 2;
    unsigned char copy[SHARE_MAX_BYTES];
    memcpy(copy, mine, bytes);
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_AM_RequestMedium2(tm, (me + r) % np, share_index, copy, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                              (gex_AM_Arg_t)slot);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&share_arrived[slot]) == np);
    ATOMIC_SET(&share_arrived[slot], 0U);
    barrier();
    return share_table[slot];
}

/* Record `rank` in what `share` returned. */
#define SHARED(type, table, rank) \
    ((const type *)(const void *)((const unsigned char *)(table) + (size_t)(rank)*SHARE_MAX_BYTES))

/* ---- Handler registration in one line ---- */

TEST_UNUSED static void register_handler(gex_AM_Index_t index, gex_AM_Fn_t function, gex_Flags_t flags,
                                         unsigned arguments) {
    gex_AM_Entry_t entry;
    memset(&entry, 0, sizeof entry);
    entry.gex_index = index;
    entry.gex_fnptr = function;
    entry.gex_flags = flags;
    entry.gex_nargs = arguments;
    OK(gex_EP_RegisterHandlers(ep, &entry, 1));
}

#endif

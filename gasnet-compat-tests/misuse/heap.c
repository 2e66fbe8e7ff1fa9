/* The debug allocator (README, "GASNet debug malloc services"): what it finds, and what it fills
 * memory with. */
#include "misuse.h"

static void past_end(void) {
    char *block = (char *)gasnett_debug_malloc(10);
    *((char *)hidden((uintptr_t)block) + 10) = 1;
    gasnett_debug_free(block);
}
static void before_start(void) {
    char *block = (char *)gasnett_debug_calloc(3, 5);
    *((char *)hidden((uintptr_t)block) - 1) = 1;
    gasnett_debug_memcheck(block);
}
static void past_end_polled(void) {
    char *block = (char *)gasnett_debug_strdup("text");
    *((char *)hidden((uintptr_t)block) + 5) = 1;
    for (int i = 0; i < 100000; i++) gasnet_AMPoll();
}
static void past_end_all(void) {
    char *block = (char *)gasnett_debug_strndup("some text", 4);
    for (int i = 0; i < 50; i++) (void)gasnett_debug_malloc(100);
    *((char *)hidden((uintptr_t)block) + 5) = 1;
    gasnett_debug_memcheck_all();
}
static void extra_check(void) {
    char *block = (char *)gasnett_debug_malloc(64);
    for (int i = 0; i < 5000; i++) (void)gasnett_debug_malloc(1);
    *((char *)hidden((uintptr_t)block) + 64) = 1;
    (void)gasnett_debug_malloc(1); /* one event looks at all blocks */
    printf("not found at once\n");
    fflush(stdout);
}
static void freed_twice(void) {
    void *block = gasnett_debug_malloc(10);
    gasnett_debug_free(block);
    gasnett_debug_free(hidden((uintptr_t)block));
}
static void checked_after_free(void) {
    void *block = gasnett_debug_malloc(10);
    gasnett_debug_free(block);
    gasnett_debug_memcheck(hidden((uintptr_t)block));
}
static void not_ours(void) {
    static char memory[256];
    gasnett_debug_free(memory + 128);
}
static void written_after_free(void) {
    char *block = (char *)gasnett_debug_malloc(100);
    gasnett_debug_free(block);
    *((char *)hidden((uintptr_t)block) + 50) = 1;
    gasnett_debug_memcheck_all();
}
static void reallocated_wild(void) {
    char *block = (char *)gasnett_debug_malloc(8);
    *((char *)hidden((uintptr_t)block) + 8) = 1;
    (void)gasnett_debug_realloc(block, 100);
}

static int holds(const void *memory, const void *pattern, size_t bytes) { return memcmp(memory, pattern, bytes) == 0; }
/* With GASNET_MALLOC_INITVAL=90, _CLOBBERVAL=0x1122334455667788 and LEAKALL. */
static void patterns(void) {
    unsigned char expected[20];
    uint64_t clobbered[2] = {UINT64_C(0x1122334455667788), UINT64_C(0x1122334455667788)};
    unsigned char *block = (unsigned char *)gasnett_debug_malloc(20);
    memset(expected, 90, sizeof expected);
    if (!holds(block, expected, 20)) printf("not initialised\n");
    memset(block, 1, 20);
    gasnett_debug_free(block);
    if (!holds(hidden((uintptr_t)block), clobbered, 16)) printf("not clobbered\n");
    block = (unsigned char *)gasnett_debug_calloc(4, 5);
    memset(expected, 0, sizeof expected);
    if (!holds(block, expected, 20)) printf("calloc does not clear\n");
    block = (unsigned char *)gasnett_debug_realloc(block, 40);
    memset(expected, 90, sizeof expected);
    if (block[19] != 0 || !holds(block + 20, expected, 20)) printf("realloc is wrong\n");
    gasnett_debug_free(block);
    printf("patterns seen\n");
}
/* NAN in new memory is not a number. */
static void not_a_number(void) {
    double *block = (double *)gasnett_debug_malloc(4 * sizeof(double));
    if (block[0] == block[0] || block[3] == block[3]) printf("a number\n");
    else printf("no number\n");
    gasnett_debug_free(block);
}
static void counters(void) {
    gasnett_heapstats_t before, after;
    gasnett_getheapstats(&before);
    void *a = gasnett_debug_malloc(1000);
    void *b = gasnett_debug_realloc(gasnett_debug_malloc(500), 700);
    gasnett_getheapstats(&after);
    if (after.live_bytes < before.live_bytes + 1700 || after.live_objects < before.live_objects + 2) printf("live\n");
    if (after.allocated_bytes < before.allocated_bytes + 2200 || after.freed_bytes < before.freed_bytes + 500)
        printf("sums\n");
    gasnett_debug_free(a);
    gasnett_debug_free(b);
    gasnett_debug_free(NULL);
    gasnett_getheapstats(&after);
    if (after.live_bytes_max < before.live_bytes + 1700 || after.live_objects > before.live_objects + 1)
        printf("most\n");
    printf("counted\n");
}
/* The report names what is still in use, with its place, for the ranks that GASNET_MALLOCNODES
 * names. */
static void reported(void) {
    (void)gasnett_debug_malloc(12345 + me);
    gasnett_debug_free(gasnett_debug_malloc(54321));
}

const misuse_case_t misuse_cases[] = {
    {"heap-past-end", "debug", 2, "",
     "block of 10 bytes at 0x[0-9a-f]+ \\(from \\S*heap.c:[0-9]+\\) was written past its last byte", past_end},
    {"heap-before-start", "debug", 2, "", "written before its first byte", before_start},
    {"heap-past-end-polled", "debug", 2, "", "block of 5 bytes .* past its last byte; found at libgasnet",
     past_end_polled},
    {"heap-past-end-all", "debug", 2, "", "block of 5 bytes .* past its last byte; found at \\S*heap.c", past_end_all},
    {"heap-extra-check", "debug", 2, "GASNET_MALLOC_EXTRACHECK=1",
     "^(?!.*not found at once).*block of 64 bytes .* past", extra_check},
    {"heap-freed-twice", "debug", 2, "GASNET_MALLOC_LEAKALL=1", "freed a second time", freed_twice},
    {"heap-checked-after-free", "debug", 2, "GASNET_MALLOC_LEAKALL=1", "was freed; found at", checked_after_free},
    {"heap-not-ours", "debug", 2, "", "not a block of this allocator", not_ours},
    {"heap-written-after-free", "debug", 2, "GASNET_MALLOC_SCANFREED=1",
     "block of 100 bytes .* written after it was freed", written_after_free},
    {"heap-reallocated-wild", "debug", 2, "", "block of 8 bytes .* past its last byte", reallocated_wild},
    {"heap-patterns", "debug", 1,
     "GASNET_MALLOC_INIT=1 GASNET_MALLOC_INITVAL=90 GASNET_MALLOC_CLOBBER=1 "
     "GASNET_MALLOC_CLOBBERVAL=0x1122334455667788 GASNET_MALLOC_LEAKALL=1",
     "=^patterns seen\\n$", patterns},
    {"heap-nan", "debug", 1, "GASNET_MALLOC_INIT=y", "=^no number\\n$", not_a_number},
    {"heap-nan-quiet", "debug", 1, "GASNET_MALLOC_INIT=y GASNET_MALLOC_INITVAL=qNAN", "=^no number\\n$", not_a_number},
    {"heap-counters", "debug", 2, "GASNET_MALLOC_CLOBBER=1", "=^(counted\\n)+$", counters},
    {"heap-report", "debug", 2, "GASNET_MALLOCFILE=- GASNET_MALLOCNODES=1",
     "=^(?!.*proc 0\\))(?!.*12345 0x).*malloc report \\(proc 1\\).*in use.*12346 0x[0-9a-f]+ \\S*heap.c:[0-9]+\\n",
     reported},
    {"heap-bad-value", "debug", 2, "GASNET_MALLOC_INITVAL=lots", "GASNET_MALLOC_INITVAL", reported},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

/* Remote addresses outside segments: with the flags that allow them where GASNET_LIMIT_TO_SEGMENTS
 * does not, and in a message that a corrupt rank has altered. */
#include <gasnetex.h>

static void on_long(gex_Token_t token, void *payload, size_t bytes);
#define MISUSE_HANDLERS \
    { 200, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 0, NULL, "on_long" }
#define MISUSE_HANDLER_COUNT 1
#include "misuse.h"

#define LAST (np - 1)
#define ANY GEX_FLAG_PEER_SEG_UNKNOWN
static char memory[70000] __attribute__((aligned(16)));

static void on_long(gex_Token_t token, void *payload, size_t bytes) {
    fprintf(stderr, "a handler ran on %u bytes at %p\n", (unsigned)bytes, payload);
}

static void put(void) {
    if (first()) gex_RMA_PutBlocking(tm, LAST, last + 65536, memory, 8, ANY);
}
static void put_long(void) {
    if (first()) gex_RMA_PutBlocking(tm, LAST, last + 1, memory, 65536, ANY);
}
static void get(void) {
    if (first()) gex_RMA_GetBlocking(tm, memory, LAST, last - 8, 8, ANY);
}
static void get_some(void) {
    if (first()) gex_RMA_GetBlocking(tm, memory, LAST, hidden(4096), 5000, GEX_FLAG_PEER_SEG_SOME);
}
static void value(void) {
    if (first()) gex_RMA_PutBlockingVal(tm, LAST, last + 65529, 1, 8, ANY);
}
static void vector(void) {
    gex_Memvec_t there[2], here;
    there[0].gex_addr = last, there[1].gex_addr = last + 65536;
    there[0].gex_len = there[1].gex_len = 100;
    here.gex_addr = memory, here.gex_len = 200;
    if (first()) gex_VIS_VectorPutBlocking(tm, LAST, 2, there, 1, &here, ANY);
}
static void send(char *to, size_t bytes, gex_Flags_t flags) {
    gex_AM_RequestLong0(tm, LAST, 200, memory, bytes, to, GEX_EVENT_NOW, flags);
}
static void from_first(char *to, size_t bytes) {
    if (first()) send(to, bytes, ANY);
}
static void long_short(void) { from_first(last + 65536, 100); }
static void long_middle(void) { from_first(last + 65536, 5000); }
static void long_long(void) { from_first(last + 1, 65536); }
static void inside(void) {
    gex_Event_Wait(gex_RMA_PutNB(tm, LAST, last, memory, 65536, GEX_EVENT_NOW, ANY));
    gex_RMA_GetBlocking(tm, memory, LAST, last + 65535, 1, GEX_FLAG_PEER_SEG_SOME);
    send(last, 1000, ANY);
    fprintf(stderr, "rank %u sent\n", (unsigned)me);
}

/* Puts `new_word` in place of `word` wherever the neighbours' rings have that. */
static void alter(uintptr_t word, uintptr_t new_word) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    unsigned long low, high;
    int altered = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        if (!strstr(line, "gasnet-comm") || sscanf(line, "%lx-%lx rw", &low, &high) != 2) continue;
        for (; low < high; low += sizeof word) {
            volatile uintptr_t *at = (volatile uintptr_t *)low;
            if (*at == word) *at = new_word, altered++;
        }
    }
    if (maps) fclose(maps);
    fprintf(stderr, "rank %u altered %d words\n", (unsigned)me, altered);
}
/* The last rank does not poll until the message is altered: it has left the barrier before. */
static void altered(void) {
    gex_Rank_t count;
    volatile char *go = own + 8;
    gex_System_QueryNbrhdInfo(NULL, &count, NULL);
    if (count == 1) {
        fprintf(stderr, "a message names the range, of no neighbour\n");
        abort();
    }
    if (!first()) {
        *(volatile char *)(own + 16) = 1;
        while (!*go) usleep(1000);
        return;
    }
    while (!gex_RMA_GetBlockingVal(tm, LAST, last + 16, 1, 0)) usleep(1000);
    send(last + 0x1238, 100, 0);
    alter((uintptr_t)last + 0x1238, (uintptr_t)hidden((uintptr_t)memory));
    gex_RMA_PutBlockingVal(tm, LAST, last + 8, 1, 1, 0);
}

#define NAMED \
    "an operation of rank 0 names the remote range .* in no bound segment of rank 1 .*GASNET_LIMIT_TO_SEGMENTS=0"
const misuse_case_t misuse_cases[] = {
    {"limited-put", "any", 2, "", NAMED, put},
    {"limited-put-long", "any", 2, "", NAMED, put_long},
    {"limited-get", "any", 2, "", NAMED, get},
    {"limited-get-some", "any", 2, "", NAMED, get_some},
    {"limited-value", "any", 2, "", NAMED, value},
    {"limited-vector", "any", 2, "", NAMED, vector},
    {"limited-long-short", "any", 2, "", NAMED, long_short},
    {"limited-long-middle", "any", 2, "", NAMED, long_middle},
    {"limited-long-long", "any", 2, "", NAMED, long_long},
    {"limited-inside", "any", 2, "", "=sent", inside},
    {"altered-long", "any", 2, "GASNET_LIMIT_TO_SEGMENTS=0", "a message .*names the range", altered},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

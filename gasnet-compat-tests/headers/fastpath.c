// The inline puts and gets against a team head of our own: which calls stay inline, which go to the
// library, and what they do. The library's functions are stubs here that count. Exits 0 when all is
// well.
#include <gasnet.h>

#include <stdio.h>

static int calls;
static int failures;
static void must(int condition, const char *text, int line) {
    if (!condition) {
        printf("fastpath: line %d: not so: %s\n", line, text);
        failures++;
    }
}
#define MUST(condition) must((condition), #condition, __LINE__)

#ifdef GASNET_DEBUG
#define INLINE_CALLS 1 // a debug build always calls
#else
#define INLINE_CALLS 0
#endif

#undef gex_RMA_PutBlocking
#undef gex_RMA_PutNB
#undef gex_RMA_PutNBI
#undef gex_RMA_GetBlocking
#undef gex_RMA_GetNB
#undef gex_RMA_GetNBI
#undef gex_RMA_GetBlockingVal
#undef gex_RMA_PutBlockingVal
#undef gex_RMA_PutNBVal
#undef gex_RMA_PutNBIVal
#undef gex_Event_Wait
#undef gex_Event_Test
#define UNUSED(...) stub(0, __VA_ARGS__)
static int stub(int zero, ...) { return calls++, zero; }
int gex_RMA_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, flags), 7;
}
int gex_RMA_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t n, gex_Event_t *lc,
                   gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, lc, flags), 7;
}
gex_Event_t gex_RMA_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t n, gex_Event_t *lc,
                          gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, lc, flags), GEX_EVENT_NO_OP;
}
int gex_RMA_GetBlocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, flags), 7;
}
int gex_RMA_GetNBI(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, flags), 7;
}
gex_Event_t gex_RMA_GetNB(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, src, n, flags), GEX_EVENT_NO_OP;
}
gex_RMA_Value_t gex_RMA_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *src, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, src, n, flags), 7;
}
int gex_RMA_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t n,
                           gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, value, n, flags), 7;
}
int gex_RMA_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t n, gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, value, n, flags), 7;
}
gex_Event_t gex_RMA_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t n,
                             gex_Flags_t flags) {
    return UNUSED(tm, rank, dest, value, n, flags), GEX_EVENT_NO_OP;
}
void gex_Event_Wait(gex_Event_t event) { (void)UNUSED(event); }
int gex_Event_Test(gex_Event_t event) { return UNUSED(event), GASNET_ERR_NOT_READY; }

#ifndef GASNET_DEBUG
#define gex_RMA_PutBlocking(...) gasneti_inl_PutBlocking(__VA_ARGS__)
#define gex_RMA_PutNBI(...) gasneti_inl_PutNBI(__VA_ARGS__)
#define gex_RMA_PutNB(...) gasneti_inl_PutNB(__VA_ARGS__)
#define gex_RMA_PutBlockingVal(...) gasneti_inl_PutBlockingVal(__VA_ARGS__)
#define gex_RMA_PutNBIVal(...) gasneti_inl_PutNBIVal(__VA_ARGS__)
#define gex_RMA_PutNBVal(...) gasneti_inl_PutNBVal(__VA_ARGS__)
#define gex_RMA_GetBlocking(...) gasneti_inl_GetBlocking(__VA_ARGS__)
#define gex_RMA_GetNBI(...) gasneti_inl_GetNBI(__VA_ARGS__)
#define gex_RMA_GetNB(...) gasneti_inl_GetNB(__VA_ARGS__)
#define gex_RMA_GetBlockingVal(...) gasneti_inl_GetBlockingVal(__VA_ARGS__)
#define gex_Event_Test(...) gasneti_inl_Event_Test(__VA_ARGS__)
#define gex_Event_Wait(...) gasneti_inl_Event_Wait(__VA_ARGS__)
#endif

// "Remote" memory of rank 5 is what is here at mapped + DELTA; ranks 4 and 5 are neighbours.
enum { DELTA = 4096 };
static union {
    char bytes[3 * DELTA];
    uint64_t align;
} memory;
static intptr_t deltas[2] = {2 * DELTA, DELTA};
static uint32_t watch;
static gasneti_tm_head_t head __attribute__((__aligned__(16))) = {4, 2, deltas, &watch};
static gex_TM_t team(uintptr_t tag) { return (gex_TM_t)((uintptr_t)&head + tag); }

static void fill(void) {
    for (size_t i = 0; i < sizeof memory.bytes; i++) {
        memory.bytes[i] = (char)(i * 7 + i / 251);
    }
    calls = 0;
}

static void sizes(size_t nbytes, size_t src_low, size_t dest_low) {
    char local[64];
    char *remote = memory.bytes + dest_low;
    char *mapped = remote + DELTA;
    gex_Event_t lc = GEX_EVENT_NO_OP;
    for (size_t i = 0; i < sizeof local; i++) {
        local[i] = (char)(100 + i);
    }
    fill();
    MUST(gex_RMA_PutBlocking(team(1), 5, remote, local + src_low, nbytes, 0) == (INLINE_CALLS ? 7 : 0));
    if (!INLINE_CALLS) {
        MUST(memcmp(mapped, local + src_low, nbytes) == 0);
        MUST(mapped[nbytes] == (char)((DELTA + dest_low + nbytes) * 7 + (DELTA + dest_low + nbytes) / 251));
        fill();
        MUST(gex_RMA_PutNB(team(1), 5, remote, local + src_low, nbytes, &lc, GEX_FLAG_IMMEDIATE) == GEX_EVENT_INVALID);
        MUST(lc == GEX_EVENT_INVALID && memcmp(mapped, local + src_low, nbytes) == 0);
        fill();
        MUST(gex_RMA_PutNBI(team(1), 5, remote, local + src_low, nbytes, GEX_EVENT_GROUP, GEX_FLAG_PEER_NEVER_SELF) ==
             0);
        MUST(memcmp(mapped, local + src_low, nbytes) == 0);
        MUST(gex_RMA_GetBlocking(team(1), local + 32, 5, remote, nbytes, 0) == 0 &&
             memcmp(mapped, local + 32, nbytes) == 0);
        fill();
        MUST(gex_RMA_GetNB(team(1), local + 31, 5, remote, nbytes, 0) == GEX_EVENT_INVALID &&
             !memcmp(mapped, local + 31, nbytes));
        fill();
        MUST(gex_RMA_GetNBI(team(1), local + 30, 5, remote, nbytes, 0) == 0 && memcmp(mapped, local + 30, nbytes) == 0);
        MUST(gex_RMA_PutNB(team(1), 4, remote, local, nbytes, GEX_EVENT_NOW, 0) == GEX_EVENT_INVALID);
        MUST(memcmp(remote + 2 * DELTA, local, nbytes) == 0 && calls == 0);
        MUST(gex_RMA_PutNB(team(1), 4, remote, local, nbytes, NULL, 0) == GEX_EVENT_INVALID);
    }
}

static void values(void) {
#ifndef GASNET_DEBUG
    const uint64_t value = 0x0123456789abcdefU;
    for (size_t nbytes = 1; nbytes <= sizeof(gex_RMA_Value_t); nbytes++) {
        const gex_RMA_Value_t part =
            nbytes == 8 ? (gex_RMA_Value_t)value : (gex_RMA_Value_t)(value & (((uint64_t)1 << 8 * nbytes) - 1));
        gex_RMA_Value_t *mapped = (gex_RMA_Value_t *)(void *)(memory.bytes + DELTA);
        fill();
        MUST(gex_RMA_PutBlockingVal(team(1), 5, memory.bytes, (gex_RMA_Value_t)value, nbytes, 0) == 0);
        MUST(memcmp(mapped, &value, nbytes) == 0 &&
             gex_RMA_GetBlockingVal(team(1), 5, memory.bytes, nbytes, 0) == part);
        *mapped = 0;
        MUST(gex_RMA_PutNBVal(team(1), 5, memory.bytes, (gex_RMA_Value_t)value, nbytes, 0) == GEX_EVENT_INVALID &&
             *mapped == part);
        *mapped = 0;
        MUST(gex_RMA_PutNBIVal(team(1), 5, memory.bytes, (gex_RMA_Value_t)value, nbytes, 0) == 0 && *mapped == part);
        MUST(calls == 0);
    }
#endif
}

static void goes_to_the_library(gex_TM_t tm, gex_Rank_t rank, gex_Flags_t flags, int line) {
    char local[8] = {0};
    gex_Event_t lc = GEX_EVENT_NO_OP;
    fill();
    must(gex_RMA_PutBlocking(tm, rank, memory.bytes, local, 8, flags) == 7, "PutBlocking", line);
    must(gex_RMA_PutNBI(tm, rank, memory.bytes, local, 8, GEX_EVENT_NOW, flags) == 7, "PutNBI", line);
    must(gex_RMA_PutNB(tm, rank, memory.bytes, local, 8, &lc, flags) == GEX_EVENT_NO_OP, "PutNB", line);
    must(gex_RMA_GetBlocking(tm, local, rank, memory.bytes, 8, flags) == 7, "GetBlocking", line);
    must(gex_RMA_GetNBI(tm, local, rank, memory.bytes, 8, flags) == 7, "GetNBI", line);
    must(gex_RMA_GetNB(tm, local, rank, memory.bytes, 8, flags) == GEX_EVENT_NO_OP, "GetNB", line);
    must(gex_RMA_GetBlockingVal(tm, rank, memory.bytes, 8, flags) == 7, "GetBlockingVal", line);
    must(gex_RMA_PutBlockingVal(tm, rank, memory.bytes, 1, 8, flags) == 7, "PutBlockingVal", line);
    must(gex_RMA_PutNBIVal(tm, rank, memory.bytes, 1, 8, flags) == 7, "PutNBIVal", line);
    must(gex_RMA_PutNBVal(tm, rank, memory.bytes, 1, 8, flags) == GEX_EVENT_NO_OP, "PutNBVal", line);
    must(calls == 10 && lc == GEX_EVENT_NO_OP, "ten calls", line);
}

int main(void) {
    static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t low = 0; low < 8; low++) {
            sizes(lengths[i], low, 0);
            sizes(lengths[i], 0, low);
            sizes(lengths[i], low, low);
        }
    }
    values();
    goes_to_the_library(team(0), 5, 0, __LINE__); // no head
    goes_to_the_library(team(2), 5, 0, __LINE__); // a TM-pair
    goes_to_the_library(team(3), 5, 0, __LINE__);
    goes_to_the_library(team(1), 3, 0, __LINE__); // no neighbours
    goes_to_the_library(team(1), 6, 0, __LINE__);
    goes_to_the_library(team(1), GEX_RANK_INVALID, 0, __LINE__);
    goes_to_the_library(team(1), 5, GEX_FLAG_PEER_NEVER_NBRHD, __LINE__);
    goes_to_the_library(team(1), 5, GEX_FLAG_IMMEDIATE | GEX_FLAG_LC_COPY_YES, __LINE__);
    head.gasneti_count = 0; // the library wants to see every call
    goes_to_the_library(team(1), 5, 0, __LINE__);
    calls = 0;
    gex_Event_Wait(GEX_EVENT_INVALID);
    MUST((gex_Event_Test(GEX_EVENT_INVALID) == GASNET_OK || INLINE_CALLS) && calls == 2 * INLINE_CALLS);
    calls = 0;
    gex_Event_Wait((gex_Event_t)(uintptr_t)64);
    MUST(gex_Event_Test((gex_Event_t)(uintptr_t)64) == GASNET_ERR_NOT_READY && calls == 2);
    return failures != 0;
}

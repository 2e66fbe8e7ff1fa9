// An IMMEDIATE Long that is refused has moved nothing, also where the kernel copies its payload and
// stops in the middle, at memory that it cannot access.
// NP: 2
// CONDUITS: smp
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 1 << 15, HALF = BYTES / 2, FILL = 30000, REFUSALS = 100 };
static gex_AM_Index_t fill_index = 150, long_index = 151;
static char *mine, *theirs, here[BYTES];
static uint32_t *go;
static int arrived;

static void on_fill(gex_Token_t token, void *payload, size_t bytes) {}
static void on_long(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(payload == mine && bytes == BYTES);
    CHECK_PATTERN(payload, bytes, 3);
    ATOMIC_ADD(&arrived, 1);
}

int main(int argc, char **argv) {
    gex_EP_t other;
    gex_Segment_t made;
    void *address = NULL;
    uint32_t result;
    test_init("am_immediate_half", &argc, &argv);
    register_handler(fill_index, (gex_AM_Fn_t)on_fill, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    test_attach(GASNET_PAGESIZE);
    go = (uint32_t *)(void *)seg_of(1);
    mine = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mine != MAP_FAILED);
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_ALL, 0));
    gex_AM_Entry_t entry = {long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL, NULL};
    OK(gex_EP_RegisterHandlers(other, &entry, 1));
    OK(gex_Segment_Create(&made, client, mine, BYTES, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(other, made, 0));
    OK(gex_EP_PublishBoundSegment(tm, &other, 1, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, gex_EP_QueryIndex(other)), !me, &address, NULL, NULL, 0));
    theirs = (char *)address;
    pattern_fill(here, BYTES, 3);
    pattern_fill(mine, BYTES, 4);
    if (me == 1) REQUIRE(mprotect(mine + HALF, HALF, PROT_NONE) == 0);
    barrier();
    if (me == 0) {
        static char fill[FILL];
        int refused = 0;
        do gex_RMA_GetBlocking(tm, &result, 1, go + 1, sizeof result, 0);
        while (result == 0);
        PHASE("filling"); /* no buffer for rank 1, which is outside GASNet */
        while (refused < REFUSALS)
            refused += gex_AM_RequestMedium0(tm, 1, fill_index, fill, FILL, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE) != 0;
        PHASE("sending");
        result = 1 + (gex_AM_RequestLong0(gex_TM_Pair(ep, gex_EP_QueryIndex(other)), 1, long_index, here, BYTES, theirs,
                                          GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE) != 0);
        OK(gex_RMA_PutBlocking(tm, 1, go, &result, sizeof result, 0));
        barrier();
    } else {
        PHASE("outside GASNet");
        ATOMIC_SET(go + 1, 1);
        while (ATOMIC_GET(go) == 0) usleep(1000);
        REQUIRE(mprotect(mine + HALF, HALF, PROT_READ | PROT_WRITE) == 0);
        if (*go == 2) CHECK_PATTERN(mine, BYTES, 4);
        PHASE("receiving");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == (*go == 1));
        barrier();
    }
    barrier();
    return test_finish();
}

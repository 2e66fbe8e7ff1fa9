// An IMMEDIATE put or get that returns GEX_EVENT_NO_OP has moved nothing, also where the kernel
// copies and stops in the middle, at memory that it cannot access.
// NP: 2
// CONDUITS: smp
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 1 << 16, HALF = BYTES / 2, REFUSALS = 100 };
static gex_AM_Index_t fill_index = 150;
static char *mine, *theirs, here[BYTES];
static uint32_t *go;

static void on_fill(gex_Token_t token) {}

/* Leaves no room for requests to rank 1, which is outside GASNet. */
static void fill_room(void) {
    int refused = 0;
    while (refused < REFUSALS) refused += gex_AM_RequestShort0(tm, 1, fill_index, GEX_FLAG_IMMEDIATE) != 0;
}

static void run(int put) {
    gex_TM_t pair = gex_TM_Pair(ep, 1);
    uint32_t turn = (uint32_t)put + 1, result;
    pattern_fill(here, BYTES, 3);
    pattern_fill(mine, BYTES, 4);
    if (me == 1) REQUIRE(mprotect(mine + HALF, HALF, PROT_NONE) == 0);
    barrier();
    if (me == 0) {
        fill_room();
        gex_Event_t event = put ? gex_RMA_PutNB(pair, 1, theirs, here, BYTES, GEX_EVENT_DEFER, GEX_FLAG_IMMEDIATE)
                                : gex_RMA_GetNB(pair, here, 1, theirs, BYTES, GEX_FLAG_IMMEDIATE);
        result = 2 * turn + (event == GEX_EVENT_NO_OP);
        if (event == GEX_EVENT_NO_OP && !put) CHECK_PATTERN(here, BYTES, 3);
        OK(gex_RMA_PutBlocking(tm, 1, go, &result, sizeof result, 0));
        if (event != GEX_EVENT_NO_OP) gex_Event_Wait(event);
        if (event != GEX_EVENT_NO_OP && !put) CHECK_PATTERN(here, BYTES, 4);
        barrier();
    } else {
        while (ATOMIC_GET(go) < 2 * turn) usleep(1000);
        REQUIRE(mprotect(mine + HALF, HALF, PROT_READ | PROT_WRITE) == 0);
        barrier();
        CHECK_PATTERN(mine, BYTES, put && *go == 2 * turn ? 3 : 4);
    }
}

int main(int argc, char **argv) {
    gex_EP_t other;
    gex_Segment_t made;
    void *address = NULL;
    test_init("immediate_half", &argc, &argv);
    register_handler(fill_index, (gex_AM_Fn_t)on_fill, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(GASNET_PAGESIZE);
    go = (uint32_t *)(void *)seg_of(1);
    mine = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mine != MAP_FAILED);
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_Segment_Create(&made, client, mine, BYTES, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(other, made, 0));
    OK(gex_EP_PublishBoundSegment(tm, &other, 1, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(gex_TM_Pair(ep, 1), !me, &address, NULL, NULL, 0));
    theirs = (char *)address;
    PHASE("get");
    run(0);
    PHASE("put");
    run(1);
    return test_finish();
}

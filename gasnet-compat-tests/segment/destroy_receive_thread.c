// The receive thread looks through the segments of all endpoints for each piece of a put
// that names none,
// while the only thread of the client makes, binds and destroys segments: none is freed before it.
// The client's next allocation takes the place of one that is. A sanitizer sees it each time.
// NP: 2
// MODES: par
// CONDUITS: sock udp ibv ofi loop
// SEGMENTS: fast large
// ENV: GASNET_RCV_THREAD=1 GASNET_SUPERNODE_MAXSIZE=1
// TIMEOUT: 60
#include "check.h"
#include <gasnet_coll.h>
#include <gasnet_vis.h>

enum { SEGMENTS = 3000, ENDPOINTS = 40, BYTES = 4096, PIECES = 500, STEP = 16, LEAST = 64, MOST = 256, DONE = 200 };
static gex_EP_t others[ENDPOINTS], fixed;
static char memory[ENDPOINTS * BYTES], target[BYTES];
static int done;

static void on_done(gex_Token_t token) { ATOMIC_SET(&done, 1); }

static gex_Segment_t bind_new(gex_EP_t to, char *address) {
    gex_Segment_t made;
    OK(gex_Segment_Create(&made, client, address, BYTES, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(to, made, 0));
    return made;
}

/* Memory in which a segment would contain every address, and be that of a device. */
static void reuse_memory(void) {
    void *blocks[(MOST - LEAST) / STEP];
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = malloc(LEAST + i * STEP);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0xff, LEAST + i * STEP);
        __asm__ volatile("" : : "r"(blocks[i]) : "memory");
    }
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) free(blocks[i]);
}

int main(int argc, char **argv) {
    char *there = target;
    void *to[PIECES], *from[PIECES];
    test_init("destroy_receive_thread", &argc, &argv);
    register_handler(DONE, (gex_AM_Fn_t)on_done, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(GASNET_PAGESIZE);
    for (int i = 0; i < ENDPOINTS; i++) OK(gex_EP_Create(&others[i], client, GEX_EP_CAPABILITY_RMA, 0));
    OK(gex_EP_Create(&fixed, client, GEX_EP_CAPABILITY_RMA, 0));
    bind_new(fixed, target);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &there, &there, sizeof there, 0));
    barrier();
    if (me == 0) {
        PHASE("segments");
        for (int i = 0; i < SEGMENTS / ENDPOINTS; i++) {
            gex_Segment_t made[ENDPOINTS];
            for (int k = 0; k < ENDPOINTS; k++) made[k] = bind_new(others[k], memory + k * BYTES);
            for (int k = 0; k < ENDPOINTS; k++) gex_Segment_Destroy(made[k], 0);
            reuse_memory();
        }
        OK(gex_AM_RequestShort0(tm, 1, DONE, 0));
    } else {
        PHASE("puts");
        for (int i = 0; i < PIECES; i++) {
            to[i] = there + i;
            from[i] = target + i;
        }
        while (!ATOMIC_GET(&done)) {
            for (int i = 0; i < 16; i++) {
                gex_VIS_IndexedPutNBI(tm, 0, PIECES, to, 1, PIECES, from, 1, GEX_FLAG_PEER_SEG_UNKNOWN);
            }
            gex_NBI_Wait(GEX_EC_PUT, 0);
        }
    }
    barrier();
    return test_finish();
}

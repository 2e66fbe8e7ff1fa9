// In EVERYTHING: static data, stack, heap and other mappings of every process as targets, without
// gex_Segment_Attach; what the queries say.
// NP: 1 2 3 4
// SEGMENTS: everything
// TIMEOUT: 120
#include "everywhere.h"

static void queries(void) {
    gasnet_seginfo_t *table = (gasnet_seginfo_t *)malloc(np * sizeof *table);
    void *owner, *local;
    uintptr_t bytes;
    PHASE("queries");
    CHECK(gasnet_getMaxLocalSegmentSize() == UINTPTR_MAX && gasnet_getMaxGlobalSegmentSize() == UINTPTR_MAX);
    CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
    OK(gasnet_getSegmentInfo(table, (int)np));
    for (gex_Rank_t r = 0; r < np; r++) {
        CHECK(table[r].addr == NULL && table[r].size == UINTPTR_MAX);
        owner = local = &bytes;
        bytes = 5;
        CHECK(gex_EP_QueryBoundSegmentNB(tm, r, &owner, &local, &bytes, GEX_FLAG_IMMEDIATE) == GEX_EVENT_INVALID);
        CHECK(bytes == 0 && gex_Segment_QueryBound(tm, r, &owner, &local, &bytes) != 0);
    }
    free(table);
}

/* A segment that is bound to the primordial endpoint counts in queries and offsets; other memory
 * stays as it was. */
static void bind(void) {
    gex_Segment_t own;
    gex_Rank_t peer = (me + 1) % np;
    void *owner;
    uintptr_t bytes;
    PHASE("offsets from nothing");
    OK(gex_RMA_PutBlockingVal(tm, me, static_area + 8, 4343, 2, GEX_FLAG_PEER_SEG_OFFSET));
    CHECK(gex_RMA_GetBlockingVal(tm, me, static_area + 8, 2, 0) == 4343);
    PHASE("bind");
    OK(gex_Segment_Create(&own, client, static_area + 128, 4096, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(ep, own, 0));
    CHECK(gex_EP_QuerySegment(ep) == own);
    OK(gex_EP_PublishBoundSegment(tm, &ep, 1, 0));
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, &owner, NULL, &bytes, 0));
    CHECK(bytes == 4096 && (peer != me || owner == static_area + 128));
    OK(gex_RMA_PutBlockingVal(tm, peer, (void *)24, 4242, 2, GEX_FLAG_PEER_SEG_OFFSET));
    CHECK(gex_RMA_GetBlockingVal(tm, peer, (char *)owner + 24, 2, 0) == 4242);
    barrier();
    CHECK((unsigned char)static_area[128 + 24] == (4242 & 0xff));
}

int main(int argc, char **argv) {
    char stack[AREA + 64];
    test_init_flags("everywhere", &argc, &argv, GEX_FLAG_USES_GASNET1);
    everywhere_handlers();
    queries();
    everywhere(stack);
    PHASE("attach, which has no effect");
    segment = (gex_Segment_t)&segment;
    OK(gex_Segment_Attach(&segment, tm, 12345));
    CHECK(segment == GEX_SEGMENT_INVALID);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) == GASNET_ERR_BAD_ARG);
    gex_System_SetVerboseErrors(1);
    queries();
    bind();
    everywhere(stack);
    return test_finish();
}

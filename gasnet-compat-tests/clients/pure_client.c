// A client of GASNet-EX alone (flags 0, no argc and argv) may call these functions with gasnet_
// names, before and after it attaches, and returns from main: upcxx, realm-ex, caffeine, bcl,
// chapel.
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>

static void look_around(uintptr_t local, uintptr_t global) {
    CHECK(gasnet_getMaxLocalSegmentSize() == local);   /* upcxx, realm-g1 */
    CHECK(gasnet_getMaxGlobalSegmentSize() == global); /* caffeine */
    CHECK(gasnet_AMPoll() == GASNET_OK);
    CHECK(gasnet_mynode() == me && gasnet_nodes() == np);
    CHECK(!strcmp(gasnet_ErrorName(GASNET_ERR_NOT_READY), "GASNET_ERR_NOT_READY") &&
          gasnet_ErrorDesc(GASNET_ERR_NOT_READY)[0]);
    OK(gasnet_set_waitmode(GASNET_WAIT_SPIN));      /* upcxx, osss */
    OK(gasnet_set_waitmode(GASNET_WAIT_BLOCK));     /* chapel, realm */
    OK(gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK)); /* osss */
}

int main(void) {
    gex_Client_t client1;
    gex_EP_t ep1;
    gex_TM_t tm1;
    gex_Segment_t segment1 = (gex_Segment_t)&client1;
    gasnet_seginfo_t *table;
    int turns = 0;
    test_init("pure_client", NULL, NULL); /* upcxx, caffeine, realm-ex */
    uintptr_t local = gasnet_getMaxLocalSegmentSize();
    uintptr_t global = gasnet_getMaxGlobalSegmentSize();
    CHECK(local >= global && global >= GASNET_PAGESIZE);
    PHASE("before attach");
    look_around(local, global);
    gasnet_QueryGexObjects(&client1, &ep1, &tm1, &segment1); /* upcxx with UPC */
    CHECK(client1 == client && ep1 == ep && tm1 == tm && segment1 == GEX_SEGMENT_INVALID);
    GASNET_BLOCKUNTIL(++turns > 3); /* caffeine: a condition with side effects */
    CHECK(turns == 4);
    CHECK(gex_AM_MaxArgs() == 16); /* rust-gex */
    test_attach(GASNET_PAGESIZE);
    PHASE("after attach");
    look_around(local, global);
    gasnet_QueryGexObjects(NULL, NULL, NULL, &segment1);
    CHECK(segment1 == segment);
    table = (gasnet_seginfo_t *)calloc(np, sizeof *table);
    OK(gasnet_getSegmentInfo(table, (int)np)); /* bcl */
#ifndef GASNET_SEGMENT_EVERYTHING
    CHECK(table[me].addr == gex_Segment_QueryAddr(segment) && table[me].size == gex_Segment_QuerySize(segment));
#endif
    free(table);
    barrier();
    return test_failures ? 1 : 0; /* upcxx, bcl: without gasnet_exit */
}

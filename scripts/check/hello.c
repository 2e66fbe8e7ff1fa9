/* A small client for the installation checks: every rank puts its number into its right neighbour's
 * segment. */
#include <gasnetex.h>

#include <stdio.h>

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    gex_Rank_t me, np, right;
    void *theirs = NULL;
    gex_Rank_t value;
    int failed;

    if (gex_Client_Init(&client, &ep, &tm, "HELLO", &argc, &argv, 0) != GASNET_OK) return 1;
    me = gex_TM_QueryRank(tm);
    np = gex_TM_QuerySize(tm);
    if (gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) != GASNET_OK) return 1;
    right = (me + 1) % np;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, right, &theirs, NULL, NULL, 0));
    value = me + 1;
    gex_RMA_PutBlocking(tm, right, theirs, &value, sizeof value, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    failed = *(gex_Rank_t *)gex_Segment_QueryAddr(segment) != (me + np - 1) % np + 1;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (me == 0 && !failed) printf("hello from %u ranks over %s\n", (unsigned)np, GASNET_CONDUIT_NAME_STR);
    gasnet_exit(failed);
    return failed;
}

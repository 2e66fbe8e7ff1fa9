/* A short client: attaches a segment, passes a barrier, and prints the number of ranks. */
#include <gasnetex.h>
#include <gasnet_coll.h>

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    alarm(40);
    if (gex_Client_Init(&client, &ep, &tm, "FINE", &argc, &argv, 0) != GASNET_OK) return 3;
    alarm(40);
    if (gex_Segment_Attach(&segment, tm, 65536) != GASNET_OK) {
        fprintf(stderr, "fine: gex_Segment_Attach refused\n");
        gasnet_exit(4);
    }
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gex_TM_QueryRank(tm) == 0) printf("fine: %u ranks\n", (unsigned)gex_TM_QuerySize(tm));
    fflush(stdout);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);
    return 0;
}

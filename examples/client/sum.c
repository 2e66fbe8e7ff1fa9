/* The smallest useful client: every rank contributes its rank + 1 and receives the sum. */
#include <gasnetex.h>
#include <gasnet_coll.h>

#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    uint64_t mine, sum = 0;

    if (gex_Client_Init(&client, &ep, &tm, "SUM", &argc, &argv, 0) != GASNET_OK) return 1;
    mine = gex_TM_QueryRank(tm) + 1;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &sum, &mine, GEX_DT_U64, sizeof sum, 1, GEX_OP_ADD, NULL, NULL, 0));
    if (mine == 1) printf("the sum over %u ranks is %llu\n", (unsigned)gex_TM_QuerySize(tm), (unsigned long long)sum);
    gasnet_exit(0);
    return 0;
}

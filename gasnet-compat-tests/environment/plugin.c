/* A plugin that holds the static library: its host closes it when the job has begun. */
#include <gasnetex.h>

#include <stdio.h>

extern int plugin_start(int *argc, char ***argv);

int plugin_start(int *argc, char ***argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    if (gex_Client_Init(&client, &ep, &tm, "PLUGIN", argc, argv, 0) != GASNET_OK) return 1;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (!gex_System_QueryJobRank()) printf("fine: %u ranks\n", (unsigned)gex_System_QueryJobSize());
    return 0;
}

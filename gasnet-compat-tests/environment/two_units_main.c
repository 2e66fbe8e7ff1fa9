/* A C main whose other translation unit is C++: both include the headers. */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h>

gex_Rank_t other_unit(gex_TM_t tm);

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Client_Init(&client, &ep, &tm, "UNITS", &argc, &argv, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(other_unit(tm) == gex_TM_QuerySize(tm) ? 0 : 1);
    return 1;
}

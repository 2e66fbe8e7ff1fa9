// Says which conduit the headers name and which one runs, after an Active Message around the ring.
#include <gasnetex.h>

#include <stdio.h>
#include <string.h>

#if !defined(GASNET_CONDUIT_ANY) || GASNET_CONDUIT_ANY != 1
#error "these are not the headers of the universal library"
#endif

static volatile int arrived;
static void handler(gex_Token_t token, gex_AM_Arg_t value) {
    (void)token;
    arrived = (int)value;
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_AM_Entry_t table[1];
    memset(table, 0, sizeof table);
    if (gex_Client_Init(&client, &ep, &tm, "UNIVERSAL", &argc, &argv, 0) != GASNET_OK) return 3;
    table[0].gex_index = 200;
    table[0].gex_fnptr = (gex_AM_Fn_t)handler;
    table[0].gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT;
    table[0].gex_nargs = 1;
    if (gex_EP_RegisterHandlers(ep, table, 1) != GASNET_OK) return 4;
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gex_AM_RequestShort1(tm, (gex_TM_QueryRank(tm) + 1) % gex_TM_QuerySize(tm), 200, 0, 7);
    GASNET_BLOCKUNTIL(arrived == 7);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gex_TM_QueryRank(tm) == 0) {
        printf("headers %s, conduit %s, mode %s, %u ranks\n", GASNET_CONDUIT_NAME_STR, gasnetx_System_QueryConduit(),
               GASNETI_MODE_STR, (unsigned)gex_TM_QuerySize(tm));
        fflush(stdout);
    }
    gasnet_exit(0);
    return 0;
}

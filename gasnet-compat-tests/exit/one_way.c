/* The job ends when each rank has sent to its right neighbour, and to no other since the start. */
#include <gasnetex.h>

#include <stdio.h>

/* Enough for what a network connects in the background, and too few for a return of credits. */
enum { NOTE_INDEX = 200, ROUNDS = 100 };

static volatile int notes;

static void note_handler(gex_Token_t token) { notes++; }

static gex_AM_Entry_t handlers[] = {
    {NOTE_INDEX, (gex_AM_Fn_t)note_handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, NULL},
};

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Client_Init(&client, &ep, &tm, "one_way", &argc, &argv, 0);
    gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof *handlers);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        gex_AM_RequestShort0(tm, (gex_TM_QueryRank(tm) + 1) % gex_TM_QuerySize(tm), NOTE_INDEX, 0);
        GASNET_BLOCKUNTIL(notes >= round);
    }
    printf("noted\n");
    gasnet_exit(0);
    return 0;
}

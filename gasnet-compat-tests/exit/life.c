/* A short but complete life, to be killed at any instant of it: start, attach, puts, messages,
 * barriers, end. Ranks compute between the calls, so that some are outside GASNet when it
 * happens. */
#include <gasnetex.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static gex_Client_t client;
static gex_EP_t ep;
static gex_TM_t tm;
static gex_Segment_t segment;

enum { ROUNDS = 40, INDEX = 200, BYTES = 1 << 16 };
static int received;

static void count_handler(gex_Token_t token, void *payload, size_t bytes) {
    __atomic_add_fetch(&received, 1, __ATOMIC_ACQ_REL);
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); }

int main(int argc, char **argv) {
    static char data[BYTES];
    gex_AM_Entry_t entry;
    void *address = NULL;
    volatile unsigned work = 0;
    if (gex_Client_Init(&client, &ep, &tm, "LIFE", &argc, &argv, 0) != GASNET_OK) return 98;
    gex_Rank_t me = gex_TM_QueryRank(tm);
    gex_Rank_t np = gex_TM_QuerySize(tm);
    gex_Rank_t next = (me + 1) % np;
    memset(&entry, 0, sizeof entry);
    entry.gex_index = INDEX;
    entry.gex_fnptr = (gex_AM_Fn_t)count_handler;
    entry.gex_flags = GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM;
    if (gex_EP_RegisterHandlers(ep, &entry, 1) != GASNET_OK) return 97;
    if (gex_Segment_Attach(&segment, tm, BYTES) != GASNET_OK) return 96;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, next, &address, NULL, NULL, 0));
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        gex_RMA_PutBlocking(tm, next, address, data, sizeof data, 0);
        gex_AM_RequestMedium0(tm, next, INDEX, data, 64, GEX_EVENT_NOW, 0);
        for (unsigned i = 0; i < 200000; i++) work += i;
        GASNET_BLOCKUNTIL(__atomic_load_n(&received, __ATOMIC_ACQUIRE) > round);
        barrier();
    }
    printf("rank %u lived\n", (unsigned)me);
    return 0;
}

/*
 * A first program for GASNet-EX. Each rank puts a greeting into the memory of the next rank,
 * notifies that rank by an Active Message, and waits for the reply. docs/tutorial.md makes it in
 * five steps.
 */
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h> /* after gasnetex.h */

#include <stdio.h>

enum { GREETED = GEX_AM_INDEX_BASE, THANKED };

static gasnett_atomic_t greetings = gasnett_atomic_init(0), thanks = gasnett_atomic_init(0);

/* Runs on the next rank, whose memory has the greeting by then. */
static void on_greeted(gex_Token_t token) {
    gasnett_atomic_increment(&greetings, GASNETT_ATOMIC_REL);
    gex_AM_ReplyShort1(token, THANKED, 0, (gex_AM_Arg_t)gex_System_QueryJobRank());
}

/* Runs on the rank that greeted. */
static void on_thanked(gex_Token_t token, gex_AM_Arg_t from) {
    (void)token;
    gasnett_atomic_set(&thanks, (gasnett_atomic_val_t)from + 1, GASNETT_ATOMIC_REL);
}

static gex_AM_Entry_t handlers[] = {
    {GREETED, (gex_AM_Fn_t)on_greeted, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "greeted"},
    {THANKED, (gex_AM_Fn_t)on_thanked, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "thanked"},
};

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t team;
    if (gex_Client_Init(&client, &ep, &team, "HELLO", &argc, &argv, 0) != GASNET_OK) return 1;
    const gex_Rank_t me = gex_TM_QueryRank(team), ranks = gex_TM_QuerySize(team);
    const gex_Rank_t next = (me + 1) % ranks;
    if (gex_EP_RegisterHandlers(ep, handlers, sizeof handlers / sizeof *handlers) != GASNET_OK) gasnet_exit(1);

    gex_Segment_t segment;
    void *theirs;
    if (gex_Segment_Attach(&segment, team, GASNET_PAGESIZE) != GASNET_OK) gasnet_exit(1);
    const char *mine = (const char *)gex_Segment_QueryAddr(segment);
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, next, &theirs, NULL, NULL, 0));

    char greeting[32];
    snprintf(greeting, sizeof greeting, "hello from rank %u", (unsigned)me);
    gex_Event_t put = gex_RMA_PutNB(team, next, theirs, greeting, sizeof greeting, GEX_EVENT_DEFER, 0);
    /* Other work goes here; `greeting` must not change before the event is complete. */
    gex_Event_Wait(put);

    gex_AM_RequestShort0(team, next, GREETED, 0);
    GASNET_BLOCKUNTIL(gasnett_atomic_read(&greetings, GASNETT_ATOMIC_ACQ) > 0 &&
                      gasnett_atomic_read(&thanks, GASNETT_ATOMIC_ACQ) > 0);
    printf("rank %u: %s; thanks from rank %u\n", (unsigned)me, mine, (unsigned)gasnett_atomic_read(&thanks, 0) - 1);

    gex_Event_Wait(gex_Coll_BarrierNB(team, 0)); /* no rank ends while another one needs it */
    if (me == 0) printf("hello from %u ranks over %s\n", (unsigned)ranks, GASNET_CONDUIT_NAME_STR);
    gasnet_exit(0);
    return 0;
}

// Waits poll once at least, also when what they wait for is complete: clients spin on a flag around
// them, and on the progress of the last rank in a barrier (GASNet-examples).
// NP: 1 2 3
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>

enum { ASK = 200, ANSWER = 201, WAYS = 7 };

static unsigned asked, answered;

static void on_answer(gex_Token_t token) { ATOMIC_ADD(&answered, 1U); }
static void on_ask(gex_Token_t token) {
    ATOMIC_ADD(&asked, 1U);
    OK(gex_AM_ReplyShort0(token, ANSWER, 0));
}

static void once(unsigned way) {
    gex_Event_t none[2] = {GEX_EVENT_INVALID, GEX_EVENT_INVALID};
    switch (way) {
        case 0: gex_NBI_Wait(GEX_EC_ALL, 0); break;
        case 1: gex_NBI_Wait(GEX_EC_PUT, 0); break;
        case 2: gex_Event_WaitAll(none, 2, 0); break;
        case 3: gex_Event_WaitSome(none, 0, 0); break;
        case 4: gasnet_wait_syncnbi_all(); break;
        case 5: gasnet_wait_syncnbi_gets(); break;
        case 6: gasnet_AMPoll(); break;
    }
}

int main(int argc, char **argv) {
    test_init_flags("waits_poll", &argc, &argv, GEX_FLAG_USES_GASNET1);
    register_handler(ASK, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    barrier();
    gex_Rank_t peer = (me + 1) % np;
    for (unsigned way = 0; way < WAYS; way++) {
        PHASE("a wait with nothing to wait for");
        OK(gex_AM_RequestShort0(tm, peer, ASK, 0));
        while (ATOMIC_GET(&answered) < way + 1) once(way);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&asked) == WAYS);
#ifdef GASNET_CONDUIT_SMP
    PHASE("barriers");
    /* Messages sent before a barrier have arrived after it: the first barrier runs the request, the
     * second one the reply. */
    barrier();
    OK(gex_AM_RequestShort0(tm, peer, ASK, 0));
    for (unsigned way = 0; way < 3; way++) {
        gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
        OK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS));
    }
    CHECK(ATOMIC_GET(&asked) == WAYS + 1 && ATOMIC_GET(&answered) == WAYS + 1);
#endif
    return test_finish();
}

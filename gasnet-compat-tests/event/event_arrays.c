// gex_Event_{Test,Wait}{Some,All}: arrays with GEX_EVENT_INVALID at any place, empty arrays,
// partial completion, a pending barrier among completed operations; Test never reports success
// early.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

enum { WINDOW = 24, BYTES = 30000 };
static char *source;

static int pending(const gex_Event_t *e, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) count += e[i] != GEX_EVENT_INVALID;
    return count;
}

static void empty(void) {
    gex_Event_t e[4];
    PHASE("nothing to wait for");
    CHECK(gex_Event_TestSome(NULL, 0, 0) == 0);
    CHECK(gex_Event_TestAll(NULL, 0, 0) == 0);
    gex_Event_WaitSome(NULL, 0, 0);
    gex_Event_WaitAll(NULL, 0, 0);
    for (int i = 0; i < 4; i++) e[i] = GEX_EVENT_INVALID;
    CHECK(gex_Event_TestSome(e, 4, 0) == 0);
    CHECK(gex_Event_TestAll(e, 4, 0) == 0);
    gex_Event_WaitSome(e, 4, 0);
    gex_Event_WaitAll(e, 4, 0);
    for (int i = 0; i < 4; i++) CHECK(e[i] == GEX_EVENT_INVALID);
}

static void start(gex_Event_t *e, gex_Rank_t peer, char *remote, int gaps) {
    for (int i = 0; i < WINDOW; i++) {
        if (gaps && i % 3 == gaps - 1) e[i] = GEX_EVENT_INVALID;
        else
            e[i] = gex_RMA_PutNB(tm, peer, remote + (size_t)i * BYTES, source + (size_t)i * BYTES, BYTES,
                                 GEX_EVENT_DEFER, 0);
    }
}

static void operations(gex_Rank_t peer) {
    gex_Event_t e[WINDOW];
    char *remote = seg_of(peer);
    int before, rc;
    for (int gaps = 0; gaps <= 3; gaps++) {
        PHASE("WaitSome");
        start(e, peer, remote, gaps);
        while ((before = pending(e, WINDOW)) > 0) {
            gex_Event_WaitSome(e, WINDOW, 0);
            CHECK(pending(e, WINDOW) < before); /* at least one was completed and overwritten */
        }
        PHASE("TestSome");
        start(e, peer, remote, gaps);
        while ((before = pending(e, WINDOW)) > 0) {
            rc = gex_Event_TestSome(e, WINDOW, 0);
            if (rc == 0) CHECK(pending(e, WINDOW) < before);
            else CHECK(pending(e, WINDOW) == before);
            gasnet_AMPoll();
        }
        PHASE("WaitAll");
        start(e, peer, remote, gaps);
        gex_Event_WaitAll(e, WINDOW, 0);
        CHECK(pending(e, WINDOW) == 0);
        PHASE("TestAll");
        start(e, peer, remote, gaps);
        for (;;) {
            rc = gex_Event_TestAll(e, WINDOW, 0);
            if (rc == 0) break;
            CHECK(pending(e, WINDOW) > 0);
            gasnet_AMPoll();
        }
        CHECK(pending(e, WINDOW) == 0);
    }
}

/* A barrier that one rank enters late is certainly pending until then. */
static gex_AM_Index_t go_index = 150;
static int go;
static void on_go(gex_Token_t token) { ATOMIC_ADD(&go, 1); }

static void certainly_pending(void) {
    gex_Event_t e[5];
    PHASE("a pending event");
    if (np < 2) return;
    barrier();
    if (me != 0) {
        for (int i = 0; i < 5; i++) e[i] = GEX_EVENT_INVALID;
        e[2] = gex_Coll_BarrierNB(tm, 0);
        for (int i = 0; i < 50; i++) {
            CHECK(gex_Event_TestAll(e, 5, 0) != 0);
            CHECK(gex_Event_TestSome(e, 5, 0) != 0);
            CHECK(gex_Event_Test(e[2]) != 0);
            gasnet_AMPoll();
        }
        /* a completed operation beside it */
        e[4] = gex_RMA_PutNB(tm, me, seg_of(me), source, 64, GEX_EVENT_DEFER, 0);
        if (e[4] != GEX_EVENT_INVALID) {
            gex_Event_WaitSome(e, 5, 0);
            CHECK(e[4] == GEX_EVENT_INVALID && e[2] != GEX_EVENT_INVALID);
        }
        CHECK(gex_Event_TestAll(e, 5, 0) != 0);
        gex_AM_RequestShort0(tm, 0, go_index, 0);
        gex_Event_WaitAll(e, 5, 0);
        CHECK(pending(e, 5) == 0);
    } else {
        /* enters only when all others have seen their barriers pending */
        GASNET_BLOCKUNTIL(ATOMIC_GET(&go) == (int)np - 1);
        barrier();
    }
    barrier();
}

int main(int argc, char **argv) {
    test_init("event_arrays", &argc, &argv);
    register_handler(go_index, (gex_AM_Fn_t)on_go, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach((uintptr_t)WINDOW * BYTES);
    source = (char *)malloc((size_t)WINDOW * BYTES);
    pattern_fill(source, (size_t)WINDOW * BYTES, 1);
    barrier();
    empty();
    for (gex_Rank_t hop = 0; hop < np && hop < 3; hop++) operations((me + hop) % np);
    certainly_pending();
    return test_finish();
}

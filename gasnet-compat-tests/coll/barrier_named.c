// The GASNet-1 barrier: named and anonymous, matching and not, GASNET_BARRIERFLAG_MISMATCH, notify
// with wait or try, the blocking form, GASNET_BARRIERFLAG_UNNAMED, gasnet_barrier_result, and its
// use between team barriers.
// NP: 1 2 3 4 7
// TIMEOUT: 90
#include "check.h"

static gex_AM_Index_t ready_index = 150;
static int ready;

static void on_ready(gex_Token_t token) { ATOMIC_ADD(&ready, 1); }

static int use_try;

/* The second half, by wait or by trying. */
static int finish(int id, int flags) {
    int rc;
    if (!use_try) return gasnet_barrier_wait(id, flags);
    while ((rc = gasnet_barrier_try(id, flags)) == GASNET_ERR_NOT_READY) gasnet_AMPoll();
    return rc;
}

static int both(int id, int flags) {
    gasnet_barrier_notify(id, flags);
    return finish(id, flags);
}

static void named(void) {
    int id = -1;
    PHASE("named");
    for (int i = 0; i < 20; i++) {
        int name = i % 2 ? i * 1000003 : -i;
        CHECK(both(name, 0) == GASNET_OK);
        CHECK(gasnet_barrier_result(&id) == 0 && id == name);
        CHECK(gasnet_barrier(name, 0) == GASNET_OK);
        id = 1;
        CHECK(gasnet_barrier_result(&id) == 0 && id == name);
    }
}

static void anonymous(void) {
    int id;
    PHASE("anonymous");
    for (int i = 0; i < 20; i++) {
        CHECK(both((int)me * i, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK); /* the name does not matter */
        CHECK(gasnet_barrier_result(&id) != 0);
        CHECK(gasnet_barrier((int)me + i, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
        CHECK(gasnet_barrier_result(&id) != 0);
    }
}

static void unnamed(void) {
    PHASE("unnamed");
    for (int i = 0; i < 20; i++) {
        CHECK(both(0, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
        CHECK(gasnet_barrier(0, GASNET_BARRIERFLAG_UNNAMED) == GASNET_OK);
    }
}

/* Anonymous ranks match every name. */
static void mixed(void) {
    int id = -1;
    PHASE("named and anonymous");
    for (gex_Rank_t r = 0; r < np && r < 4; r++) {
        int is_named = me == r;
        int flags = is_named ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;
        CHECK(both(is_named ? 4711 : 12, flags) == GASNET_OK);
        if (np > 1 || is_named) CHECK(gasnet_barrier_result(&id) == 0 && id == 4711);
        flags = is_named ? GASNET_BARRIERFLAG_ANONYMOUS : 0;
        CHECK(both(is_named ? 12 : 4712, flags) == GASNET_OK);
        if (np > 1) CHECK(gasnet_barrier_result(&id) == 0 && id == 4712);
        flags = is_named ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;
        CHECK(gasnet_barrier(is_named ? 4713 : 12, flags) == GASNET_OK);
        CHECK(gasnet_barrier_result(&id) == 0 && id == 4713);
    }
}

static void mismatch(void) {
    PHASE("names differ");
    for (gex_Rank_t r = 0; r < np && r < 4 && np > 1; r++) {
        CHECK(both(me == r ? 1 : 2, 0) == GASNET_ERR_BARRIER_MISMATCH);
        CHECK(gasnet_barrier(me == r ? 1 : 2, 0) == GASNET_ERR_BARRIER_MISMATCH);
        CHECK(both(5, 0) == GASNET_OK); /* the next one is not affected */
    }
    PHASE("names of distant ranks differ");
    if (np > 2) {
        int name = me == 0        ? 1
                   : me == np - 1 ? 2
                                  : 0,
            flags = me == 0 || me == np - 1 ? 0 : GASNET_BARRIERFLAG_ANONYMOUS;
        CHECK(both(name, flags) == GASNET_ERR_BARRIER_MISMATCH);
    }
    PHASE("forced mismatch");
    for (gex_Rank_t r = 0; r < np && r < 4; r++) {
        int flags = me == r ? GASNET_BARRIERFLAG_MISMATCH : (int)(me + r) % 2 ? GASNET_BARRIERFLAG_ANONYMOUS : 0;
        CHECK(both(9, flags) == GASNET_ERR_BARRIER_MISMATCH);
        CHECK(gasnet_barrier(9, flags) == GASNET_ERR_BARRIER_MISMATCH);
        CHECK(both(9, 0) == GASNET_OK);
    }
    PHASE("notify and wait differ");
    gasnet_barrier_notify(1, 0);
    CHECK(finish(2, 0) == GASNET_ERR_BARRIER_MISMATCH);
    CHECK(both(3, 0) == GASNET_OK);
}

static void try_is_not_ready(void) {
    PHASE("try before all have notified");
    if (np < 2) return;
    ATOMIC_SET(&ready, 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (me != 0) {
        gasnet_barrier_notify(31, 0);
        for (int i = 0; i < 20; i++) {
            CHECK(gasnet_barrier_try(31, 0) == GASNET_ERR_NOT_READY);
            gasnet_AMPoll();
        }
        gex_AM_RequestShort0(tm, 0, ready_index, 0);
        CHECK(finish(31, 0) == GASNET_OK);
    } else {
        GASNET_BLOCKUNTIL(ATOMIC_GET(&ready) == (int)np - 1);
        gasnet_barrier_notify(31, 0);
        CHECK(finish(31, 0) == GASNET_OK);
    }
}

int main(int argc, char **argv) {
    test_init_flags("barrier_named", &argc, &argv, GEX_FLAG_USES_GASNET1);
    register_handler(ready_index, (gex_AM_Fn_t)on_ready, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(4096);
    for (use_try = 0; use_try < 2; use_try++) {
        named();
        anonymous();
        unnamed();
        mixed();
        mismatch();
        try_is_not_ready();
        barrier();
    }
    PHASE("between team barriers");
    for (int i = 0; i < 100; i++) {
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
        CHECK(gasnet_barrier(i, 0) == GASNET_OK);
    }
    return test_finish();
}

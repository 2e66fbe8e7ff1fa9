// Barriers of a GASNet-1 program: named, anonymous, mixed, mismatch by name and by flag, by wait
// and by try, split phase with transfers between; the wait modes, and GASNET_BLOCKUNTIL in each of
// them.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check1.h"

enum { ADD = 170 };
static int arrived;

static void on_add(gasnet_token_t token, gasnet_handlerarg_t n) { ATOMIC_ADD(&arrived, (int)n); }

static int finish_try(int id, int flags) {
    int rc;
    while ((rc = gasnet_barrier_try(id, flags)) == GASNET_ERR_NOT_READY) continue;
    return rc;
}

static void named(void) {
    PHASE("named and anonymous");
    for (int round = 0; round < 30; round++) {
        int anonymous = round % 3 == 0 || (round % 3 == 1 && me % 2 == 0), id = 1000 + round, result = -1;
        int flags = anonymous ? GASNET_BARRIERFLAG_ANONYMOUS : 0;
        if (anonymous) id = -7 - (int)me; /* ignored */
        gasnet_barrier_notify(id, flags);
        if (round & 1) CHECK(gasnet_barrier_wait(id, flags) == GASNET_OK);
        else CHECK(finish_try(id, flags) == GASNET_OK);
        if (round % 3 == 2) CHECK(gasnet_barrier_result(&result) == 0 && result == 1000 + round);
        if (round % 3 == 0) CHECK(gasnet_barrier_result(&result) != 0);
    }
}

static void mismatched(void) {
    PHASE("mismatch by flag");
    gasnet_barrier_notify(4, me == np - 1 ? GASNET_BARRIERFLAG_MISMATCH : 0);
    CHECK(gasnet_barrier_wait(4, me == np - 1 ? GASNET_BARRIERFLAG_MISMATCH : 0) == GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(4, me == 0 ? GASNET_BARRIERFLAG_MISMATCH : GASNET_BARRIERFLAG_ANONYMOUS);
    CHECK(finish_try(4, me == 0 ? GASNET_BARRIERFLAG_MISMATCH : GASNET_BARRIERFLAG_ANONYMOUS) ==
          GASNET_ERR_BARRIER_MISMATCH);
    if (np > 1) {
        PHASE("mismatch by name");
        gasnet_barrier_notify(me == 1, 0);
        CHECK(gasnet_barrier_wait(me == 1, 0) == GASNET_ERR_BARRIER_MISMATCH);
    }
    PHASE("after a mismatch");
    gasnet_barrier_notify(77, 0);
    CHECK(gasnet_barrier_wait(77, 0) == GASNET_OK);
}

static void split(void) {
    gasnet_node_t peer = (me + 1) % np;
    PHASE("transfers between notify and wait");
    for (int round = 1; round < 40; round++) {
        gasnet_put_val(peer, at(peer, 0), (gasnet_register_value_t)round, 4);
        gasnet_barrier_notify(round, 0);
        gasnet_put_val(peer, at(peer, 8), (gasnet_register_value_t)round, 4);
        CHECK(gasnet_get_val(peer, at(peer, 8), 4) == (gasnet_register_value_t)round);
        CHECK(gasnet_barrier_wait(round, 0) == GASNET_OK);
        CHECKF(*(volatile int32_t *)at(me, 0) == round, "%d instead of %d", (int)*(volatile int32_t *)at(me, 0), round);
        gasnet1_barrier();
    }
}

static void wait_modes(void) {
    const int modes[] = {GASNET_WAIT_BLOCK, GASNET_WAIT_SPINBLOCK, GASNET_WAIT_SPIN};
    int total = 0;
    for (int i = 0; i < 3; i++) {
        PHASE("wait modes");
        OK(gasnet_set_waitmode(modes[i]));
        for (int round = 0; round < 20; round++) {
            /* some messages are under way when the wait begins, others are not */
            if (round % 5 == 4) usleep(me * 300);
            for (gasnet_node_t r = 0; r < np; r++) OK(gasnet_AMRequestShort1(r, ADD, 2));
            total += 2 * (int)np;
            GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == total);
            gasnet1_barrier();
        }
    }
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[] = {{ADD, (gex_AM_Fn_t)on_add}};
    gasnet1_init("barriers", &argc, &argv);
    gasnet1_attach(table, 1, 4096);
    gasnet1_barrier();
    named();
    mismatched();
    split();
    wait_modes();
    return test_finish();
}

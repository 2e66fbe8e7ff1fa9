// gasnet_set_waitmode: every mode is accepted, ranks may differ, and waits of every kind end in
// each of them.
// NP: 1 2 4
// TIMEOUT: 90
#include "check.h"

enum { ROUNDS = 5 };
static int arrived;
static gex_AM_Index_t handler_index = 202;

static void handler(gex_Token_t token) { ATOMIC_ADD(&arrived, 1); }

static void exercise(void) {
    int before = ATOMIC_GET(&arrived);
    (void)before;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t value = 0;
        barrier();
        gex_AM_RequestShort0(tm, (me + 1) % np, handler_index, 0);
        gex_RMA_GetBlocking(tm, &value, (me + 1) % np, seg_of((me + 1) % np), sizeof value, 0);
        CHECK(value == UINT64_C(0xABCDEF) + (me + 1) % np);
    }
    barrier();
}

int main(int argc, char **argv) {
    static const int modes[] = {GASNET_WAIT_BLOCK, GASNET_WAIT_SPINBLOCK, GASNET_WAIT_SPIN};
    int expected = 0;
    test_init("wait_modes", &argc, &argv);
    register_handler(handler_index, (gex_AM_Fn_t)handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(4096);
    *(uint64_t *)(void *)seg_of(me) = UINT64_C(0xABCDEF) + me;
    barrier();
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"all block", "all spin, then block", "all spin"};
        PHASE(names[i]);
        CHECK(gasnet_set_waitmode(modes[i]) == GASNET_OK);
        exercise();
        expected += ROUNDS;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == expected);
    }
    for (size_t i = 0; i < 3; i++) {
        PHASE("mixed modes");
        CHECK(gasnet_set_waitmode(modes[(i + me) % 3]) == GASNET_OK);
        exercise();
        expected += ROUNDS;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == expected);
    }
    CHECK(gasnet_set_waitmode(GASNET_WAIT_BLOCK) == GASNET_OK);
    return test_finish();
}

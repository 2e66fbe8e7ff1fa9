// A put that is complete is in place for everybody, not only for whoever asks its target: the last
// rank puts to rank 0 and then tells rank 1, which looks at rank 0's memory (directly, if the two
// are neighbours).
// NP: 1 2 3 4
// TIMEOUT: 60
#include "check.h"

enum { ROUNDS = 50, BYTES = 3000 };
static gex_AM_Index_t notify_index = 150;
static int notified;

static void on_notify(gex_Token_t token, gex_AM_Arg_t round) { ATOMIC_SET(&notified, (int)round); }

int main(int argc, char **argv) {
    static char data[BYTES], seen[BYTES];
    test_init("put_complete_elsewhere", &argc, &argv);
    register_handler(notify_index, (gex_AM_Fn_t)on_notify, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    test_attach(BYTES);
    char *remote = seg_of(0);
    gex_Rank_t writer = np - 1;
    gex_Rank_t reader = 1 % np;
    barrier();
    for (int round = 1; round <= ROUNDS; round++) {
        if (me == writer) {
            PHASE("put");
            pattern_fill(data, BYTES, (uint64_t)round);
            if (round % 3 == 0) {
                OK(gex_RMA_PutNBI(tm, 0, remote, data, BYTES, GEX_EVENT_DEFER, 0));
                gex_NBI_Wait(GEX_EC_PUT, 0);
            } else if (round % 3 == 1) {
                gex_Event_Wait(gex_RMA_PutNB(tm, 0, remote, data, BYTES, GEX_EVENT_DEFER, 0));
            } else {
                OK(gex_RMA_PutBlocking(tm, 0, remote, data, BYTES, 0));
            }
            OK(gex_AM_RequestShort1(tm, reader, notify_index, 0, round));
        }
        if (me == reader) {
            PHASE("look");
            GASNET_BLOCKUNTIL(ATOMIC_GET(&notified) == round);
            OK(gex_RMA_GetBlocking(tm, seen, 0, remote, BYTES, 0));
            CHECK_PATTERN(seen, BYTES, (uint64_t)round);
        }
        barrier();
    }
    return test_finish();
}

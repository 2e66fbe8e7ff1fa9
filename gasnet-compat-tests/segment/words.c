// In EVERYTHING: a process waits for words that its neighbour puts: each is seen whole, and after
// what was put before it.
// NP: 2 4
// SEGMENTS: everything
// TIMEOUT: 120
#include "check.h"

enum { ROUNDS = 3000, BYTES = 5000 };
static struct {
    volatile uint64_t flag;
    char data[BYTES];
} inbox;

int main(int argc, char **argv) {
    char out[BYTES];
    char *theirs[64];
    gex_Rank_t left;
    test_init("words", &argc, &argv);
    REQUIRE(np <= ARRAY_LENGTH(theirs));
    for (left = 0; left < np; left++) {
        char *mine = (char *)&inbox;
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, left, &theirs[left], &mine, sizeof mine, 0));
    }
    gex_Rank_t right = (me + 1) % np;
    left = (me + np - 1) % np;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        /* both halves change in every round */
        const uint64_t word = round << 40 | round << 8, expected = word | left;
        size_t bytes = round % BYTES;
        uint64_t seen;
        pattern_fill(out, bytes, word + me);
        OK(gex_RMA_PutBlocking(tm, right, theirs[right] + sizeof inbox.flag, out, bytes, 0));
        OK(gex_RMA_PutBlockingVal(tm, right, theirs[right], word | me, 8, 0));
        GASNET_BLOCKUNTIL((seen = inbox.flag) != 0 && seen >> 40 >= round);
        CHECKF(seen == expected, "%#llx instead of %#llx", (unsigned long long)seen, (unsigned long long)expected);
        CHECK_PATTERN(inbox.data, bytes, word + left);
        barrier();
    }
    return test_finish();
}

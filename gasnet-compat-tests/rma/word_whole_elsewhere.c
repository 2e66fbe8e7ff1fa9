// An aligned word that a put writes is seen whole by everybody, not only at its owner: the last
// rank writes zeros and ones to rank 0 while the ranks between look (directly, if they are
// neighbours of rank 0).
// NP: 2 3 4
// TIMEOUT: 60
#include "check.h"

enum { ROUNDS = 400 };

int main(int argc, char **argv) {
    static const size_t sizes[] = {2, 4, 8};
    test_init("word_whole_elsewhere", &argc, &argv);
    test_attach(4096);
    memset(seg_of(me), 0, 4096);
    char *words = seg_of(0); /* a word, and 64 bytes on the flag that ends a round */
    barrier();
    for (size_t s = 0; s < ARRAY_LENGTH(sizes); s++) {
        size_t bytes = sizes[s];
        uint64_t ones = bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1;
        if (me == np - 1) {
            PHASE("writing");
            for (int i = 1; i <= ROUNDS; i++)
                OK(gex_RMA_PutBlockingVal(tm, 0, words, i % 2 ? (gex_RMA_Value_t)ones : 0, bytes, 0));
            OK(gex_RMA_PutBlockingVal(tm, 0, words + 64, (gex_RMA_Value_t)bytes, 8, 0));
        } else if (me > 0) {
            PHASE("looking");
            while (gex_RMA_GetBlockingVal(tm, 0, words + 64, 8, 0) != bytes) {
                uint64_t seen = (uint64_t)gex_RMA_GetBlockingVal(tm, 0, words, bytes, 0);
                CHECKF(!word_is_whole(bytes) || seen == 0 || seen == ones, "%zu bytes: %llx", bytes,
                       (unsigned long long)seen);
            }
        } else {
            PHASE("serving");
            GASNET_BLOCKUNTIL(*(volatile uint64_t *)(void *)(words + 64) == bytes);
        }
        barrier();
    }
    return test_finish();
}

// Objects no larger than a word, with a size that the compiler does not know: no warning, and the
// bytes that were meant.
// NP: 1 2 3
#include "check.h"

static volatile size_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8};

int main(int argc, char **argv) {
    test_init("size_unknown", &argc, &argv);
    test_attach(4096);
    gex_Rank_t peer = (me + 1) % np;
    char *remote = seg_of(peer);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        uint64_t value = UINT64_C(0x0102030405060708) * (me + 1), back = 0;
        unsigned char small[3] = {1, 2, 3};
        OK(gex_RMA_PutBlocking(tm, peer, remote, &value, bytes, 0));
        OK(gex_RMA_GetBlocking(tm, &back, peer, remote, bytes, 0));
        for (size_t k = 0; k < sizeof back; k++)
            CHECK(((unsigned char *)&back)[k] == (k < bytes ? ((unsigned char *)&value)[k] : 0));
        if (bytes > 0) {
            OK(gex_RMA_PutBlockingVal(tm, peer, remote, value, bytes, 0));
            CHECK(gex_RMA_GetBlockingVal(tm, peer, remote, bytes, 0) ==
                  (bytes == 8 ? value : value & ((UINT64_C(1) << (8 * bytes)) - 1)));
        }
        if (bytes <= sizeof small) {
            gex_Event_Wait(gex_RMA_PutNB(tm, peer, remote + 64, small, bytes, GEX_EVENT_NOW, 0));
            memset(small, 9, sizeof small);
            gex_Event_Wait(gex_RMA_GetNB(tm, small, peer, remote + 64, bytes, 0));
            for (size_t k = 0; k < sizeof small; k++) CHECK(small[k] == (k < bytes ? k + 1 : 9));
        }
    }
    barrier();
    return test_finish();
}

// Value forms of put and get: 1 to 8 bytes, every alignment, blocking, NB and NBI; the high bytes
// of a fetched value are zero and no byte beside the target changes.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    test_init("rma_value", &argc, &argv);
    test_attach(65536);
    for (gex_Rank_t hop = 0; hop < np && hop < 4; hop++) {
        gex_Rank_t peer = (me + hop) % np;
        char *remote = seg_of(peer);
        barrier();
        for (int form = 0; form < 3; form++) {
            for (size_t bytes = 1; bytes <= SIZEOF_GEX_RMA_VALUE_T; bytes++) {
                for (size_t offset = 0; offset < 16; offset++) {
                    gex_RMA_Value_t value =
                        (gex_RMA_Value_t)UINT64_C(0xF1E2D3C4B5A69788) ^ (gex_RMA_Value_t)(offset * 257 + form);
                    gex_RMA_Value_t mask =
                        bytes == sizeof value ? ~(gex_RMA_Value_t)0 : ((gex_RMA_Value_t)1 << (8 * bytes)) - 1;
                    unsigned char around[40], expected[40];
                    char *target = remote + 8 + offset;
                    memset(around, 0x44, sizeof around);
                    OK(gex_RMA_PutBlocking(tm, peer, remote, around, sizeof around, 0));
                    if (form == 0) OK(gex_RMA_PutBlockingVal(tm, peer, target, value, bytes, 0));
                    else if (form == 1) gex_Event_Wait(gex_RMA_PutNBVal(tm, peer, target, value, bytes, 0));
                    else {
                        OK(gex_RMA_PutNBIVal(tm, peer, target, value, bytes, 0));
                        gex_NBI_Wait(GEX_EC_PUT, 0);
                    }
                    CHECKF(gex_RMA_GetBlockingVal(tm, peer, target, bytes, 0) == (value & mask),
                           "%zu bytes at %zu: %llx", bytes, offset,
                           (unsigned long long)gex_RMA_GetBlockingVal(tm, peer, target, bytes, 0));
                    OK(gex_RMA_GetBlocking(tm, around, peer, remote, sizeof around, 0));
                    memset(expected, 0x44, sizeof expected);
                    /* the low-order bytes, in the order of an integer of that many bytes */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
                    memcpy(expected + 8 + offset, (unsigned char *)&value + sizeof value - bytes, bytes);
#else
                    memcpy(expected + 8 + offset, &value, bytes);
#endif
                    CHECKF(memcmp(around, expected, sizeof around) == 0, "%zu bytes at %zu, form %d", bytes, offset,
                           form);
                }
            }
        }
        barrier();
    }
    return test_finish();
}

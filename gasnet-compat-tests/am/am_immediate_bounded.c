// An IMMEDIATE Long of much data, which a peer that is outside GASNet for a while does not take, is
// not copied: a rest of more than 1 MiB waits for room.
// NP: 2
// CONDUITS: sock
// SEGMENTS: fast large
// ENV: GASNET_SUPERNODE_MAXSIZE=1
// TIMEOUT: 90
#include "check.h"

enum { BIG = 64 << 20, MOST = BIG / 4 };
static gex_AM_Index_t long_index = 150;
static int arrived;

static void on_long(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK(bytes == BIG - 1);
    CHECK_PATTERN(buffer, bytes, 7);
    ATOMIC_ADD(&arrived, 1);
}

int main(int argc, char **argv) {
    test_init("am_immediate_bounded", &argc, &argv);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    test_attach(BIG);
    barrier();
    if (me == 0) {
        char *data = (char *)malloc(BIG);
        pattern_fill(data, BIG - 1, 7);
        size_t before = resident();
        PHASE("sending");
        while (gex_AM_RequestLong0(tm, 1, long_index, data, BIG - 1, seg_of(1), GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE))
            gasnet_AMPoll();
        CHECKF(resident() < before + MOST, "%zu bytes more", resident() - before);
        memset(data, 1, BIG);
        barrier();
        free(data);
    } else {
        usleep(100000);
        PHASE("receiving");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == 1);
        barrier();
    }
    return test_finish();
}

// RMA, Longs and atomics to the own rank reach any memory of the process, with a segment and
// without one, on every conduit, as in the reference. The debug flavour holds them to the segment.
// NP: 1 2
// FLAVOURS: release
// TIMEOUT: 60
#include "check.h"

#include <gasnet_ratomic.h>

static char from[64], to[64];
static uint64_t word;
static unsigned longs;

static void on_long(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(payload == to && bytes == 8);
    ATOMIC_ADD(&longs, 1U);
}

static void all(unsigned so_far) {
    uint64_t before = 99;
    gex_AD_t ad;
    strcpy(from, "seven77");
    memset(to, 0, sizeof to);
    OK(gex_RMA_PutBlocking(tm, me, to, from, 8, 0));
    CHECK(!strcmp(to, from));
    OK(gex_RMA_GetBlocking(tm, from + 8, me, to, 8, 0));
    CHECK(!strcmp(from + 8, from));
    OK(gex_RMA_PutBlockingVal(tm, me, to, 7, 4, 0));
    CHECK(gex_RMA_GetBlockingVal(tm, me, to, 4, 0) == 7);
    OK(gex_AM_RequestLong0(tm, me, 200, from, 8, to, GEX_EVENT_NOW, 0));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&longs) == so_far + 1);
    CHECK(!strcmp(to, from));
    gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD, 0);
    word = 5;
    gex_Event_Wait(gex_AD_OpNB_U64(ad, &before, me, &word, GEX_OP_FADD, 2, 0, 0));
    CHECK(before == 5 && word == 7);
    gex_AD_Destroy(ad);
}

int main(int argc, char **argv) {
    test_init("own_memory", &argc, &argv);
    register_handler(200, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    barrier();
    PHASE("no segment");
    all(0);
    test_attach(GASNET_PAGESIZE);
    PHASE("outside the segment");
    all(1);
    return test_finish();
}

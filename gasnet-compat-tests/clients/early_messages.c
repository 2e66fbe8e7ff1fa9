// GASNet-1 clients send as soon as their own gasnet_attach has returned, while others are still
// inside theirs (epcc, gexex). Handlers wait until that has returned, too: clients prepare
// afterwards what handlers need (epcc). One handler, and one index, serves Mediums and Longs of the
// same prototype (epcc, gexex).
// NP: 1 2 3 4 7
// TIMEOUT: 60
#include "check.h"

#include <gasnet.h>

enum { BOTH = 201, ECHO = 202, BYTES = 256 };

static unsigned requests, echoes, is_attached;

static void echo(gasnet_token_t token, gasnet_handlerarg_t source) {
    gasnet_node_t node = ~0U;
    OK(gasnet_AMGetMsgSource(token, &node));
    CHECK(node == (gasnet_node_t)source);
    ATOMIC_ADD(&echoes, 1U);
}
static void both(gasnet_token_t token, void *payload, size_t bytes, gasnet_handlerarg_t source,
                 gasnet_handlerarg_t is_long) {
    gex_Token_Info_t info;
    CHECK(bytes == BYTES);
    CHECK_PATTERN(payload, bytes, (uint64_t)source);
    CHECK(ATOMIC_GET(&is_attached));
    CHECK(gex_Token_Info(token, &info, GEX_TI_IS_LONG) & GEX_TI_IS_LONG);
    CHECK(!info.gex_is_long == !is_long);
    ATOMIC_ADD(&requests, 1U);
    OK(gasnet_AMReplyShort1(token, ECHO, (gasnet_handlerarg_t)gasnet_mynode()));
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[2];
    unsigned char out[BYTES];
    test_name = "early_messages";
    if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
    test_start_watchdog();
    me = gasnet_mynode();
    np = gasnet_nodes();
    table[0].index = BOTH, table[0].fnptr = (gex_AM_Fn_t)both;
    table[1].index = ECHO, table[1].fnptr = (gex_AM_Fn_t)echo;
    pattern_fill(out, BYTES, me);
    PHASE("attach");
    if (me % 2) usleep(20000); /* comes late */
    OK(gasnet_attach(table, 2, GASNET_PAGESIZE, 0));
    if (me % 2) usleep(20000); /* the first messages are there before it looks */
    ATOMIC_ADD(&is_attached, 1U);
    /* no barrier here */
    PHASE("Mediums");
    for (gasnet_node_t i = 0; i < np; i++)
        OK(gasnet_AMRequestMedium2((me + i) % np, BOTH, out, BYTES, (gasnet_handlerarg_t)me, 0));
    GASNET_BLOCKUNTIL(ATOMIC_GET(&echoes) == np);
    PHASE("Longs");
    gasnet_QueryGexObjects(&client, &ep, &tm, &segment);
#ifdef GASNET_SEGMENT_EVERYTHING
    test_make_block((uintptr_t)np * BYTES);
#endif
    for (gasnet_node_t i = 0; i < np; i++) {
        gasnet_node_t peer = (me + i) % np;
        OK(gasnet_AMRequestLong2(peer, BOTH, out, BYTES, seg_of(peer) + (size_t)me * BYTES, (gasnet_handlerarg_t)me,
                                 1));
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&echoes) == 2 * np);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&requests) == 2 * np);
    return test_finish();
}

// The largest and the smallest payloads of GASNet-1 messages; the address of an empty Long; what a
// handler may call.
// NP: 1 2 4
// TIMEOUT: 60
#include "check1.h"

enum { MEDIUM = 140, LONG, MEDIUM_REPLY, LONG_REPLY, EMPTY_LONG, INSIDE, DONE, MOST = 1 << 20 };
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
static int done;
static size_t long_bytes;
static char *sent, *answer;

#define ANSWER_AT(node) at(node, long_bytes)

static void finish(gasnet_token_t token) { CHECK(gasnet_AMReplyShort0(token, DONE) == GASNET_OK); }
static void on_done(gasnet_token_t token) { ATOMIC_ADD(&done, 1); }
static void on_medium(gasnet_token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 5);
    CHECK(bytes == 0 || (uintptr_t)buffer % 8 == 0);
    CHECK(gasnet_AMReplyMedium0(token, MEDIUM_REPLY, answer, bytes) == GASNET_OK);
}
static void on_long(gasnet_token_t token, void *buffer, size_t bytes) {
    CHECK(buffer == at(me, 0));
    CHECK_PATTERN(buffer, bytes, 5);
    CHECK(gasnet_AMReplyLong0(token, LONG_REPLY, answer, bytes, ANSWER_AT(sender(token))) == GASNET_OK);
}
static void on_medium_reply(gasnet_token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 6);
    ATOMIC_ADD(&done, 1);
}
static void on_long_reply(gasnet_token_t token, void *buffer, size_t bytes) {
    CHECK(buffer == ANSWER_AT(me));
    CHECK_PATTERN(buffer, bytes, 6);
    ATOMIC_ADD(&done, 1);
}
static void on_empty_long(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t offset) {
    CHECK(bytes == 0);
    CHECK(buffer == at(me, (size_t)offset));
    finish(token);
}
/* Everything that a handler may call. */
static void inside(gasnet_token_t token) {
    gex_Client_t c;
    gex_TM_t t;
    CHECK(gasnet_mynode() == me && gasnet_nodes() == np);
    gasnet_QueryGexObjects(&c, NULL, &t, NULL);
    CHECK(c == client && t == tm);
    CHECK(sender(token) < np);
    gasnet_hold_interrupts();
    gasnet_hsl_lock(&lock);
    gasnet_hsl_unlock(&lock);
    gasnet_resume_interrupts();
    finish(token);
}

static void wait_for(int count) {
    GASNET_BLOCKUNTIL(ATOMIC_GET(&done) == count);
    ATOMIC_SET(&done, 0);
}

int main(int argc, char **argv) {
    gasnet_handlerentry_t table[] = {{MEDIUM, (gex_AM_Fn_t)on_medium},
                                     {LONG, (gex_AM_Fn_t)on_long},
                                     {MEDIUM_REPLY, (gex_AM_Fn_t)on_medium_reply},
                                     {LONG_REPLY, (gex_AM_Fn_t)on_long_reply},
                                     {EMPTY_LONG, (gex_AM_Fn_t)on_empty_long},
                                     {INSIDE, (gex_AM_Fn_t)inside},
                                     {DONE, (gex_AM_Fn_t)on_done}};
    gasnet_node_t peer;
    gasnet1_init("am_sizes", &argc, &argv);
    OK(gasnet_attach(table, (int)ARRAY_LENGTH(table), 2 * MOST, 0));
    gasnet1_look_around();
    CHECK(gasnet_AMMaxArgs() >= 16);
    CHECK(gasnet_AMMaxMedium() >= 512 && gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
    CHECK(gasnet_AMMaxArgs() == gex_AM_MaxArgs());
    CHECK(gasnet_AMMaxMedium() <= gex_AM_LUBRequestMedium() && gasnet_AMMaxMedium() <= gex_AM_LUBReplyMedium());
    CHECK(gasnet_AMMaxLongRequest() >= gex_AM_LUBRequestLong() && gasnet_AMMaxLongReply() >= gex_AM_LUBReplyLong());
    size_t medium = gasnet_AMMaxMedium();
    long_bytes = MIN(gasnet_AMMaxLongRequest(), gasnet_AMMaxLongReply());
    long_bytes = MIN(long_bytes, (size_t)MOST);
    size_t bytes = MAX(medium, long_bytes);
    sent = (char *)malloc(bytes);
    answer = (char *)malloc(bytes);
    pattern_fill(sent, bytes, 5);
    pattern_fill(answer, bytes, 6);
    gasnet1_barrier();

    /* the senders to one rank take turns: they use the same target memory */
    for (gasnet_node_t r = 0; r < np; r++) {
        peer = (r + 1) % np;
        if (r == me) {
            size_t sizes[] = {0, 1, 7, 511, 512, medium - 1, medium};
            PHASE("Medium sizes");
            for (int i = 0; i < (int)ARRAY_LENGTH(sizes); i++) {
                OK(gasnet_AMRequestMedium0(peer, MEDIUM, sizes[i] ? sent : NULL, sizes[i]));
                wait_for(1);
            }
            PHASE("Long sizes");
            sizes[5] = long_bytes - 1;
            sizes[6] = long_bytes;
            for (int i = 0; i < (int)ARRAY_LENGTH(sizes); i++) {
                OK(gasnet_AMRequestLong0(peer, LONG, sizes[i] ? sent : NULL, sizes[i], at(peer, 0)));
                wait_for(1);
                OK(gasnet_AMRequestLongAsync0(peer, LONG, sizes[i] ? sent : NULL, sizes[i], at(peer, 0)));
                wait_for(1);
            }
        }
        gasnet1_barrier();
    }
    peer = (me + np - 1) % np;
    PHASE("an empty Long keeps its address");
    for (int i = 0; i < 5; i++) {
        OK(gasnet_AMRequestLong1(peer, EMPTY_LONG, NULL, 0, at(peer, (size_t)i * 8), i * 8));
        OK(gasnet_AMRequestLongAsync1(peer, EMPTY_LONG, NULL, 0, at(peer, (size_t)i * 8), i * 8));
    }
    wait_for(10);
    PHASE("inside a handler");
    for (int i = 0; i < 20; i++) {
        gasnet_hsl_lock(&lock);
        gasnet_hsl_unlock(&lock);
        OK(gasnet_AMRequestShort0(peer, INSIDE));
    }
    wait_for(20);
    gasnet1_barrier();
    return test_finish();
}

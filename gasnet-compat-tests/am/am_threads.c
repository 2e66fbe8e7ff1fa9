// Several threads of each rank send, poll and prepare messages at the same time: fixed and
// negotiated requests with replies, each thread with its own prepared descriptor.
// NP: 1 2 4
// MODES: par
// TIMEOUT: 120
#include "check.h"

enum { THREADS = 4, MESSAGES = 300, BYTES = 3000 };
static gex_AM_Index_t medium_index = 150, medium_reply = 151, short_index = 152, short_reply = 153, long_index = 154;
static int replies[THREADS];
static int requests;
static char **bases;

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyMedium2(token, medium_reply, buffer, bytes, GEX_EVENT_NOW, 0, thread, seed);
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&replies[thread], 1);
}
static void on_short(gex_Token_t token, gex_AM_Arg_t thread) {
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyShort1(token, short_reply, 0, thread);
}
static void on_short_reply(gex_Token_t token, gex_AM_Arg_t thread) { ATOMIC_ADD(&replies[thread], 1); }
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t thread, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyShort1(token, short_reply, 0, thread);
}

static void *work(void *argument) {
    int t = (int)(intptr_t)argument, sent = 0;
    char *buffer = (char *)malloc(BYTES);
    gex_AM_SrcDesc_t sd;
    for (int i = 0; i < MESSAGES; i++) {
        gex_Rank_t peer = (gex_Rank_t)((me + (unsigned)(i + t)) % np);
        size_t bytes = (size_t)(i * 131 % BYTES);
        gex_AM_Arg_t seed = t * 10000 + i;
        switch (i % 4) {
            case 0: OK(gex_AM_RequestShort1(tm, peer, short_index, 0, t)); break;
            case 1:
                pattern_fill(buffer, bytes, (uint64_t)seed);
                OK(gex_AM_RequestMedium2(tm, peer, medium_index, buffer, bytes, GEX_EVENT_NOW, 0, t, seed));
                break;
            case 2:
                sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes + 1, BYTES, NULL, 0, 2);
                REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
                pattern_fill(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)seed);
                if (i % 8 == 2) { /* now and then the other threads run inside the interval */
                    usleep(200);
                    CHECK_PATTERN(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)seed);
                }
                gex_AM_CommitRequestMedium2(sd, medium_index, bytes, t, seed);
                break;
            default:
                pattern_fill(buffer, bytes, (uint64_t)seed);
                OK(gex_AM_RequestLong2(tm, peer, long_index, buffer, bytes,
                                       bases[peer] + ((size_t)me * THREADS + (size_t)t) * BYTES, GEX_EVENT_NOW, 0, t,
                                       seed));
                break;
        }
        sent++;
        /* a Long's target is used again only after its reply */
        if (i % 4 == 3) GASNET_BLOCKUNTIL(ATOMIC_GET(&replies[t]) == sent);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies[t]) == sent);
    free(buffer);
    return NULL;
}

int main(int argc, char **argv) {
    test_init("am_threads", &argc, &argv);
    pthread_t thread[THREADS];
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(short_reply, (gex_AM_Fn_t)on_short_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 2);
    test_attach((uintptr_t)np * THREADS * BYTES);
    bases = (char **)malloc(np * sizeof *bases);
    for (gex_Rank_t r = 0; r < np; r++) bases[r] = seg_of(r);
    barrier();
    PHASE("threads");
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_create(&thread[t], NULL, work, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < THREADS; t++) REQUIRE(pthread_join(thread[t], NULL) == 0);
    barrier();
    for (int t = 0; t < THREADS; t++) CHECK(ATOMIC_GET(&replies[t]) == MESSAGES);
    return test_finish();
}

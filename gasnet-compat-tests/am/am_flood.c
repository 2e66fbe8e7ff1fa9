// All-to-all flood of maximal Medium requests from every rank and thread, each answered by a
// maximal Medium reply, Shorts and Longs between them: nothing is lost, doubled, damaged or stuck.
// NP: 1 2 4 7
// TIMEOUT: 120
// VARIANT: small (the smallest buffers that can be configured)
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
#include "../stress/stress.h"

enum { LONG_BYTES = 8000, ARGUMENTS = 3 };
static gex_AM_Index_t medium_index = 150, medium_reply = 151, short_index = 152, short_reply = 153, long_index = 154;
static int sent, requests, replies;
static char **bases;

static uint64_t seed_of(gex_AM_Arg_t from, gex_AM_Arg_t thread, gex_AM_Arg_t serial) {
    return ((uint64_t)(uint32_t)from << 40) ^ ((uint64_t)(uint32_t)thread << 32) ^ (uint32_t)serial;
}

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                      gex_AM_Arg_t serial) {
    uint64_t seed = seed_of(from, thread, serial);
    size_t most = gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, ARGUMENTS);
    void *answer = malloc(most);
    CHECK(source_of(token) == (gex_Rank_t)from && (uintptr_t)buffer % 8 == 0);
    CHECKF(bytes == gex_AM_MaxRequestMedium(tm, (gex_Rank_t)from, GEX_EVENT_NOW, 0, ARGUMENTS), "%zu bytes", bytes);
    CHECKF(stress_same(buffer, bytes, seed), "request %d of rank %d is damaged", (int)serial, (int)from);
    ATOMIC_ADD(&requests, 1);
    stress_fill(answer, most, ~seed);
    OK(gex_AM_ReplyMedium3(token, medium_reply, answer, most, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, thread, serial));
    memset(answer, 0xEE, most); /* GEX_EVENT_NOW: ours again */
    free(answer);
}
static void on_medium_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                            gex_AM_Arg_t serial) {
    CHECKF(stress_same(buffer, bytes, ~seed_of((gex_AM_Arg_t)me, thread, serial)), "reply %d of rank %d is damaged",
           (int)serial, (int)from);
    ATOMIC_ADD(&replies, 1);
}
static void on_short(gex_Token_t token, gex_AM_Arg_t serial) {
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyShort1(token, short_reply, 0, serial);
}
static void on_short_reply(gex_Token_t token, gex_AM_Arg_t serial) { ATOMIC_ADD(&replies, 1); }
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial) {
    CHECK(bytes == LONG_BYTES && stress_same(buffer, bytes, 3));
    on_short(token, serial);
}

static void flood(int thread) {
    int rounds = stress_share(1000, 8);
    char *long_data = (char *)malloc(LONG_BYTES);
    stress_fill(long_data, LONG_BYTES, 3);
    for (int round = 0; round < rounds; round++) {
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t peer = (me + (gex_Rank_t)thread + r) % np;
            size_t bytes = gex_AM_MaxRequestMedium(tm, peer, GEX_EVENT_NOW, 0, ARGUMENTS);
            char *data = (char *)malloc(bytes);
            stress_fill(data, bytes, seed_of((gex_AM_Arg_t)me, thread, round));
            ATOMIC_ADD(&sent, 2);
            OK(gex_AM_RequestMedium3(tm, peer, medium_index, data, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, thread,
                                     round));
            memset(data, 0xDD, 64);
            free(data);
            OK(gex_AM_RequestShort1(tm, peer, short_index, 0, round));
            if (round % 4) continue;
            ATOMIC_ADD(&sent, 1);
            OK(gex_AM_RequestLong1(tm, peer, long_index, long_data, LONG_BYTES, bases[peer], GEX_EVENT_NOW, 0, round));
        }
    }
    free(long_data);
}

int main(int argc, char **argv) {
    test_init("am_flood", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, ARGUMENTS);
    register_handler(medium_reply, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, ARGUMENTS);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(short_reply, (gex_AM_Fn_t)on_short_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    test_attach(LONG_BYTES);
    bases = segs_of_all();
    stress_fill(bases[me], LONG_BYTES, 3); /* every Long writes these bytes */
    barrier();
    PHASE("flood");
    stress_run(flood);
    PHASE("drain");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == sent);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&requests) == sent);
    barrier();
    CHECK(ATOMIC_GET(&replies) == sent && ATOMIC_GET(&requests) == sent);
    return test_finish();
}

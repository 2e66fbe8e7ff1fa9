// All-to-all flood of maximal Medium requests, each answered by a maximal Medium reply, from every
// rank and thread.
// NP: 1 2 3 4 7
// TIMEOUT: 120
// VARIANT: small (the smallest buffers that can be configured)
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
#include "stress.h"

enum { REQUEST = 200, REPLY = 201, ARGUMENTS = 3 };
static int requests_sent, requests_seen, replies_seen;

static uint64_t seed_of(unsigned from, unsigned thread, unsigned sequence) {
    return ((uint64_t)from << 40) ^ ((uint64_t)thread << 32) ^ sequence;
}

static void on_request(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                       gex_AM_Arg_t sequence) {
    uint64_t seed = seed_of((unsigned)from, (unsigned)thread, (unsigned)sequence);
    size_t most = gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, ARGUMENTS);
    void *answer = malloc(most);
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECKF(info.gex_srcrank == (gex_Rank_t)from, "source %u, expected %d", info.gex_srcrank, (int)from);
    CHECKF(bytes == gex_AM_MaxRequestMedium(tm, (gex_Rank_t)from, GEX_EVENT_NOW, 0, ARGUMENTS), "%zu bytes", bytes);
    CHECK((uintptr_t)payload % 8 == 0);
    CHECKF(stress_same(payload, bytes, seed), "request %d of thread %d of rank %d is damaged", (int)sequence,
           (int)thread, (int)from);
    stress_fill(answer, most, ~seed);
    ATOMIC_ADD(&requests_seen, 1);
    CHECK(gex_AM_ReplyMedium3(token, REPLY, answer, most, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, thread, sequence) == 0);
    memset(answer, 0xEE, most); /* GEX_EVENT_NOW: ours again */
    free(answer);
}

static void on_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                     gex_AM_Arg_t sequence) {
    CHECKF(stress_same(payload, bytes, ~seed_of((unsigned)me, (unsigned)thread, (unsigned)sequence)),
           "reply %d of rank %d is damaged", (int)sequence, (int)from);
    ATOMIC_ADD(&replies_seen, 1);
}

static void flood(int thread) {
    int count = stress_share(1000, 8);
    size_t most = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, ARGUMENTS);
    for (gex_Rank_t r = 0; r < np; r++) {
        size_t bytes = gex_AM_MaxRequestMedium(tm, r, GEX_EVENT_NOW, 0, ARGUMENTS);
        if (bytes > most) most = bytes;
    }
    char *buffer = (char *)malloc(most);
    for (int i = 0; i < count; i++)
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_Rank_t to = (me + (gex_Rank_t)thread + r) % np;
            size_t bytes = gex_AM_MaxRequestMedium(tm, to, GEX_EVENT_NOW, 0, ARGUMENTS);
            stress_fill(buffer, bytes, seed_of(me, (unsigned)thread, (unsigned)i));
            ATOMIC_ADD(&requests_sent, 1);
            CHECK(gex_AM_RequestMedium3(tm, to, REQUEST, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                                        (gex_AM_Arg_t)thread, (gex_AM_Arg_t)i) == 0);
            memset(buffer, 0xDD, 64);
        }
    free(buffer);
}

int main(int argc, char **argv) {
    test_init("flood_medium", &argc, &argv);
    register_handler(REQUEST, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, ARGUMENTS);
    register_handler(REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, ARGUMENTS);
    barrier();
    PHASE("flood");
    stress_run(flood);
    PHASE("replies");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies_seen) >= requests_sent);
    barrier();
    CHECKF(replies_seen == requests_sent, "%d replies to %d requests", replies_seen, requests_sent);
    CHECKF(requests_seen == stress_share(1000, 8) * (int)np * STRESS_THREADS, "%d requests arrived", requests_seen);
    return test_finish();
}

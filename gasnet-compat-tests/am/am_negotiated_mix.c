// Thousands of fixed and negotiated messages of all kinds and random sizes, mixed with cancels, in
// random order: every payload arrives intact exactly once. The seed is printed on failure;
// TEST_SEED sets it.
// NP: 1 2 4 7
// TIMEOUT: 120
#include "check.h"

enum { MAX_BYTES = 20000, ITERATIONS = 2000, AREAS = 8 };
static gex_AM_Index_t medium_index = 150, long_index = 151, ack_index = 152, echo_index = 153, echo_reply = 154;
static char **bases;
static int acknowledged;
static size_t medium_max, long_max;
static int area_busy[AREAS];

static uint64_t seed_of(gex_Rank_t from, gex_AM_Arg_t serial) { return (uint64_t)from * 1000003 + (uint64_t)serial; }

static gex_Rank_t source_of(gex_Token_t token) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    return info.gex_srcrank;
}

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial, gex_AM_Arg_t expected,
                      gex_AM_Arg_t area) {
    CHECK(bytes == (size_t)expected);
    CHECK_PATTERN(buffer, bytes, seed_of(source_of(token), serial));
    gex_AM_ReplyShort1(token, ack_index, 0, area);
}
/* Answers with a negotiated reply, sometimes after a cancelled one. */
static void on_echo(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial, gex_AM_Arg_t expected) {
    gex_AM_SrcDesc_t sd;
    CHECK(bytes == (size_t)expected);
    CHECK_PATTERN(buffer, bytes, seed_of(source_of(token), serial));
    if (serial & 1) {
        sd = gex_AM_PrepareReplyMedium(token, NULL, 1, bytes + 1, NULL, 0, 2);
        OK(gex_AM_CancelReplyMedium(sd, 0));
    }
    sd = gex_AM_PrepareReplyMedium(token, NULL, bytes ? bytes : 1, bytes ? bytes : 1, NULL, 0, 2);
    REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
    memcpy(gex_AM_SrcDescAddr(sd), buffer, bytes);
    gex_AM_CommitReplyMedium2(sd, echo_reply, bytes, serial, (gex_AM_Arg_t)bytes);
}
static void on_echo_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t serial, gex_AM_Arg_t expected) {
    CHECK(bytes == (size_t)expected);
    CHECK_PATTERN(buffer, bytes, seed_of(me, serial));
    ATOMIC_ADD(&acknowledged, 1);
}
static void on_ack(gex_Token_t token, gex_AM_Arg_t area) {
    if (area >= 0) ATOMIC_SET(&area_busy[area], 0);
    ATOMIC_ADD(&acknowledged, 1);
}

static size_t random_size(uint64_t *state, size_t max) {
    uint64_t r = next_random(state);
    switch (r % 4) {
        case 0: return (size_t)(r >> 8) % 64;
        case 1: return (size_t)(r >> 8) % (max < 1024 ? max : 1024);
        case 2: return max;
        default: return (size_t)(r >> 8) % (max + 1);
    }
}

static void send_medium(uint64_t *state, gex_Rank_t peer, gex_AM_Arg_t serial, gex_AM_Index_t index, char *buffer) {
    size_t bytes = random_size(state, medium_max);
    uint64_t choice = next_random(state) % 6;
    gex_Event_t event = GEX_EVENT_INVALID;
    int echo = index == echo_index;
    if (choice < 2) {
        gex_Event_t *lc = choice ? GEX_EVENT_NOW : &event;
        pattern_fill(buffer, bytes, seed_of(me, serial));
        if (echo) OK(gex_AM_RequestMedium2(tm, peer, index, buffer, bytes, lc, 0, serial, (gex_AM_Arg_t)bytes));
        else OK(gex_AM_RequestMedium3(tm, peer, index, buffer, bytes, lc, 0, serial, (gex_AM_Arg_t)bytes, -1));
        gex_Event_Wait(event);
    } else {
        const void *client_buf = choice == 2 ? buffer : NULL;
        size_t least = bytes ? bytes : 1, most = least + (size_t)(next_random(state) % 5000);
        gex_AM_SrcDesc_t sd;
        if (choice >= 4) { /* not this one */
            sd = gex_AM_PrepareRequestMedium(tm, (peer + 1) % np, NULL, least, most, NULL, 0, 3);
            OK(gex_AM_CancelRequestMedium(sd, 0));
        }
        sd = gex_AM_PrepareRequestMedium(tm, peer, client_buf, least, client_buf ? least : most,
                                         client_buf ? &event : NULL, 0, echo ? 2U : 3U);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        pattern_fill(gex_AM_SrcDescAddr(sd), bytes, seed_of(me, serial));
        if (echo) gex_AM_CommitRequestMedium2(sd, index, bytes, serial, (gex_AM_Arg_t)bytes);
        else gex_AM_CommitRequestMedium3(sd, index, bytes, serial, (gex_AM_Arg_t)bytes, -1);
        gex_Event_Wait(event);
    }
}

static void send_long(uint64_t *state, gex_Rank_t peer, gex_AM_Arg_t serial, char *buffer) {
    size_t bytes = random_size(state, long_max);
    uint64_t choice = next_random(state) % 4;
    gex_Event_t event = GEX_EVENT_INVALID;
    int area = (int)(next_random(state) % AREAS);
    char *target = bases[peer] + ((size_t)me * AREAS + (size_t)area) * MAX_BYTES;
    GASNET_BLOCKUNTIL(!ATOMIC_GET(&area_busy[area]));
    ATOMIC_SET(&area_busy[area], 1);
    if (choice < 2) {
        pattern_fill(buffer, bytes, seed_of(me, serial));
        OK(gex_AM_RequestLong3(tm, peer, long_index, buffer, bytes, target, choice ? GEX_EVENT_NOW : &event, 0, serial,
                               (gex_AM_Arg_t)bytes, area));
    } else {
        const void *client_buf = choice == 2 ? buffer : NULL;
        size_t least = bytes ? bytes : 1;
        size_t alloc_max = gex_AM_MaxRequestLong(tm, peer, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 3);
        if (!client_buf && least > alloc_max) least = bytes = alloc_max;
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, peer, client_buf, least, least,
                                                        (serial & 1) ? target : NULL, client_buf ? &event : NULL, 0, 3);
        REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
        pattern_fill(gex_AM_SrcDescAddr(sd), bytes, seed_of(me, serial));
        gex_AM_CommitRequestLong3(sd, long_index, bytes, target, serial, (gex_AM_Arg_t)bytes, area);
    }
    gex_Event_Wait(event);
}

int main(int argc, char **argv) {
    const char *text = getenv("TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20251120;
    char *buffer = (char *)malloc(MAX_BYTES);
    test_init("am_negotiated_mix", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 3);
    register_handler(long_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 3);
    register_handler(ack_index, (gex_AM_Fn_t)on_ack, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    register_handler(echo_index, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(echo_reply, (gex_AM_Fn_t)on_echo_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 2);
    test_attach((uintptr_t)np * AREAS * MAX_BYTES);
    bases = (char **)malloc(np * sizeof *bases);
    for (gex_Rank_t r = 0; r < np; r++) bases[r] = seg_of(r);
    medium_max = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 3);
    if (gex_AM_MaxReplyMedium(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 2) < medium_max)
        medium_max = gex_AM_MaxReplyMedium(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 2);
    if (gex_AM_LUBRequestMedium() < medium_max) medium_max = gex_AM_LUBRequestMedium();
    if (medium_max > MAX_BYTES) medium_max = MAX_BYTES;
    long_max = gex_AM_LUBRequestLong() < MAX_BYTES ? gex_AM_LUBRequestLong() : (size_t)MAX_BYTES;
    barrier();
    int iterations = np > 16 ? 100 : ITERATIONS / (int)np + 200;
    PHASE("mix");
    uint64_t state = seed * 77 + me + 1;
    for (int i = 0; i < iterations; i++) {
        uint64_t what = next_random(&state);
        gex_Rank_t peer = (gex_Rank_t)((what >> 8) % np);
        switch (what % 4) {
            case 0: send_medium(&state, peer, i, medium_index, buffer); break;
            case 1: send_medium(&state, peer, i, echo_index, buffer); break;
            default: send_long(&state, peer, i, buffer); break;
        }
        if (what % 64 == 5) gasnet_AMPoll();
    }
    PHASE("drain");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&acknowledged) == iterations);
    barrier();
    CHECK(ATOMIC_GET(&acknowledged) == iterations);
    if (ATOMIC_GET(&test_failures)) fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    free(buffer);
    return test_finish();
}

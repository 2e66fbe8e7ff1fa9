// Random traffic of several threads: every kind of AM, negotiated payload and cancels, IMMEDIATE,
// RMA in all forms, events, regions, barriers. The seed is TEST_SEED or fixed, so that a failure
// can be repeated.
// NP: 1 2 3 4 7
// TIMEOUT: 120
// VARIANT: small (the smallest buffers that can be configured)
// NP: 2 4
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_RING_SIZE=4096
#include "stress.h"

enum { SHORT_REQUEST = 200, MEDIUM_REQUEST, LONG_REQUEST, SHORT_REPLY, MEDIUM_REPLY, LONG_REPLY };
enum { ROUNDS = 6, STEPS = 1500, AREA = 64 * 1024, LARGEST = 40000 };

/* 
 * A segment has, for every source rank and thread, four areas: the target of its puts, the target
 * of its Long requests (one at a time), the target of the Long replies to it, and one that it only
 * reads.
 */
enum { PUTS, LONGS, LONG_REPLIES, CONSTANT, AREAS };

static char **segments;
static uint64_t seed;
static int sent, answered;
static int long_busy[STRESS_THREADS][1024];

static char *area(gex_Rank_t owner, gex_Rank_t from, int thread, int which) {
    return segments[owner] + (((size_t)from * STRESS_THREADS + (size_t)thread) * AREAS + (size_t)which) * AREA;
}

/* ---- Handlers: `what` names the message so that both ends can compute its payload. ---- */

static void answer(gex_Token_t token, gex_AM_Arg_t from, gex_AM_Arg_t thread, gex_AM_Arg_t what) {
    size_t bytes = (size_t)((uint32_t)what * 2654435761u % LARGEST) + 1, most;
    char *buffer;
    switch ((uint32_t)what % 4) {
        case 0: gex_AM_ReplyShort3(token, SHORT_REPLY, 0, (gex_AM_Arg_t)me, thread, what); return;
        case 1:
            most = gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 3);
            if (bytes > most) bytes = most;
            buffer = (char *)malloc(bytes);
            stress_fill(buffer, bytes, (uint64_t)what);
            gex_AM_ReplyMedium3(token, MEDIUM_REPLY, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, thread, what);
            free(buffer);
            return;
        case 2: {
            gex_AM_SrcDesc_t sd;
            if (bytes & 1) { /* not this one */
                sd = gex_AM_PrepareReplyMedium(token, NULL, 1, bytes, NULL, 0, 3);
                OK(gex_AM_CancelReplyMedium(sd, 0));
            }
            sd = gex_AM_PrepareReplyMedium(token, NULL, 16, 512, NULL, 0, 3);
            bytes = gex_AM_SrcDescSize(sd);
            CHECK(bytes >= 16 && bytes <= 512);
            stress_fill(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)what);
            gex_AM_CommitReplyMedium3(sd, MEDIUM_REPLY, bytes, (gex_AM_Arg_t)me, thread, what);
            return;
        }
        default:
            if ((uint32_t)what % 8 ==
                7) { /* a Long reply, of which the sender has one in flight at a time: see below */
                buffer = (char *)malloc(bytes);
                stress_fill(buffer, bytes, (uint64_t)what);
                gex_AM_ReplyLong3(token, LONG_REPLY, buffer, bytes, area((gex_Rank_t)from, me, thread, LONG_REPLIES),
                                  GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, thread, what);
                free(buffer);
            } else gex_AM_ReplyShort3(token, SHORT_REPLY, 0, (gex_AM_Arg_t)me, thread, what);
    }
}

static void on_short(gex_Token_t token, gex_AM_Arg_t from, gex_AM_Arg_t thread, gex_AM_Arg_t what) {
    answer(token, from, thread, (gex_AM_Arg_t)((uint32_t)what & ~3u)); /* by a Short: any number may be in flight */
}
static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                      gex_AM_Arg_t what) {
    CHECKF(stress_same(payload, bytes, (uint64_t)what), "a Medium of %zu bytes from rank %d is damaged", bytes,
           (int)from);
    answer(token, from, thread, (uint32_t)what % 4 == 3 ? (gex_AM_Arg_t)((uint32_t)what & ~1u) : what);
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                    gex_AM_Arg_t what) {
    CHECK(payload == area(me, (gex_Rank_t)from, thread, LONGS));
    CHECKF(stress_same(payload, bytes, (uint64_t)what), "a Long of %zu bytes from rank %d is damaged", bytes,
           (int)from);
    answer(token, from, thread, (gex_AM_Arg_t)((uint32_t)what | 7u));
}
static void on_short_reply(gex_Token_t token, gex_AM_Arg_t from, gex_AM_Arg_t thread, gex_AM_Arg_t what) {
    ATOMIC_ADD(&answered, 1);
}
static void on_medium_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                            gex_AM_Arg_t what) {
    CHECKF(stress_same(payload, bytes, (uint64_t)what), "a Medium reply of %zu bytes from rank %d is damaged", bytes,
           (int)from);
    ATOMIC_ADD(&answered, 1);
}
static void on_long_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from, gex_AM_Arg_t thread,
                          gex_AM_Arg_t what) {
    CHECK(payload == area(me, (gex_Rank_t)from, thread, LONG_REPLIES));
    CHECKF(stress_same(payload, bytes, (uint64_t)what), "a Long reply of %zu bytes from rank %d is damaged", bytes,
           (int)from);
    ATOMIC_ADD(&answered, 1);
    ATOMIC_SET(&long_busy[thread][from], 0);
}

/* ---- The traffic of one thread ---- */

typedef struct {
    uint64_t random;
    int thread;
    char *buffer; /* LARGEST bytes, free between steps */
    char *stable; /* LARGEST bytes, the source of puts */
} mixer_t;

static uint32_t pick(mixer_t *mixer, uint32_t below) { return (uint32_t)(next_random(&mixer->random) >> 16) % below; }

static void send_medium(mixer_t *mixer, gex_Rank_t to, gex_AM_Arg_t what) {
    size_t most = gex_AM_MaxRequestMedium(tm, to, NULL, 0, 3), bytes = pick(mixer, LARGEST) + 1;
    gex_Flags_t flags = pick(mixer, 2) ? GEX_FLAG_IMMEDIATE : 0;
    gex_AM_Arg_t t = mixer->thread;
    gex_Event_t local;
    if (bytes > most) bytes = most;
    switch (pick(mixer, 5)) {
        case 0: /* negotiated, the library's buffer */
        case 1: /* negotiated, the client's buffer */
        {
            int own = pick(mixer, 2) == 0;
            size_t least = own ? gex_AM_MaxRequestMedium(tm, to, GEX_EVENT_NOW, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, 3)
                               : gex_AM_MaxRequestMedium(tm, to, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 3);
            gex_AM_SrcDesc_t sd;
            if (least > bytes) least = bytes;
            if (pick(mixer, 8) == 0) { /* to another rank, and given up */
                sd = gex_AM_PrepareRequestMedium(tm, (to + 1) % np, NULL, 1, LARGEST, NULL, 0, 3);
                OK(gex_AM_CancelRequestMedium(sd, 0));
            }
            do {
                sd = gex_AM_PrepareRequestMedium(tm, to, own ? mixer->buffer : NULL, least, LARGEST,
                                                 own ? GEX_EVENT_NOW : NULL, flags, 3);
                if (sd == GEX_AM_SRCDESC_NO_OP) gasnet_AMPoll();
            } while (sd == GEX_AM_SRCDESC_NO_OP);
            CHECK(gex_AM_SrcDescSize(sd) >= least && gex_AM_SrcDescSize(sd) <= LARGEST);
            if (pick(mixer, 8) == 0) {
                gex_AM_CancelRequestMedium(sd, 0);
                return;
            }
            bytes = least + pick(mixer, (uint32_t)(gex_AM_SrcDescSize(sd) - least + 1));
            stress_fill(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)what);
            ATOMIC_ADD(&sent, 1);
            if (pick(mixer, 16) == 0) { /* now and then the other threads run between Prepare and Commit */
                usleep(200);
                CHECK(stress_same(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)what));
            }
            gex_AM_CommitRequestMedium3(sd, MEDIUM_REQUEST, bytes, (gex_AM_Arg_t)me, t, what);
            return;
        }
        case 2:
            stress_fill(mixer->buffer, bytes, (uint64_t)what);
            ATOMIC_ADD(&sent, 1);
            while (gex_AM_RequestMedium3(tm, to, MEDIUM_REQUEST, mixer->buffer, bytes, &local, flags, (gex_AM_Arg_t)me,
                                         t, what))
                gasnet_AMPoll();
            gex_Event_Wait(local);
            return;
        case 3:
            stress_fill(mixer->buffer, bytes, (uint64_t)what);
            ATOMIC_ADD(&sent, 1);
            while (gex_AM_RequestMedium3(tm, to, MEDIUM_REQUEST, mixer->buffer, bytes, GEX_EVENT_GROUP, flags,
                                         (gex_AM_Arg_t)me, t, what))
                gasnet_AMPoll();
            gex_NBI_Wait(GEX_EC_AM, 0);
            return;
        default:
            stress_fill(mixer->buffer, bytes, (uint64_t)what);
            ATOMIC_ADD(&sent, 1);
            while (gex_AM_RequestMedium3(tm, to, MEDIUM_REQUEST, mixer->buffer, bytes, GEX_EVENT_NOW, flags,
                                         (gex_AM_Arg_t)me, t, what))
                gasnet_AMPoll();
    }
}

static void send_long(mixer_t *mixer, gex_Rank_t to, gex_AM_Arg_t what) {
    size_t bytes = pick(mixer, LARGEST) + 1;
    char *target = area(to, me, mixer->thread, LONGS);
    GASNET_BLOCKUNTIL(!ATOMIC_GET(&long_busy[mixer->thread][to]));
    ATOMIC_SET(&long_busy[mixer->thread][to], 1);
    ATOMIC_ADD(&sent, 1);
    if (pick(mixer, 2)) {
        stress_fill(mixer->buffer, bytes, (uint64_t)what);
        gex_AM_RequestLong3(tm, to, LONG_REQUEST, mixer->buffer, bytes, target, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me,
                            mixer->thread, what);
    } else {
        int own = pick(mixer, 2) == 0;
        gex_Event_t local;
        size_t least = gex_AM_MaxRequestLong(tm, to, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 3);
        if (!own && bytes > least) bytes = least;
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, to, own ? mixer->buffer : NULL, bytes, bytes,
                                                        pick(mixer, 2) ? target : NULL, own ? &local : NULL, 0, 3);
        stress_fill(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)what);
        gex_AM_CommitRequestLong3(sd, LONG_REQUEST, bytes, target, (gex_AM_Arg_t)me, mixer->thread, what);
        if (own) gex_Event_Wait(local);
    }
}

/* Puts a random stretch into the own area of `to` and reads it back, in one of the many ways. */
static void transfer(mixer_t *mixer, gex_Rank_t to, uint64_t what) {
    size_t bytes = pick(mixer, 4) ? pick(mixer, 256) : pick(mixer, LARGEST), offset = pick(mixer, AREA - LARGEST);
    char *target = area(to, me, mixer->thread, PUTS) + offset, *back = mixer->buffer;
    gex_Event_t event, leaf = GEX_EVENT_INVALID;
    stress_fill(mixer->stable, bytes, what);
    memset(back, 0, bytes);
    switch (pick(mixer, 6)) {
        case 0:
            gex_RMA_PutBlocking(tm, to, target, mixer->stable, bytes, 0);
            gex_RMA_GetBlocking(tm, back, to, target, bytes, 0);
            break;
        case 1:
            gex_Event_Wait(gex_RMA_PutNB(tm, to, target, mixer->stable, bytes, GEX_EVENT_NOW, 0));
            gex_Event_Wait(gex_RMA_GetNB(tm, back, to, target, bytes, 0));
            break;
        case 2:
            event = gex_RMA_PutNB(tm, to, target, mixer->stable, bytes, &leaf, 0);
            gex_Event_Wait(leaf);
            while (gex_Event_Test(event) != 0) gasnet_AMPoll();
            event = gex_RMA_GetNB(tm, back, to, target, bytes, 0);
            while (gex_Event_Test(event) != 0) gasnet_AMPoll();
            break;
        case 3:
            gex_RMA_PutNBI(tm, to, target, mixer->stable, bytes, GEX_EVENT_GROUP, 0);
            gex_NBI_Wait(GEX_EC_LC, 0);
            gex_NBI_Wait(GEX_EC_PUT, 0);
            gex_RMA_GetNBI(tm, back, to, target, bytes, 0);
            while (gex_NBI_Test(GEX_EC_GET, 0) != 0) gasnet_AMPoll();
            break;
        case 4:
            gex_NBI_BeginAccessRegion(0);
            gex_RMA_PutNBI(tm, to, target, mixer->stable, bytes, GEX_EVENT_DEFER, 0);
            gex_Event_Wait(gex_NBI_EndAccessRegion(0));
            gex_NBI_BeginAccessRegion(0);
            gex_RMA_GetNBI(tm, back, to, target, bytes, 0);
            gex_Event_Wait(gex_NBI_EndAccessRegion(0));
            break;
        default: {
            size_t width = (size_t)1 << pick(mixer, 4);
            gex_RMA_Value_t value = (gex_RMA_Value_t)next_random(&mixer->random);
            gex_RMA_Value_t mask = width == 8 ? ~(gex_RMA_Value_t)0 : ((gex_RMA_Value_t)1 << 8 * width) - 1;
            target -= (uintptr_t)target % 8;
            gex_RMA_PutBlockingVal(tm, to, target, value, width, 0);
            CHECK(gex_RMA_GetBlockingVal(tm, to, target, width, 0) == (value & mask));
            return;
        }
    }
    CHECKF(stress_same(back, bytes, what), "%zu bytes came back damaged from rank %u", bytes, (unsigned)to);
}

static void read_constant(mixer_t *mixer, gex_Rank_t from) {
    size_t at = pick(mixer, AREA / 8);
    uint64_t words[32];
    size_t count = pick(mixer, 32) + 1;
    if (at + count > AREA / 8) count = AREA / 8 - at;
    gex_RMA_GetBlocking(tm, words, from, area(from, me, mixer->thread, CONSTANT) + 8 * at, 8 * count, 0);
    for (size_t i = 0; i < count; i++) CHECK(words[i] == stress_word(from * 77 + 1, at + i));
}

static void mix(int thread) {
    mixer_t mixer = {.random = seed + 1000003 * (uint64_t)me + 7919 * (uint64_t)thread + 1,
                     .thread = thread,
                     .buffer = (char *)malloc(LARGEST + 8),
                     .stable = (char *)malloc(LARGEST + 8)};
    for (int i = 0; i < 8; i++) next_random(&mixer.random);
    for (int i = 0; i < STEPS; i++) {
        gex_Rank_t to = (gex_Rank_t)pick(&mixer, (uint32_t)np);
        gex_AM_Arg_t what = (gex_AM_Arg_t)(pick(&mixer, 1u << 30));
        switch (pick(&mixer, 6)) {
            case 0:
                ATOMIC_ADD(&sent, 1);
                gex_AM_RequestShort3(tm, to, SHORT_REQUEST, 0, (gex_AM_Arg_t)me, thread, what);
                break;
            case 1: send_medium(&mixer, to, what); break;
            case 2: send_long(&mixer, to, what); break;
            case 3: gasnet_AMPoll(); break;
            case 4: read_constant(&mixer, to); break;
            default: transfer(&mixer, to, (uint64_t)what);
        }
    }
    free(mixer.buffer);
    free(mixer.stable);
}

int main(int argc, char **argv) {
    test_init("mixer", &argc, &argv);
    const char *text = getenv("TEST_SEED");
    seed = text ? strtoull(text, NULL, 0) : 20251;
    REQUIRE(np <= 1024);
    register_handler(SHORT_REQUEST, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 3);
    register_handler(MEDIUM_REQUEST, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 3);
    register_handler(LONG_REQUEST, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 3);
    register_handler(SHORT_REPLY, (gex_AM_Fn_t)on_short_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 3);
    register_handler(MEDIUM_REPLY, (gex_AM_Fn_t)on_medium_reply, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 3);
    register_handler(LONG_REPLY, (gex_AM_Fn_t)on_long_reply, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 3);
    test_attach((uintptr_t)np * STRESS_THREADS * AREAS * AREA);
    segments = segs_of_all();
    for (gex_Rank_t r = 0; r < np; r++)
        for (int t = 0; t < STRESS_THREADS; t++) stress_fill(area(me, r, t, CONSTANT), AREA, me * 77 + 1);
    barrier();
    for (int round = 0; round < ROUNDS; round++, seed++) {
        PHASE("traffic");
        stress_run(mix);
        PHASE("answers");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == sent);
        barrier();
        CHECK(answered == sent);
    }
    return test_finish();
}

// Random operations of all kinds, checked against a model: every rank owns an area in every rank's
// segment, knows what is there, and puts, gets, sends and synchronises at random; collectives run
// at fixed points. The seed is printed when something is wrong; TEST_SEED and TEST_STEPS set seed
// and length.
// NP: 1 2 4 7
// TIMEOUT: 120
#include "check.h"

#include <gasnet_coll.h>

enum { AREA = 30000, PENDING = 24, MAX_PEERS = 16, EPOCH = 100 };

typedef struct {
    gex_Event_t event;
    gex_Rank_t peer;
    size_t from, to; /* range of the peer's area that the operation uses */
    char *landing;   /* of a get */
    char *source;    /* of a put */
} Operation;

static char **bases;
static char *model[MAX_PEERS]; /* what this rank's area at a peer holds */
static gex_Rank_t peers[MAX_PEERS];
static int peer_count;
static Operation pending[PENDING];
static int pending_count;
static int implicit_puts;
static char *implicit_sources[64];
static uint64_t state;
static gex_AM_Index_t echo_index = 150, echo_reply = 151, long_index = 152, ack_index = 153;
static int sent, answered;
static gex_HSL_t lock TEST_UNUSED = GEX_HSL_INITIALIZER;
static long locked_sum;

static size_t below(size_t n) { return n ? (size_t)(next_random(&state) >> 16) % n : 0; }
static char *area_of(gex_Rank_t owner, gex_Rank_t writer) { return bases[owner] + (size_t)writer * AREA; }

static void on_echo(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    gex_HSL_Lock(&lock);
    locked_sum += (long)bytes;
    gex_HSL_Unlock(&lock);
    if (seed & 1) {
        gex_AM_ReplyMedium1(token, echo_reply, buffer, bytes, GEX_EVENT_NOW, 0, seed);
    } else {
        gex_AM_SrcDesc_t sd = gex_AM_PrepareReplyMedium(token, NULL, bytes + 1, bytes + 1, NULL, 0, 1);
        memcpy(gex_AM_SrcDescAddr(sd), buffer, bytes);
        gex_AM_CommitReplyMedium1(sd, echo_reply, bytes, seed);
    }
}
static void on_echo_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&answered, 1);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    gex_AM_ReplyShort0(token, ack_index, 0);
}
static void on_ack(gex_Token_t token) { ATOMIC_ADD(&answered, 1); }

/* Ends operation i: after it the model and the memory agree again. */
static void complete(int i) {
    Operation *o = &pending[i];
    gex_Event_Wait(o->event);
    if (o->landing) {
        int p;
        for (p = 0; p < peer_count && peers[p] != o->peer; p++) {}
        CHECKF(memcmp(o->landing, model[p] + o->from, o->to - o->from) == 0, "get of %zu bytes at %zu", o->to - o->from,
               o->from);
        free(o->landing);
    }
    free(o->source);
    pending[i] = pending[--pending_count];
}
static void complete_implicit(void) {
    gex_NBI_Wait(GEX_EC_ALL, 0);
    while (implicit_puts > 0) free(implicit_sources[--implicit_puts]);
}
static void complete_all(void) {
    while (pending_count) complete(0);
    complete_implicit();
}
/* Nothing in flight touches the range any more. */
static void make_free(gex_Rank_t peer, size_t from, size_t to) {
    for (int i = pending_count - 1; i >= 0; i--)
        if (pending[i].peer == peer && pending[i].from < to && from < pending[i].to) complete(i);
    complete_implicit();
}
static Operation *new_operation(gex_Rank_t peer, size_t from, size_t to) {
    if (pending_count == PENDING) complete((int)below(PENDING));
    Operation *o = &pending[pending_count++];
    memset(o, 0, sizeof *o);
    o->peer = peer;
    o->from = from;
    o->to = to;
    return o;
}

static void put(int p, size_t from, size_t bytes) {
    gex_Rank_t peer = peers[p];
    char *target = area_of(peer, me) + from;
    size_t how = below(6);
    make_free(peer, from, from + bytes);
    char *source = (char *)malloc(bytes + 1);
    pattern_fill(source, bytes, next_random(&state));
    memcpy(model[p] + from, source, bytes);
    switch (how) {
        case 0:
            OK(gex_RMA_PutBlocking(tm, peer, target, source, bytes, 0));
            free(source);
            break;
        case 1:
            if (implicit_puts == 64) complete_implicit();
            OK(gex_RMA_PutNBI(tm, peer, target, source, bytes, GEX_EVENT_DEFER, 0));
            implicit_sources[implicit_puts++] = source;
            break;
        case 2: {
            Operation *o = new_operation(peer, from, from + bytes);
            o->event = gex_RMA_PutNB(tm, peer, target, source, bytes, GEX_EVENT_NOW, 0);
            memset(source, 0xEE, bytes);
            o->source = source;
            break;
        }
        case 3: {
            Operation *o = new_operation(peer, from, from + bytes);
            gex_Event_t leaf = GEX_EVENT_INVALID;
            o->event = gex_RMA_PutNB(tm, peer, target, source, bytes, &leaf, 0);
            gex_Event_Wait(leaf);
            memset(source, 0xEE, bytes);
            o->source = source;
            break;
        }
        case 4: {
            Operation *o = new_operation(peer, from, from + bytes);
            gex_NBI_BeginAccessRegion(0);
            OK(gex_RMA_PutNBI(tm, peer, target, source, bytes / 2, GEX_EVENT_DEFER, 0));
            OK(gex_RMA_PutNBI(tm, peer, target + bytes / 2, source + bytes / 2, bytes - bytes / 2, GEX_EVENT_DEFER, 0));
            o->event = gex_NBI_EndAccessRegion(0);
            o->source = source;
            break;
        }
        default: {
            size_t n = 1 + below(8);
            gex_RMA_Value_t value = (gex_RMA_Value_t)next_random(&state);
            free(source);
            if (n > bytes) n = bytes;
            if (n) {
                OK(gex_RMA_PutBlockingVal(tm, peer, target, value, n, 0));
                OK(gex_RMA_GetBlocking(tm, model[p] + from, peer, target, n, 0));
                CHECK(gex_RMA_GetBlockingVal(tm, peer, target, n, 0) ==
                      (n == 8 ? value : (value & (((gex_RMA_Value_t)1 << (8 * n)) - 1))));
            }
            /* the rest of the range keeps what the model says: write it */
            OK(gex_RMA_PutBlocking(tm, peer, target + n, model[p] + from + n, bytes - n, 0));
            break;
        }
    }
}

static void get(int p, size_t from, size_t bytes) {
    gex_Rank_t peer = peers[p];
    char *target = area_of(peer, me) + from;
    make_free(peer, from, from + bytes);
    char *landing = (char *)malloc(bytes + 1);
    switch (below(3)) {
        case 0:
            OK(gex_RMA_GetBlocking(tm, landing, peer, target, bytes, 0));
            CHECK(memcmp(landing, model[p] + from, bytes) == 0);
            free(landing);
            break;
        case 1: {
            Operation *o = new_operation(peer, from, from + bytes);
            o->event = gex_RMA_GetNB(tm, landing, peer, target, bytes, 0);
            o->landing = landing;
            break;
        }
        default:
            OK(gex_RMA_GetNBI(tm, landing, peer, target, bytes, 0));
            gex_NBI_Wait(GEX_EC_GET, 0);
            CHECK(memcmp(landing, model[p] + from, bytes) == 0);
            free(landing);
            break;
    }
}

static void message(int p, size_t from, size_t bytes) {
    gex_Rank_t peer = peers[p];
    gex_AM_Arg_t seed = (gex_AM_Arg_t)(next_random(&state) & 0x7FFFFFFF);
    if (below(2)) {
        if (bytes > 480) bytes = 480 + bytes % 20;
        char *data = (char *)malloc(bytes + 1);
        pattern_fill(data, bytes, (uint64_t)seed);
        OK(gex_AM_RequestMedium1(tm, peer, echo_index, data, bytes, GEX_EVENT_NOW, 0, seed));
        free(data);
    } else {
        if (bytes > 500) bytes = 500;
        make_free(peer, from, from + bytes);
        pattern_fill(model[p] + from, bytes, (uint64_t)seed);
        OK(gex_AM_RequestLong1(tm, peer, long_index, model[p] + from, bytes, area_of(peer, me) + from, GEX_EVENT_NOW, 0,
                               seed));
        sent++;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == sent); /* until then the area is in use */
        return;
    }
    sent++;
}

static void collective(int epoch) {
    gex_Rank_t root = (gex_Rank_t)((unsigned)epoch % np);
    size_t bytes = (size_t)(epoch * 7919) % 20000;
    char *data = (char *)malloc(bytes + 1);
    if (me == root) pattern_fill(data, bytes, (uint64_t)epoch);
    gex_Event_t event[3] = {gex_Coll_BarrierNB(tm, 0), gex_Coll_BroadcastNB(tm, root, data, data, bytes, 0),
                            gex_Coll_BarrierNB(tm, 0)};
    if (epoch % 2) get((int)below((size_t)peer_count), below(AREA / 2), below(AREA / 2));
    gex_Event_WaitAll(event, 3, 0);
    CHECK_PATTERN(data, bytes, (uint64_t)epoch);
    free(data);
}

int main(int argc, char **argv) {
    const char *seed_text = getenv("TEST_SEED"), *steps_text = getenv("TEST_STEPS");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : 424242;
    int steps = steps_text ? atoi(steps_text) : 3000;
    test_init("random_mix", &argc, &argv);
    register_handler(echo_index, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(echo_reply, (gex_AM_Fn_t)on_echo_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    register_handler(ack_index, (gex_AM_Fn_t)on_ack, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    if (np > 16 && !steps_text) steps = 300;
    test_attach((uintptr_t)np * AREA);
    bases = segs_of_all();
    memset(bases[me], 0, (size_t)np * AREA);
    peer_count = (int)smaller(np, MAX_PEERS);
    for (int p = 0; p < peer_count; p++) {
        peers[p] = (gex_Rank_t)((me + (unsigned)p) % np);
        model[p] = (char *)calloc(1, AREA);
    }
    state = seed * 1000003 + me * 7 + 1;
    for (int i = 0; i < 10; i++) next_random(&state);
    barrier();
    PHASE("random operations");
    for (int i = 0; i < steps; i++) {
        size_t bytes = below(4) ? below(300) : below(AREA), from = below(AREA - bytes);
        int p = (int)below((size_t)peer_count);
        switch (below(8)) {
            case 0:
            case 1:
            case 2: put(p, from, bytes); break;
            case 3:
            case 4: get(p, from, bytes); break;
            case 5:
            case 6: message(p, from, bytes); break;
            default:
                if (pending_count) complete((int)below((size_t)pending_count));
                else gasnet_AMPoll();
                break;
        }
        if (i % EPOCH == EPOCH - 1) collective(i / EPOCH);
    }
    PHASE("final comparison");
    complete_all();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&answered) == sent);
    for (int p = 0; p < peer_count; p++) {
        char *back = (char *)malloc(AREA);
        OK(gex_RMA_GetBlocking(tm, back, peers[p], area_of(peers[p], me), AREA, 0));
        CHECKF(memcmp(back, model[p], AREA) == 0, "area at rank %u", (unsigned)peers[p]);
        free(back);
    }
    if (ATOMIC_GET(&test_failures)) fprintf(stderr, "seed %llu, %d steps\n", (unsigned long long)seed, steps);
    return test_finish();
}

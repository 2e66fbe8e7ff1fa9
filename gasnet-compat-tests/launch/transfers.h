/* Transfers of net_faults: puts and gets of all forms, sizes and offsets, and atomic additions.
 * Puts are read back immediately and at the end of each round; gets have known contents; sums are
 * verified. */
#ifndef COMPAT_TESTS_TRANSFERS_H
#define COMPAT_TESTS_TRANSFERS_H

#include "traffic.h"

#include <gasnet_ratomic.h>

enum {
    LARGEST = 300 * 1024,
    LANE_BYTES = LARGEST + 4096,
    LANES = 2,
    GETS = 3,
    ADDITIONS = 4,
    COUNTER_BYTES = 64,
    GUARD = 16
};
enum { NONE, BY_EVENT, IMPLICIT, DONE };

/* The last put into a lane: a part of a rank's segment that only this rank writes, one put at a
 * time. */
struct put {
    int state;
    gex_Event_t event;
    size_t offset, bytes;
    uint64_t key;
    char *source;
};

/* A get from the part of a segment that nobody changes. */
struct get {
    int state;
    gex_Event_t event;
    gex_Rank_t from;
    size_t offset, bytes;
    char *memory;
};

static struct put (*lanes)[LANES]; /* by rank */
static struct get gets[GETS];
static char *const *transfer_areas; /* by rank: its counter, what is constant, the lanes of all ranks */
static char *back;
static gex_AD_t domain;
static uint64_t *added;    /* by rank */
static uint64_t *last_sum; /* the last one fetched, by rank */
static gex_Event_t additions[ADDITIONS];
static uint32_t all_transfers;

static char *constant_of(gex_Rank_t rank) { return transfer_areas[rank] + COUNTER_BYTES; }

static char *lane_of(gex_Rank_t rank, gex_Rank_t writer, int lane) {
    return constant_of(rank) + LANE_BYTES + ((size_t)writer * LANES + (size_t)lane) * LANE_BYTES;
}

static uint64_t constant_key(gex_Rank_t rank) { return 1000003 * (uint64_t)rank; }

/* Bytes that transfers need of every segment. */
static size_t transfers_bytes(void) { return COUNTER_BYTES + (1 + (size_t)np * LANES) * LANE_BYTES; }

/* With `areas`, by rank, the part of its segment that is for transfers. A barrier has to follow. */
static void start_transfers(char *const *areas) {
    transfer_areas = areas;
    lanes = (struct put(*)[LANES])zeroed(np, sizeof *lanes);
    added = (uint64_t *)zeroed(np, sizeof *added);
    last_sum = (uint64_t *)zeroed(np, sizeof *last_sum);
    for (gex_Rank_t r = 0; r < np; r++)
        for (int i = 0; i < LANES; i++) lanes[r][i].source = (char *)zeroed(1, LARGEST);
    for (int i = 0; i < GETS; i++) gets[i].memory = (char *)zeroed(1, LARGEST + GUARD);
    back = (char *)zeroed(1, LARGEST);
    stress_fill(constant_of(me), LANE_BYTES, constant_key(me));
    memset(areas[me], 0, COUNTER_BYTES);
    gex_AD_Create(&domain, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_ADD | GEX_OP_GET, 0);
}

static void read_back(gex_Rank_t rank, int lane) {
    struct put *put = &lanes[rank][lane];
    OK(gex_RMA_GetBlocking(tm, back, rank, lane_of(rank, me, lane) + put->offset, put->bytes, 0));
    CHECKF(stress_same(back, put->bytes, put->key), "%zu bytes at offset %zu of lane %d came back damaged from rank %u",
           put->bytes, put->offset, lane, (unsigned)rank);
    all_transfers++;
}

static void end_put(gex_Rank_t rank, int lane) {
    struct put *put = &lanes[rank][lane];
    if (put->state == BY_EVENT) gex_Event_Wait(put->event);
    if (put->state == IMPLICIT) gex_NBI_Wait(GEX_EC_PUT, 0);
    if (put->state != NONE && put->state != DONE) read_back(rank, lane);
    if (put->state != NONE) put->state = DONE;
}

static void begin_put(uint64_t random, gex_Rank_t to) {
    int lane = (int)(random % LANES);
    struct put *put = &lanes[to][lane];
    end_put(to, lane);
    put->key = random;
    put->bytes = size_of(random >> 8, 1, LARGEST);
    put->offset = (size_t)(random >> 20) % (LANE_BYTES - put->bytes + 1);
    char *target = lane_of(to, me, lane) + put->offset;
    stress_fill(put->source, put->bytes, put->key);
    all_transfers++;
    switch (random >> 4 & 3) {
        case 0:
            OK(gex_RMA_PutBlocking(tm, to, target, put->source, put->bytes, 0));
            put->state = DONE;
            read_back(to, lane);
            break;
        case 1:
            put->event = gex_RMA_PutNB(tm, to, target, put->source, put->bytes, GEX_EVENT_NOW, 0);
            memset(put->source, 0, put->bytes);
            put->state = BY_EVENT;
            break;
        case 2:
            put->event = gex_RMA_PutNB(tm, to, target, put->source, put->bytes, GEX_EVENT_DEFER, 0);
            put->state = BY_EVENT;
            break;
        default: OK(gex_RMA_PutNBI(tm, to, target, put->source, put->bytes, GEX_EVENT_DEFER, 0)); put->state = IMPLICIT;
    }
}

/* Whether these bytes are those from `offset` on of what `rank` never changes. */
static int is_constant(const char *bytes, size_t count, gex_Rank_t rank, size_t offset) {
    size_t i = 0;
    for (; i < count && (offset + i) % 8; i++) {
        uint64_t word = stress_word(constant_key(rank), (offset + i) / 8);
        if (memcmp(bytes + i, (char *)&word + (offset + i) % 8, 1)) return 0;
    }
    for (; i < count; i += 8) {
        uint64_t word = stress_word(constant_key(rank), (offset + i) / 8);
        if (memcmp(bytes + i, &word, smaller(8, (unsigned)(count - i)))) return 0;
    }
    return 1;
}

static void end_get(struct get *get) {
    static const char guard[GUARD];
    if (get->state == NONE) return;
    if (get->state == BY_EVENT) gex_Event_Wait(get->event);
    if (get->state == IMPLICIT) gex_NBI_Wait(GEX_EC_GET, 0);
    CHECKF(is_constant(get->memory, get->bytes, get->from, get->offset),
           "%zu bytes from offset %zu of rank %u came damaged", get->bytes, get->offset, (unsigned)get->from);
    CHECK(!memcmp(get->memory + get->bytes, guard, GUARD));
    get->state = NONE;
}

static void begin_get(uint64_t random, gex_Rank_t from) {
    struct get *get = &gets[random % GETS];
    end_get(get);
    get->from = from;
    get->bytes = size_of(random >> 8, 1, LARGEST);
    get->offset = (size_t)(random >> 20) % (LANE_BYTES - get->bytes + 1);
    const char *source = constant_of(from) + get->offset;
    memset(get->memory, 0, get->bytes + GUARD);
    all_transfers++;
    switch (random >> 4 & 3) {
        case 0:
            OK(gex_RMA_GetBlocking(tm, get->memory, from, (void *)source, get->bytes, 0));
            get->state = DONE;
            end_get(get);
            break;
        case 1:
            OK(gex_RMA_GetNBI(tm, get->memory, from, (void *)source, get->bytes, 0));
            get->state = IMPLICIT;
            break;
        default:
            get->event = gex_RMA_GetNB(tm, get->memory, from, (void *)source, get->bytes, 0);
            get->state = BY_EVENT;
    }
}

/* Adds to a rank's counter, and looks that the sums which it fetches grow by what it adds at
 * least. */
static void add(uint64_t random, gex_Rank_t to) {
    uint64_t amount = random % 1000 + 1, sum;
    int i = (int)((random >> 16) % (2 * ADDITIONS));
    added[to] += amount;
    all_transfers++;
    if (i < ADDITIONS) {
        gex_Event_Wait(additions[i]);
        additions[i] = gex_AD_OpNB_U64(domain, NULL, to, transfer_areas[to], GEX_OP_ADD, amount, 0, 0);
        return;
    }
    gex_Event_Wait(gex_AD_OpNB_U64(domain, &sum, to, transfer_areas[to], GEX_OP_FADD, amount, 0, 0));
    CHECKF(sum >= last_sum[to], "the sum at rank %u was %llu after %llu", (unsigned)to, (unsigned long long)sum,
           (unsigned long long)last_sum[to]);
    last_sum[to] = sum + amount;
}

/* Ends all transfers, and checks what all of them together did. Collective. */
static void settle_transfers(void) {
    uint64_t expected = 0, sum = 0;
    PHASE("transfers");
    for (gex_Rank_t r = 0; r < np; r++)
        for (int i = 0; i < LANES; i++) end_put(r, i);
    for (int i = 0; i < GETS; i++) end_get(&gets[i]);
    for (int i = 0; i < ADDITIONS; i++) {
        gex_Event_Wait(additions[i]);
        additions[i] = GEX_EVENT_INVALID;
    }
    barrier();
    PHASE("what was put");
    for (gex_Rank_t r = 0; r < np; r++)
        for (int i = 0; i < LANES; i++)
            if (lanes[r][i].state == DONE) read_back(r, i);
    const void *table = share(added, np * sizeof *added);
    for (gex_Rank_t r = 0; r < np; r++) expected += SHARED(uint64_t, table, r)[me];
    gex_Event_Wait(gex_AD_OpNB_U64(domain, &sum, me, transfer_areas[me], GEX_OP_GET, 0, 0, 0));
    CHECKF(sum == expected, "the sum of what was added is %llu instead of %llu", (unsigned long long)sum,
           (unsigned long long)expected);
    barrier();
}

#endif

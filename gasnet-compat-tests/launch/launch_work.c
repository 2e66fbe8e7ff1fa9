/* A client that works until FILE appears, and checks its own results: puts, gets, messages and
 * their replies of many sizes between ranks in a row, and collectives.
 * network/test_flood.py disturbs it meanwhile.
 *
 * launch_work FILE [MILLISECONDS]: ends when FILE is there. In each round one of the ranks also
 * computes for so long, and does not poll meanwhile. Rank 0 says from time to time how many rounds
 * are done.
 */
#include "../common/check.h"

#include <gasnet_coll.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST = 64 << 10, EACH = 5 };
static const size_t sizes[] = {1, 8, 100, 4096, 20000, MOST};
enum { SIZES = ARRAY_LENGTH(sizes) };

static unsigned char payload[MOST], copy[MOST];
static unsigned requests, replies;
static gex_AM_Index_t request_index, reply_index;

static uint64_t seed_of(gex_Rank_t rank, unsigned round, unsigned size) {
    return ((uint64_t)round * 64 + size) * 1000 + rank;
}

static void on_request(gex_Token_t token, void *bytes, size_t count, gex_AM_Arg_t round, gex_AM_Arg_t size) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    CHECK_PATTERN(bytes, count, seed_of(info.gex_srcrank, (unsigned)round, (unsigned)size));
    ATOMIC_ADD(&requests, 1U);
    gex_AM_ReplyMedium2(token, reply_index, bytes, count, GEX_EVENT_NOW, 0, round, size);
}

static void on_reply(gex_Token_t token, void *bytes, size_t count, gex_AM_Arg_t round, gex_AM_Arg_t size) {
    CHECK_PATTERN(bytes, count, seed_of(me, (unsigned)round, (unsigned)size));
    ATOMIC_ADD(&replies, 1U);
}

/* The work of this rank with the next one. Its pieces of the segment are consecutive. */
static void work(unsigned round) {
    gex_Rank_t next = (me + 1) % np, before = (me + np - 1) % np;
    char *there = seg_of(next), *here = seg_of(me);
    PHASE("puts");
    for (unsigned i = 0; i < SIZES; i++) {
        pattern_fill(payload, sizes[i], seed_of(me, round, i));
        OK(gex_RMA_PutBlocking(tm, next, there + i * MOST, payload, sizes[i], 0));
    }
    barrier();
    for (unsigned i = 0; i < SIZES; i++) CHECK_PATTERN(here + i * MOST, sizes[i], seed_of(before, round, i));
    PHASE("gets and messages");
    for (unsigned i = 0; i < SIZES; i++) {
        memset(copy, 0, sizes[i]);
        OK(gex_RMA_GetBlocking(tm, copy, next, there + i * MOST, sizes[i], 0));
        CHECK_PATTERN(copy, sizes[i], seed_of(me, round, i));
        OK(gex_AM_RequestMedium2(tm, next, request_index, copy, sizes[i], GEX_EVENT_NOW, 0, (gex_AM_Arg_t)round,
                                 (gex_AM_Arg_t)i));
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&requests) == (round + 1) * SIZES && ATOMIC_GET(&replies) == (round + 1) * SIZES);
    barrier();
}

static void compute(long milliseconds) {
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < milliseconds);
}

int main(int argc, char **argv) {
    unsigned round = 0;
    int goes_on = 1;
    struct stat status;
    test_init("launch_work", &argc, &argv);
    REQUIRE(argc >= 2);
    register_handler(request_index = 200, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(reply_index = 201, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 2);
    REQUIRE(gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, NULL, 0, 2) >= MOST);
    test_attach(SIZES * MOST);
    barrier();
    while (goes_on) {
        if (round % np == me) compute(argc > 2 ? atol(argv[2]) : 0);
        work(round++);
        if (me == 0 && round % EACH == 0) {
            printf("rounds %u\n", round);
            fflush(stdout);
        }
        goes_on = stat(argv[1], &status) != 0;
        gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &goes_on, &goes_on, sizeof goes_on, 0));
    }
    return test_finish();
}

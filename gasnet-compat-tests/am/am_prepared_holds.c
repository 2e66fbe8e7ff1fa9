// Threads between Prepare and Commit hold all payload blocks and wait for another thread. It sends
// payloads of every size in every way meanwhile, and receives the answers. Where segments are not
// shared memory, a Long needs a block too.
// MODES: par
// NP: 1 2 3 6
// ENV: GASNET_PSHM_NETWORK_DEPTH=4 GASNET_PSHM_KERNEL_COPY=0
// TIMEOUT: 60
#include "check.h"

enum { HOLDERS = 12, HELD = 3000, REPEATS = 12, LARGEST = 65536 };
static gex_AM_Index_t medium_index = 150, reply_index = 151, held_index = 152, long_index = 153;
static int replied, arrived;
static pthread_barrier_t all_prepared, all_answered;
static const size_t sizes[] = {0, 352, 353, 400, 1000, 1024, 4000, 17000, LARGEST};

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    gex_AM_ReplyMedium1(token, reply_index, buffer, bytes, GEX_EVENT_NOW, 0, seed);
}
static void on_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    on_medium(token, buffer, bytes, seed);
}
static void on_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&replied, 1);
}
static void on_held(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK(bytes == HELD);
    CHECK_PATTERN(buffer, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}

static void *hold(void *argument) {
    gex_AM_Arg_t number = (gex_AM_Arg_t)(intptr_t)argument;
    gex_Rank_t peer = (me + 1 + (gex_Rank_t)number) % np;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, HELD, HELD, NULL, 0, 1);
    REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
    pattern_fill(gex_AM_SrcDescAddr(sd), HELD, (uint64_t)number);
    pthread_barrier_wait(&all_prepared);
    pthread_barrier_wait(&all_answered);
    CHECK_PATTERN(gex_AM_SrcDescAddr(sd), HELD, (uint64_t)number);
    gex_AM_CommitRequestMedium1(sd, held_index, HELD, number);
    return NULL;
}

enum { FIXED, LONG, LIBRARY_BUFFER, OWN_BUFFER, KINDS };

/* Returns whether it was sent: always, unless IMMEDIATE. */
static int try_send(gex_Rank_t peer, int kind, gex_Flags_t flags, char *buffer, size_t bytes, gex_AM_Arg_t seed) {
    gex_AM_SrcDesc_t sd;
    pattern_fill(buffer, bytes, (uint64_t)seed);
    if (kind == FIXED) return !gex_AM_RequestMedium1(tm, peer, medium_index, buffer, bytes, GEX_EVENT_NOW, flags, seed);
    if (kind == LONG)
        return !gex_AM_RequestLong1(tm, peer, long_index, buffer, bytes, seg_of(peer) + me * LARGEST, GEX_EVENT_NOW,
                                    flags, seed);
    if (kind == LIBRARY_BUFFER) sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes, bytes, NULL, flags, 1);
    else sd = gex_AM_PrepareRequestMedium(tm, peer, buffer, bytes, bytes, GEX_EVENT_NOW, flags, 1);
    if (sd == GEX_AM_SRCDESC_NO_OP) return 0;
    pattern_fill(gex_AM_SrcDescAddr(sd), bytes, (uint64_t)seed);
    if (gex_AM_CommitRequestMedium1_v2(sd, medium_index, bytes, flags, seed) == 0) return 1;
    /* Still prepared: nobody may poll before it is cancelled. */
    gex_AM_CancelRequestMedium(sd, 0);
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread[HOLDERS];
    int sent = 0;
    test_init("am_prepared_holds", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(long_index, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    register_handler(held_index, (gex_AM_Fn_t)on_held, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    test_attach((uintptr_t)np * LARGEST);
    barrier();
    size_t limit =
        gex_AM_LUBRequestMedium() < gex_AM_LUBReplyMedium() ? gex_AM_LUBRequestMedium() : gex_AM_LUBReplyMedium();
    char *buffer = (char *)malloc(LARGEST);
    REQUIRE(pthread_barrier_init(&all_prepared, NULL, HOLDERS + 1) == 0);
    REQUIRE(pthread_barrier_init(&all_answered, NULL, HOLDERS + 1) == 0);
    PHASE("preparing");
    for (int i = 0; i < HOLDERS; i++) REQUIRE(pthread_create(&thread[i], NULL, hold, (void *)(intptr_t)i) == 0);
    pthread_barrier_wait(&all_prepared);
    PHASE("sending");
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t size = 0; size < ARRAY_LENGTH(sizes); size++)
            for (int i = 0; i < REPEATS; i++, sent++) {
                size_t bytes = sizes[size] < limit ? sizes[size] : limit;
                gex_Rank_t peer = (me + (gex_Rank_t)i) % np;
                while (!try_send(peer, kind, i % 2 ? GEX_FLAG_IMMEDIATE : 0, buffer, bytes, sent)) gasnet_AMPoll();
                /* a Long's destination is used again only after the answer */
                if (kind == LONG || i % 4 == 0) GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == sent + 1);
            }
    PHASE("answers");
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == sent);
    barrier();
    PHASE("commits");
    pthread_barrier_wait(&all_answered);
    for (int i = 0; i < HOLDERS; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == HOLDERS);
    barrier();
    free(buffer);
    return test_finish();
}

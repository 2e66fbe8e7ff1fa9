// Ranks that compute delay messages to themselves only. They are sent as much as GASNet accepts;
// then another rank gets messages of every size and answers them. The computing ranks return to
// GASNet only after that, and receive what was sent to them.
// NP: 3 4 5 7
// SEGMENTS: fast large
// CONDUITS: smp
// TIMEOUT: 60
#include "check.h"

enum { REFUSALS = 100, ROUNDS = 50, LARGE = 60000, ALL = 65536, WAYS = 3 };
static gex_AM_Index_t flood_index = 150, medium_index = 151, reply_index = 152;
static int arrived, replied;
static char payload[ALL];
static const size_t sizes[] = {16, 400, 1000, 5000, 17000, LARGE, ALL};

static void on_flood(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&arrived, 1);
}
static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected) {
    CHECK(bytes == (size_t)expected);
    CHECK_PATTERN(buffer, bytes, 3);
    gex_AM_ReplyMedium1(token, reply_index, buffer, bytes, GEX_EVENT_NOW, 0, expected);
}
static void on_reply(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t expected) {
    CHECK(bytes == (size_t)expected);
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&replied, 1);
}

static void send_one(gex_Rank_t peer, int way, size_t bytes) {
    gex_AM_SrcDesc_t sd;
    switch (way) {
        case 0:
            OK(gex_AM_RequestMedium1(tm, peer, medium_index, payload, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)bytes));
            return;
        case 1:
            while (gex_AM_RequestMedium1(tm, peer, medium_index, payload, bytes, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE,
                                         (gex_AM_Arg_t)bytes))
                gasnet_AMPoll();
            return;
        default:
            sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, bytes, bytes, NULL, 0, 1);
            REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
            pattern_fill(gex_AM_SrcDescAddr(sd), bytes, 3);
            gex_AM_CommitRequestMedium1(sd, medium_index, bytes, (gex_AM_Arg_t)bytes);
    }
}

int main(int argc, char **argv) {
    test_init("am_computing_targets", &argc, &argv);
    pattern_fill(payload, sizeof payload, 3);
    register_handler(flood_index, (gex_AM_Fn_t)on_flood, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1);
    test_attach(4096);
    volatile uint32_t *mine = (volatile uint32_t *)seg_of(me);
    gex_Rank_t server = np - 1;
    for (size_t flood = 0; flood < ARRAY_LENGTH(sizes); flood++) {
        barrier();
        if (me == 0) {
            int sent = 0;
            uint32_t *words = (uint32_t *)calloc(np, sizeof *words), one = 1;
            PHASE("filling the computing ranks");
            for (gex_Rank_t r = 1; r < server; r++) {
                int refused = 0;
                while (refused < REFUSALS) {
                    if (gex_AM_RequestMedium0(tm, r, flood_index, payload, sizes[flood], GEX_EVENT_NOW,
                                              GEX_FLAG_IMMEDIATE))
                        refused++;
                    else words[r]++;
                }
            }
            PHASE("messages to the other");
            for (int way = 0; way < WAYS; way++)
                for (size_t size = 0; size < ARRAY_LENGTH(sizes); size++, sent += ROUNDS) {
                    for (int i = 0; i < ROUNDS; i++) send_one(server, way, sizes[size]);
                }
            GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == sent);
            ATOMIC_SET(&replied, 0);
            for (gex_Rank_t r = 1; r < server; r++) {
                OK(gex_RMA_PutBlocking(tm, r, seg_of(r), &words[r], sizeof *words, 0));
                OK(gex_RMA_PutBlocking(tm, r, seg_of(r) + 4, &one, sizeof one, 0));
            }
            free(words);
        } else if (me < server) {
            PHASE("computing");
            while (__atomic_load_n(mine + 1, __ATOMIC_ACQUIRE) == 0) usleep(1000);
            PHASE("receiving");
            GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == (int)mine[0]);
            ATOMIC_SET(&arrived, 0);
            mine[0] = mine[1] = 0;
        }
    }
    barrier();
    return test_finish();
}

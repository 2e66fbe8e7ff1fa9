// A rank that pauses between Prepare and Commit delays nobody but the receiver of that message: the
// others exchange thousands of messages meanwhile, also with maximal payloads; the paused message
// arrives intact afterwards.
// NP: 2 3 4 7
// TIMEOUT: 60
#include "check.h"

#include <time.h>

static gex_AM_Index_t medium_index = 150, reply_index = 151;
static int arrived, replied;
static size_t limit;

static void on_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(buffer, bytes < 2000 ? bytes : 2000, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
    gex_AM_ReplyShort0(token, reply_index, 0);
}
static void on_reply(gex_Token_t token) { ATOMIC_ADD(&replied, 1); }

int main(int argc, char **argv) {
    int sent = 0;
    test_init("am_prepared_pause", &argc, &argv);
    register_handler(medium_index, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(reply_index, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0);
    limit = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 1);
    if (gex_AM_LUBRequestMedium() < limit) limit = gex_AM_LUBRequestMedium();
    char *data = (char *)malloc(limit);
    pattern_fill(data, limit, 5);
    barrier();
    for (gex_Rank_t sleeper = 0; sleeper < np && sleeper < 3; sleeper++) {
        PHASE("exchange");
        if (me == sleeper) {
            struct timespec pause;
            gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, (me + 1) % np, NULL, limit, limit, NULL, 0, 1);
            REQUIRE(sd != GEX_AM_SRCDESC_NO_OP);
            memset(gex_AM_SrcDescAddr(sd), 0, limit);
            pause.tv_sec = 0;
            pause.tv_nsec = 200000000;
            nanosleep(&pause, NULL);
            pattern_fill(gex_AM_SrcDescAddr(sd), limit, 6);
            gex_AM_CommitRequestMedium1(sd, medium_index, limit, 6);
            sent++;
        } else {
            for (int i = 0; i < 1000; i++) {
                gex_Rank_t peer = (gex_Rank_t)((me + (unsigned)i) % np);
                if (peer == sleeper) continue;
                OK(gex_AM_RequestMedium1(tm, peer, medium_index, data, i % 16 ? 700 : limit, GEX_EVENT_NOW, 0, 5));
                sent++;
            }
        }
        PHASE("replies");
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replied) == sent);
        barrier();
    }
    free(data);
    return test_finish();
}

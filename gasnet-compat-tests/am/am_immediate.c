// GEX_FLAG_IMMEDIATE never blocks: while a peer is not inside GASNet a bounded number of requests
// is accepted, then no-ops are returned; all accepted ones arrive once the peer polls, and
// immediate requests succeed again.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

#include <time.h>

/* Far more than any library buffers, far less than memory. */
enum { LIMIT = 400000 };
static gex_AM_Index_t short_index = 150, medium_index = 151, long_index = 152, done_index = 153;
static int arrived, finished;
static char payload[4096];
static size_t medium_bytes = 512;

static void on_short(gex_Token_t token, gex_AM_Arg_t a) {
    CHECK(a == 12345);
    ATOMIC_ADD(&arrived, 1);
}
static void on_payload(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 9);
    ATOMIC_ADD(&arrived, 1);
}
static int announced;
static void on_done(gex_Token_t token, gex_AM_Arg_t count) {
    ATOMIC_ADD(&announced, (int)count);
    ATOMIC_ADD(&finished, 1);
}

static int send_one(gex_Rank_t peer, int kind, char *target, gex_Flags_t flags) {
    switch (kind) {
        case 0: return gex_AM_RequestShort1(tm, peer, short_index, flags, 12345);
        case 1: return gex_AM_RequestMedium0(tm, peer, medium_index, payload, medium_bytes, GEX_EVENT_NOW, flags);
        case 2: return gex_AM_RequestLong0(tm, peer, long_index, payload, 64, target, GEX_EVENT_NOW, flags);
        default: {
            gex_AM_SrcDesc_t sd =
                gex_AM_PrepareRequestMedium(tm, peer, NULL, medium_bytes, medium_bytes, NULL, flags, 0);
            if (sd == GEX_AM_SRCDESC_NO_OP) return 1;
            pattern_fill(gex_AM_SrcDescAddr(sd), medium_bytes, 9);
            if (gex_AM_CommitRequestMedium0_v2(sd, medium_index, medium_bytes, flags)) {
                OK(gex_AM_CancelRequestMedium(sd, 0));
                return 1;
            }
            return 0;
        }
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A conduit with a receive thread may accept everything: LIMIT and half a second end the
 * attempt. */
static void flood(gex_Rank_t peer, int kind, char *target) {
    int accepted = 0, refused = 0;
    double end = now() + 0.5;
    for (int i = 0; i < LIMIT && refused < 1000 && (i % 64 || now() < end); i++) {
        if (send_one(peer, kind, target, GEX_FLAG_IMMEDIATE) == 0) accepted++;
        else refused++;
    }
    gex_AM_RequestShort1(tm, peer, done_index, 0, accepted);
}

/* After the peer drained, an immediate request gets through within a few polls. */
static void recovers(gex_Rank_t peer, int kind, char *target) {
    int ok = 0;
    for (int tries = 0; tries < 100000 && !ok; tries++) {
        if (send_one(peer, kind, target, GEX_FLAG_IMMEDIATE) == 0) ok = 1;
        else gasnet_AMPoll();
        if (tries > 1000) usleep(100); /* the peer may lack the processor */
    }
    CHECKF(ok, "kind %d is refused for ever", kind);
    gex_AM_RequestShort1(tm, peer, done_index, 0, ok);
}

int main(int argc, char **argv) {
    int expected_finished = 0;
    static const char *const names[] = {"Short", "Medium", "Long", "negotiated Medium"};
    test_init("am_immediate", &argc, &argv);
    pattern_fill(payload, sizeof payload, 9);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    register_handler(medium_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(long_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    register_handler(done_index, (gex_AM_Fn_t)on_done, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1);
    test_attach(65536);
    gex_Rank_t peer = (me + 1) % np;
    char *target = seg_of(peer); /* all Longs write the same bytes */
    for (int kind = 0; kind < 4; kind++) {
        /* half of the ranks send while the others compute */
        for (int phase = 0; phase < 2; phase++) {
            int sender = (int)(me % 2) == phase || np == 1;
            int receiver = (int)((me + np - 1) % np % 2) == phase || np == 1;
            PHASE(names[kind]);
            barrier();
            if (sender) {
                flood(peer, kind, target);
            } else {
                struct timespec pause = {.tv_sec = 0, .tv_nsec = 100000000};
                nanosleep(&pause, NULL);
            }
            if (receiver) {
                expected_finished++;
                GASNET_BLOCKUNTIL(ATOMIC_GET(&finished) == expected_finished &&
                                  ATOMIC_GET(&arrived) == ATOMIC_GET(&announced));
            }
            barrier();
            if (sender) recovers(peer, kind, target);
            if (receiver) {
                expected_finished++;
                GASNET_BLOCKUNTIL(ATOMIC_GET(&finished) == expected_finished &&
                                  ATOMIC_GET(&arrived) == ATOMIC_GET(&announced));
            }
            barrier();
        }
    }
    PHASE("end");
    CHECK(ATOMIC_GET(&arrived) == ATOMIC_GET(&announced));
    return test_finish();
}

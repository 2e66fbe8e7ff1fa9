// GEX_FLAG_IMMEDIATE returns while the peer is outside GASNet for as long as it takes: the peer
// leaves only when it sees that requests of every kind were refused.
// NP: 2 4
// SEGMENTS: fast large
// CONDUITS: smp
// TIMEOUT: 60
#include "check.h"

enum { KINDS = 5, REFUSALS = 100, LARGE = 60000 };
static gex_AM_Index_t short_index = 150, payload_index = 151, long_index = 152;
static int arrived;
static char payload[LARGE];

static void on_short(gex_Token_t token) { ATOMIC_ADD(&arrived, 1); }
static void on_payload(gex_Token_t token, void *buffer, size_t bytes) {
    CHECK_PATTERN(buffer, bytes, 3);
    ATOMIC_ADD(&arrived, 1);
}

/* 0 when it was sent. */
static int send_one(gex_Rank_t peer, int kind, char *target) {
    switch (kind) {
        case 0: return gex_AM_RequestShort0(tm, peer, short_index, GEX_FLAG_IMMEDIATE);
        case 1: return gex_AM_RequestMedium0(tm, peer, payload_index, payload, 40, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE);
        case 2:
            return gex_AM_RequestMedium0(tm, peer, payload_index, payload, LARGE, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE);
        case 3:
            return gex_AM_RequestLong0(tm, peer, long_index, payload, 64, target, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE);
        default: break;
    }
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, LARGE, LARGE, NULL, GEX_FLAG_IMMEDIATE, 0);
    if (sd == GEX_AM_SRCDESC_NO_OP) return 1;
    pattern_fill(gex_AM_SrcDescAddr(sd), LARGE, 3);
    if (gex_AM_CommitRequestMedium0_v2(sd, payload_index, LARGE, GEX_FLAG_IMMEDIATE) == 0) return 0;
    OK(gex_AM_CancelRequestMedium(sd, 0));
    return 1;
}

int main(int argc, char **argv) {
    test_init("immediate_returns", &argc, &argv);
    pattern_fill(payload, sizeof payload, 3);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(payload_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(long_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    test_attach(8192);
    volatile uint32_t *mine = (volatile uint32_t *)seg_of(me);
    int sends = me % 2 == 0;
    gex_Rank_t peer = me ^ 1U;
    barrier();
    for (int kind = 0; kind < KINDS; kind++) {
        /* the two words: how many were sent, and that no more will be */
        uint32_t accepted = 0, refused = 0, words[2];
        if (sends) {
            PHASE("sending");
            while (refused < REFUSALS) {
                if (send_one(peer, kind, seg_of(peer) + 4096) == 0) accepted++;
                else refused++;
            }
            words[0] = accepted;
            OK(gex_RMA_PutBlocking(tm, peer, seg_of(peer), words, sizeof words[0], 0));
            words[1] = 1;
            OK(gex_RMA_PutBlocking(tm, peer, seg_of(peer) + 4, words + 1, sizeof words[1], 0));
        } else {
            PHASE("outside GASNet");
            while (__atomic_load_n(mine + 1, __ATOMIC_ACQUIRE) == 0) usleep(1000);
            PHASE("receiving");
            GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == (int)mine[0]);
            mine[0] = mine[1] = 0;
            ATOMIC_SET(&arrived, 0);
        }
        barrier();
    }
    return test_finish();
}

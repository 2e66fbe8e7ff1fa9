// A call with GEX_FLAG_IMMEDIATE to a peer that is not connected yet is refused at once and begins
// to connect; later ones are accepted. Each kind of call must be refused by some peer: in a job of
// 12 ranks a barrier leaves most pairs unconnected.
// NP: 12
// CONDUITS: ibv
// SEGMENTS: fast large
// ENV: GASNET_CONNECT_STATIC=0 GASNET_SUPERNODE_MAXSIZE=1
// TIMEOUT: 120
#include "check.h"

enum { SHORT, MEDIUM, LONG, PREPARED, PUT, GET, KINDS };
static gex_AM_Index_t short_index = 150, medium_index = 151, long_index = 152, report_index = 153;
static int arrived, reports, refused_first[KINDS];
static char source[64], landing[64];

static void on_short(gex_Token_t token) { ATOMIC_ADD(&arrived, 1); }
static void on_payload(gex_Token_t token, void *payload, size_t bytes) {
    CHECK_PATTERN(payload, bytes, 7);
    ATOMIC_ADD(&arrived, 1);
}
static void on_report(gex_Token_t token, gex_AM_Arg_t kind, gex_AM_Arg_t was_refused) {
    ATOMIC_ADD(&refused_first[kind], (int)was_refused);
    ATOMIC_ADD(&reports, 1);
}

static int attempt(int kind, gex_Rank_t peer) {
    const gex_Flags_t f = GEX_FLAG_IMMEDIATE;
    switch (kind) {
        case SHORT: return gex_AM_RequestShort0(tm, peer, short_index, f);
        case MEDIUM: return gex_AM_RequestMedium0(tm, peer, medium_index, source, 64, GEX_EVENT_NOW, f);
        case LONG: return gex_AM_RequestLong0(tm, peer, long_index, source, 64, seg_of(peer), GEX_EVENT_NOW, f);
        case PUT: return gex_RMA_PutBlocking(tm, peer, seg_of(peer) + 64, source, 64, f);
        case GET: return gex_RMA_GetBlocking(tm, landing, peer, seg_of(peer) + 128, 64, f);
        default: break;
    }
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(tm, peer, NULL, 64, 64, NULL, f, 0);
    if (sd == GEX_AM_SRCDESC_NO_OP) return 1;
    memcpy(gex_AM_SrcDescAddr(sd), source, 64);
    if (gex_AM_CommitRequestMedium0_v2(sd, medium_index, 64, f) == 0) return 0;
    OK(gex_AM_CancelRequestMedium(sd, 0));
    return 1;
}

/* A barrier does not connect ranks at these distances. */
enum { DISTANCES = 2 };
static const gex_Rank_t distances[DISTANCES] = {3, 5};
/* The kind of message that a rank sends first. */
static int kind_of(gex_Rank_t rank, int distance) {
    return (int)(rank + KINDS / DISTANCES * (gex_Rank_t)distance) % KINDS;
}

int main(int argc, char **argv) {
    int expected = 0;
    test_init("immediate_connects", &argc, &argv);
    if (np != 12) test_skip("needs 12 ranks");
    pattern_fill(source, sizeof source, 7);
    register_handler(short_index, (gex_AM_Fn_t)on_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    register_handler(medium_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0);
    register_handler(long_index, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    register_handler(report_index, (gex_AM_Fn_t)on_report, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2);
    test_attach(4096);
    memcpy(seg_of(me) + 128, source, 64);
    barrier();
    for (int i = 0; i < DISTANCES; i++) {
        gex_Rank_t peer = (me + distances[i]) % np;
        expected += kind_of((me + np - distances[i]) % np, i) < PUT;
        int kind = kind_of(me, i);
        PHASE("connecting");
        int was_refused = attempt(kind, peer);
        if (was_refused)
            while (attempt(kind, peer)) gasnet_AMPoll();
        if (kind == GET) CHECK_PATTERN(landing, 64, 7);
        gex_AM_RequestShort2(tm, 0, report_index, 0, kind, was_refused);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == expected);
    barrier();
    for (int i = 0; i < DISTANCES; i++)
        if (kind_of((me + np - distances[i]) % np, i) == PUT) CHECK_PATTERN(seg_of(me) + 64, 64, 7);
    if (me == 0) {
        GASNET_BLOCKUNTIL(ATOMIC_GET(&reports) == DISTANCES * (int)np);
        for (int kind = 0; kind < KINDS; kind++)
            CHECKF(refused_first[kind] > 0, "no first call of kind %d was refused", kind);
    }
    return test_finish();
}

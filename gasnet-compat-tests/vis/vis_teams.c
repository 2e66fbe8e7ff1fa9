// Scattered puts and gets through a team whose ranks run backwards, and through TM-pairs to a
// second endpoint with memory of the client; the peer-completion handler is that of the addressed
// endpoint.
// NP: 1 2 3 4 7
#include "check.h"

#include <gasnet_coll.h>
#include <gasnet_vis.h>

enum { HANDLER = 222, PIECES = 2500, PIECE = 16, STEP = 40, BYTES = PIECES * STEP };

static gex_EP_t second;
static unsigned runs[2];
static char client_memory[7 * BYTES + 64];

static void handler(gex_Token_t token, void *payload, size_t bytes) {
    gex_Token_Info_t info;
    unsigned which;
    CHECK(bytes == sizeof which);
    memcpy(&which, payload, sizeof which);
    if (gex_Token_Info(token, &info, GEX_TI_EP) & GEX_TI_EP) CHECK(info.gex_ep == (which ? second : ep));
    ATOMIC_ADD(&runs[which], 1U);
}

static void transfers(gex_TM_t team, gex_Rank_t rank, char *remote, unsigned which) {
    static unsigned char out[PIECES * PIECE], in[PIECES * PIECE];
    static void *list[PIECES];
    void *whole = in;
    const ptrdiff_t step[1] = {STEP}, packed[1] = {PIECE};
    const size_t count[1] = {PIECES};
    for (size_t i = 0; i < PIECES; i++) list[i] = remote + i * STEP;
    pattern_fill(out, sizeof out, me * 2 + which);
    gex_VIS_SetPeerCompletionHandler(HANDLER, &which, sizeof which, 0);
    gex_Event_Wait(gex_VIS_StridedPutNB(team, rank, remote, step, out, packed, PIECE, count, 1, 0));
    memset(in, 0, sizeof in);
    OK(gex_VIS_IndexedGetBlocking(team, 1, &whole, sizeof in, rank, PIECES, list, PIECE, 0));
    CHECK_PATTERN(in, sizeof in, me * 2 + which);
}

int main(int argc, char **argv) {
    gex_AM_Entry_t entry = {HANDLER, (gex_AM_Fn_t)handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, "handler"};
    gex_TM_t backwards;
    gex_Segment_t own;
    test_init("vis_teams", &argc, &argv);
    test_attach((uintptr_t)np * BYTES);
    OK(gex_EP_Create(&second, client, GEX_EP_CAPABILITY_ALL, 0));
    OK(gex_EP_RegisterHandlers(ep, &entry, 1));
    OK(gex_EP_RegisterHandlers(second, &entry, 1));
    OK(gex_Segment_Create(&own, client, client_memory + 3, sizeof client_memory - 64, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(second, own, 0));
    OK(gex_EP_PublishBoundSegment(tm, &second, 1, 0));
    gex_TM_Split(&backwards, tm, 0, -(int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    barrier();
    PHASE("team");
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_Rank_t job = np - 1 - r;
        transfers(backwards, r, seg_of(job) + (size_t)me * BYTES, 0);
    }
    PHASE("second endpoint");
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_TM_t pair = gex_TM_Pair(ep, gex_EP_QueryIndex(second));
        void *base = NULL;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(pair, r, &base, NULL, NULL, 0));
        transfers(pair, r, (char *)base + (size_t)me * BYTES, 1);
    }
    PHASE("handlers");
    barrier();
    GASNET_BLOCKUNTIL(ATOMIC_GET(&runs[0]) == np && ATOMIC_GET(&runs[1]) == np);
    barrier();
    gex_TM_Destroy(backwards, NULL, GEX_FLAG_GLOBALLY_QUIESCED);
    return test_finish();
}

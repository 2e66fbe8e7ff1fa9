// Active Messages and device memory: a Long of any length lands on the device before its handler
// runs, which gets the device's address; payloads of requests and negotiated payloads come from the
// device that the sending endpoint's segment is on; replies too.
// NP: 1 2 4
// DEVICES: yes
#include "device.h"

enum { H_LONG = 210, H_MEDIUM, H_REPLY, BYTES = 200001, SPACE = 5 * BYTES };

static int arrived, answered;
/* Largest Medium of the test. */
static size_t medium = 20000;

static place *place_with(gex_EP_t wanted) {
    for (int i = 0; i < place_count; i++)
        if (places[i].ep == wanted) return &places[i];
    REQUIRE(!"an endpoint of ours");
    return NULL;
}
static place *place_of(gex_Token_t token) {
    gex_Token_Info_t info;
    CHECK(gex_Token_Info(token, &info, GEX_TI_EP) & GEX_TI_EP);
    return place_with(info.gex_ep);
}

static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    place *p = place_of(token);
    CHECK((char *)payload == p->base + BYTES);
    CHECK_PLACE(p, (char *)payload, bytes, (uint64_t)seed);
    /* back from the same memory, to a handler buffer; odd ones with an offset in the segment */
    if (bytes > medium) bytes = medium;
    if (bytes % 2)
        OK(gex_AM_ReplyMedium1(token, H_REPLY, place_offset(p, p->base, (char *)payload), bytes, GEX_EVENT_NOW,
                               GEX_FLAG_SELF_SEG_OFFSET, seed));
    else if (bytes > 0) OK(gex_AM_ReplyMedium1(token, H_REPLY, payload, bytes, GEX_EVENT_NOW, 0, seed));
    ATOMIC_ADD(&arrived, 1);
}
static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}
static void on_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&answered, 1);
}

static void messages(place *local, place *remote) {
    const size_t sizes[] = {0, 1, 100, 4097, medium, 70001, BYTES};
    gex_Rank_t peer = (me + 1) % np;
    gex_TM_t pair = gex_TM_Pair(local->ep, remote->index);
    char *mine = local->base + 3 * BYTES + 8;
    int want_arrived = ATOMIC_GET(&arrived), want_answered = ATOMIC_GET(&answered);
    barrier();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        gex_AM_Arg_t seed = (gex_AM_Arg_t)(me * 100 + i);
        CHECK(gex_AM_MaxRequestLong(pair, peer, GEX_EVENT_NOW, 0, 1) >= BYTES);
        place_fill(local, mine, bytes, (uint64_t)seed);
        if (i % 2) {
            void *to = place_offset(remote, remote->theirs[peer], remote->theirs[peer] + BYTES);
            while (gex_AM_RequestLong1(pair, peer, H_LONG, mine, bytes, to, GEX_EVENT_NOW,
                                       GEX_FLAG_PEER_SEG_OFFSET | GEX_FLAG_IMMEDIATE, seed))
                gasnet_AMPoll();
        } else
            OK(gex_AM_RequestLong1(pair, peer, H_LONG, mine, bytes, remote->theirs[peer] + BYTES, GEX_EVENT_NOW, 0,
                                   seed));
        want_arrived++;
        want_answered += bytes > 0;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == want_arrived && ATOMIC_GET(&answered) == want_answered);
        barrier();
        if (bytes > medium) continue;
        OK(gex_AM_RequestMedium1(pair, peer, H_MEDIUM, mine, bytes, GEX_EVENT_NOW, 0, seed));
        /* negotiated: from the device itself, and through a buffer of the library's */
        gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(pair, peer, mine, bytes, bytes, GEX_EVENT_NOW, 0, 1);
        gex_AM_CommitRequestMedium1(desc, H_MEDIUM, bytes, seed);
        desc = gex_AM_PrepareRequestMedium(pair, peer, NULL, bytes, bytes, NULL, 0, 1);
        pattern_fill(gex_AM_SrcDescAddr(desc), bytes, (uint64_t)seed);
        gex_AM_CommitRequestMedium1(desc, H_MEDIUM, bytes, seed);
        want_arrived += 3;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == want_arrived);
        barrier();
    }
}

int main(int argc, char **argv) {
    test_init("mk_am", &argc, &argv);
    devices_required();
    if (medium > gex_AM_LUBRequestMedium()) medium = gex_AM_LUBRequestMedium();
    if (medium > gex_AM_LUBReplyMedium()) medium = gex_AM_LUBReplyMedium();
    register_handler(H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1);
    register_handler(H_MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    register_handler(H_REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1);
    make_places(SPACE);
    for (int from = 0; from < place_count; from++) {
        for (int to = 0; to < place_count; to++) {
            PHASE("messages");
            messages(&places[from], &places[to]);
        }
    }
    end_places();
    return test_finish();
}

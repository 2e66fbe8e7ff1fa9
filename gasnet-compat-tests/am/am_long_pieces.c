// Longs that do not fit one message: to a further endpoint, whose segment nobody else maps, and to
// ranks outside the neighbourhood. Requests and replies, fixed and negotiated payload, IMMEDIATE,
// all ranks at once with several in flight: data complete before the handler, every handler once.
// NP: 1 2 3 4
// SEGMENTS: fast large
// TIMEOUT: 120
#include "check.h"

enum { LONG = 200, LONG_BACK = 201, SLOTS = 2, LARGEST = 1300001 };

static gex_EP_t eps[2];
static gex_Segment_t segments[2];
static int requests, replies, wanted;
static const size_t sizes[] = {0, 1, 65536, 65537, 200003, LARGEST};

static char *slot_of(int which, size_t slot) { return (char *)gex_Segment_QueryAddr(segments[which]) + slot * LARGEST; }
/* In the segment of everybody: np * SLOTS for requests, then as many for replies. */
static size_t slot_for(gex_Rank_t from, size_t slot, int reply) { return ((size_t)reply * np + from) * SLOTS + slot; }
static uint64_t seed_of(gex_Rank_t from, size_t bytes, size_t slot) { return bytes * 1000 + from * 10 + slot; }

static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t which, gex_AM_Arg_t from,
                    gex_AM_Arg_t slot, gex_AM_Arg_t high, gex_AM_Arg_t low) {
    void *back = (void *)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK(info.gex_srcrank == (gex_Rank_t)from && info.gex_is_req && info.gex_is_long && info.gex_ep == eps[which]);
    CHECK(payload == slot_of(which, slot_for((gex_Rank_t)from, (size_t)slot, 0)));
    CHECK_PATTERN(payload, bytes, seed_of((gex_Rank_t)from, bytes, (size_t)slot));
    ATOMIC_ADD(&requests, 1);
    gex_AM_ReplyLong2(token, LONG_BACK, payload, bytes, back, GEX_EVENT_NOW, 0, which, slot);
}

static void on_long_back(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t which, gex_AM_Arg_t slot) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK(!info.gex_is_req && info.gex_is_long && info.gex_ep == eps[which]);
    CHECK(payload == slot_of(which, slot_for(info.gex_srcrank, (size_t)slot, 1)));
    CHECK_PATTERN(payload, bytes, seed_of(me, bytes, (size_t)slot));
    ATOMIC_ADD(&replies, 1);
}

static void flood(gex_TM_t team, int which, int form) {
    static unsigned char source[LARGEST];
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t bytes = sizes[i];
        for (size_t slot = 0; slot < SLOTS; slot++) {
            pattern_fill(source, bytes, seed_of(me, bytes, slot));
            for (gex_Rank_t r = 0; r < np; r++) {
                gex_Rank_t to = (me + r) % np;
                void *base = NULL;
                uint64_t back = (uint64_t)(uintptr_t)slot_of(which, slot_for(to, slot, 1));
                gex_AM_Arg_t high = (gex_AM_Arg_t)(back >> 32), low = (gex_AM_Arg_t)back;
                gex_Event_Wait(gex_EP_QueryBoundSegmentNB(team, to, &base, NULL, NULL, 0));
                char *destination = (char *)base + slot_for(me, slot, 0) * LARGEST;
                wanted++;
                if (form == 0) {
                    OK(gex_AM_RequestLong5(team, to, LONG, source, bytes, destination, GEX_EVENT_NOW, 0, which,
                                           (gex_AM_Arg_t)me, (gex_AM_Arg_t)slot, high, low));
                } else if (form == 1) {
                    while (gex_AM_RequestLong5(team, to, LONG, source, bytes, destination, GEX_EVENT_NOW,
                                               GEX_FLAG_IMMEDIATE, which, (gex_AM_Arg_t)me, (gex_AM_Arg_t)slot, high,
                                               low)) {
                        gasnet_AMPoll();
                    }
                } else {
                    gex_AM_SrcDesc_t sd =
                        gex_AM_PrepareRequestLong(team, to, source, bytes, bytes, destination, GEX_EVENT_NOW, 0, 5);
                    CHECK(gex_AM_SrcDescSize(sd) == bytes);
                    gex_AM_CommitRequestLong5(sd, LONG, bytes, destination, which, (gex_AM_Arg_t)me, (gex_AM_Arg_t)slot,
                                              high, low);
                }
            }
            /* NOW: the source is free at return. */
            memset(source, 0xDD, bytes);
        }
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == wanted);
        barrier();
    }
}

int main(int argc, char **argv) {
    test_init("am_long_pieces", &argc, &argv);
    size_t bytes = ((size_t)np * SLOTS * 2 * LARGEST + 65535) & ~(size_t)65535;
    test_attach(bytes);
    eps[0] = ep;
    segments[0] = segment;
    OK(gex_EP_Create(&eps[1], client, GEX_EP_CAPABILITY_ALL, 0));
    OK(gex_Segment_Create(&segments[1], client, NULL, bytes, GEX_MK_HOST, 0));
    OK(gex_EP_BindSegment(eps[1], segments[1], 0));
    OK(gex_EP_PublishBoundSegment(tm, &eps[1], 1, 0));
    for (int which = 0; which < 2; which++) {
        gex_AM_Entry_t entries[] = {
            {LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 5, NULL, "long"},
            {LONG_BACK, (gex_AM_Fn_t)on_long_back, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 2, NULL, "long back"},
        };
        OK(gex_EP_RegisterHandlers(eps[which], entries, ARRAY_LENGTH(entries)));
    }
    CHECK(gex_AM_LUBRequestLong() >= LARGEST && gex_AM_MaxReplyLong(tm, np - 1, GEX_EVENT_NOW, 0, 2) >= LARGEST);
    barrier();
    for (int form = 0; form < 3; form++) {
        PHASE("primordial endpoints");
        flood(tm, 0, form);
        PHASE("further endpoints");
        flood(gex_TM_Pair(eps[1], 1), 1, form);
    }
    barrier();
    CHECK(ATOMIC_GET(&requests) == wanted); /* as many as we sent, since all do the same */
    return test_finish();
}

// Ranks send Mediums to ranks 0 and 1, which compute, until they are refused; then these two send
// each other some until they are refused. The handlers then answer with Longs whose source must be
// free at return: they need room to send when all that requests may have is taken.
// NP: 2 3 5
// TIMEOUT: 120
#include "stress.h"

enum { REQUEST = 200, REPLY = 201, REFUSALS = 20, MOST = 400 };

static const size_t lengths[] = {8, 170, 600, 1905, 4097, 20000, 66561, 140001};
static size_t length;
/* Of the replies. They are outside the segment. */
static char *answer;
static int replies, damaged;

/* Place of the replies of this rank at each other one: the same for all of them. */
static char **places;

static void on_request(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t from) {
    gex_AM_ReplyLong0(token, REPLY, answer, length, places[from], GEX_EVENT_NOW, 0);
}

static void on_reply(gex_Token_t token, void *payload, size_t bytes) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    if (bytes != length || !stress_same(payload, bytes, info.gex_srcrank)) damaged++;
    ATOMIC_ADD(&replies, 1);
}

/* Sends to ranks 0 and 1 until that is refused. Returns how many were sent. */
static int flood(const void *payload, size_t bytes) {
    int sent = 0, refused = 0;
    /* The others are first, and find the room that these two have for messages. */
    usleep(me < 2 ? 30000 : 0);
    while (sent < MOST && refused < REFUSALS) {
        for (gex_Rank_t r = 0; r < 2; r++) {
            if (r == me) continue;
            if (gex_AM_RequestMedium1(tm, r, REQUEST, payload, bytes, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE,
                                      (gex_AM_Arg_t)me)) {
                refused++;
                if (me >= 2) gasnet_AMPoll();
            } else {
                sent++;
            }
        }
    }
    usleep(me < 2 ? 30000 : 0);
    return sent;
}

int main(int argc, char **argv) {
    size_t bytes = 10000;
    test_init("crossed_long_replies", &argc, &argv);
    register_handler(REQUEST, (gex_AM_Fn_t)on_request, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    register_handler(REPLY, (gex_AM_Fn_t)on_reply, GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 0);
    test_attach((uintptr_t)np * ((size_t)160 << 10));
    places = (char **)malloc(np * sizeof *places);
    REQUIRE(places != NULL);
    for (gex_Rank_t r = 0; r < np; r++) places[r] = seg_of(r) + me * ((size_t)160 << 10);
    if (gex_AM_LUBRequestMedium() < bytes) bytes = gex_AM_LUBRequestMedium();
    char *payload = (char *)malloc(bytes);
    memset(payload, 1, bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        PHASE("replies of each length");
        length = lengths[i] < gex_AM_LUBReplyLong() ? lengths[i] : gex_AM_LUBReplyLong();
        answer = (char *)malloc(length);
        stress_fill(answer, length, me);
        barrier();
        int sent = flood(payload, bytes);
        GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == sent);
        CHECKF(damaged == 0, "%d replies of %zu bytes are damaged", damaged, length);
        ATOMIC_SET(&replies, 0);
        barrier();
        free(answer);
    }
    free(payload);
    return test_finish();
}

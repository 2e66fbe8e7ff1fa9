// gex_Token_Info: every query in request and reply handlers of all categories; the reply limits of
// a token.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t request_short = 210, request_medium = 211, request_long = 212, reply_short = 213,
                      reply_medium = 214, reply_long = 215, request_medlong = 216;
static const char *const names[7] = {"qs", "qm", "ql", "ps", "pm", "pl", "qml"};
static int cdata[7];
static int done;

static void check_token(gex_Token_t token, gex_Rank_t source, int entry, int is_request, int is_long) {
    static const gex_TI_t single[5] = {GEX_TI_SRCRANK, GEX_TI_EP, GEX_TI_ENTRY, GEX_TI_IS_REQ, GEX_TI_IS_LONG};
    gex_Token_Info_t info;
    memset(&info, 0xEE, sizeof info);
    gex_TI_t got = gex_Token_Info(token, &info, GEX_TI_ALL);
    CHECK((got & GEX_TI_SRCRANK) && (got & GEX_TI_EP));
    CHECKF(info.gex_srcrank == source, "source is %u, not %u", (unsigned)info.gex_srcrank, (unsigned)source);
    CHECK(info.gex_ep == ep);
#ifdef GASNET_SUPPORTS_TI_ENTRY
    CHECK(got & GEX_TI_ENTRY);
#endif
#ifdef GASNET_SUPPORTS_TI_IS_REQ
    CHECK(got & GEX_TI_IS_REQ);
#endif
#ifdef GASNET_SUPPORTS_TI_IS_LONG
    CHECK(got & GEX_TI_IS_LONG);
#endif
    if (got & GEX_TI_ENTRY) {
        CHECK(info.gex_entry->gex_index == request_short + entry);
        CHECK(info.gex_entry->gex_cdata == &cdata[entry]);
        CHECK(info.gex_entry->gex_name == names[entry]);
    }
    if (got & GEX_TI_IS_REQ) CHECKF((int)info.gex_is_req == is_request, "is_req is %d", (int)info.gex_is_req);
    if (got & GEX_TI_IS_LONG) CHECKF((int)info.gex_is_long == is_long, "is_long is %d", (int)info.gex_is_long);
    /* one query at a time */
    for (int i = 0; i < 5; i++) {
        memset(&info, 0xEE, sizeof info);
        got = gex_Token_Info(token, &info, single[i]);
        if (i < 2) CHECK(got & single[i]);
        if (got & GEX_TI_SRCRANK) CHECK(info.gex_srcrank == source);
        if (got & GEX_TI_EP) CHECK(info.gex_ep == ep);
    }
    (void)gex_Token_Info(token, &info, 0);
}

static void check_limits(gex_Token_t token, gex_Rank_t source) {
    for (unsigned n = 0; n <= gex_AM_MaxArgs(); n += 4) {
        gex_Event_t event;
        CHECK(gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, n) ==
              gex_AM_MaxReplyMedium(tm, source, GEX_EVENT_NOW, 0, n));
        CHECK(gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, n) ==
              gex_AM_MaxReplyLong(tm, source, GEX_EVENT_NOW, 0, n));
        CHECK(gex_Token_MaxReplyMedium(token, &event, GEX_FLAG_IMMEDIATE, n) ==
              gex_AM_MaxReplyMedium(tm, source, &event, GEX_FLAG_IMMEDIATE, n));
        CHECK(gex_Token_MaxReplyMedium(token, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, n) ==
              gex_AM_MaxReplyMedium(tm, source, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, n));
        CHECK(gex_Token_MaxReplyLong(token, &event, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, n) ==
              gex_AM_MaxReplyLong(tm, source, &event, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, n));
        CHECK(gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, n) >= gex_AM_LUBReplyMedium());
        CHECK(gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, n) >= gex_AM_LUBReplyLong());
    }
}

static void on_request_short(gex_Token_t token, gex_AM_Arg_t source) {
    check_token(token, (gex_Rank_t)source, 0, 1, 0);
    check_limits(token, (gex_Rank_t)source);
    gex_AM_ReplyShort1(token, reply_short, 0, (gex_AM_Arg_t)me);
}
static void on_request_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t source) {
    check_token(token, (gex_Rank_t)source, 1, 1, 0);
    CHECK(bytes == 4 && memcmp(buffer, "abcd", 4) == 0);
    gex_AM_ReplyMedium1(token, reply_medium, buffer, bytes, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
}
static void on_request_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t source) {
    check_token(token, (gex_Rank_t)source, 2, 1, 1);
    CHECK(bytes == 0);
    gex_AM_ReplyLong1(token, reply_long, NULL, 0, buffer, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
}
static void on_request_medlong(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t source,
                               gex_AM_Arg_t is_long) {
    check_token(token, (gex_Rank_t)source, 6, 1, (int)is_long);
    gex_AM_ReplyShort1(token, reply_short, 0, (gex_AM_Arg_t)me);
}
static void on_reply_short(gex_Token_t token, gex_AM_Arg_t source) {
    check_token(token, (gex_Rank_t)source, 3, 0, 0);
    ATOMIC_ADD(&done, 1);
}
static void on_reply_medium(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t source) {
    CHECK(bytes == 4 && memcmp(buffer, "abcd", 4) == 0);
    check_token(token, (gex_Rank_t)source, 4, 0, 0);
    ATOMIC_ADD(&done, 1);
}
static void on_reply_long(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t source) {
    CHECK(bytes == 0);
    check_token(token, (gex_Rank_t)source, 5, 0, 1);
    ATOMIC_ADD(&done, 1);
}

int main(int argc, char **argv) {
    gex_AM_Entry_t table[] = {
        {0, (gex_AM_Fn_t)on_request_short, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_request_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_request_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_reply_short, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_reply_medium, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_reply_long, GEX_FLAG_AM_REQREP | GEX_FLAG_AM_LONG, 1, NULL, NULL},
        {0, (gex_AM_Fn_t)on_request_medlong, GEX_FLAG_AM_REQREP | GEX_FLAG_AM_MEDLONG, 2, NULL, NULL},
    };
    int expected = 0;
    test_init("am_token", &argc, &argv);
    for (int i = 0; i < 7; i++) {
        table[i].gex_index = (gex_AM_Index_t)(request_short + i);
        table[i].gex_cdata = &cdata[i];
        table[i].gex_name = names[i];
    }
    OK(gex_EP_RegisterHandlers(ep, table, 7));
    test_attach(65536);
    barrier();
    for (int round = 0; round < 10; round++) {
        for (gex_Rank_t r = 0; r < np; r++) {
            gex_AM_RequestShort1(tm, r, request_short, 0, (gex_AM_Arg_t)me);
            gex_AM_RequestMedium1(tm, r, request_medium, (void *)"abcd", 4, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
            gex_AM_RequestLong1(tm, r, request_long, NULL, 0, seg_of(r), GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me);
            gex_AM_RequestMedium2(tm, r, request_medlong, (void *)"x", 1, GEX_EVENT_NOW, 0, (gex_AM_Arg_t)me, 0);
            gex_AM_RequestLong2(tm, r, request_medlong, (void *)"x", 1, seg_of(r) + me % 4096, GEX_EVENT_NOW, 0,
                                (gex_AM_Arg_t)me, 1);
        }
        expected += 5 * (int)np;
        GASNET_BLOCKUNTIL(ATOMIC_GET(&done) == expected);
    }
    barrier();
    return test_finish();
}

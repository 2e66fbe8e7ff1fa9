/* Active Messages of all categories, as requests and replies, with fixed and prepared payload. Each
 * is checked where it arrives. */
#include "selftest.h"

#include <string.h>

enum { MEDIUM = 150, LONG, MEDIUM_REPLY, LONG_REPLY, ASK, SHORT_FULL };
enum form {
    MEDIUM_NOW,
    MEDIUM_EVENT,
    MEDIUM_GROUP,
    MEDIUM_REPLIED,
    MEDIUM_PREPARED,
    MEDIUM_PREPARED_CLIENT,
    MEDIUM_REPLY_PREPARED,
    LONG_NOW,
    LONG_EVENT,
    LONG_GROUP,
    LONG_REPLIED,
    LONG_PREPARED,
    LONG_PREPARED_CLIENT,
    LONG_REPLY_PREPARED,
    FORMS
};
static const char *const names[FORMS] = {
    "Medium request",
    "Medium request with an event for local completion",
    "Medium request with GEX_EVENT_GROUP",
    "Medium reply",
    "prepared Medium request in the library's memory",
    "prepared Medium request in the client's memory",
    "prepared Medium reply",
    "Long request",
    "Long request with an event for local completion",
    "Long request with GEX_EVENT_GROUP",
    "Long reply",
    "prepared Long request in the library's memory",
    "prepared Long request in the client's memory",
    "prepared Long reply",
};
const int some_long = LONG_NOW;
enum { OTHER = 0x55, REPLIES = 26000 / LINE * LINE };

/* ---- at the receiver ---- */

static struct finding of_medium(const void *payload, size_t bytes, gex_AM_Arg_t seed, gex_AM_Arg_t expected) {
    struct finding found = {0, 0, 0, 0};
    check(&found, payload, bytes, (uint32_t)seed, 0);
    if (bytes != (uint32_t)expected && found.wrong == 0) { /* a byte beyond the payload */
        found.wrong = 1;
        found.first = (long)bytes;
    }
    return found;
}
static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t number, gex_AM_Arg_t seed,
                      gex_AM_Arg_t expected) {
    send_answer(token, number, of_medium(payload, bytes, seed, expected));
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t number, gex_AM_Arg_t seed,
                    gex_AM_Arg_t expected) {
    struct finding found = landed(part_offset(payload), (uint32_t)expected, (uint32_t)seed);
    if (bytes != (uint32_t)expected && found.wrong == 0) found.wrong = 1;
    send_answer(token, number, found);
}
static void on_medium_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t number, gex_AM_Arg_t seed,
                            gex_AM_Arg_t expected) {
    (void)token;
    answer(number, of_medium(payload, bytes, seed, expected));
}
static void on_long_reply(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t number, gex_AM_Arg_t seed,
                          gex_AM_Arg_t expected) {
    struct finding found = landed(part_offset(payload), (uint32_t)expected, (uint32_t)seed);
    (void)token;
    if (bytes != (uint32_t)expected && found.wrong == 0) found.wrong = 1;
    answer(number, found);
}

/* Replies as requested. Odd alignments reply from the segment, the others from private memory. */
static void on_ask(gex_Token_t token, gex_AM_Arg_t number, gex_AM_Arg_t seed, gex_AM_Arg_t expected, gex_AM_Arg_t form,
                   gex_AM_Arg_t to, gex_AM_Arg_t align) {
    size_t bytes = (uint32_t)expected, offset = (uint32_t)to;
    char *from = memory_of(align % 2 ? SEGMENT : HEAP) + most_bytes() / 2 + GUARD + align % LINE, *there;
    gex_Token_Info_t info;
    gex_AM_SrcDesc_t prepared;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    there = part_of(info.gex_srcrank, LANDING) + offset;
    switch ((int)form) {
        case MEDIUM_REPLIED:
            fill(from, bytes, (uint32_t)seed, 0);
            gex_AM_ReplyMedium3(token, MEDIUM_REPLY, from, bytes, GEX_EVENT_NOW, 0, number, seed, expected);
            break;
        case MEDIUM_REPLY_PREPARED:
            prepared = gex_AM_PrepareReplyMedium(token, NULL, bytes, bytes, NULL, 0, 3);
            fill(gex_AM_SrcDescAddr(prepared), bytes, (uint32_t)seed, 0);
            gex_AM_CommitReplyMedium3(prepared, MEDIUM_REPLY, bytes, number, seed, expected);
            break;
        case LONG_REPLIED:
            fill(from, bytes, (uint32_t)seed, offset);
            gex_AM_ReplyLong3(token, LONG_REPLY, from, bytes, there, GEX_EVENT_NOW, 0, number, seed, expected);
            break;
        default:
            prepared = gex_AM_PrepareReplyLong(token, NULL, bytes, bytes, there, NULL, 0, 3);
            fill(gex_AM_SrcDescAddr(prepared), bytes, (uint32_t)seed, offset);
            gex_AM_CommitReplyLong3(prepared, LONG_REPLY, bytes, there, number, seed, expected);
    }
}

#define FULL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define PARAMETER(i) , gex_AM_Arg_t a##i
#define NAME(i) a##i,
/* The first argument is the number, the second the seed of the others. */
static void on_full(gex_Token_t token FULL(PARAMETER)) {
    const gex_AM_Arg_t args[] = {FULL(NAME)};
    struct finding found = {0, 0, 0, 0};
    uint32_t seed = (uint32_t)a1;
    int i;
    for (i = 2; i < 16; i++) {
        if (args[i] == (gex_AM_Arg_t)(seed + (uint32_t)i * 0x01234567u)) continue;
        if (found.wrong++ == 0) found.first = i;
    }
    send_answer(token, a0, found);
}
#define REST(i) , (gex_AM_Arg_t)(seed + (i)*0x01234567u)
#define THE_REST \
    REST(2)      \
    REST(3) REST(4) REST(5) REST(6) REST(7) REST(8) REST(9) REST(10) REST(11) REST(12) REST(13) REST(14) REST(15)

/* ---- at the sender ---- */

static size_t client_most(int is_long, gex_Rank_t peer) {
    gex_Flags_t flag = GEX_FLAG_AM_PREPARE_LEAST_CLIENT;
    return is_long ? gex_AM_MaxRequestLong(tm, peer, GEX_EVENT_NOW, flag, 3)
                   : gex_AM_MaxRequestMedium(tm, peer, GEX_EVENT_NOW, flag, 3);
}

size_t most_of_message(int form, gex_Rank_t peer) {
    size_t most;
    const gex_Flags_t least = GEX_FLAG_AM_PREPARE_LEAST_ALLOC;
    gex_Event_t event;
    switch (form) {
        case MEDIUM_NOW: most = gex_AM_MaxRequestMedium(tm, peer, GEX_EVENT_NOW, 0, 3); break;
        case MEDIUM_EVENT: most = gex_AM_MaxRequestMedium(tm, peer, &event, 0, 3); break;
        case MEDIUM_GROUP: most = gex_AM_MaxRequestMedium(tm, peer, GEX_EVENT_GROUP, 0, 3); break;
        case MEDIUM_REPLIED: most = gex_AM_MaxReplyMedium(tm, peer, GEX_EVENT_NOW, 0, 3); break;
        case MEDIUM_PREPARED: most = gex_AM_MaxRequestMedium(tm, peer, NULL, least, 3); break;
        case MEDIUM_REPLY_PREPARED: most = gex_AM_MaxReplyMedium(tm, peer, NULL, least, 3); break;
        case LONG_NOW: most = gex_AM_MaxRequestLong(tm, peer, GEX_EVENT_NOW, 0, 3); break;
        case LONG_EVENT: most = gex_AM_MaxRequestLong(tm, peer, &event, 0, 3); break;
        case LONG_GROUP: most = gex_AM_MaxRequestLong(tm, peer, GEX_EVENT_GROUP, 0, 3); break;
        case LONG_REPLIED: most = gex_AM_MaxReplyLong(tm, peer, GEX_EVENT_NOW, 0, 3); break;
        case LONG_PREPARED: most = gex_AM_MaxRequestLong(tm, peer, NULL, least, 3); break;
        case LONG_REPLY_PREPARED: most = gex_AM_MaxReplyLong(tm, peer, NULL, least, 3); break;
        default: most = client_most(form == LONG_PREPARED_CLIENT, peer);
    }
    /* the replies' private memory is the upper half of the sender's */
    return most < most_bytes() / 2 - AROUND ? most : most_bytes() / 2 - AROUND;
}

static int is_reply(int form) {
    return form == MEDIUM_REPLIED || form == MEDIUM_REPLY_PREPARED || form == LONG_REPLIED ||
           form == LONG_REPLY_PREPARED;
}

/* Prepares and commits; `from` is NULL for the library's memory. */
static void prepared(int form, char *from, gex_Rank_t peer, char *to, size_t bytes, uint64_t seed, size_t position,
                     int number) {
    char *own = form == MEDIUM_PREPARED_CLIENT || form == LONG_PREPARED_CLIENT ? from : NULL;
    gex_Event_t *when = own != NULL ? GEX_EVENT_NOW : NULL;
    gex_AM_Arg_t s = (gex_AM_Arg_t)seed, n = (gex_AM_Arg_t)bytes;
    gex_AM_SrcDesc_t description;
    if (form < LONG_NOW) description = gex_AM_PrepareRequestMedium(tm, peer, own, bytes, bytes, when, 0, 3);
    else description = gex_AM_PrepareRequestLong(tm, peer, own, bytes, bytes, to, when, 0, 3);
    if (own == NULL) fill(gex_AM_SrcDescAddr(description), bytes, seed, position);
    if (form < LONG_NOW) gex_AM_CommitRequestMedium3(description, MEDIUM, bytes, number, s, n);
    else gex_AM_CommitRequestLong3(description, LONG, bytes, to, number, s, n);
}

void message(int form, struct local local, gex_Rank_t peer, struct size size, unsigned align) {
    uint64_t seed = next_seed();
    int number = expect_answer(), is_long = form >= LONG_NOW;
    size_t bytes = size.bytes, offset = place_for(seed, align), position = is_long ? offset : 0;
    char *from = local.at + GUARD + align % LINE, *to = part_of(peer, LANDING) + offset;
    gex_AM_Arg_t s = (gex_AM_Arg_t)seed, n = (gex_AM_Arg_t)bytes;
    gex_Event_t event = GEX_EVENT_INVALID;
    struct step what = {names[form],  is_reply(form) ? NULL : memory_names[local.kind],
                        size.class,   bytes,
                        align % LINE, is_long ? align / LINE : 0,
                        peer};
    step(&what);
    if (is_reply(form)) {
        offset += most_bytes() / 2 + REPLIES; /* requests of another rank land in the lower half */
        gex_AM_RequestShort6(tm, peer, ASK, 0, number, s, n, form, (gex_AM_Arg_t)offset, (gex_AM_Arg_t)align);
        judge(&what, wait_for_answer(number));
        return;
    }
    memory_open(local.kind, local.at);
    fill(from, bytes, seed, position);
    memory_close(local.kind, local.at);
    switch (form) {
        case MEDIUM_NOW: gex_AM_RequestMedium3(tm, peer, MEDIUM, from, bytes, GEX_EVENT_NOW, 0, number, s, n); break;
        case MEDIUM_EVENT: gex_AM_RequestMedium3(tm, peer, MEDIUM, from, bytes, &event, 0, number, s, n); break;
        case MEDIUM_GROUP:
            gex_AM_RequestMedium3(tm, peer, MEDIUM, from, bytes, GEX_EVENT_GROUP, 0, number, s, n);
            break;
        case LONG_NOW: gex_AM_RequestLong3(tm, peer, LONG, from, bytes, to, GEX_EVENT_NOW, 0, number, s, n); break;
        case LONG_EVENT: gex_AM_RequestLong3(tm, peer, LONG, from, bytes, to, &event, 0, number, s, n); break;
        case LONG_GROUP: gex_AM_RequestLong3(tm, peer, LONG, from, bytes, to, GEX_EVENT_GROUP, 0, number, s, n); break;
        default: prepared(form, from, peer, to, bytes, seed, position, number);
    }
    if (event != GEX_EVENT_INVALID) gex_Event_Wait(event);
    if (form == MEDIUM_GROUP || form == LONG_GROUP) gex_NBI_Wait(GEX_EC_AM, 0);
    if (local.kind != READ_ONLY) memset(from, OTHER, bytes);
    judge(&what, wait_for_answer(number));
}

/* ---- tests ---- */

static void sizes(const struct test *test, gex_Rank_t peer, double until) {
    static const int last[FORMS] = {
        [MEDIUM_NOW] = MEDIUM_GROUP, [MEDIUM_REPLIED] = MEDIUM_REPLIED, [MEDIUM_PREPARED] = MEDIUM_REPLY_PREPARED,
        [LONG_NOW] = LONG_GROUP,     [LONG_REPLIED] = LONG_REPLIED,     [LONG_PREPARED] = LONG_REPLY_PREPARED};
    size_t turn, passes = options.quick ? 2 : 20;
    int form = test->variant;
    for (turn = 0; turn < passes * plan_count() && now() < until; turn++) {
        int kind = turn / plan_count() % 2 == 0 ? HEAP : SEGMENT;
        struct local local = {kind, memory_of(kind)};
        message(form, local, peer, plan_size(turn, most_of_message(form, peer)), plan_alignment(turn));
        form = form < last[test->variant] ? form + 1 : test->variant;
    }
    end_turns(turn, plan_count());
}

static void shorts(const struct test *test, gex_Rank_t peer, double until) {
    int turn;
    (void)test;
    for (turn = 0; turn < 2000 && now() < until; turn++) {
        struct step s = {"Short request of 16 arguments", NULL, NULL, 0, 0, 0, peer};
        uint32_t seed = (uint32_t)next_seed();
        int number = expect_answer();
        struct finding found;
        step(&s);
        gex_AM_RequestShort16(tm, peer, SHORT_FULL, 0, number, (gex_AM_Arg_t)seed THE_REST);
        found = wait_for_answer(number);
        if (found.wrong > 0) fail(&s, "argument %ld is wrong, %zu are", found.first, found.wrong);
    }
    end_turns((size_t)turn, 2000);
}

static void by_sizes(const struct test *test) { in_turns(test, sizes, test_ends()); }
static void by_arguments(const struct test *test) { in_turns(test, shorts, test_ends()); }

void messages_setup(void) {
    enum { REQUEST = GEX_FLAG_AM_REQUEST, REPLY = GEX_FLAG_AM_REPLY };
    gex_AM_Entry_t table[] = {
        {MEDIUM, (gex_AM_Fn_t)on_medium, REQUEST | GEX_FLAG_AM_MEDIUM, 3, NULL, "medium"},
        {LONG, (gex_AM_Fn_t)on_long, REQUEST | GEX_FLAG_AM_LONG, 3, NULL, "long"},
        {MEDIUM_REPLY, (gex_AM_Fn_t)on_medium_reply, REPLY | GEX_FLAG_AM_MEDIUM, 3, NULL, "medium reply"},
        {LONG_REPLY, (gex_AM_Fn_t)on_long_reply, REPLY | GEX_FLAG_AM_LONG, 3, NULL, "long reply"},
        {ASK, (gex_AM_Fn_t)on_ask, REQUEST | GEX_FLAG_AM_SHORT, 6, NULL, "ask"},
        {SHORT_FULL, (gex_AM_Fn_t)on_full, REQUEST | GEX_FLAG_AM_SHORT, 16, NULL, "full"},
    };
    add_handlers(table, sizeof table / sizeof table[0]);
}

const struct test message_tests[] = {
    {"am-short", "Short requests and replies, all arguments", 1, 0, by_arguments, NULL},
    {"am-medium", "Medium requests of all sizes, with each kind of local completion", 2, MEDIUM_NOW, by_sizes, NULL},
    {"am-medium-reply", "Medium replies of all sizes", 1, MEDIUM_REPLIED, by_sizes, NULL},
    {"am-medium-prepared", "prepared Medium requests and replies", 2, MEDIUM_PREPARED, by_sizes, NULL},
    {"am-long", "Long requests of all sizes, from private memory and the segment", 2, LONG_NOW, by_sizes, NULL},
    {"am-long-reply", "Long replies of all sizes, from private memory and the segment", 2, LONG_REPLIED, by_sizes,
     NULL},
    {"am-long-prepared", "prepared Long requests and replies", 2, LONG_PREPARED, by_sizes, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};

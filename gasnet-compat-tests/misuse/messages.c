/* Active Messages that the specification forbids, and HSLs. Calls in the wrong place are in
 * context.c. */
#include <gasnet.h>

static void on_none(gex_Token_t token);
static void on_one(gex_Token_t token, gex_AM_Arg_t a);
static void on_payload(gex_Token_t token, void *payload, size_t bytes);
static void on_reply_only(gex_Token_t token);
static void on_keep_token(gex_Token_t token);
static void on_twice(gex_Token_t token);
static void on_bad_reply(gex_Token_t token);
static void on_hold(gex_Token_t token);
// clang-format off
#define MISUSE_HANDLERS \
    {200, (gex_AM_Fn_t)on_none, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_none"}, \
    {201, (gex_AM_Fn_t)on_one, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 1, NULL, "on_one"}, \
    {202, (gex_AM_Fn_t)on_payload, GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP, 0, NULL, "on_payload"}, \
    {203, (gex_AM_Fn_t)on_reply_only, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "on_reply_only"}, \
    {204, (gex_AM_Fn_t)on_keep_token, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_keep_token"}, \
    {205, (gex_AM_Fn_t)on_twice, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_twice"}, \
    {206, (gex_AM_Fn_t)on_bad_reply, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_bad_reply"}, \
    {207, (gex_AM_Fn_t)on_hold, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "on_hold"}
// clang-format on
#define MISUSE_HANDLER_COUNT 8
#include "misuse.h"

#define LAST (np - 1)
#define REQUEST (GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST)
static char memory[1 << 16] __attribute__((aligned(16)));
static gex_Token_t kept;
static volatile int kept_it;
static const char *case_name;
__attribute__((constructor)) static void remember_case(int argc, char **argv) { case_name = argc > 1 ? argv[1] : ""; }
static int is(const char *name) { return strcmp(case_name, name) == 0; }

static void on_none(gex_Token_t token) {}
static void on_one(gex_Token_t token, gex_AM_Arg_t a) {
    if (is("reply-limit")) (void)gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 0);
}
static void on_payload(gex_Token_t token, void *payload, size_t bytes) {}
static void on_reply_only(gex_Token_t token) {}
static void on_keep_token(gex_Token_t token) { kept = token, kept_it = 1; }
static void on_twice(gex_Token_t token) {
    gex_AM_ReplyShort1(token, 201, 0, 1);
    if (is("two-replies")) gex_AM_ReplyShort1(token, 201, 0, 1);
}
static void on_bad_reply(gex_Token_t token) {
    if (is("reply-group")) gex_AM_ReplyMedium0(token, 202, memory, 1, GEX_EVENT_GROUP, 0);
    if (is("reply-too-long"))
        gex_AM_ReplyMedium0(token, 202, memory, gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 0) + 1, GEX_EVENT_NOW,
                            0);
    if (is("reply-flags")) gex_AM_ReplyShort1(token, 201, GEX_FLAG_AD_ACQ, 1);
    if (is("reply-to-request-only")) gex_AM_ReplyShort0(token, 200, 0);
    if (is("reply-max-args")) (void)gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, 17);
    if (is("reply-committed-late"))
        gex_AM_CommitReplyMedium0(gex_AM_PrepareReplyMedium(token, memory, 4, 4, GEX_EVENT_NOW, 0, 0), 202, 5);
}
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static void on_hold(gex_Token_t token) { gex_HSL_Lock(&lock); }

static void bad_reply(void) {
    if (first()) gex_AM_RequestShort0(tm, LAST, 206, 0);
}
static void ask(gex_AM_Index_t handler) {
    if (first()) gex_AM_RequestShort0(tm, LAST, handler, 0);
}
static void two_replies(void) { ask(205); }
static void unregistered(void) { ask(250); }
static void index_low(void) { ask(5); }
static void to_reply_only(void) { ask(203); }
static void wrong_category(void) { ask(202); }
static void wrong_nargs(void) {
    if (first()) gex_AM_RequestShort2(tm, LAST, 201, 0, 1, 2);
}
static void holds_lock(void) { ask(207); }
static void token_kept(void) {
    if (first()) gex_AM_RequestShort0(tm, LAST, 204, 0);
    if (me == LAST) {
        GASNET_BLOCKUNTIL(kept_it);
        gex_AM_ReplyShort1(kept, 201, 0, 1);
    }
}
static void token_kept_info(void) {
    gex_Token_Info_t info;
    if (first()) gex_AM_RequestShort0(tm, LAST, 204, 0);
    if (me == LAST) {
        GASNET_BLOCKUNTIL(kept_it);
        (void)gex_Token_Info(kept, &info, GEX_TI_ALL);
    }
}
static void lc_defer(void) { gex_AM_RequestMedium0(tm, LAST, 202, memory, 1, GEX_EVENT_DEFER, 0); }
static void lc_null(void) { gex_AM_RequestMedium0(tm, LAST, 202, memory, 1, NULL, 0); }
static void source_null(void) { gex_AM_RequestMedium0(tm, LAST, 202, hidden(0), 1, GEX_EVENT_NOW, 0); }
static void flags(void) { gex_AM_RequestShort0(tm, LAST, 200, GEX_FLAG_AM_PREPARE_LEAST_ALLOC); }
static void flags_exclusive(void) {
    gex_AM_RequestMedium0(tm, LAST, 202, memory, 1, GEX_EVENT_NOW, GEX_FLAG_LC_COPY_YES | GEX_FLAG_LC_COPY_NO);
}
static void to_no_rank(void) { gex_AM_RequestShort0(tm, np + 5, 200, 0); }
static void to_no_endpoint(void) { gex_AM_RequestShort0(gex_TM_Pair(ep, 9), LAST, 200, 0); }
static void from_no_endpoint(void) { gex_AM_RequestShort0(gex_TM_Pair(GEX_EP_INVALID, 0), LAST, 200, 0); }
static void offset_beyond(void) {
    gex_AM_RequestMedium0(tm, LAST, 202, hidden(65536), 1, GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET);
}
static void medium_too_long(void) {
    gex_AM_RequestMedium0(tm, LAST, 202, memory, gex_AM_MaxRequestMedium(tm, LAST, GEX_EVENT_NOW, 0, 0) + 1,
                          GEX_EVENT_NOW, 0);
}
/* A request of the last rank to itself would not be verified in the release flavour. */
static void long_outside(void) {
    if (first()) gex_AM_RequestLong0(tm, LAST, 202, memory, 100, last + 65536 - 99, GEX_EVENT_NOW, 0);
}
static void long_overlap(void) { gex_AM_RequestLong0(tm, me, 202, own, 100, own + 50, GEX_EVENT_NOW, 0); }
static void max_args(void) { (void)gex_AM_MaxRequestMedium(tm, LAST, GEX_EVENT_NOW, 0, 17); }

static void prepare_least(void) {
    (void)gex_AM_PrepareRequestMedium(tm, LAST, NULL,
                                      gex_AM_MaxRequestMedium(tm, LAST, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, 0) + 1,
                                      1 << 30, NULL, 0, 0);
}
static void prepare_order(void) { (void)gex_AM_PrepareRequestMedium(tm, LAST, memory, 9, 8, GEX_EVENT_NOW, 0, 0); }
static void prepare_disposition(void) {
    (void)gex_AM_PrepareRequestMedium(tm, LAST, NULL, 1, 8, NULL, GEX_FLAG_SELF_SEG_BOUND, 0);
}
static void prepare_offset(void) {
    (void)gex_AM_PrepareRequestMedium(tm, LAST, hidden(64), 1, 8, GEX_EVENT_NOW, GEX_FLAG_SELF_SEG_OFFSET, 0);
}
static void prepare_flags(void) {
    (void)gex_AM_PrepareRequestMedium(tm, LAST, NULL, 1, 8, NULL, GEX_FLAG_AD_MY_RANK, 0);
}
static void max_least_both(void) {
    (void)gex_AM_MaxRequestMedium(tm, LAST, GEX_EVENT_NOW,
                                  GEX_FLAG_AM_PREPARE_LEAST_ALLOC | GEX_FLAG_AM_PREPARE_LEAST_CLIENT, 0);
}
static void max_flags(void) { (void)gex_AM_MaxReplyLong(tm, LAST, GEX_EVENT_NOW, GEX_FLAG_AD_MY_RANK, 0); }
static void request_of_gasnet1(void) { gasnet_AMRequestShort0(LAST, 200); }
static void prepare_lc(void) { (void)gex_AM_PrepareRequestMedium(tm, LAST, NULL, 1, 8, GEX_EVENT_NOW, 0, 0); }
static void prepare_lc_defer(void) { (void)gex_AM_PrepareRequestMedium(tm, LAST, memory, 1, 8, GEX_EVENT_DEFER, 0, 0); }
static void commit_nothing(void) { gex_AM_CommitRequestMedium0(GEX_AM_SRCDESC_NO_OP, 202, 1); }
static void commit_twice(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, LAST, memory, 1, 8, GEX_EVENT_NOW, 0, 0);
    gex_AM_CommitRequestMedium0(desc, 202, 8);
    gex_AM_CommitRequestMedium0(desc, 202, 8);
}
static gex_AM_SrcDesc_t prepared(void) {
    return gex_AM_PrepareRequestMedium(tm, LAST, memory, 8, 8, GEX_EVENT_NOW, 0, 0);
}
static void commit_too_long(void) { gex_AM_CommitRequestMedium0(prepared(), 202, 9); }
static void commit_nargs(void) { gex_AM_CommitRequestMedium1(prepared(), 202, 8, 1); }
static void commit_category(void) { gex_AM_CommitRequestLong0(prepared(), 202, 8, last); }
static void commit_elsewhere(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestLong(tm, LAST, memory, 8, 8, last, GEX_EVENT_NOW, 0, 0);
    gex_AM_CommitRequestLong0(desc, 202, 8, last + 8);
}
static void commit_index(void) { gex_AM_CommitRequestMedium0(prepared(), 5, 8); }
/* As long_outside. */
static void commit_outside(void) {
    char *to = last + 65536 - 99;
    if (!first()) return;
    gex_AM_SrcDesc_t desc =
        gex_AM_PrepareRequestLong(tm, LAST, memory, 100, 100, is("commit-outside") ? NULL : to, GEX_EVENT_NOW, 0, 0);
    gex_AM_CommitRequestLong0(desc, 202, 100, to);
}
static void commit_overlap(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestLong(tm, me, own, 100, 100, NULL, GEX_EVENT_NOW, 0, 0);
    gex_AM_CommitRequestLong0(desc, 202, 100, own + 50);
}
static void descriptor_nothing(void) { (void)gex_AM_SrcDescAddr(GEX_AM_SRCDESC_NO_OP); }
static void descriptor_spent(void) {
    gex_AM_SrcDesc_t desc = prepared();
    gex_AM_CommitRequestMedium0(desc, 202, 8);
    (void)gex_AM_SrcDescSize(desc);
}
static void commit_unwritten(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, LAST, NULL, 500, 500, NULL, 0, 0);
    gex_AM_CommitRequestMedium0(desc, 202, 500);
}
static void commit_unwritten_long(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestLong(tm, LAST, NULL, 200, 200, NULL, NULL, 0, 0);
    gex_AM_CommitRequestLong0(desc, 202, 200, last);
}
/* Shorter than the pattern, switched off, or written: no complaint. */
static void commit_fine(void) {
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, LAST, NULL, 500, 500, NULL, 0, 0);
    gex_AM_CommitRequestMedium0(desc, 202, is("commit-unwritten-off") ? 500 : 127);
    desc = gex_AM_PrepareRequestMedium(tm, LAST, NULL, 500, 500, NULL, 0, 0);
    memset(gex_AM_SrcDescAddr(desc), 0, 500);
    gex_AM_CommitRequestMedium0(desc, 202, 500);
    printf("sent\n");
}
/* The pattern itself: eight bytes of the number, from the start. */
static void commit_pattern(void) {
    uint64_t words[2];
    gex_AM_SrcDesc_t desc = gex_AM_PrepareRequestMedium(tm, LAST, NULL, 500, 500, NULL, 0, 0);
    memcpy(words, gex_AM_SrcDescAddr(desc), sizeof words);
    printf(words[0] == 4660 && words[1] == 4660 ? "the pattern\n" : "another pattern\n");
    fflush(stdout);
    gex_AM_CommitRequestMedium0(desc, 202, 16);
}

static gex_HSL_t other = GEX_HSL_INITIALIZER;
static void lock_garbage(void) {
    gex_HSL_t garbage;
    memset(&garbage, 0x5A, sizeof garbage);
    gex_HSL_Lock(&garbage);
}
static void lock_twice(void) {
    gex_HSL_Lock(&lock);
    gex_HSL_Lock(&lock);
}
static void lock_tried_twice(void) {
    gex_HSL_Lock(&lock);
    gex_HSL_Trylock(&lock);
}
static void lock_unheld(void) { gex_HSL_Unlock(&lock); }
static void lock_order(void) {
    gex_HSL_Lock(&lock);
    gex_HSL_Lock(&other);
    gex_HSL_Unlock(&lock);
}
static void lock_destroyed(void) {
    gex_HSL_Destroy(&lock);
    gex_HSL_Lock(&lock);
}
static void lock_destroyed_twice(void) {
    gex_HSL_Destroy(&lock);
    gex_HSL_Destroy(&lock);
}
static void lock_destroy_held(void) {
    gex_HSL_Lock(&lock);
    gex_HSL_Destroy(&lock);
}
static void register_one(gex_AM_Index_t index, gex_AM_Fn_t function, gex_Flags_t flags, unsigned nargs) {
    gex_AM_Entry_t entry = {.gex_index = index, .gex_fnptr = function, .gex_flags = flags, .gex_nargs = nargs};
    gex_System_SetVerboseErrors(1);
    if (gex_EP_RegisterHandlers(ep, &entry, 1) != GASNET_OK) printf("refused\n");
}
static void register_taken(void) { register_one(200, (gex_AM_Fn_t)on_none, REQUEST, 0); }
static void register_low(void) { register_one(7, (gex_AM_Fn_t)on_none, REQUEST, 0); }
static void register_null(void) { register_one(230, NULL, REQUEST, 0); }
static void register_nargs(void) { register_one(230, (gex_AM_Fn_t)on_none, REQUEST, 17); }
static void register_flags(void) { register_one(230, (gex_AM_Fn_t)on_none, 0x100, 0); }

#define REFUSED "=gex_EP_RegisterHandlers: .*refused\\n"
#define DOES_NOT_FIT "does not fit what was prepared"
const misuse_case_t misuse_cases[] = {
    {"two-replies", "debug", 2, "", "this request was answered already", two_replies},
    {"unregistered", "any", 2, "", "for handler 250, but no handler is registered there", unregistered},
    {"index-low", "any", 2, "", "5 is not a client handler index", index_low},
    {"to-reply-only", "debug", 2, "", "handler 203 \\(on_reply_only\\), which was registered with flags 0x11",
     to_reply_only},
    {"wrong-category", "debug", 2, "",
     "AM Short Request with 0 arguments came from rank 0 for handler 202 \\(on_payload\\)", wrong_category},
    {"wrong-nargs", "debug", 2, "", "with 2 arguments came from rank 0 for handler 201 \\(on_one\\).* for 1 arguments",
     wrong_nargs},
    {"handler-keeps-lock", "debug", 2, "", "AM handler 207 returned while it holds a handler-safe lock", holds_lock},
    {"token-kept", "debug", 2, "", "gex_AM_Reply: 0x[0-9a-f]+ is not the token of the handler", token_kept},
    {"token-kept-info", "debug", 2, "", "gex_Token_Info: 0x[0-9a-f]+ is not the token of the handler", token_kept_info},
    {"am-lc-defer", "debug", 2, "", "lc_opt must not be GEX_EVENT_DEFER in this call", lc_defer},
    {"am-lc-null", "debug", 2, "", "lc_opt must not be NULL in this call", lc_null},
    {"am-source-null", "debug", 2, "", "the address of a payload of 1 bytes is null", source_null},
    {"am-flags", "debug", 2, "", "flags 0x1000 are not for this call", flags},
    {"am-flags-exclusive", "debug", 2, "", "GEX_FLAG_LC_COPY_YES and _NO exclude each other", flags_exclusive},
    {"am-rank", "any", 2, "", "rank 7 is not in", to_no_rank},
    {"am-endpoint", "any", 2, "", "endpoint 9, which does not exist", to_no_endpoint},
    {"am-from-no-endpoint", "any", 2, "", "gex_TM_Pair was given GEX_EP_INVALID", from_no_endpoint},
    {"am-offset-beyond", "debug", 2, "", "promises", offset_beyond},
    {"am-medium-too-long", "any", 2, "", "exceeds the limit of \\d+ \\(gex_AM_MaxRequestMedium\\)", medium_too_long},
    {"am-long-outside", "any", 2, "", "segment", long_outside},
    {"am-long-overlap", "debug", 2, "", "source and destination of 100 bytes overlap", long_overlap},
    {"am-max-args", "debug", 2, "", "17 arguments; 16 is the most", max_args},
    {"reply-group", "debug", 2, "", "lc_opt must not be GEX_EVENT_GROUP in this call", bad_reply},
    {"reply-too-long", "any", 2, "", "exceeds the limit of \\d+ \\(gex_AM_MaxReplyMedium\\)", bad_reply},
    {"reply-flags", "debug", 2, "", "flags 0x4 are not for this call", bad_reply},
    {"reply-to-request-only", "debug", 2, "",
     "AM Short Reply with 0 arguments came from rank 1 for handler 200 \\(on_none\\)", bad_reply},
    {"reply-committed-late", "any", 2, "", DOES_NOT_FIT, bad_reply},
    {"reply-max-args", "debug", 2, "", "gex_Token_MaxReplyLong: 17 arguments; 16 is the most", bad_reply},
    {"reply-limit", "debug", 2, "", "gex_Token_MaxReplyMedium was called in a reply handler", two_replies},
    {"prepare-least", "any", 2, "", "least may not exceed most nor", prepare_least},
    {"prepare-order", "any", 2, "", "least may not exceed most nor", prepare_order},
    {"prepare-disposition", "debug", 2, "", "gex_AM_PrepareRequest: GEX_FLAG_SELF_SEG_\\* need a client_buf",
     prepare_disposition},
    {"prepare-offset", "any", 2, "", "GEX_FLAG_SELF_SEG_OFFSET is not allowed here", prepare_offset},
    {"prepare-flags", "debug", 2, "", "gex_AM_PrepareRequest: flags 0x20 are not for this call", prepare_flags},
    {"max-least-both", "debug", 2, "",
     "gex_AM_MaxRequestMedium: GEX_FLAG_AM_PREPARE_LEAST_CLIENT and _ALLOC exclude each other", max_least_both},
    {"max-flags", "debug", 2, "", "gex_AM_MaxReplyLong: flags 0x20 are not for this call", max_flags},
    {"gasnet1-request", "debug", 2, "", "gasnet_AMRequestShort0 is a call of GASNet-1.*GEX_FLAG_USES_GASNET1",
     request_of_gasnet1},
    {"prepare-lc", "debug", 2, "", "lc_opt must be NULL when client_buf is", prepare_lc},
    {"prepare-lc-defer", "debug", 2, "", "lc_opt must not be GEX_EVENT_DEFER", prepare_lc_defer},
    {"commit-nothing", "any", 2, "", "gex_AM_Commit was given GEX_AM_SRCDESC_NO_OP", commit_nothing},
    {"commit-twice", "any", 2, "", "was committed or cancelled already", commit_twice},
    {"commit-too-long", "any", 2, "", DOES_NOT_FIT, commit_too_long},
    {"commit-nargs", "any", 2, "", DOES_NOT_FIT, commit_nargs},
    {"commit-category", "any", 2, "", DOES_NOT_FIT, commit_category},
    {"commit-elsewhere", "any", 2, "", "dest_addr 0x[0-9a-f]+ differs from that at Prepare", commit_elsewhere},
    {"commit-index", "any", 2, "", "gex_AM_CommitRequestMedium0: 5 is not a client handler index", commit_index},
    {"commit-outside", "any", 2, "", "rank 0: the remote range .* is not in the segment of rank 1", commit_outside},
    {"commit-outside-named", "any", 2, "", "rank 0: the remote range .* is not in the segment of rank 1",
     commit_outside},
    {"commit-overlap", "debug", 2, "", "source and destination of 100 bytes overlap", commit_overlap},
    {"descriptor-nothing", "debug", 2, "", "gex_AM_SrcDescAddr was given GEX_AM_SRCDESC_NO_OP", descriptor_nothing},
    {"descriptor-spent", "debug", 2, "",
     "gex_AM_SrcDescSize was given a descriptor that was committed or cancelled already", descriptor_spent},
    {"commit-unwritten", "debug", 2, "", "the payload was not written.*GASNET_SD_INITVAL", commit_unwritten},
    {"commit-unwritten-long", "debug", 2, "", "the payload was not written", commit_unwritten_long},
    {"commit-unwritten-short", "debug", 2, "GASNET_SD_INITLEN=128", "=sent\\n", commit_fine},
    {"commit-unwritten-off", "debug", 2, "GASNET_SD_INIT=0", "=sent\\n", commit_fine},
    {"commit-pattern", "debug", 2, "GASNET_SD_INITVAL=0x1234 GASNET_SD_INITLEN=16",
     "the pattern.*the payload was not written", commit_pattern},
    {"commit-pattern-one", "debug", 2, "GASNET_SD_INITVAL=0x1234 GASNET_SD_INITLEN=0", "the payload was not written",
     commit_pattern},
    {"lock-taken-twice", "debug", 2, "", "holds the handler-safe lock at 0x[0-9a-f]+ already", lock_twice},
    {"lock-tried-twice", "debug", 2, "", "handler-safe lock", lock_tried_twice},
    {"lock-unheld", "debug", 2, "", "does not hold the handler-safe lock", lock_unheld},
    {"lock-out-of-order", "debug", 2, "", "is not the last one that this thread locked", lock_order},
    {"lock-destroyed", "debug", 2, "", "was destroyed", lock_destroyed},
    {"lock-destroyed-twice", "debug", 2, "", "handler-safe lock", lock_destroyed_twice},
    {"lock-destroy-held", "debug", 2, "", "gex_HSL_Destroy: .* is held", lock_destroy_held},
    {"lock-not-initialised", "debug", 2, "", "gex_HSL_Lock: .* is not initialised", lock_garbage},
    {"register-taken", "any", 2, "", REFUSED, register_taken},
    {"register-low", "any", 2, "", REFUSED, register_low},
    {"register-null", "any", 2, "", REFUSED, register_null},
    {"register-nargs", "any", 2, "", REFUSED, register_nargs},
    {"register-flags", "any", 2, "", REFUSED, register_flags},
    {NULL, NULL, 0, NULL, NULL, NULL}};

MISUSE_MAIN

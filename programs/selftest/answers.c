/* Requests that the other rank answers. The main thread has one such request at a time. */
#include "selftest.h"

enum { LANDED = 140, ANSWER };

static struct {
    int last, done; /* numbers of the last request, and of the last answer */
    struct finding found;
} state;

int expect_answer(void) { return ++state.last; }

void answer(int number, struct finding found) {
    state.found = found;
    __atomic_store_n(&state.done, number, __ATOMIC_RELEASE);
}

struct finding wait_for_answer(int number) {
    GASNET_BLOCKUNTIL(__atomic_load_n(&state.done, __ATOMIC_ACQUIRE) == number);
    return state.found;
}

static void on_answer(gex_Token_t token, gex_AM_Arg_t number, gex_AM_Arg_t wrong, gex_AM_Arg_t first, gex_AM_Arg_t is,
                      gex_AM_Arg_t expected) {
    struct finding found = {(size_t)(uint32_t)wrong, first, (unsigned char)is, (unsigned char)expected};
    (void)token;
    answer(number, found);
}

void send_answer(gex_Token_t token, int number, struct finding found) {
    gex_AM_ReplyShort5(token, ANSWER, 0, number, (gex_AM_Arg_t)found.wrong, (gex_AM_Arg_t)found.first, found.is,
                       found.expected);
}

static void on_landed(gex_Token_t token, gex_AM_Arg_t number, gex_AM_Arg_t offset, gex_AM_Arg_t bytes,
                      gex_AM_Arg_t seed) {
    send_answer(token, number, landed((uint32_t)offset, (uint32_t)bytes, (uint32_t)seed));
}

struct finding landed_at(gex_Rank_t peer, size_t offset, size_t bytes, uint64_t seed) {
    int number = expect_answer();
    gex_AM_RequestShort4(tm, peer, LANDED, 0, number, (gex_AM_Arg_t)offset, (gex_AM_Arg_t)bytes, (gex_AM_Arg_t)seed);
    return wait_for_answer(number);
}

void judge(const struct step *s, struct finding found) {
    const char *where = found.first < 0 || found.first >= (long)s->bytes ? " outside of the data" : "";
    if (found.wrong == 0) return;
    fail(s, "byte %ld%s is 0x%02x instead of 0x%02x, %zu bytes are wrong", found.first, where, found.is, found.expected,
         found.wrong);
}

void answers_setup(void) {
    gex_AM_Entry_t table[] = {
        {LANDED, (gex_AM_Fn_t)on_landed, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 4, NULL, "landed"},
        {ANSWER, (gex_AM_Fn_t)on_answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 5, NULL, "answer"},
    };
    add_handlers(table, sizeof table / sizeof table[0]);
}

// The buffer that a Medium handler gets is aligned for any type of the language, at every number of
// arguments and for requests and replies (GASNet 1.8, "suitably aligned to hold any datatype").
// NP: 1 2 4
// TIMEOUT: 60
#include "arguments.h"
#include "check.h"

#include <stddef.h>

/* The strictest fundamental alignment, found without C11. */
struct Widest {
    char c;
    union {
        long double ld;
        long long ll;
        void *p;
        double d;
    } u;
};
#define WIDEST offsetof(struct Widest, u)

enum { BASE = 140 };
static int count;

#define HANDLER(n)                                                                                                     \
    static void request_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                                \
        VERIFY_##n(n);                                                                                                 \
        CHECKF((uintptr_t)buffer % WIDEST == 0, "request, %d arguments, %zu bytes: %p", n, bytes, buffer);             \
        CALL(gex_AM_ReplyMedium##n, token, (gex_AM_Index_t)(BASE + 20 + n), buffer, bytes, GEX_EVENT_NOW, 0 ARGS_##n); \
    }                                                                                                                  \
    static void reply_##n(gex_Token_t token, void *buffer, size_t bytes PARAMS_##n) {                                  \
        VERIFY_##n(n);                                                                                                 \
        CHECKF((uintptr_t)buffer % WIDEST == 0, "reply, %d arguments, %zu bytes: %p", n, bytes, buffer);               \
        ATOMIC_ADD(&count, 1);                                                                                         \
    }
FOR_ALL_COUNTS(HANDLER)

#define REGISTER(n)                                                                                                   \
    register_handler((gex_AM_Index_t)(BASE + n), (gex_AM_Fn_t)request_##n, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM,  \
                     n);                                                                                              \
    register_handler((gex_AM_Index_t)(BASE + 20 + n), (gex_AM_Fn_t)reply_##n, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, \
                     n);

#define SEND(n) \
    OK(CALL(gex_AM_RequestMedium##n, tm, peer, (gex_AM_Index_t)(BASE + n), data, bytes, GEX_EVENT_NOW, 0 ARGS_##n));

int main(int argc, char **argv) {
    static const size_t sizes[] = {1, 8, 16, 33, 511};
    static char data[512];
    int expected = 0;
    test_init("am_alignment", &argc, &argv);
    FOR_ALL_COUNTS(REGISTER)
    barrier();
    for (gex_Rank_t hop = 0; hop < np && hop < 4; hop++) {
        for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            size_t bytes = sizes[i];
            gex_Rank_t peer = (me + hop) % np;
            FOR_ALL_COUNTS(SEND)
            expected += 17;
            GASNET_BLOCKUNTIL(ATOMIC_GET(&count) == expected);
        }
    }
    barrier();
    return test_finish();
}

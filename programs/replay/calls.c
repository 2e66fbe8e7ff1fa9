/* Active Messages with a number of arguments that is known at run time, and their handlers. */
#include "replay.h"

#define EACH(X) FOUR(X, 1, 2, 3, 4) FOUR(X, 5, 6, 7, 8) FOUR(X, 9, 10, 11, 12) FOUR(X, 13, 14, 15, 16)
#define FOUR(X, a, b, c, d) X(a, P##a, A##a) X(b, P##b, A##b) X(c, P##c, A##c) X(d, P##d, A##d)
#define A1 first
#define A2 A1, 1
#define A3 A2, 2
#define A4 A3, 3
#define A5 A4, 4
#define A6 A5, 5
#define A7 A6, 6
#define A8 A7, 7
#define A9 A8, 8
#define A10 A9, 9
#define A11 A10, 10
#define A12 A11, 11
#define A13 A12, 12
#define A14 A13, 13
#define A15 A14, 14
#define A16 A15, 15
#define P(number) gex_AM_Arg_t a##number __attribute__((unused))
#define P1 gex_AM_Arg_t first
#define P2 P1, P(1)
#define P3 P2, P(2)
#define P4 P3, P(3)
#define P5 P4, P(4)
#define P6 P5, P(5)
#define P7 P6, P(6)
#define P8 P7, P(7)
#define P9 P8, P(8)
#define P10 P9, P(9)
#define P11 P10, P(10)
#define P12 P11, P(11)
#define P13 P12, P(12)
#define P14 P13, P(13)
#define P15 P14, P(14)
#define P16 P15, P(15)

#define HANDLER(n, parameters, arguments)                                                    \
    static void short_##n(gex_Token_t token, parameters) { arrived(token, NULL, 0, first); } \
    static void payload_##n(gex_Token_t token, void *payload, size_t bytes, parameters) {    \
        arrived(token, payload, bytes, first);                                               \
    }
EACH(HANDLER)

#define ENTRY(n, parameters, arguments) {(gex_AM_Fn_t)short_##n, (gex_AM_Fn_t)payload_##n},
gex_AM_Fn_t handler_for(const struct form *form) {
    static const gex_AM_Fn_t functions[][2] = {EACH(ENTRY)};
    return functions[form->arguments - 1][!form->is_short];
}

#define REQUEST_SHORTS(n, parameters, arguments) \
    case n:                                      \
        return gex_AM_RequestShort##n(tm, m->target, m->handler, m->flags, arguments);
#define REQUEST_MEDIUMS(n, parameters, arguments)                                                                \
    case n:                                                                                                      \
        return gex_AM_RequestMedium##n(tm, m->target, m->handler, m->payload, m->bytes, GEX_EVENT_NOW, m->flags, \
                                       arguments);
#define REQUEST_LONGS(n, parameters, arguments)                                                                       \
    case n:                                                                                                           \
        return gex_AM_RequestLong##n(tm, m->target, m->handler, m->payload, m->bytes, m->to, GEX_EVENT_NOW, m->flags, \
                                     arguments);
#define REPLY_SHORTS(n, parameters, arguments) \
    case n:                                    \
        return gex_AM_ReplyShort##n(m->token, m->handler, 0, arguments);
#define REPLY_MEDIUMS(n, parameters, arguments) \
    case n:                                     \
        return gex_AM_ReplyMedium##n(m->token, m->handler, m->payload, m->bytes, GEX_EVENT_NOW, 0, arguments);
#define REPLY_LONGS(n, parameters, arguments) \
    case n:                                   \
        return gex_AM_ReplyLong##n(m->token, m->handler, m->payload, m->bytes, m->to, GEX_EVENT_NOW, 0, arguments);
#define FUNCTION(name, cases)                                      \
    static int name(const struct message *m, gex_AM_Arg_t first) { \
        switch (m->arguments) {                                    \
            EACH(cases)                                            \
            default: return -1;                                    \
        }                                                          \
    }
FUNCTION(request_short, REQUEST_SHORTS)
FUNCTION(request_medium, REQUEST_MEDIUMS)
FUNCTION(request_long, REQUEST_LONGS)
FUNCTION(reply_short, REPLY_SHORTS)
FUNCTION(reply_medium, REPLY_MEDIUMS)
FUNCTION(reply_long, REPLY_LONGS)

int send_message(const struct message *m, gex_AM_Arg_t first) {
    switch (m->kind) {
        case REQUEST_SHORT: return request_short(m, first);
        case REQUEST_MEDIUM: return request_medium(m, first);
        case REQUEST_LONG: return request_long(m, first);
        case REPLY_SHORT: return reply_short(m, first);
        case REPLY_MEDIUM: return reply_medium(m, first);
        default: return reply_long(m, first);
    }
}

// A C++ exception leaves a handler, by way of a request or a reply. test_misuse.py expects a
// message that names the handler.
#include <gasnetex.h>

#include <stdexcept>

#include <unistd.h>

static void on_throw(gex_Token_t) { throw std::runtime_error("out of a handler"); }
static void on_ask(gex_Token_t token) { gex_AM_ReplyShort0(token, 200, 0); }

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    alarm(40);
    gex_Client_Init(&client, &ep, &tm, "THROWS", &argc, &argv, 0);
    alarm(40);
    gex_AM_Entry_t handlers[] = {
        {200, (gex_AM_Fn_t)on_throw, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, nullptr, "the_throwing_handler"},
        {201, (gex_AM_Fn_t)on_ask, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, nullptr, "on_ask"}};
    gex_EP_RegisterHandlers(ep, handlers, 2);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    if (gex_TM_QueryRank(tm) == 0)
        gex_AM_RequestShort0(tm, gex_TM_QuerySize(tm) - 1, static_cast<gex_AM_Index_t>(argc > 1 ? 201 : 200), 0);
    try {
        for (;;) gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    } catch (const std::exception &) {
        _exit(98); /* it must not come through the library */
    }
}

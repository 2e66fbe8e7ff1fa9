// Handlers as lambdas, static members and template functions; arguments by several C++ types;
// statics of classes.
// NP: 1 2 4
// TIMEOUT: 60
// FLAGS: -std=c++11
#include "check.h"

#include <atomic>
#include <cstdint>
#include <functional>

namespace {

std::atomic<int> lambdas{0}, members{0}, templates{0};

struct Counter {
    static void handler(gex_Token_t, gex_AM_Arg_t a, gex_AM_Arg_t b) {
        CHECK(a == -1 && b == 2);
        members++;
    }
};

template <int Expected> void templated(gex_Token_t token, gex_AM_Arg_t value) {
    CHECK(value == Expected);
    (void)token;
    templates++;
}

/* A static whose constructor runs before main and whose destructor runs at exit, after GASNet. */
struct Static {
    std::function<int()> answer = [] { return 42; };
    ~Static() { answer = nullptr; }
};
Static global;

enum Handler : gex_AM_Index_t { Lambda = 200, Member, Template };
enum class Colour : std::int32_t { Red = 7 };

} // namespace

int main(int argc, char **argv) {
    test_init("lambda_handlers", &argc, &argv);
    auto lambda = [](gex_Token_t token, gex_AM_Arg_t rank) {
        gex_Token_Info_t info;
        gex_Token_Info(token, &info, GEX_TI_SRCRANK);
        CHECK(info.gex_srcrank == static_cast<gex_Rank_t>(rank));
        lambdas++;
    };
    void (*function)(gex_Token_t, gex_AM_Arg_t) = lambda;
    gex_AM_Entry_t entries[] = {{Lambda, reinterpret_cast<gex_AM_Fn_t>(function),
                                 GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, nullptr, "lambda"},
                                {Member, reinterpret_cast<gex_AM_Fn_t>(&Counter::handler),
                                 GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, nullptr, nullptr},
                                {Template, reinterpret_cast<gex_AM_Fn_t>(&templated<7>),
                                 GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, nullptr, nullptr}};
    OK(gex_EP_RegisterHandlers(ep, entries, sizeof entries / sizeof entries[0]));
    barrier();
    CHECK(global.answer() == 42);
    for (gex_Rank_t r = 0; r < np; r++) {
        gex_AM_RequestShort(tm, r, Lambda, 0, static_cast<gex_AM_Arg_t>(me)); /* the count comes from the arguments */
        gex_AM_RequestShort2(tm, r, Member, 0, -1, 2u);
        gex_AM_RequestShort1(tm, r, Template, 0, static_cast<gex_AM_Arg_t>(Colour::Red));
    }
    const int expected = static_cast<int>(np);
    GASNET_BLOCKUNTIL(lambdas == expected && members == expected && templates == expected);
    barrier();
    return test_finish();
}

// C++ exceptions of the client around and beside GASNet calls; they may cross no GASNet frame, but
// all else is theirs.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

int handled;

/* A handler that throws and catches inside: no exception leaves it. */
void on_message(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t value) {
    gex_Token_Info_t info;
    try {
        gex_Token_Info(token, &info, GEX_TI_SRCRANK);
        if (value % 2) throw std::runtime_error(std::string(static_cast<const char *>(payload), bytes));
    } catch (const std::exception &error) {
        CHECK(std::string(error.what()) == "odd " + std::to_string(info.gex_srcrank));
    }
    ATOMIC_ADD(&handled, 1);
}

struct Region {
    Region() { gex_NBI_BeginAccessRegion(0); }
    ~Region() { gex_Event_Wait(gex_NBI_EndAccessRegion(0)); } /* also while an exception flies */
};

void put_and_throw(gex_Rank_t to, std::uint64_t *target, const std::uint64_t *value) {
    Region region;
    gex_RMA_PutNBI(tm, to, target, const_cast<std::uint64_t *>(value), sizeof *value, GEX_EVENT_DEFER, 0);
    throw std::out_of_range("after the put");
}

} // namespace

int main(int argc, char **argv) {
    test_init("exceptions", &argc, &argv);
    register_handler(200, (gex_AM_Fn_t)on_message, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1);
    test_attach(65536);
    const gex_Rank_t next_rank = (me + 1) % np;
    auto *target = (std::uint64_t *)(void *)seg_of(next_rank);
    auto *mine = static_cast<volatile std::uint64_t *>(gex_Segment_QueryAddr(segment));
    barrier();
    for (int i = 0; i < 100; i++) {
        std::string text = "odd " + std::to_string(me);
        gex_AM_RequestMedium1(tm, next_rank, 200, &text[0], text.size(), GEX_EVENT_NOW, 0, i);
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == 100);
    for (std::uint64_t i = 1; i <= 50; i++) {
        bool caught = false;
        try {
            std::unique_ptr<std::uint64_t> value(new std::uint64_t(i));
            put_and_throw(next_rank, target, value.get());
        } catch (const std::out_of_range &) {
            caught = true;
        }
        CHECK(caught);
        barrier();
        CHECK(*mine == i);
        barrier();
    }
    return test_finish();
}

// GASNet entered from destructors of C++ thread-local objects, by threads that used it before and
// by threads that did not: RMA, messages and implicit operations work there, many times over.
// NP: 1 2
// MODES: par
// TIMEOUT: 60
#include "check.h"

#ifdef TEST_HAS_THREADS
#include <thread>

namespace {

gex_AM_Index_t note_index = 150;
int noted, farewells;
char *remote;
gex_Rank_t peer;

void on_note(gex_Token_t) { ATOMIC_ADD(&noted, 1); }

struct Farewell {
    int number;
    Farewell() : number(0) {}
    ~Farewell() {
        uint64_t value = static_cast<uint64_t>(number) + 1, back = 0;
        char *const cell = remote + 16 * (number % 100);
        gex_RMA_PutBlocking(tm, peer, cell, &value, sizeof value, 0);
        gex_RMA_GetBlocking(tm, &back, peer, cell, sizeof back, 0);
        CHECK(back == value);
        gex_RMA_PutNBI(tm, peer, cell, &value, sizeof value, GEX_EVENT_NOW, 0);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        gex_AM_RequestShort0(tm, peer, note_index, 0);
        ATOMIC_ADD(&farewells, 1);
    }
};

thread_local Farewell farewell;

void body(int number, bool enter_before) {
    farewell.number = number; /* constructed here, before the thread enters GASNet */
    if (enter_before) {
        uint64_t value = 5;
        gex_RMA_PutBlocking(tm, peer, remote + 4096, &value, sizeof value, 0);
    }
}

} // namespace
#endif

int main(int argc, char **argv) {
    test_init("cxx_thread_local", &argc, &argv);
#ifdef TEST_HAS_THREADS
    register_handler(note_index, reinterpret_cast<gex_AM_Fn_t>(on_note), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    test_attach(16384);
    peer = (me + 1) % np;
    remote = seg_of(peer);
    barrier();
    PHASE("threads");
    for (int i = 0; i < 100; i++) {
        std::thread thread(body, i, i % 2 == 0);
        thread.join();
    }
    CHECK(farewells == 100);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&noted) == 100);
    barrier();
#else
    test_skip("needs threads");
#endif
    return test_finish();
}

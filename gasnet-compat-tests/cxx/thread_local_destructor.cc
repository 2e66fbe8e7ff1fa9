// GASNet entered from destructors of C++ thread_local objects, in threads that had entered it
// before and in others.
// NP: 1 2
// MODES: par
// TIMEOUT: 60
#include "check.h"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace {

enum { Echo = 200, Echoed = 201 };
std::atomic<int> echoed{0}, destroyed{0};
std::uint64_t *target;
gex_Rank_t next_rank;

void on_echo(gex_Token_t token) { gex_AM_ReplyShort0(token, Echoed, 0); }
void on_echoed(gex_Token_t) { echoed++; }

void communicate() {
    std::uint64_t value = 4711, back = 0;
    gex_Event_Wait(gex_RMA_PutNB(tm, next_rank, target, &value, sizeof value, GEX_EVENT_DEFER, 0));
    gex_RMA_GetNBI(tm, &back, next_rank, target, sizeof back, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    CHECK(back == 4711);
    int before = echoed;
    gex_AM_RequestShort0(tm, next_rank, Echo, 0);
    GASNET_BLOCKUNTIL(echoed > before);
}

struct Guard {
    int touched = 0;
    ~Guard() {
        communicate();
        destroyed++;
    }
};
thread_local Guard early, late;

} // namespace

int main(int argc, char **argv) {
    test_init("thread_local_destructor", &argc, &argv);
    register_handler(Echo, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    register_handler(Echoed, (gex_AM_Fn_t)on_echoed, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0);
    test_attach(65536);
    next_rank = (me + 1) % np;
    target = (std::uint64_t *)(void *)seg_of(next_rank);
    barrier();
    PHASE("destructors");
    for (int round = 0; round < 20; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([i] {
                if (i % 2) early.touched = 1; /* constructed before the library's thread state: destroyed after it */
                if (i < 2) communicate();
                late.touched = 1;
            });
        for (auto &thread : threads) thread.join();
    }
    CHECKF(destroyed == 20 * 4 + 20 * 4, "%d objects were destroyed", (int)destroyed);
    barrier();
    return test_finish();
}

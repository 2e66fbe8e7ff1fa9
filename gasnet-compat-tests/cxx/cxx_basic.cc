// The same interface from C++: handlers, messages with every counting form, RMA, events in
// containers, locks in RAII guards, negotiated payload, barriers and broadcast.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

#include <gasnet_coll.h>
#include <gasnet_tools.h>

#include <map>
#include <string>
#include <vector>

namespace {

gex_HSL_t guard_lock = GEX_HSL_INITIALIZER;

class Guard {
  public:
    explicit Guard(gex_HSL_t &lock) : lock_(lock) { gex_HSL_Lock(&lock_); }
    ~Guard() { gex_HSL_Unlock(&lock_); }

  private:
    Guard(const Guard &);
    Guard &operator=(const Guard &);
    gex_HSL_t &lock_;
};

std::map<gex_Rank_t, std::string> received;
int replies;
enum { GREET = 150, ANSWER = 151, DEPOSIT = 152 };

void on_greeting(gex_Token_t token, void *buffer, size_t bytes, gex_AM_Arg_t a, gex_AM_Arg_t b) {
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    {
        Guard guard(guard_lock);
        received[info.gex_srcrank] = std::string(static_cast<const char *>(buffer), bytes);
    }
    gex_AM_ReplyShort(token, ANSWER, 0, a + b);
}
void on_answer(gex_Token_t, gex_AM_Arg_t sum) {
    CHECK(sum == 7);
    ATOMIC_ADD(&replies, 1);
}
void on_deposit(gex_Token_t token, void *, size_t bytes) {
    CHECK(bytes == 3 * sizeof(double));
    gex_AM_ReplyShort1(token, ANSWER, 0, 7);
}

template <typename T> T fetch(gex_Rank_t rank, const void *address) {
    T value;
    gex_RMA_GetBlocking(tm, &value, rank, const_cast<void *>(address), sizeof value, 0);
    return value;
}

void messages() {
    const std::string text = "hello from " + std::to_string(me);
    for (gex_Rank_t r = 0; r < np; r++) {
        std::string copy(text);
        OK(gex_AM_RequestMedium(tm, r, GREET, &copy[0], copy.size(), GEX_EVENT_NOW, 0, 3, 4));
    }
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == static_cast<int>(np));
    barrier();
    Guard guard(guard_lock);
    for (gex_Rank_t r = 0; r < np; r++) CHECK(received[r] == "hello from " + std::to_string(r));
}

void remote_memory() {
    const gex_Rank_t peer = (me + 1) % np;
    double *const remote = reinterpret_cast<double *>(seg_of(peer));
    std::vector<double> values(1000);
    for (size_t i = 0; i < values.size(); i++) values[i] = me * 1e6 + static_cast<double>(i);
    std::vector<gex_Event_t> events;
    for (size_t i = 0; i < values.size(); i++)
        events.push_back(gex_RMA_PutNB(tm, peer, remote + i, &values[i], sizeof(double), GEX_EVENT_DEFER, 0));
    gex_Event_WaitAll(events.data(), events.size(), 0);
    for (size_t i = 0; i < events.size(); i++) CHECK(events[i] == GEX_EVENT_INVALID);
    CHECK(fetch<double>(peer, remote + 999) == values[999]);
    barrier();
    const double *const mine = static_cast<const double *>(gex_Segment_QueryAddr(segment));
    CHECK(mine[500] == ((me + np - 1) % np) * 1e6 + 500);
    barrier();
}

void negotiated() {
    const gex_Rank_t peer = (me + 1) % np;
    const int expected = ATOMIC_GET(&replies) + 1;
    char *const target = seg_of(peer) + 32768;
    gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestLong(tm, peer, NULL, 3 * sizeof(double), 100, NULL, NULL, 0, 0);
    double *const buffer = static_cast<double *>(gex_AM_SrcDescAddr(sd));
    buffer[0] = buffer[1] = buffer[2] = 0.5;
    gex_AM_CommitRequestLong(sd, DEPOSIT, 3 * sizeof(double), target);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&replies) == expected);
    CHECK(fetch<double>(peer, target) == 0.5);
}

void collectives() {
    std::vector<int> data(100, me == 0 ? 17 : 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, data.data(), data.data(), data.size() * sizeof(int), 0));
    CHECK(data[99] == 17);
}

} // namespace

int main(int argc, char **argv) {
    test_init("cxx_basic", &argc, &argv);
    register_handler(GREET, reinterpret_cast<gex_AM_Fn_t>(on_greeting), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 2);
    register_handler(ANSWER, reinterpret_cast<gex_AM_Fn_t>(on_answer), GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1);
    register_handler(DEPOSIT, reinterpret_cast<gex_AM_Fn_t>(on_deposit), GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0);
    test_attach(65536);
    barrier();
    messages();
    remote_memory();
    negotiated();
    collectives();
    return test_finish();
}

// No handlers and a segment of no bytes: that is one page, and works.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check1.h"

int main(int argc, char **argv) {
    uint64_t back = 0;
    gasnet1_init("start_small", &argc, &argv);
    gasnet_node_t peer = (me + 1) % np;
    OK(gasnet_attach(NULL, 0, 0, 0));
    gasnet1_look_around();
    CHECKF(segments[peer].size == GASNET_PAGESIZE, "%zu bytes", (size_t)segments[peer].size);
    uint64_t value = UINT64_C(0x1122334455667700) + me;
    gasnet_put(peer, at(peer, GASNET_PAGESIZE - 8), &value, 8);
    gasnet1_barrier();
    gasnet_get(&back, peer, at(peer, GASNET_PAGESIZE - 8), 8);
    CHECK(back == value);
    memcpy(&back, at(me, GASNET_PAGESIZE - 8), 8);
    CHECK(back == UINT64_C(0x1122334455667700) + (me + np - 1) % np);
    return test_finish();
}

// GASNET_GET_THREADINFO, GASNET_POST_THREADINFO and GASNET_BEGIN_FUNCTION: optional, without effect
// on results.
// NP: 1 2
// TIMEOUT: 30
#include "check.h"

static uint64_t with_begin(gex_Rank_t peer, char *remote) {
    GASNET_BEGIN_FUNCTION();
    uint64_t value = 11, back = 0;
    gex_RMA_PutBlocking(tm, peer, remote, &value, sizeof value, 0);
    gex_RMA_GetBlocking(tm, &back, peer, remote, sizeof back, 0);
    return back;
}
static uint64_t with_post(gex_Rank_t peer, char *remote, gasnet_threadinfo_t info) {
    GASNET_POST_THREADINFO(info);
    uint64_t value = 12, back = 0;
    gex_RMA_PutNBI(tm, peer, remote, &value, sizeof value, GEX_EVENT_NOW, 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    gex_RMA_GetBlocking(tm, &back, peer, remote, sizeof back, 0);
    return back;
}

int main(int argc, char **argv) {
    test_init("thread_info", &argc, &argv);
    test_attach(4096);
    gex_Rank_t peer = (me + 1) % np;
    barrier();
    CHECK(with_begin(peer, seg_of(peer)) == 11);
    CHECK(with_post(peer, seg_of(peer), GASNET_GET_THREADINFO()) == 12);
    return test_finish();
}

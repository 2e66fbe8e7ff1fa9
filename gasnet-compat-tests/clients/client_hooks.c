// Names that clients use though no specification has them: the hook that is called with the
// segment, blocking barriers of the library, the host's name, the address of a thread-key function.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

static void *hook_base;
static uintptr_t hook_bytes;
static int hook_calls;

static void hook(void *base, uintptr_t bytes) {
    hook_base = base;
    hook_bytes = bytes;
    hook_calls++;
    /* the segment is there, and this process may use it */
    *(volatile char *)base = 17;
    ((volatile char *)base)[bytes - 1] = 18;
}

int main(int argc, char **argv) {
    void *volatile address = (void *)(uintptr_t)&_gasneti_threadkey_init;
    char name[256];
    CHECK(gasnet_client_attach_hook == NULL);
    test_init("client_hooks", &argc, &argv);
    CHECK(gasnet_client_attach_hook == NULL);
    gasnet_client_attach_hook = hook;
    CHECK(hook_calls == 0);
    test_attach(3 * GASNET_PAGESIZE);
    PHASE("the hook");
    CHECKF(hook_calls == 1, "%d calls", hook_calls);
    CHECK(hook_base == gex_Segment_QueryAddr(segment) && hook_bytes == gex_Segment_QuerySize(segment));

    PHASE("gex_Coll_BarrierBlocking");
    for (int i = 1; i <= 50; i++) {
        gex_Rank_t peer = (me + 1) % np;
        OK(gex_RMA_PutBlockingVal(tm, peer, seg_of(peer), (gex_RMA_Value_t)i, 4, 0));
        gex_Coll_BarrierBlocking(tm, 0);
        CHECK(*(volatile int32_t *)gex_Segment_QueryAddr(segment) == i);
        gex_Coll_BarrierBlocking(tm, 0);
    }

    PHASE("names");
    CHECK(address != NULL);
    CHECK(gethostname(name, sizeof name) == 0);
    CHECK(strlen(gasneti_gethostname()) == strlen(name));
    CHECK(!strcmp(gasneti_gethostname(), gasnett_gethostname()));
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
    return test_finish();
}

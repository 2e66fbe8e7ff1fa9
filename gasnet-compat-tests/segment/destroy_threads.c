// A thread creates, binds and destroys segments while others move data: their calls look at the
// segments of all endpoints. A sanitizer sees a segment that is freed too early.
// NP: 1 2
// MODES: par
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check.h"

enum { THREADS = 2, SEGMENTS = 3000, BYTES = 4096 };
static gex_EP_t other;
static char memory[8 * BYTES];
static int stop;

static void *move(void *argument) {
    int which = (int)(intptr_t)argument;
    char out[64], in[64], *remote = seg_of((me + 1) % np) + BYTES * which;
    gex_Flags_t self = GEX_FLAG_SELF_SEG_UNKNOWN, peer = GEX_FLAG_PEER_SEG_UNKNOWN;
    for (int rounds = 0; !ATOMIC_GET(&stop) || rounds == 0; rounds++) {
        pattern_fill(out, sizeof out, (unsigned)rounds);
        OK(gex_RMA_PutBlocking(tm, (me + 1) % np, remote, out, sizeof out, self | peer));
        OK(gex_RMA_GetBlocking(tm, in, (me + 1) % np, remote, sizeof in, self | peer));
        CHECK_PATTERN(in, sizeof in, (unsigned)rounds);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    test_init("destroy_threads", &argc, &argv);
    test_attach(THREADS * BYTES);
    OK(gex_EP_Create(&other, client, GEX_EP_CAPABILITY_RMA, 0));
    barrier();
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, move, (void *)(intptr_t)i) == 0);
    PHASE("segments");
    for (int i = 0; i < SEGMENTS; i++) {
        gex_Segment_t made;
        OK(gex_Segment_Create(&made, client, memory + BYTES * (i % 8), BYTES, GEX_MK_HOST, 0));
        OK(gex_EP_BindSegment(other, made, 0));
        CHECK(gex_EP_QuerySegment(other) == made);
        gex_Segment_Destroy(made, 0);
        CHECK(gex_EP_QuerySegment(other) == GEX_SEGMENT_INVALID);
    }
    ATOMIC_SET(&stop, 1);
    for (int i = 0; i < THREADS; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
    barrier();
    return test_finish();
}

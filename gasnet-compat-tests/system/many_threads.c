// Client threads come and go: a thousand of them, a few at a time, each entering GASNet; the number
// that may live at once is what the query says, of which a sample is tried.
// NP: 1 2
// MODES: par
// TIMEOUT: 120
#include "check.h"

#include <sched.h>

static char *remote;
static gex_Rank_t peer;
static int alive, leave;

static void *visit(void *argument) {
    uint64_t value = (uint64_t)(uintptr_t)argument * 3 + 1, back = 0;
    char *cell = remote + 16 * ((uintptr_t)argument % 64); /* one peer writes here */
    OK(gex_RMA_PutBlocking(tm, peer, cell, &value, sizeof value, 0));
    gex_Event_Wait(gex_RMA_GetNB(tm, &back, peer, cell, sizeof back, 0));
    CHECK(back == value);
    gasnet_AMPoll();
    return NULL;
}
static void *stay(void *argument) {
    visit(argument);
    ATOMIC_ADD(&alive, 1);
    while (!ATOMIC_GET(&leave)) usleep(2000);
    visit(argument);
    return NULL;
}

int main(int argc, char **argv) {
    test_init("many_threads", &argc, &argv);
    {
        enum { WAVE = 8, WAVES = 125, SAMPLE = 60 };
        pthread_t thread[SAMPLE];
        uint64_t most = gex_System_QueryMaxThreads();
        int sample = most - 1 < SAMPLE ? (int)(most - 1) : SAMPLE;
        test_attach(65536);
        peer = (me + 1) % np;
        remote = seg_of(peer);
        barrier();
        PHASE("a thousand visits");
        for (int w = 0; w < WAVES; w++) {
            int wave = most - 1 < WAVE ? (int)(most - 1) : WAVE;
            for (int i = 0; i < wave; i++) REQUIRE(pthread_create(&thread[i], NULL, visit, (void *)(uintptr_t)i) == 0);
            for (int i = 0; i < wave; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
        }
        barrier();
        PHASE("many at once");
        for (int i = 0; i < sample; i++) REQUIRE(pthread_create(&thread[i], NULL, stay, (void *)(uintptr_t)i) == 0);
        while (ATOMIC_GET(&alive) != sample) {
            gasnet_AMPoll();
            sched_yield();
        }
        ATOMIC_SET(&leave, 1);
        barrier();
        for (int i = 0; i < sample; i++) REQUIRE(pthread_join(thread[i], NULL) == 0);
        barrier();
    }
    return test_finish();
}

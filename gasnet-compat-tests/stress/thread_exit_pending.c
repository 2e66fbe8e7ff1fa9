// A thread exits with implicit operations in flight and others take its events: nothing is lost,
// nothing crashes.
// NP: 1 2 4
// MODES: par
// TIMEOUT: 60
#include "stress.h"

enum { WORDS = 512, ROUNDS = 40, SINK = 200 };
/* Of each segment: what each thread puts, what all get, and what is put by threads that hand its
 * events over. */
struct places {
    uint64_t put[ROUNDS][WORDS], got[WORDS], handed[WORDS];
};
static struct places *target;
static uint64_t source[ROUNDS][WORDS];
static gex_Rank_t next;
static gex_Event_t handed[WORDS];
static uint64_t fetched[WORDS];
static int sunk;

static void on_sink(gex_Token_t token, void *payload, size_t bytes) {
    CHECK(bytes == 64 && stress_same(payload, bytes, 3));
    ATOMIC_ADD(&sunk, 1);
}

/* Leaves implicit puts, gets and AMs unsynced; and does not end an access region every other
 * time. */
static void *leave_pending(void *round) {
    size_t r = (size_t)(uintptr_t)round;
    char payload[64];
    for (size_t i = 0; i < WORDS; i++) source[r][i] = stress_word(r, i);
    for (size_t i = 0; i < WORDS; i++)
        gex_RMA_PutNBI(tm, next, &target->put[r][i], &source[r][i], 8, GEX_EVENT_DEFER, 0);
    for (size_t i = 0; i < WORDS; i++) gex_RMA_GetNBI(tm, &fetched[i], next, &target->got[i], 8, 0);
    stress_fill(payload, sizeof payload, 3);
    gex_AM_RequestMedium0(tm, next, SINK, payload, sizeof payload, GEX_EVENT_NOW, 0);
    return NULL;
}

/* Starts explicit operations that another thread completes. */
static void *hand_over(void *unused) {
    for (size_t i = 0; i < WORDS; i++)
        handed[i] = i % 2 ? gex_RMA_PutNB(tm, next, &target->handed[i], &source[0][i], 8, GEX_EVENT_DEFER, 0)
                          : gex_RMA_GetNB(tm, &fetched[i], next, &target->got[i], 8, 0);
    return NULL;
}

static void *take_over(void *unused) {
    gex_Event_WaitAll(handed, WORDS / 2, 0);
    return NULL;
}

static void run_thread(void *(*body)(void *), uintptr_t argument) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, body, (void *)argument) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    test_init("thread_exit_pending", &argc, &argv);
    register_handler(SINK, (gex_AM_Fn_t)on_sink, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0);
    test_attach(sizeof(struct places));
    next = (me + 1) % np;
    struct places *mine = (struct places *)seg_of(me);
    for (size_t i = 0; i < WORDS; i++) mine->got[i] = stress_word(1000 + me, i);
    target = (struct places *)(void *)seg_of(next);
    barrier();
    PHASE("exit with implicit operations in flight");
    for (uintptr_t round = 0; round < ROUNDS; round++) run_thread(leave_pending, round);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&sunk) == ROUNDS);
    /* nobody can sync the operations of a thread that is gone, but they do happen */
    for (size_t i = 0; i < WORDS; i++)
        GASNET_BLOCKUNTIL(*(volatile uint64_t *)&fetched[i] == stress_word(1000 + next, i));
    for (uintptr_t round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < WORDS; i++)
            GASNET_BLOCKUNTIL(*(volatile uint64_t *)&mine->put[round][i] == stress_word(round, i));
    barrier();

    PHASE("events of a thread that is gone");
    for (uintptr_t round = 0; round < ROUNDS; round++) {
        memset(fetched, 0, sizeof fetched);
        run_thread(hand_over, 0);
        run_thread(take_over, 0);
        for (size_t i = WORDS / 2; i < WORDS; i++) gex_Event_Wait(handed[i]);
        for (size_t i = 0; i < WORDS; i += 2) CHECK(fetched[i] == stress_word(1000 + next, i));
    }
    barrier();
    for (size_t i = 1; i < WORDS; i += 2) CHECK(mine->handed[i] == stress_word(0, i));
    return test_finish();
}

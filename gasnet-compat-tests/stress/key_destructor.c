// GASNet entered from a pthread key's destructor, also for the first time and several rounds of
// destructors later.
// NP: 1 2
// MODES: par
// TIMEOUT: 60
#include "stress.h"

enum { ECHO = 200, ECHOED = 201, THREADS = 40 };
static pthread_key_t key;
static int done, destructors;
static uint64_t *target;
static gex_Rank_t next;

static void on_echo(gex_Token_t token) { gex_AM_ReplyShort0(token, ECHOED, 0); }
static void on_echoed(gex_Token_t token) { ATOMIC_ADD(&done, 1); }

static void communicate(void) {
    uint64_t value = 42, back = 0;
    int before = ATOMIC_GET(&done);
    gex_Event_Wait(gex_RMA_PutNB(tm, next, target, &value, 8, GEX_EVENT_DEFER, 0));
    gex_NBI_BeginAccessRegion(0);
    gex_RMA_GetNBI(tm, &back, next, target, 8, 0);
    gex_Event_Wait(gex_NBI_EndAccessRegion(0));
    CHECK(back == 42);
    gex_AM_RequestShort0(tm, next, ECHO, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&done) > before);
}

/* Sets its key again, so that it runs three times, after and before the library's own
 * destructors. */
static void destroy(void *value) {
    intptr_t rounds = (intptr_t)value;
    communicate();
    ATOMIC_ADD(&destructors, 1);
    if (rounds > 1) pthread_setspecific(key, (void *)(rounds - 1));
}

static void *body(void *enter) {
    pthread_setspecific(key, (void *)3);
    if (enter) communicate(); /* otherwise the thread's first call is in its destructor */
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    pthread_key_create(&key, destroy); /* before the library creates its own */
    test_init("key_destructor", &argc, &argv);
    register_handler(ECHO, (gex_AM_Fn_t)on_echo, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    register_handler(ECHOED, (gex_AM_Fn_t)on_echoed, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0);
    test_attach(65536);
    next = (me + 1) % np;
    target = (uint64_t *)(void *)seg_of(next);
    barrier();
    PHASE("destructors");
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&thread, NULL, body, (void *)(intptr_t)(i % 2)) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECKF(destructors == 3 * THREADS, "%d destructors ran", destructors);
    barrier();
    return test_finish();
}

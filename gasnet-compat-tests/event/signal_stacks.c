// A thread that calls the library has an alternate signal stack, keeps one of its own, and leaves
// nothing mapped when it ends.
// NP: 1 2
// MODES: par
// FLAVOURS: release
#define _GNU_SOURCE 1
#include "check.h"

#include <sys/mman.h>

static stack_t own;

static stack_t present(void) {
    stack_t stack;
    REQUIRE(sigaltstack(NULL, &stack) == 0);
    return stack;
}

static void *without(void *unused) {
    gasnet_AMPoll();
    stack_t given = present();
    CHECK(!(given.ss_flags & SS_DISABLE) && given.ss_size >= 64 << 10);
    return given.ss_sp;
}

static void *with(void *unused) {
    CHECK(sigaltstack(&own, NULL) == 0);
    gasnet_AMPoll();
    CHECK(present().ss_sp == own.ss_sp);
    return unused;
}

static void *run(void *(*body)(void *)) {
    pthread_t thread;
    void *result;
    REQUIRE(pthread_create(&thread, NULL, body, NULL) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    return result;
}

int main(int argc, char **argv) {
    unsigned char resident;
    test_init("signal_stacks", &argc, &argv);
    own.ss_size = 64 << 10;
    own.ss_sp = malloc(own.ss_size);
    REQUIRE(own.ss_sp != NULL);
    for (int i = 0; i < 20; i++) {
        void *given = run(without);
        CHECKF(mincore(given, 1, &resident) != 0, "the stack of thread %d is still mapped", i);
    }
    run(with);
    memset(own.ss_sp, 1, own.ss_size); /* still the client's */
    barrier();
    return test_finish();
}

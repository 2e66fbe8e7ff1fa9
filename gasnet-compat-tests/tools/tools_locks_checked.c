/* README-tools: the debug flavour reports misuse of locks. */
#include <gasnet_tools.h>

#include "tools_check.h"

#if GASNET_DEBUG

static gasnett_mutex_t m = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t c = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t r = GASNETT_RWLOCK_INITIALIZER;

/* The statements must end the process with the message. */
#define FAILS(message, ...)           \
    do {                              \
        IN_CHILD(__VA_ARGS__);        \
        CHECK(child_killed(SIGABRT)); \
        CHECK(child_said(message));   \
    } while (0)

int main(void) {
    volatile int zero = 0;
    FAILS("gasnett_mutex_lock: this thread already holds", gasnett_mutex_lock(&m), gasnett_mutex_lock(&m));
    FAILS("gasnett_mutex_trylock: this thread already holds", gasnett_mutex_lock(&m), gasnett_mutex_trylock(&m));
    FAILS("gasnett_mutex_unlock: this thread does not hold", gasnett_mutex_unlock(&m));
    FAILS("gasnett_mutex_assertlocked", gasnett_mutex_assertlocked(&m));
    FAILS("gasnett_mutex_assertunlocked", gasnett_mutex_lock(&m), gasnett_mutex_assertunlocked(&m));
    FAILS("gasnett_mutex_destroy", gasnett_mutex_lock(&m), gasnett_mutex_destroy(&m));
    FAILS("gasnett_cond_wait", gasnett_cond_wait(&c, &m));
    FAILS("gasnett_rwlock_rdlock", gasnett_rwlock_rdlock(&r), gasnett_rwlock_rdlock(&r));
    FAILS("gasnett_rwlock_wrlock", gasnett_rwlock_rdlock(&r), gasnett_rwlock_wrlock(&r));
    FAILS("gasnett_rwlock_unlock", gasnett_rwlock_unlock(&r));
    FAILS("gasnett_rwlock_assertrdlocked", gasnett_rwlock_wrlock(&r), gasnett_rwlock_assertrdlocked(&r));
    FAILS("gasnett_rwlock_assertwrlocked", gasnett_rwlock_rdlock(&r), gasnett_rwlock_assertwrlocked(&r));
    FAILS("gasnett_rwlock_assertlocked", gasnett_rwlock_assertlocked(&r));
    FAILS("gasnett_rwlock_assertunlocked", gasnett_rwlock_rdlock(&r), gasnett_rwlock_assertunlocked(&r));
    FAILS("assumption failed: zero == 1", gasnett_assume(zero == 1));
    FAILS("unreachable", gasnett_unreachable());
    CHECK(strstr(gasnett_performance_warning_str(), "debug") != NULL);
    return test_result("tools_locks_checked");
}

#else

int main(void) { return test_skip("tools_locks_checked", "the release flavour does not check locks"); }

#endif

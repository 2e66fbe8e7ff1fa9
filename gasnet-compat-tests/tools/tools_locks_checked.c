/* README-tools: the debug flavour reports misuse of locks. */
#include <gasnet_tools.h>

#include "tools_check.h"

#if GASNET_DEBUG

static gasnett_mutex_t m = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t c = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t r = GASNETT_RWLOCK_INITIALIZER;

static int recursive_lock(void) {
    gasnett_mutex_lock(&m);
    gasnett_mutex_lock(&m);
    return 0;
}
static int recursive_trylock(void) {
    gasnett_mutex_lock(&m);
    return gasnett_mutex_trylock(&m);
}
static int unlock_free(void) {
    gasnett_mutex_unlock(&m);
    return 0;
}
static int assert_locked(void) {
    gasnett_mutex_assertlocked(&m);
    return 0;
}
static int assert_unlocked(void) {
    gasnett_mutex_lock(&m);
    gasnett_mutex_assertunlocked(&m);
    return 0;
}
static int destroy_held(void) {
    gasnett_mutex_lock(&m);
    gasnett_mutex_destroy(&m);
    return 0;
}
static int wait_unlocked(void) {
    gasnett_cond_wait(&c, &m);
    return 0;
}
static int read_twice(void) {
    gasnett_rwlock_rdlock(&r);
    gasnett_rwlock_rdlock(&r);
    return 0;
}
static int write_over_read(void) {
    gasnett_rwlock_rdlock(&r);
    gasnett_rwlock_wrlock(&r);
    return 0;
}
static int rw_unlock_free(void) {
    gasnett_rwlock_unlock(&r);
    return 0;
}
static int assert_read(void) {
    gasnett_rwlock_wrlock(&r);
    gasnett_rwlock_assertrdlocked(&r);
    return 0;
}
static int assert_write(void) {
    gasnett_rwlock_rdlock(&r);
    gasnett_rwlock_assertwrlocked(&r);
    return 0;
}
static int assert_either(void) {
    gasnett_rwlock_assertlocked(&r);
    return 0;
}
static int assert_none(void) {
    gasnett_rwlock_rdlock(&r);
    gasnett_rwlock_assertunlocked(&r);
    return 0;
}
static int assume_false(void) {
    volatile int zero = 0;
    gasnett_assume(zero == 1);
    return 0;
}
static int unreachable(void) {
    gasnett_unreachable();
    return 0;
}

static void fails(int (*body)(void), const char *message) {
    in_child(body);
    CHECK(child_killed(SIGABRT));
    CHECK(child_said(message));
}

int main(void) {
    fails(recursive_lock, "gasnett_mutex_lock: this thread already holds");
    fails(recursive_trylock, "gasnett_mutex_trylock: this thread already holds");
    fails(unlock_free, "gasnett_mutex_unlock: this thread does not hold");
    fails(assert_locked, "gasnett_mutex_assertlocked");
    fails(assert_unlocked, "gasnett_mutex_assertunlocked");
    fails(destroy_held, "gasnett_mutex_destroy");
    fails(wait_unlocked, "gasnett_cond_wait");
    fails(read_twice, "gasnett_rwlock_rdlock");
    fails(write_over_read, "gasnett_rwlock_wrlock");
    fails(rw_unlock_free, "gasnett_rwlock_unlock");
    fails(assert_read, "gasnett_rwlock_assertrdlocked");
    fails(assert_write, "gasnett_rwlock_assertwrlocked");
    fails(assert_either, "gasnett_rwlock_assertlocked");
    fails(assert_none, "gasnett_rwlock_assertunlocked");
    fails(assume_false, "assumption failed: zero == 1");
    fails(unreachable, "unreachable");
    CHECK(strstr(gasnett_performance_warning_str(), "debug") != NULL);
    return test_result("tools_locks_checked");
}

#else

int main(void) { return test_skip("tools_locks_checked", "the release flavour does not check locks"); }

#endif

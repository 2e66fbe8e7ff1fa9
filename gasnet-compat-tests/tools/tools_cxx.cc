/* The tools headers in C++, inside a client's own extern "C" block, next to C++ headers. */
extern "C" {
#include <gasnet_tools.h>
}

#include <string>
#include <vector>

#include "tools_check.h"

GASNETT_IDENT(tools_cxx_ident, "$ToolsCxxIdent: x $");
GASNETT_THREADKEY_DECLARE(key);
GASNETT_THREADKEY_DEFINE(key);

static gasnett_atomic64_t total = gasnett_atomic64_init(0);
static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
static gasnett_cond_t cond = GASNETT_COND_INITIALIZER;

struct Counter {
    gasnett_strongatomic_t value = gasnett_strongatomic_init(0);
    int next() { return (int)gasnett_strongatomic_add(&value, 1, GASNETT_ATOMIC_ACQ | GASNETT_ATOMIC_REL); }
};

GASNETT_INLINE(twice)
int twice(int x) { return 2 * x; }

static void *work(void *) {
    gasnett_threadkey_set(key, &total);
    for (int i = 0; i < 1000; i++) {
        gasnett_mutex_lock(&mutex);
        gasnett_cond_signal(&cond);
        gasnett_mutex_unlock(&mutex);
        gasnett_rwlock_rdlock(&rwlock);
        gasnett_rwlock_unlock(&rwlock);
        gasnett_atomic64_increment(&total, 0);
    }
    CHECK(gasnett_threadkey_get(key) == &total);
    return nullptr;
}

static int fails() { gasnett_fatalerror("in C++: %s", std::string("text").c_str()); }

int main() {
    Counter counter;
    std::vector<int> numbers;
    for (int i = 0; i < 3; i++) numbers.push_back(twice(counter.next()));
    CHECK(numbers[2] == 6);
    CHECK(GASNETT_PREDICT_TRUE(&numbers));
#if PLATFORM_COMPILER_CXX_LANGLVL < 201103L || (!PLATFORM_COMPILER_GNU_CXX && !PLATFORM_COMPILER_CLANG_CXX)
#error language not recognised
#endif
#if GASNETT_THREAD_SAFE
    in_threads(4, work);
    CHECK(gasnett_atomic64_read(&total, 0) == 4000);
#else
    work(nullptr);
#endif
    in_child(fails);
    CHECK(child_killed(SIGABRT) && child_said("in C++: text") && child_said("tools_cxx.cc:"));
    CHECK(tools_cxx_ident[0] == '$');
    return test_result("tools_cxx");
}

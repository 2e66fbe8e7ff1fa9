/* README-tools, "Thread-specific data". */
#include <gasnet_tools.h>

#include "tools_check.h"

GASNETT_THREADKEY_DECLARE(first);
GASNETT_THREADKEY_DEFINE(first);
GASNETT_THREADKEY_DEFINE(second);

static void *use(void *id) {
    static char targets[16][2];
    char *mine = targets[(intptr_t)id + 1];
    CHECK(gasnett_threadkey_get(first) == NULL);
    gasnett_threadkey_set(first, mine);
    gasnett_threadkey_init(second);
    CHECK(gasnett_threadkey_get_noinit(second) == NULL);
    gasnett_threadkey_set_noinit(second, mine + 1);
    gasnett_threadkey_init(second);
    for (int i = 0; i < 100; i++) {
        gasnett_sched_yield();
        CHECK(gasnett_threadkey_get(first) == mine);
        CHECK(gasnett_threadkey_get_noinit(second) == mine + 1);
    }
    return NULL;
}

int main(void) {
#if GASNETT_THREAD_SAFE
    in_threads(8, use);
#endif
    use((void *)(intptr_t)-1);
    return test_result("tools_threadkey");
}

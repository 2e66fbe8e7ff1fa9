/* GASNETT_LITE_MODE: the headers work without a thread mode and without the library. */
#undef GASNET_SEQ
#undef GASNET_PAR
#undef GASNETT_THREAD_SAFE
#undef GASNETT_THREAD_SINGLE
#define GASNETT_LITE_MODE 1
#include <gasnet_tools.h>

#include <stdio.h>
#include <string.h>

GASNETT_IDENT(tools_lite_ident, "$ToolsLiteVersion: " _STRINGIFY(GASNET_RELEASE_VERSION_MAJOR) " $");
GASNETT_THREADKEY_DEFINE(key);
static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;

int main(void) {
    gasnett_atomic_t x = gasnett_atomic_init(1);
    gasnett_strongatomic64_t y = gasnett_strongatomic64_init(1);
    gasnett_mutex_lock(&mutex);
    gasnett_threadkey_set(key, &x);
    gasnett_local_mb();
    gasnett_mutex_unlock(&mutex);
    if (gasnett_atomic_add(&x, 1, 0) != 2 || gasnett_strongatomic64_add(&y, 1, GASNETT_ATOMIC_REL) != 2) return 1;
    if (gasnett_threadkey_get(key) != &x || !strstr(PLATFORM_COMPILER_IDSTR, "family=")) return 1;
    if (!strstr(GASNETT_CONFIG_STRING, ",LITE,")) return 1;
    printf("tools_lite: PASS\n");
    return 0;
}

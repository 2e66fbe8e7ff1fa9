// GEX_FLAG_DEFER_THREADS: the client starts the progress threads that the query describes, if there
// are any, and communication works before and after.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    unsigned count = 12345;
    const gex_ProgressThreadInfo_t *info = NULL;
    test_init_flags("progress_threads_deferred", &argc, &argv, GEX_FLAG_DEFER_THREADS);
    CHECK(gex_Client_QueryFlags(client) == GEX_FLAG_DEFER_THREADS);
    share_setup();
    PHASE("communication before the threads run");
    share(&me, sizeof me);
    int level = gex_System_QueryHiddenAMConcurrencyLevel();
    PHASE("query");
    OK(gex_System_QueryProgressThreads(client, &count, &info, 0));
    CHECK(count < 1000);
    CHECK(gex_System_QueryHiddenAMConcurrencyLevel() == level);
    for (unsigned i = 0; i < count; i++) {
        CHECK(info[i].gex_device_list != NULL && info[i].gex_device_list[0] != '\0');
        CHECK(info[i].gex_progress_arg != NULL);
#ifndef GASNET_SND_THREAD
        CHECK((info[i].gex_thread_roles & GEX_THREAD_ROLE_SND) == 0);
#endif
        CHECK((info[i].gex_thread_roles & (GEX_THREAD_ROLE_RCV | GEX_THREAD_ROLE_SND)) != 0);
        CHECK(info[i].gex_progress_fn != NULL);
    }
#ifdef TEST_HAS_THREADS
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, info[i].gex_progress_fn, info[i].gex_progress_arg) == 0);
    }
#endif
    PHASE("communication after");
    share(&me, sizeof me);
    barrier();
    return test_finish();
}

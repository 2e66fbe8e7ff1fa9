// gex_System_QueryProgressThreads when the client did not ask to start the threads itself: an error
// code, never a crash. A process makes one call, so the ranks share the cases.
// NP: 1 4
// TIMEOUT: 60
#include "check.h"

int main(int argc, char **argv) {
    unsigned count = 12345;
    const gex_ProgressThreadInfo_t *info = NULL;
    int rc = 0;
    test_init("progress_threads", &argc, &argv);
    gex_System_SetVerboseErrors(0);
    switch (me % 4) {
        case 0: rc = gex_System_QueryProgressThreads(client, &count, &info, 0); break;
        case 1: rc = gex_System_QueryProgressThreads(client, NULL, &info, 0); break;
        case 2: rc = gex_System_QueryProgressThreads(client, &count, NULL, 0); break;
        default: rc = gex_System_QueryProgressThreads(client, &count, &info, 1); break;
    }
    /* With several errors the precedence is the library's choice. */
    CHECKF(rc == GASNET_ERR_RESOURCE || (me % 4 != 0 && rc == GASNET_ERR_BAD_ARG), "returned %d", rc);
    gex_System_SetVerboseErrors(1);
    return test_finish();
}

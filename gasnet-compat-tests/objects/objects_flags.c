// Initialisation with NULL for the command line and with GEX_FLAG_USES_GASNET1: the client's flags
// can be queried; the outputs of gex_Client_Init that a caller does not want.
// NP: 1 2 4
// TIMEOUT: 60
#include "check.h"

int main(void) {
    test_init_flags("objects_flags", NULL, NULL, GEX_FLAG_USES_GASNET1);
    CHECK(gex_Client_QueryFlags(client) == GEX_FLAG_USES_GASNET1);
    CHECK(strcmp(gex_Client_QueryName(client), "CONFORMANCE") == 0);
    CHECK(gex_TM_QueryClient(tm) == client && gex_EP_QueryClient(ep) == client);
    test_attach(GASNET_PAGESIZE);
    CHECK(gex_Client_QueryFlags(client) == GEX_FLAG_USES_GASNET1);
    return test_finish();
}

// A second gasnet_init and a second gasnet_attach return an error, as do starts with arguments that
// make no sense, and the job goes on.
// NP: 1 2 4
// SEGMENTS: fast large
// TIMEOUT: 60
#include "check1.h"

static void handler(gasnet_token_t token) {}

int main(int argc, char **argv) {
    gasnet_handlerentry_t bad[] = {{127, (gex_AM_Fn_t)handler}};
    gasnet_handlerentry_t twice[] = {{140, (gex_AM_Fn_t)handler}, {140, (gex_AM_Fn_t)handler}};
    /* no multiples of a page; only 0 means one page (start_small) */
    const uintptr_t odd[] = {1, 8, GASNET_PAGESIZE - 1, GASNET_PAGESIZE + 1, 3 * GASNET_PAGESIZE / 2};
    gasnet1_init("start_twice", &argc, &argv);
    gex_System_SetVerboseErrors(0);
    PHASE("a second gasnet_init");
    CHECK(gasnet_init(&argc, &argv) != GASNET_OK);
    CHECK(gasnet_init(NULL, NULL) != GASNET_OK);
    PHASE("bad arguments of gasnet_attach");
    CHECK(gasnet_attach(bad, 1, GASNET_PAGESIZE, 0) != GASNET_OK);
    CHECK(gasnet_attach(twice, 2, GASNET_PAGESIZE, 0) != GASNET_OK);
    CHECK(gasnet_attach(NULL, -1, GASNET_PAGESIZE, 0) != GASNET_OK);
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++)
        CHECKF(gasnet_attach(NULL, 0, odd[i], 0) == GASNET_ERR_BAD_ARG, "of %zu bytes", (size_t)odd[i]);
    gasnet1_attach(NULL, 1, GASNET_PAGESIZE); /* no table: no handlers */
    CHECK(segments[me].size == GASNET_PAGESIZE);
    gasnet1_barrier();
    PHASE("a second gasnet_attach");
    CHECK(gasnet_attach(NULL, 0, GASNET_PAGESIZE, 0) != GASNET_OK);
    CHECK(gasnet_init(&argc, &argv) != GASNET_OK);
    gex_System_SetVerboseErrors(1);
    CHECK(gasnet_mynode() == me && gasnet_nodes() == np);
    gasnet_put_val((me + 1) % np, at((me + 1) % np, 0), 5, 1);
    gasnet1_barrier();
    CHECK(*(volatile char *)at(me, 0) == 5);
    return test_finish();
}

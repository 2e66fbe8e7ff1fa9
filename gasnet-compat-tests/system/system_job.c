// Job rank and size, verbose errors, thread limit, hidden AM concurrency: values, stability, the
// same on every rank where the specification says so.
// NP: 1 2 4 7
// TIMEOUT: 60
#include "check.h"

static gex_AM_Index_t handler_index = 200;
static int handled;

/* All of these are allowed in a handler. */
static void query_handler(gex_Token_t token) {
    CHECK(gex_System_QueryJobRank() == me);
    CHECK(gex_System_QueryJobSize() == np);
    CHECK(gex_System_QueryMaxThreads() >= 1);
    CHECK(gex_System_QueryMaxThreads() <= INT32_MAX); /* Chapel keeps it in a 32-bit integer */
    CHECK(gex_System_GetVerboseErrors() == 0 || gex_System_GetVerboseErrors() == 1);
    (void)gex_System_QueryHiddenAMConcurrencyLevel();
    CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == np);
    CHECK(gex_TM_QueryEP(tm) == ep && gex_EP_QueryClient(ep) == client);
    CHECK(gex_Client_QueryCData(client) == NULL);
    CHECK(gex_AM_MaxArgs() >= 16);
    ATOMIC_ADD(&handled, 1);
}

static void check_verbose_errors(void) {
    int before = gex_System_GetVerboseErrors();
    PHASE("verbose errors");
    gex_System_SetVerboseErrors(1);
    CHECK(gex_System_GetVerboseErrors() != 0);
    gex_System_SetVerboseErrors(0);
    CHECK(gex_System_GetVerboseErrors() == 0);
    gex_System_SetVerboseErrors(1);
    CHECK(gex_System_GetVerboseErrors() != 0);
    gex_System_SetVerboseErrors(before ? 1 : 0);
    CHECK(!gex_System_GetVerboseErrors() == !before);
}

int main(int argc, char **argv) {
    test_init("system_job", &argc, &argv);
    share_setup();
    register_handler(handler_index, (gex_AM_Fn_t)query_handler, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0);
    barrier();

    PHASE("rank and size");
    unsigned record[2] = {(unsigned)gex_System_QueryJobRank(), (unsigned)gex_System_QueryJobSize()};
    CHECK(record[0] < record[1]);
    const void *all = share(record, sizeof record);
    for (gex_Rank_t r = 0; r < np; r++) {
        CHECK(SHARED(unsigned, all, r)[0] == r);
        CHECK(SHARED(unsigned, all, r)[1] == np);
    }

    check_verbose_errors();

    PHASE("threads");
#ifdef GASNET_SEQ
    CHECK(gex_System_QueryMaxThreads() == 1);
#else
    CHECK(gex_System_QueryMaxThreads() >= 2);
#endif
    CHECK(gex_System_QueryMaxThreads() == gex_System_QueryMaxThreads());
    int level = gex_System_QueryHiddenAMConcurrencyLevel();
    CHECK(level == gex_System_QueryHiddenAMConcurrencyLevel());
    CHECKF(level == 0 || GASNET_HIDDEN_AM_CONCURRENCY_LEVEL != 0, "the static value says never, the query says %d",
           level);

    PHASE("queries in a handler");
    for (gex_Rank_t r = 0; r < np; r++) gex_AM_RequestShort0(tm, r, handler_index, 0);
    GASNET_BLOCKUNTIL(ATOMIC_GET(&handled) == (int)np);
    barrier();
    return test_finish();
}

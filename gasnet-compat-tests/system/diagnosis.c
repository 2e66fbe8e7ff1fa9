// gasnett_run_diagnostics: every section passes, sections are chosen by letter, and missing
// handlers are an error that is counted.
// NP: 1 2 3
// TIMEOUT: 120
#include "check.h"

int main(int argc, char **argv) {
    gex_AM_Entry_t *table = NULL;
    int count = 0;
    void *base = NULL;
    gasnett_diagnostic_gethandlers(&table, &count); /* allowed before initialisation */
    test_init("diagnosis", &argc, &argv);
    REQUIRE(table != NULL && count > 0);
    test_attach((uintptr_t)1 << 18);
    barrier();
    gex_Rank_t peer = (me + 1) % np;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, peer, &base, NULL, NULL, 0));
    PHASE("without handlers");
    CHECK(gasnett_run_diagnostics(10, 2, "K", tm, seg_of(me), peer, base, 1) == 1);
    CHECK(gasnett_run_diagnostics(10, 2, "ab", tm, seg_of(me), peer, base, 1) == 0);
    OK(gex_EP_RegisterHandlers(ep, table, (size_t)count));
    barrier();
    PHASE("all");
    CHECK(gasnett_run_diagnostics(200, 3, NULL, tm, seg_of(me), peer, base, 7) == 0);
    CHECK(gasnett_run_diagnostics(1, 1, "", tm, seg_of(me), peer, base, 0) == 0);
    CHECK(gasnett_run_diagnostics(50, 2, "KIJ", tm, seg_of(me), peer, base, 3) == 0);
    return test_finish();
}

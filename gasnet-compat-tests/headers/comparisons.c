// Compare-and-swaps that release. One that fails is a read, so a fence keeps what precedes it in
// front of it; run.sh looks for that in the assembler text of AArch64.
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <gasnetex.h>

int local_comparison(gasnett_atomic32_t *word);
int local_comparison(gasnett_atomic32_t *word) {
    return gasnett_strongatomic32_compare_and_swap(word, 1, 2, GASNETT_ATOMIC_WMB_PRE);
}

gex_Event_t remote_comparison(gex_AD_t domain, int64_t *old, void *target);
gex_Event_t remote_comparison(gex_AD_t domain, int64_t *old, void *target) {
    return gex_AD_OpNB_I64(domain, old, 0, target, GEX_OP_FCAS, 1, 2, GEX_FLAG_AD_REL);
}

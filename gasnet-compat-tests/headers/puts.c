// puts.c: puts of data and then of a flag. run.sh compiles it for a processor that reorders stores.
// A put of one byte is one store instruction, and the only one of that kind here.
#include <gasnetex.h>
#include <gasnet_vis.h>

void two_puts(gex_TM_t tm, gex_Rank_t rank, void *data, void *flag, const void *bytes);
void two_vis_puts(gex_TM_t tm, gex_Rank_t rank, void *data, void *flag, void *bytes);

void two_puts(gex_TM_t tm, gex_Rank_t rank, void *data, void *flag, const void *bytes) {
    (void)gex_RMA_PutNBI(tm, rank, data, bytes, 1, GEX_EVENT_DEFER, 0);
    (void)gex_RMA_PutBlocking(tm, rank, flag, bytes, 1, 0);
}

void two_vis_puts(gex_TM_t tm, gex_Rank_t rank, void *data, void *flag, void *bytes) {
    (void)gex_VIS_StridedPutBlocking(tm, rank, data, NULL, bytes, NULL, 1, NULL, 0, 0);
    (void)gex_VIS_StridedPutBlocking(tm, rank, flag, NULL, bytes, NULL, 1, NULL, 0, 0);
}

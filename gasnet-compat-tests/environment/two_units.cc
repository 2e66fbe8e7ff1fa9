// The second translation unit of two_units: it too includes all headers and calls the library.
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_tools.h>

extern "C" gex_Rank_t other_unit(gex_TM_t tm) {
    static gex_HSL_t lock = GEX_HSL_INITIALIZER;
    gex_HSL_Lock(&lock);
    gex_Rank_t size = gex_TM_QuerySize(tm);
    gex_HSL_Unlock(&lock);
    return gasnett_cpu_count() > 0 ? size : 0;
}

// GEX_FLAG_{SELF,PEER}_SEG_UNKNOWN and _SOME with devices: host memory, and memory of other
// devices, as the local side of an endpoint on a device; device memory of a peer addressed through
// its primordial endpoint. Puts, gets, scattered data, Mediums and Longs.
// NP: 1 2 3
// TIMEOUT: 120
// DEVICES: yes
#include "device.h"

#include <gasnet_vis.h>

enum { BYTES = 70001, HALF = 100000, SPACE = 2 * HALF, H_MEDIUM = 220, H_LONG };
static int arrived, rounds;
static place *target;

static void on_medium(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PATTERN(payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}
static void on_long(gex_Token_t token, void *payload, size_t bytes, gex_AM_Arg_t seed) {
    CHECK_PLACE(target, (char *)payload, bytes, (uint64_t)seed);
    ATOMIC_ADD(&arrived, 1);
}

/* Between `data`, which is not in `local`'s segment but in `whose`, and `remote`, named through
 * team or pair `tm_used`. */
static void exchange(gex_TM_t tm_used, place *whose, char *data, place *remote, gex_Flags_t flags) {
    gex_Rank_t right = (me + 1) % np, left = (me + np - 1) % np;
    char *there = remote->theirs[right];
    gex_Memvec_t far[2], near[1];
    size_t bytes = BYTES, medium = gex_AM_LUBRequestMedium() < 5000 ? gex_AM_LUBRequestMedium() : 5000;
    uint64_t seed = 1000;
    target = remote;
    place_fill(whose, data, bytes, seed + me);
    barrier();
    OK(gex_RMA_PutBlocking(tm_used, right, there, data, bytes, flags));
    barrier();
    CHECK_PLACE(remote, remote->base, bytes, seed + left);
    place_fill(whose, data, bytes, 1);
    gex_Event_Wait(gex_RMA_GetNB(tm_used, data, right, there, bytes, flags));
    CHECK_PLACE(whose, data, bytes, seed + me);
    barrier();
    far[0].gex_addr = there + HALF / 2;
    far[0].gex_len = 1001;
    far[1].gex_addr = there;
    far[1].gex_len = 2002;
    near[0].gex_addr = data;
    near[0].gex_len = 3003;
    place_fill(whose, data, 3003, seed + 7 + me);
    OK(gex_VIS_VectorPutBlocking(tm_used, right, 2, far, 1, near, flags));
    place_fill(whose, data, 3003, 1);
    OK(gex_VIS_VectorGetBlocking(tm_used, 1, near, right, 2, far, flags));
    CHECK_PLACE(whose, data, 3003, seed + 7 + me);
    barrier();
    place_fill(whose, data, bytes, 33);
    OK(gex_AM_RequestMedium1(tm_used, right, H_MEDIUM, data, medium, GEX_EVENT_NOW, flags, 33));
    OK(gex_AM_RequestLong1(tm_used, right, H_LONG, data, bytes, there, GEX_EVENT_NOW, flags, 33));
    rounds += 2;
    GASNET_BLOCKUNTIL(ATOMIC_GET(&arrived) == rounds);
    barrier();
}

int main(int argc, char **argv) {
    static char host_memory[SPACE];
    place host;
    test_init("mk_anywhere", &argc, &argv);
    devices_required();
    register_handler(H_MEDIUM, (gex_AM_Fn_t)on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 1);
    register_handler(H_LONG, (gex_AM_Fn_t)on_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 1);
    make_places(SPACE);
    memset(&host, 0, sizeof host);
    for (int l = 2; l < place_count; l++) {
        for (int r = 0; r < place_count; r++) {
            gex_TM_t pair = gex_TM_Pair(places[l].ep, places[r].index);
            PHASE("host memory of an endpoint on a device");
            exchange(pair, &host, host_memory, &places[r], GEX_FLAG_SELF_SEG_UNKNOWN);
            int w = l + 1 < place_count ? l + 1 : 2;
            PHASE("memory of another device");
            exchange(pair, &places[w], places[w].base + HALF, &places[r], GEX_FLAG_SELF_SEG_SOME);
        }
        PHASE("a peer's device through its primordial endpoint");
        exchange(tm, &host, host_memory, &places[l], GEX_FLAG_PEER_SEG_SOME);
        exchange(tm, &places[l], places[l].base + HALF, &places[l],
                 GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_UNKNOWN);
    }
    end_places();
    return test_finish();
}

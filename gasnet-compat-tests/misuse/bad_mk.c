// Invalid calls with device memory, and devices that fail: bad_mk CASE. Needs the stand-ins for
// device libraries.
#include "../mk/device.h"

#include <gasnet_ratomic.h>

enum { BYTES = 10000 };

static gex_MK_t kind;
static place *host, *device;

static void in_handler(gex_Token_t token) {
    gex_MK_t never;
    gex_MK_Create_args_t args = kind_args(device->device, 0);
    gex_MK_Create(&never, client, &args, 0);
}

/* A team of every rank's endpoint on the device. */
static gex_TM_t device_team(gex_Addr_t scratch, gex_Flags_t flags) {
    gex_EP_Location_t members[64];
    gex_TM_t made = GEX_TM_INVALID;
    for (gex_Rank_t r = 0; r < np; r++) members[r].gex_rank = r, members[r].gex_ep_index = device->index;
    gex_TM_Create(&made, 1, tm, members, np, &scratch, 64, flags);
    return made;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    static char buffer[BYTES];
    test_init("bad_mk", &argc, &argv);
    REQUIRE(devices_open() > 0 && classes[0].fail);
    register_handler(200, (gex_AM_Fn_t)in_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0);
    make_places(BYTES);
    host = &places[0], device = &places[2];
    kind = device->kind;
    gex_Rank_t peer = (me + 1) % np;
    char *theirs = device->theirs[peer];
    gex_TM_t pair = gex_TM_Pair(device->ep, device->index);
#define IS(name) (strcmp(what, name) == 0)
    if (IS("local-host")) gex_RMA_PutBlocking(pair, peer, theirs, buffer, 100, 0);
    else if (IS("local-end")) gex_RMA_GetBlocking(pair, device->base + BYTES - 10, peer, theirs, 11, 0);
    else if (IS("remote-end")) gex_RMA_PutBlocking(pair, peer, theirs + BYTES - 10, device->base, 11, 0);
    else if (IS("own-end")) gex_RMA_PutBlocking(pair, me, device->base + BYTES - 10, device->base, 11, 0);
    else if (IS("medium-host")) gex_AM_RequestMedium0(pair, peer, 201, buffer, 100, GEX_EVENT_NOW, 0);
    else if (IS("collective"))
        gex_Coll_BroadcastNB(device_team(NULL, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK), 0, buffer, buffer, 8,
                             0);
    else if (IS("scratch")) device_team(device->base, GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
    else if (IS("atomic") || IS("atomic-own")) {
        gex_AD_t ad;
        gex_TM_t team = device_team(NULL, GEX_FLAG_TM_NO_SCRATCH | GEX_FLAG_RANK_IS_JOBRANK);
        gex_AD_Create(&ad, team, GEX_DT_U64, GEX_OP_INC, 0);
        peer = IS("atomic") ? peer : me;
        gex_Event_Wait(gex_AD_OpNB_U64(ad, NULL, peer, device->theirs[peer], GEX_OP_INC, 0, 0, 0));
    } else if (IS("kind-in-use")) gex_MK_Destroy(kind, 0);
    else if (IS("kind-invalid")) gex_MK_Destroy(GEX_MK_INVALID, 0);
    else if (IS("kind-twice")) {
        gex_MK_t other = make_kind(device->device, 0);
        gex_MK_Destroy(other, 0);
        gex_MK_Destroy(other, 0);
    } else if (IS("handler")) {
        gex_AM_RequestShort0(tm, peer, 200, 0);
        barrier();
    } else if (IS("copy-here") || IS("sync-here")) {
        device->device->fail(IS("copy-here") ? FAULT_COPY : FAULT_SYNC, 1);
        gex_RMA_GetBlocking(gex_TM_Pair(device->ep, host->index), device->base, peer, host->theirs[peer], 100, 0);
    } else if (IS("copy-there")) {
        device->device->fail(FAULT_COPY, 1);
        barrier();
        gex_RMA_PutBlocking(gex_TM_Pair(host->ep, device->index), peer, theirs, buffer, 100, 0);
        barrier();
    } else if (IS("freed")) {
        device->device->release(device->device, device->base);
        gex_RMA_PutBlocking(gex_TM_Pair(host->ep, device->index), me, device->base, buffer, 100, 0);
    } else if (IS("touch")) device->base[100] = 1; /* the stand-in's memory is not the host's */
    barrier();
    if (me == 0) printf("fine: %u ranks\n", (unsigned)np);
    fflush(stdout);
    barrier();
    gasnet_exit(0);
    return 0;
}

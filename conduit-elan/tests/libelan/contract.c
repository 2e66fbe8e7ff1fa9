/* shim.h is complete by itself, in C and in C++, and its version and table can be used as the
 * conduit does. Compiled by scripts/check/52-prototypes.sh, never run. */
#include "shim.h"

#include "shim.h" /* Twice. */

/* A library of this version has all functions that shim.h declares. */
int contract(const gasnet_elan_place_t *place, char *why, size_t why_bytes);
int contract(const gasnet_elan_place_t *place, char *why, size_t why_bytes) {
    const gasnet_elan_shim_t *shim = gasnet_elan_shim();
    gasnet_elan_info_t info;
    uint64_t address = 0;

    if (shim->version != GASNET_ELAN_SHIM_VERSION) return 1;
    gasnet_elan_t *elan = shim->start(place, &info, why, why_bytes);
    if (elan == NULL) return 2;
    void *memory = shim->symmetric(elan, 64, info.queue_bytes, &address);
    gasnet_elan_channel_t *channel = shim->channel(elan);
    gasnet_elan_event_t *event = shim->put(channel, memory, address, info.small_put, (info.vp + 1) % info.size);
    if (!shim->poll(elan, event)) shim->wait(elan, event);
    shim->barrier(elan);
    shim->symmetric_free(elan, memory);
    shim->stop(elan);
    return shim->signal_job(0, why, why_bytes);
}

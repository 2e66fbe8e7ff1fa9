/* Stand-in for libelan's <elan/devent.h>: see ../README.md. The shim does not include it. */
#ifndef GASNET_STANDIN_ELAN_DEVENT_H
#define GASNET_STANDIN_ELAN_DEVENT_H

#include "elan/elan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C1 (AR): a complete type, of events in memory of the Elan. The size: I */
typedef struct {
    uint64_t standin[4];
} ELAN_EVENT_ELAN;

/* C1 (AR); NULL: failed. AR passes 0 as the last parameter; its meaning is unknown. */
ELAN_EVENT *elan_initEvent(ELAN_STATE *state, ELAN_RAIL *rail, ELAN_EVENT_ELAN *event, int unknown);
/* C1 (AR). The return type: D, of the parameter of elan_doput that takes the result */
ELAN_ADDR elan_destEvent(ELAN_EVENT *event);
/* C1 (AR). The return types: I, no caller uses them */
void elan_setWaitCount(ELAN_EVENT *event, int count);
void _elan_deventDump(const char *label, ELAN_EVENT *event);

#ifdef __cplusplus
}
#endif

#endif

/* Barriers, collectives and team creation: operations of all ranks. The root rotates, so that no
 * rank runs ahead. */
#include "perf.h"

#include <gasnet.h>

#ifdef GASNETI_LIBRARY_VERSION
#include <gasnet_coll.h>
#define EXTENSIONS 1
#endif

enum { NAMED, ANONYMOUS, TEAM, BROADCAST, TO_ONE, TO_ALL, SPLIT, GATHER, SCATTER, ALL_GATHER, ALL_TO_ALL, SCAN };

static void groups(struct worker *w, long count) {
    long i;
    for (i = 0; i < count; i++) {
        gex_Rank_t root = (gex_Rank_t)(w->turn++ % np);
        gex_Event_t event = GEX_EVENT_INVALID;
        gex_TM_t half;
        switch (w->test->variant) {
            case NAMED:
                gasnet_barrier_notify((int)w->turn, 0);
                gasnet_barrier_wait((int)w->turn, 0);
                break;
            case ANONYMOUS:
                gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
                gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
                break;
            case TEAM: event = gex_Coll_BarrierNB(tm, 0); break;
            case BROADCAST:
                event = gex_Coll_BroadcastNB(tm, root, w->local, w->local + w->room / 2, w->bytes, 0);
                break;
            case TO_ONE:
                event = gex_Coll_ReduceToOneNB(tm, root, w->local, w->local + w->room / 2, GEX_DT_DBL, 8, w->bytes / 8,
                                               GEX_OP_ADD, NULL, NULL, 0);
                break;
            case TO_ALL:
                event = gex_Coll_ReduceToAllNB(tm, w->local, w->local + w->room / 2, GEX_DT_DBL, 8, w->bytes / 8,
                                               GEX_OP_ADD, NULL, NULL, 0);
                break;
            case SPLIT:
                gex_TM_Split(&half, tm, (int)(me % 2), (int)me, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
                gex_TM_Destroy(half, NULL, 0);
                break;
#ifdef EXTENSIONS
            case GATHER: event = gasnetx_Coll_GatherNB(tm, root, w->local, w->local + w->room / 2, w->bytes, 0); break;
            case SCATTER:
                event = gasnetx_Coll_ScatterNB(tm, root, w->local, w->local + w->room / 2, w->bytes, 0);
                break;
            case ALL_GATHER: event = gasnetx_Coll_AllGatherNB(tm, w->local, w->local + w->room / 2, w->bytes, 0); break;
            case ALL_TO_ALL: event = gasnetx_Coll_AllToAllNB(tm, w->local, w->local + w->room / 2, w->bytes, 0); break;
            case SCAN:
                event = gasnetx_Coll_ScanNB(tm, w->local, w->local + w->room / 2, GEX_DT_DBL, 8, w->bytes / 8,
                                            GEX_OP_ADD, NULL, NULL, 0);
                break;
#endif
            default: break;
        }
        gex_Event_Wait(event);
    }
}

#define ONE ALL, 0, 0, 0
#define SIZES ALL, MANY_BYTES, 8, (size_t)1 << 22
#define DOUBLES ALL, MANY_BYTES | WORDS, 8, (size_t)1 << 22
#define GATHERED ALL, MANY_BYTES | GATHERS, 8, (size_t)1 << 22
const struct test group_tests[] = {
    {"barrier", "gasnet_barrier_notify and _wait, named", ONE, NAMED, groups, "barrier"},
    {"barrier-anonymous", "gasnet_barrier_notify and _wait, anonymous", ONE, ANONYMOUS, groups, "barrier"},
    {"barrier-team", "gex_Coll_BarrierNB and its wait", ONE, TEAM, groups, "barrier"},
    {"broadcast", "gex_Coll_BroadcastNB and its wait", SIZES, BROADCAST, groups, NULL},
    {"reduce", "gex_Coll_ReduceToOneNB of doubles and its wait", DOUBLES, TO_ONE, groups, NULL},
    {"allreduce", "gex_Coll_ReduceToAllNB of doubles and its wait", DOUBLES, TO_ALL, groups, NULL},
#ifdef EXTENSIONS
    {"gather", "gasnetx_Coll_GatherNB and its wait", GATHERED, GATHER, groups, NULL},
    {"scatter", "gasnetx_Coll_ScatterNB and its wait", GATHERED, SCATTER, groups, NULL},
    {"allgather", "gasnetx_Coll_AllGatherNB and its wait", GATHERED, ALL_GATHER, groups, NULL},
    {"alltoall", "gasnetx_Coll_AllToAllNB and its wait", GATHERED, ALL_TO_ALL, groups, NULL},
    {"scan", "gasnetx_Coll_ScanNB of doubles and its wait", DOUBLES, SCAN, groups, NULL},
#endif
    {"team-split", "gex_TM_Split in two and gex_TM_Destroy", ONE, SPLIT, groups, NULL},
    {NULL, NULL, PAIRS, 0, 0, 0, 0, NULL, NULL}};

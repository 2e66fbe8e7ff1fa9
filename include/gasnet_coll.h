// gasnet_coll.h: collective operations of GASNet-EX, and those of GASNet-1 that clients still use.
#ifndef _GASNET_COLL_H
#define _GASNET_COLL_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// Combines count operands: arg2_and_out[i] = arg1[i] op arg2_and_out[i].
typedef void (*gex_Coll_ReduceFn_t)(const void *arg1, void *arg2_and_out, size_t count, const void *cdata);

// src is used on the root only. On the root, src may equal dst.
extern gex_Event_t gex_Coll_BroadcastNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, size_t nbytes,
                                        gex_Flags_t flags);
// dt_sz: bytes of one element; dt_cnt: elements. src may equal dst.
extern gex_Event_t gex_Coll_ReduceToOneNB(gex_TM_t tm, gex_Rank_t root, void *dst, const void *src, gex_DT_t dt, size_t dt_sz,
                                          size_t dt_cnt, gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata,
                                          gex_Flags_t flags);
extern gex_Event_t gex_Coll_ReduceToAllNB(gex_TM_t tm, void *dst, const void *src, gex_DT_t dt, size_t dt_sz, size_t dt_cnt,
                                          gex_OP_t op, gex_Coll_ReduceFn_t user_op, void *user_cdata, gex_Flags_t flags);

// -- GASNet-1, over all processes --------------------------------------------------------------------------------------------

typedef struct gasneti_coll_team_s *gasnet_team_handle_t;
typedef gex_Event_t gasnet_coll_handle_t;
typedef gex_Rank_t gasnet_image_t;

#define GASNET_TEAM_ALL ((gasnet_team_handle_t)(uintptr_t)1)
#define GASNET_COLL_INVALID_HANDLE GEX_EVENT_INVALID

#define GASNET_COLL_IN_NOSYNC 0x1
#define GASNET_COLL_IN_MYSYNC 0x2
#define GASNET_COLL_IN_ALLSYNC 0x4
#define GASNET_COLL_OUT_NOSYNC 0x8
#define GASNET_COLL_OUT_MYSYNC 0x10
#define GASNET_COLL_OUT_ALLSYNC 0x20
#define GASNET_COLL_SINGLE 0x40
#define GASNET_COLL_LOCAL 0x80
#define GASNET_COLL_SRC_IN_SEGMENT 0x100
#define GASNET_COLL_DST_IN_SEGMENT 0x200

#define GASNETI_COLL_GASNET1(type, form)                                                                                  \
    extern type gasnet_coll_broadcast##form(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, void *src,     \
                                            size_t nbytes, int flags);                                                    \
    extern type gasnet_coll_scatter##form(gasnet_team_handle_t team, void *dst, gasnet_image_t srcimage, void *src,       \
                                          size_t nbytes, int flags);                                                      \
    extern type gasnet_coll_gather##form(gasnet_team_handle_t team, gasnet_image_t dstimage, void *dst, void *src,        \
                                         size_t nbytes, int flags);                                                       \
    extern type gasnet_coll_gather_all##form(gasnet_team_handle_t team, void *dst, void *src, size_t nbytes, int flags);  \
    extern type gasnet_coll_exchange##form(gasnet_team_handle_t team, void *dst, void *src, size_t nbytes, int flags);
GASNETI_COLL_GASNET1(void, )
GASNETI_COLL_GASNET1(gasnet_coll_handle_t, _nb)
#undef GASNETI_COLL_GASNET1
extern void gasnet_coll_wait_sync(gasnet_coll_handle_t handle);
extern int gasnet_coll_try_sync(gasnet_coll_handle_t handle);

#ifdef __cplusplus
}
#endif

#endif

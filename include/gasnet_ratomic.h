// gasnet_ratomic.h: remote atomic operations of GASNet-EX.
#ifndef _GASNET_RATOMIC_H
#define _GASNET_RATOMIC_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// Collective over tm. ops: all operations that the domain will be used for, ORed.
extern void gex_AD_Create(gex_AD_t *ad_p, gex_TM_t tm, gex_DT_t dt, gex_OP_t ops, gex_Flags_t flags);
extern void gex_AD_Destroy(gex_AD_t ad);

extern gex_Flags_t gex_AD_QueryFlags(gex_AD_t ad);
extern gex_TM_t gex_AD_QueryTM(gex_AD_t ad);
extern gex_DT_t gex_AD_QueryDT(gex_AD_t ad);
extern gex_OP_t gex_AD_QueryOps(gex_AD_t ad);
extern void gex_AD_SetCData(gex_AD_t ad, const void *val);
extern void *gex_AD_QueryCData(gex_AD_t ad);

// result_p is used by fetching operations, operand1 and operand2 by the operations that have them.
// NBI: GEX_EC_PUT for SET, GEX_EC_GET for GET, GEX_EC_RMW for all others; not 0: nothing was started (GEX_FLAG_IMMEDIATE).
#define GASNETI_AD_TYPED(NAME, type)                                                                                     \
    extern gex_Event_t gex_AD_OpNB_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t tgt_rank, void *tgt_addr,              \
                                          gex_OP_t opcode, type operand1, type operand2, gex_Flags_t flags);             \
    extern int gex_AD_OpNBI_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t tgt_rank, void *tgt_addr, gex_OP_t opcode,    \
                                   type operand1, type operand2, gex_Flags_t flags);
GASNETI_AD_TYPED(I32, int32_t)
GASNETI_AD_TYPED(U32, uint32_t)
GASNETI_AD_TYPED(I64, int64_t)
GASNETI_AD_TYPED(U64, uint64_t)
GASNETI_AD_TYPED(FLT, float)
GASNETI_AD_TYPED(DBL, double)
#undef GASNETI_AD_TYPED

#ifdef __cplusplus
}
#endif

#endif

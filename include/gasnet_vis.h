// gasnet_vis.h: puts and gets of scattered data (vector, indexed, strided), of GASNet-EX and of GASNet-1.
#ifndef _GASNET_VIS_H
#define _GASNET_VIS_H 1

#include "gasnetex.h"

#ifdef __cplusplus
extern "C" {
#endif

// Largest payload of a peer-completion handler, in bytes.
#define GEX_VIS_MAX_PEERCOMPLETION ((size_t)127)

// int results: not 0 when nothing was started (GEX_FLAG_IMMEDIATE). Metadata of Vector and Indexed must stay until completion.
#define GASNETI_VIS_FORMS(type, form)                                                                                      \
    extern type gex_VIS_VectorGet##form(gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[], gex_Rank_t srcrank,    \
                                        size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags);                 \
    extern type gex_VIS_VectorPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, gex_Memvec_t const dstlist[],    \
                                        size_t srccount, gex_Memvec_t const srclist[], gex_Flags_t flags);                 \
    extern type gex_VIS_IndexedGet##form(gex_TM_t tm, size_t dstcount, void *const dstlist[], size_t dstlen,               \
                                         gex_Rank_t srcrank, size_t srccount, void *const srclist[], size_t srclen,        \
                                         gex_Flags_t flags);                                                               \
    extern type gex_VIS_IndexedPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount, void *const dstlist[],          \
                                         size_t dstlen, size_t srccount, void *const srclist[], size_t srclen,             \
                                         gex_Flags_t flags);                                                               \
    extern type gex_VIS_StridedGet##form(gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank,     \
                                         void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], \
                                         size_t stridelevels, gex_Flags_t flags);                                          \
    extern type gex_VIS_StridedPut##form(gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[],     \
                                         void *srcaddr, const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], \
                                         size_t stridelevels, gex_Flags_t flags);
GASNETI_VIS_FORMS(gex_Event_t, NB)
GASNETI_VIS_FORMS(int, NBI)
GASNETI_VIS_FORMS(int, Blocking)
#undef GASNETI_VIS_FORMS

// Deprecated: an AM to the peer of this thread's next VIS put. handler 0 cancels.
extern void gex_VIS_SetPeerCompletionHandler(gex_AM_Index_t handler, const void *source_addr, size_t nbytes, gex_Flags_t flags);

// GASNet-1 forms. count[0] is the length of a contiguous piece; count has stridelevels + 1 entries.
#define GASNETI_VIS_GASNET1(type, form)                                                                                  \
    extern type gasnet_putv##form(gasnet_node_t dstnode, size_t dstcount, gasnet_memvec_t const dstlist[],               \
                                  size_t srccount, gasnet_memvec_t const srclist[]);                                     \
    extern type gasnet_getv##form(size_t dstcount, gasnet_memvec_t const dstlist[], gasnet_node_t srcnode,               \
                                  size_t srccount, gasnet_memvec_t const srclist[]);                                     \
    extern type gasnet_puti##form(gasnet_node_t dstnode, size_t dstcount, void *const dstlist[], size_t dstlen,          \
                                  size_t srccount, void *const srclist[], size_t srclen);                                \
    extern type gasnet_geti##form(size_t dstcount, void *const dstlist[], size_t dstlen, gasnet_node_t srcnode,          \
                                  size_t srccount, void *const srclist[], size_t srclen);                                \
    extern type gasnet_puts##form(gasnet_node_t dstnode, void *dstaddr, const size_t dststrides[], void *srcaddr,        \
                                  const size_t srcstrides[], const size_t count[], size_t stridelevels);                 \
    extern type gasnet_gets##form(void *dstaddr, const size_t dststrides[], gasnet_node_t srcnode, void *srcaddr,        \
                                  const size_t srcstrides[], const size_t count[], size_t stridelevels);
GASNETI_VIS_GASNET1(void, _bulk)
GASNETI_VIS_GASNET1(gex_Event_t, _nb_bulk)
GASNETI_VIS_GASNET1(void, _nbi_bulk)
#undef GASNETI_VIS_GASNET1

#ifdef __cplusplus
}
#endif

#endif

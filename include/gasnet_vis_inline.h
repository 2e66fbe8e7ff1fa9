// gasnet_vis_inline.h: puts and gets of scattered data that are compiled into the client: those of
// one piece, to and from neighbours, which are ordinary puts and gets. Included by gasnet_vis.h
// only. All of this is ABI, as in gasnetex_inline.h.
#ifndef GASNET_VIS_INLINE_H
#define GASNET_VIS_INLINE_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GASNETI_FAST_PATHS)

// Whether a handler may be armed for the next put (gex_VIS_SetPeerCompletionHandler): then the
// library has to see it.
GASNETI_INLINE int gasneti_vis_is_watched(gex_TM_t tm) {
    const uintptr_t bits = (uintptr_t)tm;
    return (bits & 3) != 1 ||
           __atomic_load_n(((const gasneti_tm_head_t *)(bits - 1))->gasneti_vis_watch, __ATOMIC_RELAXED) != 0;
}

// Where nothing is moved, nobody looks at the arrays.
GASNETI_INLINE int gasneti_vis_one(size_t elemsz, const size_t count[], size_t stridelevels) {
    return elemsz != 0 &&
           (stridelevels == 0 || (count[0] == 1 && (stridelevels == 1 || (stridelevels == 2 && count[1] == 1))));
}

GASNETI_INLINE int gasneti_vis_try_put(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                       gex_Flags_t flags) {
    return !gasneti_vis_is_watched(tm) && gasneti_try_put(tm, rank, dest, src, nbytes, flags);
}

GASNETI_INLINE int gasneti_vis_try_get(gex_TM_t tm, void *dest, gex_Rank_t rank, const void *src, size_t nbytes,
                                       gex_Flags_t flags) {
    return !gasneti_vis_is_watched(tm) && gasneti_try_get(tm, dest, rank, src, nbytes, flags);
}

#define GASNETI_VIS_FORMS(type, form, done)                                                                          \
    GASNETI_INLINE type gasneti_inl_VIS_VectorGet##form(gex_TM_t tm, size_t dstcount, gex_Memvec_t const dstlist[],  \
                                                        gex_Rank_t srcrank, size_t srccount,                         \
                                                        gex_Memvec_t const srclist[], gex_Flags_t flags) {           \
        if (dstcount == 1 && srccount == 1 && dstlist[0].gex_len == srclist[0].gex_len &&                            \
            gasneti_vis_try_get(tm, dstlist[0].gex_addr, srcrank, srclist[0].gex_addr, srclist[0].gex_len, flags)) { \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_VectorGet##form(tm, dstcount, dstlist, srcrank, srccount, srclist, flags);                    \
    }                                                                                                                \
    GASNETI_INLINE type gasneti_inl_VIS_VectorPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount,            \
                                                        gex_Memvec_t const dstlist[], size_t srccount,               \
                                                        gex_Memvec_t const srclist[], gex_Flags_t flags) {           \
        if (dstcount == 1 && srccount == 1 && dstlist[0].gex_len == srclist[0].gex_len &&                            \
            gasneti_vis_try_put(tm, dstrank, dstlist[0].gex_addr, srclist[0].gex_addr, srclist[0].gex_len, flags)) { \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_VectorPut##form(tm, dstrank, dstcount, dstlist, srccount, srclist, flags);                    \
    }                                                                                                                \
    GASNETI_INLINE type gasneti_inl_VIS_IndexedGet##form(gex_TM_t tm, size_t dstcount, void *const dstlist[],        \
                                                         size_t dstlen, gex_Rank_t srcrank, size_t srccount,         \
                                                         void *const srclist[], size_t srclen, gex_Flags_t flags) {  \
        if (dstcount == 1 && srccount == 1 && dstlen == srclen &&                                                    \
            gasneti_vis_try_get(tm, dstlist[0], srcrank, srclist[0], srclen, flags)) {                               \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_IndexedGet##form(tm, dstcount, dstlist, dstlen, srcrank, srccount, srclist, srclen, flags);   \
    }                                                                                                                \
    GASNETI_INLINE type gasneti_inl_VIS_IndexedPut##form(gex_TM_t tm, gex_Rank_t dstrank, size_t dstcount,           \
                                                         void *const dstlist[], size_t dstlen, size_t srccount,      \
                                                         void *const srclist[], size_t srclen, gex_Flags_t flags) {  \
        if (dstcount == 1 && srccount == 1 && dstlen == srclen &&                                                    \
            gasneti_vis_try_put(tm, dstrank, dstlist[0], srclist[0], srclen, flags)) {                               \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_IndexedPut##form(tm, dstrank, dstcount, dstlist, dstlen, srccount, srclist, srclen, flags);   \
    }                                                                                                                \
    GASNETI_INLINE type gasneti_inl_VIS_StridedGet##form(                                                            \
        gex_TM_t tm, void *dstaddr, const ptrdiff_t dststrides[], gex_Rank_t srcrank, void *srcaddr,                 \
        const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels, gex_Flags_t flags) { \
        if (gasneti_vis_one(elemsz, count, stridelevels) &&                                                          \
            gasneti_vis_try_get(tm, dstaddr, srcrank, srcaddr, elemsz, flags)) {                                     \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_StridedGet##form(tm, dstaddr, dststrides, srcrank, srcaddr, srcstrides, elemsz, count,        \
                                        stridelevels, flags);                                                        \
    }                                                                                                                \
    GASNETI_INLINE type gasneti_inl_VIS_StridedPut##form(                                                            \
        gex_TM_t tm, gex_Rank_t dstrank, void *dstaddr, const ptrdiff_t dststrides[], void *srcaddr,                 \
        const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[], size_t stridelevels, gex_Flags_t flags) { \
        if (gasneti_vis_one(elemsz, count, stridelevels) &&                                                          \
            gasneti_vis_try_put(tm, dstrank, dstaddr, srcaddr, elemsz, flags)) {                                     \
            return done;                                                                                             \
        }                                                                                                            \
        return gex_VIS_StridedPut##form(tm, dstrank, dstaddr, dststrides, srcaddr, srcstrides, elemsz, count,        \
                                        stridelevels, flags);                                                        \
    }
GASNETI_VIS_FORMS(gex_Event_t, NB, GEX_EVENT_INVALID)
GASNETI_VIS_FORMS(int, NBI, 0)
GASNETI_VIS_FORMS(int, Blocking, 0)
#undef GASNETI_VIS_FORMS

#define gex_VIS_VectorGetNB(...) gasneti_inl_VIS_VectorGetNB(__VA_ARGS__)
#define gex_VIS_VectorGetNBI(...) gasneti_inl_VIS_VectorGetNBI(__VA_ARGS__)
#define gex_VIS_VectorGetBlocking(...) gasneti_inl_VIS_VectorGetBlocking(__VA_ARGS__)
#define gex_VIS_VectorPutNB(...) gasneti_inl_VIS_VectorPutNB(__VA_ARGS__)
#define gex_VIS_VectorPutNBI(...) gasneti_inl_VIS_VectorPutNBI(__VA_ARGS__)
#define gex_VIS_VectorPutBlocking(...) gasneti_inl_VIS_VectorPutBlocking(__VA_ARGS__)
#define gex_VIS_IndexedGetNB(...) gasneti_inl_VIS_IndexedGetNB(__VA_ARGS__)
#define gex_VIS_IndexedGetNBI(...) gasneti_inl_VIS_IndexedGetNBI(__VA_ARGS__)
#define gex_VIS_IndexedGetBlocking(...) gasneti_inl_VIS_IndexedGetBlocking(__VA_ARGS__)
#define gex_VIS_IndexedPutNB(...) gasneti_inl_VIS_IndexedPutNB(__VA_ARGS__)
#define gex_VIS_IndexedPutNBI(...) gasneti_inl_VIS_IndexedPutNBI(__VA_ARGS__)
#define gex_VIS_IndexedPutBlocking(...) gasneti_inl_VIS_IndexedPutBlocking(__VA_ARGS__)
#define gex_VIS_StridedGetNB(...) gasneti_inl_VIS_StridedGetNB(__VA_ARGS__)
#define gex_VIS_StridedGetNBI(...) gasneti_inl_VIS_StridedGetNBI(__VA_ARGS__)
#define gex_VIS_StridedGetBlocking(...) gasneti_inl_VIS_StridedGetBlocking(__VA_ARGS__)
#define gex_VIS_StridedPutNB(...) gasneti_inl_VIS_StridedPutNB(__VA_ARGS__)
#define gex_VIS_StridedPutNBI(...) gasneti_inl_VIS_StridedPutNBI(__VA_ARGS__)
#define gex_VIS_StridedPutBlocking(...) gasneti_inl_VIS_StridedPutBlocking(__VA_ARGS__)

#endif

#ifdef __cplusplus
}
#endif

#endif

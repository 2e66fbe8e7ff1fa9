// gasnetex_inline.h: what is compiled into the client: puts and gets to processes that share
// memory, and the start-up check. Included by gasnetex.h only.
//
// All of this is ABI: see GASNETI_ABI. Each macro has the name of a function and calls an inline
// function of another name, so &gex_RMA_PutNB and (gex_RMA_PutNB)(…) are still the library's
// function.
#ifndef GASNETEX_INLINE_H
#define GASNETEX_INLINE_H

#ifdef __cplusplus
extern "C" {
#endif

// -- Initialisation -------------------------------------------------------------------------------

#ifndef GASNETI_BUILDING_LIBRARY

static __inline__ struct gasneti_build_info gasneti_this_build(void) {
    struct gasneti_build_info info = {
        (uint32_t)sizeof(struct gasneti_build_info),
        GASNETI_ABI,
        GASNETI_MODE_NUMBER,
#ifdef GASNET_DEBUG
        1,
#else
        0,
#endif
        GASNETI_STR(GASNETI_CONDUIT_TOKEN),
        GASNETI_RELEASE_VERSION,
        GASNETI_SEGMENT_STR,
        (uint32_t)sizeof(void *),
        (uint32_t)sizeof(gex_HSL_t),
        (uint32_t)sizeof(gex_AM_Entry_t),
        (uint32_t)sizeof(gex_Token_Info_t),
    };
    return info;
}

extern int gasneti_Client_Init_checked(const struct gasneti_build_info *client, gex_Client_t *client_p, gex_EP_t *ep_p,
                                       gex_TM_t *tm_p, const char *clientName, int *argc, char ***argv,
                                       gex_Flags_t flags);

static __inline__ int gasneti_inl_Client_Init(gex_Client_t *client_p, gex_EP_t *ep_p, gex_TM_t *tm_p,
                                              const char *clientName, int *argc, char ***argv, gex_Flags_t flags) {
    const struct gasneti_build_info info = gasneti_this_build();
    return gasneti_Client_Init_checked(&info, client_p, ep_p, tm_p, clientName, argc, argv, flags);
}
#define gex_Client_Init(...) gasneti_inl_Client_Init(__VA_ARGS__)

#endif

// -- Neighbours -----------------------------------------------------------------------------------

// A gex_TM_t whose two lowest bits are 01 is the address of this head, plus 1. Ranks first … first
// + count - 1 of the team share memory with this process: an address a in the segment of rank first
// + i is mapped here at a + deltas[i]. The library stores count last, and 0 whenever it wants to
// see every call (before attach, while tracing). Where *vis_watch is not 0, it wants to see puts
// and gets of scattered data.
typedef struct {
    uint32_t gasneti_first;
    uint32_t gasneti_count;
    const intptr_t *gasneti_deltas;
    const uint32_t *gasneti_vis_watch;
} gasneti_tm_head_t;

#define GASNETI_INLINE static __inline__ __attribute__((__always_inline__))

// A debug library checks arguments, so it must see them; ThreadSanitizer must see the copies.
#if !defined(GASNET_DEBUG) && !defined(GASNETI_BUILDING_LIBRARY) && !defined(GASNETI_THREAD_SANITIZER)
#define GASNETI_FAST_PATHS 1

// Flags that change nothing for a neighbour.
#define GASNETI_PLAIN_FLAGS                                                                               \
    (GEX_FLAG_IMMEDIATE | GEX_FLAG_PEER_NEVER_SELF | GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | \
     GEX_FLAG_SELF_SEG_BOUND | GEX_FLAG_PEER_SEG_BOUND)

// Whether rank is a neighbour of the team with that head; then *mapped becomes remote's address
// here.
GASNETI_INLINE int gasneti_mapped(const gasneti_tm_head_t *head, gex_Rank_t rank, const void *remote, void **mapped) {
    // The library opens a head once, when the segments are attached; who uses a segment knows that
    // this is done. So these are ordinary loads.
    const uint32_t index = rank - head->gasneti_first;
    if (__builtin_expect(index >= head->gasneti_count, 0)) {
        return 0;
    }
    *mapped = (void *)((uintptr_t)remote + (uintptr_t)head->gasneti_deltas[index]);
    return 1;
}

// Whether (tm, rank) is a neighbour; then *mapped becomes remote's address here. Flags that the
// library must see say no.
GASNETI_INLINE int gasneti_neighbour(gex_TM_t tm, gex_Rank_t rank, const void *remote, gex_Flags_t flags,
                                     void **mapped) {
    const uintptr_t bits = (uintptr_t)tm;
    if ((flags & ~(gex_Flags_t)GASNETI_PLAIN_FLAGS) != 0 || (bits & 3) != 1) {
        return 0;
    }
    return gasneti_mapped((const gasneti_tm_head_t *)(bits - 1), rank, remote, mapped);
}

typedef uint16_t __attribute__((__may_alias__)) gasneti_word16_t;
typedef uint32_t __attribute__((__may_alias__)) gasneti_word32_t;
typedef uint64_t __attribute__((__may_alias__)) gasneti_word64_t;

// An aligned transfer of 1, 2, 4 or 8 bytes is one load and one store: others wait for the word
// that it writes.
GASNETI_INLINE void gasneti_copy(void *dest, const void *src, size_t nbytes) {
    const uintptr_t low = (uintptr_t)dest | (uintptr_t)src;
    if (!__builtin_constant_p(nbytes)) {
        // Whose objects these are: else compilers warn of the client's small ones, for which the
        // longer ways below are never taken.
        __asm__("" : "+r"(dest), "+r"(src));
    }
    if (nbytes > 8) {
        memcpy(dest, src, nbytes);
    } else if (nbytes == 8 && (low & 7) == 0) {
        *(volatile gasneti_word64_t *)dest = *(const volatile gasneti_word64_t *)src;
    } else if (nbytes == 4 && (low & 3) == 0) {
        *(volatile gasneti_word32_t *)dest = *(const volatile gasneti_word32_t *)src;
    } else if (nbytes == 2 && (low & 1) == 0) {
        *(volatile gasneti_word16_t *)dest = *(const volatile gasneti_word16_t *)src;
    } else if (nbytes == 1) {
        *(volatile unsigned char *)dest = *(const volatile unsigned char *)src;
    } else if (nbytes != 0) {
        memcpy(dest, src, nbytes);
    }
}

// What this thread wrote or put before is visible before this put: clients poll a word that follows
// the data. On x86-64 this is no instruction.
#define GASNETI_PUT_BEGIN() __atomic_thread_fence(__ATOMIC_RELEASE)
// Keeps the compiler from moving a put behind, or dropping it in favour of, a later one.
#define GASNETI_PUT_DONE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
// What is read after a get completed is read after it.
#define GASNETI_GET_DONE() GASNETI_ACQUIRE_FENCE()

GASNETI_INLINE int gasneti_try_put(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                   gex_Flags_t flags) {
    void *mapped;
    if (!gasneti_neighbour(tm, rank, dest, flags, &mapped)) {
        return 0;
    }
    GASNETI_PUT_BEGIN();
    gasneti_copy(mapped, src, nbytes);
    GASNETI_PUT_DONE();
    return 1;
}

GASNETI_INLINE int gasneti_try_get(gex_TM_t tm, void *dest, gex_Rank_t rank, const void *src, size_t nbytes,
                                   gex_Flags_t flags) {
    void *mapped;
    if (!gasneti_neighbour(tm, rank, src, flags, &mapped)) {
        return 0;
    }
    gasneti_copy(dest, mapped, nbytes);
    GASNETI_GET_DONE();
    return 1;
}

// The library says what is wrong with a longer one.
#define GASNETI_IS_VALUE(nbytes) ((nbytes) <= sizeof(gex_RMA_Value_t))
// Where the bytes of a value of nbytes are.
GASNETI_INLINE const void *gasneti_value_bytes(const gex_RMA_Value_t *value, size_t nbytes) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (const char *)value + (sizeof(gex_RMA_Value_t) - nbytes);
#else
    (void)nbytes;
    return value;
#endif
}

// The values below 4 are choices, not addresses.
GASNETI_INLINE void gasneti_local_completion(gex_Event_t *lc_opt) {
    if ((uintptr_t)lc_opt > 3) {
        *lc_opt = GEX_EVENT_INVALID;
    }
}

// -- Put ------------------------------------------------------------------------------------------

GASNETI_INLINE int gasneti_inl_PutBlocking(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                           gex_Flags_t flags) {
    return gasneti_try_put(tm, rank, dest, src, nbytes, flags)
               ? 0
               : gex_RMA_PutBlocking(tm, rank, dest, src, nbytes, flags);
}

GASNETI_INLINE int gasneti_inl_PutNBI(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                      gex_Event_t *lc_opt, gex_Flags_t flags) {
    if (gasneti_try_put(tm, rank, dest, src, nbytes, flags)) {
        return 0;
    }
    return gex_RMA_PutNBI(tm, rank, dest, src, nbytes, lc_opt, flags);
}

GASNETI_INLINE gex_Event_t gasneti_inl_PutNB(gex_TM_t tm, gex_Rank_t rank, void *dest, const void *src, size_t nbytes,
                                             gex_Event_t *lc_opt, gex_Flags_t flags) {
    if (gasneti_try_put(tm, rank, dest, src, nbytes, flags)) {
        gasneti_local_completion(lc_opt);
        return GEX_EVENT_INVALID;
    }
    return gex_RMA_PutNB(tm, rank, dest, src, nbytes, lc_opt, flags);
}

GASNETI_INLINE int gasneti_inl_PutBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                                              size_t nbytes, gex_Flags_t flags) {
    if (GASNETI_IS_VALUE(nbytes) &&
        gasneti_try_put(tm, rank, dest, gasneti_value_bytes(&value, nbytes), nbytes, flags)) {
        return 0;
    }
    return gex_RMA_PutBlockingVal(tm, rank, dest, value, nbytes, flags);
}

GASNETI_INLINE int gasneti_inl_PutNBIVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value, size_t nbytes,
                                         gex_Flags_t flags) {
    if (GASNETI_IS_VALUE(nbytes) &&
        gasneti_try_put(tm, rank, dest, gasneti_value_bytes(&value, nbytes), nbytes, flags)) {
        return 0;
    }
    return gex_RMA_PutNBIVal(tm, rank, dest, value, nbytes, flags);
}

GASNETI_INLINE gex_Event_t gasneti_inl_PutNBVal(gex_TM_t tm, gex_Rank_t rank, void *dest, gex_RMA_Value_t value,
                                                size_t nbytes, gex_Flags_t flags) {
    if (GASNETI_IS_VALUE(nbytes) &&
        gasneti_try_put(tm, rank, dest, gasneti_value_bytes(&value, nbytes), nbytes, flags)) {
        return GEX_EVENT_INVALID;
    }
    return gex_RMA_PutNBVal(tm, rank, dest, value, nbytes, flags);
}

// -- Get ------------------------------------------------------------------------------------------

GASNETI_INLINE int gasneti_inl_GetBlocking(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                           gex_Flags_t flags) {
    return gasneti_try_get(tm, dest, rank, src, nbytes, flags)
               ? 0
               : gex_RMA_GetBlocking(tm, dest, rank, src, nbytes, flags);
}

GASNETI_INLINE int gasneti_inl_GetNBI(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                      gex_Flags_t flags) {
    return gasneti_try_get(tm, dest, rank, src, nbytes, flags) ? 0 : gex_RMA_GetNBI(tm, dest, rank, src, nbytes, flags);
}

GASNETI_INLINE gex_Event_t gasneti_inl_GetNB(gex_TM_t tm, void *dest, gex_Rank_t rank, void *src, size_t nbytes,
                                             gex_Flags_t flags) {
    if (gasneti_try_get(tm, dest, rank, src, nbytes, flags)) {
        return GEX_EVENT_INVALID;
    }
    return gex_RMA_GetNB(tm, dest, rank, src, nbytes, flags);
}

GASNETI_INLINE gex_RMA_Value_t gasneti_inl_GetBlockingVal(gex_TM_t tm, gex_Rank_t rank, void *src, size_t nbytes,
                                                          gex_Flags_t flags) {
    gex_RMA_Value_t value = 0;
    if (GASNETI_IS_VALUE(nbytes) &&
        gasneti_try_get(tm, (void *)(uintptr_t)gasneti_value_bytes(&value, nbytes), rank, src, nbytes, flags)) {
        return value;
    }
    return gex_RMA_GetBlockingVal(tm, rank, src, nbytes, flags);
}

#define gex_RMA_PutBlocking(...) gasneti_inl_PutBlocking(__VA_ARGS__)
#define gex_RMA_PutNBI(...) gasneti_inl_PutNBI(__VA_ARGS__)
#define gex_RMA_PutNB(...) gasneti_inl_PutNB(__VA_ARGS__)
#define gex_RMA_PutBlockingVal(...) gasneti_inl_PutBlockingVal(__VA_ARGS__)
#define gex_RMA_PutNBIVal(...) gasneti_inl_PutNBIVal(__VA_ARGS__)
#define gex_RMA_PutNBVal(...) gasneti_inl_PutNBVal(__VA_ARGS__)
#define gex_RMA_GetBlocking(...) gasneti_inl_GetBlocking(__VA_ARGS__)
#define gex_RMA_GetNBI(...) gasneti_inl_GetNBI(__VA_ARGS__)
#define gex_RMA_GetNB(...) gasneti_inl_GetNB(__VA_ARGS__)
#define gex_RMA_GetBlockingVal(...) gasneti_inl_GetBlockingVal(__VA_ARGS__)

// -- Events ---------------------------------------------------------------------------------------

GASNETI_INLINE int gasneti_inl_Event_Test(gex_Event_t event) {
    return event == GEX_EVENT_INVALID ? GASNET_OK : gex_Event_Test(event);
}

GASNETI_INLINE void gasneti_inl_Event_Wait(gex_Event_t event) {
    if (event != GEX_EVENT_INVALID) {
        gex_Event_Wait(event);
    }
}

#define gex_Event_Test(...) gasneti_inl_Event_Test(__VA_ARGS__)
#define gex_Event_Wait(...) gasneti_inl_Event_Wait(__VA_ARGS__)

#endif

#ifdef __cplusplus
}
#endif

#endif

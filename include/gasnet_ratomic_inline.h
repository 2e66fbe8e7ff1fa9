// gasnet_ratomic_inline.h: remote atomic operations that are compiled into the client: those on
// neighbours' memory whose operation the compiler knows. Included by gasnet_ratomic.h only.
//
// All of this is ABI, as in gasnetex_inline.h. Whoever performs an operation, this code, the
// library here or at the target's owner, uses the processor's atomic instructions on the same
// memory; so all of them are atomic to each other.
#ifndef GASNET_RATOMIC_INLINE_H
#define GASNET_RATOMIC_INLINE_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(GASNETI_FAST_PATHS)

// Flags that change nothing, or only the order of loads and stores around the operation.
#define GASNETI_AD_PLAIN_FLAGS \
    (GEX_FLAG_IMMEDIATE | GEX_FLAG_AD_REL | GEX_FLAG_AD_ACQ | GEX_FLAG_AD_MY_RANK | GEX_FLAG_AD_MY_NBRHD)

// Whether the target is here; then *mapped is its address. A gex_AD_t is the address of a
// gasneti_tm_head_t for the domain's team. The library ends the job on misaligned targets.
GASNETI_INLINE int gasneti_ad_reaches(gex_AD_t ad, gex_Rank_t rank, const void *target, size_t bytes, gex_Flags_t flags,
                                      void **mapped) {
    const gasneti_tm_head_t *const head = (const gasneti_tm_head_t *)(const void *)ad;
    return (flags & ~(gex_Flags_t)GASNETI_AD_PLAIN_FLAGS) == 0 && gasneti_mapped(head, rank, target, mapped) &&
           ((uintptr_t)*mapped & (bytes - 1)) == 0;
}

// A read orders what comes before it, and a write what comes after it, by a fence only.
#define GASNETI_AD_FENCE(flags, flag) ((void)(((flags) & (flag)) == 0 || (__atomic_thread_fence(__ATOMIC_SEQ_CST), 0)))

// A comparison that fails is a read: nothing it writes releases what comes before. On x86 its
// instruction is a fence.
#if defined(__x86_64__) || defined(__i386__)
#define GASNETI_AD_CAS_FENCE(flags) ((void)0)
#else
#define GASNETI_AD_CAS_FENCE(flags) GASNETI_AD_FENCE(flags, GEX_FLAG_AD_REL)
#endif

// Without a flag there is no order.
#define GASNETI_AD_ORDER(flags) \
    (((flags) & (GEX_FLAG_AD_REL | GEX_FLAG_AD_ACQ)) != 0 ? __ATOMIC_ACQ_REL : __ATOMIC_RELAXED)

// What a comparison that fails, or a read, does with the order of the whole.
#define GASNETI_AD_FAILED(order) ((order) == __ATOMIC_RELAXED ? __ATOMIC_RELAXED : __ATOMIC_ACQUIRE)

// gasneti_ad_perform_NAME: performs op on the word at `at` and returns 1, or does nothing and
// returns 0. order is ACQ_REL, or RELAXED if flags ask for none. CASES are further operations.
// gasneti_ad_switch_NAME: the same, once per client file, for operations that the compiler does not
// know. gasneti_ad_try_NAME: whichever is shorter, if the target is here.
#define GASNETI_AD_TRY(NAME, type, word, CASES)                                                                       \
    typedef word __attribute__((__may_alias__)) gasneti_ad_##NAME##_t;                                                \
    GASNETI_INLINE int gasneti_ad_perform_##NAME(gasneti_ad_##NAME##_t *at, type *result_p, gex_OP_t op,              \
                                                 type operand1, type operand2, gex_Flags_t flags, int order) {        \
        word a, b;                                                                                                    \
        memcpy(&a, &operand1, sizeof a);                                                                              \
        memcpy(&b, &operand2, sizeof b);                                                                              \
        switch (op) {                                                                                                 \
            case GEX_OP_SET:                                                                                          \
                __atomic_store_n(at, a, order == __ATOMIC_RELAXED ? __ATOMIC_RELAXED : __ATOMIC_RELEASE);             \
                GASNETI_AD_FENCE(flags, GEX_FLAG_AD_ACQ);                                                             \
                return 1;                                                                                             \
            case GEX_OP_GET:                                                                                          \
                GASNETI_AD_FENCE(flags, GEX_FLAG_AD_REL);                                                             \
                a = __atomic_load_n(at, GASNETI_AD_FAILED(order));                                                    \
                break;                                                                                                \
            case GEX_OP_SWAP: a = __atomic_exchange_n(at, a, order); break;                                           \
            case GEX_OP_CAS:                                                                                          \
                GASNETI_AD_CAS_FENCE(flags);                                                                          \
                (void)__atomic_compare_exchange_n(at, &a, b, 0, order, GASNETI_AD_FAILED(order));                     \
                return 1;                                                                                             \
            case GEX_OP_FCAS:                                                                                         \
                GASNETI_AD_CAS_FENCE(flags);                                                                          \
                (void)__atomic_compare_exchange_n(at, &a, b, 0, order, GASNETI_AD_FAILED(order));                     \
                break;                                                                                                \
                CASES                                                                                                 \
                GASNETI_AD_UPDATE(type, MIN, old < operand1 ? old : operand1)                                         \
                GASNETI_AD_UPDATE(type, MAX, old > operand1 ? old : operand1)                                         \
            default: return 0;                                                                                        \
        }                                                                                                             \
        memcpy(result_p, &a, sizeof a);                                                                               \
        return 1;                                                                                                     \
    }                                                                                                                 \
    static __attribute__((__noinline__, __unused__)) int gasneti_ad_switch_##NAME(                                    \
        gasneti_ad_##NAME##_t *at, type *result_p, gex_OP_t op, type operand1, type operand2, gex_Flags_t flags) {    \
        return gasneti_ad_perform_##NAME(at, result_p, op, operand1, operand2, flags, __ATOMIC_ACQ_REL);              \
    }                                                                                                                 \
    GASNETI_INLINE int gasneti_ad_try_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t rank, void *target, gex_OP_t op, \
                                             type operand1, type operand2, gex_Flags_t flags) {                       \
        void *mapped;                                                                                                 \
        if (!gasneti_ad_reaches(ad, rank, target, sizeof(type), flags, &mapped)) {                                    \
            return 0;                                                                                                 \
        }                                                                                                             \
        return __builtin_constant_p(op)                                                                               \
                   ? gasneti_ad_perform_##NAME((gasneti_ad_##NAME##_t *)mapped, result_p, op, operand1, operand2,     \
                                               flags, GASNETI_AD_ORDER(flags))                                        \
                   : gasneti_ad_switch_##NAME((gasneti_ad_##NAME##_t *)mapped, result_p, op, operand1, operand2,      \
                                              flags);                                                                 \
    }

// An operation and its fetching partner, by one instruction.
#define GASNETI_AD_CASE(OP, function, operand)                      \
    case GEX_OP_##OP: (void)function(at, operand, order); return 1; \
    case GEX_OP_F##OP:                                              \
        a = function(at, operand, order);                           \
        break;
#define GASNETI_AD_INTEGER_CASES(type, word)                          \
    GASNETI_AD_UPDATE(type, MULT, (type)((word)old * (word)operand1)) \
    GASNETI_AD_CASE(ADD, __atomic_fetch_add, a)                       \
    GASNETI_AD_CASE(SUB, __atomic_fetch_sub, a)                       \
    GASNETI_AD_CASE(INC, __atomic_fetch_add, 1)                       \
    GASNETI_AD_CASE(DEC, __atomic_fetch_sub, 1)                       \
    GASNETI_AD_CASE(AND, __atomic_fetch_and, a)                       \
    GASNETI_AD_CASE(OR, __atomic_fetch_or, a)                         \
    GASNETI_AD_CASE(XOR, __atomic_fetch_xor, a)

// The same for what processors have no instruction for: `value` is computed from `old`.
#define GASNETI_AD_UPDATE(type, OP, value)                                                     \
    case GEX_OP_##OP:                                                                          \
    case GEX_OP_F##OP:                                                                         \
        a = __atomic_load_n(at, __ATOMIC_RELAXED);                                             \
        do {                                                                                   \
            type old, next;                                                                    \
            memcpy(&old, &a, sizeof old);                                                      \
            next = value;                                                                      \
            memcpy(&b, &next, sizeof b);                                                       \
        } while (!__atomic_compare_exchange_n(at, &a, b, 1, order, GASNETI_AD_FAILED(order))); \
        if (op == GEX_OP_##OP) {                                                               \
            return 1;                                                                          \
        }                                                                                      \
        break;
#define GASNETI_AD_FLOAT_CASES(type)             \
    GASNETI_AD_UPDATE(type, ADD, old + operand1) \
    GASNETI_AD_UPDATE(type, MULT, old *operand1) \
    GASNETI_AD_UPDATE(type, SUB, old - operand1) \
    GASNETI_AD_UPDATE(type, INC, old + 1)        \
    GASNETI_AD_UPDATE(type, DEC, old - 1)

#define GASNETI_AD_FORMS(NAME, type)                                                                                  \
    GASNETI_INLINE gex_Event_t gasneti_inl_AD_OpNB_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t rank, void *target, \
                                                          gex_OP_t op, type operand1, type operand2,                  \
                                                          gex_Flags_t flags) {                                        \
        if (gasneti_ad_try_##NAME(ad, result_p, rank, target, op, operand1, operand2, flags)) {                       \
            return GEX_EVENT_INVALID;                                                                                 \
        }                                                                                                             \
        return gex_AD_OpNB_##NAME(ad, result_p, rank, target, op, operand1, operand2, flags);                         \
    }                                                                                                                 \
    GASNETI_INLINE int gasneti_inl_AD_OpNBI_##NAME(gex_AD_t ad, type *result_p, gex_Rank_t rank, void *target,        \
                                                   gex_OP_t op, type operand1, type operand2, gex_Flags_t flags) {    \
        if (gasneti_ad_try_##NAME(ad, result_p, rank, target, op, operand1, operand2, flags)) {                       \
            return 0;                                                                                                 \
        }                                                                                                             \
        return gex_AD_OpNBI_##NAME(ad, result_p, rank, target, op, operand1, operand2, flags);                        \
    }

// Unsigned words for all integers: they wrap around.
GASNETI_AD_TRY(I32, int32_t, uint32_t, GASNETI_AD_INTEGER_CASES(int32_t, uint32_t))
GASNETI_AD_TRY(U32, uint32_t, uint32_t, GASNETI_AD_INTEGER_CASES(uint32_t, uint32_t))
GASNETI_AD_TRY(I64, int64_t, uint64_t, GASNETI_AD_INTEGER_CASES(int64_t, uint64_t))
GASNETI_AD_TRY(U64, uint64_t, uint64_t, GASNETI_AD_INTEGER_CASES(uint64_t, uint64_t))
GASNETI_AD_TRY(FLT, float, uint32_t, GASNETI_AD_FLOAT_CASES(float))
GASNETI_AD_TRY(DBL, double, uint64_t, GASNETI_AD_FLOAT_CASES(double))
GASNETI_AD_FORMS(I32, int32_t)
GASNETI_AD_FORMS(U32, uint32_t)
GASNETI_AD_FORMS(I64, int64_t)
GASNETI_AD_FORMS(U64, uint64_t)
GASNETI_AD_FORMS(FLT, float)
GASNETI_AD_FORMS(DBL, double)
#undef GASNETI_AD_TRY
#undef GASNETI_AD_FORMS
#undef GASNETI_AD_CASE
#undef GASNETI_AD_INTEGER_CASES
#undef GASNETI_AD_UPDATE
#undef GASNETI_AD_FLOAT_CASES

#define gex_AD_OpNB_I32(...) gasneti_inl_AD_OpNB_I32(__VA_ARGS__)
#define gex_AD_OpNB_U32(...) gasneti_inl_AD_OpNB_U32(__VA_ARGS__)
#define gex_AD_OpNB_I64(...) gasneti_inl_AD_OpNB_I64(__VA_ARGS__)
#define gex_AD_OpNB_U64(...) gasneti_inl_AD_OpNB_U64(__VA_ARGS__)
#define gex_AD_OpNB_FLT(...) gasneti_inl_AD_OpNB_FLT(__VA_ARGS__)
#define gex_AD_OpNB_DBL(...) gasneti_inl_AD_OpNB_DBL(__VA_ARGS__)
#define gex_AD_OpNBI_I32(...) gasneti_inl_AD_OpNBI_I32(__VA_ARGS__)
#define gex_AD_OpNBI_U32(...) gasneti_inl_AD_OpNBI_U32(__VA_ARGS__)
#define gex_AD_OpNBI_I64(...) gasneti_inl_AD_OpNBI_I64(__VA_ARGS__)
#define gex_AD_OpNBI_U64(...) gasneti_inl_AD_OpNBI_U64(__VA_ARGS__)
#define gex_AD_OpNBI_FLT(...) gasneti_inl_AD_OpNBI_FLT(__VA_ARGS__)
#define gex_AD_OpNBI_DBL(...) gasneti_inl_AD_OpNBI_DBL(__VA_ARGS__)

#endif

#ifdef __cplusplus
}
#endif

#endif

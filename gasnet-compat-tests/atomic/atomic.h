/* Helpers of the remote-atomics tests: the types, all operations, and one complete operation. */
#ifndef COMPAT_TESTS_ATOMIC_H
#define COMPAT_TESTS_ATOMIC_H

#include "check.h"

#include <gasnet_ratomic.h>

#define OPS_BITWISE (GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR | GEX_OP_FAND | GEX_OP_FOR | GEX_OP_FXOR)
#define OPS_ARITHMETIC                                                                                         \
    (GEX_OP_ADD | GEX_OP_SUB | GEX_OP_MULT | GEX_OP_MIN | GEX_OP_MAX | GEX_OP_INC | GEX_OP_DEC | GEX_OP_FADD | \
     GEX_OP_FSUB | GEX_OP_FMULT | GEX_OP_FMIN | GEX_OP_FMAX | GEX_OP_FINC | GEX_OP_FDEC)
#define OPS_ACCESS (GEX_OP_SET | GEX_OP_GET | GEX_OP_SWAP | GEX_OP_CAS | GEX_OP_FCAS)
#define OPS_FLOAT (OPS_ARITHMETIC | OPS_ACCESS)
#define OPS_INTEGER (OPS_FLOAT | OPS_BITWISE)

/* X(name, type, unsigned type for wrapping arithmetic, operations) */
#define FOR_INTEGERS(X)                     \
    X(I32, int32_t, uint32_t, OPS_INTEGER)  \
    X(U32, uint32_t, uint32_t, OPS_INTEGER) \
    X(I64, int64_t, uint64_t, OPS_INTEGER)  \
    X(U64, uint64_t, uint64_t, OPS_INTEGER)
#define FOR_FLOATS(X)               \
    X(FLT, float, float, OPS_FLOAT) \
    X(DBL, double, double, OPS_FLOAT)
#define FOR_TYPES(X) FOR_INTEGERS(X) FOR_FLOATS(X)

TEST_UNUSED static gex_EC_t category_of(gex_OP_t op) {
    return op == GEX_OP_SET ? GEX_EC_PUT : op == GEX_OP_GET ? GEX_EC_GET : GEX_EC_RMW;
}

/* Starts an operation, again without IMMEDIATE if that did nothing, and waits for it: as NB or as
 * NBI. */
#define DEFINE_BLOCKING(NAME, type, wide, ops)                                                                     \
    TEST_UNUSED static void blocking_##NAME(gex_AD_t ad, type *result, gex_Rank_t rank, void *target, gex_OP_t op, \
                                            type a, type b, gex_Flags_t flags, int nbi) {                          \
        if (nbi) {                                                                                                 \
            while (gex_AD_OpNBI_##NAME(ad, result, rank, target, op, a, b, flags)) {                               \
                CHECK(flags &GEX_FLAG_IMMEDIATE);                                                                  \
                flags &= ~GEX_FLAG_IMMEDIATE;                                                                      \
            }                                                                                                      \
            gex_NBI_Wait(category_of(op), 0);                                                                      \
        } else {                                                                                                   \
            gex_Event_t event;                                                                                     \
            while ((event = gex_AD_OpNB_##NAME(ad, result, rank, target, op, a, b, flags)) == GEX_EVENT_NO_OP) {   \
                CHECK(flags &GEX_FLAG_IMMEDIATE);                                                                  \
                flags &= ~GEX_FLAG_IMMEDIATE;                                                                      \
            }                                                                                                      \
            gex_Event_Wait(event);                                                                                 \
        }                                                                                                          \
    }
FOR_TYPES(DEFINE_BLOCKING)

/* Whether `rank` shares memory with this process. */
TEST_UNUSED static int is_neighbour(gex_Rank_t rank) {
    gex_RankInfo_t *info;
    gex_Rank_t count;
    gex_System_QueryNbrhdInfo(&info, &count, NULL);
    for (gex_Rank_t i = 0; i < count; i++)
        if (info[i].gex_jobrank == rank) return 1;
    return 0;
}

/* Whether the conduit performs atomics. */
#ifdef GASNET_CONDUIT_LOOP
#define NIC_ATOMICS 1
#else
#define NIC_ATOMICS 0
#endif

/* Whether an operation on `rank` is complete at return. Not if the conduit performs the operations
 * of the domain (a network with registered segments), nor for memory that only its owner maps. */
TEST_UNUSED static int at_once(gex_Rank_t rank) {
#if defined(GASNET_SEGMENT_EVERYTHING)
    return rank == me;
#elif defined(GASNET_SEGMENT_LARGE)
    return is_neighbour(rank);
#else
    const char *faults = getenv("GASNET_FAULTS");
    gex_RankInfo_t *info;
    gex_Rank_t count;
    gex_System_QueryNbrhdInfo(&info, &count, NULL);
    return is_neighbour(rank) && (count == np || !(NIC_ATOMICS || (faults && strstr(faults, "atomics=1"))));
#endif
}

#endif

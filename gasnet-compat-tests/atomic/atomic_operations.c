// Every operation of remote atomics on every type, from every rank on every other: what is stored,
// what is fetched, what is left alone.
// NP: 1 2 3 4 7
// TIMEOUT: 60
// VARIANT: soft (the conduit performs the operations of the NIC)
// NP: 2 3 4
// CONDUITS: sock
// TIMEOUT: 120
// FLAVOURS: debug
// ENV: GASNET_FAULTS=atomics=1
#include "atomic.h"

// The target with guards of the same type around it.
enum { GUARD = 0x5a, ROUNDS = 36 };

static uint64_t seed;
static gex_Flags_t flag_sets[] = {
    0,
    GEX_FLAG_IMMEDIATE,
    GEX_FLAG_AD_REL,
    GEX_FLAG_AD_ACQ,
    GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL,
    GEX_FLAG_RANK_IS_JOBRANK | GEX_FLAG_IMMEDIATE,
};

// The stored value by the specification, in C.
#define EXPECT_COMMON(wide)                        \
    case GEX_OP_ADD:                               \
    case GEX_OP_FADD: return (wide)old + (wide)a;  \
    case GEX_OP_SUB:                               \
    case GEX_OP_FSUB: return (wide)old - (wide)a;  \
    case GEX_OP_MULT:                              \
    case GEX_OP_FMULT: return (wide)old * (wide)a; \
    case GEX_OP_MIN:                               \
    case GEX_OP_FMIN: return old < a ? old : a;    \
    case GEX_OP_MAX:                               \
    case GEX_OP_FMAX: return old > a ? old : a;    \
    case GEX_OP_INC:                               \
    case GEX_OP_FINC: return (wide)old + 1;        \
    case GEX_OP_DEC:                               \
    case GEX_OP_FDEC: return (wide)old - 1;        \
    case GEX_OP_SET:                               \
    case GEX_OP_SWAP: return a;                    \
    case GEX_OP_CAS:                               \
    case GEX_OP_FCAS: return old == a ? b : old;   \
    default:                                       \
        return old;
#define EXPECT_INTEGER(NAME, type, wide, ops)                          \
    static type expect_##NAME(gex_OP_t op, type old, type a, type b) { \
        switch (op) {                                                  \
            case GEX_OP_AND:                                           \
            case GEX_OP_FAND: return old & a;                          \
            case GEX_OP_OR:                                            \
            case GEX_OP_FOR: return old | a;                           \
            case GEX_OP_XOR:                                           \
            case GEX_OP_FXOR: return old ^ a; EXPECT_COMMON(wide)      \
        }                                                              \
    }                                                                  \
    static type random_##NAME(void) {                                  \
        uint64_t x = next_random(&seed);                               \
        return (type)(x % 3 == 0 ? x >> 60 : x);                       \
    }
#define EXPECT_FLOAT(NAME, type, wide, ops)                            \
    static type expect_##NAME(gex_OP_t op, type old, type a, type b) { \
        switch (op) { EXPECT_COMMON(wide) }                            \
    }                                                                  \
    static type random_##NAME(void) { return (type)((int)(next_random(&seed) % 4001) - 2000) / 4; }
FOR_INTEGERS(EXPECT_INTEGER)
FOR_FLOATS(EXPECT_FLOAT)

// As blocking_NAME, with operations that the compiler knows: inline code performs most of them on
// neighbours' memory.
#define CASE(NAME, OP)                                                                              \
    case GEX_OP_##OP:                                                                               \
        if (nbi) refused = gex_AD_OpNBI_##NAME(ad, result, rank, target, GEX_OP_##OP, a, b, flags); \
        else event = gex_AD_OpNB_##NAME(ad, result, rank, target, GEX_OP_##OP, a, b, flags);        \
        break;
// clang-format off
#define CASES_FLOAT(NAME)                                                               \
    CASE(NAME, ADD) CASE(NAME, FADD) CASE(NAME, SUB) CASE(NAME, FSUB) CASE(NAME, MULT)  \
    CASE(NAME, FMULT) CASE(NAME, MIN) CASE(NAME, FMIN) CASE(NAME, MAX) CASE(NAME, FMAX) \
    CASE(NAME, INC) CASE(NAME, FINC) CASE(NAME, DEC) CASE(NAME, FDEC) CASE(NAME, SET)   \
    CASE(NAME, GET) CASE(NAME, SWAP) CASE(NAME, CAS) CASE(NAME, FCAS)
#define CASES_INTEGER(NAME)                                                           \
    CASES_FLOAT(NAME) CASE(NAME, AND) CASE(NAME, FAND) CASE(NAME, OR) CASE(NAME, FOR) \
    CASE(NAME, XOR) CASE(NAME, FXOR)
// clang-format on
#define DEFINE_KNOWN(NAME, type, cases)                                                                             \
    static void known_##NAME(gex_AD_t ad, type *result, gex_Rank_t rank, void *target, gex_OP_t op, type a, type b, \
                             gex_Flags_t flags, int nbi) {                                                          \
        gex_Event_t event = GEX_EVENT_INVALID;                                                                      \
        int refused = 0;                                                                                            \
        switch (op) { cases(NAME) default : CHECK(0); }                                                             \
        if (refused || event == GEX_EVENT_NO_OP) {                                                                  \
            CHECK(flags &GEX_FLAG_IMMEDIATE);                                                                       \
            blocking_##NAME(ad, result, rank, target, op, a, b, flags, nbi);                                        \
            return;                                                                                                 \
        }                                                                                                           \
        if (nbi) gex_NBI_Wait(category_of(op), 0);                                                                  \
        else gex_Event_Wait(event);                                                                                 \
    }
DEFINE_KNOWN(I32, int32_t, CASES_INTEGER)
DEFINE_KNOWN(U32, uint32_t, CASES_INTEGER)
DEFINE_KNOWN(I64, int64_t, CASES_INTEGER)
DEFINE_KNOWN(U64, uint64_t, CASES_INTEGER)
DEFINE_KNOWN(FLT, float, CASES_FLOAT)
DEFINE_KNOWN(DBL, double, CASES_FLOAT)

// As blocking_NAME by the library's function: a name in parentheses is no macro.
#define DEFINE_CALLED(NAME, type, wide, ops)                                                                         \
    static void called_##NAME(gex_AD_t ad, type *result, gex_Rank_t rank, void *target, gex_OP_t op, type a, type b, \
                              gex_Flags_t flags, int nbi) {                                                          \
        flags &= ~GEX_FLAG_IMMEDIATE;                                                                                \
        if (nbi) {                                                                                                   \
            OK((gex_AD_OpNBI_##NAME)(ad, result, rank, target, op, a, b, flags));                                    \
            gex_NBI_Wait(category_of(op), 0);                                                                        \
        } else {                                                                                                     \
            gex_Event_Wait((gex_AD_OpNB_##NAME)(ad, result, rank, target, op, a, b, flags));                         \
        }                                                                                                            \
    }
FOR_TYPES(DEFINE_CALLED)

// One operation with all that is to be seen of it.
#define DEFINE_ONE(NAME, type, wide, ops)                                                                             \
    static void one_##NAME(gex_AD_t ad, gex_Rank_t peer, char *place, gex_OP_t op, type old, type a, type b,          \
                           unsigned n) {                                                                              \
        gex_Flags_t flags = flag_sets[n % ARRAY_LENGTH(flag_sets)];                                                   \
        gex_Rank_t rank = peer; /* the team is the primordial one: both kinds of ranks agree */                       \
        type result[3], memory[3], expected = expect_##NAME(op, old, a, b);                                           \
        const int fetches = op >= GEX_OP_TO_FETCHING(GEX_OP_AND);                                                     \
        memset(result, GUARD, sizeof result);                                                                         \
        memset(memory, GUARD, sizeof memory);                                                                         \
        memory[1] = old;                                                                                              \
        if (peer == me) flags |= n % 2 ? GEX_FLAG_AD_MY_RANK : 0;                                                     \
        else if (is_neighbour(peer)) flags |= n % 2 ? GEX_FLAG_AD_MY_NBRHD : 0;                                       \
        OK(gex_RMA_PutBlocking(tm, peer, place, memory, sizeof memory, 0));                                           \
        void (*const forms[])(gex_AD_t, type *, gex_Rank_t, void *, gex_OP_t, type, type, gex_Flags_t,                \
                              int) = {known_##NAME, blocking_##NAME, called_##NAME};                                  \
        forms[n / 12 % 3](ad, fetches || n % 3 ? result + 1 : NULL, rank, place + sizeof(type), op, a, b, flags,      \
                          n % 2);                                                                                     \
        OK(gex_RMA_GetBlocking(tm, memory, peer, place, sizeof memory, 0));                                           \
        CHECKF(memory[1] == expected,                                                                                 \
               #NAME " operation %#x on rank %u stored %.17g instead of %.17g (from %.17g, %.17g, %.17g)",            \
               (unsigned)op, (unsigned)peer, (double)memory[1], (double)expected, (double)old, (double)a, (double)b); \
        if (fetches)                                                                                                  \
            CHECKF(result[1] == old, #NAME " operation %#x on rank %u fetched %.17g instead of %.17g", (unsigned)op,  \
                   (unsigned)peer, (double)result[1], (double)old);                                                   \
        memory[1] = result[0]; /* now all that is left must be guards */                                              \
        CHECKF(memcmp(memory, memory + 1, 2 * sizeof(type)) == 0 && memcmp(result, memory, sizeof(type)) == 0 &&      \
                   memcmp(result + 2, memory, sizeof(type)) == 0 && ((unsigned char *)memory)[0] == GUARD,            \
               #NAME " operation %#x on rank %u touched its surroundings", (unsigned)op, (unsigned)peer);             \
        if (!fetches) CHECK(memcmp(result + 1, memory, sizeof(type)) == 0);                                           \
    }                                                                                                                 \
    static void all_##NAME(void) {                                                                                    \
        gex_AD_t ad;                                                                                                  \
        gex_Rank_t hop;                                                                                               \
        unsigned bit, round, n = me;                                                                                  \
        PHASE(#NAME);                                                                                                 \
        gex_AD_Create(&ad, tm, GEX_DT_##NAME, ops, 0);                                                                \
        barrier();                                                                                                    \
        for (hop = 0; hop < np; hop++) {                                                                              \
            gex_Rank_t peer = (me + hop) % np;                                                                        \
            char *place = seg_of(peer) + me * 64;                                                                     \
            for (bit = 0; bit < 32; bit++) {                                                                          \
                gex_OP_t op = (gex_OP_t)1 << bit;                                                                     \
                if (!(ops & op)) continue;                                                                            \
                for (round = 0; round < ROUNDS; round++, n++) {                                                       \
                    type old = random_##NAME(), a = round % 12 == 1 ? old : random_##NAME();                          \
                    one_##NAME(ad, peer, place, op, old, a, random_##NAME(), n);                                      \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        barrier();                                                                                                    \
        gex_AD_Destroy(ad);                                                                                           \
    }
FOR_TYPES(DEFINE_ONE)

// Values at the ends of the ranges, and those of floating point that are not numbers like others.
static void corners(void) {
    gex_AD_t i32, i64, u64, dbl;
    gex_Rank_t peer = (me + 1) % np;
    char *place = seg_of(peer) + me * 64;
    int32_t narrow;
    int64_t wide;
    uint64_t bits;
    double number;
    PHASE("corners");
    gex_AD_Create(&i32, tm, GEX_DT_I32, OPS_INTEGER, 0);
    gex_AD_Create(&i64, tm, GEX_DT_I64, OPS_INTEGER, 0);
    gex_AD_Create(&u64, tm, GEX_DT_U64, OPS_INTEGER, 0);
    gex_AD_Create(&dbl, tm, GEX_DT_DBL, OPS_FLOAT, 0);
    blocking_I32(i32, NULL, peer, place, GEX_OP_SET, INT32_MAX, 0, 0, 0);
    blocking_I32(i32, &narrow, peer, place, GEX_OP_FINC, 0, 0, 0, 0);
    CHECK(narrow == INT32_MAX);
    blocking_I32(i32, &narrow, peer, place, GEX_OP_FSUB, 1, 0, 0, 1);
    CHECK(narrow == INT32_MIN);
    blocking_I32(i32, &narrow, peer, place, GEX_OP_FMIN, -1, 0, 0, 1);
    CHECK(narrow == INT32_MAX);
    blocking_I32(i32, &narrow, peer, place, GEX_OP_GET, 0, 0, 0, 1);
    CHECK(narrow == -1);
    blocking_I64(i64, NULL, peer, place, GEX_OP_SET, INT64_MIN, 0, 0, 0);
    blocking_I64(i64, NULL, peer, place, GEX_OP_DEC, 0, 0, 0, 0);
    blocking_I64(i64, &wide, peer, place, GEX_OP_FMAX, -5, 0, 0, 0);
    CHECK(wide == INT64_MAX);
    blocking_U64(u64, NULL, peer, place, GEX_OP_SET, UINT64_MAX, 0, 0, 0);
    blocking_U64(u64, &bits, peer, place, GEX_OP_FMIN, (uint64_t)1 << 63, 0, 0, 0);
    CHECK(bits == UINT64_MAX);
    blocking_U64(u64, &bits, peer, place, GEX_OP_FMULT, 2, 0, 0, 0);
    CHECK(bits == (uint64_t)1 << 63);
    blocking_U64(u64, &bits, peer, place, GEX_OP_GET, 0, 0, 0, 0);
    CHECK(bits == 0);
    // A not-a-number survives transport, and a CAS that expects exactly it replaces it.
    bits = UINT64_C(0x7ff8000000001234);
    memcpy(&number, &bits, sizeof number);
    blocking_DBL(dbl, NULL, peer, place, GEX_OP_SET, number, 0, 0, 0);
    blocking_DBL(dbl, &number, peer, place, GEX_OP_GET, 0, 0, 0, 0);
    CHECK(memcmp(&number, &bits, sizeof number) == 0);
    blocking_DBL(dbl, NULL, peer, place, GEX_OP_CAS, number, -0.0, 0, 0);
    blocking_DBL(dbl, &number, peer, place, GEX_OP_FADD, 1e300, 0, 0, 0);
    CHECK(number == 0 && 1 / number < 0);
    blocking_DBL(dbl, NULL, peer, place, GEX_OP_MULT, 1e300, 0, 0, 1);
    blocking_DBL(dbl, &number, peer, place, GEX_OP_GET, 0, 0, 0, 0);
    CHECK(number > 1e308);
    barrier();
    gex_AD_Destroy(i32);
    gex_AD_Destroy(i64);
    gex_AD_Destroy(u64);
    gex_AD_Destroy(dbl);
}

#define RUN(NAME, type, wide, ops) all_##NAME();

int main(int argc, char **argv) {
    test_init("atomic_operations", &argc, &argv);
    test_attach((uintptr_t)np * 64);
    seed = 12345 + me;
    barrier();
    FOR_TYPES(RUN)
    corners();
    return test_finish();
}

/* Remote atomics of all types: all ranks on one word, and every operation on a word of another
 * rank. A NIC performs those of a domain if it has all of the domain's operations, so there are
 * domains for HCAs (verbs), for other NICs, and for the CPU. */
#include "selftest.h"

#include <gasnet_ratomic.h>
#include <string.h>

enum { WORD = 1024, CONTENDED = 2048 }; /* in CONTROL */

#define HCA_OPS (GEX_OP_ADD | GEX_OP_FADD | GEX_OP_GET | GEX_OP_CAS | GEX_OP_FCAS)
#define NIC_OPS (HCA_OPS | GEX_OP_SET | GEX_OP_SWAP)
#define MORE_OPS                                                                                             \
    (NIC_OPS | GEX_OP_SUB | GEX_OP_FSUB | GEX_OP_INC | GEX_OP_FINC | GEX_OP_DEC | GEX_OP_FDEC | GEX_OP_MIN | \
     GEX_OP_FMIN | GEX_OP_MAX | GEX_OP_FMAX | GEX_OP_MULT | GEX_OP_FMULT)
#define BIT_OPS (GEX_OP_AND | GEX_OP_FAND | GEX_OP_OR | GEX_OP_FOR | GEX_OP_XOR | GEX_OP_FXOR)

static const struct operation {
    gex_OP_t op;
    const char *name;
    int fetches;
} operations[] = {
    {GEX_OP_SET, "SET", 0},   {GEX_OP_GET, "GET", 1},   {GEX_OP_ADD, "ADD", 0},     {GEX_OP_FADD, "FADD", 1},
    {GEX_OP_SWAP, "SWAP", 1}, {GEX_OP_CAS, "CAS", 0},   {GEX_OP_FCAS, "FCAS", 1},   {GEX_OP_SUB, "SUB", 0},
    {GEX_OP_FSUB, "FSUB", 1}, {GEX_OP_INC, "INC", 0},   {GEX_OP_FINC, "FINC", 1},   {GEX_OP_DEC, "DEC", 0},
    {GEX_OP_FDEC, "FDEC", 1}, {GEX_OP_MIN, "MIN", 0},   {GEX_OP_FMIN, "FMIN", 1},   {GEX_OP_MAX, "MAX", 0},
    {GEX_OP_FMAX, "FMAX", 1}, {GEX_OP_MULT, "MULT", 0}, {GEX_OP_FMULT, "FMULT", 1}, {GEX_OP_AND, "AND", 0},
    {GEX_OP_FAND, "FAND", 1}, {GEX_OP_OR, "OR", 0},     {GEX_OP_FOR, "FOR", 1},     {GEX_OP_XOR, "XOR", 0},
    {GEX_OP_FXOR, "FXOR", 1},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static const struct {
    const char *name;
    gex_OP_t ops;
    int has_bits; /* for integers */
} domains[] = {
    {"domain of additions and compare-and-swap", HCA_OPS, 0},
    {"domain of additions, SET, SWAP and compare-and-swap", NIC_OPS, 0},
    {"domain of all operations", MORE_OPS, 1},
};
enum { DOMAINS = sizeof domains / sizeof domains[0] };

static gex_AD_t domain;
static gex_OP_t domain_ops;
static char domain_name[80]; /* with the type */

#define BITS_INTEGER(old, a)          \
    case GEX_OP_AND:                  \
    case GEX_OP_FAND: return old & a; \
    case GEX_OP_OR:                   \
    case GEX_OP_FOR: return old | a;  \
    case GEX_OP_XOR:                  \
    case GEX_OP_FXOR:                 \
        return old ^ a;
#define BITS_FLOAT(old, a)

#define DEFINE(NAME, type, wide, BITS)                                                                                \
    static type after_##NAME(gex_OP_t op, type old, type a, type b) {                                                 \
        switch (op) {                                                                                                 \
            case GEX_OP_ADD:                                                                                          \
            case GEX_OP_FADD: return (type)((wide)old + (wide)a);                                                     \
            case GEX_OP_SUB:                                                                                          \
            case GEX_OP_FSUB: return (type)((wide)old - (wide)a);                                                     \
            case GEX_OP_MULT:                                                                                         \
            case GEX_OP_FMULT: return (type)((wide)old * (wide)a);                                                    \
            case GEX_OP_INC:                                                                                          \
            case GEX_OP_FINC: return (type)((wide)old + 1);                                                           \
            case GEX_OP_DEC:                                                                                          \
            case GEX_OP_FDEC: return (type)((wide)old - 1);                                                           \
            case GEX_OP_MIN:                                                                                          \
            case GEX_OP_FMIN: return old < a ? old : a;                                                               \
            case GEX_OP_MAX:                                                                                          \
            case GEX_OP_FMAX: return old > a ? old : a;                                                               \
            case GEX_OP_SET:                                                                                          \
            case GEX_OP_SWAP: return a;                                                                               \
            case GEX_OP_CAS:                                                                                          \
            case GEX_OP_FCAS: return memcmp(&old, &a, sizeof old) == 0 ? b : old; BITS(old, a)                        \
            default: return old;                                                                                      \
        }                                                                                                             \
    }                                                                                                                 \
    /* One operation after the other on a word that no other rank uses, with words around it. */                      \
    static void each_##NAME(const struct test *test, gex_Rank_t peer, double until) {                                 \
        type *at = (type *)(void *)(part_of(peer, CONTROL) + WORD), words[3], old = 0;                                \
        size_t turn;                                                                                                  \
        (void)test;                                                                                                   \
        for (turn = 0; turn < 3; turn++) words[turn] = (type)(turn + 90);                                             \
        gex_RMA_PutBlocking(tm, peer, at - 1, words, sizeof words, 0);                                                \
        old = words[1];                                                                                               \
        for (turn = 0; turn < (size_t)(options.quick ? 4 : 40) * OPERATIONS && now() < until; turn++) {               \
            const struct operation *o = &operations[turn % OPERATIONS];                                               \
            uint64_t random = turn;                                                                                   \
            type a = (type)((int)(next_random(&random) % 64) - 20), b = (type)(turn % 100), result = 77, expected;    \
            struct step s = {o->name, NULL, domain_name, sizeof(type), 0, 0, peer};                                   \
            if (!(domain_ops & o->op)) continue;                                                                      \
            if ((o->op == GEX_OP_CAS || o->op == GEX_OP_FCAS) && turn / OPERATIONS % 2 == 0) a = old;                 \
            if ((o->op == GEX_OP_MULT || o->op == GEX_OP_FMULT) && ((double)old > 1e3 || (double)old < -1e3)) a = 0;  \
            step(&s);                                                                                                 \
            expected = after_##NAME(o->op, old, a, b);                                                                \
            if (turn / OPERATIONS % 2 == 0) {                                                                         \
                gex_Event_Wait(gex_AD_OpNB_##NAME(domain, &result, peer, at, o->op, a, b, 0));                        \
            } else {                                                                                                  \
                gex_AD_OpNBI_##NAME(domain, &result, peer, at, o->op, a, b, 0);                                       \
                gex_NBI_Wait(GEX_EC_RMW | GEX_EC_GET | GEX_EC_PUT, 0);                                                \
            }                                                                                                         \
            if (o->fetches && result != old) fail(&s, "fetched %.17g instead of %.17g", (double)result, (double)old); \
            gex_Event_Wait(gex_AD_OpNB_##NAME(domain, &result, peer, at, GEX_OP_GET, 0, 0, 0));                       \
            if (result != expected)                                                                                   \
                fail(&s, "stored %.17g instead of %.17g, with %.17g and %.17g", (double)result, (double)expected,     \
                     (double)old, (double)a);                                                                         \
            old = result;                                                                                             \
        }                                                                                                             \
        end_turns(turn, OPERATIONS);                                                                                  \
        gex_RMA_GetBlocking(tm, words, peer, at - 1, sizeof words, 0);                                                \
        if (words[0] != (type)90 || words[2] != (type)92) {                                                           \
            struct step s = {"words around atomics", NULL, domain_name, sizeof(type), 0, 0, peer};                    \
            fail(&s, "%.17g and %.17g instead of 90 and 92", (double)words[0], (double)words[2]);                     \
        }                                                                                                             \
    }                                                                                                                 \
    /* All ranks add to one word: each fetches other values, and all of them together are 0, 1, 2... */               \
    static void all_##NAME(gex_Rank_t target, double until) {                                                         \
        type *at = (type *)(void *)(part_of(target, CONTROL) + CONTENDED), old, last = -1;                            \
        struct step s = {"FADD of all ranks", NULL, domain_name, sizeof(type), 0, 0, target};                         \
        int i;                                                                                                        \
        uint64_t sums[2] = {0, 0}, total; /* of the fetched values; additions */                                      \
        if (me == target) *at = 0;                                                                                    \
        barrier();                                                                                                    \
        for (i = 0; i < (int)(4000 / np) + 1 && (i == 0 || now() < until); i++) {                                     \
            step(&s);                                                                                                 \
            gex_Event_Wait(gex_AD_OpNB_##NAME(domain, &old, target, at, GEX_OP_FADD, 1, 0, 0));                       \
            if (i > 0 && old <= last) fail(&s, "fetched %.17g after %.17g", (double)old, (double)last);               \
            last = old;                                                                                               \
            sums[0] += (uint64_t)old;                                                                                 \
        }                                                                                                             \
        sums[1] = (uint64_t)i;                                                                                        \
        add_all(sums, 2);                                                                                             \
        total = sums[1];                                                                                              \
        gex_Event_Wait(gex_AD_OpNB_##NAME(domain, &old, target, at, GEX_OP_GET, 0, 0, 0));                            \
        if ((uint64_t)old != total || sums[0] != total * (total - 1) / 2)                                             \
            fail(&s, "%llu additions made %.17g, the sum of all fetched values is %llu instead of %llu",              \
                 (unsigned long long)total, (double)old, (unsigned long long)sums[0],                                 \
                 (unsigned long long)(total * (total - 1) / 2));                                                      \
    }
DEFINE(I32, int32_t, uint32_t, BITS_INTEGER)
DEFINE(U32, uint32_t, uint32_t, BITS_INTEGER)
DEFINE(I64, int64_t, uint64_t, BITS_INTEGER)
DEFINE(U64, uint64_t, uint64_t, BITS_INTEGER)
DEFINE(FLT, float, float, BITS_FLOAT)
DEFINE(DBL, double, double, BITS_FLOAT)

enum { I32, U32, I64, U64, FLT, DBL };
static const struct {
    const char *name;
    gex_DT_t type;
    void (*each)(const struct test *test, gex_Rank_t peer, double until);
    void (*all)(gex_Rank_t target, double until);
} types[] = {
    [I32] = {"I32", GEX_DT_I32, each_I32, all_I32}, [U32] = {"U32", GEX_DT_U32, each_U32, all_U32},
    [I64] = {"I64", GEX_DT_I64, each_I64, all_I64}, [U64] = {"U64", GEX_DT_U64, each_U64, all_U64},
    [FLT] = {"FLT", GEX_DT_FLT, each_FLT, all_FLT}, [DBL] = {"DBL", GEX_DT_DBL, each_DBL, all_DBL},
};

static void run(const struct test *test) {
    int i = test->variant, is_float = i == FLT || i == DBL, d;
    double until;
    for (d = 0; d < DOMAINS; d++) {
        domain_ops = domains[d].ops | (domains[d].has_bits && !is_float ? BIT_OPS : 0);
        snprintf(domain_name, sizeof domain_name, "%s, %s", types[i].name, domains[d].name);
        waiting("gex_AD_Create", 0);
        gex_AD_Create(&domain, tm, types[i].type, domain_ops, 0);
        until = now() + (test_ends() - now()) / (DOMAINS - d);
        types[i].all(0, now() + (until - now()) / 4);
        if (np > 1) types[i].all(np - 1, now() + (until - now()) / 4);
        in_turns(test, types[i].each, until);
        gex_AD_Destroy(domain);
    }
}

const struct test atomic_tests[] = {
    {"atomic-i32", "atomics on int32_t, offloaded to the NIC and not", 1, I32, run, NULL},
    {"atomic-u32", "atomics on uint32_t", 1, U32, run, NULL},
    {"atomic-i64", "atomics on int64_t", 1, I64, run, NULL},
    {"atomic-u64", "atomics on uint64_t", 1, U64, run, NULL},
    {"atomic-flt", "atomics on float", 1, FLT, run, NULL},
    {"atomic-dbl", "atomics on double", 1, DBL, run, NULL},
    {NULL, NULL, 0, 0, NULL, NULL}};

// Reductions: every type and operation against a serial computation, user types and functions,
// functions that do not commute, every root, in place, from one element to many chunks, elements
// larger than a message, unaligned, many in flight on several teams.
// NP: 1 2 3 4 5 7
// TIMEOUT: 150
#include "coll.h"

#define TYPES(X)            \
    X(int32_t, GEX_DT_I32)  \
    X(uint32_t, GEX_DT_U32) \
    X(int64_t, GEX_DT_I64)  \
    X(uint64_t, GEX_DT_U64) \
    X(float, GEX_DT_FLT)    \
    X(double, GEX_DT_DBL)

/* Small numbers, so that every order of additions gives the same, in floating point too. */
static int operand(gex_Rank_t rank, size_t i) { return (int)((rank * 7 + i * 3) % 11) + 1 - 2 * (int)(i % 2); }

enum { N = 37 };

#define SERIAL(type, expression)          \
    for (i = 0; i < N; i++) {             \
        type a = (type)operand(0, i);     \
        for (r = 1; r < np; r++) {        \
            type b = (type)operand(r, i); \
            a = (type)(expression);       \
        }                                 \
        expected[i] = a;                  \
    }

#define INTEGER_OPS(type, dt)                                                                                 \
    static void bits_##dt(void) {                                                                             \
        type expected[N], src[N], dst[N];                                                                     \
        size_t i;                                                                                             \
        gex_Rank_t r;                                                                                         \
        int k;                                                                                                \
        static const gex_OP_t ops[] = {GEX_OP_AND, GEX_OP_OR, GEX_OP_XOR};                                    \
        for (k = 0; k < 3; k++) {                                                                             \
            if (k == 0) SERIAL(type, a &b)                                                                    \
            if (k == 1) SERIAL(type, a | b)                                                                   \
            if (k == 2) SERIAL(type, a ^ b)                                                                   \
            for (i = 0; i < N; i++) src[i] = (type)operand(me, i);                                            \
            gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, dst, src, dt, sizeof(type), N, ops[k], NULL, NULL, 0)); \
            CHECKF(memcmp(dst, expected, sizeof dst) == 0, "operation %#x", (unsigned)ops[k]);                \
        }                                                                                                     \
    }
INTEGER_OPS(int32_t, GEX_DT_I32)
INTEGER_OPS(uint32_t, GEX_DT_U32)
INTEGER_OPS(int64_t, GEX_DT_I64)
INTEGER_OPS(uint64_t, GEX_DT_U64)

#define ALL_OPS(type, dt)                                                                                              \
    static void numbers_##dt(void) {                                                                                   \
        type expected[N], src[N], dst[N];                                                                              \
        size_t i;                                                                                                      \
        gex_Rank_t r, root;                                                                                            \
        int k;                                                                                                         \
        static const gex_OP_t ops[] = {GEX_OP_ADD, GEX_OP_MULT, GEX_OP_MIN, GEX_OP_MAX};                               \
        for (k = 0; k < 4; k++) {                                                                                      \
            if (k == 0) SERIAL(type, a + b)                                                                            \
            if (k == 1) SERIAL(type, a *b)                                                                             \
            if (k == 2) SERIAL(type, a < b ? a : b)                                                                    \
            if (k == 3) SERIAL(type, a > b ? a : b)                                                                    \
            for (root = 0; root <= np; root++) {                                                                       \
                for (i = 0; i < N; i++) src[i] = (type)operand(me, i);                                                 \
                memset(dst, 0x33, sizeof dst);                                                                         \
                if (root == np) { /* to all, in place */                                                               \
                    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, src, src, dt, sizeof(type), N, ops[k], NULL, NULL, 0));  \
                    CHECKF(memcmp(src, expected, sizeof dst) == 0, "operation %#x to all", (unsigned)ops[k]);          \
                } else {                                                                                               \
                    gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, me == root ? dst : NULL, src, dt, sizeof(type), N, \
                                                          ops[k], NULL, NULL, 0));                                     \
                    if (me == root)                                                                                    \
                        CHECKF(memcmp(dst, expected, sizeof dst) == 0, "operation %#x to %u", (unsigned)ops[k],        \
                               (unsigned)root);                                                                        \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
TYPES(ALL_OPS)

/* A function that does not commute: composition of x -> a x + b modulo a prime. */
typedef struct {
    uint64_t a, b;
    unsigned char padding[3];
} affine_t;
#define PRIME UINT64_C(1000003)

static int function_calls;

static void compose(const void *left, void *right, size_t count, const void *cdata) {
    const affine_t *l = (const affine_t *)left;
    affine_t *r = (affine_t *)right;
    size_t i;
    CHECK(cdata == &function_calls && count > 0);
    CHECK(((uintptr_t)left | (uintptr_t)right) % 8 == 0);
    ATOMIC_ADD(&function_calls, 1);
    for (i = 0; i < count; i++) { /* first l, then r */
        r[i].b = (r[i].a * l[i].b + r[i].b) % PRIME;
        r[i].a = r[i].a * l[i].a % PRIME;
    }
}

static affine_t affine(gex_Rank_t rank, size_t i) {
    affine_t f;
    memset(&f, 0, sizeof f);
    f.a = (rank * 31 + i * 17 + 2) % PRIME;
    f.b = (rank * 101 + i * 7 + 5) % PRIME;
    return f;
}

static affine_t product(size_t i) {
    affine_t all = affine(0, i), next;
    gex_Rank_t r;
    for (r = 1; r < np; r++) {
        next = affine(r, i);
        compose(&all, &next, 1, &function_calls);
        all = next;
    }
    return all;
}

static int same(const affine_t *x, const affine_t *y) { return x->a == y->a && x->b == y->b; }

static void not_commutative(size_t count) {
    affine_t *src = (affine_t *)calloc(count, sizeof *src), *dst = (affine_t *)calloc(count, sizeof *dst), *all;
    gex_Rank_t root;
    size_t i, step = count > 1000 ? 97 : 1;
    all = (affine_t *)calloc(count, sizeof *all);
    for (i = 0; i < count; i++) src[i] = affine(me, i);
    for (i = 0; i < count; i += step) all[i] = product(i);
    for (root = 0; root < np; root++) {
        memset(dst, 0, count * sizeof *dst);
        gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, dst, src, GEX_DT_USER, sizeof *src, count, GEX_OP_USER_NC,
                                              compose, &function_calls, 0));
        for (i = 0; me == root && i < count; i += step) CHECKF(same(&dst[i], &all[i]), "element %zu of %zu", i, count);
    }
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, src, src, GEX_DT_USER, sizeof *src, count, GEX_OP_USER_NC, compose,
                                          &function_calls, 0));
    for (i = 0; i < count; i += step) CHECKF(same(&src[i], &all[i]), "element %zu of %zu to all", i, count);
    free(src);
    free(dst);
    free(all);
}

static void large(size_t count, size_t shift) {
    char *src_memory = (char *)malloc(count * 8 + 16), *dst_memory = (char *)malloc(count * 8 + 16);
    gex_Rank_t r, root = np / 2;
    size_t i;
    uint64_t got;
    for (i = 0; i < count; i++) {
        uint64_t value = (uint64_t)me * 1000003 + i * i;
        memcpy(src_memory + shift + i * 8, &value, 8);
    }
    memset(dst_memory, 0x44, count * 8 + 16);
    gex_Event_Wait(gex_Coll_ReduceToOneNB(tm, root, dst_memory + shift, src_memory + shift, GEX_DT_U64, 8, count,
                                          GEX_OP_ADD, NULL, NULL, 0));
    if (me != root) CHECK(dst_memory[shift] == 0x44);
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, me == root ? src_memory + shift : dst_memory + shift, src_memory + shift,
                                          GEX_DT_U64, 8, count, GEX_OP_ADD, NULL, NULL, 0));
    for (i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (r = 0; r < np; r++) sum += (uint64_t)r * 1000003 + i * i;
        memcpy(&got, dst_memory + shift + i * 8, 8);
        if (got != sum) break;
        if (me == root) {
            memcpy(&got, src_memory + shift + i * 8, 8);
            if (got != sum) break;
        }
    }
    CHECKF(i == count, "element %zu of %zu", i, count);
    CHECK(dst_memory[shift + count * 8] == 0x44);
    free(src_memory);
    free(dst_memory);
}

/* One element that no message carries whole. */
enum { WIDE = 200000 };

static void add_wide(const void *left, void *right, size_t count, const void *cdata) {
    const unsigned char *l = (const unsigned char *)left;
    unsigned char *r = (unsigned char *)right;
    size_t i;
    for (i = 0; i < count * WIDE; i++) r[i] = (unsigned char)(r[i] + l[i]);
}

static void wide(void) {
    unsigned char *src = (unsigned char *)malloc(3 * WIDE), *dst = (unsigned char *)malloc(3 * WIDE);
    size_t i, wrong = 0;
    gex_Rank_t r;
    for (i = 0; i < 3 * WIDE; i++) src[i] = (unsigned char)(i * (me + 1));
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, dst, src, GEX_DT_USER, WIDE, 3, GEX_OP_USER, add_wide, NULL, 0));
    for (i = 0; i < 3 * WIDE; i++) {
        unsigned char sum = 0;
        for (r = 0; r < np; r++) sum = (unsigned char)(sum + i * (r + 1));
        wrong += dst[i] != sum;
    }
    CHECKF(wrong == 0, "%zu bytes", wrong);
    free(src);
    free(dst);
}

static void in_flight(void) {
    enum { COUNT = 60 };
    gex_TM_t half = split(tm, (int)(me % 2), 0);
    gex_Event_t event[3 * COUNT];
    int64_t src[COUNT], all[COUNT], part[COUNT], one[COUNT];
    gex_Rank_t members = gex_TM_QuerySize(half), r;
    int64_t total = 0, of_half = 0;
    int i, n = 0;
    for (r = 0; r < np; r++) {
        total += r;
        if (r % 2 == me % 2) of_half += r;
    }
    for (i = 0; i < COUNT; i++) {
        src[i] = (int64_t)me + i;
        event[n++] = gex_Coll_ReduceToAllNB(tm, &all[i], &src[i], GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
        event[n++] = gex_Coll_ReduceToAllNB(half, &part[i], &src[i], GEX_DT_I64, 8, 1, GEX_OP_ADD, NULL, NULL, 0);
        event[n++] = gex_Coll_ReduceToOneNB(half, (gex_Rank_t)i % members, &one[i], &src[i], GEX_DT_I64, 8, 1,
                                            GEX_OP_ADD, NULL, NULL, 0);
    }
    while (n > 0) gex_Event_Wait(event[--n]); /* the last first */
    for (i = 0; i < COUNT; i++) {
        CHECK(all[i] == total + (int64_t)i * np);
        CHECK(part[i] == of_half + (int64_t)i * members);
        if (gex_TM_QueryRank(half) == (gex_Rank_t)i % members) CHECK(one[i] == part[i]);
    }
    gex_TM_Destroy(half, NULL, 0);
}

int main(int argc, char **argv) {
    test_init("reduce", &argc, &argv);
    PHASE("bits");
    bits_GEX_DT_I32(), bits_GEX_DT_U32(), bits_GEX_DT_I64(), bits_GEX_DT_U64();
    PHASE("numbers");
#define RUN(type, dt) numbers_##dt();
    TYPES(RUN)
    PHASE("not commutative");
    not_commutative(1);
    not_commutative(3);
    not_commutative(20000);
    CHECK(ATOMIC_GET(&function_calls) > 0 || np == 1);
    PHASE("large");
    large(1, 0);
    large(8191, 1);
    large(8193, 0);
    large(200001, 3);
    PHASE("wide");
    wide();
    PHASE("in flight");
    in_flight();
    return test_finish();
}

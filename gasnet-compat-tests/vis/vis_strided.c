// Strided puts and gets: every degenerate case of the specification, strides of either sign,
// transposition, reflection, many levels, and steps over more than 4 GiB.
// NP: 1 2 4 7
#include "check.h"
#include <gasnet_vis.h>

#include <sys/mman.h>

enum { ROWS = 37, COLUMNS = 53, BYTES = ROWS * COLUMNS * 8 };

static unsigned char out[BYTES], in[BYTES], wanted[BYTES];

/* Runs `put` and `get` forms in turn; every form moves the same. */
static void put(int form, gex_Rank_t peer, void *to, const ptrdiff_t *to_strides, void *from,
                const ptrdiff_t *from_strides, size_t elem, const size_t *count, size_t levels) {
    gex_Event_t event;
    switch (form) {
        case 0:
            CHECK(gex_VIS_StridedPutBlocking(tm, peer, to, to_strides, from, from_strides, elem, count, levels, 0) ==
                  0);
            break;
        case 1:
            event = gex_VIS_StridedPutNB(tm, peer, to, to_strides, from, from_strides, elem, count, levels, 0);
            CHECK(event != GEX_EVENT_NO_OP);
            gex_Event_Wait(event);
            break;
        default:
            CHECK(gex_VIS_StridedPutNBI(tm, peer, to, to_strides, from, from_strides, elem, count, levels, 0) == 0);
            gex_NBI_Wait(GEX_EC_PUT, 0);
    }
}

static void get(int form, void *to, const ptrdiff_t *to_strides, gex_Rank_t peer, void *from,
                const ptrdiff_t *from_strides, size_t elem, const size_t *count, size_t levels) {
    gex_Event_t event;
    switch (form) {
        case 0:
            CHECK(gex_VIS_StridedGetBlocking(tm, to, to_strides, peer, from, from_strides, elem, count, levels, 0) ==
                  0);
            break;
        case 1:
            event = gex_VIS_StridedGetNB(tm, to, to_strides, peer, from, from_strides, elem, count, levels, 0);
            CHECK(event != GEX_EVENT_NO_OP);
            gex_Event_Wait(event);
            break;
        default:
            CHECK(gex_VIS_StridedGetNBI(tm, to, to_strides, peer, from, from_strides, elem, count, levels, 0) == 0);
            gex_NBI_Wait(GEX_EC_GET, 0);
    }
}

/* Nothing moves, and the arguments that the specification ignores are not looked at. */
static void degenerate(gex_Rank_t peer, char *remote) {
    static const size_t none[3] = {3, 0, 5}, one[2] = {1, 1};
    static const ptrdiff_t steps[3] = {8, 80, 800};
    for (int form = 0; form < 3; form++) {
        pattern_fill(out, 64, 5);
        OK(gex_RMA_PutBlocking(tm, peer, remote, out, 64, 0));
        put(form, GEX_RANK_INVALID, NULL, NULL, NULL, NULL, 0, NULL, 9);
        get(form, NULL, NULL, GEX_RANK_INVALID, NULL, NULL, 0, NULL, 9);
        put(form, GEX_RANK_INVALID, NULL, steps, NULL, steps, 8, none, 3);
        get(form, NULL, steps, GEX_RANK_INVALID, NULL, steps, 8, none, 3);
        memset(in, 1, 64);
        get(form, in, NULL, peer, remote, NULL, 64, NULL, 0);
        CHECK_PATTERN(in, 64, 5);
        pattern_fill(out, 63, 6);
        put(form, peer, remote + 1, NULL, out, NULL, 63, NULL, 0);
        get(form, in, steps, peer, remote + 1, steps, 63, one, 2);
        CHECK_PATTERN(in, 63, 6);
    }
}

/* A matrix of `elem` bytes per element goes over transposed and reflected, and comes back so. */
static void turned(gex_Rank_t peer, char *remote, size_t elem) {
    const size_t count[2] = {COLUMNS, ROWS};
    const ptrdiff_t e = (ptrdiff_t)elem, row = e * COLUMNS;
    const ptrdiff_t plain[2] = {e, row}, transposed[2] = {e * ROWS, e}, reflected[2] = {-e, -row};
    const size_t bytes = elem * ROWS * COLUMNS;
    for (int form = 0; form < 3; form++) {
        pattern_fill(out, bytes, elem + (size_t)form + me);
        put(form, peer, remote, transposed, out, plain, elem, count, 2);
        OK(gex_RMA_GetBlocking(tm, in, peer, remote, bytes, 0));
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLUMNS; j++)
                memcpy(wanted + (j * ROWS + i) * elem, out + (i * COLUMNS + j) * elem, elem);
        CHECKF(memcmp(in, wanted, bytes) == 0, "transposed put, %zu bytes", elem);
        memset(in, 0, bytes);
        get(form, in, plain, peer, remote, transposed, elem, count, 2);
        CHECKF(memcmp(in, out, bytes) == 0, "transposed get, %zu bytes", elem);
        put(form, peer, remote + bytes - elem, reflected, out, plain, elem, count, 2);
        OK(gex_RMA_GetBlocking(tm, in, peer, remote, bytes, 0));
        for (size_t i = 0; i < ROWS * COLUMNS; i++) memcpy(wanted + bytes - (i + 1) * elem, out + i * elem, elem);
        CHECKF(memcmp(in, wanted, bytes) == 0, "reflected put, %zu bytes", elem);
        memset(in, 0, bytes);
        get(form, in + bytes - elem, reflected, peer, remote, plain, elem, count, 2);
        CHECKF(memcmp(in, out, bytes) == 0, "reflected get, %zu bytes", elem);
        put(form, peer, remote + bytes - elem, reflected, out + bytes - elem, reflected, elem, count, 2);
        OK(gex_RMA_GetBlocking(tm, in, peer, remote, bytes, 0));
        CHECKF(memcmp(in, out, bytes) == 0, "reflected at both sides, %zu bytes", elem);
    }
}

/* One element fills a row: a source stride of 0. */
static void repeated(gex_Rank_t peer, char *remote) {
    const ptrdiff_t row[2] = {4, 400}, same[2] = {0, 4};
    const size_t count[2] = {100, 3};
    pattern_fill(out, 12, 9);
    put(1, peer, remote, row, out, same, 4, count, 2);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, 1200, 0));
    for (size_t i = 0; i < 300; i++) CHECKF(memcmp(in + 4 * i, out + i / 100 * 4, 4) == 0, "element %zu", i);
    memset(in, 0, 1200);
    OK(gex_RMA_PutBlocking(tm, peer, remote, out, 12, 0));
    get(2, in, row, peer, remote, same, 4, count, 2);
    for (size_t i = 0; i < 300; i++) CHECKF(memcmp(in + 4 * i, out + i / 100 * 4, 4) == 0, "element %zu", i);
}

/* More levels than any compiled-in limit: most have one turn, twelve have two. */
static void many_levels(gex_Rank_t peer, char *remote) {
    enum { LEVELS = 300, DOUBLE = 12 };
    static ptrdiff_t packed[LEVELS], spread[LEVELS];
    static size_t count[LEVELS];
    size_t d = 0;
    for (size_t l = 0; l < LEVELS; l++) {
        count[l] = l % 25 == 7 && d < DOUBLE ? 2 : 1;
        packed[l] = count[l] == 2 ? (ptrdiff_t)1 << d : 12345678;
        spread[l] = count[l] == 2 ? (ptrdiff_t)3 << (DOUBLE - 1 - d) : -987654321;
        d += count[l] == 2;
    }
    REQUIRE(d == DOUBLE);
    pattern_fill(out, 1 << DOUBLE, 77);
    put(0, peer, remote, spread, out, packed, 1, count, LEVELS);
    OK(gex_RMA_GetBlocking(tm, in, peer, remote, 3 << DOUBLE, 0));
    for (size_t n = 0; n < 1 << DOUBLE; n++) {
        size_t place = 0;
        for (size_t l = 0; l < DOUBLE; l++) place |= (n >> l & 1) << (DOUBLE - 1 - l);
        CHECKF(in[3 * place] == out[n], "byte %zu", n);
    }
    memset(in, 0, 1 << DOUBLE);
    get(1, in, packed, peer, remote, spread, 1, count, LEVELS);
    CHECK_PATTERN(in, 1 << DOUBLE, 77);
}

/* Local steps of 5 GiB: address space only. */
static void far_apart(gex_Rank_t peer, char *remote) {
    const size_t step = (size_t)5 << 30, count[2] = {3, 2};
    const ptrdiff_t local[2] = {(ptrdiff_t)step, -5000}, packed[2] = {1000, 3000};
    char *base =
        (char *)mmap(NULL, 3 * step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == (char *)MAP_FAILED) return; /* a limit of this machine */
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; i < 3; i++) pattern_fill(base + 5000 + i * step - j * 5000, 1000, 3 * j + i);
    put(0, peer, remote, packed, base + 5000, local, 1000, count, 2);
    for (size_t i = 0; i < 6; i++) {
        OK(gex_RMA_GetBlocking(tm, in, peer, remote + 1000 * i, 1000, 0));
        CHECK_PATTERN(in, 1000, i);
    }
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; i < 3; i++) memset(base + 5000 + i * step - j * 5000, 0, 1000);
    get(1, base + 5000, local, peer, remote, packed, 1000, count, 2);
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0; i < 3; i++) CHECK_PATTERN(base + 5000 + i * step - j * 5000, 1000, 3 * j + i);
    munmap(base, 3 * step);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8};
    test_init("vis_strided", &argc, &argv);
    test_attach((uintptr_t)np * BYTES + 64);
    for (gex_Rank_t distance = 0; distance<np; distance += np> 3 && distance > 0 ? np - 2 : 1) {
        gex_Rank_t peer = (me + distance) % np;
        char *remote = seg_of(peer) + (size_t)me * BYTES;
        PHASE("degenerate");
        degenerate(peer, remote);
        PHASE("transposed and reflected");
        for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            turned(peer, remote, sizes[i]);
            if (sizes[i] < 8) turned(peer, remote + 1, sizes[i]);
        }
        PHASE("repeated");
        repeated(peer, remote);
        PHASE("many levels");
        many_levels(peer, remote);
        PHASE("far apart");
        far_apart(peer, remote);
        barrier();
    }
    return test_finish();
}

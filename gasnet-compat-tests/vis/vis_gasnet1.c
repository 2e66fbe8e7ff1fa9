// Scattered puts and gets of GASNet-1: all 18 functions.
// NP: 1 2 4
// SEGMENTS: fast large
#include <gasnet.h>
#include <gasnet_vis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60, COLUMNS = 50, ROW = COLUMNS * 8, BYTES = ROWS * ROW, COLUMN_BYTES = 20 };

static unsigned char out[BYTES], in[BYTES];
static int failures;

static void check(int ok, const char *what, int form) {
    if (ok) return;
    failures++;
    fprintf(stderr, "FAIL vis_gasnet1 process %d of %d: %s, form %d\n", (int)gasnet_mynode(), (int)gasnet_nodes(), what,
            form);
}

static void fill(unsigned seed) {
    for (size_t i = 0; i < BYTES; i++) out[i] = (unsigned char)((i * 2654435761u + seed * 40503u) >> 13);
    memset(in, 0, sizeof in);
}

/* COLUMN_BYTES of each row, from column 3 on, in `memory`. */
static void list_rows(unsigned char *memory, gasnet_memvec_t vector[], void *list[]) {
    for (size_t i = 0; i < ROWS; i++) {
        vector[i].addr = list[i] = memory + i * ROW + 3;
        vector[i].len = COLUMN_BYTES;
    }
}

static int same(const unsigned char *a, const unsigned char *b) {
    for (size_t i = 0; i < ROWS; i++)
        if (memcmp(a + i * ROW + 3, b + i * ROW + 3, COLUMN_BYTES) != 0) return 0;
    return 1;
}

#define EACH(form, function, ...)                                                     \
    do {                                                                              \
        if ((form) == 0) function##_bulk(__VA_ARGS__);                                \
        if ((form) == 1) gasnet_wait_syncnb(function##_nb_bulk(__VA_ARGS__));         \
        if ((form) == 2) function##_nbi_bulk(__VA_ARGS__), gasnet_wait_syncnbi_all(); \
    } while (0)

static void all(gasnet_node_t node, unsigned char *remote, int form) {
    static gasnet_memvec_t mine[ROWS], theirs[ROWS];
    static void *my_list[ROWS], *their_list[ROWS];
    const size_t strides[2] = {ROW, 8}, count[2] = {COLUMN_BYTES, ROWS};
    const size_t deep_strides[2] = {1, ROW}, deep_count[3] = {1, COLUMN_BYTES, ROWS}, none[2] = {8, 0}, length[1] = {7};
    list_rows(remote, theirs, their_list);
    fill(1 + (unsigned)form + gasnet_mynode());
    list_rows(out, mine, my_list);
    EACH(form, gasnet_putv, node, ROWS, theirs, ROWS, mine);
    list_rows(in, mine, my_list);
    EACH(form, gasnet_getv, ROWS, mine, node, ROWS, theirs);
    check(same(in, out), "vector", form);
    fill(11 + (unsigned)form);
    list_rows(out, mine, my_list);
    EACH(form, gasnet_puti, node, ROWS, their_list, COLUMN_BYTES, ROWS, my_list, COLUMN_BYTES);
    list_rows(in, mine, my_list);
    EACH(form, gasnet_geti, ROWS, my_list, COLUMN_BYTES, node, ROWS, their_list, COLUMN_BYTES);
    check(same(in, out), "indexed", form);
    fill(21 + (unsigned)form);
    EACH(form, gasnet_puts, node, remote + 3, strides, out + 3, strides, count, 1);
    EACH(form, gasnet_gets, in + 3, deep_strides, node, remote + 3, deep_strides, deep_count, 2);
    check(same(in, out), "strided", form);
    EACH(form, gasnet_puts, node, remote, strides, out, strides, none, 1);
    EACH(form, gasnet_gets, in, strides, node, remote, strides, none, 1);
    check(same(in, out), "strided, nothing", form);
    EACH(form, gasnet_puts, node, remote, strides, out + 100, strides, length, 0);
    EACH(form, gasnet_gets, in, strides, node, remote, strides, length, 0);
    check(memcmp(in, out + 100, 7) == 0, "strided, no levels", form);
}

int main(int argc, char **argv) {
    gasnet_seginfo_t *segments;
    if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
    if (gasnet_attach(NULL, 0,
                      ((uintptr_t)gasnet_nodes() * BYTES + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE * GASNET_PAGESIZE,
                      0) != GASNET_OK)
        return 1;
    segments = (gasnet_seginfo_t *)malloc(gasnet_nodes() * sizeof *segments);
    gasnet_getSegmentInfo(segments, (int)gasnet_nodes());
    for (gasnet_node_t distance = 0; distance < gasnet_nodes(); distance++) {
        gasnet_node_t node = (gasnet_mynode() + distance) % gasnet_nodes();
        int form;
        for (form = 0; form < 3; form++)
            all(node, (unsigned char *)segments[node].addr + (size_t)gasnet_mynode() * BYTES, form);
    }
    gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
    if (failures == 0 && gasnet_mynode() == 0) printf("PASS vis_gasnet1 on %d processes\n", (int)gasnet_nodes());
    gasnet_exit(failures ? 1 : 0);
    return 1;
}

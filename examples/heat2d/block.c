#include "block.h"

#include <stdlib.h>
#include <string.h>

static int share(int total, int parts, int index) { return (int)((long long)total * index / parts); }

layout_t layout_choose(const problem_t *problem, int processes) {
    layout_t best = {0, 0};
    double shortest = 0;
    for (int across = 1; across <= processes; across++) {
        int down = processes / across;
        if (across * down != processes || across > problem->columns || down > problem->rows) continue;
        double edges = (across - 1.0) * problem->rows + (down - 1.0) * problem->columns;
        if (best.across == 0 || edges < shortest) {
            best.across = across;
            best.down = down;
            shortest = edges;
        }
    }
    return best;
}

extent_t layout_extent(const problem_t *problem, layout_t layout, int index) {
    int column = index % layout.across, row = index / layout.across;
    extent_t extent;
    extent.x0 = share(problem->columns, layout.across, column);
    extent.y0 = share(problem->rows, layout.down, row);
    extent.width = share(problem->columns, layout.across, column + 1) - extent.x0;
    extent.height = share(problem->rows, layout.down, row + 1) - extent.y0;
    return extent;
}

int layout_neighbour(layout_t layout, int index, side_t side) {
    int column = index % layout.across, row = index / layout.across;
    switch (side) {
        case SIDE_NORTH: row--; break;
        case SIDE_SOUTH: row++; break;
        case SIDE_WEST: column--; break;
        default: column++; break;
    }
    if (row < 0 || row >= layout.down || column < 0 || column >= layout.across) return -1;
    return row * layout.across + column;
}

static size_t field_size(extent_t extent) { return ((size_t)extent.width + 2) * ((size_t)extent.height + 2); }

memory_t memory_of(extent_t extent) {
    memory_t memory;
    size_t at = 0;
    for (int parity = 0; parity < 2; parity++) {
        memory.fields[parity] = at;
        at += field_size(extent);
    }
    for (int parity = 0; parity < 2; parity++)
        for (int east = 0; east < 2; east++) {
            memory.column_in[parity][east] = at;
            at += (size_t)extent.height;
        }
    for (int east = 0; east < 2; east++) {
        memory.column_out[east] = at;
        at += (size_t)extent.height;
    }
    memory.total = at;
    return memory;
}

size_t block_at(const extent_t *extent, int x, int y) {
    return (size_t)(y + 1) * ((size_t)extent->width + 2) + (size_t)(x + 1);
}

int block_init(block_t *block, const problem_t *problem, extent_t extent, double *base) {
    block->extent = extent;
    block->memory = memory_of(extent);
    block->base = base;
    block->coefficient = malloc(field_size(extent) * sizeof(double));
    block->conductance = malloc(field_size(extent) * sizeof(double));
    if (!block->coefficient || !block->conductance) {
        block_free(block);
        return -1;
    }
    memset(base, 0, block->memory.total * sizeof(double));
    for (int y = -1; y <= extent.height; y++)
        for (int x = -1; x <= extent.width; x++) {
            cell_t cell = problem_cell(problem, extent.x0 + x, extent.y0 + y);
            size_t at = block_at(&extent, x, y);
            base[block->memory.fields[0] + at] = base[block->memory.fields[1] + at] = cell.temperature;
            block->coefficient[at] = cell.kind == CELL_PLATE ? problem->diffusion : 0;
            block->conductance[at] = cell.kind == CELL_WALL ? 0 : 1;
        }
    return 0;
}

void block_free(block_t *block) {
    free(block->coefficient);
    free(block->conductance);
    block->coefficient = block->conductance = NULL;
}

void block_sweep(block_t *block, int step, int x0, int y0, int x1, int y1) {
    const size_t row = (size_t)block->extent.width + 2;
    const double *from = block->base + block->memory.fields[step % 2];
    double *to = block->base + block->memory.fields[(step + 1) % 2];
    const double *conducts = block->conductance;
    if (x1 <= x0) return;
    for (int y = y0; y < y1; y++) {
        size_t at = block_at(&block->extent, x0, y);
        /* A fixed order of evaluation: the result of a cell does not depend on the division of the
         * plate. */
        for (size_t end = at + (size_t)(x1 - x0); at < end; at++) {
            double here = from[at];
            to[at] =
                here +
                block->coefficient[at] *
                    ((conducts[at - row] * (from[at - row] - here) + conducts[at + row] * (from[at + row] - here)) +
                     (conducts[at - 1] * (from[at - 1] - here) + conducts[at + 1] * (from[at + 1] - here)));
        }
    }
}

void block_sweep_inner(block_t *block, int step) {
    block_sweep(block, step, 1, 1, block->extent.width - 1, block->extent.height - 1);
}

void block_sweep_edge(block_t *block, int step) {
    int width = block->extent.width, height = block->extent.height;
    block_sweep(block, step, 0, 0, width, 1);
    if (height > 1) block_sweep(block, step, 0, height - 1, width, height);
    block_sweep(block, step, 0, 1, 1, height - 1);
    if (width > 1) block_sweep(block, step, width - 1, 1, width, height - 1);
}

void block_pack_column(block_t *block, int step, side_t side) {
    const double *field = block->base + block->memory.fields[step % 2];
    double *column = block->base + block->memory.column_out[side == SIDE_EAST];
    int x = side == SIDE_EAST ? block->extent.width - 1 : 0;
    for (int y = 0; y < block->extent.height; y++) column[y] = field[block_at(&block->extent, x, y)];
}

void block_unpack_column(block_t *block, int step, side_t side) {
    double *field = block->base + block->memory.fields[step % 2];
    const double *column = block->base + block->memory.column_in[step % 2][side == SIDE_EAST];
    int x = side == SIDE_EAST ? block->extent.width : -1;
    for (int y = 0; y < block->extent.height; y++) field[block_at(&block->extent, x, y)] = column[y];
}

/* One process's block of the plate: its geometry, its memory and the arithmetic on it. No
 * communication. */
#ifndef HEAT2D_BLOCK_H
#define HEAT2D_BLOCK_H

#include "problem.h"

/* The grid of processes. Blocks are numbered row by row. */
typedef struct {
    int across, down;
} layout_t;

/* The cells [x0, x0 + width) x [y0, y0 + height) of the plate. */
typedef struct {
    int x0, y0, width, height;
} extent_t;

/* 
 * The communicated memory of a block, as offsets in doubles from its start. Every process can
 * compute the offsets of every other. A field has a border (the halo) of one cell around the block;
 * fields[s % 2] is the input of step s. The north and south neighbours put halo rows directly into
 * place. West and east neighbours put a column into column_in, because a column of a field is not
 * contiguous. column_out holds the local edge columns during their transfer.
 */
typedef struct {
    size_t fields[2];
    size_t column_in[2][2]; /* [s % 2][0: west, 1: east] */
    size_t column_out[2];   /* [0: west, 1: east] */
    size_t total;
} memory_t;

typedef struct {
    extent_t extent;
    memory_t memory;
    double *base;        /* communicated memory */
    double *coefficient; /* per cell: diffusion, or 0 where the temperature does not change */
    double *conductance; /* per cell, halo included: 1, or 0 for an insulator */
} block_t;

/* The layout of `processes` blocks with the shortest inner edges; .across is 0 if the plate has too
 * few cells. */
layout_t layout_choose(const problem_t *problem, int processes);
extent_t layout_extent(const problem_t *problem, layout_t layout, int index);
/* The number of the neighbour on a side, or -1 at the edge of the plate. */
int layout_neighbour(layout_t layout, int index, side_t side);

memory_t memory_of(extent_t extent);

/* Sets up a block in `base`, which holds memory.total doubles. Returns 0, or -1 if there is not
 * enough memory. */
int block_init(block_t *block, const problem_t *problem, extent_t extent, double *base);
void block_free(block_t *block);

/* Position of a cell in a field: x from -1 to width, y from -1 to height. */
size_t block_at(const extent_t *extent, int x, int y);

/* Computes step `step` for the cells of a rectangle of the block. Steps read fields[step % 2] and
 * write the other. */
void block_sweep(block_t *block, int step, int x0, int y0, int x1, int y1);
/* The cells that need no halo, and those that do. */
void block_sweep_inner(block_t *block, int step);
void block_sweep_edge(block_t *block, int step);

/* Copies an edge column of fields[step % 2] into column_out, and column_in into the halo. side:
 * west or east. */
void block_pack_column(block_t *block, int step, side_t side);
void block_unpack_column(block_t *block, int step, side_t side);

#endif

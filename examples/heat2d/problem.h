/* A heat problem: the plate, what lies on it, and how it is read from a text file. */
#ifndef HEAT2D_PROBLEM_H
#define HEAT2D_PROBLEM_H

#include <stddef.h>

enum { PROBLEM_MAX_SHAPES = 256, PROBLEM_MAX_CELLS = 1 << 26 };

typedef enum { SIDE_NORTH, SIDE_SOUTH, SIDE_WEST, SIDE_EAST, SIDE_COUNT } side_t;

/* What one cell is made of. */
typedef enum {
    CELL_PLATE, /* conducts; its temperature is computed */
    CELL_HELD,  /* conducts; its temperature is fixed */
    CELL_WALL   /* insulates: no heat crosses its faces */
} cell_kind_t;

typedef struct {
    cell_kind_t kind;
    double temperature; /* at the start; for CELL_HELD always */
} cell_t;

/* A rectangle or a disc of held or insulating cells. Later shapes cover earlier ones. */
typedef struct {
    enum { SHAPE_RECTANGLE, SHAPE_DISC } form;
    cell_kind_t kind;
    double a, b, c, d; /* rectangle: x0 y0 x1 y1 (inclusive); disc: centre x y, radius */
    double temperature;
} shape_t;

typedef struct {
    int columns, rows; /* cells of the plate, without its boundary */
    int steps;
    double diffusion; /* k dt / h^2, at most 0.25 for a stable explicit scheme */
    double start;     /* temperature of the plate at the start */
    cell_t boundary[SIDE_COUNT];
    shape_t shapes[PROBLEM_MAX_SHAPES];
    int shape_count;
} problem_t;

/* Reads `text` (zero-terminated). Returns 0, or -1 with a message in `error` that names `file` and
 * the line. */
int problem_parse(problem_t *problem, const char *text, const char *file, char *error, size_t error_size);

/* The cell at column x and row y; -1 and `columns` (or `rows`) name the boundary. Row 0 is the
 * north edge. */
cell_t problem_cell(const problem_t *problem, int x, int y);

#endif

#include "picture.h"
#include "png.h"

#include <math.h>
#include <stdlib.h>

enum { ISOTHERMS = 16, LONGEST_SIDE = 960 };

/* From cold to hot. */
static const unsigned char stops[][3] = {{4, 8, 48},    {38, 20, 104},  {100, 22, 122}, {162, 34, 102},
                                         {214, 66, 60}, {246, 124, 24}, {252, 190, 52}, {255, 250, 210}};

static void colour(double heat, unsigned char *rgb) {
    const int last = (int)(sizeof stops / sizeof stops[0]) - 1;
    double position = (heat < 0 ? 0 : heat > 1 ? 1 : heat) * last;
    int stop = position >= last ? last - 1 : (int)position;
    for (int i = 0; i < 3; i++)
        rgb[i] = (unsigned char)(stops[stop][i] + (position - stop) * (stops[stop + 1][i] - stops[stop][i]) + 0.5);
}

static void range(const problem_t *problem, const double *field, double *low, double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (int y = 0; y < problem->rows; y++)
        for (int x = 0; x < problem->columns; x++) {
            double t = field[(size_t)y * (size_t)problem->columns + (size_t)x];
            if (problem_cell(problem, x, y).kind == CELL_WALL) continue;
            if (t < *low) *low = t;
            if (t > *high) *high = t;
        }
    if (!(*high > *low)) *low = *low - 1, *high = *low + 2;
}

static void pixel(const problem_t *problem, const double *field, int x, int y, double low, double high,
                  unsigned char *rgb) {
    size_t at = (size_t)y * (size_t)problem->columns + (size_t)x;
    double heat = (field[at] - low) / (high - low);
    int band = (int)(heat * ISOTHERMS);
    if (problem_cell(problem, x, y).kind == CELL_WALL) {
        rgb[0] = rgb[1] = rgb[2] = 128;
        return;
    }
    colour(heat, rgb);
    /* An isotherm: the next cell to the east or south is in another band. */
    int line = (x + 1 < problem->columns && problem_cell(problem, x + 1, y).kind != CELL_WALL &&
                (int)((field[at + 1] - low) / (high - low) * ISOTHERMS) != band) ||
               (y + 1 < problem->rows && problem_cell(problem, x, y + 1).kind != CELL_WALL &&
                (int)((field[at + (size_t)problem->columns] - low) / (high - low) * ISOTHERMS) != band);
    if (line)
        for (int i = 0; i < 3; i++) rgb[i] = (unsigned char)(rgb[i] * 0.72);
}

int picture_write(const char *path, const problem_t *problem, const double *field) {
    int longest = problem->columns > problem->rows ? problem->columns : problem->rows;
    int scale = longest < LONGEST_SIDE ? LONGEST_SIDE / longest : 1; /* pixels per cell */
    int width = problem->columns * scale, height = problem->rows * scale;
    double low, high;
    unsigned char *rgb = malloc((size_t)width * (size_t)height * 3);
    if (!rgb) return -1;
    range(problem, field, &low, &high);
    for (int y = 0; y < problem->rows; y++)
        for (int x = 0; x < problem->columns; x++) {
            unsigned char cell[3];
            pixel(problem, field, x, y, low, high, cell);
            for (int dy = 0; dy < scale; dy++)
                for (int dx = 0; dx < scale; dx++)
                    for (int i = 0; i < 3; i++)
                        rgb[(((size_t)y * (size_t)scale + (size_t)dy) * (size_t)width + (size_t)x * (size_t)scale +
                             (size_t)dx) *
                                3 +
                            (size_t)i] = cell[i];
        }
    int result = png_write(path, rgb, (unsigned)width, (unsigned)height);
    free(rgb);
    return result;
}

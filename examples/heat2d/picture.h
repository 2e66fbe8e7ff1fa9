/* Turns a field of temperatures into a picture. */
#ifndef HEAT2D_PICTURE_H
#define HEAT2D_PICTURE_H

#include "problem.h"

/* Writes `field` (rows of problem->columns, north first) to a PNG. Returns 0, or -1 with errno
 * set. */
int picture_write(const char *path, const problem_t *problem, const double *field);

#endif

/* Strided, indexed and vector puts and gets: rows of 64 bytes in a larger array. */
#include "perf.h"

#include <gasnet_vis.h>

#include <stdlib.h>

enum { PUT_2D, GET_2D, PUT_3D, GET_3D, PUT_INDEXED, GET_INDEXED, PUT_VECTOR, GET_VECTOR, PUT_2D_NB, GET_2D_NB };
enum { ROW = 64, PITCH = 128, PLANE = 16 }; /* bytes of a row and between rows; rows of a plane in three dimensions */

static void scattered(struct worker *w, long count) {
    size_t rows = w->bytes / ROW, i;
    void **there = malloc(rows * sizeof *there), **here = malloc(rows * sizeof *here);
    gex_Memvec_t *far = malloc(rows * sizeof *far), *near = malloc(rows * sizeof *near);
    ptrdiff_t strides[2] = {PITCH, PITCH * PLANE};
    size_t flat[1], cube[2];
    long n;
    flat[0] = rows;
    cube[0] = rows < PLANE ? rows : PLANE;
    cube[1] = rows < PLANE ? 1 : rows / PLANE;
    if (there == NULL || here == NULL || far == NULL || near == NULL) gasnet_exit(1);
    for (i = 0; i < rows; i++) {
        far[i].gex_addr = there[i] = w->remote + i * PITCH;
        near[i].gex_addr = here[i] = w->local + i * PITCH;
        far[i].gex_len = near[i].gex_len = ROW;
    }
    for (n = 0; n < count; n++) {
        switch (w->test->variant) {
            case PUT_2D:
                gex_VIS_StridedPutBlocking(tm, w->peer, w->remote, strides, w->local, strides, ROW, flat, 1, 0);
                break;
            case GET_2D:
                gex_VIS_StridedGetBlocking(tm, w->local, strides, w->peer, w->remote, strides, ROW, flat, 1, 0);
                break;
            case PUT_3D:
                gex_VIS_StridedPutBlocking(tm, w->peer, w->remote, strides, w->local, strides, ROW, cube, 2, 0);
                break;
            case GET_3D:
                gex_VIS_StridedGetBlocking(tm, w->local, strides, w->peer, w->remote, strides, ROW, cube, 2, 0);
                break;
            case PUT_INDEXED: gex_VIS_IndexedPutBlocking(tm, w->peer, rows, there, ROW, rows, here, ROW, 0); break;
            case GET_INDEXED: gex_VIS_IndexedGetBlocking(tm, rows, here, ROW, w->peer, rows, there, ROW, 0); break;
            case PUT_VECTOR: gex_VIS_VectorPutBlocking(tm, w->peer, rows, far, rows, near, 0); break;
            case PUT_2D_NB:
                gex_Event_Wait(
                    gex_VIS_StridedPutNB(tm, w->peer, w->remote, strides, w->local, strides, ROW, flat, 1, 0));
                break;
            case GET_2D_NB:
                gex_Event_Wait(
                    gex_VIS_StridedGetNB(tm, w->local, strides, w->peer, w->remote, strides, ROW, flat, 1, 0));
                break;
            default: gex_VIS_VectorGetBlocking(tm, rows, near, w->peer, rows, far, 0); break;
        }
    }
    free(there);
    free(here);
    free(far);
    free(near);
}

/* Sizes of whole rows and planes. The maximum leaves space for the gaps. */
#define SIZES PAIRS, MANY_BYTES | THREADS | ROWS, ROW, (size_t)1 << 20
#define CUBES PAIRS, MANY_BYTES | THREADS | PLANES, ROW, (size_t)1 << 20
const struct test scattered_tests[] = {
    {"put-2d", "strided put of rows of 64 bytes", SIZES, PUT_2D, scattered, "copy"},
    {"get-2d", "strided get of rows of 64 bytes", SIZES, GET_2D, scattered, "copy"},
    {"put-2d-nb", "strided non-blocking put of rows of 64 bytes and its wait", SIZES, PUT_2D_NB, scattered, "copy"},
    {"get-2d-nb", "strided non-blocking get of rows of 64 bytes and its wait", SIZES, GET_2D_NB, scattered, "copy"},
    {"put-3d", "strided put of planes of 16 rows", CUBES, PUT_3D, scattered, "copy"},
    {"get-3d", "strided get of planes of 16 rows", CUBES, GET_3D, scattered, "copy"},
    {"put-indexed", "indexed put of chunks of 64 bytes", SIZES, PUT_INDEXED, scattered, "copy"},
    {"get-indexed", "indexed get of chunks of 64 bytes", SIZES, GET_INDEXED, scattered, "copy"},
    {"put-vector", "vector put of chunks of 64 bytes", SIZES, PUT_VECTOR, scattered, "copy"},
    {"get-vector", "vector get of chunks of 64 bytes", SIZES, GET_VECTOR, scattered, "copy"},
    {NULL, NULL, PAIRS, 0, 0, 0, 0, NULL, NULL}};

/* Cells in bfloat16, which the products of _amx.h and _dots.h read. Those instructions take pairs of
 * factors, whose products go into one sum.
 */
#ifndef ALPHAMF_CELLS_H
#define ALPHAMF_CELLS_H

#include <immintrin.h>

#include "_row.h"

/* Rows of a tile on the right side of a product. */
#define DEPTH 32
#define V4 __attribute__((target("arch=x86-64-v4")))

/* What a step of a correlation is for cells: channels and outputs filled up with zeros. */
typedef struct {
    uint16_t weight[9][SIDE / 2][SIDE][2];
    float bias[SIDE];
} Weights;

/* The cells that a tap reads for those from `at` on, null beyond the ends. */
INLINE const uint16_t *cells_near(const Row *row, int tap, ptrdiff_t at) {
    const uint16_t *near = (const uint16_t *)row->near[tap / 3];
    return near ? near + (at + (tap % 3 - 1) * row->step->high) * SIDE : NULL;
}

#endif

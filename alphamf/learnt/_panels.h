/* Products with matrices in bfloat16, for a few rows at a time. */
#ifndef ALPHAMF_PANELS_H
#define ALPHAMF_PANELS_H

#include "../inference/_float32.h"

/* Columns of a panel. A matrix lies panel by panel, and within one two of its rows at a time: a word
 * holds a column's numbers of both, the upper halves of their bits as floats, that of the first row in
 * its lower half. Such numbers become floats by fewer instructions than any others of 16 bits. */
#define PANEL 64

/* Products of rows, sums in the order of `depth`; every panel is read from memory once. */
LOOP(void, product, (const float *restrict x, const uint32_t *restrict panels, float *restrict out,
      ptrdiff_t rows, ptrdiff_t depth, ptrdiff_t columns),
     (x, panels, out, rows, depth, columns)) {
    for (ptrdiff_t at = 0; at < columns; at += PANEL, panels += (depth + 1) / 2 * PANEL) {
        ptrdiff_t left = columns - at < PANEL ? columns - at : PANEL;
        for (ptrdiff_t row = 0; row < rows; row++) {
            const float *factors = x + row * depth;
            const uint32_t *pairs = panels;
            float sums[PANEL] = {0};
            for (ptrdiff_t k = 0; k < depth; k += 2, pairs += PANEL) {
                float first = factors[k], second = k + 1 < depth ? factors[k + 1] : 0.0f;
                for (int i = 0; i < PANEL; i++) sums[i] += first * as_float(pairs[i] << 16);
                for (int i = 0; i < PANEL; i++) sums[i] += second * as_float(pairs[i] & 0xFFFF0000u);
            }
            memcpy(out + row * columns + at, sums, left * sizeof(float));
        }
    }
}

#endif

/* Products with matrices in half precision, for a few rows at a time. */
#ifndef ALPHAMF_PANELS_H
#define ALPHAMF_PANELS_H

#include "../inference/_float32.h"

/* Columns of a panel: a matrix lies panel by panel, and within one row by row, in half precision
 * without numbers below the least normal one. */
#define PANEL 64
/* The bits of such a number, moved into those of a float, make it 2^-112 of what it is. */
#define HALF 0x1p56f

/* Products of rows, sums in the order of `depth`; every panel is read from memory once. */
LOOP(void, product_of_any, (const float *restrict x, const int16_t *restrict panels, float *restrict out,
      ptrdiff_t rows, ptrdiff_t depth, ptrdiff_t columns),
     (x, panels, out, rows, depth, columns)) {
    for (ptrdiff_t at = 0; at < columns; at += PANEL, panels += depth * PANEL) {
        ptrdiff_t left = columns - at < PANEL ? columns - at : PANEL;
        for (ptrdiff_t row = 0; row < rows; row++) {
            const int16_t *weights = panels;
            float sums[PANEL] = {0};
            for (ptrdiff_t k = 0; k < depth; k++, weights += PANEL) {
                float factor = x[row * depth + k] * HALF;
                for (int i = 0; i < PANEL; i++)
                    sums[i] += factor * as_float((uint32_t)(weights[i] * (1 << 13)) & 0x8FFFE000u);
            }
            for (int i = 0; i < PANEL; i++) sums[i] *= HALF;
            memcpy(out + row * columns + at, sums, left * sizeof(float));
        }
    }
}

#if defined(COPIES)
#include <immintrin.h>

/* The same bits by the instruction for numbers in half precision. */
__attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))) APART void product_of_halves(
    const float *restrict x, const int16_t *restrict panels, float *restrict out, ptrdiff_t rows,
    ptrdiff_t depth, ptrdiff_t columns) {
    for (ptrdiff_t at = 0; at < columns; at += PANEL, panels += depth * PANEL) {
        ptrdiff_t left = columns - at < PANEL ? columns - at : PANEL;
        for (ptrdiff_t row = 0; row < rows; row++) {
            const __m256i *weights = (const __m256i *)panels;
            __m512 sums[PANEL / 16];
            float found[PANEL];
            for (int v = 0; v < PANEL / 16; v++) sums[v] = _mm512_setzero_ps();
            for (ptrdiff_t k = 0; k < depth; k++, weights += PANEL / 16) {
                __m512 factor = _mm512_set1_ps(x[row * depth + k]);
                for (int v = 0; v < PANEL / 16; v++)
                    sums[v] = _mm512_fmadd_ps(factor, _mm512_cvtph_ps(_mm256_loadu_si256(weights + v)), sums[v]);
            }
            for (int v = 0; v < PANEL / 16; v++) _mm512_storeu_ps(found + v * 16, sums[v]);
            memcpy(out + row * columns + at, found, left * sizeof(float));
        }
    }
}
#endif

static void product(const float *x, const int16_t *panels, float *out, ptrdiff_t rows,
                    ptrdiff_t depth, ptrdiff_t columns) {
#if defined(COPIES)
    if (level == 4) {
        product_of_halves(x, panels, out, rows, depth, columns);
        return;
    }
#endif
    product_of_any(x, panels, out, rows, depth, columns);
}

#endif

/* Products in bfloat16 by the dot products of AVX512_BF16.
 *
 * A vector has the sums of 16 columns: a pair of factors of a row, broadcast, goes into each of them
 * with the pair of its column.
 */
#ifndef ALPHAMF_DOTS_H
#define ALPHAMF_DOTS_H

#include "_cells.h"

#define DOTS __attribute__((target("arch=x86-64-v4,avx512bf16,prefer-vector-width=512")))
/* Rows whose sums are in registers, of two vectors each; and cells, of one. */
enum { ROWS = 8, CELLS = 24 };

/* Whether they are faster than those of float32: with AMD they are twice as fast, with Intel's
 * processors, which have AMX, they are slower. */
static int has_dots(void) {
    return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
}

DOTS INLINE __m512bh both(const uint16_t *pair) {
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

DOTS INLINE __m512bh pairs(const uint16_t *columns) {
    return (__m512bh)_mm512_loadu_si512(columns);
}

/* Sums of ROWS rows and SIDE * `vectors` columns, where that is a constant. */
DOTS INLINE void some_rows(const int vectors, const uint16_t *left, const uint16_t *right,
                           ptrdiff_t depth, float *out, ptrdiff_t apart) {
    __m512 sums[ROWS][2];
    for (int row = 0; row < ROWS; row++)
        for (int v = 0; v < vectors; v++) sums[row][v] = _mm512_setzero_ps();
    for (ptrdiff_t k = 0; k < depth; k += 2) {
        __m512bh columns[2];
        for (int v = 0; v < vectors; v++) columns[v] = pairs(right + (v * depth + k) * SIDE);
        for (int row = 0; row < ROWS; row++) {
            __m512bh factors = both(left + row * depth + k);
            for (int v = 0; v < vectors; v++)
                sums[row][v] = _mm512_dpbf16_ps(sums[row][v], factors, columns[v]);
        }
    }
    for (int row = 0; row < ROWS; row++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(out + row * apart + v * SIDE, sums[row][v]);
}

/* As `sums_of_tiles` of _amx.h. */
DOTS APART void sums_of_dots(const uint16_t *left, const uint16_t *right, ptrdiff_t depth,
                             ptrdiff_t columns, float *out, ptrdiff_t apart) {
    for (int row = 0; row < 2 * SIDE; row += ROWS) {
        if (columns > SIDE)
            some_rows(2, left + row * depth, right, depth, out + row * apart, apart);
        else
            some_rows(1, left + row * depth, right, depth, out + row * apart, apart);
    }
}

/* As `cells_by_tiles` of _amx.h. */
DOTS APART void cells_by_dots(const Row *row, ptrdiff_t at, const Weights *weights,
                              float out[TILE][SIDE]) {
    for (int first = 0; first < TILE; first += CELLS) {
        __m512 sums[CELLS];
#pragma GCC unroll CELLS
        for (int cell = 0; cell < CELLS; cell++) sums[cell] = _mm512_setzero_ps();
        for (int tap = 0; tap < 9; tap++) {
            const uint16_t *cells = cells_near(row, tap, at + first);
            if (!cells) continue;
            for (ptrdiff_t c = 0; c < row->step->channels; c += 2) {
                __m512bh columns = pairs(weights->weight[tap][c / 2][0]);
#pragma GCC unroll CELLS
                for (int cell = 0; cell < CELLS; cell++)
                    sums[cell] =
                        _mm512_dpbf16_ps(sums[cell], both(cells + cell * SIDE + c), columns);
            }
        }
#pragma GCC unroll CELLS
        for (int cell = 0; cell < CELLS; cell++)
            _mm512_storeu_ps(out[first + cell], sums[cell]);
    }
}

#endif

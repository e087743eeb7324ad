/* Products and correlations in bfloat16 with sums in float32, by AMX or AVX512_BF16. */
#ifndef ALPHAMF_BFLOAT16_H
#define ALPHAMF_BFLOAT16_H

#include "_amx.h"
#include "_dots.h"

/* What multiplies in bfloat16: nothing, AVX512_BF16 or AMX. */
static enum { NOTHING, BY_DOTS, BY_TILES } halves_by;

/* Rounded to even; NaN may become infinite. */
INLINE uint16_t bfloat16(float x) {
    uint32_t bits = as_bits(x);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

V4 APART void round_rows(const float *restrict x, ptrdiff_t apart, uint16_t *restrict out,
                          ptrdiff_t rows, ptrdiff_t depth) {
    for (ptrdiff_t row = 0; row < rows; row++)
        for (ptrdiff_t i = 0; i < depth; i++) out[row * depth + i] = bfloat16(x[row * apart + i]);
}

/* The right side of a product, tile by tile: down the first 16 columns and then down the next. */
V4 APART void round_right(const float *restrict matrix, ptrdiff_t depth, ptrdiff_t columns,
                           uint16_t *restrict out) {
    for (ptrdiff_t column = 0; column < columns; column += SIDE)
        for (ptrdiff_t row = 0; row < depth; row += 2, out += 2 * SIDE) {
            const float *upper = matrix + row * columns + column, *lower = upper + columns;
            for (int k = 0; k < SIDE; k++) {
                out[2 * k] = bfloat16(upper[k]);
                out[2 * k + 1] = bfloat16(lower[k]);
            }
        }
}

/* Sums of 32 rows and `columns` columns, 16 or 32: `left` has `depth` factors in a row, and `right`
 * is from `round_right`. */
INLINE void sums(const uint16_t *left, const uint16_t *right, ptrdiff_t depth, ptrdiff_t columns,
                 float *out, ptrdiff_t apart) {
    if (halves_by == BY_TILES) sums_of_tiles(left, right, depth, columns, out, apart);
    else sums_of_dots(left, right, depth, columns, out, apart);
}

/* out = x right, for `rows` rows that are `x_apart` and `out_apart` floats from each other. `left`
 * receives the rounded rows, with zeros up to a multiple of 32 rows. */
V4 APART void multiply(const float *x, ptrdiff_t x_apart, const uint16_t *right, float *out,
                        ptrdiff_t out_apart, ptrdiff_t rows, ptrdiff_t depth,
                        ptrdiff_t columns, uint16_t *left) {
    float last[2 * SIDE * 2 * SIDE];
    round_rows(x, x_apart, left, rows, depth);
    if (halves_by == BY_TILES) configure(DEPTH);
    for (ptrdiff_t column = 0; column < columns; column += 2 * SIDE) {
        ptrdiff_t wide = columns - column < 2 * SIDE ? SIDE : 2 * SIDE;
        for (ptrdiff_t row = 0; row < rows; row += 2 * SIDE) {
            int whole = rows - row >= 2 * SIDE;
            float *to = whole ? out + row * out_apart + column : last;
            ptrdiff_t apart = whole ? out_apart : 2 * SIDE;
            sums(left + row * depth, right + column * depth, depth, wide, to, apart);
            for (ptrdiff_t k = row; !whole && k < rows; k++)
                memcpy(out + k * out_apart + column, last + (k - row) * 2 * SIDE,
                       wide * sizeof(float));
        }
    }
    if (halves_by == BY_TILES) release();
}

static void pack(const Step *step, Weights *weights) {
    memset(weights, 0, sizeof *weights);
    memcpy(weights->bias, step->bias, step->outputs * sizeof(float));
    const float *from = step->weight;
    for (int tap = 0; tap < 9; tap++)
        for (ptrdiff_t c = 0; c < step->channels; c++, from += step->outputs)
            for (ptrdiff_t o = 0; o < step->outputs; o++)
                weights->weight[tap][c / 2][o][c % 2] = bfloat16(from[o]);
}

/* Planes of a frame as cells of SIDE channels each, in bfloat16; those beyond the bins are zero. */
V4 APART void cells_of(const float *restrict planes, ptrdiff_t channels, ptrdiff_t stride,
                        ptrdiff_t bins, uint16_t *restrict cells) {
    for (ptrdiff_t c = 0; c < channels; c++)
        for (ptrdiff_t bin = 0; bin < bins; bin++)
            cells[bin * SIDE + c] = bfloat16(planes[c * stride + bin]);
}

/* Sums of TILE cells from `at` on, without the bias. */
INLINE void sums_of_cells(const Row *row, ptrdiff_t at, const Weights *weights,
                          float out[TILE][SIDE]) {
    if (halves_by == BY_TILES) cells_by_tiles(row, at, weights, out);
    else cells_by_dots(row, at, weights, out);
}

/* A cell of the next step: sums and bias, rectified, and the cell that is added, if any. */
V4 INLINE void rectify_cell(const float *sums, const float *bias, const uint16_t *added,
                            uint16_t *out) {
    __m512 sum = _mm512_add_ps(_mm512_loadu_ps(sums), _mm512_loadu_ps(bias));
    sum = _mm512_max_ps(sum, _mm512_mul_ps(sum, _mm512_set1_ps(LEAK)));
    if (added) {
        __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)added));
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
    }
    __m512i bits = _mm512_castps_si512(sum), even = _mm512_srli_epi32(bits, 16);
    even = _mm512_and_si512(even, _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7FFF)));
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

/* Do as `correlate` for frames of cells; what is last goes to planes, and planes are added to it. */
V4 APART void correlate_cells(const Row *row, ptrdiff_t bins, const Weights *weights) {
    float sums[TILE][SIDE];
    const float *bias = weights->bias;
    ptrdiff_t outputs = row->step->outputs, stride = row->stride;
    for (ptrdiff_t at = 0; at < bins; at += TILE) {
        ptrdiff_t count = bins - at < TILE ? bins - at : TILE;
        sums_of_cells(row, at, weights, sums);
        if (!row->rectified) {
            for (ptrdiff_t o = 0; o < outputs; o++)
                for (ptrdiff_t k = 0; k < count; k++) {
                    float sum = sums[k][o] + bias[o];
                    if (o < row->sums) sum += row->added[o * stride + at + k];
                    row->out[o * stride + at + k] = sum;
                }
            continue;
        }
        ptrdiff_t place = at * SIDE;
        for (ptrdiff_t k = 0; k < count; k++, place += SIDE)
            rectify_cell(sums[k], bias, row->added ? (const uint16_t *)row->added + place : NULL,
                         (uint16_t *)row->out + place);
    }
}

#endif

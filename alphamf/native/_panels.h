/* Products with matrices in 8 bits, for a few rows at a time. */
#ifndef ALPHAMF_PANELS_H
#define ALPHAMF_PANELS_H

#include "_float32.h"
#include "_parts.h"

/* What every x86-64 processor can do; see COPIES for wider vectors. */
#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define __m128i v128_t
#define _mm_set1_epi32 wasm_i32x4_splat
#define _mm_setzero_si128() wasm_i32x4_const_splat(0)
#define _mm_loadu_si128 wasm_v128_load
#define _mm_storeu_si128 wasm_v128_store
#define _mm_madd_epi16 wasm_i32x4_dot_i16x8
#define _mm_and_si128 wasm_v128_and
#define _mm_srli_epi16 wasm_u16x8_shr
#define _mm_add_epi32 wasm_i32x4_add
#endif

/* Columns of a panel. A matrix lies panel by panel, and within one four of its rows at a time: a word
 * holds a column's numbers of rows 0, 2, 1 and 3, from its lowest byte on, 128 more than they are. So
 * a mask and a shift leave numbers of 16 bits, in pairs, as instructions multiply and add them. */

/* The largest sum of the sizes of a row's numbers: 255 times as much stays within 32 bits. */
static const float MOST_SUM = 8388608.0f, LEAST_UNIT = 1e-30f;

/* Room for the left side of a product: the numbers of every row, in 16 bits, their unit, and by how
 * much BIAS makes a row's sums too large. */
struct factors {
    int16_t *numbers;
    float *units;
    int32_t *excess;
};

static ptrdiff_t whole_words(ptrdiff_t depth) { return (depth + 3) / 4 * 4; }

static void place_factors(struct arena *arena, struct factors *factors, ptrdiff_t rows,
                          ptrdiff_t depth) {
    factors->numbers = take(arena, (size_t)(rows * whole_words(depth)), sizeof *factors->numbers);
    factors->units = take_floats(arena, (size_t)rows);
    factors->excess = take(arena, (size_t)rows, sizeof *factors->excess);
}

/* Round a row of factors, to 16 bits, or to less where a column's sum could leave 32 bits. */
LOOP(void, round_row, (const float *restrict x, int16_t *restrict out, float *restrict unit,
      int32_t *restrict excess, ptrdiff_t depth), (x, out, unit, excess, depth)) {
    float sums[LANES] = {0}, all = 0.0f;
    uint32_t largest = 0;
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < depth; i++) {
        uint32_t size = as_bits(x[i]) & 0x7FFFFFFFu;
        largest = size > largest ? size : largest;
    }
    ptrdiff_t i = 0;
    for (; i + LANES <= depth; i += LANES)
        for (int k = 0; k < LANES; k++) sums[k] += fabsf(x[i + k]);
    for (; i < depth; i++) all += fabsf(x[i]);
    for (int k = 0; k < LANES; k++) all += sums[k];
    float most = as_float(largest) / INT16_MAX;
    float least = all / (MOST_SUM - (float)depth); /* as each may be half larger, rounded */
    *unit = (least > most ? least : most) + LEAST_UNIT;
    float per = 1.0f / *unit;
    for (i = 0; i < depth; i++) {
        float scaled = x[i] * per;
        out[i] = (int16_t)(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
        sum += out[i];
    }
    for (; i < whole_words(depth); i++) out[i] = 0;
    *excess = BIAS * sum;
}

/* Write the sums of a panel, `depth` in whole words: whole numbers, the same in whatever order. */
#if defined(__SSE2__) || defined(__wasm_simd128__)
#define SUM_PANEL(name, target, prefix, bits)                                                      \
    target APART void name(const int16_t *factors, const uint32_t *panel, int32_t *out,            \
                           ptrdiff_t depth) {                                                      \
        enum { EACH = bits / 32, ALL = PANEL / EACH, COUNT = ALL < 8 ? ALL : 8 };                  \
        for (int part = 0; part < ALL; part += COUNT) { /* as many sums as there are registers */  \
            const uint32_t *words = panel + part * EACH;                                           \
            __m##bits##i sums[COUNT], low = prefix##_set1_epi32(0x00FF00FF);                       \
            for (int i = 0; i < COUNT; i++) sums[i] = prefix##_setzero_si##bits();                 \
            for (ptrdiff_t k = 0; k < depth; k += 4, words += PANEL) {                             \
                int32_t pairs[2];                                                                  \
                memcpy(pairs, factors + k, sizeof pairs);                                          \
                __m##bits##i first = prefix##_set1_epi32(pairs[0]);                                \
                __m##bits##i second = prefix##_set1_epi32(pairs[1]);                               \
                for (int i = 0; i < COUNT; i++) {                                                  \
                    __m##bits##i four = prefix##_loadu_si##bits((const void *)(words + i * EACH)); \
                    __m##bits##i even = prefix##_and_si##bits(four, low);                          \
                    __m##bits##i odd = prefix##_srli_epi16(four, 8);                               \
                    sums[i] = prefix##_add_epi32(sums[i], prefix##_madd_epi16(even, first));       \
                    sums[i] = prefix##_add_epi32(sums[i], prefix##_madd_epi16(odd, second));       \
                }                                                                                  \
            }                                                                                      \
            for (int i = 0; i < COUNT; i++)                                                        \
                prefix##_storeu_si##bits((void *)(out + (part + i) * EACH), sums[i]);              \
        }                                                                                          \
    }
SUM_PANEL(sum_panel_default, , _mm, 128)
#if defined(COPIES)
SUM_PANEL(sum_panel_v3, __attribute__((target("arch=x86-64-v3"))), _mm256, 256)
SUM_PANEL(sum_panel_v4, __attribute__((target("arch=x86-64-v4"))), _mm512, 512)
#endif
#undef SUM_PANEL
#else
static void sum_panel_default(const int16_t *factors, const uint32_t *restrict words, int32_t *out,
                              ptrdiff_t depth) {
    int32_t sums[PANEL] = {0};
    for (ptrdiff_t k = 0; k < depth; k += 4, words += PANEL) {
        int32_t a = factors[k], b = factors[k + 1], c = factors[k + 2], d = factors[k + 3];
        for (int i = 0; i < PANEL; i++) {
            sums[i] += a * (int32_t)(words[i] & 255) + c * (int32_t)(words[i] >> 8 & 255);
            sums[i] += b * (int32_t)(words[i] >> 16 & 255) + d * (int32_t)(words[i] >> 24);
        }
    }
    memcpy(out, sums, sizeof sums);
}
#endif

/* Products of rows with a matrix; every panel is read from memory once. */
static void product(const float *x, const struct matrix *matrix, struct factors *factors, float *out,
                    ptrdiff_t rows, ptrdiff_t depth, ptrdiff_t columns) {
    void (*sum_panel)(const int16_t *, const uint32_t *, int32_t *, ptrdiff_t) = sum_panel_default;
    const uint32_t *panel = matrix->words;
    ptrdiff_t whole = whole_words(depth);
#if defined(COPIES)
    if (level > 0) sum_panel = level == 4 ? sum_panel_v4 : sum_panel_v3;
#endif
    for (ptrdiff_t row = 0; row < rows; row++)
        round_row(x + row * depth, factors->numbers + row * whole, &factors->units[row],
                  &factors->excess[row], depth);
    for (ptrdiff_t at = 0; at < columns; at += PANEL, panel += whole / 4 * PANEL) {
        ptrdiff_t left = columns - at < PANEL ? columns - at : PANEL;
        for (ptrdiff_t row = 0; row < rows; row++) {
            int32_t sums[PANEL];
            float *sum = out + row * columns + at, unit = factors->units[row];
            sum_panel(factors->numbers + row * whole, panel, sums, whole);
            for (ptrdiff_t i = 0; i < left; i++)
                sum[i] = (float)(sums[i] - factors->excess[row]) * (unit * matrix->units[at + i]);
        }
    }
}

#endif

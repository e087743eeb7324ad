/* The steps of the online chain for one frame. */
#ifndef ALPHAMF_FRAME_H
#define ALPHAMF_FRAME_H

#include "_steps.h"

/* Floats whose sums are in registers at a time: as many as hide the latency of their additions, with
 * vectors of 16 and with others. Matrices have `WIDE` columns times a whole number. */
#define MOST_SUMS 128
#if defined(__wasm_simd128__)
#define FEW_SUMS 32
#else
#define FEW_SUMS 64
#endif
#define WIDE 16

/* Matrices have bfloat16 numbers: a word holds those of two rows, the upper halves of their bits as
 * floats, that of the first row in its lower half. Such numbers become floats by fewer instructions
 * than any others of 16 bits. */
INLINE ptrdiff_t pairs_of(ptrdiff_t rows) { return (rows + 1) / 2; }

INLINE void activate_some(const float *restrict h, const uint32_t *restrict basis,
                          const float *restrict response, float *restrict v, ptrdiff_t columns,
                          ptrdiff_t tall, ptrdiff_t bins, const ptrdiff_t count) {
    float sums[MOST_SUMS] = {0};
    for (ptrdiff_t k = 0; k < columns; k += 2, basis += tall) {
        float first = h[k], second = k + 1 < columns ? h[k + 1] : 0.0f;
        for (ptrdiff_t i = 0; i < count; i++) sums[i] += first * as_float(basis[i] << 16);
        for (ptrdiff_t i = 0; i < count; i++) sums[i] += second * as_float(basis[i] & 0xFFFF0000u);
    }
    for (ptrdiff_t i = 0; i < bins; i++) v[i] = sums[i] * response[i];
}

/* v = response (W h) of a frame of the context, with W of shape (columns, tall): a multiple of WIDE,
 * so that no load crosses a line of the cache, of which the first `bins` are used. */
LOOP(void, activate, (const float *restrict h, const uint32_t *restrict basis,
      const float *restrict response, float *restrict v, ptrdiff_t columns, ptrdiff_t tall,
      ptrdiff_t bins), (h, basis, response, v, columns, tall, bins)) {
    ptrdiff_t at = 0;
#define SOME(count)                                                                                  \
    for (; at + (count) <= bins; at += (count))                                                      \
    activate_some(h, basis + at, response + at, v + at, columns, tall, count, count)
    if (level == 4) SOME(MOST_SUMS);
    SOME(FEW_SUMS);
    SOME(WIDE);
#undef SOME
    if (at < bins)
        activate_some(h, basis + at, response + at, v + at, columns, tall, bins - at, WIDE);
}

INLINE void gather_some(const float *restrict plus, const float *restrict minus,
                        const float *restrict response, const uint32_t *restrict back,
                        float *restrict up, float *restrict down, ptrdiff_t columns, ptrdiff_t bins,
                        const ptrdiff_t count) {
    float ups[MOST_SUMS / 2], downs[MOST_SUMS / 2];
    memcpy(ups, up, count * sizeof(float));
    memcpy(downs, down, count * sizeof(float));
    for (ptrdiff_t i = 0; i < bins; i += 2, back += columns) {
        int both = i + 1 < bins;
        float x = plus[i] * response[i], y = minus[i] * response[i];
        float next_x = both ? plus[i + 1] * response[i + 1] : 0.0f;
        float next_y = both ? minus[i + 1] * response[i + 1] : 0.0f;
        for (ptrdiff_t k = 0; k < count; k++) ups[k] += x * as_float(back[k] << 16);
        for (ptrdiff_t k = 0; k < count; k++) downs[k] += y * as_float(back[k] << 16);
        for (ptrdiff_t k = 0; k < count; k++) ups[k] += next_x * as_float(back[k] & 0xFFFF0000u);
        for (ptrdiff_t k = 0; k < count; k++) downs[k] += next_y * as_float(back[k] & 0xFFFF0000u);
    }
    memcpy(up, ups, count * sizeof(float));
    memcpy(down, downs, count * sizeof(float));
}

/* Add W^T (response slope) of two slopes, with the transpose of W, of shape (bins, columns), where
 * columns are a multiple of WIDE. */
LOOP(void, gather, (const float *restrict plus, const float *restrict minus,
      const float *restrict response, const uint32_t *restrict back, float *restrict up,
      float *restrict down, ptrdiff_t columns, ptrdiff_t bins),
     (plus, minus, response, back, up, down, columns, bins)) {
    ptrdiff_t at = 0;
#define SOME(count)                                                                                  \
    for (; at + (count) <= columns; at += (count))                                                   \
    gather_some(plus, minus, response, back + at, up + at, down + at, columns, bins, count)
    if (level == 4) SOME(MOST_SUMS / 2);
    SOME(FEW_SUMS / 2);
    SOME(WIDE);
#undef SOME
}

/* EM's multiplicative rule, with a Gamma prior of which `rate` and 1 - shape are given. */
LOOP(void, ascend, (float *restrict h, const float *restrict up, const float *restrict down,
      const float *restrict rate, float less, float exponent, ptrdiff_t columns),
     (h, up, down, rate, less, exponent, columns)) {
    for (ptrdiff_t k = 0; k < columns; k++) {
        float ratio = (down[k] + TINY) / (up[k] + rate[k] + less / h[k]);
        float x = h[k] * exp_(exponent * log_(ratio));
        h[k] = x < TINY ? TINY : x;
    }
}

/* Add the gain of a source, made from its slope, and its square. */
LOOP(void, note, (float half, const float *restrict plus, const float *restrict v,
      float *restrict total, float *restrict square, ptrdiff_t count),
     (half, plus, v, total, square, count)) {
    for (ptrdiff_t i = 0; i < count; i++) {
        float gain = half * plus[i] * v[i];
        total[i] += gain;
        square[i] += gain * gain;
    }
}

/* The newest frames of a spectrogram, shape (context, channels, bins), the newest last. */
struct frames {
    ptrdiff_t context, channels, bins, columns;
    ptrdiff_t wide, tall; /* columns of `back` and of sums; bins of `basis` */
    const float *power, *response, *rate;
    const uint32_t *basis, *back;
    float *noise, *phi, *h, *total, *square, *v, *plus, *minus;
    uint32_t *state;
};

static ptrdiff_t step(const struct frames *f, struct source *sources, float less, float exponent,
                       float *parts) {
    ptrdiff_t cells = f->channels * f->bins, size = pairs_of(f->columns) * f->tall;
    memset(parts, 0, sizeof(float) * (size_t)(2 * f->channels * f->wide));
    sources[0].accepted = 0;
    for (ptrdiff_t c = 0; c < f->context; c++) {
        ptrdiff_t at = c * cells;
        for (ptrdiff_t k = 0; k < f->channels; k++)
            activate(f->h + k * f->columns, f->basis + c * size, f->response + k * f->bins,
                     f->v + at + k * f->bins, f->columns, f->tall, f->bins);
        sources[0].v = f->v + at;
        sources[0].phi = f->phi ? f->phi + at : NULL;
        sources[0].state = c == f->context - 1 ? f->state : NULL;
        sources[0].out[0] = f->plus + at;
        sources[0].out[1] = f->minus + at;
        sources[1].v = f->noise + at;
        evaluate(sources, 2, SLOPES, f->power + at, cells, cells);
        for (ptrdiff_t k = 0; k < f->channels; k++) {
            const float *response = f->response + k * f->bins;
            const uint32_t *back = f->back + c * pairs_of(f->bins) * f->wide;
            float *up = parts + 2 * k * f->wide;
            gather(f->plus + at + k * f->bins, f->minus + at + k * f->bins, response, back, up,
                   up + f->wide, f->wide, f->bins);
        }
    }
    for (ptrdiff_t k = 0; k < f->channels; k++) {
        float *up = parts + 2 * k * f->wide;
        ascend(f->h + k * f->columns, up, up + f->wide, f->rate + k * f->columns, less, exponent,
               f->columns);
    }
    return sources[0].accepted;
}

#endif

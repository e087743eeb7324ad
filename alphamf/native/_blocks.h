/* What is done to the channels of frames between products. */
#ifndef ALPHAMF_BLOCKS_H
#define ALPHAMF_BLOCKS_H

#include "_row.h"

#define SUMS 16

/* Each row less its mean, over its standard deviation, times `scale`, plus `shift`. The order of the
 * sums is the same at any width of vectors. */
LOOP(void, normalise, (const float *restrict x, const float *restrict scale,
      const float *restrict shift, float *restrict out, ptrdiff_t rows, ptrdiff_t width),
     (x, scale, shift, out, rows, width)) {
    for (ptrdiff_t row = 0; row < rows; row++, x += width, out += width) {
        float sums[SUMS] = {0}, mean = 0.0f, variance = 0.0f;
        ptrdiff_t i, whole = width - width % SUMS;
        for (i = 0; i < whole; i += SUMS)
            for (int k = 0; k < SUMS; k++) sums[k] += x[i + k];
        for (; i < width; i++) sums[i - whole] += x[i];
        for (int k = 0; k < SUMS; k++) mean += sums[k];
        mean /= (float)width;
        memset(sums, 0, sizeof sums);
        for (i = 0; i < whole; i += SUMS)
            for (int k = 0; k < SUMS; k++) sums[k] += (x[i + k] - mean) * (x[i + k] - mean);
        for (; i < width; i++) sums[i - whole] += (x[i] - mean) * (x[i] - mean);
        for (int k = 0; k < SUMS; k++) variance += sums[k];
        float inverse = 1.0f / sqrtf(variance / (float)width + NORM_EPSILON);
        for (i = 0; i < width; i++) out[i] = (x[i] - mean) * inverse * scale[i] + shift[i];
    }
}

/* Each channel correlated over frames of `rows` rows with its taps, `distance` frames apart. Where
 * `newest` is -1, that is done for all frames, the middle tap is for the frame itself, and beyond the
 * ends there is zero. Otherwise the frames are a ring, that is done for the newest, and the last tap
 * is for it. */
LOOP(void, dilate, (const float *restrict x, ptrdiff_t frames, ptrdiff_t newest,
      const float *restrict taps, ptrdiff_t count, ptrdiff_t distance, float *restrict out,
      ptrdiff_t rows, ptrdiff_t width),
     (x, frames, newest, taps, count, distance, out, rows, width)) {
    int ring = newest >= 0;
    ptrdiff_t size = rows * width, own = ring ? count - 1 : count / 2;
    ptrdiff_t end = ring ? newest + 1 : frames;
    for (ptrdiff_t frame = ring ? newest : 0; frame < end; frame++, out += size) {
        memset(out, 0, size * sizeof(float));
        for (ptrdiff_t k = 0; k < count; k++) {
            ptrdiff_t near = frame + (k - own) * distance;
            if (ring && near < 0) near += frames;
            if (near < 0 || near >= frames) continue;
            for (ptrdiff_t row = 0; row < size; row += width)
                for (ptrdiff_t i = 0; i < width; i++)
                    out[row + i] += x[near * size + row + i] * taps[k * width + i];
        }
    }
}

LOOP(void, rectify, (float *restrict x, const float *restrict bias, ptrdiff_t rows,
      ptrdiff_t width), (x, bias, rows, width)) {
    for (ptrdiff_t row = 0; row < rows; row++, x += width) {
        for (ptrdiff_t i = 0; i < width; i++) {
            float sum = x[i] + bias[i], small = sum * LEAK;
            x[i] = sum > small ? sum : small;
        }
    }
}

LOOP(void, add, (float *restrict x, const float *restrict change, const float *restrict bias,
      ptrdiff_t rows, ptrdiff_t width), (x, change, bias, rows, width)) {
    for (ptrdiff_t row = 0; row < rows; row++, x += width, change += width)
        for (ptrdiff_t i = 0; i < width; i++) x[i] += change[i] + bias[i];
}

#endif

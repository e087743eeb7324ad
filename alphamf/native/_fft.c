/* The discrete Fourier transform by Stockham's algorithm: no permutation, and loops over neighbours. */
#include "_fft.h"

#include "_float32.h"

void place_fft(struct arena *arena, struct fft *fft, ptrdiff_t length) {
    static const int radices[] = {4, 2, 3, 5, 7, 11};
    fft->half = length / 2, fft->count = 0;
    ptrdiff_t left = fft->half, apart = 1;
    for (int r = 0; r < 6; r++) {
        for (; left % radices[r] == 0; apart *= radices[r]) {
            left /= radices[r];
            struct stage *stage = &fft->stages[fft->count++];
            *stage = (struct stage){radices[r], left, apart, NULL, NULL};
            stage->turns = take_floats(arena, (size_t)(2 * left * radices[r]));
            stage->roots = take_floats(arena, (size_t)(2 * radices[r]));
        }
    }
    fft->turns = take_floats(arena, (size_t)(2 * (fft->half + 1)));
    for (int k = 0; k < 4; k++) fft->work[k / 2][k % 2] = take_floats(arena, (size_t)fft->half);
    if (!arena->start) return;
    for (int k = 0; k < fft->count; k++) {
        struct stage *stage = &fft->stages[k];
        for (ptrdiff_t group = 0; group < stage->groups; group++)
            for (int i = 0; i < stage->radix; i++) {
                double part = (double)(group * i) / (double)(stage->groups * stage->radix);
                float *turn = stage->turns + 2 * (group * stage->radix + i);
                turn[0] = (float)cos(TURN * part), turn[1] = (float)-sin(TURN * part);
            }
        for (int i = 0; i < stage->radix; i++) {
            double part = (double)i / stage->radix;
            stage->roots[2 * i] = (float)cos(TURN * part);
            stage->roots[2 * i + 1] = (float)-sin(TURN * part);
        }
    }
    for (ptrdiff_t k = 0; k <= fft->half; k++) {
        double part = (double)k / (double)length;
        fft->turns[2 * k] = (float)cos(TURN * part), fft->turns[2 * k + 1] = (float)-sin(TURN * part);
    }
}

LOOP(void, by_twos, (const struct stage *stage, const float *restrict x, const float *restrict y,
      float *restrict p, float *restrict q), (stage, x, y, p, q)) {
    ptrdiff_t s = stage->apart, m = stage->groups * s;
    for (ptrdiff_t group = 0; group < stage->groups; group++) {
        const float *turn = stage->turns + 4 * group;
        ptrdiff_t from = group * s, to = 2 * from;
        for (ptrdiff_t k = 0; k < s; k++) {
            float a = x[from + k], b = y[from + k], c = x[from + m + k], d = y[from + m + k];
            p[to + k] = a + c, q[to + k] = b + d;
            p[to + s + k] = (a - c) * turn[2] - (b - d) * turn[3];
            q[to + s + k] = (a - c) * turn[3] + (b - d) * turn[2];
        }
    }
}

LOOP(void, by_fours, (const struct stage *stage, const float *restrict x, const float *restrict y,
      float *restrict p, float *restrict q), (stage, x, y, p, q)) {
    ptrdiff_t s = stage->apart, m = stage->groups * s;
    for (ptrdiff_t group = 0; group < stage->groups; group++) {
        const float *turn = stage->turns + 8 * group;
        ptrdiff_t from = group * s, to = 4 * from;
        for (ptrdiff_t k = 0; k < s; k++) {
            float a = x[from + k] + x[from + 2 * m + k], b = y[from + k] + y[from + 2 * m + k];
            float c = x[from + k] - x[from + 2 * m + k], d = y[from + k] - y[from + 2 * m + k];
            float e = x[from + m + k] + x[from + 3 * m + k], f = y[from + m + k] + y[from + 3 * m + k];
            float g = x[from + m + k] - x[from + 3 * m + k], h = y[from + m + k] - y[from + 3 * m + k];
            float x1 = c + h, y1 = d - g, x2 = a - e, y2 = b - f, x3 = c - h, y3 = d + g;
            p[to + k] = a + e, q[to + k] = b + f;
            p[to + s + k] = x1 * turn[2] - y1 * turn[3], q[to + s + k] = x1 * turn[3] + y1 * turn[2];
            p[to + 2 * s + k] = x2 * turn[4] - y2 * turn[5];
            q[to + 2 * s + k] = x2 * turn[5] + y2 * turn[4];
            p[to + 3 * s + k] = x3 * turn[6] - y3 * turn[7];
            q[to + 3 * s + k] = x3 * turn[7] + y3 * turn[6];
        }
    }
}

LOOP(void, by_primes, (const struct stage *stage, const float *restrict x, const float *restrict y,
      float *restrict p, float *restrict q), (stage, x, y, p, q)) {
    ptrdiff_t s = stage->apart, m = stage->groups * s;
    int radix = stage->radix;
    for (ptrdiff_t group = 0; group < stage->groups; group++) {
        for (int i = 0; i < radix; i++) {
            ptrdiff_t from = group * s, to = (radix * group + i) * s;
            float c = stage->turns[2 * (group * radix + i)], d = stage->turns[2 * (group * radix + i) + 1];
            for (ptrdiff_t k = 0; k < s; k++) p[to + k] = x[from + k], q[to + k] = y[from + k];
            for (int j = 1; j < radix; j++) {
                const float *root = stage->roots + 2 * (i * j % radix);
                float a = root[0], b = root[1];
                const float *u = x + from + j * m, *v = y + from + j * m;
                for (ptrdiff_t k = 0; k < s; k++) {
                    p[to + k] += u[k] * a - v[k] * b;
                    q[to + k] += u[k] * b + v[k] * a;
                }
            }
            for (ptrdiff_t k = 0; k < s; k++) {
                float real = p[to + k];
                p[to + k] = real * c - q[to + k] * d;
                q[to + k] = real * d + q[to + k] * c;
            }
        }
    }
}

/* Transform the first complex frame of `work`; returns which of both has the result. */
static int transform(struct fft *fft, float *(*work)[2]) {
    int now = 0;
    for (int k = 0; k < fft->count; k++, now = !now) {
        const struct stage *stage = &fft->stages[k];
        float **from = work[now], **to = work[!now];
        if (stage->radix == 4) by_fours(stage, from[0], from[1], to[0], to[1]);
        else if (stage->radix == 2) by_twos(stage, from[0], from[1], to[0], to[1]);
        else by_primes(stage, from[0], from[1], to[0], to[1]);
    }
    return now;
}

LOOP(void, weigh_pairs, (const float *restrict frame, const float *restrict window,
      float *restrict even, float *restrict odd, ptrdiff_t half), (frame, window, even, odd, half)) {
    for (ptrdiff_t k = 0; k < half; k++) {
        even[k] = frame[2 * k] * window[2 * k];
        odd[k] = frame[2 * k + 1] * window[2 * k + 1];
    }
}

LOOP(void, add_pairs, (const float *restrict even, const float *restrict odd,
      const float *restrict window, float scale, float *restrict sum, ptrdiff_t half),
     (even, odd, window, scale, sum, half)) {
    for (ptrdiff_t k = 0; k < half; k++) {
        sum[2 * k] += even[k] * scale * window[2 * k];
        sum[2 * k + 1] += odd[k] * scale * window[2 * k + 1];
    }
}

/* The spectrum of a frame of which pairs were transformed, or the other way round where the second
 * half of each pair has changed its sign; bins 1 to half - 1. */
LOOP(void, split, (const float *restrict x, const float *restrict y, const float *restrict turns,
      float sign, float *restrict p, float *restrict q, ptrdiff_t half),
     (x, y, turns, sign, p, q, half)) {
    for (ptrdiff_t k = 1; k < half; k++) {
        float a = x[k] + x[half - k], b = y[k] - y[half - k];
        float c = y[k] + y[half - k], d = x[half - k] - x[k];
        float u = turns[2 * k] * sign, v = turns[2 * k + 1];
        p[k] = 0.5f * (a + c * u - d * v);
        q[k] = 0.5f * (b + c * v + d * u);
    }
}

void analyse(struct fft *fft, const float *frame, const float *window, float *real, float *imaginary) {
    ptrdiff_t half = fft->half;
    weigh_pairs(frame, window, fft->work[0][0], fft->work[0][1], half);
    float **found = fft->work[transform(fft, fft->work)];
    split(found[0], found[1], fft->turns, 1.0f, real, imaginary, half);
    real[0] = found[0][0] + found[1][0], real[half] = found[0][0] - found[1][0];
    imaginary[0] = imaginary[half] = 0.0f;
}

void synthesise(struct fft *fft, const float *real, const float *imaginary, const float *window,
                float *sum) {
    ptrdiff_t half = fft->half;
    float **pairs = fft->work[0];
    split(real, imaginary, fft->turns, -1.0f, pairs[0], pairs[1], half);
    pairs[0][0] = 0.5f * (real[0] + real[half]), pairs[1][0] = 0.5f * (real[0] - real[half]);
    /* The inverse: with both parts exchanged, before and after. */
    float *exchanged[2][2] = {{pairs[1], pairs[0]}, {fft->work[1][0], fft->work[1][1]}};
    float **found = exchanged[transform(fft, exchanged)];
    add_pairs(found[1], found[0], window, 1.0f / (float)half, sum, half);
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

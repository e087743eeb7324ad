/* The newest frame of a causal network; part of _network.c. */

/* Columns of a panel: a matrix lies panel by panel, and within one row by row, in half precision
 * without numbers below the least normal one. */
#define PANEL 64
/* The bits of such a number, moved into those of a float, make it 2^-112 of what it is. */
#define HALF 0x1p56f

/* Products of rows, sums in the order of `depth`; every panel is read from memory once. */
LOOP(void, product, (const float *restrict x, const int16_t *restrict panels, float *restrict out,
      Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t columns),
     (x, panels, out, rows, depth, columns)) {
    for (Py_ssize_t at = 0; at < columns; at += PANEL, panels += depth * PANEL) {
        Py_ssize_t left = columns - at < PANEL ? columns - at : PANEL;
        for (Py_ssize_t row = 0; row < rows; row++) {
            const int16_t *weights = panels;
            float sums[PANEL] = {0};
            for (Py_ssize_t k = 0; k < depth; k++, weights += PANEL) {
                float factor = x[row * depth + k] * HALF;
                for (int i = 0; i < PANEL; i++)
                    sums[i] += factor * as_float((uint32_t)(weights[i] * (1 << 13)) & 0x8FFFE000u);
            }
            for (int i = 0; i < PANEL; i++) sums[i] *= HALF;
            memcpy(out + row * columns + at, sums, left * sizeof(float));
        }
    }
}

/* Each channel correlated over the frames of a ring with its taps, of which the last is for the
 * newest. */
LOOP(void, recall, (const float *restrict ring, Py_ssize_t frames, Py_ssize_t newest,
      const float *restrict taps, Py_ssize_t count, float *restrict out, Py_ssize_t rows,
      Py_ssize_t width),
     (ring, frames, newest, taps, count, out, rows, width)) {
    Py_ssize_t distance = (frames - 1) / (count - 1);
    memset(out, 0, rows * width * sizeof(float));
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_ssize_t frame = (newest + frames - (count - 1 - k) * distance) % frames;
        const float *x = ring + frame * rows * width;
        for (Py_ssize_t row = 0; row < rows; row++)
            for (Py_ssize_t i = 0; i < width; i++)
                out[row * width + i] += x[row * width + i] * taps[k * width + i];
    }
}

/* A ring of frames, and where its newest is. */
typedef struct {
    float *frames;
    Py_ssize_t count, newest;
} Ring;

/* A channel of the frame that came so many before the newest: its first bin. */
static float *before(const Ring *ring, Py_ssize_t frames, Py_ssize_t channels, Py_ssize_t channel,
                     Py_ssize_t size) {
    Py_ssize_t frame = (ring->newest + ring->count - frames) % ring->count;
    return ring->frames + (frame * channels + channel) * size + PAD;
}

/* As `correlate_all`, of the newest frame of `channels` side by side. Step k reads ring k, and writes
 * into the newest frame of the one after it. */
static void correlate_newest(const Chain *chain, const Ring *rings, Py_ssize_t channels) {
    int last = chain->count - 1;
    Py_ssize_t stride = chain->stride;
    for (Py_ssize_t channel = 0; channel < channels; channel++) {
        for (int k = 0; k <= last; k++) {
            const Step *step = &chain->steps[k];
            Py_ssize_t size = step->channels * stride + PAD, out = step->outputs * stride + PAD;
            Row row = {.step = step, .stride = stride, .rectified = k < last};
            for (int tap = 0; tap < 3; tap++)
                row.near[tap] = before(&rings[k], (2 - tap) * step->late, channels, channel, size);
            if (k == last) {
                Py_ssize_t first = chain->steps[0].channels * stride + PAD;
                row.added = before(&rings[0], 0, channels, channel, first) + chain->skip * stride;
                row.sums = added_to(step);
                row.out = chain->out + channel * out + PAD;
            } else {
                if (k) row.added = row.near[2], row.sums = step->outputs;
                row.out = before(&rings[k + 1], 0, channels, channel, out);
            }
            correlate(chain, k, &row);
        }
    }
}

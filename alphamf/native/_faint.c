/* The gain for faint, steady noise: denoising/gain.py explains it. The least power is that of the
 * last seconds, and a cell's power is that of two frames: after a word it has to fall at once. */
#include <float.h>

#include "_float32.h"
#include "_parts.h"

#if STEEPNESS != 3
#error "the gain takes the third power of a ratio"
#endif

static const float DEPTH_DB[] = FAINT_DEPTH_DB, MOST_RATIO = 1e6f;
static const float DB_OF_LOG = 4.3429448f;

struct faint {
    ptrdiff_t channels, bins;
    /* State, shape (channels, bins), and of a channel; how many frames there were. */
    float *mean, *least, *before, *last, *loud;
    int64_t *count;
    /* Room for a hop: the power, continued at both ends, what is around each bin, and the gain. */
    float *power, *around, *gain;
};

struct faint *place_faint(struct memory *memory, int channels, ptrdiff_t bins) {
    struct faint none, *placed = take(&memory->constants, 1, sizeof none);
    struct faint *f = placed ? placed : &none; /* which is only counted */
    size_t cells = (size_t)channels * (size_t)bins;
    f->channels = channels, f->bins = bins;
    f->mean = take_floats(&memory->state, cells);
    f->least = take_floats(&memory->state, cells);
    f->before = take_floats(&memory->state, cells);
    f->last = take_floats(&memory->state, cells);
    f->loud = take_floats(&memory->state, (size_t)channels);
    f->count = take(&memory->words, 1, sizeof *f->count);
    f->power = take_floats(&memory->constants, (size_t)bins + 2 * FAINT_AROUND);
    f->around = take_floats(&memory->constants, (size_t)bins);
    f->gain = take_floats(&memory->constants, cells);
    return placed;
}

void start_faint(struct faint *f) {
    memset(f->loud, 0, sizeof(float) * (size_t)f->channels);
    *f->count = 0;
}

LOOP(void, square, (const float *restrict real, const float *restrict imaginary,
      float *restrict power, ptrdiff_t bins), (real, imaginary, power, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) power[k] = real[k] * real[k] + imaginary[k] * imaginary[k];
}

LOOP(void, average, (const float *restrict power, float *restrict around, ptrdiff_t bins),
     (power, around, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) {
        float sum = 0.0f;
        for (int j = 0; j <= 2 * FAINT_AROUND; j++) sum += power[k + j];
        around[k] = sum / (float)(2 * FAINT_AROUND + 1);
    }
}

LOOP(void, follow, (const float *restrict around, float *restrict mean, float *restrict least,
      ptrdiff_t bins), (around, mean, least, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) {
        mean[k] = FAINT_KEPT * mean[k] + (1.0f - FAINT_KEPT) * around[k];
        least[k] = smaller(least[k], mean[k]);
    }
}

LOOP(void, decide, (float lowest, const float *restrict around, const float *restrict least,
      const float *restrict before, float *restrict last, float *restrict gain, ptrdiff_t bins),
     (lowest, around, least, before, last, gain, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) {
        float floor = smaller(least[k], before[k]), cell = (last[k] + around[k]) / 2.0f;
        float ratio = smaller(FAINT_ABOVE * floor / larger(cell, TINY_POWER), MOST_RATIO);
        gain[k] = larger(1.0f / (1.0f + ratio * ratio * ratio), lowest);
        last[k] = around[k];
    }
}

/* The gain of the largest attenuation, by how far the least power lies below loud frames. */
static float lowest_gain(struct faint *f, ptrdiff_t channel) {
    double loud = 0.0, least = 0.0;
    for (ptrdiff_t k = channel * f->bins; k < (channel + 1) * f->bins; k++)
        loud += f->mean[k], least += smaller(f->least[k], f->before[k]);
    f->loud[channel] = larger((float)loud, FAINT_DECAY * f->loud[channel]);
    float depth = DB_OF_LOG * (log_(f->loud[channel] + TINY_POWER) - log_((float)least + TINY_POWER));
    float rise = (depth - DEPTH_DB[0]) / (DEPTH_DB[1] - DEPTH_DB[0]);
    float fall = (DEPTH_DB[3] - depth) / (DEPTH_DB[3] - DEPTH_DB[2]);
    float part = larger(smaller(smaller(rise, fall), 1.0f), 0.0f);
    return exp_(-FAINT_MOST_DB / (2.0f * DB_OF_LOG) * part);
}

static void channel_gain(struct faint *f, ptrdiff_t channel, const float *real, const float *imaginary) {
    ptrdiff_t bins = f->bins, at = channel * bins;
    size_t size = sizeof(float) * (size_t)bins;
    float *power = f->power + FAINT_AROUND;
    square(real, imaginary, power, bins);
    for (int j = 1; j <= FAINT_AROUND; j++) power[-j] = power[0], power[bins - 1 + j] = power[bins - 1];
    average(f->power, f->around, bins);
    if (!*f->count) {
        float *parts[] = {f->mean, f->least, f->before, f->last};
        for (int p = 0; p < 4; p++) memcpy(parts[p] + at, f->around, size);
    }
    if (*f->count % FAINT_SPAN == 0) {
        memcpy(f->before + at, f->least + at, size);
        for (ptrdiff_t k = 0; k < bins; k++) f->least[at + k] = FLT_MAX;
    }
    follow(f->around, f->mean + at, f->least + at, bins);
    decide(lowest_gain(f, channel), f->around, f->least + at, f->before + at, f->last + at,
           f->gain + at, bins);
}

const float *faint_gain(struct faint *f, const float *real, const float *imaginary,
                        const unsigned char *together) {
    for (ptrdiff_t c = 0; c < f->channels; c++)
        channel_gain(f, c, real + c * f->bins, imaginary + c * f->bins);
    *f->count += 1;
    for (ptrdiff_t k = 0; together && k < f->bins; k++) {
        float most = 0.0f;
        for (ptrdiff_t c = 0; c < f->channels; c++)
            if (together[c]) most = larger(most, f->gain[c * f->bins + k]);
        for (ptrdiff_t c = 0; c < f->channels; c++)
            if (together[c]) f->gain[c * f->bins + k] = most;
    }
    return f->gain;
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

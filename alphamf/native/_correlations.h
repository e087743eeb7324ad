/* The correlations with 3 x 3 kernels over cells, one after the other. */
#ifndef ALPHAMF_CORRELATIONS_H
#define ALPHAMF_CORRELATIONS_H

#include "_row.h"

/* Correlations in a row; floats of a line of the cache. */
#define STEPS 8
#define LINE 16

#if defined(COPIES)
#define COPY(name) name##_v4
#define WIDTH 16
#define OUTPUTS 8
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#include "_tiles.h"
#pragma GCC pop_options
#define COPY(name) name##_v3
#define WIDTH 8
#define OUTPUTS 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#include "_tiles.h"
#pragma GCC pop_options
#define COPY(name) name##_unfused
#define WIDTH 8
#define OUTPUTS 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3,no-fma")
#include "_tiles.h"
#pragma GCC pop_options
#endif
#define COPY(name) name##_default
#define WIDTH 4
#define OUTPUTS 4
#include "_tiles.h"


#if defined(COPIES) && defined(__linux__)
#include "_bfloat16.h"
#define HALVES
#else
typedef void Weights;
#endif

/* `count` frames, which lie `apart` floats from each other; a ring, whose newest frame is given.
 * `start` is the first bin of the first channel. */
typedef struct {
    float *start;
    ptrdiff_t count, newest, apart;
} Frames;

/* Correlations one after the other. Step k reads `inputs[k]`, and writes into `inputs[k + 1]` or, if
 * it is the last, into `out`. Frames are channels of `stride` floats, of which PAD zeros are before
 * the bins and the others behind them; after the last channel are PAD zeros more. Where there are
 * `weights`, `inputs` have cells of SIDE channels in bfloat16 instead, with PAD zeros before and
 * behind those of a frame. `planes` are the frames that the first step reads, always as channels, of
 * which those from `skip` on are added to what the last one writes. All sizes are those of floats.
 *
 * In a `causal` chain all taps lie in the past: `inputs` remember them, and the newest frame is made.
 * Otherwise the middle taps are for the frame itself, and all `frames` are made. */
typedef struct {
    Step steps[STEPS];
    int count, causal;
    ptrdiff_t frames, bins, stride, skip;
    const Weights *weights;
    Frames planes, inputs[STEPS], out;
} Chain;

/* A frame by its place after the newest one of a ring, or before it if that is negative. */
INLINE float *frame_of(const Frames *frames, ptrdiff_t place) {
    return frames->start + (frames->newest + place + frames->count) % frames->count * frames->apart;
}

static void correlate(const Chain *chain, int k, const Row *row) {
    ptrdiff_t bins = chain->bins, stride = chain->stride;
#if defined(HALVES)
    if (chain->weights) {
        correlate_cells(row, bins, &chain->weights[k]);
        return;
    }
#endif
#if defined(COPIES)
    if (level == 4) correlate_v4(row, bins);
    else if (level == 3) correlate_v3(row, bins);
    else if (level == 1) correlate_unfused(row, bins);
    else
#endif
        correlate_default(row, bins);
    for (ptrdiff_t o = 0; o < row->step->outputs; o++)
        memset(row->out + o * stride + bins, 0, (stride - PAD - bins) * sizeof(float));
}

/* Channels of the planes that are added to the last step's first outputs. */
static ptrdiff_t added_to(const Step *last) { return last->outputs < ADDED ? last->outputs : ADDED; }

/* As alphamf.learnt.network.correlations says, every step but the last is rectified and, but for the
 * first, added to its input. A step's frames are made as soon as those that they need are there, so
 * that the cache holds them all. */
static void correlate_frames(const Chain *chain) {
    const Step *steps = chain->steps;
    ptrdiff_t behind[STEPS] = {0}, frames = chain->frames, last = chain->count - 1;
    int causal = chain->causal;
    for (int k = 1; k <= last && !causal; k++) behind[k] = behind[k - 1] + steps[k].late;
    for (ptrdiff_t now = 0; now < frames + behind[last]; now++) {
        for (int k = 0; k <= last; k++) {
            const Step *step = &steps[k];
            ptrdiff_t frame = now - behind[k];
            if (frame < 0 || frame >= frames) continue;
            Row row = {.step = step, .stride = chain->stride, .rectified = k < last};
            for (int tap = 0; tap < 3; tap++) {
                ptrdiff_t near = frame + (tap - 1 - causal) * step->late;
                if (causal || (near >= 0 && near < frames))
                    row.near[tap] = frame_of(&chain->inputs[k], near);
            }
            row.out = frame_of(k == last ? &chain->out : &chain->inputs[k + 1], frame);
            if (k == last) {
                row.added = frame_of(&chain->planes, frame) + chain->skip * chain->stride;
                row.sums = added_to(step);
            } else if (k) {
                row.added = row.near[1 + causal], row.sums = step->outputs;
            }
            correlate(chain, k, &row);
        }
    }
}

/* The newest frame of `rows` channels side by side. */
static void correlate_newest(Chain *chain, ptrdiff_t rows) {
    for (ptrdiff_t row = 0; row < rows; row++) {
        correlate_frames(chain);
        for (int k = 0; k < chain->count; k++)
            chain->inputs[k].start += chain->steps[k].channels * chain->stride + PAD;
        chain->planes = chain->inputs[0];
        chain->out.start += chain->out.apart;
    }
}

#endif

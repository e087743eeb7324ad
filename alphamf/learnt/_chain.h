/* The correlations with 3 x 3 kernels over cells, one after the other; part of _network.c. */
/* Zeros before the bins of every row, and before the end of a buffer: the farthest that a kernel
 * reaches; floats that the end of a row is a multiple of; correlations in a row. */
#define PAD 16
#define TILE 48
#define STEPS 8
#define VECTORS 3
/* As alphamf.learnt.network.ADDED. */
#define ADDED 2
/* Floats of a line of the cache; the most frames between taps. */
#define LINE 16
#define LATEST 1024

/* A correlation with a 3 x 3 kernel: weight[3][3][channels][outputs], frames and bins apart. */
typedef struct {
    const float *weight, *bias;
    Py_ssize_t channels, outputs, late, high;
} Step;

/* A frame of a correlation. Pointers are to the first bin of the first channel; `near` are the
 * three frames that the kernel reads, null beyond the ends, and `added` is null or a frame whose
 * first `sums` channels are added to the result's. */
typedef struct {
    const Step *step;
    const float *near[3], *added;
    float *out;
    Py_ssize_t stride, sums;
    int rectified;
} Row;

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

/* Channels of a cell, rows of a tile, and columns of a tile of sums. */
#define SIDE 16
typedef struct Weights Weights;
#if defined(COPIES) && defined(__linux__)
#include "_bfloat16.h"
#define HALVES
#endif

/* Correlations one after the other. `planes` are frames of channels of `stride` floats, of which PAD
 * zeros are before the bins and the others behind them; `out` are such, too. `rings` are the frames
 * that go from one step to the next, planes as well; or where there are `weights`, cells of SIDE
 * channels in bfloat16, with PAD zeros before and behind those of a frame, and `cells` are the planes
 * as such. All sizes are those of floats. */
typedef struct {
    const float *planes;
    float *cells;
    const Weights *weights;
    Step steps[STEPS];
    int count;
    Py_ssize_t frames, bins, stride, skip;
    float *rings[STEPS], *out;
} Chain;

static void correlate(const Chain *chain, int k, const Row *row) {
    Py_ssize_t bins = chain->bins, stride = chain->stride;
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
    for (Py_ssize_t o = 0; o < row->step->outputs; o++)
        memset(row->out + o * stride + bins, 0, (stride - PAD - bins) * sizeof(float));
}

/* Floats of a frame between steps. */
static Py_ssize_t size_of(const Chain *chain, Py_ssize_t channels) {
    return chain->weights ? (chain->stride + PAD) * SIDE / 2 : chain->stride * channels;
}

/* Channels of the planes that are added to the last step's first outputs. */
static Py_ssize_t added_to(const Step *last) { return last->outputs < ADDED ? last->outputs : ADDED; }

/* Every step but the last is rectified and, but for the first, added to its input; to the last,
 * channels of `planes` from `skip` on are added. A step's frames are made as soon as those that they
 * need are there, so that the cache holds them all. */
static void correlate_all(const Chain *chain) {
    const Step *steps = chain->steps;
    Py_ssize_t behind[STEPS] = {0}, frames = chain->frames, last = chain->count - 1;
    Py_ssize_t lead = chain->weights ? PAD * SIDE / 2 : PAD;
    for (int k = 1; k <= last; k++) behind[k] = behind[k - 1] + steps[k].late;
    for (Py_ssize_t now = 0; now < frames + behind[last]; now++) {
        for (int k = 0; k <= last; k++) {
            const Step *step = &steps[k];
            Py_ssize_t frame = now - behind[k], size = size_of(chain, step->channels);
            if (frame < 0 || frame >= frames) continue;
            Py_ssize_t kept = k ? 2 * step->late + 1 : frames;
            const float *input = (k                ? chain->rings[k - 1]
                                  : chain->weights ? chain->cells
                                                 : chain->planes) + lead;
            Row row = {.step = step, .stride = chain->stride, .rectified = k < last};
            for (int tap = 0; tap < 3; tap++) {
                Py_ssize_t near = frame + (tap - 1) * step->late;
                if (near >= 0 && near < frames) row.near[tap] = input + near % kept * size;
            }
            if (k == last) {
                Py_ssize_t first = frame * steps[0].channels + chain->skip;
                row.added = chain->planes + PAD + first * chain->stride;
                row.sums = added_to(step);
                row.out = chain->out + PAD + frame * step->outputs * chain->stride;
            } else {
                if (k) row.added = row.near[1], row.sums = step->outputs;
                Py_ssize_t room = 2 * steps[k + 1].late + 1;
                row.out = chain->rings[k] + lead + frame % room * size_of(chain, step->outputs);
            }
            correlate(chain, k, &row);
        }
    }
}

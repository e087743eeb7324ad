/* The causal networks (learnt/causal.py), by the layers of whole recordings. */
#include "_correlations.h"
#include "_blocks.h"
#include "_panels.h"
#include "_parts.h"

static const ptrdiff_t LATE[MOST_DEEP] = LATE_FRAMES, HIGH[MOST_DEEP] = HIGH_BINS;
static const float DB_OF_LOG = 4.34294482f;

/* The newest frames that a layer has read, and which of them is the newest. */
struct ring {
    float *frames;
    int32_t *newest;
    ptrdiff_t count, size;
};

struct network {
    struct sizes sizes;
    struct layers layers;
    ptrdiff_t channels, bins, first_used;
    int fills_end;
    float in_pauses;
    Chain chain;
    /* State. */
    struct ring blocks[MOST_BLOCKS], cells[MOST_DEEP + 2], shares;
    /* Constants, and room for a hop. */
    float *faint, *features, *planes, *x, *u, *inner, *maps, *out;
    struct factors factors;
};

static float *advance(struct ring *ring) {
    *ring->newest = (int32_t)((*ring->newest + 1) % ring->count);
    return ring->frames + *ring->newest * ring->size;
}

static void place_ring(struct memory *memory, struct ring *ring, ptrdiff_t count, ptrdiff_t size) {
    *ring = (struct ring){take_floats(&memory->state, (size_t)(count * size)),
                          take(&memory->words, 1, sizeof *ring->newest), count, size};
}

static ptrdiff_t distance_of(int block) { return (ptrdiff_t)1 << block % DILATIONS; }

struct network *place_network(struct memory *memory, const struct sizes *sizes,
                              const struct layers *layers, ptrdiff_t bins, double spacing,
                              int channels) {
    struct arena *constants = &memory->constants;
    struct network none, *placed = take(constants, 1, sizeof none);
    struct network *n = placed ? placed : &none; /* which is only counted */
    ptrdiff_t width = sizes->width;
    n->sizes = *sizes, n->layers = *layers;
    n->channels = channels, n->bins = bins, n->fills_end = spacing > 0.0;
    /* A refiner fills the end; the other networks are that of the bands, and the second stage,
       which raises no gain. */
    n->first_used = n->fills_end ? 0 : BELOW;
    n->in_pauses = n->fills_end ? IN_PAUSES : IN_PAUSES_ABOVE;
    for (int k = 0; k < sizes->blocks; k++)
        place_ring(memory, &n->blocks[k], (TAPS - 1) * distance_of(k) + 1, channels * width);
    Chain *chain = &n->chain;
    *chain = (Chain){.count = sizes->deep + 2, .causal = 1, .frames = 1, .bins = bins,
                     .stride = PAD + (bins + TILE - 1) / TILE * TILE, .skip = FEATURES};
    for (int k = 0; k < chain->count; k++) {
        int first = k == 0, last = k == chain->count - 1;
        Step *step = &chain->steps[k];
        step->weight = n->layers.weight[k], step->bias = n->layers.bias[k];
        step->channels = first ? FEATURES + sizes->maps : sizes->local;
        step->outputs = last ? OUTPUTS_OF_CELL : sizes->local;
        step->late = first || last ? 1 : LATE[k - 1];
        step->high = first || last ? 1 : HIGH[k - 1];
        place_ring(memory, &n->cells[k], 2 * step->late + 1,
                   channels * (step->channels * chain->stride + PAD));
    }
    place_ring(memory, &n->shares, AROUND + 1, channels);
    ptrdiff_t plane = OUTPUTS_OF_CELL * chain->stride + PAD;
    n->faint = take_floats(constants, (size_t)bins);
    n->features = take_floats(constants, (size_t)(channels * bins * FEATURES));
    n->planes = take_floats(constants, (size_t)(FEATURES * bins));
    n->x = take_floats(constants, (size_t)(channels * width));
    n->u = take_floats(constants, (size_t)(channels * width));
    n->inner = take_floats(constants, (size_t)(channels * sizes->hidden));
    n->maps = take_floats(constants, (size_t)(channels * bins * sizes->maps));
    n->out = take_floats(constants, (size_t)(channels * plane));
    ptrdiff_t deepest = bins * FEATURES;
    deepest = deepest > width ? deepest : width;
    deepest = deepest > sizes->hidden ? deepest : sizes->hidden;
    place_factors(constants, &n->factors, channels, deepest);
    if (!placed) return NULL;
    for (ptrdiff_t i = 0; i < bins; i++) {
        double hertz = (double)i * spacing / BEND;
        n->faint[i] = (float)(FAINT / (1.0 + hertz * hertz * hertz * hertz));
    }
    return placed;
}

static void start_ring(struct ring *ring) {
    memset(ring->frames, 0, sizeof(float) * (size_t)(ring->count * ring->size));
    *ring->newest = -1;
}

void start_network(struct network *n) {
    for (int k = 0; k < n->sizes.blocks; k++) start_ring(&n->blocks[k]);
    for (int k = 0; k < n->chain.count; k++) start_ring(&n->cells[k]);
    start_ring(&n->shares);
}

INLINE float clipped(float x, float least, float most) {
    x = x < least ? least : x;
    return x > most ? most : x;
}

/* The features of a channel, one after the other. */
LOOP(void, describe, (float unit, const float *restrict power, const float *restrict gain,
      const float *restrict gain_std, const float *restrict speech, const float *restrict noise,
      float *restrict out, ptrdiff_t bins),
     (unit, power, gain, gain_std, speech, noise, out, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        float g = clipped(gain[i], NARROWEST, 1.0f - NARROWEST);
        out[i] = log_(power[i] / unit + SILENT) * 0.25f;
        out[bins + i] = log_(g / (1.0f - g)) / LOGIT;
        out[2 * bins + i] = gain_std[i] * 4.0f;
        out[3 * bins + i] = clipped(log_(noise[i] + SILENT), -12.0f, 12.0f) * 0.25f;
        out[4 * bins + i] = clipped(log_(speech[i] + SILENT), -14.0f, 12.0f) * 0.25f;
    }
}

/* As alphamf.learnt.causal.fill_band_end. */
static void fill_band_end(float *plane, ptrdiff_t bins) {
    ptrdiff_t low = (ptrdiff_t)(EDGE_LOW * (double)(bins - 1));
    ptrdiff_t high = (ptrdiff_t)(EDGE_HIGH * (double)(bins - 1));
    double sum = 0.0;
    for (ptrdiff_t i = low; i < high; i++) sum += plane[i];
    for (ptrdiff_t i = high; i < bins; i++) plane[i] = (float)(sum / (double)(high - low));
}

/* The features of a pair, as alphamf.learnt.second_stage.features. */
LOOP(void, describe_pair, (float scale, const float *restrict xr, const float *restrict xi,
      const float *restrict yr, const float *restrict yi, float *restrict out, ptrdiff_t bins),
     (scale, xr, xi, yr, yi, out, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        float a = xr[i] * scale, b = xi[i] * scale, c = yr[i] * scale, d = yi[i] * scale;
        float sound = a * a + b * b, speech = c * c + d * d, inner = a * c + b * d;
        float rest = (a - c) * (a - c) + (b - d) * (b - d);
        float g = clipped(inner / (sound + 1e-9f), NARROWEST, 1.0f - NARROWEST);
        out[i] = log_(sound + SILENT_PAIR) * 0.25f;
        out[bins + i] = log_(g / (1.0f - g)) / LOGIT;
        out[2 * bins + i] = inner / sqrtf(sound * speech + 1e-12f);
        out[3 * bins + i] = clipped(log_(rest + SILENT_PAIR), -14.0f, 12.0f) * 0.25f;
        out[4 * bins + i] = clipped(log_(speech + SILENT_PAIR), -14.0f, 12.0f) * 0.25f;
    }
}

/* The planes of a channel's newest cells. */
static float *planes_of(const struct network *n, float *cells, ptrdiff_t channel) {
    return cells + channel * (n->chain.steps[0].channels * n->chain.stride + PAD) + PAD;
}

/* Write the features of a channel, cell by cell and as planes of the newest cells. */
static void write_features(struct network *n, float *cells, ptrdiff_t channel) {
    ptrdiff_t bins = n->bins;
    float *plane = planes_of(n, cells, channel), *out = n->features + channel * bins * FEATURES;
    for (int f = 0; f < FEATURES; f++, plane += n->chain.stride) {
        float *feature = n->planes + f * bins;
        if (n->fills_end) fill_band_end(feature, bins);
        memcpy(plane, feature, sizeof(float) * (size_t)bins);
        for (ptrdiff_t i = 0; i < bins; i++) out[i * FEATURES + f] = feature[i];
    }
}

static void add_bias(float *x, const float *bias, ptrdiff_t rows, ptrdiff_t width) {
    for (ptrdiff_t row = 0; row < rows; row++, x += width)
        for (ptrdiff_t i = 0; i < width; i++) x[i] += bias[i];
}

static void run_block(struct network *n, int k) {
    const struct block *block = &n->layers.blocks[k];
    struct ring *ring = &n->blocks[k];
    ptrdiff_t rows = n->channels, width = n->sizes.width, hidden = n->sizes.hidden;
    normalise(n->x, block->scale, block->shift, advance(ring), rows, width);
    dilate(ring->frames, ring->count, *ring->newest, block->taps, TAPS, distance_of(k), n->u, rows,
           width);
    product(n->u, &block->up, &n->factors, n->inner, rows, width, hidden);
    rectify(n->inner, block->up_bias, rows, hidden);
    product(n->inner, &block->down, &n->factors, n->u, rows, hidden, width);
    add(n->x, n->u, block->down_bias, rows, width);
}

/* The maps that the blocks made, as planes of the newest cells after the features. */
static void write_maps(struct network *n, float *cells) {
    ptrdiff_t bins = n->bins, maps = n->sizes.maps, stride = n->chain.stride;
    product(n->x, &n->layers.write, &n->factors, n->maps, n->channels, n->sizes.width, bins * maps);
    add_bias(n->maps, n->layers.write_bias, n->channels, bins * maps);
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        const float *made = n->maps + k * bins * maps;
        float *plane = planes_of(n, cells, k);
        for (ptrdiff_t m = 0; m < maps; m++)
            for (ptrdiff_t i = 0; i < bins; i++)
                plane[(FEATURES + m) * stride + i] = made[i * maps + m];
    }
}

static void correlate_channels(struct network *n) {
    Chain *chain = &n->chain;
    ptrdiff_t plane = OUTPUTS_OF_CELL * chain->stride + PAD;
    for (int k = 0; k < chain->count; k++) {
        struct ring *ring = &n->cells[k];
        chain->inputs[k] = (Frames){ring->frames + PAD, ring->count, *ring->newest, ring->size};
    }
    chain->planes = chain->inputs[0];
    chain->out = (Frames){n->out + PAD, n->channels, 0, plane};
    correlate_newest(chain, n->channels);
}

/* Minus the log of the gain, by the network's correction of its logit, and the power it leaves. */
LOOP(void, predict, (const float *restrict logit, const float *restrict feature,
      const float *restrict power, float *restrict nepers, float *restrict left, ptrdiff_t bins),
     (logit, feature, power, nepers, left, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        float x = logit[i] + LOGIT * feature[i];
        nepers[i] = log_(1.0f + exp_(-x));
        left[i] = power[i] * exp_(-2.0f * nepers[i]);
    }
}

/* The power of a channel's gain in the newest frame: alphamf.learnt.refiner. */
static float exponent_of(struct network *n, ptrdiff_t channel, const float *left,
                         const float *power) {
    double speech = 0.0, all = TINY_POWER;
    for (ptrdiff_t i = n->first_used; i < n->bins; i++) speech += left[i], all += power[i];
    const struct ring *ring = &n->shares;
    ring->frames[*ring->newest * ring->size + channel] = (float)(speech / all);
    float share = 0.0f, exponent = n->sizes.exponent;
    for (ptrdiff_t k = 0; k < ring->count; k++)
        share = larger(share, ring->frames[k * ring->size + channel]);
    float pause = (SPEECH_DB - DB_OF_LOG * log_(share + TINY_POWER)) / (SPEECH_DB - PAUSE_DB);
    return exponent + larger(n->in_pauses - exponent, 0.0f) * clipped(pause, 0.0f, 1.0f);
}

/* The gain of a channel, raised to a power, and its deviation. */
LOOP(void, finish, (float exponent, float unit, const float *restrict power,
      const float *restrict faint, float *restrict gain, float *restrict gain_std, ptrdiff_t bins),
     (exponent, unit, power, faint, gain, gain_std, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        float g = smaller(exp_(-exponent * gain[i]), 1.0f);
        float share = faint[i] / (faint[i] + power[i] / unit);
        float loud = DEVIATION_SCALE * exp_(DEVIATION_POWER * log_(g * (1.0f - g) + DEVIATION_LEAST));
        gain[i] = g;
        gain_std[i] = sqrtf((1.0f - share) * loud * loud + share * FAINT_STD * FAINT_STD);
    }
}

/* The cells of a new frame, for its features. */
static float *begin_frame(struct network *n) {
    for (int k = 1; k < n->chain.count; k++) advance(&n->cells[k]);
    return advance(&n->cells[0]);
}

/* Run the layers on the features of all channels. */
static void run_layers(struct network *n, float *cells) {
    product(n->features, &n->layers.read, &n->factors, n->x, n->channels, n->bins * FEATURES,
            n->sizes.width);
    add_bias(n->x, n->layers.read_bias, n->channels, n->sizes.width);
    for (int k = 0; k < n->sizes.blocks; k++) run_block(n, k);
    write_maps(n, cells);
    correlate_channels(n);
}

/* The first output of a channel's cells; the second is a stride further. */
static const float *outputs_of(const struct network *n, ptrdiff_t channel) {
    return n->out + channel * (OUTPUTS_OF_CELL * n->chain.stride + PAD) + PAD;
}

void refine(struct network *n, const struct estimate *found, float *gain, float *gain_std) {
    float *cells = begin_frame(n);
    ptrdiff_t bins = n->bins;
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        ptrdiff_t at = k * bins;
        describe(found->level[k], found->power + at, found->gain + at, found->gain_std + at,
                 found->speech + at, found->noise + at, n->planes, bins);
        write_features(n, cells, k);
    }
    run_layers(n, cells);
    advance(&n->shares);
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        const float *own = found->power + k * bins, *feature = planes_of(n, cells, k) + n->chain.stride;
        float *nepers = gain + k * bins;
        predict(outputs_of(n, k), feature, own, nepers, n->planes, bins);
        finish(exponent_of(n, k, n->planes, own), found->level[k], own, n->faint, nepers,
               gain_std + k * bins, bins);
    }
}

/* The coefficients, as alphamf.learnt.second_stage.coefficients, with CHANGE of the change. */
LOOP(void, finish_pair, (const float *restrict of_sound, const float *restrict of_speech,
      float *restrict sound, float *restrict speech, ptrdiff_t bins),
     (of_sound, of_speech, sound, speech, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        sound[i] = CHANGE / (1.0f + exp_(-START_OF_SOUND - of_sound[i]));
        speech[i] = CHANGE * MOST_SPEECH / (1.0f + exp_(-START_OF_SPEECH - of_speech[i])) + 1.0f - CHANGE;
    }
}

void mix_pairs(struct network *n, const struct pair *pairs, float *of_sound, float *of_speech) {
    float *cells = begin_frame(n);
    ptrdiff_t bins = n->bins;
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        const struct pair *pair = &pairs[k];
        describe_pair(1.0f / pair->unit, pair->sound[0], pair->sound[1], pair->speech[0],
                      pair->speech[1], n->planes, bins);
        write_features(n, cells, k);
    }
    run_layers(n, cells);
    for (ptrdiff_t k = 0; k < n->channels; k++)
        finish_pair(outputs_of(n, k), outputs_of(n, k) + n->chain.stride, of_sound + k * bins,
                    of_speech + k * bins, bins);
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

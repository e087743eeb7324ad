/* Alpha-MF of a spectrogram frame by frame.
 *
 * The model is that of factorization/alpha_mf.py for the newest frames: the speech, of index alpha with
 * a fixed W over some frames, has activations h of the newest column; the noise is Gaussian, with one
 * spectrum per frame, learned online (_noise.h). Each frame takes a few steps. Each moves Phi by
 * Metropolis, but only in the newest frame, whose gain is used: in the frames before, Phi stays as it
 * was. Each then moves h by the multiplicative rule of EM, with a Gamma prior on the amplitude ratio of
 * speech to noise. The gain is averaged over the last steps. W is multiplied by the recording's
 * frequency response, learned online as denoising/sampling.py does. */
#include "_frame.h"
#include "_noise.h"

#define MOST_REACH 256

double forgetting(double hop, double seconds) { return -expm1(-hop / seconds); }

/* What a chain remembers beside arrays. */
struct counts {
    uint64_t generator[4];
};

struct chain {
    ptrdiff_t channels, bins, columns, wide, tall, context, cells, depth;
    int stride, reach;
    float alpha, level_share, response_share;
    uint64_t first_generator[4];
    /* Constants. */
    uint32_t *basis, *back;
    float *kernel;
    /* State. */
    struct counts *counts;
    uint32_t *words;
    float *powers, *noises, *phi, *h, *level, *sums[2], *response;
    int64_t *frames, *response_frames;
    struct extreme loudest_level;
    struct noise noise;
    /* Room for a hop. */
    struct source *sources;
    float *power_now, *noise_now, *phi_now, *v, *plus, *minus, *rate, *total, *square, *parts;
    float *gain, *gain_std, *speech, *noise_out, *slope, *mean, *padded;
};

/* SFC64, NumPy's, by Chris Doty-Humphrey. */
static uint64_t draw(uint64_t *s) {
    uint64_t result = s[0] + s[1] + s[3]++;
    s[0] = s[1] ^ s[1] >> 11;
    s[1] = s[2] + (s[2] << 3);
    s[2] = (s[2] << 24 | s[2] >> 40) + result;
    return result;
}

/* As alphamf.inference.random.word_state. */
static void draw_words(uint64_t *generator, uint32_t *words) {
    for (int k = 0; k < 2 * LANES; k++) {
        uint64_t both = draw(generator);
        words[2 * k] = (uint32_t)both;
        words[2 * k + 1] = (uint32_t)(both >> 32);
    }
}

static void fill_phi(struct chain *c, float *out, ptrdiff_t count) {
    uint32_t words[4 * LANES];
    draw_words(c->counts->generator, words);
    draw_stable(words, 0.5f * c->alpha, out, count);
}

struct chain *place_chain(struct memory *memory, const struct weights *weights, int channels,
                          double hop) {
    const struct header *header = &weights->header;
    struct arena *constants = &memory->constants, *words = &memory->words, *state = &memory->state;
    struct chain none, *placed = take(constants, 1, sizeof none);
    struct chain *c = placed ? placed : &none; /* which is only counted */
    ptrdiff_t bins = header->bins, columns = header->columns, context = header->context;
    ptrdiff_t cells = channels * bins, all = context * cells;
    double spacing = (double)header->rate / header->window;
    c->channels = channels, c->bins = bins, c->columns = columns, c->context = context;
    c->wide = (columns + WIDE - 1) / WIDE * WIDE, c->tall = (bins + WIDE - 1) / WIDE * WIDE;
    c->cells = cells, c->stride = header->stride, c->alpha = header->alpha;
    c->depth = header->stride * (context - 1) + 1;
    memcpy(c->first_generator, header->generator, sizeof c->first_generator);
    c->level_share = (float)forgetting(hop, LEVEL_SECONDS);
    c->response_share = (float)forgetting(hop, RESPONSE_SECONDS);
    int reach = (int)(3.0 * SMOOTH_HZ / spacing);
    c->reach = reach < 1 ? 1 : reach < MOST_REACH ? reach : MOST_REACH;
    c->basis = take(constants, (size_t)(context * pairs_of(columns) * c->tall), sizeof *c->basis);
    c->back = take(constants, (size_t)(context * pairs_of(bins) * c->wide), sizeof *c->back);
    c->kernel = take_floats(constants, (size_t)(2 * c->reach + 1));

    c->counts = take(words, 1, sizeof *c->counts);
    c->words = take(words, 4 * LANES, sizeof *c->words);
    c->powers = take_floats(state, (size_t)(c->depth * cells));
    c->noises = take_floats(state, (size_t)(c->depth * cells));
    c->phi = take_floats(state, (size_t)(c->depth * cells));
    c->h = take_floats(state, (size_t)(channels * columns));
    c->level = take_floats(state, (size_t)channels);
    float **of_cells[] = {&c->sums[0], &c->sums[1], &c->response};
    for (size_t k = 0; k < sizeof of_cells / sizeof *of_cells; k++)
        *of_cells[k] = take_floats(state, (size_t)cells);
    int64_t **of_channels[] = {&c->frames, &c->response_frames};
    for (size_t k = 0; k < sizeof of_channels / sizeof *of_channels; k++)
        *of_channels[k] = take(words, (size_t)channels, sizeof(int64_t));
    place_extreme(memory, &c->loudest_level, -FLT_MAX, channels, 1,
                  frames_of(LEVEL_PART_SECONDS, hop));
    place_noise(memory, &c->noise, channels, bins, hop);

    c->sources = take(constants, 2, sizeof *c->sources);
    float **of_context[] = {&c->power_now, &c->noise_now, &c->phi_now, &c->v, &c->plus, &c->minus};
    for (size_t k = 0; k < sizeof of_context / sizeof *of_context; k++)
        *of_context[k] = take_floats(constants, (size_t)all);
    float **of_hop[] = {&c->total,  &c->square,    &c->gain, &c->gain_std,
                        &c->speech, &c->noise_out, &c->slope};
    for (size_t k = 0; k < sizeof of_hop / sizeof *of_hop; k++)
        *of_hop[k] = take_floats(constants, (size_t)cells);
    c->rate = take_floats(constants, (size_t)(channels * columns));
    c->parts = take_floats(constants, (size_t)(2 * channels * c->wide));
    c->mean = take_floats(constants, (size_t)channels);
    c->padded = take_floats(constants, (size_t)(3 * bins + 2 * c->reach));
    if (!placed) return NULL;

    for (ptrdiff_t t = 0; t < context; t++)
        for (ptrdiff_t k = 0; k < columns; k++)
            for (ptrdiff_t i = 0; i < bins; i++) {
                uint32_t bits = as_bits(weights->basis[(t * columns + k) * bins + i]) >> 16;
                c->basis[(t * pairs_of(columns) + k / 2) * c->tall + i] |= bits << 16 * (k % 2);
                c->back[(t * pairs_of(bins) + i / 2) * c->wide + k] |= bits << 16 * (i % 2);
            }
    for (int k = -c->reach; k <= c->reach; k++) {
        float distance = (float)(k * (spacing / SMOOTH_HZ));
        c->kernel[k + c->reach] = exp_(-0.5f * distance * distance);
    }
    c->sources[0].exponent = c->sources[0].scale = 2.0f / c->alpha;
    c->sources[1].exponent = 1.0f;
    return placed;
}

const float *chain_levels(const struct chain *c) { return c->level; }

void start_chain(struct chain *c) {
    memcpy(c->counts->generator, c->first_generator, sizeof c->first_generator);
    fill_phi(c, c->phi, c->depth * c->cells);
    if (c->alpha < 2.0f) draw_words(c->counts->generator, c->words);
    float *zeros[] = {c->sums[0], c->sums[1]};
    for (size_t k = 0; k < sizeof zeros / sizeof *zeros; k++) set_all(zeros[k], c->cells, 0.0f);
    set_all(c->powers, c->depth * c->cells, 0.0f);
    set_all(c->noises, c->depth * c->cells, 0.0f);
    set_all(c->h, c->channels * c->columns, LEAST_H);
    set_all(c->level, c->channels, 0.0f);
    set_all(c->response, c->cells, 1.0f);
    for (ptrdiff_t k = 0; k < c->channels; k++) c->frames[k] = c->response_frames[k] = 0;
    start_extreme(&c->loudest_level);
    start_noise(&c->noise);
}

/* Shift in the newest frame; where it is the first one, all are like it. */
static void shift_in(struct chain *c, float *frames, const float *newest) {
    size_t size = sizeof(float) * (size_t)c->bins;
    memmove(frames, frames + c->cells, sizeof(float) * (size_t)((c->depth - 1) * c->cells));
    memcpy(frames + (c->depth - 1) * c->cells, newest, sizeof(float) * (size_t)c->cells);
    for (ptrdiff_t k = 0; k < c->channels; k++)
        for (ptrdiff_t t = 0; c->frames[k] == 1 && t < c->depth - 1; t++)
            memcpy(frames + t * c->cells + k * c->bins, newest + k * c->bins, size);
}

/* Shift in the newest frame, and update its noise and the level. After a rise the level starts again, as
 * in the first frame; otherwise it would need seconds to follow. */
static void take_in(struct chain *c, const float *power) {
    learn_noise(&c->noise, power);
    for (ptrdiff_t k = 0; k < c->channels; k++) {
        c->frames[k]++;
        if (c->noise.risen[k]) {
            for (int sum = 0; sum < 2; sum++) set_all(c->sums[sum] + k * c->bins, c->bins, 0.0f);
            set_all(c->response + k * c->bins, c->bins, 1.0f);
            c->response_frames[k] = 0;
            c->frames[k] = 1;
        }
        float first = (float)(1.0 / (double)c->frames[k]);
        float share = c->level_share > first ? c->level_share : first;
        c->mean[k] = mean_of(power + k * c->bins, c->bins);
        c->level[k] += share * (c->mean[k] - c->level[k]);
    }
    float *loudest = c->rate; /* not yet used */
    add_extreme(&c->loudest_level, c->mean, loudest);
    for (ptrdiff_t k = 0; k < c->channels; k++) {
        float least = FLT_MIN / FLOOR;
        c->level[k] = smaller(c->level[k], MOST_OVER_LEVEL * loudest[k]);
        c->level[k] = c->level[k] < least ? least : c->level[k];
    }
    fill_phi(c, c->slope, c->cells);
    shift_in(c, c->powers, power);
    shift_in(c, c->noises, c->noise.power);
    shift_in(c, c->phi, c->slope);
}

/* The prior's units, and the frames of the context in units of the level. */
static void prepare(struct chain *c) {
    set_all(c->parts, 2 * c->channels * c->wide, 0.0f);
    for (ptrdiff_t t = 0; t < c->context; t++) {
        ptrdiff_t from = t * c->stride * c->cells, to = t * c->cells;
        memcpy(c->phi_now + to, c->phi + from, sizeof(float) * (size_t)c->cells);
        for (ptrdiff_t k = 0; k < c->channels; k++) {
            ptrdiff_t at = k * c->bins;
            float level = c->level[k], twice = 2.0f * level, *slope = c->slope + at;
            for (ptrdiff_t i = at; i < at + c->bins; i++) {
                c->power_now[to + i] = c->powers[from + i] / level;
                c->noise_now[to + i] = c->noises[from + i] / twice;
            }
            for (ptrdiff_t i = 0; i < c->bins; i++)
                slope[i] = 1.0f / sqrtf(2.0f * c->noise_now[to + at + i] + FLOOR);
            float *sums = c->parts + 2 * k * c->wide;
            gather(slope, slope, c->response + at, c->back + t * pairs_of(c->bins) * c->wide, sums,
                   sums + c->wide, c->wide, c->bins);
        }
    }
    float unit = PRIOR_RATE / (float)(c->context * c->bins);
    for (ptrdiff_t k = 0; k < c->channels; k++)
        for (ptrdiff_t j = 0; j < c->columns; j++)
            c->rate[k * c->columns + j] = c->parts[2 * k * c->wide + j] * unit;
    for (ptrdiff_t i = 0; i < c->channels * c->columns; i++) {
        float h = H_DECAY * c->h[i];
        c->h[i] = h < LEAST_H ? LEAST_H : h;
    }
    set_all(c->total, c->cells, 0.0f);
    set_all(c->square, c->cells, 0.0f);
}

/* The log of a channel's part of the gradient, smoothed over frequency. */
LOOP(void, smooth_log, (const float *restrict padded, const float *restrict kernel,
      float *restrict out, ptrdiff_t bins, ptrdiff_t width), (padded, kernel, out, bins, width)) {
    for (ptrdiff_t i = 0; i < bins; i++) out[i] = 0.0f;
    for (ptrdiff_t k = 0; k < width; k++)
        for (ptrdiff_t i = 0; i < bins; i++) out[i] += kernel[k] * padded[i + k];
    for (ptrdiff_t i = 0; i < bins; i++) out[i] = log_(out[i] + 1e-12f);
}

LOOP(void, scale_response, (float *restrict gain, const float *restrict change, float mean,
      ptrdiff_t bins), (gain, change, mean, bins)) {
    for (ptrdiff_t i = 0; i < bins; i++) {
        float x = gain[i] * exp_(RESPONSE_EVERY * RESPONSE_RATE * (change[i] - mean));
        x = smaller(x, RESPONSE_MOST);
        gain[i] = x < RESPONSE_LEAST ? RESPONSE_LEAST : x;
    }
}

static void move_response(struct chain *c, ptrdiff_t k) {
    ptrdiff_t bins = c->bins, reach = c->reach;
    float *padded = c->padded, *logs[2] = {padded + bins + 2 * reach, padded + 2 * (bins + reach)};
    for (int sum = 0; sum < 2; sum++) {
        const float *values = c->sums[sum] + k * bins;
        memcpy(padded + reach, values, sizeof(float) * (size_t)bins);
        set_all(padded, reach, values[0]);
        set_all(padded + reach + bins, reach, values[bins - 1]);
        smooth_log(padded, c->kernel, logs[sum], bins, 2 * reach + 1);
    }
    for (ptrdiff_t i = 0; i < bins; i++) logs[1][i] -= logs[0][i];
    scale_response(c->response + k * bins, logs[1], mean_of(logs[1], bins), bins);
}

/* Learn from both parts of the gradient in the log gain, for a channel with speech. */
static void learn_response(struct chain *c, ptrdiff_t k) {
    ptrdiff_t at = k * c->bins, newest = (c->context - 1) * c->cells + at;
    const float *parts[] = {c->plus + newest, c->minus + newest}, *v = c->v + newest;
    for (int sum = 0; sum < 2; sum++) {
        float *held = c->sums[sum] + at;
        for (ptrdiff_t i = 0; i < c->bins; i++)
            held[i] += c->response_share * (parts[sum][i] * v[i] - held[i]);
    }
    int64_t frames = ++c->response_frames[k];
    if (frames > RESPONSE_START && frames % RESPONSE_EVERY == 0) move_response(c, k);
}

static int has_speech(const float *gain, const float *power, ptrdiff_t bins) {
    double speech = 0.0, all = 0.0;
    for (ptrdiff_t i = 0; i < bins; i++) speech += gain[i] * power[i], all += power[i];
    return (float)speech > SPEECH_SHARE * (float)all;
}

void step_chain(struct chain *c, const float *power, struct estimate *found) {
    take_in(c, power);
    prepare(c);
    struct frames now = {
        .context = c->context, .channels = c->channels, .bins = c->bins, .columns = c->columns,
        .wide = c->wide, .tall = c->tall,
        .power = c->power_now, .basis = c->basis, .back = c->back, .response = c->response,
        .rate = c->rate, .noise = c->noise_now, .phi = c->phi_now, .h = c->h, .total = c->total,
        .square = c->square, .v = c->v, .plus = c->plus, .minus = c->minus,
        .state = c->alpha < 2.0f ? c->words : NULL,
    };
    ptrdiff_t accepted = 0, newest = (c->context - 1) * c->cells;
    float exponent = RELAXATION * c->alpha / (c->alpha + 2.0f);
    for (int k = 0; k < STEPS_OF_FRAME; k++) {
        accepted += step(&now, c->sources, 1.0f - PRIOR_SHAPE, exponent, c->parts);
        if (k >= STEPS_OF_FRAME - KEEP)
            note(0.5f * c->alpha, c->plus + newest, c->v + newest, c->total, c->square, c->cells);
    }
    memcpy(c->phi + (c->depth - 1) * c->cells, c->phi_now + newest,
           sizeof(float) * (size_t)c->cells);
    for (ptrdiff_t i = 0; i < c->cells; i++) {
        float mean = smaller(c->total[i] / KEEP, 1.0f), rest = c->square[i] / KEEP - mean * mean;
        c->gain[i] = mean;
        c->gain_std[i] = sqrtf(rest > 0.0f ? rest : 0.0f);
        c->speech[i] = 2.0f * c->v[newest + i];
        c->noise_out[i] = 2.0f * c->noise_now[newest + i];
    }
    for (ptrdiff_t k = 0; k < c->channels; k++) {
        ptrdiff_t at = k * c->bins;
        int speech = has_speech(c->gain + at, c->power_now + newest + at, c->bins);
        if (speech && c->noise.since[k] >= c->noise.settled) learn_response(c, k);
    }
    *found = (struct estimate){
        power, c->gain,  c->gain_std, c->speech, c->noise_out,
        c->level, (float)accepted / (float)(STEPS_OF_FRAME * c->cells)};
}

__attribute__((constructor)) static void choose_copies(void) {
    choose_level();
    fill_twos();
}

/* The way of a hop. The spectrum of its channels at their own rate, in asymmetric windows
 * (audio/stft.py); power on the dictionary's bins; the gain of the online chain
 * (_chain.c), refined by a network (_network.c); interpolation to the rate's bins; the bands above the
 * dictionary's (_bands.c); one gain for channels that share a voice, as denoising/spatial.py but with
 * averages over the past; the limit; the sound; the second stage (_second.c). These are links 1 to 5 of
 * the chain of gains (denoising/gain.py). tests/support/twin has the same in NumPy.
 *
 * An engine is one block of memory: constants, room for a hop, and the state, which is all that is
 * saved and what a reset begins anew. Numbers in 8 bits, which the networks compute with, would hide what
 * is not finite: so a state that is loaded is scanned, and one that lives part by part, hop by hop.
 */
#include "alphamf.h"

#include <float.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "_float32.h"
#include "_fft.h"

#define PUBLIC __attribute__((visibility("default")))

static const double ACTIVITY[] = WEIGHTS;

enum { NOT_RESET, TOO_LARGE, NOT_FINITE };

#define SCAN_HOPS 32 /* in which all of the state is scanned */
#define LEAST_RATE 1000
#define MOST_RATE 768000
#define MOST_CHANNELS 65536

/* Interpolation between the bins of two grids, as regrid of denoising/grids.py. */
struct bins {
    int same;
    ptrdiff_t low, high, from, to;
    int32_t *first;
    float *weight, *extended;
};

/* What is remembered beside arrays. */
struct counts {
    int64_t hops, heard; /* `heard`: since the state was empty */
    int32_t unfit, reset_reason, place;
    float acceptance, strength;
    double loud, ratio, level;
};

struct alphamf {
    char *memory;
    size_t state_size;
    ptrdiff_t channels, hop, length, bins, model_bins;
    int linked, band_first, band_end;
    float strength, least;
    double span_share, loud_decay;
    float coherence_share, filled[FRAME_HOPS], *analysis, *synthesis;
    struct weights weights;
    struct bins inwards, outwards;
    struct fft fft;
    struct chain *chain;
    struct network *network;
    struct bands *bands;
    struct second *second;
    struct estimate read[2]; /* by the refiner and by the network of the bands, of the last hop */
    float *whole; /* what a hop that lacks a frame is multiplied by */
    /* State. */
    struct counts *counts;
    float *past, *sum, *cross_real, *cross_imaginary, *cross_power;
    unsigned char *together;
    float *inputs, *outputs; /* behind all that is scanned: the user's samples may be anything */
    /* Room for a hop. */
    float *real, *imaginary, *power, *filled_power, *model_power, *gain, *gain_std, *model_gain;
    float *model_std, *common, *total, *made, *pair;
    unsigned char *loud;
};

static int is_smooth(int hop) {
    static const int primes[] = {2, 3, 5, 7, 11};
    for (int k = 0; k < 5; k++)
        while (hop % primes[k] == 0) hop /= primes[k];
    return hop == 1;
}

/* As alphamf.denoising.grids.nearest_hop. */
static int nearest_hop(double length) {
    int below = length < 1.0 ? 1 : (int)length, above = (int)length + 1;
    while (!is_smooth(below)) below--;
    while (!is_smooth(above)) above++;
    return fabs(above - length) < fabs(below - length) ? above : below;
}

static void place_bins(struct memory *memory, struct bins *bins, double from_rate, int from_window,
                       double to_rate, int to_window) {
    ptrdiff_t from = from_window / 2 + 1, to = to_window / 2 + 1;
    *bins = (struct bins){.same = from_rate == to_rate && from_window == to_window,
                          .low = (ptrdiff_t)(BAND_LOW * (double)(from - 1)),
                          .high = (ptrdiff_t)(BAND_HIGH * (double)(from - 1)), .from = from, .to = to};
    bins->first = take(&memory->constants, (size_t)to, sizeof *bins->first);
    bins->weight = take_floats(&memory->constants, (size_t)to);
    bins->extended = take_floats(&memory->constants, (size_t)(bins->high + 2));
    if (!memory->constants.start) return;
    double seconds = from_window / from_rate;
    for (ptrdiff_t k = 0; k < to; k++) {
        double at = (double)k * (to_rate / to_window * seconds), end = (double)(bins->high + 1);
        at = at < end ? at : end;
        ptrdiff_t first = (ptrdiff_t)at;
        bins->first[k] = (int32_t)(first < bins->high ? first : bins->high);
        bins->weight[k] = (float)(at - bins->first[k]);
    }
}

static void move_bins(struct bins *bins, const float *values, float *out, ptrdiff_t channels) {
    if (bins->same) {
        memcpy(out, values, sizeof(float) * (size_t)(channels * bins->from));
        return;
    }
    for (ptrdiff_t c = 0; c < channels; c++, values += bins->from, out += bins->to) {
        double sum = 0.0;
        for (ptrdiff_t k = bins->low; k <= bins->high; k++) sum += values[k];
        memcpy(bins->extended, values, sizeof(float) * (size_t)(bins->high + 1));
        bins->extended[bins->high + 1] = (float)(sum / (double)(bins->high - bins->low + 1));
        for (ptrdiff_t k = 0; k < bins->to; k++) {
            const float *pair = bins->extended + bins->first[k];
            out[k] = pair[0] + bins->weight[k] * (pair[1] - pair[0]);
        }
    }
}

static double squared_sine(double x) { return sin(x) * sin(x); }

/* As alphamf.audio.stft.windows. */
static void fill_windows(struct alphamf *e) {
    ptrdiff_t used = SYNTHESIS_HOPS * e->hop, fall = used / 2, rise = e->length - fall;
    double quarter = TURN / 4.0, half = TURN / 2.0, energy = 0.0;
    for (ptrdiff_t k = 0; k < e->length; k++) {
        double window = k < rise ? sin(quarter * ((double)k + 0.5) / (double)rise)
                                 : cos(quarter * ((double)(k - rise) + 0.5) / (double)fall);
        ptrdiff_t at = k - (e->length - used);
        double product = 0.0, all = 0.0;
        if (at >= 0) {
            product = squared_sine(half * ((double)at + 0.5) / (double)used);
            for (ptrdiff_t j = at % e->hop; j < used; j += e->hop)
                all += squared_sine(half * ((double)j + 0.5) / (double)used);
            product /= all;
        }
        e->analysis[k] = (float)window;
        e->synthesis[k] = (float)(product / window);
    }
    double sums[FRAME_HOPS];
    for (int k = 0; k < FRAME_HOPS; k++) {
        for (ptrdiff_t i = 0; i < e->hop; i++) {
            double window = e->analysis[e->length - 1 - (k * e->hop + i)];
            energy += window * window;
        }
        sums[k] = energy;
    }
    for (int k = 0; k < FRAME_HOPS; k++) e->filled[k] = (float)(sums[k] / energy);
    for (ptrdiff_t i = 0, at = e->length - used; i < e->hop; i++, at++)
        e->whole[i] = 1.0f / (1.0f - e->analysis[at] * e->synthesis[at]);
    if (e->second) set_energy(e->second, energy);
}

static void place_band(struct alphamf *e, int rate) {
    double spacing = (double)rate / (double)e->length;
    e->band_first = (int)(SPEECH_LOW / spacing);
    e->band_end = (int)(SPEECH_HIGH / spacing) + 1;
    if (e->band_end > e->bins) e->band_end = (int)e->bins;
}

/* Lay all out in `memory`: so much memory is needed. Without a start, it is only counted. */
static void place(struct alphamf *e, struct memory *memory, int rate) {
    const struct header *header = &e->weights.header;
    struct arena *constants = &memory->constants, *words = &memory->words, *state = &memory->state;
    size_t cells = (size_t)(e->channels * e->bins), model = (size_t)(e->channels * header->bins);
    size_t samples = (size_t)(e->channels * e->length), hop = (size_t)(e->channels * e->hop);
    e->analysis = take_floats(constants, (size_t)e->length);
    e->synthesis = take_floats(constants, (size_t)e->length);
    float **of_cells[] = {&e->real, &e->imaginary, &e->power, &e->filled_power, &e->gain, &e->gain_std};
    for (size_t k = 0; k < sizeof of_cells / sizeof *of_cells; k++)
        *of_cells[k] = take_floats(constants, cells);
    float **of_model[] = {&e->model_power, &e->model_gain, &e->model_std};
    for (size_t k = 0; k < sizeof of_model / sizeof *of_model; k++)
        *of_model[k] = take_floats(constants, model);
    e->common = take_floats(constants, (size_t)e->bins);
    e->total = take_floats(constants, (size_t)e->bins);
    e->made = take_floats(constants, hop);
    e->pair = take_floats(constants, 2 * hop);
    e->whole = take_floats(constants, (size_t)e->hop);
    e->loud = take(constants, (size_t)e->channels, 1);
    place_bins(memory, &e->inwards, rate, (int)e->length, header->rate, header->window);
    place_bins(memory, &e->outwards, header->rate, header->window, rate, (int)e->length);
    place_fft(constants, &e->fft, e->length);

    e->counts = take(words, 1, sizeof *e->counts);
    e->past = take_floats(state, samples), e->sum = take_floats(state, samples);
    float **of_cross[] = {&e->cross_real, &e->cross_imaginary, &e->cross_power};
    for (size_t k = 0; k < sizeof of_cross / sizeof *of_cross; k++)
        *of_cross[k] = e->linked ? take_floats(state, cells) : NULL;
    e->together = take(words, (size_t)e->channels, 1);
    double seconds = (double)e->hop / rate;
    e->chain = place_chain(memory, &e->weights, (int)e->channels, seconds);
    int channels = (int)e->channels;
    double spacing = (double)rate / (double)e->length;
    const struct sizes *refiner = &header->refiner;
    e->network = refiner->blocks ? place_network(memory, refiner, &e->weights.layers, header->bins,
                                                 (double)header->rate / header->window, channels)
                                 : NULL;
    e->bands = rate > header->rate
                   ? place_bands(memory, &e->weights, channels, e->bins, spacing, seconds)
                   : NULL;
    e->second = place_second(memory, &e->weights, channels, e->hop, rate);
    e->inputs = take_floats(state, hop), e->outputs = take_floats(state, hop);
    e->span_share = forgetting(seconds, SPAN / 2.0);
    e->loud_decay = 1.0 - forgetting(seconds, LOUD_SPEECH_SECONDS);
    e->coherence_share = (float)forgetting(seconds, COHERENCE_SECONDS);
}

/* Write to every page, so that none is missing when a hop comes. */
static void touch(volatile char *memory, size_t size) {
    for (size_t at = 0; at < size; at += 4096) memory[at] = 0;
}

PUBLIC alphamf *alphamf_create(const void *weights, size_t size, int rate, int channels, int linked) {
    struct alphamf *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    if (rate < LEAST_RATE || rate > MOST_RATE || channels < 1 || channels > MOST_CHANNELS ||
        !read_weights(weights, size, &e->weights)) {
        free(e);
        return NULL;
    }
    const struct header *header = &e->weights.header;
    e->hop = nearest_hop((double)header->window / FRAME_HOPS * rate / header->rate);
    e->length = FRAME_HOPS * e->hop, e->bins = e->length / 2 + 1, e->model_bins = header->bins;
    e->channels = channels, e->linked = linked && channels > 1;
    e->strength = 1.0f;
    struct memory memory = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    place(e, &memory, rate);
    size_t constants = memory.constants.used, words = memory.words.used;
    e->state_size = words + memory.state.used;
    e->memory = calloc(1, constants + e->state_size + ALIGNMENT);
    if (!e->memory) {
        free(e);
        return NULL;
    }
    touch(e->memory, constants + e->state_size + ALIGNMENT);
    char *start = e->memory + (ALIGNMENT - (uintptr_t)e->memory % ALIGNMENT) % ALIGNMENT;
    memory = (struct memory){{start, 0}, {start + constants, 0}, {start + constants + words, 0}};
    place(e, &memory, rate);
    fill_windows(e);
    place_band(e, rate);
    alphamf_reset(e);
    return e;
}

PUBLIC void alphamf_destroy(alphamf *e) {
    if (!e) return;
    free(e->memory);
    free(e);
}

/* Forget all that was learned from the sound. */
static void begin(struct alphamf *e) {
    size_t cells = sizeof(float) * (size_t)(e->channels * e->bins);
    float *cross[] = {e->cross_real, e->cross_imaginary, e->cross_power};
    for (int k = 0; e->linked && k < 3; k++) memset(cross[k], 0, cells);
    e->counts->loud = 0.0, e->counts->ratio = -RATIO_MOST, e->counts->level = LEVEL_LEAST;
    start_chain(e->chain);
    if (e->network) start_network(e->network);
    if (e->bands) start_bands(e->bands);
    if (e->second) start_second(e->second);
}

static void reset_for(struct alphamf *e, int reason) {
    e->counts->reset_reason = reason;
    begin(e);
}

/* Empty the first bytes of the state, of which the counts are the first. */
static void empty(struct alphamf *e, size_t size) {
    memset(e->counts, 0, size);
    e->counts->acceptance = 1.0f, e->counts->strength = e->strength;
    begin(e);
}

PUBLIC void alphamf_reset(alphamf *e) { empty(e, e->state_size); }

/* Whether no exponent is the largest, which infinity and NaN have. */
LOOP(int, are_finite, (const float *restrict x, ptrdiff_t count), (x, count)) {
    uint32_t found = 0;
    for (ptrdiff_t i = 0; i < count; i++) found |= (as_bits(x[i]) & 0x7fffffffu) + 0x00800000u;
    return !(found >> 31);
}

/* Empty the state if a number in some of its floats, or a count, is not finite. The number of hops stays, so that as much sound comes
 * out as came in: silence, until the first of the sound from here on is due. */
static void check_state(struct alphamf *e, const float *from, const float *to) {
    struct counts was = *e->counts;
    double sum = was.loud + was.ratio + was.level + was.acceptance + was.strength;
    if (fabs(sum) <= DBL_MAX && are_finite(from, to - from)) return;
    empty(e, (size_t)((char *)e->inputs - (char *)e->counts));
    e->counts->hops = was.hops, e->counts->place = was.place;
    e->counts->reset_reason = NOT_FINITE;
}

static void check_part(struct alphamf *e) {
    ptrdiff_t count = e->inputs - e->past, part = count / SCAN_HOPS + 1;
    ptrdiff_t at = e->counts->hops % SCAN_HOPS * part, first = at < count ? at : count;
    check_state(e, e->past + first, part < count - first ? e->past + first + part : e->inputs);
}

static float within(float x, float least, float most) {
    return x >= least ? x < most ? x : most : least; /* `least` where x is no number */
}

PUBLIC void alphamf_control(alphamf *e, float strength, float least_gain) {
    e->strength = within(strength, 0.0f, 1.0f);
    e->least = within(least_gain, 0.0f, 1.0f);
}

PUBLIC int alphamf_hop(const alphamf *e) { return (int)e->hop; }

PUBLIC int alphamf_bins(const alphamf *e) { return (int)e->bins; }

PUBLIC int alphamf_latency(const alphamf *e) { return (int)(SYNTHESIS_HOPS * e->hop); }

PUBLIC float alphamf_acceptance(const alphamf *e) { return e->counts->acceptance; }

PUBLIC float alphamf_level(const alphamf *e, int channel) { return chain_levels(e->chain)[channel]; }

PUBLIC int alphamf_reset_reason(const alphamf *e) { return e->counts->reset_reason; }

#if defined(ALPHAMF_TRAINING)
/* What the refiner (0) or the network of the bands (1) read of the last hop that was not silent, shape
 * (5, channels, bins): |X|^2, gain, its standard deviation, and both variances in units of the level.
 * Returns whether there was such a hop. */
PUBLIC int alphamf_read(const alphamf *e, int network, float *out) {
    const struct estimate *read = &e->read[network != 0];
    const float *parts[] = {read->power, read->gain, read->gain_std, read->speech, read->noise};
    size_t count = (size_t)e->channels * (size_t)(network ? BANDS : e->model_bins);
    for (size_t k = 0; read->power && k < 5; k++)
        memcpy(out + k * count, parts[k], count * sizeof(float));
    return read->power != NULL;
}
#endif

PUBLIC size_t alphamf_state_size(const alphamf *e) { return e->state_size; }

PUBLIC void alphamf_save(const alphamf *e, void *state) { memcpy(state, e->counts, e->state_size); }

PUBLIC void alphamf_load(alphamf *e, const void *state) {
    memcpy(e->counts, state, e->state_size);
    check_state(e, e->past, e->inputs);
}

/* Samples of a hop, which lie `step` floats apart, and their channels `apart`. */
struct samples {
    ptrdiff_t apart, step;
};

/* Shift a hop in. Resets the state once samples that are too large have left the window. */
static void shift_in(struct alphamf *e, const float *in, struct samples at) {
    float largest = 0.0f;
    for (ptrdiff_t c = 0; c < e->channels; c++) {
        float *past = e->past + c * e->length, *newest = past + e->length - e->hop;
        memmove(past, past + e->hop, sizeof(float) * (size_t)(e->length - e->hop));
        for (ptrdiff_t i = 0; i < e->hop; i++) {
            float x = in[c * at.apart + i * at.step];
            x = x == x ? within(x, -HIGHEST_SAMPLE, HIGHEST_SAMPLE) : 0.0f;
            newest[i] = x;
            largest = fabsf(x) > largest ? fabsf(x) : largest;
        }
    }
    struct counts *counts = e->counts;
    counts->hops++, counts->heard++;
    if (largest >= HIGHEST_SAMPLE) counts->unfit = FRAME_HOPS;
    else if (counts->unfit && --counts->unfit == 0) {
        memset(e->sum, 0, sizeof(float) * (size_t)(e->channels * e->length)); /* rounding errors */
        reset_for(e, TOO_LARGE);
    }
}

LOOP(void, square, (const float *restrict real, const float *restrict imaginary, float unit,
      float *restrict power, ptrdiff_t count), (real, imaginary, unit, power, count)) {
    for (ptrdiff_t i = 0; i < count; i++)
        power[i] = (real[i] * real[i] + imaginary[i] * imaginary[i]) / unit;
}

static void analyse_hop(struct alphamf *e) {
    int64_t hops = e->counts->heard;
    float filled = e->filled[(hops < FRAME_HOPS ? hops : FRAME_HOPS) - 1];
    for (ptrdiff_t c = 0; c < e->channels; c++)
        analyse(&e->fft, e->past + c * e->length, e->analysis, e->real + c * e->bins,
                e->imaginary + c * e->bins);
    square(e->real, e->imaginary, filled, e->power, e->channels * e->bins);
}

/* The channels that are not silent, and their mean power for those that are; returns how many. */
static int fill_silent(struct alphamf *e) {
    ptrdiff_t bins = e->bins;
    int count = 0;
    for (ptrdiff_t c = 0; c < e->channels; c++) {
        double sum = 0.0;
        for (ptrdiff_t k = 0; k < bins; k++) sum += e->power[c * bins + k];
        e->loud[c] = sum / (double)bins > SILENT_SAMPLE * (double)e->length;
        count += e->loud[c];
    }
    memcpy(e->filled_power, e->power, sizeof(float) * (size_t)(e->channels * bins));
    if (count == 0 || count == e->channels) return count;
    for (ptrdiff_t k = 0; k < bins; k++) {
        float sum = 0.0f;
        for (ptrdiff_t c = 0; c < e->channels; c++)
            if (e->loud[c]) sum += e->power[c * bins + k];
        for (ptrdiff_t c = 0; c < e->channels; c++)
            if (!e->loud[c]) e->filled_power[c * bins + k] = sum / (float)count;
    }
    return count;
}

static void find_on_model(struct alphamf *e) {
    size_t size = sizeof(float) * (size_t)(e->channels * e->model_bins);
    struct estimate *found = &e->read[0];
    step_chain(e->chain, e->model_power, found);
    e->counts->acceptance = found->acceptance;
    if (e->network) {
        refine(e->network, found, e->model_gain, e->model_std);
    } else {
        memcpy(e->model_gain, found->gain, size);
        memcpy(e->model_std, found->gain_std, size);
    }
}

static int is_finite(const float *x, const float *y, ptrdiff_t count) {
    int finite = 1;
    for (ptrdiff_t i = 0; i < count; i++) finite &= fabsf(x[i] + y[i]) <= FLT_MAX;
    return finite;
}

/* The sums of a channel for its coherence with the first. */
LOOP(void, correlate_with, (float share, const float *restrict weight, const float *restrict real,
      const float *restrict imaginary, const float *restrict first_real,
      const float *restrict first_imaginary, float *restrict cross_real,
      float *restrict cross_imaginary, float *restrict power, ptrdiff_t bins),
     (share, weight, real, imaginary, first_real, first_imaginary, cross_real, cross_imaginary, power,
      bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) {
        float x = real[k], y = imaginary[k], u = first_real[k], v = first_imaginary[k];
        cross_real[k] += share * (weight[k] * (x * u + y * v) - cross_real[k]);
        cross_imaginary[k] += share * (weight[k] * (y * u - x * v) - cross_imaginary[k]);
        power[k] += share * (weight[k] * (x * x + y * y) - power[k]);
    }
}

static int is_coherent(const struct alphamf *e, ptrdiff_t at) {
    double cross = 0.0, most = 0.0;
    for (ptrdiff_t k = 0; k < e->bins; k++) {
        float x = e->cross_real[at + k], y = e->cross_imaginary[at + k];
        cross += sqrtf(x * x + y * y);
        most += sqrtf(e->cross_power[at + k]) * sqrtf(e->cross_power[k]);
    }
    return (float)cross >= SHARED * (float)most;
}

static void share_gains(struct alphamf *e) {
    ptrdiff_t bins = e->bins;
    memcpy(e->common, e->gain, sizeof(float) * (size_t)bins);
    for (ptrdiff_t c = 1; c < e->channels; c++)
        for (ptrdiff_t k = 0; k < bins; k++) e->common[k] = smaller(e->gain[c * bins + k], e->common[k]);
    for (ptrdiff_t at = 0; at < e->channels * bins; at += bins)
        correlate_with(e->coherence_share, e->common, e->real + at, e->imaginary + at, e->real,
                       e->imaginary, e->cross_real + at, e->cross_imaginary + at,
                       e->cross_power + at, bins);
    for (ptrdiff_t k = 0; k < bins; k++) e->total[k] = FLT_MIN, e->common[k] = 0.0f;
    for (ptrdiff_t c = 0; c < e->channels; c++) {
        ptrdiff_t at = c * bins;
        e->together[c] = c == 0 || is_coherent(e, at);
        for (ptrdiff_t k = 0; e->together[c] && k < bins; k++) {
            float x = e->real[at + k], y = e->imaginary[at + k], power = x * x + y * y;
            e->total[k] += power;
            e->common[k] += power * e->gain[at + k];
        }
    }
    for (ptrdiff_t c = 0; c < e->channels; c++)
        for (ptrdiff_t k = 0; e->together[c] && k < bins; k++)
            e->gain[c * bins + k] = e->common[k] / e->total[k];
}

static void find_gains(struct alphamf *e) {
    ptrdiff_t cells = e->channels * e->bins, model = e->channels * e->model_bins;
    if (!fill_silent(e)) {
        for (ptrdiff_t i = 0; i < cells; i++) e->gain[i] = 1.0f, e->gain_std[i] = 0.0f;
        return;
    }
    move_bins(&e->inwards, e->filled_power, e->model_power, e->channels);
    find_on_model(e);
    if (!is_finite(e->model_gain, e->model_std, model)) {
        reset_for(e, NOT_FINITE);
        find_on_model(e);
    }
    move_bins(&e->outwards, e->model_gain, e->gain, e->channels);
    move_bins(&e->outwards, e->model_std, e->gain_std, e->channels);
    if (e->bands)
        e->read[1] = extend_gains(e->bands, e->filled_power, chain_levels(e->chain), e->gain);
    if (e->linked) share_gains(e);
}

static double log_of_ratio(double x, double y, double least, double most) {
    double found = log_((float)(x / y));
    return found < least ? least : found > most ? most : found;
}

/* The probability of speech, as denoising/uncertainty.py, with averages over the past. */
static double presence(struct alphamf *e) {
    struct counts *counts = e->counts;
    double speech = -1.0, noise = 0.0;
    for (ptrdiff_t c = 0; c < e->channels; c++) {
        double own = 0.0, rest = 0.0;
        for (ptrdiff_t k = c * e->bins + e->band_first; k < c * e->bins + e->band_end; k++) {
            own += e->gain[k] * e->power[k];
            rest += (1.0f - e->gain[k]) * e->power[k];
        }
        if (own > speech) speech = own, noise = rest;
    }
    speech = speech > 0.0 ? speech : 0.0, noise = noise > 0.0 ? noise : 0.0;
    if (speech + noise == 0.0) return 0.0;
    double tiny = 1e-9 * (speech + noise);
    counts->loud *= e->loud_decay;
    if (speech > counts->loud) counts->loud = speech;
    double ratio = log_of_ratio(speech + tiny, noise + tiny, -RATIO_MOST, RATIO_MOST);
    double level = log_of_ratio(speech + tiny, counts->loud + tiny, LEVEL_LEAST, 0.0);
    counts->ratio += e->span_share * (ratio - counts->ratio);
    counts->level += e->span_share * (level - counts->level);
    double logit = ACTIVITY[0] * counts->ratio + ACTIVITY[1] * counts->level + ACTIVITY[2];
    return 1.0 / (1.0 + exp_((float)-logit));
}

/* Add the frame, and take the oldest hop that was not written yet. */
static void synthesise_hop(struct alphamf *e) {
    ptrdiff_t hop = e->hop, rest = e->length - hop, oldest = e->length - SYNTHESIS_HOPS * hop;
    for (ptrdiff_t c = 0; c < e->channels; c++) {
        float *sum = e->sum + c * e->length, *pair = e->pair + 2 * c * hop;
        ptrdiff_t first = c * e->bins;
        for (ptrdiff_t k = first; k < first + e->bins; k++)
            e->real[k] *= e->gain[k], e->imaginary[k] *= e->gain[k];
        synthesise(&e->fft, e->real + first, e->imaginary + first, e->synthesis, sum);
        memcpy(e->made + c * hop, sum + oldest, sizeof(float) * (size_t)hop);
        memcpy(pair, sum + oldest, sizeof(float) * (size_t)hop);
        for (ptrdiff_t i = 0; e->second && i < hop; i++)
            pair[hop + i] = sum[oldest + hop + i] * e->whole[i];
        memmove(sum, sum + hop, sizeof(float) * (size_t)rest);
        memset(sum + rest, 0, sizeof(float) * (size_t)hop);
    }
    if (!e->second || e->counts->heard < SYNTHESIS_HOPS - 1) return;
    struct due due = {e->past + oldest, e->pair, chain_levels(e->chain), e->length,
                      e->linked ? e->together : NULL, e->least};
    correct_hop(e->second, &due, e->made);
}

/* Write the hop, and mix the input in. */
static void write_hop(struct alphamf *e, float *out, struct samples at) {
    ptrdiff_t oldest = e->length - SYNTHESIS_HOPS * e->hop;
    int due = e->counts->heard >= SYNTHESIS_HOPS; /* else what frames spread before the sound begins */
    float before = e->counts->strength, change = (e->strength - before) / (float)e->hop;
    for (ptrdiff_t c = 0; out && c < e->channels; c++) {
        const float *past = e->past + c * e->length + oldest, *made = e->made + c * e->hop;
        for (ptrdiff_t i = 0; i < e->hop; i++) {
            float strength = before + change * (float)(i + 1), speech = due ? made[i] : 0.0f;
            if (before != 1.0f || change != 0.0f)
                speech = strength * speech + (1.0f - strength) * past[i];
            out[c * at.apart + i * at.step] = speech;
        }
    }
    e->counts->strength = e->strength;
}

/* Numbers below the least normal ones become zero, as they would take a hundred times as long;
 * returns what was set before. */
static unsigned long flush_denormals(void) {
    unsigned long before = 0;
#if defined(__SSE2__)
    before = _mm_getcsr();
    _mm_setcsr((unsigned)before | 0x8040u);
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | 1ul << 24));
#endif
    return before;
}

static void restore_denormals(unsigned long before) {
#if defined(__SSE2__)
    _mm_setcsr((unsigned)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
    (void)before;
#endif
}

/* Process a hop; returns whether it wrote the sound of one, and in any case its gains are there. */
static int process_hop(struct alphamf *e, const float *in, struct samples in_at, float *out,
                       struct samples out_at, float *activity) {
    check_part(e);
    shift_in(e, in, in_at);
    analyse_hop(e);
    find_gains(e);
    if (activity) *activity = (float)presence(e);
    for (ptrdiff_t i = 0; i < e->channels * e->bins; i++)
        e->gain[i] = e->gain[i] < e->least ? e->least : e->gain[i];
    int whole = e->counts->hops >= SYNTHESIS_HOPS;
    synthesise_hop(e);
    write_hop(e, whole ? out : NULL, out_at);
    return whole;
}

PUBLIC int alphamf_hops(alphamf *e, const float *in, float *out, int hops, float *gain,
                        float *gain_std, float *activity) {
    unsigned long before = flush_denormals();
    struct samples at = {1, e->channels};
    ptrdiff_t cells = e->channels * e->bins, samples = e->hop * e->channels;
    int written = 0;
    for (ptrdiff_t k = 0; k < hops; k++) {
        written += process_hop(e, in + k * samples, at, out + written * samples, at,
                               activity ? activity + k : NULL);
        if (gain) memcpy(gain + k * cells, e->gain, sizeof(float) * (size_t)cells);
        if (gain_std) memcpy(gain_std + k * cells, e->gain_std, sizeof(float) * (size_t)cells);
    }
    restore_denormals(before);
    return written;
}

PUBLIC void alphamf_process(alphamf *e, const float *const *in, float *const *out, int count) {
    unsigned long before = flush_denormals();
    struct samples at = {e->hop, 1};
    int32_t *place = &e->counts->place;
    for (ptrdiff_t done = 0; done < count;) {
        ptrdiff_t left = count - done, room = e->hop - *place, some = left < room ? left : room;
        for (ptrdiff_t c = 0; c < e->channels; c++) {
            float *waiting = e->inputs + c * e->hop + *place;
            memcpy(waiting, in[c] + done, sizeof(float) * (size_t)some);
        }
        for (ptrdiff_t c = 0; c < e->channels; c++)
            memcpy(out[c] + done, e->outputs + c * e->hop + *place, sizeof(float) * (size_t)some);
        done += some, *place += (int32_t)some;
        if (*place < e->hop) continue;
        process_hop(e, e->inputs, at, e->outputs, at, NULL);
        *place = 0;
    }
    restore_denormals(before);
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

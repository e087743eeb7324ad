/* The gains above the dictionary's band: wide bands, as denoising/high_bands.py. In place of the posterior,
 * the network reads the power of each band above 7.5 kHz and an online estimate of its noise; below,
 * what the gains leave and what they remove. */
#include "_noise.h"

static const float NOTHING = 1e-20f;

struct bands {
    ptrdiff_t channels, bins, count, first_crossed;
    ptrdiff_t starts[BANDS + 1]; /* bins where the bands start */
    struct noise noise;
    struct network *network;
    /* For the bins that get these gains: the bands on both sides, and the weights. */
    int32_t *lower, *upper;
    float *between, *crossing;
    /* Room for a hop. */
    float *above, *power, *gain, *gain_std, *speech, *noise_out, *found, *found_std;
};

/* ERB rate, but for a factor. Without pow, whose newest version old C libraries lack. */
static double number(double hertz) { return log1p(0.00437 * hertz); }

/* As alphamf.learnt.bands.edges. */
static double edge(int k) {
    double low = k < BELOW ? 0.0 : number(FIRST_HZ), high = number(k < BELOW ? FIRST_HZ : LAST_HZ);
    double part = k < BELOW ? k / (double)BELOW : (k - BELOW) / (double)(BANDS - BELOW);
    return expm1(low + part * (high - low)) / 0.00437;
}

/* How many bands above FIRST_HZ lie wholly below the highest bin. */
static ptrdiff_t count_bands(ptrdiff_t bins, double spacing) {
    ptrdiff_t count = 0;
    for (int k = BELOW; k < BANDS; k++) count += rint(edge(k + 1) / spacing) < (double)bins;
    return count;
}

/* Where a frequency lies between the centres of the bands, in units of these. */
static double place_of(const struct bands *b, double hertz) {
    double before = 0.0;
    for (ptrdiff_t k = 0; k < b->count; k++) {
        int at = BELOW + (int)k;
        double centre = (edge(at) + edge(at + 1)) / 2.0;
        if (hertz < centre) return k ? (double)(k - 1) + (hertz - before) / (centre - before) : 0.0;
        before = centre;
    }
    return (double)(b->count - 1);
}

static void fill_constants(struct bands *b, double spacing) {
    for (int k = 0; k <= BANDS; k++) b->starts[k] = (ptrdiff_t)rint(edge(k) / spacing);
    for (ptrdiff_t i = b->first_crossed; i < b->bins; i++) {
        double hertz = (double)i * spacing, at = place_of(b, hertz);
        double share = (hertz - CROSSED_FROM) / (CROSSED_TO - CROSSED_FROM);
        b->lower[i] = (int32_t)at;
        b->upper[i] = b->lower[i] + (b->lower[i] + 1 < b->count);
        b->between[i] = (float)(at - (double)b->lower[i]);
        b->crossing[i] = share < 1.0 ? (float)share : 1.0f;
    }
}

struct bands *place_bands(struct memory *memory, const struct weights *weights, int channels,
                          ptrdiff_t bins, double spacing, double hop) {
    struct arena *constants = &memory->constants;
    ptrdiff_t count = count_bands(bins, spacing);
    if (!weights->header.bands.blocks || !count) return NULL;
    struct bands none, *placed = take(constants, 1, sizeof none);
    struct bands *b = placed ? placed : &none; /* which is only counted */
    b->channels = channels, b->bins = bins, b->count = count;
    b->first_crossed = (ptrdiff_t)ceil(CROSSED_FROM / spacing);
    place_noise(memory, &b->noise, channels, count, hop);
    b->network = place_network(memory, &weights->header.bands, &weights->band_layers, BANDS, 0.0, channels);
    b->lower = take(constants, (size_t)bins, sizeof *b->lower);
    b->upper = take(constants, (size_t)bins, sizeof *b->upper);
    b->between = take_floats(constants, (size_t)bins);
    b->crossing = take_floats(constants, (size_t)bins);
    b->above = take_floats(constants, (size_t)(channels * count));
    float **of_bands[] = {&b->power,  &b->gain,      &b->gain_std, &b->speech,
                          &b->noise_out, &b->found, &b->found_std};
    for (size_t k = 0; k < sizeof of_bands / sizeof *of_bands; k++)
        *of_bands[k] = take_floats(constants, (size_t)(channels * BANDS));
    if (!placed) return NULL;
    fill_constants(b, spacing);
    return placed;
}

void start_bands(struct bands *b) {
    start_noise(&b->noise);
    start_network(b->network);
}

/* What the gains leave and remove of a channel's bands below. */
static void read_below(struct bands *b, const float *power, const float *gain, float level,
                       ptrdiff_t at) {
    for (int k = 0; k < BELOW; k++) {
        float all = 0.0f, left = 0.0f, removed = 0.0f, count = (float)(b->starts[k + 1] - b->starts[k]);
        for (ptrdiff_t i = b->starts[k]; i < b->starts[k + 1]; i++) {
            float rest = 1.0f - gain[i];
            all += power[i];
            left += gain[i] * gain[i] * power[i];
            removed += rest * rest * power[i];
        }
        all /= count, left /= count, removed /= count;
        b->power[at + k] = all;
        b->gain[at + k] = smaller(sqrtf(left / (all + NOTHING)), 1.0f);
        b->speech[at + k] = left / level;
        b->noise_out[at + k] = removed / level;
    }
}

/* The power of a channel's bands above. */
static void pool_above(struct bands *b, const float *power, float *out) {
    for (ptrdiff_t k = 0; k < b->count; k++) {
        ptrdiff_t first = b->starts[BELOW + k], end = b->starts[BELOW + k + 1];
        float sum = 0.0f;
        for (ptrdiff_t i = first; i < end; i++) sum += power[i];
        out[k] = sum / (float)(end - first);
    }
}

static void read_above(struct bands *b, float level, ptrdiff_t from, ptrdiff_t at) {
    for (ptrdiff_t k = 0; k < b->count; k++) {
        float power = b->above[from + k], noise = b->noise.power[from + k];
        float speech = power > noise ? power - noise : 0.0f;
        b->power[at + k] = power;
        b->gain[at + k] = speech / (power + NOTHING);
        b->speech[at + k] = speech / level;
        b->noise_out[at + k] = noise / level;
    }
}

struct estimate extend_gains(struct bands *b, const float *power, const float *level, float *gain) {
    for (ptrdiff_t k = 0; k < b->channels; k++)
        pool_above(b, power + k * b->bins, b->above + k * b->count);
    learn_noise(&b->noise, b->above);
    for (ptrdiff_t k = 0; k < b->channels; k++) {
        read_below(b, power + k * b->bins, gain + k * b->bins, level[k], k * BANDS);
        read_above(b, level[k], k * b->count, k * BANDS + BELOW);
    }
    struct estimate read = {b->power, b->gain, b->gain_std, b->speech, b->noise_out, level, 0.0f};
    refine(b->network, &read, b->found, b->found_std);
    for (ptrdiff_t k = 0; k < b->channels; k++) {
        const float *found = b->found + k * BANDS + BELOW;
        float *own = gain + k * b->bins;
        for (ptrdiff_t i = b->first_crossed; i < b->bins; i++) {
            float low = found[b->lower[i]], high = found[b->upper[i]];
            own[i] += b->crossing[i] * (low + b->between[i] * (high - low) - own[i]);
        }
    }
    return read;
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

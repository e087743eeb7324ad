/* The second stage at low latency: a causal network corrects the speech in windows of 16 ms.
 *
 * The windows are as long as two hops, and end where the sound of one more frame of the first stage is
 * missing: some 5 % of the second hop, which is made up for, so that nothing is held back for longer. */
#include "_float32.h"
#include "_fft.h"

struct second {
    ptrdiff_t channels, hop, count, bins; /* `count` bins of a frame are the network's */
    float power_share, most; /* mean power of a cell over that in the first stage; of MOST_RISE */
    struct fft fft;
    struct network *network;
    struct faint *faint;
    /* State: the second hop of the last frame, shape (channels, hop). */
    float *rest;
    /* Constants, and room for a hop. */
    float *window, *share, *in_sibilants, *sound[2], *speech[2], *inputs[4];
    float *of_sound, *of_speech, *frame;
    struct pair *pairs;
};

static void fill_constants(struct second *s, const struct header *header, int rate) {
    ptrdiff_t length = 2 * s->hop;
    for (ptrdiff_t i = 0; i < length; i++)
        s->window[i] = (float)sin(TURN / 2.0 * (double)i / (double)length);
    double top = header->rate / 2.0, low = top * CORRECTION_EDGE;
    s->most = top > SIBILANTS ? MOST_RISE * MOST_RISE : INFINITY;
    for (ptrdiff_t k = 0; k < s->count; k++) {
        double hertz = (double)k * rate / (double)length, share = (top - hertz) / (top - low);
        s->in_sibilants[k] = hertz > SIBILANTS ? 1.0f : 0.0f;
        share = rate > header->rate ? share : 1.0;
        s->share[k] = (float)(share < 0.0 ? 0.0 : share > 1.0 ? 1.0 : share);
    }
}

struct second *place_second(struct memory *memory, const struct weights *weights, int channels,
                            ptrdiff_t hop, int rate) {
    const struct header *header = &weights->header;
    if (!header->second.blocks) return NULL;
    struct arena *constants = &memory->constants;
    struct second none, *placed = take(constants, 1, sizeof none);
    struct second *s = placed ? placed : &none; /* which is only counted */
    ptrdiff_t bins = second_bins(header);
    size_t cells = (size_t)(channels * (hop + 1)), of_network = (size_t)(channels * bins);
    s->channels = channels, s->hop = hop, s->bins = bins;
    s->count = bins < hop + 1 ? bins : hop + 1;
    s->network = place_network(memory, &header->second, &weights->second_layers, bins, 0.0, channels);
    s->faint = place_faint(memory, channels, hop + 1);
    place_fft(constants, &s->fft, 2 * hop);
    s->rest = take_floats(&memory->state, (size_t)(channels * hop));
    s->window = take_floats(constants, (size_t)(2 * hop));
    s->share = take_floats(constants, (size_t)s->count);
    s->in_sibilants = take_floats(constants, (size_t)s->count);
    for (int k = 0; k < 2; k++) {
        s->sound[k] = take_floats(constants, cells);
        s->speech[k] = take_floats(constants, cells);
    }
    for (int k = 0; k < 4; k++) s->inputs[k] = take_floats(constants, of_network);
    s->of_sound = take_floats(constants, of_network);
    s->of_speech = take_floats(constants, of_network);
    s->frame = take_floats(constants, (size_t)(2 * hop));
    s->pairs = take(constants, (size_t)channels, sizeof *s->pairs);
    if (!placed) return NULL;
    fill_constants(s, header, rate);
    return placed;
}

void set_energy(struct second *s, double energy) { s->power_share = (float)((double)s->hop / energy); }

void start_second(struct second *s) {
    memset(s->rest, 0, sizeof(float) * (size_t)(s->channels * s->hop));
    start_network(s->network);
    start_faint(s->faint);
}

/* The spectra of a channel, and what the network reads of them; returns whether it is not silent. */
static int read_channel(struct second *s, const struct due *due, ptrdiff_t channel) {
    ptrdiff_t bins = s->hop + 1, at = channel * bins, first = channel * s->bins;
    float *parts[] = {s->sound[0] + at, s->sound[1] + at, s->speech[0] + at, s->speech[1] + at};
    analyse(&s->fft, due->sound + channel * due->apart, s->window, parts[0], parts[1]);
    analyse(&s->fft, due->speech + channel * 2 * s->hop, s->window, parts[2], parts[3]);
    double sum = 0.0;
    for (int p = 0; p < 4; p++)
        for (ptrdiff_t k = 0; k < bins; k++) sum += parts[p][k] * parts[p][k];
    float unit = due->level[channel] * s->power_share, least = (float)(sum / (double)bins) / LOUDEST_FRAME + TINY_POWER;
    struct pair *pair = &s->pairs[channel];
    for (int k = 0; k < 4; k++)
        memcpy(s->inputs[k] + first, parts[k], sizeof(float) * (size_t)s->count);
    *pair = (struct pair){{s->inputs[0] + first, s->inputs[1] + first},
                          {s->inputs[2] + first, s->inputs[3] + first},
                          sqrtf(unit > least ? unit : least)};
    return sum / (double)bins > SILENT_SAMPLE * 2.0 * (double)s->hop;
}

/* One correction for channels that share a voice: the mean, weighted by the sound's power. */
static void share_correction(struct second *s, const unsigned char *together) {
    for (ptrdiff_t k = 0; k < s->count; k++) {
        float total = 0.0f, of_sound = 0.0f, of_speech = 0.0f;
        for (ptrdiff_t c = 0; c < s->channels; c++) {
            if (!together[c]) continue;
            ptrdiff_t at = c * (s->hop + 1) + k;
            float x = s->sound[0][at], y = s->sound[1][at], weight = x * x + y * y + TINY_POWER;
            total += weight;
            of_sound += weight * s->of_sound[c * s->bins + k];
            of_speech += weight * s->of_speech[c * s->bins + k];
        }
        for (ptrdiff_t c = 0; total > 0.0f && c < s->channels; c++) {
            if (!together[c]) continue;
            s->of_sound[c * s->bins + k] = of_sound / total;
            s->of_speech[c * s->bins + k] = of_speech / total;
        }
    }
}

LOOP(void, combine, (float most, const float *restrict share, const float *restrict in_sibilants,
      const float *restrict of_sound, const float *restrict of_speech, const float *restrict xr,
      const float *restrict xi, float *restrict yr, float *restrict yi, ptrdiff_t count),
     (most, share, in_sibilants, of_sound, of_speech, xr, xi, yr, yi, count)) {
    for (ptrdiff_t k = 0; k < count; k++) {
        float a = share[k] * of_sound[k], b = 1.0f + share[k] * (of_speech[k] - 1.0f);
        float real = a * xr[k] + b * yr[k], imaginary = a * xi[k] + b * yi[k];
        float left = yr[k] * yr[k] + yi[k] * yi[k], made = real * real + imaginary * imaginary;
        float bound = made > most * left ? sqrtf(most * left / made) : 1.0f;
        real *= bound, imaginary *= bound;
        float gain = smaller(sqrtf(left / (xr[k] * xr[k] + xi[k] * xi[k] + TINY_POWER)), 1.0f);
        float kept = made < left ? in_sibilants[k] * gain : 0.0f;
        yr[k] = real + kept * (yr[k] - real);
        yi[k] = imaginary + kept * (yi[k] - imaginary);
    }
}

LOOP(void, scale, (const float *restrict gain, float *restrict yr, float *restrict yi, ptrdiff_t bins),
     (gain, yr, yi, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) yr[k] *= gain[k], yi[k] *= gain[k];
}

LOOP(void, keep_least, (float least, const float *restrict xr, const float *restrict xi,
      float *restrict yr, float *restrict yi, ptrdiff_t bins), (least, xr, xi, yr, yi, bins)) {
    for (ptrdiff_t k = 0; k < bins; k++) {
        float heard = xr[k] * xr[k] + xi[k] * xi[k], made = yr[k] * yr[k] + yi[k] * yi[k];
        int low = made < least * least * heard;
        yr[k] = low ? least * xr[k] : yr[k];
        yi[k] = low ? least * xi[k] : yi[k];
    }
}

void correct_hop(struct second *s, const struct due *due, float *out) {
    ptrdiff_t hop = s->hop;
    int loud = 0;
    for (ptrdiff_t c = 0; c < s->channels; c++) loud |= read_channel(s, due, c);
    if (loud) mix_pairs(s->network, s->pairs, s->of_sound, s->of_speech);
    if (loud && due->together) share_correction(s, due->together);
    const float *faint = faint_gain(s->faint, s->sound[0], s->sound[1], due->together);
    for (ptrdiff_t c = 0; c < s->channels; c++) {
        ptrdiff_t at = c * (hop + 1), first = c * s->bins;
        float *real = s->speech[0] + at, *imaginary = s->speech[1] + at, *rest = s->rest + c * hop;
        if (loud && due->least < 1.0f) /* nothing may be attenuated otherwise */
            combine(s->most, s->share, s->in_sibilants, s->of_sound + first, s->of_speech + first,
                    s->sound[0] + at, s->sound[1] + at, real, imaginary, s->count);
        scale(faint + at, real, imaginary, hop + 1);
        if (due->least > 0.0f)
            keep_least(due->least, s->sound[0] + at, s->sound[1] + at, real, imaginary, hop + 1);
        memcpy(s->frame, rest, sizeof(float) * (size_t)hop);
        memset(s->frame + hop, 0, sizeof(float) * (size_t)hop);
        synthesise(&s->fft, real, imaginary, s->window, s->frame);
        memcpy(out + c * hop, s->frame, sizeof(float) * (size_t)hop);
        memcpy(rest, s->frame + hop, sizeof(float) * (size_t)hop);
    }
}

__attribute__((constructor)) static void choose_copies(void) { choose_level(); }

/* The noise of a recording, with forgetting.
 *
 * A cell either holds noise alone, or speech that is 15 dB louder (xi), with even odds. With N the
 * noise's variance so far, the probability of speech is p = 1 / (1 + (1 + xi) exp(-|x|^2 / N xi / (1 +
 * xi))), and the next estimate N + f (1 - p) (|x|^2 - N): Gerkmann and Hendriks, IEEE TASLP 20 (2012),
 * eqs. 18 and 22 to 24.
 *
 * N is never far below the minimum of the smoothed power in the last 1.5 s: speech pauses or changes
 * within that time, and sound that does not is noise, however suddenly it started. N is never far above
 * the maximum power of the last .2 s either, because noise is always present. After a tone, a mute or
 * much fainter sound, N is far too small in most bins, and the minimum over 1.5 s reacts late. If more
 * than half of the bins rise by 30 dB, after a second in which they did not, the minimum starts again
 * from there. The posterior mean of the noise's power under the chain in place of p is worse: if the
 * noise is underestimated, the chain finds speech everywhere (docs/quality.md). */
#ifndef ALPHAMF_NOISE_H
#define ALPHAMF_NOISE_H

#include <float.h>

#include "_steps.h"
#include "_parts.h"

static int frames_of(double seconds, double hop) {
    int frames = (int)rint(seconds / hop);
    return frames > 1 ? frames : 1;
}

static void set_all(float *x, ptrdiff_t count, float value) {
    for (ptrdiff_t i = 0; i < count; i++) x[i] = value;
}

static float mean_of(const float *x, ptrdiff_t count) {
    double sum = 0.0;
    for (ptrdiff_t i = 0; i < count; i++) sum += x[i];
    return (float)(sum / (double)count);
}

/* The least or largest of the last frames, in parts: `count` whole ones and the one that goes on. */
struct extreme {
    float *parts, none;
    int32_t *clock; /* frames so far, and the part that goes on */
    ptrdiff_t size;
    int count, frames;
};

static void place_extreme(struct memory *memory, struct extreme *e, float none, ptrdiff_t size,
                          int count, int frames) {
    e->none = none, e->size = size, e->count = count, e->frames = frames;
    e->parts = take_floats(&memory->state, (size_t)((count + 1) * size));
    e->clock = take(&memory->words, 2, sizeof *e->clock);
}

static void start_extreme(struct extreme *e) {
    set_all(e->parts, (e->count + 1) * e->size, e->none);
    e->clock[0] = e->clock[1] = 0;
}

static void forget_extreme(struct extreme *e, ptrdiff_t from, ptrdiff_t count) {
    for (int part = 0; part <= e->count; part++) set_all(e->parts + part * e->size + from, count, e->none);
}

static void take_least(float *restrict x, const float *restrict y, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) x[i] = y[i] < x[i] ? y[i] : x[i];
}

static void take_most(float *restrict x, const float *restrict y, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) x[i] = y[i] > x[i] ? y[i] : x[i];
}

/* Take in a frame, and return the extreme in `out`. */
static void add_extreme(struct extreme *e, const float *values, float *out) {
    void (*function)(float *restrict, const float *restrict, ptrdiff_t) =
        e->none > 0 ? take_least : take_most;
    if (++e->clock[0] == e->frames) {
        e->clock[0] = 0;
        e->clock[1] = (e->clock[1] + 1) % (e->count + 1);
        set_all(e->parts + e->clock[1] * e->size, e->size, e->none);
    }
    function(e->parts + e->clock[1] * e->size, values, e->size);
    memcpy(out, e->parts, sizeof(float) * (size_t)e->size);
    for (int part = 1; part <= e->count; part++) function(out, e->parts + part * e->size, e->size);
}

/* The variance of the noise in each bin. */
struct noise {
    ptrdiff_t channels, bins, cells;
    int start, part, calm, soon, settled;
    float share, smooth_share;
    /* State. */
    float *power, *presence, *smooth;
    int64_t *frames, *calm_frames, *since;
    struct extreme least, loudest;
    /* Room for a hop. */
    float *most, *floor;
    unsigned char *risen;
};

static void place_noise(struct memory *memory, struct noise *n, ptrdiff_t channels, ptrdiff_t bins,
                        double hop) {
    struct arena *constants = &memory->constants, *words = &memory->words, *state = &memory->state;
    size_t cells = (size_t)(channels * bins);
    n->channels = channels, n->bins = bins, n->cells = channels * bins;
    n->share = (float)forgetting(hop, NOISE_SECONDS);
    n->smooth_share = (float)forgetting(hop, SMOOTH_SECONDS);
    n->start = frames_of(START_SECONDS, hop), n->part = frames_of(PART_SECONDS, hop);
    n->calm = frames_of(CALM_SECONDS, hop), n->soon = frames_of(SOON_SECONDS, hop);
    n->settled = frames_of(SETTLED_SECONDS, hop);
    n->power = take_floats(state, cells), n->presence = take_floats(state, cells);
    n->smooth = take_floats(state, cells);
    n->frames = take(words, 1, sizeof *n->frames);
    n->calm_frames = take(words, (size_t)channels, sizeof *n->calm_frames);
    n->since = take(words, (size_t)channels, sizeof *n->since);
    place_extreme(memory, &n->least, FLT_MAX, n->cells, PARTS, n->part);
    place_extreme(memory, &n->loudest, -FLT_MAX, n->cells, 1, frames_of(LOUD_PART_SECONDS, hop));
    n->most = take_floats(constants, cells), n->floor = take_floats(constants, cells);
    n->risen = take(constants, (size_t)channels, 1);
}

static void start_noise(struct noise *n) {
    set_all(n->power, n->cells, 0.0f);
    set_all(n->smooth, n->cells, 0.0f);
    set_all(n->presence, n->cells, 0.5f);
    *n->frames = 0;
    for (ptrdiff_t k = 0; k < n->channels; k++) n->calm_frames[k] = 0, n->since[k] = n->settled;
    start_extreme(&n->least);
    start_extreme(&n->loudest);
}

/* Forget the least power of channels most of whose bins rise. */
static void notice_rise(struct noise *n, const float *power) {
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        const float *own = power + k * n->bins, *noise = n->power + k * n->bins;
        ptrdiff_t count = 0;
        for (ptrdiff_t i = 0; i < n->bins; i++) count += own[i] > RISE * noise[i];
        int rise = 2 * count > n->bins;
        n->risen[k] = rise && n->calm_frames[k] >= n->calm;
        n->calm_frames[k] = rise ? 0 : n->calm_frames[k] + 1;
        n->since[k] = n->risen[k] ? 0 : n->since[k] + 1;
        if (!n->risen[k]) continue;
        forget_extreme(&n->least, k * n->bins, n->bins);
        memcpy(n->smooth + k * n->bins, own, sizeof(float) * (size_t)n->bins);
    }
}

/* The noise with a frame, where it is forgotten by the probability of speech. */
LOOP(void, follow, (float share, float *restrict noise, float *restrict presence,
      const float *restrict power, ptrdiff_t count), (share, noise, presence, power, count)) {
    for (ptrdiff_t i = 0; i < count; i++) {
        float ratio = smaller(power[i], 80.0f * noise[i]) / noise[i];
        float down = exp_(-(SPEECH_RATIO / (1.0f + SPEECH_RATIO)) * ratio);
        float p = 1.0f / (1.0f + (1.0f + SPEECH_RATIO) * down);
        presence[i] += share * (p - presence[i]);
        p = presence[i] > MOST_PRESENCE ? smaller(p, MOST_PRESENCE) : p;
        noise[i] += share * (1.0f - p) * (power[i] - noise[i]);
    }
}

static void bound(float *x, const float *most, float least, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        x[i] = x[i] > most[i] ? most[i] : x[i];
        x[i] = x[i] < least ? least : x[i];
    }
}

/* Take in |X|^2 of a frame, shape (channels, bins). */
static void learn_noise(struct noise *n, const float *power) {
    int64_t frames = ++*n->frames;
    add_extreme(&n->loudest, power, n->most);
    for (ptrdiff_t i = 0; i < n->cells; i++) n->most[i] *= MOST_OVER_NOISE;
    notice_rise(n, power);
    float first = 1.0f / (float)frames;
    float share = n->smooth_share > first ? n->smooth_share : first;
    for (ptrdiff_t i = 0; i < n->cells; i++) {
        n->smooth[i] += share * (power[i] - n->smooth[i]);
        n->smooth[i] = smaller(n->smooth[i], n->most[i]);
    }
    add_extreme(&n->least, n->smooth, n->floor);
    if (frames <= n->start)
        for (ptrdiff_t i = 0; i < n->cells; i++)
            n->power[i] += (power[i] - n->power[i]) / (float)frames;
    else
        follow(n->share, n->power, n->presence, power, n->cells);
    for (ptrdiff_t k = 0; k < n->channels; k++) {
        float *noise = n->power + k * n->bins, *least = n->floor + k * n->bins;
        float faint = FAINTEST * mean_of(power + k * n->bins, n->bins) + FLT_MIN;
        bound(noise, n->most + k * n->bins, faint, n->bins);
        if (frames <= PARTS * n->part) continue;
        float part = n->since[k] < n->soon               ? 0.0f
                     : n->since[k] < PARTS * n->part ? 1.0f
                                                         : LEAST_SHARE;
        for (ptrdiff_t i = 0; i < n->bins; i++)
            noise[i] = noise[i] < part * least[i] ? part * least[i] : noise[i];
    }
}

#endif

/* The parts of the engine: memory, weights, the online chain and the causal network. */
#ifndef ALPHAMF_PARTS_H
#define ALPHAMF_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "_constants.h"

/* Memory that is handed out from its start on; without a start, only counted. */
struct arena {
    char *start;
    size_t used;
};

static inline void *take(struct arena *arena, size_t count, size_t size) {
    void *place = arena->start ? arena->start + arena->used : NULL;
    arena->used += (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

static inline float *take_floats(struct arena *arena, size_t count) {
    return take(arena, count, sizeof(float));
}

/* What stays as it is, and room for a hop; and what `alphamf_save` copies: first what is not made of
 * floats, then floats, which are finite at all times. */
struct memory {
    struct arena constants, words, state;
};

/* The sizes of a network, as alphamf.learnt.network.Sizes; without blocks there is none. */
struct sizes {
    int32_t width, hidden, blocks, maps, local, deep;
    float exponent;
};

/* A file of weights begins with these numbers; alphamf/native/engine.py writes it. The arrays
 * follow, each at a multiple of ALIGNMENT: W of shape (context, columns, bins), and those of `struct
 * layers` of each network that there is, of matrices the words and then the units (_panels.h). */
struct header {
    char magic[8];
    int32_t rate, window, bins, context, columns, stride;
    struct sizes refiner, second, bands;
    float alpha;
    uint64_t generator[4];
};

#define MAGIC "alphamf5"
#define MOST_BLOCKS 64

/* The bins of the second stage, whose windows are two hops long. */
static inline ptrdiff_t second_bins(const struct header *header) {
    return header->window / FRAME_HOPS + 1;
}

/* A matrix, in panels, and the unit of each column's numbers. */
struct matrix {
    const uint32_t *words;
    const float *units;
};

struct block {
    const float *scale, *shift, *taps, *up_bias, *down_bias;
    struct matrix up, down;
};

struct layers {
    struct matrix read, write;
    const float *read_bias, *write_bias;
    struct block blocks[MOST_BLOCKS];
    const float *weight[MOST_DEEP + 2], *bias[MOST_DEEP + 2];
};

struct weights {
    struct header header;
    const float *basis;
    struct layers layers, second_layers, band_layers;
};

/* 0 unless these are weights. */
int read_weights(const void *data, size_t size, struct weights *weights);

/* What a network reads of a hop, shape (channels, bins), but `level`, (channels): |X|^2, the gain of the
 * speech and its standard deviation, and the variances of speech and noise in units of the level; and
 * the part of Metropolis proposals that were accepted. */
struct estimate {
    const float *power, *gain, *gain_std, *speech, *noise, *level;
    float acceptance;
};

struct chain;
struct chain *place_chain(struct memory *memory, const struct weights *weights, int channels,
                          double hop);
void start_chain(struct chain *chain);
const float *chain_levels(const struct chain *chain);
void step_chain(struct chain *chain, const float *power, struct estimate *found);

struct network;
/* `spacing` of the bins in Hz; 0 for networks that have no uncertainty and no end to be replaced. */
struct network *place_network(struct memory *memory, const struct sizes *sizes,
                              const struct layers *layers, ptrdiff_t bins, double spacing,
                              int channels);
void start_network(struct network *network);

/* The refined gain, and its standard deviation, shape (channels, bins). */
void refine(struct network *network, const struct estimate *found, float *gain, float *gain_std);

/* Sound and first-stage speech on a network's bins, parts apart, and the unit of their magnitudes. */
struct pair {
    const float *sound[2], *speech[2];
    float unit;
};

/* The coefficients of sound and speech of every channel, shape (channels, bins). */
void mix_pairs(struct network *network, const struct pair *pairs, float *of_sound, float *of_speech);

struct faint;
struct faint *place_faint(struct memory *memory, int channels, ptrdiff_t bins);
void start_faint(struct faint *faint);

/* The gain for faint, steady noise in a frame, shape (channels, bins), as its parts and the result;
 * channels that are together, if any, have one gain. */
const float *faint_gain(struct faint *faint, const float *real, const float *imaginary,
                        const unsigned char *together);

struct second;
/* NULL where there is no second stage. */
struct second *place_second(struct memory *memory, const struct weights *weights, int channels,
                            ptrdiff_t hop, int rate);
void start_second(struct second *second);

/* Say what the sum of squares of the first stage's window is. */
void set_energy(struct second *second, double energy);

/* What is corrected: the sound of two hops, whose channels lie `apart`, and their speech, shape
 * (channels, 2 * hop); the level of each channel; which channels have one correction, or NULL; and the
 * least gain. */
struct due {
    const float *sound, *speech, *level;
    ptrdiff_t apart;
    const unsigned char *together;
    float least;
};

/* Write the first of both hops, shape (channels, hop). */
void correct_hop(struct second *second, const struct due *due, float *out);

struct bands;
/* NULL where there is no network of the bands, or no band above the dictionary's. */
struct bands *place_bands(struct memory *memory, const struct weights *weights, int channels,
                          ptrdiff_t bins, double spacing, double hop);
void start_bands(struct bands *bands);

/* Replace the gains above the dictionary's band, shape (channels, bins), given |X|^2 and the level of
 * the channels; returns what the network read. */
struct estimate extend_gains(struct bands *bands, const float *power, const float *level, float *gain);

/* The weight of the newest frame in a running mean over `seconds`. */
double forgetting(double hop, double seconds);

#endif

/* alphamf at low latency: removes noise from speech while it is spoken, 40 ms late.
 *
 * An engine has a state of its own. `alphamf_create` and `alphamf_destroy` allocate and free memory;
 * nothing else does, nor does it lock, open a file, or wait, so all else may run in a thread of
 * real time. One engine is for one thread at a time; several engines are independent of each other,
 * and may share their weights.
 *
 * Samples are float, 1 is full scale. NaN counts as 0. Rates are in Hz, times in samples per channel.
 */
#ifndef ALPHAMF_H
#define ALPHAMF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct alphamf alphamf;

/* Create an engine, or return NULL if an argument is out of range or there is no memory.
 * `weights`: the content of a file of weights, which `alphamf plugin path` finds; they must stay
 * where they are, aligned to 4 bytes, until the engine is destroyed. `rate`: 1000 to 768000.
 * `channels`: 1 to 65536. `linked`: whether channels that share a voice get one gain. */
alphamf *alphamf_create(const void *weights, size_t size, int rate, int channels, int linked);
void alphamf_destroy(alphamf *engine);

/* Forget all sound, as if the engine had just been created. Controls stay. */
void alphamf_reset(alphamf *engine);

/* `strength`: 0 leaves the sound as it is, 1 (at first) is all that the engine does.
 * `least_gain`: no frequency is attenuated more than to this, 0 (at first) to 1. */
void alphamf_control(alphamf *engine, float strength, float least_gain);

/* By how much the output of `alphamf_process` is late. */
int alphamf_latency(const alphamf *engine);

/* Denoise `count` samples of each channel, any number; the output may be the input. */
void alphamf_process(alphamf *engine, const float *const *input, float *const *output, int count);

/* The same in frames, for those who want to know what was done: `hops` times `alphamf_hop` samples
 * with the channels interleaved. Each hop appends its gain and the gain's standard deviation, shape
 * (channels, bins), and its probability of speech, each unless the pointer is NULL. Returns how many
 * hops of sound were written: the first four write none, so that the sound lines up with the input.
 * An engine is used by this function or by `alphamf_process`, not by both. */
int alphamf_hops(alphamf *engine, const float *input, float *output, int hops, float *gain,
                 float *gain_std, float *activity);
int alphamf_hop(const alphamf *engine);
int alphamf_bins(const alphamf *engine);

/* Of the last hop: the part of Metropolis proposals that were accepted. */
float alphamf_acceptance(const alphamf *engine);

/* Of the last hop that was not silent: the mean power of a channel's bins, which the networks have
 * as unit. */
float alphamf_level(const alphamf *engine, int channel);

/* Why the engine last reset itself: 0: it did not; 1: samples were above 1e12; 2: a number was no
 * longer finite, which is found within 32 hops: all sound was forgotten, and the output is silent for a
 * latency. */
int alphamf_reset_reason(const alphamf *engine);

/* Copy the state of an engine out of it, or into one with the same arguments of `alphamf_create`. */
size_t alphamf_state_size(const alphamf *engine);
void alphamf_save(const alphamf *engine, void *state);
void alphamf_load(alphamf *engine, const void *state);

#ifdef __cplusplus
}
#endif
#endif

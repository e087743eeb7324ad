/* The constants of low latency alone; tests read them from here, too. What the engine shares with the
 * denoising of whole recordings is in _shared.h. */
#ifndef ALPHAMF_CONSTANTS_H
#define ALPHAMF_CONSTANTS_H

#include "_shared.h"

/* Full scales that larger samples are read as, so that squares of their sums do not overflow. */
#define HIGHEST_SAMPLE 1e12f
/* Mean power of a sample, 140 dB below full scale, below which a hop is digital silence: it is passed
 * through, and nothing is learned from it. */
#define SILENT_SAMPLE 1e-14

/* The noise (_noise.h). Time at the start that counts as noise; time constant of forgetting. */
#define START_SECONDS 0.1
#define NOISE_SECONDS 0.16
/* Power of speech over the noise, 15 dB; most long-term average of its probability: if it is higher,
 * the noise has risen. */
#define SPEECH_RATIO 31.6227766f
#define MOST_PRESENCE 0.99f
/* Number and length of the parts over which the minimum of the power is taken, smoothed over 80 ms. */
#define SMOOTH_SECONDS 0.08
#define PART_SECONDS 0.25
#define PARTS 5
/* Part of the minimum power that limits the noise from below; from there the probability raises it. */
#define LEAST_SHARE 0.5f
/* Least noise of a bin, as a part of the mean. */
#define FAINTEST 1e-8f
/* Length of the parts over which the maximum power is taken, and the most noise in units of it. */
#define LOUD_PART_SECONDS 0.1
#define MOST_OVER_NOISE 100.0f
/* Power over the noise of a bin that rises; time without a rise before one counts; times after one
 * from which on the minimum is used, and for which the noise is not known well. */
#define RISE 1e3f
#define CALM_SECONDS 1.0
#define SOON_SECONDS 0.2
#define SETTLED_SECONDS 0.5

/* The chain (_chain.c). Steps for a frame, and how many of the last ones are averaged. */
#define STEPS_OF_FRAME 12
#define KEEP 8
/* Time constant of the level that defines the model's units; its most, as a multiple of the loudest
 * frame of one or two parts of so long. */
#define LEVEL_SECONDS 3.0
#define LEVEL_PART_SECONDS 0.25
#define MOST_OVER_LEVEL 10.0f
/* Gamma prior of h, in units in which speech with h = 1 is as loud as the noise. */
#define PRIOR_RATE 100.0f
#define PRIOR_SHAPE 0.1f
/* First h, as a part of the last frame's, and its least. It must be below the noise, or EM would find
 * a mode in which speech explains everything. */
#define H_DECAY 0.5f
#define LEAST_H 2e-3f
#define RELAXATION 1.5f
/* The response: the least part of speech in a frame to learn from; the part of the distance that it
 * moves in a frame; frames before it first moves and between its moves; its range, 40 dB below to 15
 * above its mean (the stop band of a telephone lies 35 dB below); deviation of its smoothing. */
#define SPEECH_SHARE 0.01f
#define RESPONSE_SECONDS 3.0
#define RESPONSE_RATE 0.005f
#define RESPONSE_START 10
#define RESPONSE_EVERY 8
#define RESPONSE_LEAST 1e-4f
#define RESPONSE_MOST 31.6227766f
#define SMOOTH_HZ 60.0

/* The probability of speech: time constant of forgetting the loudest speech. Linked channels: time
 * over which their coherence is measured. */
#define LOUD_SPEECH_SECONDS 10.0
#define COHERENCE_SECONDS 0.5

/* The second stage (_second.c). Part of the dictionary's band from which on the correction is faded
 * out, if there is sound above. */
#define CORRECTION_EDGE 0.95
/* Frequency in Hz above which the correction takes less, the more the first stage passes: in 16 ms,
 * without later frames, a loud sibilant looks like noise. If the band goes beyond, how many times as
 * loud a cell may become: a knock between two sentences would be twice as loud (docs/quality.md). */
#define SIBILANTS 4000.0
#define MOST_RISE 1.4f
/* Most mean power of a frame in units of the level: what is louder is its own unit. */
#define LOUDEST_FRAME 1e6f

/* Faint noise (_faint.c): as ABOVE and DEPTH_DB of denoising/gain.py. Bins on either side whose mean power is
 * that of a cell; part of a running mean
 * that a new frame leaves; frames of 8 ms in which the least power is looked for, and as many before;
 * what becomes of the loudest frame, frame by frame: it falls by 1 dB a second. */
#define FAINT_ABOVE 2.5f
#define FAINT_DEPTH_DB {25.0f, 35.0f, 38.0f, 48.0f}
#define FAINT_AROUND 3
#define FAINT_KEPT 0.7f
#define FAINT_SPAN 250
#define FAINT_DECAY 0.99815963f

#endif

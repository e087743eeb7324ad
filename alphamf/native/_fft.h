/* The discrete Fourier transform of real frames. Lengths are even products of 2, 3, 5, 7 and 11, as
 * alphamf.denoising.grids.nearest_hop chooses them. */
#ifndef ALPHAMF_FFT_H
#define ALPHAMF_FFT_H

#include "_parts.h"

#define MOST_STAGES 32
static const double TURN = 6.283185307179586476925;

/* A stage of radix `radix`: `groups` butterflies of `apart` neighbours. */
struct stage {
    int radix;
    ptrdiff_t groups, apart;
    float *turns, *roots; /* of the groups, (groups, radix, 2); of one, (radix, 2) */
};

struct fft {
    ptrdiff_t half; /* of the frame's length */
    int count;
    struct stage stages[MOST_STAGES];
    float *turns, *work[2][2]; /* (half + 1, 2); two complex frames, parts apart */
};

void place_fft(struct arena *arena, struct fft *fft, ptrdiff_t length);

/* The spectrum of a frame times a window: half + 1 bins. */
void analyse(struct fft *fft, const float *frame, const float *window, float *real, float *imaginary);

/* Add the frame of a spectrum, times a window, to `sum`. */
void synthesise(struct fft *fft, const float *real, const float *imaginary, const float *window,
                float *sum);

#endif

/* A correlation with a 3 x 3 kernel over cells, and one frame of it. */
#ifndef ALPHAMF_ROW_H
#define ALPHAMF_ROW_H

#include "_float32.h"
#include "_shared.h"

#if !defined(__GNUC__)
#error "needs vectors as GCC and Clang have them; NumPy does the work without"
#endif

/* Zeros before the bins of every channel, and before the end of a frame: the farthest that a kernel
 * reaches; floats that the end of a channel is a multiple of; the most frames between taps. As
 * alphamf.learnt.layers has them. */
#define PAD 16
#define TILE 48
#define LATEST 1024
/* Channels of a cell in bfloat16, rows of a tile, and columns of a tile of sums. */
#define SIDE 16

/* weight[3][3][channels][outputs]; the taps are `late` frames and `high` bins apart. */
typedef struct {
    const float *weight, *bias;
    ptrdiff_t channels, outputs, late, high;
} Step;

/* A frame of a correlation. Pointers are to the first bin of the first channel; `near` are the
 * three frames that the kernel reads, null beyond the ends, and `added` is null or a frame whose
 * first `sums` channels are added to the result's. */
typedef struct {
    const Step *step;
    const float *near[3], *added;
    float *out;
    ptrdiff_t stride, sums;
    int rectified;
} Row;

#endif

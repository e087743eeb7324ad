/* One row of a correlation, for the processors of one copy; included once for each by _correlations.h.
 *
 * COPY(name) gives a name its copy's ending; WIDTH is the floats of a vector, and OUTPUTS the
 * channels of a tile, whose OUTPUTS x VECTORS sums fill the processor's registers.
 */
#include "_row.h"

#define VECTORS 3
typedef float COPY(vector) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t COPY(mask) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
#define VECTOR COPY(vector)
#define MASK COPY(mask)

/* Sums of VECTORS vectors of `outputs` channels, which is a constant where this is inlined. */
INLINE void COPY(tile)(const int outputs, const Row *row, ptrdiff_t at, ptrdiff_t first) {
    const Step *step = row->step;
    VECTOR sums[OUTPUTS][VECTORS];
    for (int o = 0; o < outputs; o++)
        for (int v = 0; v < VECTORS; v++) sums[o][v] = (VECTOR){0} + step->bias[first + o];
    for (int tap = 0; tap < 9; tap++) {
        if (!row->near[tap / 3]) continue;
        const float *x = row->near[tap / 3] + at + (tap % 3 - 1) * step->high;
        const float *weight = step->weight + tap * step->channels * step->outputs + first;
        for (ptrdiff_t c = 0; c < step->channels; c++) {
            VECTOR cells[VECTORS];
            for (int v = 0; v < VECTORS; v++) cells[v] = *(const VECTOR *)(x + v * WIDTH);
            for (int o = 0; o < outputs; o++)
                for (int v = 0; v < VECTORS; v++) sums[o][v] += cells[v] * weight[o];
            x += row->stride;
            weight += step->outputs;
        }
    }
    for (int o = 0; o < outputs; o++) {
        ptrdiff_t place = (first + o) * row->stride + at;
        for (int v = 0; v < VECTORS; v++, place += WIDTH) {
            VECTOR sum = sums[o][v];
            if (row->rectified) {
                VECTOR small = sum * LEAK;
                MASK larger = sum > small;
                sum = (VECTOR)(((MASK)sum & larger) | ((MASK)small & ~larger));
            }
            if (first + o < row->sums) sum += *(const VECTOR *)(row->added + place);
            *(VECTOR *)(row->out + place) = sum;
        }
    }
}

APART void COPY(correlate)(const Row *row, ptrdiff_t bins) {
    ptrdiff_t outputs = row->step->outputs;
    for (ptrdiff_t at = 0; at < bins; at += VECTORS * WIDTH) {
        ptrdiff_t o = 0;
        for (; o + OUTPUTS <= outputs; o += OUTPUTS) COPY(tile)(OUTPUTS, row, at, o);
        for (; o + 4 <= outputs; o += 4) COPY(tile)(4, row, at, o);
        for (; o + 2 <= outputs; o += 2) COPY(tile)(2, row, at, o);
        for (; o < outputs; o++) COPY(tile)(1, row, at, o);
    }
}

#undef VECTORS
#undef VECTOR
#undef MASK
#undef COPY
#undef WIDTH
#undef OUTPUTS

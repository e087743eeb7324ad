/* Products and correlations in bfloat16 by the tile registers of AMX, with sums in float32; part of
 * _network.c.
 *
 * A tile has 16 rows of 64 bytes: 16 x 32 factors of the left side, 16 pairs of rows x 16 columns
 * of the right side, or 16 x 16 sums. Two tiles of either side make four of sums.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DEPTH 32
#define AMX __attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16")))

typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileConfig;

/* Whether the processor has the tiles, and Linux lets this process use them. */
static int has_tiles(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return 0;
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}

/* Make tiles 0 to 3 hold sums, and the others factors: `depth` of a row on the left in tiles 4 and 5,
 * and so many in a column on the right in 6 and 7. */
AMX static void configure(int depth) {
    TileConfig config = {.palette = 1};
    for (int k = 0; k < 8; k++) {
        config.bytes[k] = (uint16_t)(k == 4 || k == 5 ? 2 * depth : 64);
        config.rows[k] = (uint8_t)(k > 5 ? depth / 2 : SIDE);
    }
    /* GCC 12 takes what the intrinsics read to be the first 8 bytes at most. */
    __asm__ volatile("" : : "r"(&config) : "memory");
    _tile_loadconfig(&config);
}

/* Rounded to even; NaN may become infinite. */
INLINE uint16_t bfloat16(float x) {
    uint32_t bits = as_bits(x);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

AMX APART void round_rows(const float *restrict x, Py_ssize_t apart, uint16_t *restrict out,
                          Py_ssize_t rows, Py_ssize_t depth) {
    for (Py_ssize_t row = 0; row < rows; row++)
        for (Py_ssize_t i = 0; i < depth; i++) out[row * depth + i] = bfloat16(x[row * apart + i]);
}

/* The right side of a product, tile by tile: down the first 16 columns and then down the next. */
AMX APART void round_right(const float *restrict matrix, Py_ssize_t depth, Py_ssize_t columns,
                           uint16_t *restrict out) {
    for (Py_ssize_t column = 0; column < columns; column += SIDE)
        for (Py_ssize_t row = 0; row < depth; row += 2, out += 2 * SIDE) {
            const float *upper = matrix + row * columns + column, *lower = upper + columns;
            for (int k = 0; k < SIDE; k++) {
                out[2 * k] = bfloat16(upper[k]);
                out[2 * k + 1] = bfloat16(lower[k]);
            }
        }
}

/* Sums of 32 rows and `columns` columns, 16 or 32: `left` has `depth` factors in a row, and `right`
 * is from `round_right`. */
AMX INLINE void sums(const uint16_t *left, const uint16_t *right, Py_ssize_t depth,
                     const int columns, float *out, Py_ssize_t apart) {
    const uint16_t *low = left + SIDE * depth, *next = right + SIDE * depth;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (Py_ssize_t k = 0; k < depth; k += DEPTH) {
        _tile_loadd(4, left + k, depth * 2);
        _tile_loadd(6, right + k * SIDE, 64);
        _tile_loadd(5, low + k, depth * 2);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        if (columns > SIDE) {
            _tile_loadd(7, next + k * SIDE, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, out, apart * 4);
    _tile_stored(2, out + SIDE * apart, apart * 4);
    if (columns > SIDE) {
        _tile_stored(1, out + SIDE, apart * 4);
        _tile_stored(3, out + SIDE * apart + SIDE, apart * 4);
    }
}

/* out = x right, for `rows` rows that are `x_apart` and `out_apart` floats from each other. `left`
 * receives the rounded rows, with zeros up to a multiple of 32 rows. */
AMX APART void multiply(const float *x, Py_ssize_t x_apart, const uint16_t *right, float *out,
                        Py_ssize_t out_apart, Py_ssize_t rows, Py_ssize_t depth,
                        Py_ssize_t columns, uint16_t *left) {
    float last[2 * SIDE * 2 * SIDE];
    round_rows(x, x_apart, left, rows, depth);
    configure(DEPTH);
    for (Py_ssize_t column = 0; column < columns; column += 2 * SIDE) {
        Py_ssize_t wide = columns - column < 2 * SIDE ? SIDE : 2 * SIDE;
        for (Py_ssize_t row = 0; row < rows; row += 2 * SIDE) {
            int whole = rows - row >= 2 * SIDE;
            float *to = whole ? out + row * out_apart + column : last;
            Py_ssize_t apart = whole ? out_apart : 2 * SIDE;
            if (wide > SIDE)
                sums(left + row * depth, right + column * depth, depth, 2 * SIDE, to, apart);
            else
                sums(left + row * depth, right + column * depth, depth, SIDE, to, apart);
            for (Py_ssize_t k = row; !whole && k < rows; k++)
                memcpy(out + k * out_apart + column, last + (k - row) * 2 * SIDE,
                       wide * sizeof(float));
        }
    }
    _tile_release();
}

AMX static void release(void) { _tile_release(); }

/* What a step of a correlation is for tiles: channels and outputs filled up with zeros. */
struct Tiles {
    uint16_t weight[9][SIDE / 2][SIDE][2];
    float bias[SIDE];
};

static void pack(const Step *step, Tiles *tiles) {
    memset(tiles, 0, sizeof *tiles);
    memcpy(tiles->bias, step->bias, step->outputs * sizeof(float));
    const float *from = step->weight;
    for (int tap = 0; tap < 9; tap++)
        for (Py_ssize_t c = 0; c < step->channels; c++, from += step->outputs)
            for (Py_ssize_t o = 0; o < step->outputs; o++)
                tiles->weight[tap][c / 2][o][c % 2] = bfloat16(from[o]);
}

/* Planes of a frame as cells of SIDE channels each, in bfloat16; those beyond the bins are zero. */
AMX APART void cells_of(const float *restrict planes, Py_ssize_t channels, Py_ssize_t stride,
                        Py_ssize_t bins, uint16_t *restrict cells) {
    for (Py_ssize_t c = 0; c < channels; c++)
        for (Py_ssize_t bin = 0; bin < bins; bin++)
            cells[bin * SIDE + c] = bfloat16(planes[c * stride + bin]);
}

/* Do as `correlate` for frames of cells; what is last goes to planes, and planes are added to it. */
AMX APART void correlate_tiles(const Row *row, Py_ssize_t bins, const Tiles *tiles) {
    float sums[TILE][SIDE];
    const float *bias = tiles->bias;
    Py_ssize_t outputs = row->step->outputs, stride = row->stride;
    for (Py_ssize_t at = 0; at < bins; at += TILE) {
        Py_ssize_t count = bins - at < TILE ? bins - at : TILE;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        for (int tap = 0; tap < 9; tap++) {
            if (!row->near[tap / 3]) continue;
            const uint16_t *cells = (const uint16_t *)row->near[tap / 3];
            cells += (at + (tap % 3 - 1) * row->step->high) * SIDE;
            _tile_loadd(6, tiles->weight[tap], 64);
            _tile_loadd(4, cells, 2 * SIDE);
            _tile_loadd(5, cells + SIDE * SIDE, 2 * SIDE);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 5, 6);
            _tile_loadd(4, cells + 2 * SIDE * SIDE, 2 * SIDE);
            _tile_dpbf16ps(2, 4, 6);
        }
        _tile_stored(0, sums, 4 * SIDE);
        _tile_stored(1, sums + SIDE, 4 * SIDE);
        _tile_stored(2, sums + 2 * SIDE, 4 * SIDE);
        if (!row->rectified) {
            for (Py_ssize_t o = 0; o < outputs; o++)
                for (Py_ssize_t k = 0; k < count; k++) {
                    float sum = sums[k][o] + bias[o];
                    if (o < row->sums) sum += row->added[o * stride + at + k];
                    row->out[o * stride + at + k] = sum;
                }
            continue;
        }
        uint16_t *out = (uint16_t *)row->out + at * SIDE;
        const uint16_t *added = row->added ? (const uint16_t *)row->added + at * SIDE : NULL;
        for (Py_ssize_t k = 0; k < count; k++) {
            for (int c = 0; c < SIDE; c++) {
                float sum = sums[k][c] + bias[c], small = sum * SLOPE;
                sum = sum > small ? sum : small;
                if (added) sum += as_float((uint32_t)added[k * SIDE + c] << 16);
                out[k * SIDE + c] = bfloat16(sum);
            }
        }
    }
}

/* Products in bfloat16 by the tile registers of AMX, with sums in float32; part of _network.c.
 *
 * A tile has 16 rows of 64 bytes: 16 x 32 factors of the left side, 16 pairs of rows x 16 columns
 * of the right side, or 16 x 16 sums. Two tiles of either side make four of sums.
 */
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIDE 16
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

AMX static void configure(void) {
    TileConfig config = {.palette = 1};
    for (int k = 0; k < 8; k++) config.bytes[k] = 64, config.rows[k] = SIDE;
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

/* Sums of 32 rows and `columns` columns, 16 or 32: `left` has `depth` factors in a row, and `right`
 * lies tile by tile, down the first 16 columns and then down the next. */
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
    configure();
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

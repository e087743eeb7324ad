/* Products in bfloat16 by the tile registers of AMX.
 *
 * A tile has 16 rows of 64 bytes: 16 x 32 factors of the left side, 16 pairs of rows x 16 columns
 * of the right side, or 16 x 16 sums. Two tiles of either side make four of sums.
 */
#ifndef ALPHAMF_AMX_H
#define ALPHAMF_AMX_H

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "_cells.h"

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

/* Sums of 32 rows and `columns` columns, 16 or 32; both sides are in tiles (see _bfloat16.h). */
AMX APART void sums_of_tiles(const uint16_t *left, const uint16_t *right, ptrdiff_t depth,
                             ptrdiff_t columns, float *out, ptrdiff_t apart) {
    const uint16_t *low = left + SIDE * depth, *next = right + SIDE * depth;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (ptrdiff_t k = 0; k < depth; k += DEPTH) {
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

/* Sums of TILE cells from `at` on, without the bias. */
AMX APART void cells_by_tiles(const Row *row, ptrdiff_t at, const Weights *weights,
                              float out[TILE][SIDE]) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    for (int tap = 0; tap < 9; tap++) {
        const uint16_t *cells = cells_near(row, tap, at);
        if (!cells) continue;
        _tile_loadd(6, weights->weight[tap], 64);
        _tile_loadd(4, cells, 2 * SIDE);
        _tile_loadd(5, cells + SIDE * SIDE, 2 * SIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 5, 6);
        _tile_loadd(4, cells + 2 * SIDE * SIDE, 2 * SIDE);
        _tile_dpbf16ps(2, 4, 6);
    }
    _tile_stored(0, out, 4 * SIDE);
    _tile_stored(1, out + SIDE, 4 * SIDE);
    _tile_stored(2, out + 2 * SIDE, 4 * SIDE);
}

AMX static void release(void) { _tile_release(); }

#endif

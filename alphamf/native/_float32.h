/* Functions of float32 and random words, for all that loops over cells and over noise. No Python.
 *
 * Logarithm, exponential and sine are polynomials without branches, so that compilers make vector
 * instructions of the loops; they are right to 3e-7, relative (the logarithm near one: absolute),
 * which is what float32 holds.
 */
#ifndef ALPHAMF_FLOAT32_H
#define ALPHAMF_FLOAT32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
#else
#define INLINE static inline
#define APART static
#endif

/* One copy of a loop for each generation of processors, of which `level` names the one to call.
 * Without fused multiply-adds each operation is rounded as IEEE 754 says, at any width of vectors:
 * the copies `default` and `unfused` give the same bits. */
#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && __GNUC__ >= 12
#define COPIES
#define LOOP(type, name, parameters, arguments)                                                  \
    INLINE type name##_loop parameters;                                                          \
    APART type name##_default parameters { return name##_loop arguments; }                       \
    __attribute__((target("arch=x86-64-v3"))) APART type name##_v3 parameters {                  \
        return name##_loop arguments;                                                            \
    }                                                                                            \
    __attribute__((target("arch=x86-64-v4"))) APART type name##_v4 parameters {                  \
        return name##_loop arguments;                                                            \
    }                                                                                            \
    __attribute__((target("arch=x86-64-v3,no-fma"))) APART type name##_unfused parameters {      \
        return name##_loop arguments;                                                            \
    }                                                                                            \
    static type name parameters {                                                                \
        if (level == 4) return name##_v4 arguments;                                              \
        if (level == 3) return name##_v3 arguments;                                              \
        if (level == 1) return name##_unfused arguments;                                         \
        return name##_default arguments;                                                         \
    }                                                                                            \
    INLINE type name##_loop parameters
#define HIGHEST                                                                                  \
    (__builtin_cpu_supports("x86-64-v4")   ? 4                                                   \
     : __builtin_cpu_supports("x86-64-v3") ? 3                                                   \
                                           : 0)
#else
/* Apart, as Clang forgets `restrict` where it inlines. */
#define LOOP(type, name, parameters, arguments) APART type name parameters
#define HIGHEST 0
#endif
#if defined(_MSC_VER)
#define restrict __restrict
#endif

/* Cells of a chunk, whose random words and arrays the first cache holds, and generators side by
 * side, of which a chunk is a multiple. */
#define CHUNK 1024
#define LANES 32

static int level; /* 4 and 3: x86-64-v4 and -v3, 1: -v3 unfused, 0: the compiler's default */

/* Names of the levels, and of copies that AVX512_BF16 and AMX are used for; these are v4 otherwise. */
static const char *const LEVELS[] = {"default", "unfused", "", "v3", "v4", "bf16", "amx"};

/* Set `level` to the processor's, or to a lower one that ALPHAMF_LOOPS asks for. Returns whether it
 * asks for one that there is. */
static inline int choose_level(void) {
#if defined(__wasm__)
    const char *wanted = NULL; /* there is no environment */
#else
    const char *wanted = getenv("ALPHAMF_LOOPS");
#endif
    level = HIGHEST;
    if (!wanted || !*wanted) return 1;
    int asked = 6;
    while (asked >= 0 && strcmp(wanted, LEVELS[asked])) asked--;
    if (asked >= 0 && asked < level) level = asked;
    return asked >= 0;
}

INLINE float as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint32_t as_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float smaller(float x, float y) { return x < y ? x : y; }

INLINE float larger(float x, float y) { return x > y ? x : y; }

/* Of a positive normal number; Cephes' logf. */
INLINE float log_(float x) {
    uint32_t bits = as_bits(x);
    /* So that m lies between the roots of 1/2 and 2. */
    int32_t exponent = (int32_t)(bits - 0x3F3504F3u) >> 23;
    float m = as_float(bits - (uint32_t)(exponent * (1 << 23))) - 1.0f;
    float e = (float)exponent, z = m * m, p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    return m + (p * m * z + e * -2.12194440e-4f - 0.5f * z) + e * 0.693359375f;
}

/* Kept within the normal numbers; Cephes' expf. */
INLINE float exp_(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = smaller(x, 88.0f);
    float n = x * 1.44269504f + 12582912.0f; /* rounds to the nearest whole number */
    n -= 12582912.0f;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * r * r + r + 1.0f) * as_float((uint32_t)((int32_t)n + 127) << 23);
}

/* sin(pi w) of w from -1/2 to 1/2, interpolated at Chebyshev nodes: 3e-11 but for rounding. */
INLINE float sin_half(float w) {
    float q = w * w, p = -7.0282993e-3f;
    p = p * q + 8.2050345e-2f;
    p = p * q - 5.9925219e-1f;
    p = p * q + 2.5501633f;
    p = p * q - 5.1677128f;
    p = p * q + 3.1415927f;
    return w * p;
}

/* sin(pi u) of u from 0 to 1. */
INLINE float sin_(float u) {
    return sin_half(smaller(u, 1.0f - u));
}

/* An odd multiple of 2^-24, as alphamf.inference.random.uniform draws. */
INLINE float uniform(uint32_t word) {
    return as_float(word >> 9 | 0x3F800000u) - 0.999999940395355224609375f;
}

INLINE uint32_t turn(uint32_t word, int count) { return word << count | word >> (32 - count); }

/* xoshiro128++ in each lane (Blackman & Vigna, ACM TOMS 47, 2021); count is rounded up to LANES. */
LOOP(void, fill_words, (uint32_t *restrict state, uint32_t *restrict out, ptrdiff_t count),
     (state, out, count)) {
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES];
    memcpy(a, state, sizeof a);
    memcpy(b, state + LANES, sizeof b);
    memcpy(c, state + 2 * LANES, sizeof c);
    memcpy(d, state + 3 * LANES, sizeof d);
    for (ptrdiff_t start = 0; start < count; start += LANES) {
        for (int i = 0; i < LANES; i++) {
            uint32_t shifted = b[i] << 9;
            out[start + i] = turn(a[i] + d[i], 7) + a[i];
            c[i] ^= a[i];
            d[i] ^= b[i];
            b[i] ^= c[i];
            a[i] ^= d[i];
            c[i] ^= shifted;
            d[i] = turn(d[i], 11);
        }
    }
    memcpy(state, a, sizeof a);
    memcpy(state + LANES, b, sizeof b);
    memcpy(state + 2 * LANES, c, sizeof c);
    memcpy(state + 3 * LANES, d, sizeof d);
}

#endif

/* The loops over the cells of alpha-MF, for float32 on a CPU.
 *
 * The same steps for other arrays are in alphamf/factorization/cells.py.
 */
#ifndef ALPHAMF_STEPS_H
#define ALPHAMF_STEPS_H

#include "_float32.h"
#include "_shared.h"

/* Sources of a mixture, at most, and cells that go through all steps together, whose arrays the
 * first cache holds; a multiple of LANES. */
#define SOURCES 6
#define PIECE 512

/* Kanter's formula, and the Levy law for h = 1/2. */
LOOP(void, fill_stable, (const uint32_t *restrict first, const uint32_t *restrict second, float h,
      float *restrict out, ptrdiff_t count), (first, second, h, out, count)) {
    if (h == 0.5f) {
        for (ptrdiff_t i = 0; i < count; i++) {
            float s = sin_half(0.5f * uniform(first[i]));
            float x = -0.5f / (log_(uniform(second[i])) * s * s);
            out[i] = smaller(x, LARGEST_PHI);
        }
        return;
    }
    float power = (1.0f - h) / h;
    for (ptrdiff_t i = 0; i < count; i++) {
        float u = uniform(first[i]), e = -log_(uniform(second[i]));
        float inverse = 1.0f / (e * sin_(u));
        float x = log_(sin_((1.0f - h) * u) * inverse) * power;
        x = smaller(x, LOG_LIMIT);
        out[i] = 2.0f * sin_(h * u) * e * inverse * exp_(x);
    }
}

/* Draws of the law of Phi, from a state of the generators. */
static void draw_stable(uint32_t *state, float h, float *out, ptrdiff_t count) {
    uint32_t words[2][PIECE];
    for (ptrdiff_t at = 0; at < count; at += PIECE) {
        ptrdiff_t some = count - at < PIECE ? count - at : PIECE;
        for (int k = 0; k < 2; k++) fill_words(state, words[k], some);
        fill_stable(words[0], words[1], h, out + at, some);
    }
}

/* v, at least TINY, in place, and v^(exponent - 1). */
LOOP(void, bases, (float exponent, float *restrict v, float *restrict base, ptrdiff_t count),
     (exponent, v, base, count)) {
    if (exponent == 1.0f) {
        for (ptrdiff_t i = 0; i < count; i++) {
            v[i] = v[i] < TINY ? TINY : v[i];
            base[i] = 1.0f;
        }
    } else if (exponent == 2.0f) {
        for (ptrdiff_t i = 0; i < count; i++) {
            v[i] = v[i] < TINY ? TINY : v[i];
            base[i] = v[i];
        }
    } else {
        for (ptrdiff_t i = 0; i < count; i++) {
            v[i] = v[i] < TINY ? TINY : v[i];
            base[i] = exp_((exponent - 1.0f) * log_(v[i]));
        }
    }
}

/* Phi v^exponent. */
INLINE float part_of(float phi, float base, float v) {
    return smaller(smaller(phi * base, LARGEST) * v, LARGEST);
}

LOOP(void, weigh, (const float *restrict v, const float *restrict base, const float *restrict phi,
      float *restrict part, ptrdiff_t count), (v, base, phi, part, count)) {
    for (ptrdiff_t i = 0; i < count; i++) part[i] = part_of(phi[i], base[i], v[i]);
}

LOOP(void, add, (const float *restrict part, float *restrict total, ptrdiff_t count),
     (part, total, count)) {
    for (ptrdiff_t i = 0; i < count; i++) total[i] += part[i];
}

LOOP(void, invert, (const float *restrict x, float *restrict out, ptrdiff_t count),
     (x, out, count)) {
    for (ptrdiff_t i = 0; i < count; i++) out[i] = 1.0f / x[i];
}

/* Accepted where log(u t) < q (1 - 1/t), with q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2;
 * `inverse` is 1 / sigma^2. */
LOOP(ptrdiff_t, accept, (const uint32_t *restrict words, const float *restrict proposals,
      const float *restrict power, const float *restrict v, const float *restrict base,
      const float *restrict rest, float *restrict phi, float *restrict part,
      float *restrict inverse, ptrdiff_t count),
     (words, proposals, power, v, base, rest, phi, part, inverse, count)) {
    int32_t accepted = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        float moved = part_of(proposals[i], base[i], v[i]), changed = rest[i] + moved;
        float old = inverse[i], new = 1.0f / changed;
        int32_t yes = log_(uniform(words[i]) * changed * old) < power[i] * (old - new);
        accepted += yes;
        phi[i] = yes ? proposals[i] : phi[i];
        part[i] = yes ? moved : part[i];
        inverse[i] = yes ? new : old;
    }
    return accepted;
}

/* The two positive parts of dU/dv, of log sigma^2 and of |X|^2 / sigma^2. */
LOOP(void, slopes, (float scale, const float *restrict power, const float *restrict base,
      const float *restrict phi, const float *restrict inverse, float *restrict plus,
      float *restrict minus, ptrdiff_t count),
     (scale, power, base, phi, inverse, plus, minus, count)) {
    for (ptrdiff_t i = 0; i < count; i++) {
        plus[i] = scale * (smaller(phi[i] * base[i], LARGEST) * inverse[i]);
        minus[i] = plus[i] * power[i] * inverse[i];
    }
}

LOOP(void, slope, (float scale, const float *restrict power, const float *restrict base,
      const float *restrict phi, const float *restrict inverse, float *restrict out,
      ptrdiff_t count), (scale, power, base, phi, inverse, out, count)) {
    for (ptrdiff_t i = 0; i < count; i++) {
        out[i] = scale * (smaller(phi[i] * base[i], LARGEST) * inverse[i])
                 * (1.0f - power[i] * inverse[i]);
    }
}

LOOP(void, share, (const float *restrict part, const float *restrict sigma2, float *restrict out,
      ptrdiff_t count), (part, sigma2, out, count)) {
    for (ptrdiff_t i = 0; i < count; i++) out[i] = part[i] / sigma2[i];
}

/* What `evaluate` is asked for; as alphamf.factorization.cells.CellOutput. */
enum { MOVE, SLOPES, SLOPE, GAIN, VARIANCE };

/* A source: its cells, NULL for a phi of two, for a state where Phi rests, for what is not asked
 * for; and room for a piece. */
struct source {
    float exponent, scale;
    float *v, *phi, *out[2];
    uint32_t *state;
    ptrdiff_t accepted;
    float base[PIECE], part[PIECE];
};

static float twos[PIECE];

/* Before anything else. */
static inline void fill_twos(void) {
    for (int i = 0; i < PIECE; i++) twos[i] = 2.0f;
}

static void total(const struct source *sources, int n, int but, float *sum, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) sum[i] = FLOOR;
    for (int s = 0; s < n; s++)
        if (s != but) add(sources[s].part, sum, count);
}

static const float *phi_at(const struct source *source, ptrdiff_t at) {
    return source->phi ? source->phi + at : twos;
}

static void move(struct source *sources, int n, int s, const float *power, float *inverse,
                 ptrdiff_t at, ptrdiff_t count) {
    uint32_t words[3][PIECE];
    float proposals[PIECE], rest[PIECE];
    struct source *own = &sources[s];
    for (int k = 0; k < 3; k++) fill_words(own->state, words[k], count);
    fill_stable(words[0], words[1], 1.0f / own->exponent, proposals, count);
    total(sources, n, s, rest, count);
    own->accepted += accept(words[2], proposals, power, own->v + at, own->base, rest,
                            own->phi + at, own->part, inverse, count);
}

/* All steps for a piece of the cells, from `at` on. */
static void piece(struct source *sources, int n, int want, const float *power, ptrdiff_t at,
                  ptrdiff_t count) {
    float sigma2[PIECE], inverse[PIECE];
    int moves = 0;
    for (int s = 0; s < n; s++) {
        struct source *own = &sources[s];
        bases(own->exponent, own->v + at, own->base, count);
        weigh(own->v + at, own->base, phi_at(own, at), own->part, count);
    }
    for (int s = 0; s < n; s++) {
        if (!sources[s].state) continue;
        if (!moves++) {
            total(sources, n, -1, sigma2, count);
            invert(sigma2, inverse, count);
        }
        move(sources, n, s, power, inverse, at, count);
    }
    if (want == MOVE) return;
    /* Anew, so that it does not matter to a bit whether Phi has just been moved. */
    total(sources, n, -1, sigma2, count);
    invert(sigma2, inverse, count);
    for (int s = 0; s < n; s++) {
        struct source *own = &sources[s];
        if (!own->out[0]) continue;
        if (want == SLOPES)
            slopes(own->scale, power, own->base, phi_at(own, at), inverse, own->out[0] + at,
                   own->out[1] + at, count);
        else if (want == SLOPE)
            slope(own->scale, power, own->base, phi_at(own, at), inverse, own->out[0] + at, count);
        else if (want == GAIN)
            share(own->part, sigma2, own->out[0] + at, count);
        else
            memcpy(own->out[0] + at, sigma2, sizeof(float) * (size_t)count);
    }
}

static void evaluate(struct source *sources, int n, int want, const float *power,
                     ptrdiff_t cells, ptrdiff_t all) {
    for (ptrdiff_t chain = 0; chain < all; chain += cells) {
        for (ptrdiff_t start = 0; start < cells; start += PIECE) {
            ptrdiff_t count = cells - start < PIECE ? cells - start : PIECE;
            piece(sources, n, want, power + start, chain + start, count);
        }
    }
}

#endif

/* The loops over the cells of alpha-MF and over normal noise, for float32 on a CPU.
 *
 * Logarithm, exponential and sine are polynomials without branches, so that compilers make vector
 * instructions of the loops; they are right to 3e-7, relative (the logarithm near one: absolute),
 * which is what float32 holds. Arguments are C-contiguous buffers, whose kind alphamf/factorization/compiled.py
 * sees to. The same steps for other arrays are in alphamf/factorization/cells.py.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* One copy of a loop for each generation of processors, chosen when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define LOOP \
    static __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), noinline))
#else
#define LOOP static
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif
#if defined(_MSC_VER)
#define restrict __restrict
#endif

/* Cells of a chunk, whose random words and arrays the first cache holds, and generators side by
 * side, of which a chunk is a multiple. */
#define CHUNK 1024
#define LANES 32

/* As alphamf.factorization.stable.LOG_LIMIT and alphamf.factorization.cells.TINY and LARGEST. */
static const float LOG_LIMIT = 60.0f, LARGEST_PHI = 1.1420074e26f;
static const float TINY = 1e-12f, LARGEST = 1e30f;

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

/* Of a positive normal number; Cephes' logf. */
INLINE float log_(float x) {
    int32_t bits = (int32_t)as_bits(x);
    int32_t exponent = (bits - 0x3F3504F3) >> 23; /* so that m lies between the roots of 1/2 and 2 */
    float m = as_float((uint32_t)(bits - exponent * (1 << 23))) - 1.0f;
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

/* An odd multiple of 2^-24, as alphamf.factorization.stable.uniform makes. */
INLINE float uniform(uint32_t word) {
    return as_float(word >> 9 | 0x3F800000u) - 0.999999940395355224609375f;
}

INLINE uint32_t turn(uint32_t word, int count) { return word << count | word >> (32 - count); }

/* xoshiro128++ in each lane (Blackman & Vigna, ACM TOMS 47, 2021); count is rounded up to LANES. */
LOOP void fill_words(uint32_t *restrict state, uint32_t *restrict out, Py_ssize_t count) {
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES];
    memcpy(a, state, sizeof a);
    memcpy(b, state + LANES, sizeof b);
    memcpy(c, state + 2 * LANES, sizeof c);
    memcpy(d, state + 3 * LANES, sizeof d);
    for (Py_ssize_t start = 0; start < count; start += LANES) {
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

/* Kanter's formula, and the Levy law for h = 1/2. */
LOOP void fill_stable(const uint32_t *restrict first, const uint32_t *restrict second, float h,
                      float *restrict out, Py_ssize_t count) {
    if (h == 0.5f) {
        for (Py_ssize_t i = 0; i < count; i++) {
            float s = sin_half(0.5f * uniform(first[i]));
            float x = -0.5f / (log_(uniform(second[i])) * s * s);
            out[i] = smaller(x, LARGEST_PHI);
        }
        return;
    }
    float power = (1.0f - h) / h;
    for (Py_ssize_t i = 0; i < count; i++) {
        float u = uniform(first[i]), e = -log_(uniform(second[i]));
        float inverse = 1.0f / (e * sin_(u));
        float x = log_(sin_((1.0f - h) * u) * inverse) * power;
        x = smaller(x, LOG_LIMIT);
        out[i] = 2.0f * sin_(h * u) * e * inverse * exp_(x);
    }
}

/* Accepted where log(u t) < q (1 - 1/t), with q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2. */
LOOP Py_ssize_t accept(const uint32_t *restrict words, const float *restrict proposals,
                       const float *restrict power, float *restrict phi, float *restrict part,
                       const float *restrict rest, float *restrict sigma2, Py_ssize_t count) {
    int32_t accepted = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        float moved = smaller(part[i] / phi[i] * proposals[i], LARGEST), changed = rest[i] + moved;
        float inverse = 1.0f / sigma2[i];
        float likelihood = power[i] * (inverse - 1.0f / changed);
        int32_t yes = log_(uniform(words[i]) * changed * inverse) < likelihood;
        accepted += yes;
        phi[i] = yes ? proposals[i] : phi[i];
        part[i] = yes ? moved : part[i];
        sigma2[i] = yes ? changed : sigma2[i];
    }
    return accepted;
}

static Py_ssize_t move(uint32_t *state, float h, const float *power, float *phi, float *part,
                       const float *rest, float *sigma2, Py_ssize_t cells, Py_ssize_t all) {
    uint32_t words[3][CHUNK];
    float proposals[CHUNK];
    Py_ssize_t accepted = 0;
    for (Py_ssize_t chain = 0; chain < all; chain += cells) {
        for (Py_ssize_t start = 0; start < cells; start += CHUNK) {
            Py_ssize_t count = cells - start < CHUNK ? cells - start : CHUNK;
            Py_ssize_t at = chain + start;
            for (int k = 0; k < 3; k++) {
                fill_words(state, words[k], count);
            }
            fill_stable(words[0], words[1], h, proposals, count);
            accepted += accept(words[2], proposals, power + start, phi + at, part + at, rest + at,
                               sigma2 + at, count);
        }
    }
    return accepted;
}

LOOP void weigh(float exponent, float *restrict v, const float *restrict phi,
                float *restrict part, Py_ssize_t count) {
    if (exponent == 2.0f) {
        for (Py_ssize_t i = 0; i < count; i++) {
            float x = v[i] < TINY ? TINY : v[i];
            part[i] = smaller(phi[i] * x * x, LARGEST);
            v[i] = x;
        }
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        float x = v[i] < TINY ? TINY : v[i];
        part[i] = smaller(phi[i] * exp_(exponent * log_(x)), LARGEST);
        v[i] = x;
    }
}

LOOP void slope(float scale, const float *restrict power, const float *restrict v,
                const float *restrict part, const float *restrict sigma2, float *restrict out,
                Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float inverse = 1.0f / sigma2[i];
        out[i] = scale * (part[i] * inverse) / v[i] * (1.0f - power[i] * inverse);
    }
}

LOOP void slopes(float scale, const float *restrict power, const float *restrict v,
                 const float *restrict part, const float *restrict sigma2, float *restrict plus,
                 float *restrict minus, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float inverse = 1.0f / sigma2[i];
        plus[i] = scale * (part[i] * inverse) / v[i];
        minus[i] = plus[i] * power[i] * inverse;
    }
}

/* Box and Muller's pairs: all 32 bits in the radius, so that the law is cut off at 6.7 and not at
 * 5.8 standard deviations, an angle below pi, and a sign from a bit that the angle leaves out. */
LOOP void fill_normal(const uint32_t *restrict first, const uint32_t *restrict second,
                      float *restrict cosines, float *restrict sines, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float x = (float)first[i] * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
        float radius = sqrtf(-2.0f * log_(x)), u = uniform(second[i]);
        cosines[i] = radius * sin_half(0.5f - u);
        sines[i] = as_float(as_bits(radius * sin_(u)) ^ second[i] << 31);
    }
}

static void normal(uint32_t *state, float *out, Py_ssize_t size) {
    uint32_t words[2][CHUNK];
    float sines[CHUNK];
    Py_ssize_t half = (size + 1) / 2;
    for (Py_ssize_t start = 0; start < half; start += CHUNK) {
        Py_ssize_t count = half - start < CHUNK ? half - start : CHUNK;
        fill_words(state, words[0], count);
        fill_words(state, words[1], count);
        fill_normal(words[0], words[1], out + start, sines, count);
        /* Of an odd last pair, one. */
        Py_ssize_t left = size - half - start;
        memcpy(out + half + start, sines, sizeof(float) * (size_t)(left < count ? left : count));
    }
}

/* For alphamf.research.speed: how fast the functions are by themselves. */
LOOP void logs(const float *restrict x, float *restrict out, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = log_(x[i]);
}

LOOP void exps(const float *restrict x, float *restrict out, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = exp_(x[i]);
}

LOOP void sines(const float *restrict x, float *restrict out, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = sin_(x[i]);
}

#define FLOATS(view) ((float *)(view).buf)
#define WORDS(view) ((uint32_t *)(view).buf)
#define COUNT(view) ((view).len / 4)

/* Whether so many buffers are as long as the last of them; if not, an error is set. */
static int alike(const Py_buffer *views, int count) {
    for (int k = 0; k + 1 < count; k++) {
        if (views[k].len != views[count - 1].len) {
            PyErr_SetString(PyExc_ValueError, "buffers differ in length");
            return 0;
        }
    }
    return 1;
}

/* Whether a state has its size, and the cells are so many times the power. */
static int fits(const Py_buffer *state, const Py_buffer *power, const Py_buffer *cells) {
    if ((state && state->len != 16 * LANES) ||
        (power && (power->len == 0 || cells->len % power->len))) {
        PyErr_SetString(PyExc_ValueError, "buffers do not fit each other");
        return 0;
    }
    return 1;
}

static PyObject *finish(Py_buffer *views, int count, PyObject *result) {
    for (int k = 0; k < count; k++) PyBuffer_Release(&views[k]);
    return result;
}

static PyObject *py_move(PyObject *self, PyObject *args) {
    Py_buffer b[6]; /* state, power, phi, part, rest, sigma2 */
    float h;
    Py_ssize_t accepted;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "w*fy*w*w*y*w*", &b[0], &h, &b[1], &b[2], &b[3], &b[4], &b[5]))
        return NULL;
    if (fits(&b[0], &b[1], &b[2]) && alike(b + 2, 4)) {
        Py_BEGIN_ALLOW_THREADS
        accepted = move(WORDS(b[0]), h, FLOATS(b[1]), FLOATS(b[2]), FLOATS(b[3]), FLOATS(b[4]),
                        FLOATS(b[5]), COUNT(b[1]), COUNT(b[2]));
        Py_END_ALLOW_THREADS
        result = PyLong_FromSsize_t(accepted);
    }
    return finish(b, 6, result);
}

static PyObject *py_weigh(PyObject *self, PyObject *args) {
    Py_buffer b[3]; /* v, phi, part */
    float exponent;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "fw*y*w*", &exponent, &b[0], &b[1], &b[2])) return NULL;
    if (alike(b, 3)) {
        Py_BEGIN_ALLOW_THREADS
        weigh(exponent, FLOATS(b[0]), FLOATS(b[1]), FLOATS(b[2]), COUNT(b[0]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 3, result);
}

static PyObject *py_slope(PyObject *self, PyObject *args) {
    Py_buffer b[5]; /* power, v, part, sigma2, out */
    float scale;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "fy*y*y*y*w*", &scale, &b[0], &b[1], &b[2], &b[3], &b[4]))
        return NULL;
    if (fits(NULL, &b[0], &b[1]) && alike(b + 1, 4)) {
        Py_ssize_t cells = COUNT(b[0]), all = COUNT(b[1]);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < all; at += cells)
            slope(scale, FLOATS(b[0]), FLOATS(b[1]) + at, FLOATS(b[2]) + at, FLOATS(b[3]) + at,
                  FLOATS(b[4]) + at, cells);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 5, result);
}

static PyObject *py_slopes(PyObject *self, PyObject *args) {
    Py_buffer b[6]; /* power, v, part, sigma2, plus, minus */
    float scale;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "fy*y*y*y*w*w*", &scale, &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]))
        return NULL;
    if (fits(NULL, &b[0], &b[1]) && alike(b + 1, 5)) {
        Py_ssize_t cells = COUNT(b[0]), all = COUNT(b[1]);
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < all; at += cells)
            slopes(scale, FLOATS(b[0]), FLOATS(b[1]) + at, FLOATS(b[2]) + at, FLOATS(b[3]) + at,
                   FLOATS(b[4]) + at, FLOATS(b[5]) + at, cells);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 6, result);
}

/* Fill a buffer from a state of the generators. */
static PyObject *filled(PyObject *args, int normals) {
    Py_buffer b[2]; /* state, out */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "w*w*", &b[0], &b[1])) return NULL;
    if (!normals && b[1].len % (4 * LANES)) {
        PyErr_SetString(PyExc_ValueError, "the number of words must be a multiple of the lanes");
    } else if (fits(&b[0], NULL, NULL)) {
        Py_BEGIN_ALLOW_THREADS
        if (normals)
            normal(WORDS(b[0]), FLOATS(b[1]), COUNT(b[1]));
        else
            fill_words(WORDS(b[0]), WORDS(b[1]), COUNT(b[1]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 2, result);
}

static PyObject *py_normal(PyObject *self, PyObject *args) { return filled(args, 1); }

static PyObject *py_words(PyObject *self, PyObject *args) { return filled(args, 0); }

typedef void (*map_function)(const float *, float *, Py_ssize_t);

static PyObject *mapped(PyObject *args, map_function function) {
    Py_buffer b[2]; /* x, out */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*w*", &b[0], &b[1])) return NULL;
    if (alike(b, 2)) {
        function(FLOATS(b[0]), FLOATS(b[1]), COUNT(b[0]));
        result = Py_NewRef(Py_None);
    }
    return finish(b, 2, result);
}

static PyObject *py_log(PyObject *self, PyObject *args) { return mapped(args, logs); }

static PyObject *py_exp(PyObject *self, PyObject *args) { return mapped(args, exps); }

static PyObject *py_sin(PyObject *self, PyObject *args) { return mapped(args, sines); }

static PyMethodDef methods[] = {
    {"move", py_move, METH_VARARGS, "move(state, h, power, phi, part, rest, sigma2) -> accepted"},
    {"weigh", py_weigh, METH_VARARGS, "weigh(exponent, v, phi, part)"},
    {"slope", py_slope, METH_VARARGS, "slope(scale, power, v, part, sigma2, out)"},
    {"slopes", py_slopes, METH_VARARGS, "slopes(scale, power, v, part, sigma2, plus, minus)"},
    {"normal", py_normal, METH_VARARGS, "normal(state, out)"},
    {"words", py_words, METH_VARARGS, "words(state, out)"},
    {"log", py_log, METH_VARARGS, "log(x, out)"},
    {"exp", py_exp, METH_VARARGS, "exp(x, out)"},
    {"sin", py_sin, METH_VARARGS, "sin(u, out): of pi u, from 0 to 1"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.factorization._loops",
    .m_doc = "See alphamf.factorization.compiled.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__loops(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddIntConstant(module, "CHUNK", CHUNK) ||
                   PyModule_AddIntConstant(module, "LANES", LANES))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

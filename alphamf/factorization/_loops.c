/* The loops over the cells of alpha-MF, for float32 on a CPU.
 *
 * The same steps for other arrays are in alphamf/factorization/cells.py.
 */
#include "../inference/_float32.h"

/* As alphamf.tools.arrays.LOG_LIMIT and alphamf.factorization.cells.TINY and LARGEST. */
static const float LOG_LIMIT = 60.0f, LARGEST_PHI = 1.1420074e26f;
static const float TINY = 1e-12f, LARGEST = 1e30f;

/* Kanter's formula, and the Levy law for h = 1/2. */
LOOP(void, fill_stable, (const uint32_t *restrict first, const uint32_t *restrict second, float h,
      float *restrict out, Py_ssize_t count), (first, second, h, out, count)) {
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
LOOP(Py_ssize_t, accept, (const uint32_t *restrict words, const float *restrict proposals,
      const float *restrict power, float *restrict phi, float *restrict part,
      const float *restrict rest, float *restrict sigma2, Py_ssize_t count),
     (words, proposals, power, phi, part, rest, sigma2, count)) {
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

LOOP(void, weigh, (float exponent, float *restrict v, const float *restrict phi,
      float *restrict part, Py_ssize_t count), (exponent, v, phi, part, count)) {
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

LOOP(void, slope, (float scale, const float *restrict power, const float *restrict v,
      const float *restrict part, const float *restrict sigma2, float *restrict out,
      Py_ssize_t count), (scale, power, v, part, sigma2, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float inverse = 1.0f / sigma2[i];
        out[i] = scale * (part[i] * inverse) / v[i] * (1.0f - power[i] * inverse);
    }
}

LOOP(void, slopes, (float scale, const float *restrict power, const float *restrict v,
      const float *restrict part, const float *restrict sigma2, float *restrict plus,
      float *restrict minus, Py_ssize_t count),
     (scale, power, v, part, sigma2, plus, minus, count)) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float inverse = 1.0f / sigma2[i];
        plus[i] = scale * (part[i] * inverse) / v[i];
        minus[i] = plus[i] * power[i] * inverse;
    }
}

/* For alphamf.research.speed: how fast the functions are by themselves. */
LOOP(void, logs, (const float *restrict x, float *restrict out, Py_ssize_t count),
     (x, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = x[i] > 0.0f ? log_(x[i]) : x[i] == 0.0f ? -INFINITY : NAN;
}

LOOP(void, exps, (const float *restrict x, float *restrict out, Py_ssize_t count),
     (x, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = exp_(x[i]);
}

LOOP(void, sines, (const float *restrict x, float *restrict out, Py_ssize_t count),
     (x, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = sin_(x[i]);
}

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

static PyObject *py_move(PyObject *self, PyObject *args) {
    Py_buffer b[6]; /* state, power, phi, part, rest, sigma2 */
    float h;
    Py_ssize_t accepted;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&fO&O&O&O&O&", generators, &b[0], &h, floats, &b[1], written,
                          &b[2], written, &b[3], floats, &b[4], written, &b[5]))
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
    if (!PyArg_ParseTuple(args, "fO&O&O&", &exponent, written, &b[0], floats, &b[1], written,
                          &b[2]))
        return NULL;
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
    if (!PyArg_ParseTuple(args, "fO&O&O&O&O&", &scale, floats, &b[0], floats, &b[1], floats,
                          &b[2], floats, &b[3], written, &b[4]))
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
    if (!PyArg_ParseTuple(args, "fO&O&O&O&O&O&", &scale, floats, &b[0], floats, &b[1], floats,
                          &b[2], floats, &b[3], written, &b[4], written, &b[5]))
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

typedef void (*map_function)(const float *, float *, Py_ssize_t);

static PyObject *mapped(PyObject *args, map_function function) {
    Py_buffer b[2]; /* x, out */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", floats, &b[0], written, &b[1])) return NULL;
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
    if (module && (choose_level(module) || PyModule_AddIntConstant(module, "CHUNK", CHUNK) ||
                   PyModule_AddIntConstant(module, "LANES", LANES))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

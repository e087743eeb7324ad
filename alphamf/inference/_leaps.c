/* Leaps of SGLD, SGHMC and SGNHT on minibatches of a regression; see alphamf/inference/leaps.py. */
#include "../native/_buffers.h"

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* Data: rows of `size` features, a value each, and how many rows a minibatch has. A gradient is
 * weight / batch (residuals'rows) + prior theta. */
typedef struct {
    const void *features, *values;
    ptrdiff_t count, size, batch;
    double weight, prior;
    int logistic;
} Regression;

/* A leap: p' = keep p + spread z - h gradient, theta' = theta + drift p', and with a thermostat
 * keep = 1 - h xi, xi' = xi + h (p'p' / size - 1). Without p: theta' = theta + spread z - h gradient.
 * Of each array the first axes are leaps (noise, chosen) and chains. */
typedef struct {
    const double *chosen; /* uniform in [0, 1) */
    const void *noise;
    void *theta, *momentum, *thermostat, *scratch;
    ptrdiff_t chains, count;
    double h, keep, spread, drift;
} Leaps;

/* exp(x) as 2^n times Taylor's series of the rest, which is right to the last bits of a double. */
INLINE double exp_double(double x) {
    static const double inverse[] = {1.0,      1.0,      1.0 / 2, 1.0 / 3,  1.0 / 4,  1.0 / 5,  1.0 / 6,
                                     1.0 / 7,  1.0 / 8,  1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
    x = x < -700.0 ? -700.0 : x > 700.0 ? 700.0 : x;
    double n = x * 1.4426950408889634 + 6755399441055744.0; /* rounds to the nearest whole number */
    n -= 6755399441055744.0;
    double r = x - n * 6.93147180369123816490e-01 - n * 1.90821492927058770002e-10, p = 1.0;
    for (int k = 13; k; k--) p = 1.0 + p * (r * inverse[k]);
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

#define EXPANDED(type, name, parameters, arguments) LOOP(type, name, parameters, arguments)

#define REAL float
#define EXP exp_
#define NAME(name) name##_float
#include "_leaps.h"
#undef REAL
#undef EXP
#undef NAME
#define REAL double
#define EXP exp_double
#define NAME(name) name##_double
#include "_leaps.h"

/* Buffers of leap(), of which the momentum and the thermostat may be None. */
enum { FEATURES, VALUES, CHOSEN, NOISE, THETA, MOMENTUM, THERMOSTAT, BUFFERS };

static int reals(PyObject *object, void *view) {
    return take(object, view, 0, "fd", 0, "a buffer is neither of float32 nor of float64");
}

static int written_reals(PyObject *object, void *view) {
    return take(object, view, PyBUF_WRITABLE, "fd", 0, "a buffer is neither of float32 nor of float64");
}

/* Read the sizes off the buffers. False where they do not fit each other, and an error is set. */
static int fitting(const Py_buffer *b, Regression *data, Leaps *leaps) {
    Py_ssize_t width = b[THETA].itemsize, rows = b[VALUES].len / width, size, states;
    int right = rows && b[CHOSEN].itemsize == (Py_ssize_t)sizeof(double);
    for (int k = 0; k < BUFFERS; k++)
        right = right && (k == CHOSEN || !b[k].obj || b[k].itemsize == width);
    size = right ? b[FEATURES].len / width / rows : 0;
    states = size ? b[THETA].len / width / size : 0;
    right = states && b[FEATURES].len == rows * size * width && b[THETA].len == states * size * width;
    leaps->count = right ? b[NOISE].len / b[THETA].len : 0;
    right = leaps->count && b[NOISE].len == leaps->count * b[THETA].len;
    data->batch = right ? b[CHOSEN].len / (Py_ssize_t)sizeof(double) / (leaps->count * states) : 0;
    right = data->batch &&
            b[CHOSEN].len == data->batch * leaps->count * states * (Py_ssize_t)sizeof(double) &&
            (!b[MOMENTUM].obj || b[MOMENTUM].len == b[THETA].len) &&
            (!b[THERMOSTAT].obj || (b[MOMENTUM].obj && b[THERMOSTAT].len == states * width));
    data->count = rows;
    data->size = size;
    leaps->chains = states;
    if (!right) PyErr_SetString(PyExc_ValueError, "buffers do not fit each other");
    return right;
}

static PyObject *py_leap(PyObject *self, PyObject *args) {
    typedef int (*converter)(PyObject *, void *);
    static const converter converters[] = {reals,         reals,         reals,        reals,
                                           written_reals, written_reals, written_reals};
    PyObject *objects[BUFFERS], *result = NULL;
    Py_buffer b[BUFFERS] = {{0}};
    Regression data = {0};
    Leaps leaps = {0};
    if (!PyArg_ParseTuple(args, "(OOddi)OOOOO(dddd)", &objects[FEATURES], &objects[VALUES],
                          &data.weight, &data.prior, &data.logistic, &objects[CHOSEN],
                          &objects[NOISE], &objects[THETA], &objects[MOMENTUM],
                          &objects[THERMOSTAT], &leaps.h, &leaps.keep, &leaps.spread, &leaps.drift))
        return NULL;
    for (int k = 0; k < BUFFERS; k++)
        if ((k < MOMENTUM || objects[k] != Py_None) && !converters[k](objects[k], &b[k]))
            return finish(b, k, NULL);
    if (fitting(b, &data, &leaps)) {
        if ((leaps.scratch = PyMem_Malloc((size_t)data.size * sizeof(double)))) {
            data.features = b[FEATURES].buf;
            data.values = b[VALUES].buf;
            leaps.chosen = b[CHOSEN].buf;
            leaps.noise = b[NOISE].buf;
            leaps.theta = b[THETA].buf;
            leaps.momentum = b[MOMENTUM].obj ? b[MOMENTUM].buf : NULL;
            leaps.thermostat = b[THERMOSTAT].obj ? b[THERMOSTAT].buf : NULL;
            Py_BEGIN_ALLOW_THREADS
            if (b[THETA].itemsize == sizeof(float))
                leaps_float(&data, &leaps);
            else
                leaps_double(&data, &leaps);
            Py_END_ALLOW_THREADS
            PyMem_Free(leaps.scratch);
            result = Py_NewRef(Py_None);
        } else {
            PyErr_NoMemory();
        }
    }
    return finish(b, BUFFERS, result);
}

static PyMethodDef methods[] = {
    {"leap", py_leap, METH_VARARGS,
     "leap((features, values, weight, prior, logistic), chosen, noise, theta, momentum, thermostat, "
     "(h, keep, spread, drift))"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.inference._leaps",
    .m_doc = "See alphamf.inference.leaps.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__leaps(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && export_level(module)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

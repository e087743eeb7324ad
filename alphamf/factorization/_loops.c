/* The loops over the cells of alpha-MF, for float32 on a CPU, and for Python.
 *
 * The same steps for other arrays are in alphamf/factorization/cells.py.
 */
#include "../native/_buffers.h"
#include "../native/_steps.h"

/* The functions by themselves, for tests of their errors. */
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

/* Buffers of a source. */
enum { V, PHI, STATE, FIRST, SECOND, BUFFERS };

/* Take the buffers of a source: (exponent, scale, v, phi, state, first, second), with None for what
 * there is not. False where they do not do, and an error is set. */
static int take_source(PyObject *tuple, struct source *source, Py_buffer *b) {
    typedef int (*converter)(PyObject *, void *);
    static const converter converters[] = {written, written, generators, written, written};
    PyObject *objects[BUFFERS];
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a source is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "ffOOOOO", &source->exponent, &source->scale, &objects[V],
                          &objects[PHI], &objects[STATE], &objects[FIRST], &objects[SECOND]))
        return 0;
    for (int k = 0; k < BUFFERS; k++)
        if ((k == V || objects[k] != Py_None) && !converters[k](objects[k], &b[k])) return 0;
    for (int k = 0; k < BUFFERS; k++) {
        if (k != STATE && b[k].obj && b[k].len != b[V].len) {
            PyErr_SetString(PyExc_ValueError, "buffers differ in length");
            return 0;
        }
    }
    if ((b[STATE].obj && !b[PHI].obj) || (b[SECOND].obj && !b[FIRST].obj)) {
        PyErr_SetString(PyExc_ValueError, "a source lacks a buffer");
        return 0;
    }
    source->v = FLOATS(b[V]);
    source->phi = b[PHI].obj ? FLOATS(b[PHI]) : NULL;
    source->state = b[STATE].obj ? WORDS(b[STATE]) : NULL;
    source->out[0] = b[FIRST].obj ? FLOATS(b[FIRST]) : NULL;
    source->out[1] = b[SECOND].obj ? FLOATS(b[SECOND]) : NULL;
    source->accepted = 0;
    return 1;
}

static PyObject *py_evaluate(PyObject *self, PyObject *args) {
    Py_buffer power = {0}, b[SOURCES][BUFFERS];
    PyObject *tuples, *result = NULL;
    int want;
    memset(b, 0, sizeof b);
    if (!PyArg_ParseTuple(args, "iO&O!", &want, floats, &power, &PyTuple_Type, &tuples))
        return NULL;
    Py_ssize_t n = PyTuple_Size(tuples);
    struct source *sources = PyMem_Calloc((size_t)(n ? n : 1), sizeof *sources);
    if (!sources) {
        PyErr_NoMemory();
        goto end;
    }
    if (n < 1 || n > SOURCES || want < MOVE || want > VARIANCE) {
        PyErr_SetString(PyExc_ValueError, "so many sources, or this, cannot be asked for");
        goto end;
    }
    for (Py_ssize_t s = 0; s < n; s++) {
        if (!take_source(PyTuple_GetItem(tuples, s), &sources[s], b[s])) goto end;
        if (!fits(b[s][STATE].obj ? &b[s][STATE] : NULL, &power, &b[s][V])) goto end;
        if (b[s][V].len != b[0][V].len ||
            (want == SLOPES && b[s][FIRST].obj && !b[s][SECOND].obj)) {
            PyErr_SetString(PyExc_ValueError, "buffers do not fit each other");
            goto end;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    evaluate(sources, (int)n, want, FLOATS(power), COUNT(power), COUNT(b[0][V]));
    Py_END_ALLOW_THREADS
    result = PyList_New(n);
    for (Py_ssize_t s = 0; result && s < n; s++) {
        PyObject *accepted = PyLong_FromSsize_t(sources[s].accepted);
        if (accepted)
            PyList_SetItem(result, s, accepted);
        else
            Py_CLEAR(result);
    }
end:
    for (int s = 0; s < SOURCES; s++)
        for (int k = 0; k < BUFFERS; k++)
            if (b[s][k].obj) PyBuffer_Release(&b[s][k]);
    PyMem_Free(sources);
    PyBuffer_Release(&power);
    return result;
}

static PyObject *py_stable(PyObject *self, PyObject *args) {
    Py_buffer b[2]; /* state, out */
    float h;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&fO&", generators, &b[0], &h, written, &b[1])) return NULL;
    if (fits(&b[0], NULL, NULL)) {
        Py_BEGIN_ALLOW_THREADS
        draw_stable(WORDS(b[0]), h, FLOATS(b[1]), COUNT(b[1]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 2, result);
}

typedef void (*map_function)(const float *, float *, Py_ssize_t);

static PyObject *mapped(PyObject *args, map_function function) {
    Py_buffer b[2]; /* x, out */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", floats, &b[0], written, &b[1])) return NULL;
    if (b[0].len != b[1].len) {
        PyErr_SetString(PyExc_ValueError, "buffers differ in length");
    } else {
        function(FLOATS(b[0]), FLOATS(b[1]), COUNT(b[0]));
        result = Py_NewRef(Py_None);
    }
    return finish(b, 2, result);
}

static PyObject *py_log(PyObject *self, PyObject *args) { return mapped(args, logs); }

static PyObject *py_exp(PyObject *self, PyObject *args) { return mapped(args, exps); }

static PyObject *py_sin(PyObject *self, PyObject *args) { return mapped(args, sines); }

static PyMethodDef methods[] = {
    {"evaluate", py_evaluate, METH_VARARGS, "evaluate(want, power, sources) -> accepted"},
    {"stable", py_stable, METH_VARARGS, "stable(state, h, out)"},
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
    fill_twos();
    if (module && (export_level(module) || PyModule_AddIntConstant(module, "CHUNK", CHUNK) ||
                   PyModule_AddIntConstant(module, "SOURCES", SOURCES) ||
                   PyModule_AddIntConstant(module, "LANES", LANES))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

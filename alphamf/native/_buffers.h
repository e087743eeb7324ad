/* Buffers that Python hands to the extensions, and the copy of the loops that they use. */
#ifndef ALPHAMF_BUFFERS_H
#define ALPHAMF_BUFFERS_H

/* The stable ABI, which has buffers from 3.11 on: one wheel does for all versions of Python. */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_float32.h"

/* Choose the copy of the loops, and export its name. */
static int export_level(PyObject *module) {
    if (choose_level()) return PyModule_AddStringConstant(module, "VARIANT", LEVELS[level]);
    PyErr_Format(PyExc_ValueError,
                 "ALPHAMF_LOOPS must be default, unfused, v3, v4, bf16 or amx, not '%s'",
                 getenv("ALPHAMF_LOOPS"));
    return -1;
}

#define FLOATS(view) ((float *)(view).buf)
#define WORDS(view) ((uint32_t *)(view).buf)
#define COUNT(view) ((view).len / 4)

/* Converters of PyArg_ParseTuple's O&: C-contiguous buffers of float32, to be read or written, of
 * words of 32 bits, and of a state, whose words may be of 64. */
static int take(PyObject *object, Py_buffer *view, int flags, const char *formats, Py_ssize_t size,
                const char *sentence) {
    if (!object) {
        PyBuffer_Release(view);
        return 1;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags)) return 0;
    const char *format = view->format ? view->format : "B";
    if (strlen(format) == 1 && strchr(formats, format[0]) && (!size || view->itemsize == size))
        return Py_CLEANUP_SUPPORTED;
    PyErr_SetString(PyExc_ValueError, sentence);
    PyBuffer_Release(view);
    return 0;
}

static inline int floats(PyObject *object, void *view) {
    return take(object, view, 0, "f", 4, "a buffer is not of float32");
}

static inline int written(PyObject *object, void *view) {
    return take(object, view, PyBUF_WRITABLE, "f", 4, "a buffer is not of float32");
}

static inline int written_words(PyObject *object, void *view) {
    return take(object, view, PyBUF_WRITABLE, "IL", 4, "a buffer is not of uint32");
}

static inline int generators(PyObject *object, void *view) {
    return take(object, view, PyBUF_WRITABLE, "ILQ", 0, "a state is not of unsigned words");
}

/* Whether a state has its size, and the cells are so many times the power. */
static inline int fits(const Py_buffer *state, const Py_buffer *power, const Py_buffer *cells) {
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

#endif

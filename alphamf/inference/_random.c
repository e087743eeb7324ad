/* Random words and standard normal noise, for float32 on a CPU; see alphamf/inference/random.py. */
#include "../native/_buffers.h"

/* Box and Muller's pairs: all 32 bits in the radius, so that the law is cut off at 6.7 and not at
 * 5.8 standard deviations, an angle below pi, and a sign from a bit that the angle leaves out. */
LOOP(void, fill_normal, (const uint32_t *restrict first, const uint32_t *restrict second,
      float *restrict cosines, float *restrict sines, Py_ssize_t count),
     (first, second, cosines, sines, count)) {
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

/* Fill a buffer from a state of the generators. */
static PyObject *filled(PyObject *args, int normals) {
    Py_buffer b[2]; /* state, out */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", generators, &b[0], normals ? written : written_words, &b[1]))
        return NULL;
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

static PyMethodDef methods[] = {
    {"normal", py_normal, METH_VARARGS, "normal(state, out)"},
    {"words", py_words, METH_VARARGS, "words(state, out)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.inference._random",
    .m_doc = "See alphamf.inference.random.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__random(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (export_level(module) || PyModule_AddIntConstant(module, "CHUNK", CHUNK) ||
                   PyModule_AddIntConstant(module, "LANES", LANES))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

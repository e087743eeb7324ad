/* Layers of the networks, for float32 on a CPU.
 *
 * alphamf/learnt/network.py describes them; the same ones for other arrays are in layers.py there.
 */
#include "../native/_buffers.h"
#include "../native/_correlations.h"
#include "../native/_blocks.h"

#if defined(HALVES)
static int halves(PyObject *object, void *view) {
    return take(object, view, 0, "H", 2, "a buffer is not of uint16");
}

static int written_halves(PyObject *object, void *view) {
    return take(object, view, PyBUF_WRITABLE, "H", 2, "a buffer is not of uint16");
}
#endif

static PyObject *unfit(void) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "buffers do not fit each other");
    return NULL;
}

/* Whether one buffer is a whole number of rows as long as another. */
static int rows_of(const Py_buffer *x, const Py_buffer *row) {
    return row->len && x->len % row->len == 0;
}

static PyObject *py_mix(PyObject *self, PyObject *args) {
    enum { X, SCALE, SHIFT, TAP, FRAMES, OUT, ALL };
    Py_buffer b[ALL];
    Py_ssize_t distance;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "nO&O&O&O&O&O&", &distance, floats, &b[X], floats, &b[SCALE], floats,
                          &b[SHIFT], floats, &b[TAP], written, &b[FRAMES], written, &b[OUT]))
        return NULL;
    Py_ssize_t width = COUNT(b[SCALE]), taps = width ? COUNT(b[TAP]) / width : 0;
    Py_ssize_t frames = width ? COUNT(b[X]) / width : 0;
    if (!rows_of(&b[X], &b[SCALE]) || b[FRAMES].len != b[X].len || b[SHIFT].len != b[SCALE].len ||
        !rows_of(&b[TAP], &b[SCALE]) || b[OUT].len != b[X].len || distance < 1 ||
        distance > LATEST || taps > LATEST) {
        unfit();
    } else {
        Py_BEGIN_ALLOW_THREADS
        normalise(FLOATS(b[X]), FLOATS(b[SCALE]), FLOATS(b[SHIFT]), FLOATS(b[FRAMES]), frames, width);
        dilate(FLOATS(b[FRAMES]), frames, -1, FLOATS(b[TAP]), taps, distance, FLOATS(b[OUT]), 1,
               width);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, ALL, result);
}

static PyObject *py_rectify(PyObject *self, PyObject *args) {
    Py_buffer b[2]; /* x, bias */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", written, &b[0], floats, &b[1])) return NULL;
    if (rows_of(&b[0], &b[1])) {
        Py_BEGIN_ALLOW_THREADS
        rectify(FLOATS(b[0]), FLOATS(b[1]), b[0].len / b[1].len, COUNT(b[1]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else {
        unfit();
    }
    return finish(b, 2, result);
}

static PyObject *py_add(PyObject *self, PyObject *args) {
    Py_buffer b[3]; /* x, change, bias */
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "O&O&O&", written, &b[0], floats, &b[1], floats, &b[2]))
        return NULL;
    if (rows_of(&b[0], &b[2]) && b[1].len == b[0].len) {
        Py_BEGIN_ALLOW_THREADS
        add(FLOATS(b[0]), FLOATS(b[1]), FLOATS(b[2]), b[0].len / b[2].len, COUNT(b[2]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else {
        unfit();
    }
    return finish(b, 3, result);
}

#if defined(HALVES)
/* Rows of floats, next to each other or not. */
static int matrix(PyObject *object, Py_buffer *view, int flags) {
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT | flags)) return 0;
    if (view->ndim == 2 && view->format && !strcmp(view->format, "f") && view->strides[1] == 4 &&
        view->strides[0] % 4 == 0 && view->strides[0] >= view->shape[1] * 4)
        return 1;
    PyBuffer_Release(view);
    return unfit() != NULL;
}

static PyObject *py_pack(PyObject *self, PyObject *args) {
    Py_buffer b[2]; /* matrix, right */
    Py_ssize_t columns;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "nO&O&", &columns, floats, &b[0], written_halves, &b[1]))
        return NULL;
    if (halves_by && columns > 0 && columns <= COUNT(b[0]) && columns % SIDE == 0 &&
        COUNT(b[0]) % (columns * DEPTH) == 0 && b[1].len * 2 == b[0].len) {
        Py_BEGIN_ALLOW_THREADS
        round_right(FLOATS(b[0]), COUNT(b[0]) / columns, columns, b[1].buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else {
        unfit();
    }
    return finish(b, 2, result);
}

static PyObject *py_multiply(PyObject *self, PyObject *args) {
    Py_buffer b[3]; /* right, x, out */
    PyObject *x, *out, *result = NULL;
    uint16_t *left = NULL;
    if (!PyArg_ParseTuple(args, "OO&O", &x, halves, &b[0], &out)) return NULL;
    if (!matrix(x, &b[1], 0)) return finish(b, 1, NULL);
    if (!matrix(out, &b[2], PyBUF_WRITABLE)) return finish(b, 2, NULL);
    Py_ssize_t rows = b[1].shape[0], depth = b[1].shape[1], columns = b[2].shape[1];
    Py_ssize_t padded = (rows + 2 * SIDE - 1) / (2 * SIDE) * 2 * SIDE;
    if (!halves_by || depth % DEPTH || columns % SIDE || b[2].shape[0] != rows ||
        b[0].len != depth * columns * 2) {
        unfit();
    } else if (!(left = calloc(padded * depth + 1, sizeof *left))) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        multiply(FLOATS(b[1]), b[1].strides[0] / 4, b[0].buf, FLOATS(b[2]), b[2].strides[0] / 4,
                 rows, depth, columns, left);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    free(left);
    return finish(b, 3, result);
}
#endif

/* Fill a step from (weight, bias, late, high), and hold its buffers. */
static int step_from(PyObject *item, Py_ssize_t channels, Step *step, Py_buffer *b) {
    if (!PyTuple_Check(item)) return unfit() != NULL;
    if (!PyArg_ParseTuple(item, "O&O&nn", floats, &b[0], floats, &b[1], &step->late, &step->high))
        return 0;
    step->weight = FLOATS(b[0]), step->bias = FLOATS(b[1]);
    step->channels = channels, step->outputs = COUNT(b[1]);
    /* Weights of a channel; times the channels that were asked for, they might overflow. */
    Py_ssize_t weights = 9 * step->outputs;
    if (!weights || COUNT(b[0]) % weights || COUNT(b[0]) / weights != channels ||
        step->late < 1 || step->late > LATEST || step->high < 1 || step->high > PAD) {
        finish(b, 2, NULL);
        return unfit() != NULL;
    }
    return 1;
}

/* Read the steps, and hold their buffers; returns whether each fits the one before. */
static int steps_from(PyObject *given, Py_ssize_t channels, Chain *chain, Py_buffer held[][2]) {
    Py_ssize_t all = PyTuple_Size(given);
    if (all < 1 || all > STEPS) return 0;
    for (Py_ssize_t k = 0; k < all; k++) {
        Py_ssize_t inputs = k ? chain->steps[k - 1].outputs : channels;
        Step *step = &chain->steps[k];
        if (!step_from(PyTuple_GetItem(given, k), inputs, step, held[k])) return 0;
        chain->count++;
        if (k && k + 1 < all && step->outputs != inputs) return 0;
    }
    return 1;
}

/* Allocate what goes from step to step, and set where it is; returns what is to be freed. */
static float *allocate(Chain *chain) {
    Py_ssize_t places[STEPS], lead = chain->weights ? PAD * SIDE / 2 : PAD, size = 0;
    int first = chain->weights ? 0 : 1;
    for (int k = first; k < chain->count; k++) {
        const Step *step = &chain->steps[k];
        Frames *frames = &chain->inputs[k];
        frames->count = k ? 2 * step->late + 1 : chain->frames, frames->newest = 0;
        frames->apart = chain->weights ? (chain->stride + PAD) * SIDE / 2
                                       : step->channels * chain->stride + PAD;
        places[k] = size + lead;
        size += frames->count * frames->apart;
    }
    float *memory = calloc(size + LINE, sizeof(float));
    if (!memory) return NULL;
    float *aligned = memory + (LINE - (uintptr_t)memory / sizeof(float) % LINE) % LINE;
    for (int k = first; k < chain->count; k++) chain->inputs[k].start = aligned + places[k];
    return memory;
}

#if defined(HALVES)
/* Whether it can be done in bfloat16: no cell has more channels than a tile. */
static int suits_halves(const Chain *chain) {
    int suits = halves_by && chain->steps[0].channels <= SIDE;
    for (int k = 0; k < chain->count; k++) suits = suits && chain->steps[k].outputs <= SIDE;
    return suits;
}

static void correlate_in_halves(Chain *chain, Weights *packed) {
    for (int k = 0; k < chain->count; k++) pack(&chain->steps[k], &packed[k]);
    for (Py_ssize_t frame = 0; frame < chain->frames; frame++)
        cells_of(frame_of(&chain->planes, frame), chain->steps[0].channels, chain->stride,
                 chain->bins, (uint16_t *)frame_of(&chain->inputs[0], frame));
    if (halves_by == BY_TILES) configure(SIDE);
    correlate_frames(chain);
    if (halves_by == BY_TILES) release();
}
#endif

/* All frames of a chain that is not causal; returns whether there was memory. */
static int correlate_all(Chain *chain) {
    float *memory;
#if defined(HALVES)
    Weights packed[STEPS];
    if (suits_halves(chain)) chain->weights = packed;
#endif
    if (!(memory = allocate(chain))) return 0;
#if defined(HALVES)
    if (chain->weights) correlate_in_halves(chain, packed);
    else
#endif
        correlate_frames(chain);
    free(memory);
    return 1;
}

static PyObject *py_correlate(PyObject *self, PyObject *args) {
    Py_buffer b[2], held[STEPS][2]; /* cells and out; weights and biases */
    Chain chain = {0};
    Py_ssize_t channels;
    PyObject *steps, *result = NULL;
    if (!PyArg_ParseTuple(args, "nnnO!O&O&", &channels, &chain.bins, &chain.skip, &PyTuple_Type,
                          &steps, written, &b[0], written, &b[1]))
        return NULL;
    if (channels > 0 && chain.bins > 0 && chain.bins < COUNT(b[1]) && chain.skip >= 0 &&
        steps_from(steps, channels, &chain, held)) {
        const Step *last = &chain.steps[chain.count - 1];
        chain.stride = PAD + (chain.bins + TILE - 1) / TILE * TILE;
        Py_ssize_t size = last->outputs * chain.stride + PAD, read = channels * chain.stride + PAD;
        chain.frames = COUNT(b[1]) / size;
        chain.out = (Frames){FLOATS(b[1]) + PAD, chain.frames, 0, size};
        chain.planes = chain.inputs[0] = (Frames){FLOATS(b[0]) + PAD, chain.frames, 0, read};
        if (chain.frames && COUNT(b[1]) % size == 0 && chain.skip <= channels - added_to(last) &&
            COUNT(b[0]) == chain.frames * read) {
            int made;
            Py_BEGIN_ALLOW_THREADS
            made = correlate_all(&chain);
            Py_END_ALLOW_THREADS
            result = made ? Py_NewRef(Py_None) : PyErr_NoMemory();
        }
    }
    if (!result) unfit();
    for (int k = 0; k < chain.count; k++) finish(held[k], 2, NULL);
    return finish(b, 2, result);
}

static PyMethodDef methods[] = {
    {"mix", py_mix, METH_VARARGS, "mix(distance, x, scale, shift, taps, frames, out)"},
    {"rectify", py_rectify, METH_VARARGS, "rectify(x, bias)"},
    {"add", py_add, METH_VARARGS, "add(x, change, bias)"},
    {"correlate", py_correlate, METH_VARARGS, "correlate(channels, bins, skip, steps, cells, out)"},
#if defined(HALVES)
    {"pack", py_pack, METH_VARARGS, "pack(columns, matrix, right)"},
    {"multiply", py_multiply, METH_VARARGS, "multiply(x, right, out)"},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.learnt._network",
    .m_doc = "See alphamf.learnt.layers.",
    .m_size = -1,
    .m_methods = methods,
};

/* Multiply in bfloat16 where the processor is fast at it and ALPHAMF_LOOPS asks for no other copy. */
static int choose_halves(PyObject *module) {
#if defined(HALVES)
    const char *wanted = getenv("ALPHAMF_LOOPS");
    int any = !wanted || !*wanted || !strcmp(wanted, "amx");
    if (level == 4 && any && has_tiles()) halves_by = BY_TILES;
    else if (level == 4 && (any || !strcmp(wanted, "bf16")) && has_dots()) halves_by = BY_DOTS;
    if (halves_by)
        return PyModule_AddStringConstant(module, "VARIANT", halves_by == BY_TILES ? "amx" : "bf16");
#endif
    return 0;
}

PyMODINIT_FUNC PyInit__network(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (export_level(module) || choose_halves(module))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

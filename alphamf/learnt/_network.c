/* Layers of the networks, for float32 on a CPU.
 *
 * The same layers for other arrays are in alphamf/learnt/network.py and layers.py.
 */
#include "../inference/_float32.h"

#if !defined(__GNUC__)
#error "needs vectors as GCC and Clang have them; NumPy does the work without"
#endif

/* As alphamf.learnt.layers.SLOPE. */
#define SLOPE 0.1f

#include "_chain.h"
#include "_frames.h"
#include "_newest.h"

static int panels(PyObject *object, void *view) {
    return take(object, view, 0, "h", 2, "a buffer is not of int16");
}

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
    Py_buffer b[5]; /* x, scale, shift, taps, out */
    Py_ssize_t frames, distance;
    PyObject *result = NULL;
    float *normal = NULL;
    if (!PyArg_ParseTuple(args, "nnO&O&O&O&O&", &frames, &distance, floats, &b[0], floats, &b[1],
                          floats, &b[2], floats, &b[3], written, &b[4]))
        return NULL;
    Py_ssize_t width = COUNT(b[1]), all = COUNT(b[0]);
    if (frames < 1 || distance < 1 || !rows_of(&b[0], &b[1]) || frames > all / width ||
        all % (frames * width) || b[2].len != b[1].len || !rows_of(&b[3], &b[1]) ||
        b[4].len != b[0].len) {
        unfit();
    } else if (!(normal = malloc(frames * width * sizeof(float)))) {
        PyErr_NoMemory();
    } else {
        Py_ssize_t window = frames * width;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < all; at += window) {
            normalise(FLOATS(b[0]) + at, FLOATS(b[1]), FLOATS(b[2]), normal, frames, width);
            dilate(normal, FLOATS(b[3]), COUNT(b[3]) / width, distance, FLOATS(b[4]) + at, frames,
                   width);
        }
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    free(normal);
    return finish(b, 5, result);
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

/* Allocate what goes from step to step, and set where it is; returns what is to be freed. */
static float *allocate(Chain *chain) {
    Py_ssize_t places[STEPS] = {0}, size = 0;
    for (int k = 0; k + 1 < chain->count; k++) {
        places[k] = size;
        size += (2 * chain->steps[k + 1].late + 1) * size_of(chain, chain->steps[k].outputs) + PAD;
    }
    Py_ssize_t cells = size;
    if (chain->weights) size += chain->frames * size_of(chain, 0);
    float *memory = calloc(size + LINE, sizeof(float));
    if (!memory) return NULL;
    float *aligned = memory + (LINE - (uintptr_t)memory / sizeof(float) % LINE) % LINE;
    for (int k = 0; k + 1 < chain->count; k++) chain->rings[k] = aligned + places[k];
    chain->cells = aligned + cells;
    return memory;
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

/* Whether the planes and `out` are as long as the steps need them. */
static int frames_of(Chain *chain, const Py_buffer *planes, const Py_buffer *out) {
    Py_ssize_t channels = chain->steps[0].channels;
    const Step *last = &chain->steps[chain->count - 1];
    chain->stride = PAD + (chain->bins + TILE - 1) / TILE * TILE;
    Py_ssize_t size = channels * chain->stride;
    chain->frames = (COUNT(*planes) - PAD) / size;
    return chain->frames > 0 && COUNT(*planes) == chain->frames * size + PAD &&
           chain->skip >= 0 && chain->skip <= channels - added_to(last) &&
           COUNT(*out) == chain->frames * last->outputs * chain->stride;
}

#if defined(HALVES)
/* Whether it can be done in bfloat16: no cell has more channels than a tile. */
static int suits_halves(const Chain *chain) {
    int suits = halves_by && chain->steps[0].channels <= SIDE;
    for (int k = 0; k < chain->count; k++) suits = suits && chain->steps[k].outputs <= SIDE;
    return suits;
}

static void correlate_in_halves(Chain *chain, Weights *packed) {
    Py_ssize_t channels = chain->steps[0].channels, size = size_of(chain, channels);
    for (int k = 0; k < chain->count; k++) pack(&chain->steps[k], &packed[k]);
    for (Py_ssize_t frame = 0; frame < chain->frames; frame++)
        cells_of(chain->planes + PAD + frame * channels * chain->stride, channels, chain->stride,
                 chain->bins, (uint16_t *)(chain->cells + frame * size) + PAD * SIDE);
    if (halves_by == BY_TILES) configure(SIDE);
    correlate_all(chain);
    if (halves_by == BY_TILES) release();
}
#endif

static PyObject *py_correlate(PyObject *self, PyObject *args) {
    Py_buffer b[2], held[STEPS][2]; /* planes, out; weights and biases */
    Chain chain = {0};
    Py_ssize_t channels;
    PyObject *given, *result = NULL;
    float *memory = NULL;
    if (!PyArg_ParseTuple(args, "nnnO!O&O&", &channels, &chain.bins, &chain.skip, &PyTuple_Type,
                          &given, floats, &b[0], written, &b[1]))
        return NULL;
    chain.planes = FLOATS(b[0]), chain.out = FLOATS(b[1]);
    if (channels < 1 || chain.bins < 1 || channels > COUNT(b[0]) || chain.bins > COUNT(b[0]) ||
        !steps_from(given, channels, &chain, held) ||
        !frames_of(&chain, &b[0], &b[1])) {
        unfit();
    } else {
#if defined(HALVES)
        Weights packed[STEPS];
        if (suits_halves(&chain)) chain.weights = packed;
#endif
        if ((memory = allocate(&chain))) {
            Py_BEGIN_ALLOW_THREADS
#if defined(HALVES)
            if (chain.weights) correlate_in_halves(&chain, packed);
            else
#endif
                correlate_all(&chain);
            Py_END_ALLOW_THREADS
            result = Py_NewRef(Py_None);
        } else {
            PyErr_NoMemory();
        }
    }
    free(memory);
    for (int k = 0; k < chain.count; k++) finish(held[k], 2, NULL);
    return finish(b, 2, result);
}

/* Whether a buffer holds the panels of so many rows and columns. */
static int panels_of(const Py_buffer *b, Py_ssize_t depth, Py_ssize_t columns) {
    return depth && columns && b->len == 2 * depth * ((columns + PANEL - 1) / PANEL) * PANEL;
}

static PyObject *py_product(PyObject *self, PyObject *args) {
    Py_buffer b[3]; /* x, matrix, out */
    Py_ssize_t rows;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "nO&O&O&", &rows, floats, &b[0], panels, &b[1], written, &b[2]))
        return NULL;
    Py_ssize_t depth = rows > 0 ? COUNT(b[0]) / rows : 0;
    Py_ssize_t columns = rows > 0 ? COUNT(b[2]) / rows : 0;
    if (COUNT(b[0]) == rows * depth && COUNT(b[2]) == rows * columns &&
        panels_of(&b[1], depth, columns)) {
        Py_BEGIN_ALLOW_THREADS
        product(FLOATS(b[0]), b[1].buf, FLOATS(b[2]), rows, depth, columns);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    } else {
        unfit();
    }
    return finish(b, 3, result);
}

static PyObject *py_block(PyObject *self, PyObject *args) {
    enum { X, RING, SCALE, SHIFT, TAPS, UP, UP_BIAS, DOWN, DOWN_BIAS, ALL };
    Py_buffer b[ALL];
    Py_ssize_t newest;
    PyObject *result = NULL;
    float *u = NULL;
    if (!PyArg_ParseTuple(args, "nO&O&O&O&O&O&O&O&O&", &newest, written, &b[X], written, &b[RING],
                          floats, &b[SCALE], floats, &b[SHIFT], floats, &b[TAPS], panels, &b[UP],
                          floats, &b[UP_BIAS], panels, &b[DOWN], floats, &b[DOWN_BIAS]))
        return NULL;
    Py_ssize_t width = COUNT(b[SCALE]), hidden = COUNT(b[UP_BIAS]), all = COUNT(b[X]);
    Py_ssize_t taps = width ? COUNT(b[TAPS]) / width : 0, frames = all ? COUNT(b[RING]) / all : 0;
    if (!rows_of(&b[X], &b[SCALE]) || !rows_of(&b[RING], &b[X]) || newest < 0 || newest >= frames ||
        b[SHIFT].len != b[SCALE].len || !rows_of(&b[TAPS], &b[SCALE]) || taps < 2 ||
        frames < taps || (frames - 1) % (taps - 1) || b[DOWN_BIAS].len != b[SCALE].len ||
        !panels_of(&b[UP], width, hidden) || !panels_of(&b[DOWN], hidden, width)) {
        unfit();
    } else if (!(u = malloc(all / width * (width + hidden) * sizeof(float)))) {
        PyErr_NoMemory();
    } else {
        Py_ssize_t rows = all / width;
        float *x = FLOATS(b[X]), *ring = FLOATS(b[RING]), *inner = u + all;
        Py_BEGIN_ALLOW_THREADS
        normalise(x, FLOATS(b[SCALE]), FLOATS(b[SHIFT]), ring + newest * all, rows, width);
        recall(ring, frames, newest, FLOATS(b[TAPS]), taps, u, rows, width);
        product(u, b[UP].buf, inner, rows, width, hidden);
        rectify(inner, FLOATS(b[UP_BIAS]), rows, hidden);
        product(inner, b[DOWN].buf, u, rows, hidden, width);
        add(x, u, FLOATS(b[DOWN_BIAS]), rows, width);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    free(u);
    return finish(b, ALL, result);
}

/* Read the rings, and hold their buffers; returns how many there are where each fits its step. */
static int rings_from(PyObject *given, const Chain *chain, Py_ssize_t channels, Ring *rings,
                      Py_buffer *held) {
    int count = 0;
    if (PyTuple_Size(given) != chain->count) return 0;
    for (; count < chain->count; count++) {
        const Step *step = &chain->steps[count];
        Ring *ring = &rings[count];
        PyObject *item = PyTuple_GetItem(given, count);
        if (!PyTuple_Check(item) ||
            !PyArg_ParseTuple(item, "O&n", written, &held[count], &ring->newest))
            return count;
        ring->frames = FLOATS(held[count]), ring->count = 2 * step->late + 1;
        Py_ssize_t size = step->channels * chain->stride + PAD;
        if (COUNT(held[count]) != ring->count * channels * size || ring->newest < 0 ||
            ring->newest >= ring->count) {
            finish(&held[count], 1, NULL);
            return count;
        }
    }
    return count;
}

static PyObject *py_newest(PyObject *self, PyObject *args) {
    Py_buffer out, held[STEPS][2], kept[STEPS]; /* weights and biases; rings */
    Ring rings[STEPS];
    Chain chain = {0};
    Py_ssize_t channels;
    PyObject *steps, *given, *result = NULL;
    int count = 0;
    if (!PyArg_ParseTuple(args, "nnnO!O!O&", &channels, &chain.bins, &chain.skip, &PyTuple_Type,
                          &steps, &PyTuple_Type, &given, written, &out))
        return NULL;
    chain.out = FLOATS(out);
    chain.stride = PAD + (chain.bins + TILE - 1) / TILE * TILE;
    if (channels > 0 && chain.bins > 0 && chain.bins < COUNT(out) && chain.skip >= 0 &&
        steps_from(steps, channels, &chain, held)) {
        const Step *last = &chain.steps[chain.count - 1];
        Py_ssize_t size = last->outputs * chain.stride + PAD, rows = COUNT(out) / size;
        if (rows && COUNT(out) % size == 0 && chain.skip <= channels - added_to(last) &&
            (count = rings_from(given, &chain, rows, rings, kept)) == chain.count) {
            Py_BEGIN_ALLOW_THREADS
            correlate_newest(&chain, rings, rows);
            Py_END_ALLOW_THREADS
            result = Py_NewRef(Py_None);
        }
    }
    if (!result) unfit();
    for (int k = 0; k < chain.count; k++) finish(held[k], 2, NULL);
    finish(kept, count, NULL);
    return finish(&out, 1, result);
}

static PyMethodDef methods[] = {
    {"mix", py_mix, METH_VARARGS, "mix(frames, distance, x, scale, shift, taps, out)"},
    {"rectify", py_rectify, METH_VARARGS, "rectify(x, bias)"},
    {"add", py_add, METH_VARARGS, "add(x, change, bias)"},
    {"product", py_product, METH_VARARGS, "product(rows, x, panels, out)"},
    {"block", py_block, METH_VARARGS,
     "block(newest, x, ring, scale, shift, taps, up, up_bias, down, down_bias)"},
    {"newest", py_newest, METH_VARARGS, "newest(channels, bins, skip, steps, rings, out)"},
    {"correlate", py_correlate, METH_VARARGS, "correlate(channels, bins, skip, steps, planes, out)"},
#if defined(HALVES)
    {"pack", py_pack, METH_VARARGS, "pack(columns, matrix, right)"},
    {"multiply", py_multiply, METH_VARARGS, "multiply(x, right, out)"},
#endif
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.learnt._network",
    .m_doc = "See alphamf.learnt.compiled.",
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
    if (module && (choose_level(module) || choose_halves(module) ||
                   PyModule_AddIntConstant(module, "PANEL", PANEL))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

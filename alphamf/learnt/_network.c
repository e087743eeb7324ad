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
/* Zeros before the bins of every row, and before the end of a buffer: the farthest that a kernel
 * reaches; floats that the end of a row is a multiple of; correlations in a row. */
#define PAD 16
#define TILE 48
#define STEPS 8
#define VECTORS 3
#define SUMS 16

/* A correlation with a 3 x 3 kernel: weight[3][3][channels][outputs], frames and bins apart. */
typedef struct {
    const float *weight, *bias;
    Py_ssize_t channels, outputs, late, high;
} Step;

/* A frame of a correlation. Pointers are to the first bin of the first channel; `near` are the
 * three frames that the kernel reads, null beyond the ends, and `added` is null or a frame that is
 * added to the result. */
typedef struct {
    const Step *step;
    const float *near[3], *added;
    float *out;
    Py_ssize_t stride;
    int rectified;
} Row;

#if defined(COPIES)
#define COPY(name) name##_v4
#define WIDTH 16
#define OUTPUTS 8
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#include "_tiles.h"
#pragma GCC pop_options
#define COPY(name) name##_v3
#define WIDTH 8
#define OUTPUTS 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#include "_tiles.h"
#pragma GCC pop_options
#define COPY(name) name##_unfused
#define WIDTH 8
#define OUTPUTS 4
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3,no-fma")
#include "_tiles.h"
#pragma GCC pop_options
#endif
#define COPY(name) name##_default
#define WIDTH 4
#define OUTPUTS 4
#include "_tiles.h"

static void correlate(const Row *row, Py_ssize_t bins) {
#if defined(COPIES)
    if (level == 4) correlate_v4(row, bins);
    else if (level == 3) correlate_v3(row, bins);
    else if (level == 1) correlate_unfused(row, bins);
    else
#endif
        correlate_default(row, bins);
}

/* Lengths are of float32. `planes` are frames of channels of `stride` floats, of which PAD zeros are
 * before the bins and the others behind them. Every step but the last is rectified and, but for the
 * first, added to its input; to the last, channels of `planes` from `skip` on are added. A step's
 * frames are made as soon as those that they need are there, so that the cache holds them all. */
static void chain(const float *planes, const Step *steps, int count, Py_ssize_t frames,
                  Py_ssize_t bins, Py_ssize_t stride, Py_ssize_t skip, float *const *rings,
                  float *out) {
    Py_ssize_t behind[STEPS] = {0}, last = count - 1;
    for (int k = 1; k < count; k++) behind[k] = behind[k - 1] + steps[k].late;
    for (Py_ssize_t now = 0; now < frames + behind[last]; now++) {
        for (int k = 0; k < count; k++) {
            const Step *step = &steps[k];
            Py_ssize_t frame = now - behind[k], size = step->channels * stride;
            if (frame < 0 || frame >= frames) continue;
            Py_ssize_t kept = k ? 2 * step->late + 1 : frames;
            const float *input = (k ? rings[k - 1] : planes) + PAD;
            Row row = {.step = step, .stride = stride, .rectified = k < last};
            for (int tap = 0; tap < 3; tap++) {
                Py_ssize_t near = frame + (tap - 1) * step->late;
                if (near >= 0 && near < frames) row.near[tap] = input + near % kept * size;
            }
            if (k == last)
                row.added = planes + PAD + (frame * steps[0].channels + skip) * stride;
            else if (k)
                row.added = row.near[1];
            Py_ssize_t room = k < last ? 2 * steps[k + 1].late + 1 : frames;
            row.out = (k < last ? rings[k] : out) + PAD + frame % room * step->outputs * stride;
            correlate(&row, bins);
            for (Py_ssize_t o = 0; o < step->outputs; o++)
                memset(row.out + o * stride + bins, 0, (stride - PAD - bins) * sizeof(float));
        }
    }
}

/* Each row less its mean, over its standard deviation, times `scale`, plus `shift`. The order of the
 * sums is the same at any width of vectors. */
LOOP(void, normalise, (const float *restrict x, const float *restrict scale,
      const float *restrict shift, float *restrict out, Py_ssize_t rows, Py_ssize_t width),
     (x, scale, shift, out, rows, width)) {
    for (Py_ssize_t row = 0; row < rows; row++, x += width, out += width) {
        float sums[SUMS] = {0}, mean = 0.0f, variance = 0.0f;
        Py_ssize_t i, whole = width - width % SUMS;
        for (i = 0; i < whole; i += SUMS)
            for (int k = 0; k < SUMS; k++) sums[k] += x[i + k];
        for (; i < width; i++) sums[i - whole] += x[i];
        for (int k = 0; k < SUMS; k++) mean += sums[k];
        mean /= (float)width;
        memset(sums, 0, sizeof sums);
        for (i = 0; i < whole; i += SUMS)
            for (int k = 0; k < SUMS; k++) sums[k] += (x[i + k] - mean) * (x[i + k] - mean);
        for (; i < width; i++) sums[i - whole] += (x[i] - mean) * (x[i] - mean);
        for (int k = 0; k < SUMS; k++) variance += sums[k];
        float inverse = 1.0f / sqrtf(variance / (float)width + 1e-5f);
        for (i = 0; i < width; i++) out[i] = (x[i] - mean) * inverse * scale[i] + shift[i];
    }
}

/* Each channel correlated over frames with its taps; beyond the ends there is zero. */
LOOP(void, dilate, (const float *restrict x, const float *restrict taps, Py_ssize_t count,
      Py_ssize_t distance, float *restrict out, Py_ssize_t frames, Py_ssize_t width),
     (x, taps, count, distance, out, frames, width)) {
    for (Py_ssize_t frame = 0; frame < frames; frame++, out += width) {
        memset(out, 0, width * sizeof(float));
        for (Py_ssize_t k = 0; k < count; k++) {
            Py_ssize_t near = frame + (k - count / 2) * distance;
            if (near < 0 || near >= frames) continue;
            for (Py_ssize_t i = 0; i < width; i++) out[i] += x[near * width + i] * taps[k * width + i];
        }
    }
}

LOOP(void, rectify, (float *restrict x, const float *restrict bias, Py_ssize_t rows,
      Py_ssize_t width), (x, bias, rows, width)) {
    for (Py_ssize_t row = 0; row < rows; row++, x += width) {
        for (Py_ssize_t i = 0; i < width; i++) {
            float sum = x[i] + bias[i], small = sum * SLOPE;
            x[i] = sum > small ? sum : small;
        }
    }
}

LOOP(void, add, (float *restrict x, const float *restrict change, const float *restrict bias,
      Py_ssize_t rows, Py_ssize_t width), (x, change, bias, rows, width)) {
    for (Py_ssize_t row = 0; row < rows; row++, x += width, change += width)
        for (Py_ssize_t i = 0; i < width; i++) x[i] += change[i] + bias[i];
}

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
    Py_ssize_t width = COUNT(b[1]), all = COUNT(b[0]), window = frames * width;
    if (frames < 1 || distance < 1 || !rows_of(&b[0], &b[1]) || all % window ||
        b[2].len != b[1].len || !rows_of(&b[3], &b[1]) || b[4].len != b[0].len) {
        unfit();
    } else if (!(normal = PyMem_RawMalloc(window * sizeof(float)))) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < all; at += window) {
            normalise(FLOATS(b[0]) + at, FLOATS(b[1]), FLOATS(b[2]), normal, frames, width);
            dilate(normal, FLOATS(b[3]), COUNT(b[3]) / width, distance, FLOATS(b[4]) + at, frames,
                   width);
        }
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyMem_RawFree(normal);
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

/* Fill a step from (weight, bias, late, high), and hold its buffers. */
static int step_from(PyObject *item, Py_ssize_t channels, Step *step, Py_buffer *b) {
    if (!PyTuple_Check(item)) return unfit() != NULL;
    if (!PyArg_ParseTuple(item, "O&O&nn", floats, &b[0], floats, &b[1], &step->late, &step->high))
        return 0;
    step->weight = FLOATS(b[0]), step->bias = FLOATS(b[1]);
    step->channels = channels, step->outputs = COUNT(b[1]);
    if (!step->outputs || COUNT(b[0]) != 9 * channels * step->outputs || step->late < 1 ||
        step->high < 1 || step->high > PAD) {
        finish(b, 2, NULL);
        return unfit() != NULL;
    }
    return 1;
}

/* Allocate the frames between the steps, in one piece. */
static float *rings_of(const Step *steps, int count, Py_ssize_t stride, float **rings) {
    Py_ssize_t places[STEPS], size = 0;
    for (int k = 0; k + 1 < count; k++) {
        places[k] = size;
        size += (2 * steps[k + 1].late + 1) * steps[k].outputs * stride + PAD;
    }
    float *memory = PyMem_RawCalloc(size + 1, sizeof(float));
    for (int k = 0; memory && k + 1 < count; k++) rings[k] = memory + places[k];
    return memory;
}

static PyObject *py_correlate(PyObject *self, PyObject *args) {
    Py_buffer b[2], held[STEPS][2]; /* planes, out; weights and biases */
    Py_ssize_t channels, bins, skip;
    Step steps[STEPS];
    PyObject *given, *result = NULL;
    float *rings[STEPS], *memory = NULL;
    int count = 0, sound = 1;
    if (!PyArg_ParseTuple(args, "nnnO!O&O&", &channels, &bins, &skip, &PyTuple_Type, &given, floats,
                          &b[0], written, &b[1]))
        return NULL;
    sound = channels > 0 && bins > 0 && skip >= 0 && PyTuple_GET_SIZE(given) <= STEPS;
    for (Py_ssize_t k = 0; sound && k < PyTuple_GET_SIZE(given); k++) {
        Py_ssize_t inputs = k ? steps[k - 1].outputs : channels;
        sound = step_from(PyTuple_GET_ITEM(given, k), inputs, &steps[k], held[k]);
        count += sound;
        sound = sound && (k < 1 || k + 1 == PyTuple_GET_SIZE(given) || steps[k].outputs == inputs);
    }
    Py_ssize_t stride = PAD + (bins + TILE - 1) / TILE * TILE, size = channels * stride;
    Py_ssize_t frames = sound ? (COUNT(b[0]) - PAD) / size : 0;
    if (!sound || !count || frames < 1 || COUNT(b[0]) != frames * size + PAD ||
        skip + steps[count - 1].outputs > channels ||
        COUNT(b[1]) != frames * steps[count - 1].outputs * stride) {
        unfit();
    } else if (!(memory = rings_of(steps, count, stride, rings))) {
        PyErr_NoMemory();
    } else {
        Py_BEGIN_ALLOW_THREADS
        chain(FLOATS(b[0]), steps, count, frames, bins, stride, skip, rings, FLOATS(b[1]));
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyMem_RawFree(memory);
    for (int k = 0; k < count; k++) finish(held[k], 2, NULL);
    return finish(b, 2, result);
}

static PyMethodDef methods[] = {
    {"mix", py_mix, METH_VARARGS, "mix(frames, distance, x, scale, shift, taps, out)"},
    {"rectify", py_rectify, METH_VARARGS, "rectify(x, bias)"},
    {"add", py_add, METH_VARARGS, "add(x, change, bias)"},
    {"correlate", py_correlate, METH_VARARGS, "correlate(channels, bins, skip, steps, planes, out)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "alphamf.learnt._network",
    .m_doc = "See alphamf.learnt.compiled.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__network(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (choose_level(module) || PyModule_AddIntConstant(module, "PAD", PAD) ||
                   PyModule_AddIntConstant(module, "TILE", TILE))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

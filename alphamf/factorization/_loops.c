/* The loops over the cells of alpha-MF, for float32 on a CPU.
 *
 * The same steps for other arrays are in alphamf/factorization/cells.py.
 */
#include "../inference/_float32.h"

/* As alphamf.tools.arrays.LOG_LIMIT and alphamf.factorization.cells.TINY, LARGEST and FLOOR. */
static const float LOG_LIMIT = 60.0f, LARGEST_PHI = 1.1420074e26f;
static const float TINY = 1e-12f, LARGEST = 1e30f, FLOOR = 1e-9f;

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

/* v, at least TINY, in place, and v^(exponent - 1). */
LOOP(void, bases, (float exponent, float *restrict v, float *restrict base, Py_ssize_t count),
     (exponent, v, base, count)) {
    if (exponent == 1.0f) {
        for (Py_ssize_t i = 0; i < count; i++) {
            v[i] = v[i] < TINY ? TINY : v[i];
            base[i] = 1.0f;
        }
    } else if (exponent == 2.0f) {
        for (Py_ssize_t i = 0; i < count; i++) {
            v[i] = v[i] < TINY ? TINY : v[i];
            base[i] = v[i];
        }
    } else {
        for (Py_ssize_t i = 0; i < count; i++) {
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
      float *restrict part, Py_ssize_t count), (v, base, phi, part, count)) {
    for (Py_ssize_t i = 0; i < count; i++) part[i] = part_of(phi[i], base[i], v[i]);
}

LOOP(void, add, (const float *restrict part, float *restrict total, Py_ssize_t count),
     (part, total, count)) {
    for (Py_ssize_t i = 0; i < count; i++) total[i] += part[i];
}

LOOP(void, invert, (const float *restrict x, float *restrict out, Py_ssize_t count),
     (x, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = 1.0f / x[i];
}

/* Accepted where log(u t) < q (1 - 1/t), with q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2;
 * `inverse` is 1 / sigma^2. */
LOOP(Py_ssize_t, accept, (const uint32_t *restrict words, const float *restrict proposals,
      const float *restrict power, const float *restrict v, const float *restrict base,
      const float *restrict rest, float *restrict phi, float *restrict part,
      float *restrict inverse, Py_ssize_t count),
     (words, proposals, power, v, base, rest, phi, part, inverse, count)) {
    int32_t accepted = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
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
      float *restrict minus, Py_ssize_t count),
     (scale, power, base, phi, inverse, plus, minus, count)) {
    for (Py_ssize_t i = 0; i < count; i++) {
        plus[i] = scale * (smaller(phi[i] * base[i], LARGEST) * inverse[i]);
        minus[i] = plus[i] * power[i] * inverse[i];
    }
}

LOOP(void, slope, (float scale, const float *restrict power, const float *restrict base,
      const float *restrict phi, const float *restrict inverse, float *restrict out,
      Py_ssize_t count), (scale, power, base, phi, inverse, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) {
        out[i] = scale * (smaller(phi[i] * base[i], LARGEST) * inverse[i])
                 * (1.0f - power[i] * inverse[i]);
    }
}

LOOP(void, share, (const float *restrict part, const float *restrict sigma2, float *restrict out,
      Py_ssize_t count), (part, sigma2, out, count)) {
    for (Py_ssize_t i = 0; i < count; i++) out[i] = part[i] / sigma2[i];
}

/* What `evaluate` is asked for; as alphamf.factorization.cells.CellOutput. */
enum { MOVE, SLOPES, SLOPE, GAIN, VARIANCE };

/* Sources of a mixture, at most, and cells that go through all steps together, whose arrays the
 * first cache holds; a multiple of LANES. */
#define SOURCES 6
#define PIECE 512

/* A source: its cells, NULL for a phi of two, for a state where Phi rests, for what is not asked
 * for; and room for a piece. */
struct source {
    float exponent, scale;
    float *v, *phi, *out[2];
    uint32_t *state;
    Py_ssize_t accepted;
    float base[PIECE], part[PIECE];
};

static float twos[PIECE];

static void total(const struct source *sources, int n, int but, float *sum, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) sum[i] = FLOOR;
    for (int s = 0; s < n; s++)
        if (s != but) add(sources[s].part, sum, count);
}

static const float *phi_at(const struct source *source, Py_ssize_t at) {
    return source->phi ? source->phi + at : twos;
}

static void move(struct source *sources, int n, int s, const float *power, float *inverse,
                 Py_ssize_t at, Py_ssize_t count) {
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
static void piece(struct source *sources, int n, int want, const float *power, Py_ssize_t at,
                  Py_ssize_t count) {
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
                     Py_ssize_t cells, Py_ssize_t all) {
    for (Py_ssize_t chain = 0; chain < all; chain += cells) {
        for (Py_ssize_t start = 0; start < cells; start += PIECE) {
            Py_ssize_t count = cells - start < PIECE ? cells - start : PIECE;
            piece(sources, n, want, power + start, chain + start, count);
        }
    }
}

/* v = response (W h) of a frame of the context, with W of shape (columns, bins). */
LOOP(void, activate, (const float *restrict h, const float *restrict basis,
      const float *restrict response, float *restrict v, Py_ssize_t columns, Py_ssize_t bins),
     (h, basis, response, v, columns, bins)) {
    for (Py_ssize_t i = 0; i < bins; i++) v[i] = 0.0f;
    for (Py_ssize_t k = 0; k < columns; k++) {
        const float *row = basis + k * bins;
        float x = h[k];
        for (Py_ssize_t i = 0; i < bins; i++) v[i] += x * row[i];
    }
    for (Py_ssize_t i = 0; i < bins; i++) v[i] *= response[i];
}

/* Add W^T (response slope), with the transpose of W, of shape (bins, columns). */
LOOP(void, gather, (const float *restrict slope, const float *restrict response,
      const float *restrict back, float *restrict out, Py_ssize_t columns, Py_ssize_t bins),
     (slope, response, back, out, columns, bins)) {
    for (Py_ssize_t i = 0; i < bins; i++) {
        const float *row = back + i * columns;
        float x = slope[i] * response[i];
        for (Py_ssize_t k = 0; k < columns; k++) out[k] += x * row[k];
    }
}

/* EM's multiplicative rule, with a Gamma prior of which `rate` and 1 - shape are given. */
LOOP(void, ascend, (float *restrict h, const float *restrict up, const float *restrict down,
      const float *restrict rate, float less, float exponent, Py_ssize_t columns),
     (h, up, down, rate, less, exponent, columns)) {
    for (Py_ssize_t k = 0; k < columns; k++) {
        float ratio = (down[k] + TINY) / (up[k] + rate[k] + less / h[k]);
        float x = h[k] * exp_(exponent * log_(ratio));
        h[k] = x < TINY ? TINY : x;
    }
}

/* Add the gain of a source, made from its slope, and its square. */
LOOP(void, note, (float half, const float *restrict plus, const float *restrict v,
      float *restrict total, float *restrict square, Py_ssize_t count),
     (half, plus, v, total, square, count)) {
    for (Py_ssize_t i = 0; i < count; i++) {
        float gain = half * plus[i] * v[i];
        total[i] += gain;
        square[i] += gain * gain;
    }
}

/* The newest frames of a spectrogram, shape (context, channels, bins); see
 * alphamf.factorization.online_steps. */
struct frames {
    Py_ssize_t context, channels, bins, columns;
    const float *power, *basis, *back, *response, *rate;
    float *noise, *phi, *h, *total, *square, *v, *plus, *minus;
    uint32_t *state;
};

static Py_ssize_t step(const struct frames *f, struct source *sources, float less, float exponent,
                       float *parts) {
    Py_ssize_t cells = f->channels * f->bins, size = f->columns * f->bins;
    memset(parts, 0, sizeof(float) * (size_t)(2 * f->channels * f->columns));
    sources[0].accepted = 0;
    for (Py_ssize_t c = 0; c < f->context; c++) {
        Py_ssize_t at = c * cells;
        for (Py_ssize_t k = 0; k < f->channels; k++)
            activate(f->h + k * f->columns, f->basis + c * size, f->response + k * f->bins,
                     f->v + at + k * f->bins, f->columns, f->bins);
        sources[0].v = f->v + at;
        sources[0].phi = f->phi ? f->phi + at : NULL;
        sources[0].state = c == f->context - 1 ? f->state : NULL;
        sources[0].out[0] = f->plus + at;
        sources[0].out[1] = f->minus + at;
        sources[1].v = f->noise + at;
        evaluate(sources, 2, SLOPES, f->power + at, cells, cells);
        for (Py_ssize_t k = 0; k < f->channels; k++) {
            const float *response = f->response + k * f->bins, *back = f->back + c * size;
            float *up = parts + 2 * k * f->columns;
            gather(f->plus + at + k * f->bins, response, back, up, f->columns, f->bins);
            gather(f->minus + at + k * f->bins, response, back, up + f->columns, f->columns,
                   f->bins);
        }
    }
    for (Py_ssize_t k = 0; k < f->channels; k++) {
        float *up = parts + 2 * k * f->columns;
        ascend(f->h + k * f->columns, up, up + f->columns, f->rate + k * f->columns, less, exponent,
               f->columns);
    }
    return sources[0].accepted;
}

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
        uint32_t words[2][PIECE];
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < COUNT(b[1]); at += PIECE) {
            Py_ssize_t count = COUNT(b[1]) - at < PIECE ? COUNT(b[1]) - at : PIECE;
            for (int k = 0; k < 2; k++) fill_words(WORDS(b[0]), words[k], count);
            fill_stable(words[0], words[1], h, FLOATS(b[1]) + at, count);
        }
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    return finish(b, 2, result);
}

/* Buffers of py_frame. */
enum { POWER, NOISE, FRAME_PHI, FRAME_STATE, BASIS, BACK, RESPONSE, RATES, GAINS, TOTAL, SQUARE,
       SPEECH, PLUS, MINUS, FRAME_BUFFERS };

static int fit_frames(const struct frames *f, const Py_buffer *b) {
    /* Of the buffers, as a product of what was asked for may overflow. */
    Py_ssize_t cells = f->channels * f->bins, context = cells ? COUNT(b[POWER]) / cells : 0;
    Py_ssize_t columns = COUNT(b[GAINS]) / f->channels;
    Py_ssize_t all = context * cells, gains = f->channels * columns;
    Py_ssize_t basis = context * columns * f->bins;
    Py_ssize_t sizes[] = {all, all, all, 4 * LANES, basis, basis, cells, gains, gains, cells, cells,
                          all, all, all};
    int fit = f->context == context && f->columns == columns;
    for (int k = 0; k < FRAME_BUFFERS; k++) fit = fit && (!b[k].obj || b[k].len == sizes[k] * 4);
    if (!fit) PyErr_SetString(PyExc_ValueError, "buffers do not fit each other");
    return fit;
}

static PyObject *py_frame(PyObject *self, PyObject *args) {
    static int (*const converters[])(PyObject *, void *) = {
        floats, written, written, generators, floats,  floats,  floats,
        floats, written, written, written,    written, written, written};
    Py_buffer b[FRAME_BUFFERS];
    PyObject *buffers, *result = NULL;
    struct frames f;
    struct source *sources = NULL;
    float *parts = NULL, alpha, less, exponent;
    int steps, keep;
    memset(b, 0, sizeof b);
    if (!PyArg_ParseTuple(args, "iifffnnnO!", &steps, &keep, &alpha, &less, &exponent, &f.context,
                          &f.channels, &f.columns, &PyTuple_Type, &buffers))
        return NULL;
    if (PyTuple_Size(buffers) != FRAME_BUFFERS || f.context < 1 || f.channels < 1 ||
        f.columns < 1) {
        PyErr_SetString(PyExc_ValueError, "so many buffers, or cells, cannot be asked for");
        return NULL;
    }
    for (int k = 0; k < FRAME_BUFFERS; k++) {
        PyObject *each = PyTuple_GetItem(buffers, k);
        if ((k == FRAME_PHI || k == FRAME_STATE) && each == Py_None) continue;
        if (!converters[k](each, &b[k])) goto end;
    }
    f.bins = COUNT(b[RESPONSE]) / f.channels;
    if (!fit_frames(&f, b)) goto end;
    sources = PyMem_Calloc(2, sizeof *sources);
    parts = PyMem_Calloc((size_t)(2 * f.channels * f.columns), sizeof *parts);
    if (!sources || !parts) {
        PyErr_NoMemory();
        goto end;
    }
    f.power = FLOATS(b[POWER]), f.noise = FLOATS(b[NOISE]), f.basis = FLOATS(b[BASIS]);
    f.phi = b[FRAME_PHI].obj ? FLOATS(b[FRAME_PHI]) : NULL;
    f.state = b[FRAME_STATE].obj && f.phi ? WORDS(b[FRAME_STATE]) : NULL;
    f.back = FLOATS(b[BACK]), f.response = FLOATS(b[RESPONSE]), f.rate = FLOATS(b[RATES]);
    f.h = FLOATS(b[GAINS]), f.total = FLOATS(b[TOTAL]), f.square = FLOATS(b[SQUARE]);
    f.v = FLOATS(b[SPEECH]), f.plus = FLOATS(b[PLUS]), f.minus = FLOATS(b[MINUS]);
    sources[0].exponent = sources[0].scale = 2.0f / alpha;
    sources[1].exponent = 1.0f;
    Py_ssize_t accepted = 0, cells = f.channels * f.bins, newest = (f.context - 1) * cells;
    Py_BEGIN_ALLOW_THREADS
    for (int k = 0; k < steps; k++) {
        accepted += step(&f, sources, less, exponent, parts);
        if (k >= steps - keep)
            note(0.5f * alpha, f.plus + newest, f.v + newest, f.total, f.square, cells);
    }
    Py_END_ALLOW_THREADS
    result = PyLong_FromSsize_t(accepted);
end:
    for (int k = 0; k < FRAME_BUFFERS; k++)
        if (b[k].obj) PyBuffer_Release(&b[k]);
    PyMem_Free(parts);
    PyMem_Free(sources);
    return result;
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
    {"frame", py_frame, METH_VARARGS,
     "frame(steps, keep, alpha, less, exponent, context, channels, columns, buffers) -> accepted"},
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
    for (int i = 0; i < PIECE; i++) twos[i] = 2.0f;
    if (module && (choose_level(module) || PyModule_AddIntConstant(module, "CHUNK", CHUNK) ||
                   PyModule_AddIntConstant(module, "SOURCES", SOURCES) ||
                   PyModule_AddIntConstant(module, "LANES", LANES))) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

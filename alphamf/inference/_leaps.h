/* Leaps on minibatches of a regression, for one type of numbers: see _leaps.c, which defines REAL
 * (float or double), EXP and NAME. */

/* Rows whose products are kept for the second pass over them, while the first cache holds them; a
 * multiple of the rows that are read side by side. */
#ifndef ROWS
#define ROWS 24
#define BESIDE 4
#define WIDTH 16
#endif

/* z_r = a_r'theta for BESIDE rows. */
INLINE void NAME(dots)(const REAL *const *rows, const REAL *restrict theta, REAL *restrict z,
                       ptrdiff_t size) {
    const REAL *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2],
               *restrict d = rows[3];
    REAL s[BESIDE][WIDTH] = {{0}};
    ptrdiff_t j = 0;
    for (; j + WIDTH <= size; j += WIDTH)
        for (int k = 0; k < WIDTH; k++) {
            REAL t = theta[j + k];
            s[0][k] += a[j + k] * t;
            s[1][k] += b[j + k] * t;
            s[2][k] += c[j + k] * t;
            s[3][k] += d[j + k] * t;
        }
    for (int k = 0; j < size; j++, k++) {
        s[0][k] += a[j] * theta[j];
        s[1][k] += b[j] * theta[j];
        s[2][k] += c[j] * theta[j];
        s[3][k] += d[j] * theta[j];
    }
    for (int r = 0; r < BESIDE; r++) {
        for (int half = WIDTH / 2; half; half /= 2)
            for (int k = 0; k < half; k++) s[r][k] += s[r][k + half];
        z[r] = s[r][0];
    }
}

/* Add residual times row to the gradient, for BESIDE rows. */
INLINE void NAME(sums)(const REAL *const *rows, const REAL *restrict e, REAL *restrict gradient,
                       ptrdiff_t size) {
    const REAL *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2],
               *restrict d = rows[3];
    for (ptrdiff_t j = 0; j < size; j++)
        gradient[j] += (e[0] * a[j] + e[1] * b[j]) + (e[2] * c[j] + e[3] * d[j]);
}

/* The sum over the chosen rows of residual times row. */
INLINE void NAME(gradient)(const Regression *data, const double *restrict chosen,
                           const REAL *restrict theta, REAL *restrict gradient) {
    const REAL *features = data->features, *values = data->values;
    ptrdiff_t size = data->size;
    for (ptrdiff_t j = 0; j < size; j++) gradient[j] = 0;
    for (ptrdiff_t start = 0; start < data->batch; start += ROWS) {
        const REAL *rows[ROWS];
        REAL z[ROWS], y[ROWS];
        int count = (int)(data->batch - start < ROWS ? data->batch - start : ROWS);
        int whole = (count + BESIDE - 1) / BESIDE * BESIDE;
        for (int r = 0; r < whole; r++) {
            /* What is left of the last rows side by side is one row again, with the residual 0. */
            double at = chosen[start + (r < count ? r : 0)] * (double)data->count;
            ptrdiff_t row = at >= 0 && at < (double)data->count ? (ptrdiff_t)at : 0;
            rows[r] = features + row * size;
            y[r] = values[row];
            for (ptrdiff_t j = 0; j < size; j += 64 / (ptrdiff_t)sizeof(REAL)) PREFETCH(rows[r] + j);
        }
        for (int r = 0; r < whole; r += BESIDE) NAME(dots)(rows + r, theta, z + r, size);
        if (data->logistic)
            for (int r = 0; r < whole; r++) z[r] = 1 / (1 + EXP(-z[r]));
        for (int r = 0; r < whole; r++) z[r] = r < count ? z[r] - y[r] : 0;
        for (int r = 0; r < whole; r += BESIDE) NAME(sums)(rows + r, z + r, gradient, size);
    }
}

EXPANDED(void, NAME(leaps), (const Regression *data, const Leaps *leaps), (data, leaps)) {
    ptrdiff_t size = data->size, chains = leaps->chains;
    const REAL *noise = leaps->noise;
    REAL *gradient = leaps->scratch, *thermostat = leaps->thermostat;
    REAL h = (REAL)leaps->h, spread = (REAL)leaps->spread, drift = (REAL)leaps->drift;
    REAL weight = (REAL)(data->weight / (double)data->batch), prior = (REAL)data->prior;
    for (ptrdiff_t c = 0; c < chains; c++) {
        REAL *restrict theta = (REAL *)leaps->theta + c * size;
        REAL *restrict p = leaps->momentum ? (REAL *)leaps->momentum + c * size : NULL;
        for (ptrdiff_t l = 0; l < leaps->count; l++) {
            const REAL *restrict z = noise + (l * chains + c) * size;
            NAME(gradient)(data, leaps->chosen + (l * chains + c) * data->batch, theta, gradient);
            if (!p) { /* Langevin: the kick moves theta itself */
                for (ptrdiff_t j = 0; j < size; j++) {
                    REAL g = weight * gradient[j] + prior * theta[j];
                    theta[j] += spread * z[j] - h * g;
                }
                continue;
            }
            REAL keep = thermostat ? 1 - h * thermostat[c] : (REAL)leaps->keep, energy = 0;
            for (ptrdiff_t j = 0; j < size; j++) {
                REAL g = weight * gradient[j] + prior * theta[j];
                p[j] = keep * p[j] + (spread * z[j] - h * g);
                theta[j] += drift * p[j];
            }
            if (!thermostat) continue;
            for (ptrdiff_t j = 0; j < size; j++) energy += p[j] * p[j];
            thermostat[c] += h * (energy / (REAL)size - 1);
        }
    }
}

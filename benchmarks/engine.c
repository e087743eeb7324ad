/* Drives the engine of low latency as a host does; see benchmarks/latency.py.
 *
 * Its calls of the allocator are counted by the linker's --wrap.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "../alphamf/native/alphamf.h"

#define MOST_CHANNELS 8
#define MOST_CHUNK 6000

void *__real_calloc(size_t count, size_t size);

static _Thread_local long allocations;

void *__wrap_calloc(size_t count, size_t size) {
    allocations++;
    return __real_calloc(count, size);
}

static void *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) exit(2);
    *size = (size_t)ftell(file);
    rewind(file);
    void *data = aligned_alloc(64, (*size + 64) / 64 * 64);
    if (!data || fread(data, 1, *size, file) != *size) exit(2);
    fclose(file);
    return data;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double cpu(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static uint32_t word(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static float even(uint64_t *state) { return (float)word(state) / 1073741824.0f - 1.0f; }

/* Feed sound in chunks of 10 ms; print the percentiles of their processor time and of the clock, in
 * shares of 10 ms, what they take in all, and page faults and allocations after the first chunk. */
static int measure(const void *weights, size_t size, int rate, int channels, const char *path) {
    size_t bytes;
    float *sound = read_all(path, &bytes), *planes[MOST_CHANNELS];
    long chunk = rate / 100, count = (long)(bytes / sizeof(float)) / channels / chunk;
    double *times[2] = {calloc((size_t)count, sizeof(double)), calloc((size_t)count, sizeof(double))};
    alphamf *engine = alphamf_create(weights, size, rate, channels, 1);
    if (!engine) return 2;
    for (int c = 0; c < channels; c++) planes[c] = calloc((size_t)chunk, sizeof(float));
    memset(times[0], 1, (size_t)count * sizeof(double)), memset(times[1], 1, (size_t)count * sizeof(double));
    long before = 0, allocated = 0;
    double all = 0.0;
    for (long k = 0; k < count; k++) {
        for (long i = 0; i < chunk; i++)
            for (int c = 0; c < channels; c++) planes[c][i] = sound[(k * chunk + i) * channels + c];
        if (k == 1) before = faults(), allocated = allocations;
        double start = cpu(), clock = now();
        alphamf_process(engine, (const float *const *)planes, planes, (int)chunk);
        times[1][k] = (now() - clock) * 100.0, times[0][k] = (cpu() - start) * 100.0;
        all += times[0][k] / 100.0;
    }
    before = faults() - before, allocated = allocations - allocated;
    printf("%.4f", all / (double)count * 100.0);
    for (int kind = 0; kind < 2; kind++) {
        qsort(times[kind], (size_t)count, sizeof(double), by_size);
        printf(" %.4f %.4f %.4f", times[kind][count / 2], times[kind][(long)(0.999 * (double)count)],
               times[kind][count - 1]);
    }
    printf(" %ld %ld\n", before, allocated);
    alphamf_destroy(engine);
    return 0;
}

/* Chunks of any size with all that a recording should not have, resets and copies of the state; the
 * output must be finite, and equal from a state that was copied. */
static int drive(const void *weights, size_t size, int rate, int channels, uint64_t seed, int chunks) {
    static _Thread_local float planes[2][MOST_CHANNELS][MOST_CHUNK];
    float *rows[2][MOST_CHANNELS];
    alphamf *engines[2];
    uint64_t state = seed * 2 + 1;
    for (int k = 0; k < 2; k++) {
        engines[k] = alphamf_create(weights, size, rate, channels, (int)(seed % 2));
        if (!engines[k]) return 2;
        for (int c = 0; c < channels; c++) rows[k][c] = planes[k][c];
    }
    void *saved = malloc(alphamf_state_size(engines[0]));
    float level = 0.1f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        uint32_t kind = word(&state) % 24;
        int count = (int)(word(&state) % (word(&state) % 8 ? MOST_CHUNK / 8 : MOST_CHUNK));
        if (kind == 0) level = 0.1f;
        if (kind == 1) level = 1e-4f;
        if (kind == 2) level = 0.0f;
        if (kind == 3) level = 1e30f;
        if (kind == 4) alphamf_reset(engines[0]), alphamf_reset(engines[1]);
        for (int k = 0; kind == 5 && k < 2; k++)
            alphamf_control(engines[k], fabsf(even(&state)), 0.0f), alphamf_control(engines[k], 0.5f, 0.1f);
        if (kind == 6) alphamf_save(engines[0], saved), alphamf_load(engines[1], saved);
        for (int c = 0; c < channels; c++)
            for (int i = 0; i < count; i++) {
                float x = level * even(&state);
                if (kind == 7 && word(&state) % 50 == 0) x = NAN;
                if (kind == 8 && word(&state) % 50 == 0) x = word(&state) % 2 ? INFINITY : -INFINITY;
                if (kind == 9) x = 1e-40f * even(&state);
                planes[0][c][i] = planes[1][c][i] = x;
            }
        for (int k = 0; k < 2; k++)
            alphamf_process(engines[k], (const float *const *)rows[k], rows[k], count);
        for (int c = 0; c < channels; c++)
            for (int i = 0; i < count; i++)
                if (!(fabsf(planes[0][c][i]) <= 1e15f) || planes[0][c][i] != planes[1][c][i]) {
                    printf("chunk %d of kind %u: %g and %g\n", chunk, kind, planes[0][c][i],
                           planes[1][c][i]);
                    return 1;
                }
    }
    free(saved);
    for (int k = 0; k < 2; k++) alphamf_destroy(engines[k]);
    return 0;
}

struct job {
    const void *weights;
    size_t size;
    int rate, chunks, result;
    double spent;
};

static void *work(void *given) {
    struct job *job = given;
    double start = cpu();
    job->result = drive(job->weights, job->size, job->rate, 1, 5, job->chunks);
    job->spent = cpu() - start;
    return NULL;
}

/* The same work in so many threads; prints the processor time of each. */
static int in_threads(const void *weights, size_t size, int rate, int count, int chunks) {
    pthread_t threads[64];
    struct job jobs[64];
    int result = 0;
    for (int k = 0; k < count; k++) {
        jobs[k] = (struct job){weights, size, rate, chunks, 0, 0.0};
        if (pthread_create(&threads[k], NULL, work, &jobs[k])) return 2;
    }
    for (int k = 0; k < count; k++) {
        pthread_join(threads[k], NULL);
        result |= jobs[k].result;
        printf("%.3f\n", jobs[k].spent);
    }
    return result;
}

static int run(const void *weights, size_t size, int count, char **words) {
    int rate = atoi(words[2]), channels = atoi(words[3]);
    if (!strcmp(words[4], "time")) return measure(weights, size, rate, channels, words[5]);
    if (count < 7) return 2;
    if (!strcmp(words[4], "random"))
        return drive(weights, size, rate, channels, (uint64_t)atol(words[5]), atoi(words[6]));
    return in_threads(weights, size, rate, atoi(words[5]), atoi(words[6]));
}

/* WEIGHTS RATE CHANNELS time SOUND | random SEED CHUNKS | threads COUNT CHUNKS */
int main(int count, char **words) {
    size_t size;
    if (count < 6) return 2;
    void *weights = read_all(words[1], &size);
    int result = run(weights, size, count, words);
    free(weights);
    return result;
}

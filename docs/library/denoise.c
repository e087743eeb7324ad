/* Removes noise from a WAV file of 16 bits: ./denoise WEIGHTS IN.wav OUT.wav */
#include <alphamf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = malloc(1u << 30);
    *size = file && data ? fread(data, 1, 1u << 30, file) : 0;
    if (file) fclose(file);
    return data;
}

int main(int count, char **words) {
    if (count != 4) return 2;
    size_t size, length;
    const char *weights = read_all(words[1], &size);
    char *wav = read_all(words[2], &length);
    if (length < 44 || memcmp(wav + 36, "data", 4) || wav[34] != 16) /* its header has 44 bytes */
        return fprintf(stderr, "%s: not a WAV file of 16 bits\n", words[2]), 2;
    int16_t channels, *pcm = (int16_t *)(wav + 44);
    int32_t rate;
    memcpy(&channels, wav + 22, 2), memcpy(&rate, wav + 24, 4);
    alphamf *engine = alphamf_create(weights, size, rate, channels, 1);
    if (!engine) return fprintf(stderr, "%s: not weights for %d Hz\n", words[1], (int)rate), 2;

    int samples = (int)((length - 44) / 2 / channels), late = alphamf_latency(engine);
    float *planes[64], **in = planes;
    for (int c = 0; c < channels; c++) {
        planes[c] = calloc(samples + late, sizeof(float));
        for (int k = 0; k < samples; k++) planes[c][k] = pcm[k * channels + c] / 32768.0f;
    }
    alphamf_process(engine, (const float *const *)in, planes, samples + late);
    for (int k = 0; k < samples * channels; k++) {
        float x = planes[k % channels][k / channels + late] * 32768.0f;
        pcm[k] = x > 32767 ? 32767 : x < -32768 ? -32768 : x;
    }
    alphamf_destroy(engine);
    FILE *out = fopen(words[3], "wb");
    return !out || fwrite(wav, 1, length, out) != length || fclose(out);
}

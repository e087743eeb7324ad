/* Reads the weights of an engine, which may come from a file that is broken. */
#include "_parts.h"

#include <math.h>
#include <string.h>

#include "../learnt/_panels.h"

/* No size is larger, so that no product of three overflows; as the networks' files are bounded. */
#define MOST 65536

/* What is left of the data; no start: too little was left. */
struct reader {
    const char *start;
    size_t left;
};

static const void *next(struct reader *reader, size_t count, size_t size) {
    size_t bytes = count * size, whole = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const void *found = reader->start;
    if (!found || whole > reader->left) {
        reader->start = NULL;
        return NULL;
    }
    reader->start += whole, reader->left -= whole;
    return found;
}

static const float *floats(struct reader *reader, size_t count) {
    return next(reader, count, sizeof(float));
}

static const int16_t *panels(struct reader *reader, size_t depth, size_t columns) {
    return next(reader, depth * ((columns + PANEL - 1) / PANEL * PANEL), sizeof(int16_t));
}

static int is_size(int32_t value) { return value > 0 && value <= MOST; }

static int suits(const struct header *h) {
    int sizes = is_size(h->window) && is_size(h->columns) && h->window % 2 == 0 &&
                h->bins == h->window / 2 + 1 && h->bins > 16 && h->rate > 0 && h->rate <= 768000 &&
                h->context > 0 && h->context <= 64 && h->stride > 0 && h->stride <= 64 &&
                h->alpha > 0.0f && h->alpha <= 2.0f;
    int network = is_size(h->width) && is_size(h->hidden) && h->blocks <= MOST_BLOCKS && h->maps > 1 &&
                  h->maps <= 256 && h->local > 0 && h->local <= 256 && h->deep >= 0 &&
                  h->deep <= MOST_DEEP && h->exponent > 0.0f && h->exponent < INFINITY;
    return sizes && h->blocks >= 0 && (h->blocks == 0 || network);
}

static void read_layers(struct reader *r, const struct header *h, struct layers *layers) {
    size_t bins = (size_t)h->bins, width = (size_t)h->width, hidden = (size_t)h->hidden;
    size_t maps = (size_t)h->maps, local = (size_t)h->local;
    layers->read = panels(r, FEATURES * bins, width), layers->read_bias = floats(r, width);
    for (int k = 0; k < h->blocks; k++) {
        struct block *block = &layers->blocks[k];
        block->scale = floats(r, width), block->shift = floats(r, width);
        block->taps = floats(r, TAPS * width);
        block->up = panels(r, width, hidden), block->up_bias = floats(r, hidden);
        block->down = panels(r, hidden, width), block->down_bias = floats(r, width);
    }
    layers->write = panels(r, width, maps * bins), layers->write_bias = floats(r, maps * bins);
    for (int k = 0; k < h->deep + 2; k++) {
        size_t inputs = k ? local : FEATURES + maps, outputs = k == h->deep + 1 ? OUTPUTS_OF_CELL : local;
        layers->weight[k] = floats(r, 9 * inputs * outputs), layers->bias[k] = floats(r, outputs);
    }
}

int read_weights(const void *data, size_t size, struct weights *weights) {
    struct reader reader = {data, size};
    struct header *header = &weights->header;
    const void *first = next(&reader, 1, sizeof *header);
    if (!first) return 0;
    memcpy(header, first, sizeof *header);
    if (memcmp(header->magic, MAGIC, sizeof header->magic) || !suits(header)) return 0;
    weights->basis = floats(&reader, (size_t)header->context * (size_t)header->columns * (size_t)header->bins);
    if (header->blocks) read_layers(&reader, header, &weights->layers);
    return reader.start != NULL;
}

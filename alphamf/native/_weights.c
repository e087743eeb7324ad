/* Reads the weights of an engine, which may come from a file that is broken. */
#include <math.h>
#include <string.h>

#include "_panels.h"
#include "_parts.h"

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

static struct matrix matrix(struct reader *reader, size_t depth, size_t columns) {
    size_t words = (depth + 3) / 4 * ((columns + PANEL - 1) / PANEL * PANEL);
    const uint32_t *first = next(reader, words, sizeof *first);
    return (struct matrix){first, floats(reader, columns)};
}

static int is_size(int32_t value) { return value > 0 && value <= MOST; }

static int is_network(const struct sizes *s) {
    return is_size(s->width) && is_size(s->hidden) && s->blocks > 0 && s->blocks <= MOST_BLOCKS &&
           s->maps > 1 && s->maps <= 256 && s->local > 0 && s->local <= 256 && s->deep >= 0 &&
           s->deep <= MOST_DEEP && s->exponent > 0.0f && s->exponent < INFINITY;
}

static int suits(const struct header *h) {
    int sizes = is_size(h->window) && is_size(h->columns) && h->window % 2 == 0 &&
                h->bins == h->window / 2 + 1 && h->bins > 16 && h->rate > 0 && h->rate <= 768000 &&
                h->context > 0 && h->context <= 64 && h->stride > 0 && h->stride <= 64 &&
                h->alpha > 0.0f && h->alpha <= 2.0f;
    const struct sizes *networks[] = {&h->refiner, &h->second, &h->bands};
    for (int k = 0; k < 3; k++) sizes = sizes && (networks[k]->blocks == 0 || is_network(networks[k]));
    return sizes;
}

static void read_layers(struct reader *r, const struct sizes *s, size_t bins, struct layers *layers) {
    size_t width = (size_t)s->width, hidden = (size_t)s->hidden;
    size_t maps = (size_t)s->maps, local = (size_t)s->local;
    layers->read = matrix(r, FEATURES * bins, width), layers->read_bias = floats(r, width);
    for (int k = 0; k < s->blocks; k++) {
        struct block *block = &layers->blocks[k];
        block->scale = floats(r, width), block->shift = floats(r, width);
        block->taps = floats(r, TAPS * width);
        block->up = matrix(r, width, hidden), block->up_bias = floats(r, hidden);
        block->down = matrix(r, hidden, width), block->down_bias = floats(r, width);
    }
    layers->write = matrix(r, width, maps * bins), layers->write_bias = floats(r, maps * bins);
    for (int k = 0; k < s->deep + 2; k++) {
        size_t inputs = k ? local : FEATURES + maps, outputs = k == s->deep + 1 ? OUTPUTS_OF_CELL : local;
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
    if (header->refiner.blocks)
        read_layers(&reader, &header->refiner, (size_t)header->bins, &weights->layers);
    if (header->second.blocks)
        read_layers(&reader, &header->second, (size_t)second_bins(header), &weights->second_layers);
    if (header->bands.blocks) read_layers(&reader, &header->bands, BANDS, &weights->band_layers);
    return reader.start != NULL;
}

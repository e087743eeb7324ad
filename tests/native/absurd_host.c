/* A host of VST 3 that does what hosts should not: absurd_host PLUGIN; says "survived" at the end. */
#if defined(_WIN32)
void *LoadLibraryA(const char *), *GetProcAddress(void *, const char *);
int FreeLibrary(void *);
#define dlopen(name, flags) LoadLibraryA(name)
#define dlsym GetProcAddress
#define ENTRY "InitDll"
#define EXIT "ExitDll"
#define dlclose FreeLibrary
#define dlerror() "it cannot be loaded"
#else
#include <dlfcn.h>
#define ENTRY "ModuleEntry"
#define EXIT "ModuleExit"
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "_vst3.h"

#define CHECK(true)                                                                   \
    do {                                                                              \
        if (!(true)) printf("line %d: %s\n", __LINE__, #true), fflush(stdout), exit(1); \
    } while (0)
#define CALL(object, name, ...) (*(object))->name((void *)(object), ##__VA_ARGS__)

enum { STRENGTH, ATTENUATION, BYPASS, LENGTH = 4800, HALF = LENGTH / 2 };
typedef const struct component_functions *Component;
typedef const struct processor_functions *Processor;
typedef const struct controller_functions *Controller;
typedef const struct factory_functions *Factory;

static Factory *factory;
static char class[16];

/* A stream of bytes that ends, fails or gives a byte at a time. */
static struct memory {
    Stream stream;
    char bytes[64];
    int32_t size, place, at_most;
    Result result;
} memory;

static Result read_memory(void *self, void *to, int32_t size, int32_t *read) {
    struct memory *from = self;
    if (size > from->at_most) size = from->at_most;
    if (size > from->size - from->place) size = from->size - from->place;
    memcpy(to, from->bytes + from->place, (size_t)size);
    from->place += size;
    *read = size;
    return from->result;
}

static Result write_memory(void *self, void *from, int32_t size, int32_t *written) {
    struct memory *to = self;
    if (size > to->at_most) size = to->at_most;
    CHECK(to->place + size <= (int32_t)sizeof to->bytes);
    memcpy(to->bytes + to->place, from, (size_t)size);
    to->size = to->place += size;
    *written = size;
    return to->result;
}

static const struct stream_functions STREAM = {.read = read_memory, .write = write_memory};

static Stream *new_stream(int32_t at_most, Result result) {
    memory.stream.call = &STREAM;
    memory.place = 0, memory.at_most = at_most, memory.result = result;
    return &memory.stream;
}

/* Changes of one parameter: three queues, of which one is NULL and one of no parameter. */
struct point {
    int32_t offset;
    double value;
};
static struct queue {
    Points points;
    uint32_t id;
    int32_t count;
    const struct point *all;
} queues[2];

static uint32_t queue_id(void *self) { return ((struct queue *)self)->id; }
static int32_t queue_count(void *self) { return ((struct queue *)self)->count; }
static Result queue_point(void *self, int32_t index, int32_t *offset, double *value) {
    *offset = ((struct queue *)self)->all[index].offset;
    *value = ((struct queue *)self)->all[index].value;
    return *offset == 12345 ? NO : OK;
}
static int32_t count_queues(void *self) {
    (void)self;
    return 3;
}
static Points *queue_of(void *self, int32_t index) {
    (void)self;
    return index == 1 ? NULL : &queues[index / 2].points;
}

static const struct points_functions POINTS = {
    .getParameterId = queue_id, .getPointCount = queue_count, .getPoint = queue_point};
static const struct changes_functions CHANGES = {
    .getParameterCount = count_queues, .getParameterData = queue_of};

static Changes *new_changes(uint32_t id, const struct point *points, int32_t count) {
    static Changes changes = {&CHANGES};
    queues[0] = (struct queue){{&POINTS}, id, count, points};
    queues[1] = (struct queue){{&POINTS}, 0xFFFFFFFFu, 1, points};
    return &changes;
}

static Component *create(void) {
    void *made = NULL;
    CHECK(CALL(factory, createInstance, class, COMPONENT, &made) == OK && made);
    return made;
}

static Processor *ready(Component *component, uint64_t speakers, double rate) {
    void *found = NULL;
    CHECK(CALL(component, queryInterface, PROCESSOR, &found) == OK);
    Processor *processor = found;
    struct setup setup = {0, FLOAT_32, LENGTH, rate};
    CHECK(CALL(processor, setBusArrangements, &speakers, 1, &speakers, 1) == OK);
    CHECK(CALL(processor, setupProcessing, &setup) == OK);
    CHECK(CALL(component, setActive, 1) == OK);
    CHECK(CALL(processor, setProcessing, 1) == OK);
    return processor;
}

static void close(Component *component, Processor *processor) {
    CALL(component, setActive, 0);
    CALL(processor, release);
    CHECK(CALL(component, release) == 0);
}

static float sound(int k) { return 0.3f * sinf(0.05f * (float)k) + 0.1f * sinf((float)(k * k % 7919)); }

static float *filled(float *to, float scale) {
    for (int k = 0; k < LENGTH; k++) to[k] = scale * sound(k);
    return to;
}

/* Process two channels in blocks, into `out`; a plane may be NULL. */
static void play(Processor *processor, float *in[2], uint64_t silent, float *out[2], int32_t size,
                 Changes *changes) {
    for (int32_t at = 0; at < LENGTH; at += size) {
        float *from[2] = {in[0] ? in[0] + at : NULL, in[1] ? in[1] + at : NULL};
        float *to[2] = {out[0] ? out[0] + at : NULL, out[1] ? out[1] + at : NULL};
        struct buffers input = {2, silent, from}, output = {2, 3, to};
        struct block block = {0, FLOAT_32, size, 1, 1, &input, &output, changes, 0, 0, 0, 0};
        CHECK(CALL(processor, process, &block) == OK && output.silent == 0);
    }
}

static void the_factory(void) {
    void *found = &found;
    struct factory_info about;
    struct class_info first;
    struct class_info_2 second;
    struct class_info_wide wide;
    uint32_t before = CALL(factory, addRef);
    CHECK(CALL(factory, release) == before - 1);
    CHECK(CALL(factory, queryInterface, FACTORY_3, &found) == OK && found == factory);
    CHECK(CALL(factory, release) == before - 1);
    CHECK(CALL(factory, queryInterface, CONTROLLER, &found) == NO_INTERFACE && !found);
    CHECK(CALL(factory, queryInterface, NULL, &found) != OK && CALL(factory, queryInterface, UNKNOWN, NULL) != OK);
    CHECK(CALL(factory, countClasses) == 1 && CALL(factory, getFactoryInfo, &about) == OK);
    CHECK(CALL(factory, getFactoryInfo, NULL) != OK && CALL(factory, setHostContext, NULL) == OK);
    for (int32_t index = -1; index < 2; index++) {
        CHECK((CALL(factory, getClassInfo, index, &first) == OK) == !index);
        CHECK((CALL(factory, getClassInfo2, index, &second) == OK) == !index);
        CHECK((CALL(factory, getClassInfoUnicode, index, &wide) == OK) == !index);
    }
    CHECK(CALL(factory, getClassInfo, 0, NULL) != OK && CALL(factory, getClassInfo2, 0, NULL) != OK);
    CHECK(CALL(factory, getClassInfoUnicode, 0, NULL) != OK);
    memcpy(class, first.class, sizeof class);
    CHECK(!memcmp(class, wide.class, sizeof class) && wide.name[0] == 'a' && wide.name[7] == 0);
    CHECK(CALL(factory, createInstance, COMPONENT, COMPONENT, &found) != OK && !found);
    CHECK(CALL(factory, createInstance, class, FACTORY, &found) == NO_INTERFACE && !found);
    CHECK(CALL(factory, createInstance, NULL, COMPONENT, &found) != OK);
    CHECK(CALL(factory, createInstance, class, NULL, &found) != OK);
    CHECK(CALL(factory, createInstance, class, COMPONENT, NULL) != OK);
}

static void references(void) {
    Component *component = create();
    const char *const wanted[] = {COMPONENT, PROCESSOR, CONTROLLER, UNKNOWN, BASE};
    const struct unknown_functions **found[5], **same;
    for (uint32_t k = 0; k < 5; k++) {
        CHECK(CALL(component, queryInterface, wanted[k], (void **)&found[k]) == OK);
        CHECK(CALL(found[k], addRef) == k + 3 && CALL(found[k], release) == k + 2);
    }
    for (int k = 0; k < 5; k++) {
        CHECK(CALL(found[k], queryInterface, UNKNOWN, (void **)&same) == OK && same == found[3]);
        CALL(same, release);
        CHECK(CALL(found[k], queryInterface, FACTORY, (void **)&same) == NO_INTERFACE && !same);
        CHECK(CALL(found[k], queryInterface, UNKNOWN, NULL) != OK);
        CHECK(CALL(found[k], queryInterface, NULL, (void **)&same) != OK);
    }
    CHECK(CALL(component, release) == 5);
    for (uint32_t k = 0; k < 5; k++) CHECK(CALL(found[k], release) == 4 - k);
}

static void questions(void) {
    Component *component = create();
    Processor *processor;
    Controller *controller;
    CALL(component, queryInterface, PROCESSOR, (void **)&processor);
    CALL(component, queryInterface, CONTROLLER, (void **)&controller);
    CHECK(CALL(component, terminate) == OK && CALL(component, initialize, NULL) == OK);
    CHECK(CALL(controller, initialize, NULL) == OK && CALL(controller, setComponentHandler, NULL) == OK);
    struct bus bus;
    struct parameter parameter;
    uint64_t speakers[2] = {STEREO, MONO};
    for (int32_t index = -1; index < 4; index++)
        for (int32_t direction = -1; direction < 3; direction++) {
            int32_t known = !index && (direction == IN || direction == OUT);
            CHECK((CALL(component, getBusInfo, SOUND, direction, index, &bus) == OK) == known);
            CHECK((CALL(component, activateBus, SOUND, direction, index, 1) == OK) == known);
            CHECK((CALL(processor, getBusArrangement, direction, index, speakers) == OK) == known);
            CHECK(CALL(component, getBusInfo, 1, direction, index, &bus) != OK);
        }
    CHECK(CALL(component, getBusCount, SOUND, OUT) == 1 && CALL(component, getBusCount, 1, IN) == 0);
    CHECK(CALL(component, getBusInfo, SOUND, IN, 0, NULL) != OK);
    CHECK(CALL(processor, getBusArrangement, IN, 0, NULL) != OK);
    CHECK(CALL(component, getControllerClassId, NULL) != OK && CALL(component, getRoutingInfo, NULL, NULL) != OK);
    CALL(component, setIoMode, 77);
    CHECK(CALL(processor, setBusArrangements, NULL, 1, NULL, 1) != OK);
    CHECK(CALL(processor, setBusArrangements, speakers, 0, speakers, 0) != OK);
    CHECK(CALL(processor, setBusArrangements, speakers, 1, speakers + 1, 1) != OK);
    CHECK(CALL(processor, setBusArrangements, speakers, 2, speakers, 2) != OK);
    speakers[0] = 7;
    CHECK(CALL(processor, setBusArrangements, speakers, 1, speakers, 1) != OK);
    CHECK(CALL(processor, canProcessSampleSize, 1) != OK && CALL(processor, canProcessSampleSize, 0) == OK);
    CHECK(CALL(processor, getLatencySamples) == 1920 && CALL(processor, getTailSamples) == 0);
    const double rates[] = {0.0, -48000.0, NAN, INFINITY, -INFINITY, 1e9, 999.0};
    CHECK(CALL(processor, setupProcessing, NULL) != OK);
    for (int k = 0; k < 7; k++)
        CHECK(CALL(processor, setupProcessing, (&(struct setup){0, 0, 1, rates[k]})) != OK);
    CHECK(CALL(processor, setupProcessing, (&(struct setup){0, 1, 1, 48000.0})) != OK);
    CHECK(CALL(processor, setupProcessing, (&(struct setup){2, 0, -1, 8000.0})) == OK);
    CHECK(CALL(processor, getLatencySamples) == 320);
    for (int32_t index = -1; index < 5; index++) {
        int known = index >= 0 && index < CALL(controller, getParameterCount);
        uint32_t id = (uint32_t)index;
        int16_t text[128];
        double value = 0.25;
        CHECK((CALL(controller, getParameterInfo, index, &parameter) == OK) == known);
        CHECK((CALL(controller, setParamNormalized, id, 0.25) == OK) == known);
        CHECK(CALL(controller, getParamNormalized, id) == (known ? 0.25 : 0.0));
        CHECK(CALL(controller, setParamNormalized, id, NAN) != OK);
        CHECK((CALL(controller, setParamNormalized, id, 1e300) == OK) == known);
        CHECK(CALL(controller, getParamNormalized, id) == (known ? 1.0 : 0.0));
        for (int k = 0; k < 4; k++) {
            double each = (const double[]){0.0, 1.0, 0.456, 0.999999}[k];
            CHECK((CALL(controller, getParamStringByValue, id, each, text) == OK) == known);
            CHECK((CALL(controller, getParamValueByString, id, text, &value) == OK) == known);
            if (index < BYPASS && known) CHECK(fabs(value - each) < 0.0051);
        }
        for (int k = 0; k < 5; k++)
            CALL(controller, getParamStringByValue, id, rates[k], text);
        CHECK(CALL(controller, getParamStringByValue, id, 0.5, NULL) != OK);
        CHECK(CALL(controller, getParamValueByString, id, NULL, &value) != OK);
        CHECK(CALL(controller, getParamValueByString, id, text, NULL) != OK);
        for (int k = 0; k < 128; k++) text[k] = k % 50 ? '9' : '.';
        if (CALL(controller, getParamValueByString, id, text, &value) == OK) CHECK(value >= 0.0 && value <= 1.0);
        memset(text, -1, sizeof text);
        CHECK(CALL(controller, getParamValueByString, id, text, &value) != OK);
        for (int k = 0; k < 5; k++) {
            value = CALL(controller, plainParamToNormalized, id, rates[k]);
            CHECK(value >= 0.0 && value <= 1.0);
            value = CALL(controller, normalizedParamToPlain, id, rates[k]);
            CHECK(value >= 0.0 && value <= 100.0);
        }
    }
    CHECK(CALL(controller, getParameterInfo, 0, NULL) != OK && !CALL(controller, createView, NULL));
    CALL(controller, release);
    CALL(processor, release);
    CHECK(CALL(component, release) == 0);
}

static void states(void) {
    Component *component = create();
    Controller *controller;
    CALL(component, queryInterface, CONTROLLER, (void **)&controller);
    CHECK(CALL(component, getState, NULL) != OK && CALL(component, setState, NULL) != OK);
    CHECK(CALL(controller, getState, NULL) == OK && CALL(controller, setState, NULL) == OK);
    CHECK(CALL(component, getState, new_stream(0, OK)) != OK);
    CHECK(CALL(component, getState, new_stream(64, NO)) != OK);
    CALL(controller, setParamNormalized, ATTENUATION, 0.25);
    CHECK(CALL(component, getState, new_stream(1, OK)) == OK && memory.size == 20);
    CALL(controller, setParamNormalized, ATTENUATION, 0.75);
    CHECK(CALL(component, setState, new_stream(0, OK)) != OK);
    CHECK(CALL(component, setState, new_stream(64, NO)) != OK);
    memory.size = 19;
    CHECK(CALL(component, setState, new_stream(64, OK)) != OK);
    memory.size = 20;
    memory.bytes[0]++;
    CHECK(CALL(component, setState, new_stream(64, OK)) != OK);
    CHECK(CALL(controller, getParamNormalized, ATTENUATION) == 0.75);
    memory.bytes[0]--;
    CHECK(CALL(component, setState, new_stream(3, OK)) == OK);
    CHECK(CALL(controller, getParamNormalized, ATTENUATION) == 0.25);
    const float bad[3] = {NAN, INFINITY, -1.0f};
    memcpy(memory.bytes + 8, bad, sizeof bad);
    CHECK(CALL(controller, setComponentState, new_stream(64, OK)) == OK);
    CHECK(CALL(controller, getParamNormalized, STRENGTH) == 1.0);
    CHECK(CALL(controller, getParamNormalized, ATTENUATION) == 1.0);
    CHECK(CALL(controller, getParamNormalized, BYPASS) == 0.0);
    CALL(controller, release);
    CHECK(CALL(component, release) == 0);
}

static float wanted[2][LENGTH], in[2][LENGTH], out[2][LENGTH];

static void equal(int channel) { CHECK(!memcmp(wanted[channel], out[channel], sizeof *out)); }

static void blocks(void) {
    Component *component = create();
    Processor *processor = ready(component, STEREO, 48000.0);
    float *from[2] = {filled(in[0], 1.0f), filled(in[1], 0.5f)};
    float *to[2] = {wanted[0], wanted[1]};
    play(processor, from, 0, to, 480, NULL);
    CHECK(fabsf(wanted[1][LENGTH - 700]) > 0.0f);

    CALL(processor, setProcessing, 1); /* in place, in blocks of one */
    float *same[2] = {filled(out[0], 1.0f), filled(out[1], 0.5f)};
    play(processor, same, 0, same, 1, NULL);
    equal(0), equal(1);

    CALL(component, setActive, 1); /* a plane that is missing, the other is as it was */
    float *lacking[2] = {NULL, out[1]};
    play(processor, from, 0, lacking, LENGTH, NULL);
    equal(1);

    CALL(processor, setProcessing, 1); /* silence: as zeros, whatever is in the plane */
    memset(in[1], 0, sizeof in[1]);
    play(processor, from, 0, to, 960, NULL);
    for (int k = 0; k < LENGTH; k++) in[1][k] = NAN;
    float *all[2] = {out[0], out[1]};
    CALL(processor, setProcessing, 1);
    play(processor, from, 2, all, LENGTH, NULL);
    equal(0), equal(1);
    CALL(processor, setProcessing, 1);
    play(processor, (float *[2]){from[0], NULL}, 0, all, LENGTH, NULL);
    equal(0), equal(1);

    CALL(processor, setProcessing, 1); /* what is no sound comes out as sound */
    const float bad[] = {NAN, INFINITY, -INFINITY, 1e38f, -1e30f, 1e-45f};
    for (int k = 0; k < LENGTH; k++) in[0][k] = bad[k % 6];
    play(processor, from, 0, all, 600, NULL);
    for (int k = 0; k < LENGTH; k++) CHECK(isfinite(out[0][k]) && isfinite(out[1][k]));
    close(component, processor);
}

static void absurd_blocks(void) {
    Component *component = create();
    Processor *processor;
    CALL(component, queryInterface, PROCESSOR, (void **)&processor);
    float *planes[5] = {in[0], in[1], out[0], out[1], wanted[0]};
    struct buffers input = {2, 0, planes}, output = {3, 0, planes + 2};
    struct block block = {0, FLOAT_32, 256, 1, 1, &input, &output, 0, 0, 0, 0, 0};
    filled(out[0], 1.0f);
    CHECK(CALL(processor, process, &block) == OK && out[0][5] == 0.0f); /* not active */
    CALL(processor, setProcessing, 1);
    CALL(processor, release);
    processor = ready(component, STEREO, 44100.0);
    uint64_t mono = MONO;
    CHECK(CALL(processor, setBusArrangements, &mono, 1, &mono, 1) != OK); /* it is active */
    CHECK(CALL(processor, setupProcessing, (&(struct setup){0, 0, 64, 8000.0})) != OK);
    CHECK(CALL(processor, getLatencySamples) == 1760);
    CHECK(CALL(processor, process, NULL) != OK);
    filled(wanted[0], 1.0f);
    CHECK(CALL(processor, process, &block) == OK && wanted[0][255] == 0.0f && wanted[0][256] != 0.0f);
    for (int kind = 0; kind < 12; kind++) {
        struct buffers odd_in = input, odd_out = output;
        struct block odd = block;
        odd.in = &odd_in, odd.out = &odd_out;
        if (kind == 0) odd.count = 0;
        if (kind == 1) odd.in = NULL;
        if (kind == 2) odd.out = NULL;
        if (kind == 3) odd.in = odd.out = NULL, odd.count = LENGTH;
        if (kind == 4) odd.inputs = odd.outputs = 0;
        if (kind == 5) odd.inputs = odd.outputs = -3;
        if (kind == 6) odd_in.planes = odd_out.planes = NULL;
        if (kind == 7) odd_in.channels = odd_out.channels = 0;
        if (kind == 8) odd_in.channels = odd_out.channels = -1;
        if (kind == 9) odd_in.channels = 1;
        if (kind == 10) odd_out.channels = 1, odd_in.silent = ~(uint64_t)0;
        if (kind == 11) odd.count = 0, odd.in = odd.out = NULL, odd.inputs = odd.outputs = 0;
        CHECK(CALL(processor, process, &odd) == OK);
    }
    block.count = -1;
    CHECK(CALL(processor, process, &block) != OK);
    block.count = 256, block.sample = 1;
    CHECK(CALL(processor, process, &block) != OK);
    close(component, processor);
}

static void changes(void) {
    Component *component = create();
    Processor *processor = ready(component, STEREO, 48000.0);
    Controller *controller;
    CALL(component, queryInterface, CONTROLLER, (void **)&controller);
    float *from[2] = {filled(in[0], 1.0f), filled(in[1], 0.5f)}, *to[2] = {wanted[0], wanted[1]};
    float *all[2] = {out[0], out[1]};
    const struct point change[] = {{HALF, 0.25}};
    /* In two blocks, the second with a change, or in one with the change in the middle. */
    for (int half = 0; half < 2; half++) {
        float *source[2] = {from[0] + HALF * half, from[1] + HALF * half};
        float *target[2] = {to[0] + HALF * half, to[1] + HALF * half};
        struct buffers input = {2, 0, source}, output = {2, 0, target};
        struct block block = {0, FLOAT_32, HALF, 1, 1, &input, &output, 0, 0, 0, 0, 0};
        CALL(processor, process, &block);
        CALL(controller, setParamNormalized, STRENGTH, 0.25);
    }
    CALL(controller, setParamNormalized, STRENGTH, 1.0);
    CALL(processor, setProcessing, 1);
    play(processor, from, 0, all, LENGTH, new_changes(STRENGTH, change, 1));
    CHECK(CALL(controller, getParamNormalized, STRENGTH) == 0.25);
    equal(0), equal(1);

    const struct point odd[] = {{-7, 0.9}, {500, NAN}, {400, 0.2}, {12345, 0.0}, {1 << 30, INFINITY}, {3, -1.0}, {4000, 0.75}};
    play(processor, from, 0, all, 960, new_changes(BYPASS, odd, 7));
    CHECK(CALL(controller, getParamNormalized, BYPASS) == 0.75);
    for (int k = 0; k < 2; k++) {
        play(processor, from, 0, all, LENGTH, new_changes(k ? 3 : STRENGTH, odd, k ? 7 : -7));
        CHECK(CALL(controller, getParamNormalized, STRENGTH) == 0.25);
    }
    struct block nothing = {0, FLOAT_32, 0, 0, 0, 0, 0, new_changes(ATTENUATION, odd, 7), 0, 0, 0, 0};
    CHECK(CALL(processor, process, &nothing) == OK);
    CHECK(CALL(controller, getParamNormalized, ATTENUATION) == 0.75);
    CALL(controller, release);
    close(component, processor);
}

static void rates(void) {
    const double each[] = {8000, 11025, 16000, 22050, 32000, 44100, 48000, 88200, 96000, 176400, 192000};
    for (int k = 0; k < 11; k++) {
        Component *component = create();
        Processor *processor = ready(component, k % 2 ? MONO : STEREO, each[k]);
        float *from[2] = {filled(in[0], 1.0f), filled(in[1], 0.5f)}, *to[2] = {out[0], out[1]};
        play(processor, from, 0, to, 960, NULL);
        CHECK(fabs(CALL(processor, getLatencySamples) / each[k] - 0.04) < 0.001);
        close(component, processor);
    }
}

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return fprintf(stderr, "%s\n", count > 1 ? dlerror() : "no plug-in"), 2;
    uint8_t (*enter)(void *) = (uint8_t (*)(void *))dlsym(library, ENTRY);
    uint8_t (*leave)(void) = (uint8_t (*)(void))dlsym(library, EXIT);
    void *(*get)(void) = (void *(*)(void))dlsym(library, "GetPluginFactory");
    CHECK(enter && leave && get && enter(library) && (factory = get()) && get() == factory);
    CALL(factory, release);
    the_factory(), references(), questions(), states(), blocks(), absurd_blocks(), changes(), rates();
    CHECK(CALL(factory, release) == 0 && leave());
    dlclose(library);
    puts("survived");
    return 0;
}

/* The engine as a plug-in of VST 3: one class that is component, processor and controller.
 *
 * A host may call the controller in one thread while another processes, so what both use is atomic.
 * The engine is made when the plug-in becomes active or is asked for its latency, and not after.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "_plugin.h"
#include "_vst3.h"

#define VERSION "0.1.0"
#define SDK "VST 3.7.7"
/* Samples a call where the host lacks a buffer of ours. */
#define SPARE 512

static const char STATE[8] = "alphamf";

enum { STRENGTH, ATTENUATION, BYPASS, PARAMETERS };

static const struct {
    const char *name, *unit;
    int steps;
    float first, largest; /* plain */
    int decimals, flags;
} ABOUT[PARAMETERS] = {
    {"Strength", "", 0, 1.0f, 1.0f, 2, AUTOMATED},
    {"Most attenuation", "dB", 0, NO_LIMIT, NO_LIMIT, 1, AUTOMATED},
    {"Bypass", "", 1, 0.0f, 1.0f, 0, AUTOMATED | IS_BYPASS},
};

struct effect {
    /* The interfaces, each a pointer to its functions. */
    const struct component_functions *component;
    const struct processor_functions *processor;
    const struct controller_functions *controller;
    _Atomic uint32_t references;
    _Atomic float values[PARAMETERS]; /* normalised */
    struct opened opened;
    int channels, opened_channels, active;
    double rate, opened_rate;
    float spare[2][MOST_CHANNELS][SPARE];
};

#define EFFECT(self, interface) \
    ((struct effect *)((char *)(self) - offsetof(struct effect, interface)))

/* Text, without the system's functions, which write numbers as the host's language does. */
static void widen(int16_t *to, const char *from, int room) {
    memset(to, 0, sizeof *to * (size_t)room);
    for (int k = 0; k < room - 1 && from[k]; k++) to[k] = from[k];
}

static void write_number(char *to, float value, int decimals) {
    int scale = decimals == 2 ? 100 : decimals ? 10 : 1;
    int whole = (int)(value * (float)scale + 0.5f), digit = 100;
    while (digit > 1 && whole / scale < digit) digit /= 10;
    for (; digit; digit /= 10) *to++ = (char)('0' + whole / scale / digit % 10);
    if (decimals) *to++ = '.';
    for (scale /= 10; scale; scale /= 10) *to++ = (char)('0' + whole / scale % 10);
    *to = 0;
}

/* Returns whether there is a number, which is not negative. */
static int read_number(const int16_t *text, double *value) {
    double place = 0.0;
    int digits = 0;
    *value = 0.0;
    for (int k = 0; k < 128 && text[k]; k++) {
        if ((text[k] == '.' || text[k] == ',') && place == 0.0) place = 1.0;
        else if (text[k] >= '0' && text[k] <= '9') {
            *value = *value * 10.0 + (text[k] - '0');
            place *= 10.0;
            digits++;
        } else if (digits || text[k] != ' ') break;
    }
    if (place > 1.0) *value /= place;
    return digits > 0;
}

/* Parameters. */
static double clipped(double value) { return value >= 1.0 ? 1.0 : value > 0.0 ? value : 0.0; }

static void set_value(struct effect *effect, uint32_t id, double value) {
    if (id < PARAMETERS && value == value)
        atomic_store_explicit(&effect->values[id], (float)clipped(value), memory_order_relaxed);
}

static float value_of(struct effect *effect, uint32_t id) {
    return atomic_load_explicit(&effect->values[id], memory_order_relaxed);
}

static void control(struct effect *effect) {
    control_engine(effect->opened.engine, value_of(effect, STRENGTH),
                   value_of(effect, ATTENUATION) * NO_LIMIT, value_of(effect, BYPASS) > 0.5f);
}

/* Make the engine that is asked for, unless it is there; returns whether it is. */
static int make_engine(struct effect *effect) {
    if (effect->opened.engine && effect->opened_channels == effect->channels &&
        effect->opened_rate == effect->rate)
        return 1;
    close_engine(&effect->opened);
    effect->opened_channels = effect->channels;
    effect->opened_rate = effect->rate;
    return open_engine(&effect->opened, effect->channels, effect->rate);
}

/* What is common to the interfaces. */
static Result find(struct effect *effect, const char *wanted, void **to) {
    if (!to) return INVALID;
    *to = NULL;
    if (!wanted) return INVALID;
    if (!memcmp(wanted, UNKNOWN, 16) || !memcmp(wanted, BASE, 16) || !memcmp(wanted, COMPONENT, 16))
        *to = &effect->component;
    else if (!memcmp(wanted, PROCESSOR, 16)) *to = &effect->processor;
    else if (!memcmp(wanted, CONTROLLER, 16)) *to = &effect->controller;
    else return NO_INTERFACE;
    atomic_fetch_add(&effect->references, 1);
    return OK;
}

static uint32_t forget(struct effect *effect) {
    uint32_t left = atomic_fetch_sub(&effect->references, 1) - 1;
    if (left) return left;
    close_engine(&effect->opened);
    free(effect);
    return 0;
}

#define COMMON(interface)                                                            \
    static Result find_by_##interface(void *self, const char *wanted, void **to) {   \
        return find(EFFECT(self, interface), wanted, to);                            \
    }                                                                                \
    static uint32_t keep_##interface(void *self) {                                   \
        return atomic_fetch_add(&EFFECT(self, interface)->references, 1) + 1;        \
    }                                                                                \
    static uint32_t forget_##interface(void *self) { return forget(EFFECT(self, interface)); }
COMMON(component)
COMMON(processor)
COMMON(controller)

static Result initialize(void *self, void *host) {
    (void)self, (void)host;
    return OK;
}

static Result terminate(void *self) {
    (void)self;
    return OK;
}

static Result no_class(void *self, char *class) {
    (void)self, (void)class;
    return NOT_THERE;
}

static Result set_mode(void *self, int32_t mode) {
    (void)self, (void)mode;
    return OK;
}

static int32_t count_buses(void *self, int32_t medium, int32_t direction) {
    (void)self;
    return medium == SOUND && (direction == IN || direction == OUT);
}

static Result describe_bus(void *self, int32_t medium, int32_t direction, int32_t index,
                           struct bus *to) {
    if (!to || index || !count_buses(self, medium, direction)) return INVALID;
    *to = (struct bus){medium, direction, EFFECT(self, component)->channels, {0}, MAIN,
                       ACTIVE_AT_FIRST};
    widen(to->name, direction == IN ? "Input" : "Output", 128);
    return OK;
}

static Result no_routing(void *self, void *in, void *out) {
    (void)self, (void)in, (void)out;
    return NOT_THERE;
}

static Result activate_bus(void *self, int32_t medium, int32_t direction, int32_t index, uint8_t on) {
    (void)on;
    return index || !count_buses(self, medium, direction) ? INVALID : OK;
}

static Result activate(void *self, uint8_t on) {
    struct effect *effect = EFFECT(self, component);
    effect->active = 0;
    if (!on) return OK;
    if (!make_engine(effect)) return NO_MEMORY;
    alphamf_reset(effect->opened.engine);
    effect->active = 1;
    return OK;
}

/* The state: its name and the values. */
static Result write_state(void *self, Stream *stream) {
    struct effect *effect = EFFECT(self, component);
    char state[sizeof STATE + sizeof(float[PARAMETERS])];
    if (!stream) return INVALID;
    memcpy(state, STATE, sizeof STATE);
    for (uint32_t id = 0; id < PARAMETERS; id++) {
        float value = value_of(effect, id);
        memcpy(state + sizeof STATE + id * sizeof value, &value, sizeof value);
    }
    for (int32_t done = 0, some = 0; done < (int32_t)sizeof state; done += some) {
        Result result = stream->call->write(stream, state + done, (int32_t)sizeof state - done, &some);
        if (result != OK || some <= 0 || some > (int32_t)sizeof state - done) return NO;
    }
    return OK;
}

static Result read_state_of(struct effect *effect, Stream *stream) {
    char state[sizeof STATE + sizeof(float[PARAMETERS])];
    if (!stream) return INVALID;
    for (int32_t done = 0, some = 0; done < (int32_t)sizeof state; done += some) {
        Result result = stream->call->read(stream, state + done, (int32_t)sizeof state - done, &some);
        if (result != OK || some <= 0 || some > (int32_t)sizeof state - done) return NO;
    }
    if (memcmp(state, STATE, sizeof STATE)) return NO;
    for (uint32_t id = 0; id < PARAMETERS; id++) {
        float value;
        memcpy(&value, state + sizeof STATE + id * sizeof value, sizeof value);
        set_value(effect, id, value);
    }
    return OK;
}

static Result read_state(void *self, Stream *stream) {
    return read_state_of(EFFECT(self, component), stream);
}

/* The processor. */
static Result arrange(void *self, uint64_t *in, int32_t ins, uint64_t *out, int32_t outs) {
    struct effect *effect = EFFECT(self, processor);
    if (!in || !out || ins != 1 || outs != 1 || *in != *out || effect->active) return NO;
    if (*in != MONO && *in != STEREO) return NO;
    effect->channels = *in == MONO ? 1 : 2;
    return OK;
}

static Result arrangement(void *self, int32_t direction, int32_t index, uint64_t *to) {
    if (!to || index || !count_buses(self, SOUND, direction)) return INVALID;
    *to = EFFECT(self, processor)->channels == 1 ? MONO : STEREO;
    return OK;
}

static Result can_process(void *self, int32_t sample) {
    (void)self;
    return sample == FLOAT_32 ? OK : NO;
}

static uint32_t latency(void *self) {
    struct effect *effect = EFFECT(self, processor);
    if (!effect->active && !make_engine(effect)) return 0;
    return (uint32_t)alphamf_latency(effect->opened.engine);
}

static Result set_up(void *self, struct setup *setup) {
    struct effect *effect = EFFECT(self, processor);
    if (!setup || setup->sample != FLOAT_32 || !(setup->rate >= 1000.0 && setup->rate <= 768000.0))
        return INVALID;
    if (effect->active) return NO;
    effect->rate = setup->rate;
    return OK;
}

static Result start(void *self, uint8_t on) {
    struct effect *effect = EFFECT(self, processor);
    if (on && effect->active) alphamf_reset(effect->opened.engine);
    return OK;
}

/* Changes of a block: how far each parameter's have been applied. */
struct course {
    Points *points;
    int32_t count, next;
};

static void find_changes(Changes *changes, struct course *courses) {
    memset(courses, 0, sizeof *courses * PARAMETERS);
    int32_t queues = changes ? changes->call->getParameterCount(changes) : 0;
    for (int32_t k = 0; k < queues; k++) {
        Points *points = changes->call->getParameterData(changes, k);
        uint32_t id = points ? points->call->getParameterId(points) : PARAMETERS;
        if (id < PARAMETERS)
            courses[id] = (struct course){points, points->call->getPointCount(points), 0};
    }
}

/* Apply the changes at `now` and before; returns where the next one is, at most `end`. */
static int32_t apply_changes(struct effect *effect, struct course *courses, int32_t now, int32_t end) {
    int32_t next = end;
    for (uint32_t id = 0; id < PARAMETERS; id++) {
        struct course *course = &courses[id];
        for (; course->next < course->count; course->next++) {
            int32_t offset = 0;
            double value = 0.0;
            if (course->points->call->getPoint(course->points, course->next, &offset, &value) != OK)
                continue;
            if (offset > now && now < end) {
                if (offset < next) next = offset;
                break;
            }
            set_value(effect, id, value);
        }
    }
    return next;
}

static float *plane(const struct buffers *buffers, int32_t buses, int channel) {
    if (!buffers || buses < 1 || channel >= buffers->channels || !buffers->planes) return NULL;
    return buffers->planes[channel];
}

/* Process samples `from` to `to`; what the host lacks is silent, or thrown away. */
static void run(struct effect *effect, struct block *block, int32_t from, int32_t to) {
    const float *in[MOST_CHANNELS];
    float *out[MOST_CHANNELS];
    int32_t some;
    for (; from < to; from += some) {
        some = to - from;
        for (int c = 0; c < effect->channels; c++) {
            const float *source = plane(block->in, block->inputs, c);
            float *target = plane(block->out, block->outputs, c);
            if (source && block->in->silent >> c & 1) source = NULL;
            if ((!source || !target) && some > SPARE) some = SPARE;
            in[c] = source ? source + from : effect->spare[IN][c];
            out[c] = target ? target + from : effect->spare[OUT][c];
        }
        alphamf_process(effect->opened.engine, in, out, some);
    }
}

static Result process(void *self, struct block *block) {
    struct effect *effect = EFFECT(self, processor);
    struct course courses[PARAMETERS];
    if (!block || block->count < 0 || block->sample != FLOAT_32) return INVALID;
    find_changes(block->changes, courses);
    for (int32_t now = 0, next; now < block->count && effect->active; now = next) {
        next = apply_changes(effect, courses, now, block->count);
        control(effect);
        run(effect, block, now, next);
    }
    apply_changes(effect, courses, block->count, block->count);
    if (!block->out || block->outputs < 1) return OK;
    block->out->silent = 0;
    int first = effect->active ? effect->channels : 0;
    for (int c = first; block->out->planes && c < block->out->channels; c++)
        if (block->out->planes[c])
            memset(block->out->planes[c], 0, sizeof(float) * (size_t)block->count);
    return OK;
}

static uint32_t tail(void *self) {
    (void)self;
    return 0;
}

/* The controller. */
static Result read_values(void *self, Stream *stream) {
    return read_state_of(EFFECT(self, controller), stream);
}

static Result no_state(void *self, Stream *stream) {
    (void)self, (void)stream;
    return OK;
}

static int32_t count_parameters(void *self) {
    (void)self;
    return PARAMETERS;
}

static Result describe_parameter(void *self, int32_t index, struct parameter *to) {
    (void)self;
    if (!to || index < 0 || index >= PARAMETERS) return INVALID;
    memset(to, 0, sizeof *to);
    to->id = (uint32_t)index;
    widen(to->title, ABOUT[index].name, 128);
    widen(to->short_title, ABOUT[index].name, 128);
    widen(to->unit, ABOUT[index].unit, 128);
    to->steps = ABOUT[index].steps;
    to->first = ABOUT[index].first / ABOUT[index].largest;
    to->flags = ABOUT[index].flags;
    return OK;
}

static double to_plain(void *self, uint32_t id, double value) {
    (void)self;
    return id < PARAMETERS ? clipped(value) * ABOUT[id].largest : 0.0;
}

static double to_normal(void *self, uint32_t id, double plain) {
    (void)self;
    return id < PARAMETERS ? clipped(plain / ABOUT[id].largest) : 0.0;
}

static Result write_value(void *self, uint32_t id, double value, int16_t *text) {
    char number[16];
    if (id >= PARAMETERS || !text) return INVALID;
    if (id == BYPASS) widen(text, value > 0.5 ? "On" : "Off", 128);
    else {
        write_number(number, (float)to_plain(self, id, value), ABOUT[id].decimals);
        widen(text, number, 128);
    }
    return OK;
}

static Result read_value(void *self, uint32_t id, int16_t *text, double *value) {
    double plain;
    if (id >= PARAMETERS || !text || !value) return INVALID;
    if (id == BYPASS && (text[0] == 'O' || text[0] == 'o')) *value = text[1] == 'n' || text[1] == 'N';
    else if (read_number(text, &plain)) *value = to_normal(self, id, plain);
    else return NO;
    return OK;
}

static double get_value(void *self, uint32_t id) {
    return id < PARAMETERS ? value_of(EFFECT(self, controller), id) : 0.0;
}

static Result change_value(void *self, uint32_t id, double value) {
    if (id >= PARAMETERS || value != value) return INVALID;
    set_value(EFFECT(self, controller), id, value);
    return OK;
}

static Result no_handler(void *self, void *handler) {
    (void)self, (void)handler;
    return OK;
}

static void *no_view(void *self, const char *name) {
    (void)self, (void)name;
    return NULL;
}

static const struct component_functions COMPONENT_FUNCTIONS = {
    find_by_component, keep_component, forget_component, initialize, terminate, no_class, set_mode,
    count_buses, describe_bus, no_routing, activate_bus, activate, read_state, write_state,
};
static const struct processor_functions PROCESSOR_FUNCTIONS = {
    find_by_processor, keep_processor, forget_processor, arrange, arrangement, can_process, latency,
    set_up, start, process, tail,
};
static const struct controller_functions CONTROLLER_FUNCTIONS = {
    find_by_controller, keep_controller, forget_controller, initialize, terminate, read_values,
    no_state, no_state, count_parameters, describe_parameter, write_value, read_value, to_plain,
    to_normal, get_value, change_value, no_handler, no_view,
};

/* The factory, of which there is one; it stays. */
static struct {
    const struct factory_functions *functions;
    _Atomic uint32_t references;
} factory;

static Result find_by_factory(void *self, const char *wanted, void **to) {
    if (!to) return INVALID;
    *to = NULL;
    if (!wanted) return INVALID;
    if (memcmp(wanted, UNKNOWN, 16) && memcmp(wanted, FACTORY, 16) && memcmp(wanted, FACTORY_2, 16) &&
        memcmp(wanted, FACTORY_3, 16))
        return NO_INTERFACE;
    atomic_fetch_add(&factory.references, 1);
    *to = self;
    return OK;
}

static uint32_t keep_factory(void *self) {
    (void)self;
    return atomic_fetch_add(&factory.references, 1) + 1;
}

static uint32_t forget_factory(void *self) {
    (void)self;
    return atomic_fetch_sub(&factory.references, 1) - 1;
}

static Result describe_factory(void *self, struct factory_info *to) {
    (void)self;
    if (!to) return INVALID;
    *to = (struct factory_info){"alphamf contributors", "", "", UNICODE_NAMES};
    return OK;
}

static int32_t count_classes(void *self) {
    (void)self;
    return 1;
}

static const struct class_info_2 INFO = {
    {IDENTIFIER(0x616C7068u, 0x616D6641u, 0x8D3C4F0Eu, 0x9B27C561u), MANY_INSTANCES,
     "Audio Module Class", "alphamf"},
    0,
    "Fx|Restoration",
    "alphamf contributors",
    VERSION,
    SDK,
};

static Result describe_class(void *self, int32_t index, struct class_info *to) {
    (void)self;
    if (!to || index) return INVALID;
    *to = INFO.first;
    return OK;
}

static Result describe_class_2(void *self, int32_t index, struct class_info_2 *to) {
    (void)self;
    if (!to || index) return INVALID;
    *to = INFO;
    return OK;
}

static Result describe_class_wide(void *self, int32_t index, struct class_info_wide *to) {
    (void)self;
    if (!to || index) return INVALID;
    memset(to, 0, sizeof *to);
    memcpy(to->class, INFO.first.class, sizeof to->class);
    to->cardinality = INFO.first.cardinality;
    memcpy(to->category, INFO.first.category, sizeof to->category);
    memcpy(to->subcategories, INFO.subcategories, sizeof to->subcategories);
    widen(to->name, INFO.first.name, 64);
    widen(to->vendor, INFO.vendor, 64);
    widen(to->version, INFO.version, 64);
    widen(to->sdk, INFO.sdk, 64);
    return OK;
}

static Result create(void *self, const char *class, const char *wanted, void **to) {
    (void)self;
    if (!to) return INVALID;
    *to = NULL;
    if (!class || memcmp(class, INFO.first.class, 16)) return INVALID;
    struct effect *effect = calloc(1, sizeof *effect);
    if (!effect) return NO_MEMORY;
    effect->component = &COMPONENT_FUNCTIONS;
    effect->processor = &PROCESSOR_FUNCTIONS;
    effect->controller = &CONTROLLER_FUNCTIONS;
    atomic_init(&effect->references, 1);
    effect->channels = MOST_CHANNELS;
    effect->rate = 48000.0;
    for (uint32_t id = 0; id < PARAMETERS; id++)
        set_value(effect, id, ABOUT[id].first / ABOUT[id].largest);
    Result result = find(effect, wanted, to);
    forget(effect);
    return result;
}

static Result no_context(void *self, void *host) {
    (void)self, (void)host;
    return OK;
}

static const struct factory_functions FACTORY_FUNCTIONS = {
    find_by_factory, keep_factory, forget_factory, describe_factory, count_classes, describe_class,
    create, describe_class_2, describe_class_wide, no_context,
};

PUBLIC void *GetPluginFactory(void) {
    factory.functions = &FACTORY_FUNCTIONS;
    atomic_fetch_add(&factory.references, 1);
    return &factory;
}

/* What a host calls before and after; each system has its names. */
#if defined(_WIN32)
PUBLIC uint8_t InitDll(void) { return 1; }
PUBLIC uint8_t ExitDll(void) { return 1; }
#elif defined(__APPLE__)
PUBLIC uint8_t bundleEntry(void *bundle) { return bundle != NULL; }
PUBLIC uint8_t bundleExit(void) { return 1; }
#else
PUBLIC uint8_t ModuleEntry(void *library) { return library != NULL; }
PUBLIC uint8_t ModuleExit(void) { return 1; }
#endif

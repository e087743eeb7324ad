/* What of the interface of VST 3 the plug-in has and calls, after Steinberg's vst3_c_api,
 * copyright (c) Steinberg Media Technologies GmbH, under the MIT licence (the text of LICENSE).
 * VST is a trademark of Steinberg Media Technologies GmbH.
 *
 * An interface is a pointer to a pointer to a table of functions, whose first three are those of
 * `Unknown`. Names are Steinberg's where a function is known by its name, and ours elsewhere.
 */
#ifndef ALPHAMF_VST3_H
#define ALPHAMF_VST3_H

#include <stdint.h>

/* Windows has another order of bytes in an identifier, and other results. */
#define BYTES(word) (char)((word) >> 24), (char)((word) >> 16), (char)((word) >> 8), (char)(word)
#if defined(_WIN32)
#define SWAPPED(word) (char)(word), (char)((word) >> 8), (char)((word) >> 16), (char)((word) >> 24)
#define PAIRS(word) (char)((word) >> 16), (char)((word) >> 24), (char)(word), (char)((word) >> 8)
#define IDENTIFIER(a, b, c, d) {SWAPPED(a), PAIRS(b), BYTES(c), BYTES(d)}
enum { NO_INTERFACE = (int)0x80004002, OK = 0, NO = 1, INVALID = (int)0x80070057 };
enum { NOT_THERE = (int)0x80004001, NO_MEMORY = (int)0x8007000E };
#else
#define IDENTIFIER(a, b, c, d) {BYTES(a), BYTES(b), BYTES(c), BYTES(d)}
enum { NO_INTERFACE = -1, OK, NO, INVALID, NOT_THERE, NO_MEMORY = 6 };
#endif

typedef char Identifier[16];
typedef int32_t Result;
typedef int16_t Text[128]; /* UTF-16 */

static const Identifier UNKNOWN = IDENTIFIER(0x00000000u, 0x00000000u, 0xC0000000u, 0x00000046u);
static const Identifier BASE = IDENTIFIER(0x22888DDBu, 0x156E45AEu, 0x8358B348u, 0x08190625u);
static const Identifier FACTORY = IDENTIFIER(0x7A4D811Cu, 0x52114A1Fu, 0xAED9D2EEu, 0x0B43BF9Fu);
static const Identifier FACTORY_2 = IDENTIFIER(0x0007B650u, 0xF24B4C0Bu, 0xA464EDB9u, 0xF00B2ABBu);
static const Identifier FACTORY_3 = IDENTIFIER(0x4555A2ABu, 0xC1234E57u, 0x9B122910u, 0x36878931u);
static const Identifier COMPONENT = IDENTIFIER(0xE831FF31u, 0xF2D54301u, 0x928EBBEEu, 0x25697802u);
static const Identifier PROCESSOR = IDENTIFIER(0x42043F99u, 0xB7DA453Cu, 0xA569E79Du, 0x9AAEC33Du);
static const Identifier CONTROLLER = IDENTIFIER(0xDCD7BBE3u, 0x7742448Du, 0xA874AACCu, 0x979C759Eu);

/* Media, directions, kinds of buses and samples, flags. */
enum { SOUND = 0, IN = 0, OUT = 1, MAIN = 0, FLOAT_32 = 0, ACTIVE_AT_FIRST = 1 };
enum { AUTOMATED = 1, IS_BYPASS = 1 << 16, UNICODE_NAMES = 1 << 4 };
#define MONO ((uint64_t)1 << 19)
#define STEREO ((uint64_t)3)
#define MANY_INSTANCES 0x7FFFFFFF

#define UNKNOWN_FUNCTIONS                                           \
    Result (*queryInterface)(void *, const char *wanted, void **to); \
    uint32_t (*addRef)(void *);                                     \
    uint32_t (*release)(void *)
#define BASE_FUNCTIONS                      \
    UNKNOWN_FUNCTIONS;                      \
    Result (*initialize)(void *, void *host); \
    Result (*terminate)(void *)

struct unknown_functions {
    UNKNOWN_FUNCTIONS;
};

typedef struct stream {
    const struct stream_functions *call;
} Stream;

struct stream_functions {
    UNKNOWN_FUNCTIONS;
    Result (*read)(void *, void *to, int32_t size, int32_t *read);
    Result (*write)(void *, void *from, int32_t size, int32_t *written);
    Result (*seek)(void *, int64_t place, int32_t mode, int64_t *now);
    Result (*tell)(void *, int64_t *place);
};

struct factory_info {
    char vendor[64], url[256], email[128];
    int32_t flags;
};

struct class_info {
    Identifier class;
    int32_t cardinality;
    char category[32], name[64];
};

struct class_info_2 {
    struct class_info first;
    uint32_t flags;
    char subcategories[128], vendor[64], version[64], sdk[64];
};

struct class_info_wide {
    Identifier class;
    int32_t cardinality;
    char category[32];
    int16_t name[64];
    uint32_t flags;
    char subcategories[128];
    int16_t vendor[64], version[64], sdk[64];
};

struct factory_functions {
    UNKNOWN_FUNCTIONS;
    Result (*getFactoryInfo)(void *, struct factory_info *);
    int32_t (*countClasses)(void *);
    Result (*getClassInfo)(void *, int32_t index, struct class_info *);
    Result (*createInstance)(void *, const char *class, const char *wanted, void **to);
    Result (*getClassInfo2)(void *, int32_t index, struct class_info_2 *);
    Result (*getClassInfoUnicode)(void *, int32_t index, struct class_info_wide *);
    Result (*setHostContext)(void *, void *host);
};

struct bus {
    int32_t medium, direction, channels;
    Text name;
    int32_t kind;
    uint32_t flags;
};

struct component_functions {
    BASE_FUNCTIONS;
    Result (*getControllerClassId)(void *, char *class);
    Result (*setIoMode)(void *, int32_t mode);
    int32_t (*getBusCount)(void *, int32_t medium, int32_t direction);
    Result (*getBusInfo)(void *, int32_t medium, int32_t direction, int32_t index, struct bus *);
    Result (*getRoutingInfo)(void *, void *in, void *out);
    Result (*activateBus)(void *, int32_t medium, int32_t direction, int32_t index, uint8_t on);
    Result (*setActive)(void *, uint8_t on);
    Result (*setState)(void *, Stream *);
    Result (*getState)(void *, Stream *);
};

struct setup {
    int32_t mode, sample, largest; /* live or offline; FLOAT_32; samples of a block */
    double rate;
};

struct buffers {
    int32_t channels;
    uint64_t silent; /* a bit a channel */
    float **planes;
};

typedef struct points {
    const struct points_functions *call;
} Points;

struct points_functions {
    UNKNOWN_FUNCTIONS;
    uint32_t (*getParameterId)(void *);
    int32_t (*getPointCount)(void *);
    Result (*getPoint)(void *, int32_t index, int32_t *offset, double *value);
    Result (*addPoint)(void *, int32_t offset, double value, int32_t *index);
};

typedef struct changes {
    const struct changes_functions *call;
} Changes;

struct changes_functions {
    UNKNOWN_FUNCTIONS;
    int32_t (*getParameterCount)(void *);
    Points *(*getParameterData)(void *, int32_t index);
    Points *(*addParameterData)(void *, const uint32_t *id, int32_t *index);
};

struct block {
    int32_t mode, sample, count, inputs, outputs;
    struct buffers *in, *out;
    Changes *changes, *changes_out;
    void *events, *events_out, *context;
};

struct processor_functions {
    UNKNOWN_FUNCTIONS;
    Result (*setBusArrangements)(void *, uint64_t *in, int32_t ins, uint64_t *out, int32_t outs);
    Result (*getBusArrangement)(void *, int32_t direction, int32_t index, uint64_t *);
    Result (*canProcessSampleSize)(void *, int32_t sample);
    uint32_t (*getLatencySamples)(void *);
    Result (*setupProcessing)(void *, struct setup *);
    Result (*setProcessing)(void *, uint8_t on);
    Result (*process)(void *, struct block *);
    uint32_t (*getTailSamples)(void *);
};

struct parameter {
    uint32_t id;
    Text title, short_title, unit;
    int32_t steps;
    double first; /* normalised, as all values but plain ones */
    int32_t group, flags;
};

struct controller_functions {
    BASE_FUNCTIONS;
    Result (*setComponentState)(void *, Stream *);
    Result (*setState)(void *, Stream *);
    Result (*getState)(void *, Stream *);
    int32_t (*getParameterCount)(void *);
    Result (*getParameterInfo)(void *, int32_t index, struct parameter *);
    Result (*getParamStringByValue)(void *, uint32_t id, double value, int16_t *text);
    Result (*getParamValueByString)(void *, uint32_t id, int16_t *text, double *value);
    double (*normalizedParamToPlain)(void *, uint32_t id, double value);
    double (*plainParamToNormalized)(void *, uint32_t id, double plain);
    double (*getParamNormalized)(void *, uint32_t id);
    Result (*setParamNormalized)(void *, uint32_t id, double value);
    Result (*setComponentHandler)(void *, void *handler);
    void *(*createView)(void *, const char *name);
};

#endif

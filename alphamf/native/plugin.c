/* The engine as plug-ins: LADSPA and LV2, of one channel and of two; VST 3 is in vst3.c.
 *
 * `alphamf plugin install` appends the weights to a copy of this library: those for rates
 * above 8 kHz, those for lower ones, and `struct trailer`. Each instance maps that file, so that all instances share
 * its memory. What follows of the two interfaces is what a plug-in of this kind has of them, as in
 * ladspa.h 1.1 and lv2/core/lv2.h.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOUSER
#include <windows.h>
#else
#include <fcntl.h>
#if defined(__linux__)
#include <link.h>
#else
#include <dlfcn.h>
#endif
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "_float32.h"
#include "_plugin.h"

#if !defined(MAP_POPULATE)
#define MAP_POPULATE 0
#endif

#define NARROW_RATE 8000

struct trailer {
    uint64_t wide, narrow; /* bytes, each a multiple of 64, as is what comes before */
    char magic[16];
};

static const char TRAILER[16] = "alphamf plug-in";

/* Ports: three controls, the latency, and then inputs and outputs of the channels. */
enum { STRENGTH, ATTENUATION, BYPASS, LATENCY, AUDIO };

struct plugin {
    struct opened opened;
    int channels;
    const float *controls[LATENCY], *inputs[MOST_CHANNELS];
    float *latency, *outputs[MOST_CHANNELS];
};

static const char here; /* is in the library's own file */

#if defined(_WIN32)
/* Map the file that the library is in; returns whether that went well. */
static int map_own_file(struct opened *opened) {
    static const DWORD flags =
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    wchar_t name[4096];
    LARGE_INTEGER size;
    HMODULE library;
    if (!GetModuleHandleExW(flags, (LPCWSTR)&here, &library)) return 0;
    DWORD length = GetModuleFileNameW(library, name, 4096);
    if (!length || length == 4096) return 0;
    HANDLE file =
        CreateFileW(name, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return 0;
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (mapping && GetFileSizeEx(file, &size) && size.QuadPart > (LONGLONG)sizeof(struct trailer)) {
        opened->size = (size_t)size.QuadPart;
        opened->file = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
    }
    if (mapping) CloseHandle(mapping);
    CloseHandle(file);
    return opened->file != NULL;
}

static void unmap(struct opened *opened) { UnmapViewOfFile(opened->file); }
#else
#if defined(__linux__)
/* dladdr would do, but has moved from one library of the system to another. */
static int note_own_file(struct dl_phdr_info *info, size_t size, void *name) {
    (void)size;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[k].p_vaddr;
        if (info->dlpi_phdr[k].p_type != PT_LOAD || (uintptr_t)&here < start ||
            (uintptr_t)&here - start >= info->dlpi_phdr[k].p_memsz)
            continue;
        *(const char **)name = info->dlpi_name;
        return 1;
    }
    return 0;
}

static const char *own_file(void) {
    const char *name = NULL;
    dl_iterate_phdr(note_own_file, &name);
    return name;
}
#else
static const char *own_file(void) {
    Dl_info about;
    return dladdr(&here, &about) ? about.dli_fname : NULL;
}
#endif

/* Map the file that the library is in; returns whether that went well. */
static int map_own_file(struct opened *opened) {
    const char *name = own_file();
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    off_t size = lseek(file, 0, SEEK_END);
    if (size > (off_t)sizeof(struct trailer)) {
        opened->size = (size_t)size;
        opened->file = mmap(NULL, opened->size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
        if (opened->file == MAP_FAILED) opened->file = NULL;
    }
    close(file);
    return opened->file != NULL;
}

static void unmap(struct opened *opened) { munmap(opened->file, opened->size); }
#endif

void close_engine(struct opened *opened) {
    alphamf_destroy(opened->engine);
    if (opened->file) unmap(opened);
    memset(opened, 0, sizeof *opened);
}

int open_engine(struct opened *opened, int channels, double rate) {
    struct trailer trailer;
    memset(opened, 0, sizeof *opened);
    if (rate >= 1.0 && rate <= 1e6 && map_own_file(opened)) {
        size_t before = opened->size - sizeof trailer;
        memcpy(&trailer, (const char *)opened->file + before, sizeof trailer);
        int known = !memcmp(trailer.magic, TRAILER, sizeof TRAILER) && trailer.wide <= before &&
                    trailer.narrow <= before - trailer.wide;
        if (known) {
            const char *narrow = (const char *)opened->file + before - trailer.narrow;
            int wide = rate > NARROW_RATE;
            opened->engine = alphamf_create(wide ? narrow - trailer.wide : narrow,
                                            wide ? trailer.wide : trailer.narrow, (int)rate,
                                            channels, 1);
        }
    }
    if (!opened->engine) close_engine(opened);
    return opened->engine != NULL;
}

void control_engine(alphamf *engine, float strength, float decibels, int bypassed) {
    float least = decibels >= NO_LIMIT ? 0.0f : exp_(decibels * -0.115129255f); /* ln 10 / 20 */
    alphamf_control(engine, bypassed ? 0.0f : strength, least);
}

static void clean_up(void *handle) {
    struct plugin *plugin = handle;
    close_engine(&plugin->opened);
    free(plugin);
}

static void *instantiate(int channels, double rate) {
    struct plugin *plugin = calloc(1, sizeof *plugin);
    if (!plugin) return NULL;
    plugin->channels = channels;
    if (open_engine(&plugin->opened, channels, rate)) return plugin;
    free(plugin);
    return NULL;
}

static void connect(void *handle, unsigned long port, float *data) {
    struct plugin *plugin = handle;
    unsigned long channels = (unsigned long)plugin->channels;
    if (port < LATENCY) plugin->controls[port] = data;
    else if (port == LATENCY) plugin->latency = data;
    else if (port < AUDIO + channels) plugin->inputs[port - AUDIO] = data;
    else if (port < AUDIO + 2 * channels) plugin->outputs[port - AUDIO - channels] = data;
}

static void activate(void *handle) { alphamf_reset(((struct plugin *)handle)->opened.engine); }

static void run(void *handle, unsigned long count) {
    struct plugin *plugin = handle;
    alphamf *engine = plugin->opened.engine;
    const float *const *controls = plugin->controls;
    float decibels = controls[ATTENUATION] ? *controls[ATTENUATION] : NO_LIMIT;
    float strength = controls[STRENGTH] ? *controls[STRENGTH] : 1.0f;
    control_engine(engine, strength, decibels, controls[BYPASS] && *controls[BYPASS] > 0.5f);
    if (plugin->latency) *plugin->latency = (float)alphamf_latency(engine);
    for (int c = 0; c < plugin->channels; c++)
        if (!plugin->inputs[c] || !plugin->outputs[c]) return;
    alphamf_process(engine, plugin->inputs, plugin->outputs, (int)count);
}

/* LADSPA. */
enum { INPUT = 1, OUTPUT = 2, CONTROL = 4, SIGNAL = 8 };
enum { BOUNDED = 3, TOGGLED = 4, DEFAULT_MAXIMUM = 0x140, DEFAULT_0 = 0x200, DEFAULT_1 = 0x240 };
#define HARD_REAL_TIME 4

typedef struct {
    int hints;
    float lower, upper;
} Range;

typedef struct ladspa {
    unsigned long id;
    const char *label;
    int properties;
    const char *name, *maker, *copyright;
    unsigned long port_count;
    const int *ports;
    const char *const *port_names;
    const Range *ranges;
    void *data;
    void *(*instantiate)(const struct ladspa *, unsigned long);
    void (*connect)(void *, unsigned long, float *);
    void (*activate)(void *);
    void (*run)(void *, unsigned long);
    void (*run_adding)(void *, unsigned long);
    void (*set_gain)(void *, float);
    void (*deactivate)(void *);
    void (*clean_up)(void *);
} Ladspa;

static void *instantiate_mono(const Ladspa *descriptor, unsigned long rate) {
    (void)descriptor;
    return instantiate(1, (double)rate);
}

static void *instantiate_stereo(const Ladspa *descriptor, unsigned long rate) {
    (void)descriptor;
    return instantiate(2, (double)rate);
}

#define CONTROLS INPUT | CONTROL, INPUT | CONTROL, INPUT | CONTROL, OUTPUT | CONTROL
static const int MONO_PORTS[] = {CONTROLS, INPUT | SIGNAL, OUTPUT | SIGNAL};
static const int STEREO_PORTS[] = {CONTROLS, INPUT | SIGNAL, INPUT | SIGNAL, OUTPUT | SIGNAL,
                                   OUTPUT | SIGNAL};
#define CONTROL_NAMES "Strength", "Most attenuation (dB)", "Bypass", "latency"
static const char *const MONO_NAMES[] = {CONTROL_NAMES, "Input", "Output"};
static const char *const STEREO_NAMES[] = {CONTROL_NAMES, "Left input", "Right input", "Left output",
                                           "Right output"};
static const Range RANGES[AUDIO + 2 * MOST_CHANNELS] = {
    {BOUNDED | DEFAULT_1, 0.0f, 1.0f},
    {BOUNDED | DEFAULT_MAXIMUM, 0.0f, NO_LIMIT},
    {TOGGLED | DEFAULT_0, 0.0f, 1.0f},
};
#define ABOUT "alphamf contributors", "MIT"
static const Ladspa LADSPA[] = {
    {0x616D66, "alphamf_mono", HARD_REAL_TIME, "alphamf: noise removal from speech (mono)", ABOUT,
     AUDIO + 2, MONO_PORTS, MONO_NAMES, RANGES, NULL, instantiate_mono, connect, activate, run, NULL,
     NULL, NULL, clean_up},
    {0x616D67, "alphamf_stereo", HARD_REAL_TIME, "alphamf: noise removal from speech (stereo)", ABOUT,
     AUDIO + 4, STEREO_PORTS, STEREO_NAMES, RANGES, NULL, instantiate_stereo, connect, activate, run,
     NULL, NULL, NULL, clean_up},
};

PUBLIC const Ladspa *ladspa_descriptor(unsigned long index) {
    return index < 2 ? &LADSPA[index] : NULL;
}

/* LV2; alphamf/native/lv2/alphamf.ttl describes the ports, which have the same numbers. */
typedef struct lv2 {
    const char *uri;
    void *(*instantiate)(const struct lv2 *, double, const char *, const void *const *);
    void (*connect)(void *, uint32_t, void *);
    void (*activate)(void *);
    void (*run)(void *, uint32_t);
    void (*deactivate)(void *);
    void (*clean_up)(void *);
    const void *(*extension_data)(const char *);
} Lv2;

static void *instantiate_lv2(const Lv2 *descriptor, double rate, const char *bundle,
                             const void *const *features);

static void connect_lv2(void *handle, uint32_t port, void *data) { connect(handle, port, data); }

static void run_lv2(void *handle, uint32_t count) { run(handle, count); }

static const Lv2 LV2[] = {
    {"urn:alphamf:mono", instantiate_lv2, connect_lv2, activate, run_lv2, NULL, clean_up, NULL},
    {"urn:alphamf:stereo", instantiate_lv2, connect_lv2, activate, run_lv2, NULL, clean_up, NULL},
};

static void *instantiate_lv2(const Lv2 *descriptor, double rate, const char *bundle,
                             const void *const *features) {
    (void)bundle, (void)features;
    return instantiate(descriptor == &LV2[1] ? 2 : 1, rate);
}

PUBLIC const Lv2 *lv2_descriptor(uint32_t index) { return index < 2 ? &LV2[index] : NULL; }

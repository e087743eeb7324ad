/* What the plug-ins of all interfaces share: an engine with the weights of its own file. */
#ifndef ALPHAMF_PLUGIN_H
#define ALPHAMF_PLUGIN_H

#include "alphamf.h"

#define PUBLIC __attribute__((visibility("default")))
#define MOST_CHANNELS 2
/* Decibels from which on nothing is kept. */
#define NO_LIMIT 100.0f

struct opened {
    alphamf *engine;
    void *file;
    size_t size;
};

/* Returns whether there is an engine; without one nothing is left to close. */
int open_engine(struct opened *opened, int channels, double rate);
void close_engine(struct opened *opened);

void control_engine(alphamf *engine, float strength, float decibels, int bypassed);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhalay-perf-cuda.so offers to halay-perf doctor, which runs on machines without CUDA.
 */
#ifndef HALAY_PERF_DEVICES_H
#define HALAY_PERF_DEVICES_H

#include <stddef.h>
#include <stdio.h>

struct perf_devices {
    const char *version; /* of halay; the program refuses another than its own */
    /* Measures all devices that this process sees, with buffers of this size, and prints a line for each figure. 0, or
     * nonzero and why (one line) in text; what was measured until then has been printed. */
    int (*measure)(size_t bytes, FILE *out, char *text, size_t text_size);
};

/* The one symbol of the module. */
extern __attribute__((visibility("default"))) const struct perf_devices halay_perf_devices;

#endif

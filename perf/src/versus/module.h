/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: where the shared objects that are loaded on demand lie, and whether they load.
 */
#ifndef HALAY_PERF_MODULE_H
#define HALAY_PERF_MODULE_H

#include "base/config.h"
#include <stddef.h>

/* The path of libhalay-NAME.so: in HALAY_MODULE_PATH, in the folder of libhalay.so, in the folder where modules are
 * installed, the first where it exists; for "mpi" and "perf-mpi" the one that is for this process's MPI
 * (base/launchers.h). Nonzero if found; otherwise path says where it was looked for. */
int perf_module_find(const struct halay_config *config, const char *name, char *path, size_t size);

/* dlopen it. NULL and why in text if there is none or it does not load. Closed by dlclose. */
void *perf_module_open(const struct halay_config *config, const char *name, char *text, size_t size);

#endif

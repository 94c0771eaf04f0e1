/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of modules, libhalay-NAME.so: where they are looked for. What a module offers is its loader's business.
 *
 * A module is never unloaded: the libraries behind it (MPI above all) register handlers that run at exit. Its handle is
 * still closed, so that opens and closes are in pairs.
 *
 * References: dlopen(3), dladdr(3).
 */
#ifndef HALAY_BASE_MODULE_FILE_H
#define HALAY_BASE_MODULE_FILE_H

#include "base/log.h"

/* Load libhalay-NAME.so: looked for in `folder` (HALAY_MODULE_PATH; may be NULL), in the folder of this library (or
 * program), in halay/ beside it, and where it was installed to, in that order. variant: what to add to the name, looked
 * for first, or "". *handle is dlclose's. HALAY_ERR_UNSUPPORTED: there is none, or its own libraries are absent here (a
 * line of that level says where was looked and why); HALAY_ERR_NO_MEMORY. */
enum halay_status halay_module_file_open(struct halay_log *log, enum halay_log_level level, const char *folder,
                                         const char *name, const char *variant, void **handle);

/* Whether there is a file of that module, with any of the variants that are known, where the call above looks. */
int halay_module_file_is_there(const char *folder, const char *name);

/* The file that holds a symbol; for messages. */
const char *halay_module_file_path(const void *symbol);

#endif

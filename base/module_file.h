/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of modules, libhalay-NAME.so: search and loading. Their symbols are the caller's business.
 *
 * A module is never unloaded: the libraries that it uses (MPI above all) register handlers that run at exit. Its handle
 * is still closed, so that opens and closes are in pairs.
 *
 * References: dlopen(3), dladdr(3).
 */
#ifndef HALAY_BASE_MODULE_FILE_H
#define HALAY_BASE_MODULE_FILE_H

#include "base/log.h"
#include <limits.h>

enum { HALAY_MODULE_FILE_MAX = PATH_MAX + 64 };

/* Loads libhalay-NAME.so from the first of: `folder` (HALAY_MODULE_PATH; may be NULL), the folder of this library (or
 * program), halay/ beside it, the folder of the installation, and that of the package which pip has installed with this
 * program. Tries the name with variant added first, unless that is "". A library that the module needs is the system's
 * or, without that, pip's (base/transports.def). The caller closes *handle with dlclose. HALAY_ERR_UNSUPPORTED: not
 * found, or one of its own libraries is missing (a line of that level has the folders or the reason);
 * HALAY_ERR_NO_MEMORY. */
enum halay_status halay_module_file_open(struct halay_log *log, enum halay_log_level level, const char *folder,
                                         const char *name, const char *variant, void **handle);

/* Sets path to the file that halay_module_file_open would load, of no variant; returns zero if it has no file. */
int halay_module_file_find(const char *folder, const char *name, char path[HALAY_MODULE_FILE_MAX]);

/* Returns the file that has a symbol; for messages. */
const char *halay_module_file_path(const void *symbol);

#endif

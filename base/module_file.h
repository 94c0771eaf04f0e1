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

/* Loads libhalay-NAME.so from the first of: `folder` (HALAY_MODULE_PATH; may be NULL), the folder of this library (or
 * program), halay/ beside it, and the folder of the installation. Tries the name with variant added first, unless that
 * is "". The caller closes *handle with dlclose. HALAY_ERR_UNSUPPORTED: not found, or one of its own libraries is
 * missing (a line of that level has the folders or the reason); HALAY_ERR_NO_MEMORY. */
enum halay_status halay_module_file_open(struct halay_log *log, enum halay_log_level level, const char *folder,
                                         const char *name, const char *variant, void **handle);

/* Returns nonzero if halay_module_file_open would find a file of that module, of any known variant. */
int halay_module_file_is_there(const char *folder, const char *name);

/* Returns the file that has a symbol; for messages. */
const char *halay_module_file_path(const void *symbol);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: many systems allow a process 1,024 until it asks for more (the soft limit), and much more then.
 */
#ifndef HALAY_BASE_DESCRIPTORS_H
#define HALAY_BASE_DESCRIPTORS_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

/* Makes sure that this process may open this number of descriptors more: raises the soft limit to the hard one if it
 * must. HALAY_ERR_SYSTEM: that is not enough; logged, with what they are for ("connections with 1023 ranks"). */
enum halay_status halay_descriptors_allow(struct halay_log *log, size_t more, const char *what);

#endif

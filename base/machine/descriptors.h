/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: many systems allow a process 1,024 (the soft limit), and much more after a request (the hard one).
 */
#ifndef HALAY_BASE_DESCRIPTORS_H
#define HALAY_BASE_DESCRIPTORS_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

/* Allows this process to open this number of descriptors more: raises the soft limit to the hard one if necessary.
 * HALAY_ERR_SYSTEM, logged with their purpose ("connections with 1023 ranks"): the hard limit is too small. */
enum halay_status halay_descriptors_allow(struct halay_log *log, size_t more, const char *what);

#endif

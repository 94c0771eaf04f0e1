/* SPDX-License-Identifier: Apache-2.0
 *
 * Start: halay_init on a thread of its own.
 */
#ifndef HALAY_START_H
#define HALAY_START_H

#include "collectives/transport/bootstrap/boot.h"
#include "halay.h"

/* Runs halay_init while another thread watches. watch is borrowed for the call. */
enum halay_status halay_init_watched(const struct halay_options *options, struct halay_boot_watch *watch,
                                     struct halay_context **out);

#endif

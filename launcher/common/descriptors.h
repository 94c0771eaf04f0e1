/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: how many this process may have open.
 */
#ifndef HALAY_LAUNCHER_DESCRIPTORS_H
#define HALAY_LAUNCHER_DESCRIPTORS_H

#include <stddef.h>

/* Raises the soft limit for that many ranks and hosts, as far as the hard limit allows; if that is not enough, opening
 * one reports it. */
void descriptors_allow(size_t ranks, size_t hosts);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict parsers of values as people write them. Each accepts the whole text or nothing: no blanks around it, no sign
 * where none makes sense, no number cut short, no overflow. Pure functions; HALAY_ERR_CONFIG, not logged.
 */
#ifndef HALAY_BASE_PARSE_H
#define HALAY_BASE_PARSE_H

#include "halay_types.h"
#include <stddef.h>

/* Parses a size: "67108864", "64K", "64M", "1G" (K = 1024), also "64MB", "64MiB". */
enum halay_status halay_parse_size(const char *text, size_t *value);
enum halay_status halay_parse_long(const char *text, long min, long max, long *value);
enum halay_status halay_parse_double(const char *text, double min, double max, double *value);
enum halay_status halay_parse_bool(const char *text, int *value);
/* Parses "20000-20100", or one port; {0, 0} for "". */
enum halay_status halay_parse_ports(const char *text, int ports[2]);

/* Returns the name nearest to a text (edit distance), NULL if none is near. names ends with NULL. */
const char *halay_nearest_name(const char *text, const char *const *names);

#endif

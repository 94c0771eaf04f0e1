/* SPDX-License-Identifier: Apache-2.0
 *
 * What options.c (the table and the command line) and options_file.c (the file of settings) share.
 */
#ifndef HALAY_LAUNCHER_OPTIONS_IMPL_H
#define HALAY_LAUNCHER_OPTIONS_IMPL_H

#include "launcher/cli/options.h"

/* The row's function where an option gives a variable its value as it is. */
halay_option_take options_set_variable;

/* Keeps what was given, with a copy of its value (NULL: none); line as in struct given. NULL: no memory (reported). */
struct given *options_add_given(struct options *options, const struct halay_option *o, const char *value, int line);

/* Checks the value and sets what it sets. who: "option --grace", for complaints. value outlives the options. 0 or an
 * exit code (reported). */
int options_apply(struct options *options, const struct halay_option *o, const char *who, const char *value);

/* Reads the file of --config-file, if there is one, and applies what nothing else overrides. 0, or an exit code
 * (reported). */
int options_apply_file(struct options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What options.c (the table and the command line) and options_file.c (the file of settings) share.
 */
#ifndef HALAY_LAUNCHER_OPTIONS_IMPL_H
#define HALAY_LAUNCHER_OPTIONS_IMPL_H

#include "launcher/cli/options.h"

enum { EXIT_USAGE = 2 };

enum option_kind {
    SETS,     /* a variable */
    SETS_MB,  /* a variable, in MiB */
    SETS_OFF, /* a variable to 0, without a value */
    RANKS,    /* an int of struct options */
    EXPORT,
    BINDING,
    SECONDS, /* an int of struct options, in milliseconds */
    PORT,    /* an int of struct options */
    TEXT,    /* a const char * of struct options; not empty */
    WORDS,   /* the same, empty or not */
    RANGE,   /* two ints of struct options, in milliseconds; given as MIN:MAX seconds */
    FLAG,    /* an int of struct options to 1, without a value */
};

struct option {
    const char *name;
    const char *value; /* what help calls it; NULL: takes none; in brackets: may be left out, and is "on" then */
    enum option_kind kind;
    const char *variable;
    size_t member; /* offset in struct options; no two kinds share one */
    const char *help;
};

/* A row of the table, NULL past the last one; the one of this name. Static storage. */
const struct option *options_row(size_t index);
const struct option *options_find(const char *name, size_t length);

/* Keep what was given, with a copy of its value (NULL: none); line as in struct given. NULL without memory (said). */
struct given *options_add_given(struct options *options, const struct option *o, const char *value, int line);

/* Check the value and set what it sets. who: "option --grace", for complaints. value outlives the options. 0 or an exit
 * code (said). */
int options_apply(struct options *options, const struct option *o, const char *who, const char *value);

/* Read the file of --config-file, if there is one, and apply what nothing else overrides. 0 or an exit code (said). */
int options_apply_file(struct options *options);

#endif

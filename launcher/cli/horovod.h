/* SPDX-License-Identifier: Apache-2.0
 *
 * Horovodrun's flags that halayrun calls by another name, does not need, or has no counterpart for. Flags with the same
 * name in both are not here; docs/guides/from-horovod.md lists all.
 */
#ifndef HALAY_LAUNCHER_HOROVOD_H
#define HALAY_LAUNCHER_HOROVOD_H

#include <stddef.h>

enum horovod_fate {
    HOROVOD_TRANSLATED, /* to an option of ours */
    HOROVOD_ALWAYS,     /* it asks for what halay does anyway */
    HOROVOD_IGNORED,    /* results are the same without it; the reason is reported */
    HOROVOD_REFUSED,    /* the job would not be what was asked for; what to do instead is reported */
};

/* Static storage. */
struct horovod_flag {
    const char *name;
    int values; /* words that follow the flag */
    enum horovod_fate fate;
    const char *option; /* ours, if translated */
    const char *value;  /* its value; NULL: the flag's own, if any */
    const char *text;   /* the reason or advice; NULL: none */
};

/* In tables of flags: fate, option, value and text. */
#define FLAG_TRANSLATED(option, value) HOROVOD_TRANSLATED, option, value, NULL
#define FLAG_ALWAYS HOROVOD_ALWAYS, NULL, NULL, NULL
#define FLAG_IGNORED(text) HOROVOD_IGNORED, NULL, NULL, text
#define FLAG_REFUSED(text) HOROVOD_REFUSED, NULL, NULL, text

const struct horovod_flag *horovod_flag(size_t index);                         /* NULL past the last one */
const struct horovod_flag *horovod_flag_find(const char *name, size_t length); /* NULL: no such flag */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Horovodrun's flags, where halayrun has another name for them, does not need them, or has nothing of the kind. Those
 * that both call alike are not here. docs/guides/from-horovod.md has them all.
 */
#ifndef HALAY_LAUNCHER_HOROVOD_H
#define HALAY_LAUNCHER_HOROVOD_H

#include <stddef.h>

enum horovod_fate {
    HOROVOD_TRANSLATED, /* to an option of ours */
    HOROVOD_ALWAYS,     /* it asks for what is the case anyway */
    HOROVOD_IGNORED,    /* results are the same without it; why is said */
    HOROVOD_REFUSED,    /* the job would not be what was asked for; what to do is said */
};

/* Static storage. */
struct horovod_flag {
    const char *name;
    int values; /* words that follow it */
    enum horovod_fate fate;
    const char *option; /* ours, if translated */
    const char *value;  /* its value; NULL: that of the flag, if any */
    const char *text;   /* for people; NULL if nothing is said */
};

const struct horovod_flag *horovod_flag(size_t index);                         /* NULL past the last one */
const struct horovod_flag *horovod_flag_find(const char *name, size_t length); /* NULL: it is none */

#endif

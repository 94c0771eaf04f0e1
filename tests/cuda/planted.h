/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of programs with an error.
 */
#ifndef PLANTED_H
#define PLANTED_H

#ifdef __cplusplus
extern "C" {
#endif

struct planted {
    const char *kind, *name; /* kind: as findings begin, and as EMU_OFF switches them off */
    void (*run)(void);
    int late; /* 1: it shows only where operations are done late */
};

extern const struct planted planted_errors[]; /* until one without a name */

#ifdef __cplusplus
}
#endif

#endif

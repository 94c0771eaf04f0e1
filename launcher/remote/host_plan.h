/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan: all that an agent needs to know to start its host's ranks. It travels in a frame, so that nothing of it,
 * neither the environment nor the secret, is ever on a command line.
 */
#ifndef HALAY_LAUNCHER_PLAN_H
#define HALAY_LAUNCHER_PLAN_H

#include "base/store/store.h"
#include "launcher/common/buffer.h"

struct plan {
    int first, count; /* its ranks: first to first + count - 1, local rank 0 is the first */
    int size;         /* ranks of the job */
    int binding;      /* enum binding */
    int grace_ms;     /* for what the ranks leave behind */
    unsigned char secret[HALAY_SECRET_BYTES];
    char *folder;       /* where the ranks begin */
    char **addresses;   /* of the store, "10.0.0.1:4000", "[fd00::1]:4000"; the first that can be reached is taken */
    char **environment; /* "NAME=value": over what the host's login gives */
    char **command;
};

/* Append plan as bytes; 0 if there is no memory. It borrows all. */
int plan_write(const struct plan *plan, struct buffer *to);
/* 0 if these bytes are none, or no memory: *plan is empty then. Strings and lists are owned by *plan, lists end with
 * NULL. */
int plan_read(const char *bytes, size_t count, struct plan *plan);
void plan_fini(struct plan *plan); /* of plan_read; wipes the secret */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Point: a send or receive as the program describes it, and under which name the engine keeps it; and so any other
 * collective without a name.
 */
#ifndef HALAY_POINT_H
#define HALAY_POINT_H

#include "fusion/state/context.h"
#include "fusion/state/meeting.h"

struct halay_point {
    const struct halay_tensor_info *info; /* what the program gave, or own */
    struct halay_process_set *names;      /* where its name is kept: names of sends and receives are not their set's */
    struct halay_meeting meeting;         /* zero if it is neither send nor receive */
    char *unnamed;                        /* name, if it becomes complete with the submission; else NULL */
    struct halay_tensor_info own;
    char name[HALAY_NAME_MAX + 1];
};

/* Of anything else only info and names are set. HALAY_ERR_ARGUMENT, said: the name is too long. */
enum halay_status halay_point_name(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_point *point);
/* Gives a collective that the program has not named the beginning of a name, and room for the rest (unnamed): after
 * halay_point_name. */
void halay_point_name_unnamed(struct halay_point *point);

#endif

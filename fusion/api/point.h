/* SPDX-License-Identifier: Apache-2.0
 *
 * Point: a send or receive as the program describes it, and under which name the engine keeps it.
 */
#ifndef HALAY_POINT_H
#define HALAY_POINT_H

#include "fusion/state/context.h"
#include "fusion/state/meeting.h"

struct halay_point {
    const struct halay_tensor_info *info; /* what the program gave, or own */
    struct halay_process_set *names;      /* where its name is kept: names of sends and receives are not their set's */
    struct halay_meeting meeting;         /* zero if it is neither send nor receive */
    struct halay_tensor_info own;
    char name[HALAY_NAME_MAX + 1];
};

/* Of anything else only info and names are set. HALAY_ERR_ARGUMENT, said: the name is too long. */
enum halay_status halay_point_name(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_point *point);

#endif

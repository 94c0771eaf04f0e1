/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns: the steps in which a bucket passes through the segments. All ranks wait for each other between two. Driver
 * only.
 */
#ifndef HALAY_TURNS_H
#define HALAY_TURNS_H

#include "fusion/run/bucket.h"

/* Divides the bucket into windows; its requests end with its last turn. */
enum halay_status halay_turns_begin(struct halay_bucket *b);
/* Launches the next turn, once all ranks have ended the one before. */
enum halay_status halay_turns_launch(struct halay_bucket *b);
/* Continues a turn once its share has been summed over the hosts. */
enum halay_status halay_turns_progress_wire(struct halay_bucket *b);
/* Ends what was launched in the present turn. */
enum halay_status halay_turns_close(struct halay_bucket *b, enum halay_status status);

#endif

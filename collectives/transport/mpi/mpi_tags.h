/* SPDX-License-Identifier: Apache-2.0
 *
 * Our 30 bits of tag in what an MPI library grants (MPI_TAG_UB is 2^31 - 1 with some, as little as 2^19 - 1 with
 * others).
 *
 *     room for 30 bits:   MPI's tag is ours; one communicator
 *     less:               groups and channels that exist need 8 and 3 bits, with the algorithm's own 18 that is 29;
 *                         what of these doesn't fit below chooses one of several communicators
 *
 *         28 .. 21  20 .. 18  17 ............. 0
 *         group     channel   the algorithm's own
 *         <-- communicator --><------ tag ------>      (2^18 granted: 256 communicators, HALAY_GROUPS_FEW groups)
 *
 * Communicators take time at the start and memory. So groups are fewer where all would need more than COMMS_FOR_ALL.
 *
 * One more tag, just above these, is for goodbyes.
 */
#ifndef HALAY_MPI_TAGS_H
#define HALAY_MPI_TAGS_H

#include "collectives/transport/link.h"

enum { HALAY_MPI_COMMS_FOR_ALL = 64, HALAY_MPI_COMMS_MAX = HALAY_GROUPS_FEW * HALAY_CHANNELS, HALAY_MPI_TAG_BITS = 29 };
_Static_assert(1 << (HALAY_MPI_TAG_BITS - HALAY_TAG_BITS) == HALAY_GROUPS_MAX * HALAY_CHANNELS,
               "bits for all groups and channels");

struct halay_mpi_tags {
    int is_direct;
    int bits;    /* of MPI's tag */
    int comms;   /* how many communicators */
    int groups;  /* those with lower ids can be sent for */
    int goodbye; /* the tag of goodbyes */
};

/* HALAY_ERR_UNSUPPORTED if this MPI grants too few. */
static inline enum halay_status halay_mpi_tags_plan(long tag_ub, struct halay_mpi_tags *plan)
{
    int bits = 0;

    while (bits < 30 && 1L << (bits + 1) <= tag_ub)
        bits++;
    if (bits < HALAY_TAG_BITS)
        return HALAY_ERR_UNSUPPORTED;
    if (bits > HALAY_MPI_TAG_BITS && bits < 30)
        bits = HALAY_MPI_TAG_BITS;
    *plan = (struct halay_mpi_tags){ .is_direct = bits == 30, .bits = bits, .comms = 1, .goodbye = 1 << bits };
    plan->groups = HALAY_GROUPS_MAX;
    if (bits < HALAY_MPI_TAG_BITS)
        plan->comms = 1 << (HALAY_MPI_TAG_BITS - bits);
    for (; plan->comms > HALAY_MPI_COMMS_FOR_ALL && plan->groups > HALAY_GROUPS_FEW; plan->groups /= 2)
        plan->comms /= 2;
    return HALAY_OK;
}

/* Where a message with this tag goes; HALAY_ERR_ARGUMENT for a group or channel that can't exist. */
static inline enum halay_status halay_mpi_tags_map(const struct halay_mpi_tags *plan, uint64_t tag, int *comm,
                                                   int *mpi_tag)
{
    uint64_t group = tag >> 32, channel = tag >> HALAY_CHANNEL_SHIFT & 255;
    uint32_t own = (uint32_t)tag & ((1u << HALAY_TAG_BITS) - 1);

    if (plan->is_direct) {
        *comm = 0;
        *mpi_tag = (int)(group << 22 | channel << 18 | own);
        return group > 255 || channel > 15 ? HALAY_ERR_ARGUMENT : HALAY_OK;
    }
    if (group >= (uint32_t)plan->groups || channel >= HALAY_CHANNELS)
        return HALAY_ERR_ARGUMENT;
    uint32_t packed = (uint32_t)(group << 21 | channel << 18) | own;
    *comm = (int)(packed >> plan->bits);
    *mpi_tag = (int)(packed & ((1u << plan->bits) - 1));
    return HALAY_OK;
}

#endif

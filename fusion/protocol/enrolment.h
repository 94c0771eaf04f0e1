/* SPDX-License-Identifier: Apache-2.0
 *
 * Express: small all-reduces that come alone are not negotiated any more; what is agreed and exchanged lies in shared
 * memory.
 *
 *     enrolled      a small tensor that has been a bucket by itself ALONE_TIMES in succession gets a pair of slots
 *                   (collectives/shared/express_slots.h), for good. The coordinator and the ranks count buckets alike,
 *                   so nobody is told.
 *     submitted     the data and the number of the round are put into a slot: that says it to all ranks at once
 *     all have put  each rank adds for itself; the round is over
 *     late          a rank is missing for HALAY_EXPRESS_LATE_US, or this one is about to join or to leave: LATE goes
 *                   to the coordinator, which then knows what it knows of any tensor: who is missing (stalls), who
 *                   has left, who means something else
 *
 * A round is also over, for all ranks alike, when the coordinator gives the tensor out as a bucket (others have joined;
 * or it is agreed on anew) and when it refuses it. So all count the same rounds, and nobody puts another one's data
 * together with his.
 *
 * A rank looks at its slots before it goes by what another one says (an announcement, a farewell, a bucket): whoever
 * is in a later round has seen that the one before is complete, and so does this rank then. The coordinator drops what
 * it has heard of a round when it, rank 0, has seen the round's end; what it hears of it later it ignores.
 */
#ifndef HALAY_ENROLMENT_H
#define HALAY_ENROLMENT_H

#include "collectives/shared/express_slots.h"
#include "fusion/protocol/signature.h"

/* What the coordinator and each rank know of a name, alike. Zero-initialised. */
struct halay_enrolment {
    size_t pair;    /* of slots: 1 + its number; 0: not enrolled */
    uint64_t round; /* the last one that is over */
    int alone;      /* before: buckets of it alone, in succession */
};

static inline int halay_express_suits(const struct halay_signature *s)
{
    return s->collective == HALAY_ALLREDUCE && s->reduction != HALAY_ADASUM && !s->members && !s->is_on_devices &&
           halay_signature_is_plain(s) && halay_signature_bytes(s) <= HALAY_EXPRESS_BYTES &&
           halay_signature_bytes(s) > 0;
}

/* The tensor is given out in a bucket of so many. *enrolled, of `pairs`: names that are. */
static inline void halay_enrolment_count(struct halay_enrolment *e, const struct halay_signature *agreed,
                                         size_t tensors, size_t *enrolled, size_t pairs)
{
    enum { ALONE_TIMES = 2 };

    if (e->pair) {
        e->round++;
        return;
    }
    e->alone = tensors == 1 && halay_express_suits(agreed) ? e->alone + 1 : 0;
    if (e->alone >= ALONE_TIMES && *enrolled < pairs)
        e->pair = ++*enrolled;
}

#endif

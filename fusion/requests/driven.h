/* SPDX-License-Identifier: Apache-2.0
 *
 * Driven: the part of a context that only the driver touches, so that it needs no lock.
 */
#ifndef HALAY_DRIVEN_H
#define HALAY_DRIVEN_H

#include "fusion/requests/negotiation.h"
#include <stdint.h>

struct halay_driven {
    int64_t stepped_us; /* when the last step began that was a whole one */
    int64_t checked_us; /* when peers and stalls were looked at last */
    struct halay_negotiation negotiation;
};

#endif

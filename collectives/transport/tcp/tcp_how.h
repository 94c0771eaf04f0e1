/* SPDX-License-Identifier: Apache-2.0
 *
 * How connections between hosts are made, and when they are given up.
 */
#ifndef HALAY_TCP_HOW_H
#define HALAY_TCP_HOW_H

#include "base/net/listen.h"

struct halay_tcp_how {
    struct halay_network network; /* for rank 0's port; its strings are borrowed for the call */
    int timeout_ms;               /* of the start */
    int silence_ms; /* a peer whose host does not answer for this time is lost; its process need not run to answer */
};

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * How connections between ranks are made, and when they are given up.
 */
#ifndef HALAY_TCP_HOW_H
#define HALAY_TCP_HOW_H

#include "base/net/listen.h"

struct halay_tcp_how {
    struct halay_network network; /* both ends of a connection are in it; its strings are borrowed for the call */
    int timeout_ms;               /* of the start, and for making one connection */
    int is_sealed;                /* connections are encrypted; all ranks have the same */
    int streams;                  /* connections of two ranks on different hosts; 0: by the network. Rank 0's counts */
    int silence_ms; /* a peer whose host does not answer for this time is lost; its process need not run to answer */
    int connects;   /* all ranks connect with rank 0 before open returns, so that unreachable ones are named */
};

#endif

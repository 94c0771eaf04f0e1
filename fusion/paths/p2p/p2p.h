/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p: the path of sends and receives, between two ranks.
 */
#ifndef HALAY_P2P_H
#define HALAY_P2P_H

struct halay_path;

/* Creates the path. NULL: no memory. */
struct halay_path *halay_p2p_create(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The ucx transport: UCP over whatever network UCX finds; the slot transport_create of its module (module.h).
 */
#ifndef HALAY_UCX_TRANSPORT_H
#define HALAY_UCX_TRANSPORT_H

#include "collectives/transport/module.h"

/* boot is borrowed for the call. HALAY_ERR_UNSUPPORTED, on every rank, if UCX can't be set up on one of them. */
enum halay_status halay_ucx_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_link **out);

#endif

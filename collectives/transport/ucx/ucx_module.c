/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhalay-ucx.so offers: a transport; its ranks find each other by another's bootstrap.
 */
#include "collectives/transport/ucx/ucx_transport.h"

const struct halay_module_api halay_module = {
    .abi = HALAY_MODULE_ABI,
    .version = HALAY_VERSION,
    .name = "ucx",
    .transport_create = halay_ucx_transport_create,
};

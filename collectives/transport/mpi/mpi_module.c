/* SPDX-License-Identifier: Apache-2.0
 *
 * What libhalay-mpi.so offers. MPI is touched when one of these is called, not when the module is loaded.
 */
#include "collectives/transport/mpi/mpi_module.h"

const struct halay_module_api halay_module = {
    .abi = HALAY_MODULE_ABI,
    .version = HALAY_VERSION,
    .name = "mpi",
    .transport_create = halay_mpi_transport_create,
    .boot_create = halay_mpi_boot_create,
    .boot_create_from = halay_mpi_boot_create_from,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi module's two halves; the slots of struct halay_module_api (module.h).
 */
#ifndef HALAY_MPI_MODULE_H
#define HALAY_MPI_MODULE_H

#include "collectives/transport/module.h"
#include <mpi.h>

/* boot is borrowed for the call. HALAY_ERR_UNSUPPORTED, on every rank, if one of them can't: MPI is the program's and
 * below MPI_THREAD_MULTIPLE, or is finalised, or boot is not this module's and the ranks of the job are not those of
 * MPI_COMM_WORLD. */
enum halay_status halay_mpi_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_link **out);

/* The ranks are those of MPI_COMM_WORLD. HALAY_ERR_UNSUPPORTED if this thread may not call MPI, or if each process is a
 * world of its own although the launcher started several. */
enum halay_status halay_mpi_boot_create(const struct halay_host *host, struct halay_boot **out);
/* The ranks are those of the MPI_Comm that comm points to. MPI stays the program's. HALAY_ERR_ARGUMENT: it is null, or
 * joins two groups, or is of another MPI; HALAY_ERR_UNSUPPORTED: MPI is not up, or this thread may not call it. */
enum halay_status halay_mpi_boot_create_from(const struct halay_host *host, const void *comm, enum halay_mpi_abi abi,
                                             struct halay_boot **out);
/* Returns the communicator of boot's ranks: boot's own, borrowed, or MPI_COMM_WORLD if boot is not this module's. */
MPI_Comm halay_mpi_boot_comm(const struct halay_boot *boot);

#endif

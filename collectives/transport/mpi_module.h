/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi module's two halves; the slots of struct halay_module_api (module.h).
 */
#ifndef HALAY_MPI_MODULE_H
#define HALAY_MPI_MODULE_H

#include "collectives/transport/module.h"

/* boot is borrowed for the call. HALAY_ERR_UNSUPPORTED, on every rank, if one of them can't: MPI is the program's and
 * below MPI_THREAD_MULTIPLE, or is finalised, or the ranks of the job are not those of MPI_COMM_WORLD. */
enum halay_status halay_mpi_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_transport **out);

/* The ranks are those of MPI_COMM_WORLD. HALAY_ERR_UNSUPPORTED if this thread may not call MPI, or if each process is a
 * world of its own although the launcher started several. */
enum halay_status halay_mpi_boot_create(const struct halay_host *host, struct halay_boot **out);

#endif

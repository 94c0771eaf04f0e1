/* SPDX-License-Identifier: Apache-2.0
 *
 * One installation can carry modules for two MPIs: libhalay-mpi.so for the one that configure found first (Open MPI, as
 * a rule) and libhalay-mpi-mpich.so for MPICH and its kin, which share an ABI of their own. A process can hold one MPI
 * only.
 */
#ifndef HALAY_MPI_VARIANT_H
#define HALAY_MPI_VARIANT_H

#include "base/config.h"

/* What to add to the names of modules that are built for an MPI: "-mpich" or "". It is looked for first, the plain name
 * next. The MPI that the program itself is linked with decides, and without one the launcher. Static storage. Any
 * thread. */
const char *halay_mpi_variant(const struct halay_config *config);
/* The same where it is known which MPI it is. */
const char *halay_mpi_abi_variant(enum halay_mpi_abi abi);

#endif

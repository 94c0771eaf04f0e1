/* SPDX-License-Identifier: Apache-2.0
 *
 * Which MPI this process is of. The symbols of a library that was loaded for a module of ours are not seen here:
 * modules are opened for themselves alone.
 */
#include "base/machine/mpi_variant.h"
#include <dlfcn.h>

const char *halay_mpi_abi_variant(enum halay_mpi_abi abi)
{
    return abi == HALAY_MPI_MPICH ? "-mpich" : "";
}

const char *halay_mpi_variant(const struct halay_config *config)
{
    const int has_mpi = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
    const int has_open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;
    const int is_mpich = has_mpi ? !has_open_mpi : config->mpi_launcher_is_mpich;

    return halay_mpi_abi_variant(is_mpich ? HALAY_MPI_MPICH : HALAY_MPI_OPEN);
}

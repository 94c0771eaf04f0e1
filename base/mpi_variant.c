/* SPDX-License-Identifier: Apache-2.0
 *
 * Which MPI this process is of. The symbols of a library that was loaded for a module of ours are not seen here: modules
 * are opened for themselves alone.
 */
#include "base/mpi_variant.h"
#include <dlfcn.h>

const char *halay_mpi_variant(const struct halay_config *config)
{
    const int has_mpi = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
    const int has_open_mpi = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL;

    if (has_mpi)
        return has_open_mpi ? "" : "-mpich";
    return config->mpi_launcher_is_mpich ? "-mpich" : "";
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: jobs whose ranks are those of an MPI communicator.
 *
 * For programs that use MPI themselves. Any intracommunicator is accepted: MPI_COMM_WORLD, a part of it, one with other
 * rank numbers; the ranks of the context or group are the communicator's. A process may be in several at a time. The
 * libraries do not link with MPI: these calls load a module for Open MPI or for MPICH, depending on mpi.h.
 *
 * The program owns MPI: it initialises MPI before these calls, which neither initialise nor finalise it. The
 * communicator is borrowed for the call, which copies it (with MPI_Comm_split, so attributes are not copied); it may be
 * used and freed afterwards, and its error handler is unchanged. Close contexts and groups before MPI_Finalize. Data
 * move through shared memory and UCX where possible, otherwise over MPI (HALAY_TRANSPORT). HALAY_BOOTSTRAP and a
 * launcher's variables are ignored.
 *
 * Threads. The calls here, and halay_fini and halay_group_close, call MPI from the calling thread: the program must
 * have initialised MPI with MPI_THREAD_SERIALIZED, and no other thread may call MPI meanwhile; or it must call from
 * MPI's main thread (MPI_THREAD_FUNNELED, MPI_THREAD_SINGLE). MPI_THREAD_MULTIPLE is needed only for data over MPI, on
 * any thread, because these move while the program continues; without it that transport is refused
 * (HALAY_ERR_UNSUPPORTED).
 *
 * Errors: as halay_init and halay_group_open, and HALAY_ERR_ARGUMENT (MPI_COMM_NULL; an intercommunicator; the
 * communicator of another MPI than the installed module's), HALAY_ERR_CONFIG (options->bootstrap is not NULL, "auto" or
 * "mpi"), HALAY_ERR_UNSUPPORTED (MPI is not initialised, or is finalised; no such module; the thread level). Every rank
 * of the communicator must call: a missing rank leaves the others waiting in MPI, which has no timeout.
 */
#ifndef HALAY_MPI_H
#define HALAY_MPI_H

#include "halay.h"
#include "halay_coll.h"
#include <mpi.h>

#if defined(OPEN_MPI)
#define HALAY_MPI_ABI HALAY_MPI_OPEN
#elif defined(MPICH_VERSION) || defined(MPICH_NUMVERSION) || defined(I_MPI_VERSION) || defined(MVAPICH2_VERSION)
#define HALAY_MPI_ABI HALAY_MPI_MPICH
#else
#error "halay_mpi.h supports Open MPI, MPICH and their relatives; this mpi.h is of another MPI"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Calls halay_init with the ranks of comm. */
static inline enum halay_status halay_init_mpi(MPI_Comm comm, const struct halay_options *options,
                                               struct halay_context **ctx)
{
    return halay_init_communicator(&comm, HALAY_MPI_ABI, options, ctx);
}

/* Calls halay_group_open with the ranks of comm. */
static inline enum halay_status halay_group_open_mpi(MPI_Comm comm, const struct halay_options *options,
                                                     struct halay_group **group)
{
    return halay_group_open_communicator(&comm, HALAY_MPI_ABI, options, group);
}

#ifdef __cplusplus
}
#endif
#endif

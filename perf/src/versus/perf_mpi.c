/* SPDX-License-Identifier: Apache-2.0
 *
 * libhalay-perf-mpi.so: MPI's collectives behind peer.h. It calls MPI and nothing else of anybody's, so it can be
 * loaded beside any libhalay. Errors of MPI are returned, which MPI does only if asked to.
 */
#include "perf/src/versus/peer.h"
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int fail(int code, const char *what, char *text, size_t text_size)
{
    char said[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    MPI_Error_string(code, said, &length);
    snprintf(text, text_size, "%s failed: %s", what, said);
    return 1;
}

/* "Open MPI v4.1.4, package: …" is cut at the comma, and "MPICH Version:\t4.0.2" at the end of its line. */
static const char *describe(char *library, size_t library_size)
{
    static const struct {
        const char *start, *name;
    } names[] = { { "Open MPI", "openmpi" }, { "MPICH", "mpich" }, { "Intel", "intelmpi" } };
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\r\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t')); tab++)
        *tab = ' ';
    snprintf(library, library_size, "%s", version);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(version, names[i].start, strlen(names[i].start)))
            return names[i].name;
    return "mpi";
}

static int perf_mpi_start(char *text, size_t text_size)
{
    int code = MPI_Init(NULL, NULL);

    return code == MPI_SUCCESS ? 0 : fail(code, "MPI_Init", text, text_size);
}

static void perf_mpi_stop(void)
{
    MPI_Finalize();
}

static int perf_mpi_place(int *rank, int *size, const char **name, char *library, size_t library_size, char *text,
                          size_t text_size)
{
    int is_up = 0, is_over = 0, code;

    MPI_Initialized(&is_up);
    MPI_Finalized(&is_over);
    if (!is_up || is_over) {
        snprintf(text, text_size, "MPI is not initialised in this process");
        return 1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if ((code = MPI_Comm_rank(MPI_COMM_WORLD, rank)) != MPI_SUCCESS)
        return fail(code, "MPI_Comm_rank", text, text_size);
    if ((code = MPI_Comm_size(MPI_COMM_WORLD, size)) != MPI_SUCCESS)
        return fail(code, "MPI_Comm_size", text, text_size);
    *name = describe(library, library_size);
    return 0;
}

/* Data that are only moved may go as any type of the same size. */
static MPI_Datatype mpi_type(enum halay_dtype dtype, int is_reduced)
{
    switch (dtype) {
    case HALAY_F32:
        return MPI_FLOAT;
    case HALAY_F64:
        return MPI_DOUBLE;
    case HALAY_I32:
        return MPI_INT32_T;
    case HALAY_I64:
        return MPI_INT64_T;
    case HALAY_F16:
    case HALAY_BF16:
        return is_reduced ? MPI_DATATYPE_NULL : MPI_UINT16_T;
    case HALAY_U8:
        return MPI_UINT8_T;
    case HALAY_I8:
        return MPI_INT8_T;
    case HALAY_U16:
        return MPI_UINT16_T;
    case HALAY_I16:
        return MPI_INT16_T;
    case HALAY_BOOL:
        return MPI_C_BOOL;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* MPI's logical type takes its logical operations only. */
static MPI_Op mpi_op(enum halay_dtype dtype, enum halay_reduction op)
{
    int is_bool = dtype == HALAY_BOOL;

    switch (op) {
    case HALAY_SUM:
        return is_bool ? MPI_LOR : MPI_SUM;
    case HALAY_MIN:
        return is_bool ? MPI_LAND : MPI_MIN;
    case HALAY_MAX:
        return is_bool ? MPI_LOR : MPI_MAX;
    case HALAY_PRODUCT:
        return is_bool ? MPI_LAND : MPI_PROD;
    case HALAY_BIT_AND:
        return is_bool ? MPI_LAND : MPI_BAND;
    case HALAY_BIT_OR:
        return is_bool ? MPI_LOR : MPI_BOR;
    default:
        return MPI_OP_NULL;
    }
}

static int reduces(const struct perf_call *call)
{
    return call->collective == PERF_ALLREDUCE || call->collective == PERF_REDUCE ||
           call->collective == PERF_REDUCE_SCATTER;
}

static int perf_mpi_takes(const struct perf_call *call, char *text, size_t text_size)
{
    if (mpi_type(call->dtype, reduces(call)) == MPI_DATATYPE_NULL)
        snprintf(text, text_size, "MPI has no 16-bit floating type");
    else if (reduces(call) && mpi_op(call->dtype, call->op) == MPI_OP_NULL)
        snprintf(text, text_size, "MPI has no average");
    else if (call->count > INT_MAX)
        snprintf(text, text_size, "MPI takes at most %d elements", INT_MAX);
    else
        return 1;
    return 0;
}

/* In place for MPI means: what is given lies where the result will be. Only the root of a reduction has a result. */
static int mpi_reduce(const struct perf_call *call, MPI_Datatype type)
{
    int rank = 0, code = MPI_Comm_rank(MPI_COMM_WORLD, &rank), is_root = rank == call->root;

    if (code != MPI_SUCCESS)
        return code;
    return MPI_Reduce(is_root ? MPI_IN_PLACE : call->in, is_root ? call->out : NULL, (int)call->count, type,
                      mpi_op(call->dtype, call->op), call->root, MPI_COMM_WORLD);
}

static int call_collective(const struct perf_call *call)
{
    MPI_Datatype type = mpi_type(call->dtype, reduces(call));
    MPI_Comm world = MPI_COMM_WORLD;
    int count = (int)call->count;

    switch (call->collective) {
    case PERF_ALLREDUCE:
        return MPI_Allreduce(MPI_IN_PLACE, call->out, count, type, mpi_op(call->dtype, call->op), world);
    case PERF_REDUCE:
        return mpi_reduce(call, type);
    case PERF_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(call->in, call->out, count, type, mpi_op(call->dtype, call->op), world);
    case PERF_BROADCAST:
        return MPI_Bcast(call->out, count, type, call->root, world);
    case PERF_ALLGATHER:
        return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, call->out, count, type, world);
    case PERF_ALLTOALL:
        return MPI_Alltoall(call->in, count, type, call->out, count, type, world);
    case PERF_BARRIER:
        return MPI_Barrier(world);
    }
    return MPI_ERR_ARG;
}

static int perf_mpi_call(const struct perf_call *call, char *text, size_t text_size)
{
    static const char *const names[] = {
        [PERF_ALLREDUCE] = "MPI_Allreduce",
        [PERF_REDUCE] = "MPI_Reduce",
        [PERF_REDUCE_SCATTER] = "MPI_Reduce_scatter_block",
        [PERF_BROADCAST] = "MPI_Bcast",
        [PERF_ALLGATHER] = "MPI_Allgather",
        [PERF_ALLTOALL] = "MPI_Alltoall",
        [PERF_BARRIER] = "MPI_Barrier",
    };
    int code = call_collective(call);

    return code == MPI_SUCCESS ? 0 : fail(code, names[call->collective], text, text_size);
}

const struct perf_peer_ops halay_perf_mpi_ops = {
    .version = HALAY_VERSION,
    .start = perf_mpi_start,
    .stop = perf_mpi_stop,
    .place = perf_mpi_place,
    .takes = perf_mpi_takes,
    .call = perf_mpi_call,
};

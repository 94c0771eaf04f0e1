/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory of a simulated node, for the hierarchical all-reduce. All simulated ranks are in one process, so they
 * reach each other's memory as it is: an offset is an address. What that would cost on a node is simulated:
 *
 *     to read a neighbour's memory    memory_ns a byte, of the reading rank's time (one processor each)
 *     to write and read one's own     nothing, as everywhere in these simulations
 *     a flag                          is seen at once by a rank that is awake; one that waits is woken by a message of
 *                                     no bytes inside the node, which takes that link's latency
 *
 * Neighbours' memory is known by address: their areas, and the range reached last. It is read by adding
 * (simulated_node_reducer) and by copying, for which the linker replaces a function of the library by one of this file:
 *
 *     halay_vector_unpack
 *
 * A rank sets is_asleep before it waits, and no other rank runs between its last look at the flags and that: no ring is
 * lost. A late ring wakes it once in vain.
 *
 * Cleanup: zero-initialised, close accepts a half-built node. Ranks are never interrupted outside MPI: no lock.
 */
#include "base/memory.h"
#include "collectives/schedule/vector.h"
#include "perf/simulated/simulated.h"
#include <stdlib.h>
#include <sys/mman.h>

#define AREAS_BYTES HALAY_GROUP_BYTES /* address space; only touched pages take memory */

enum { NODE_RANKS_MAX = 64, BELL_TAG = 1, AREAS_OFFSET = 1 }; /* all other offsets are addresses */

/* What one rank reads. */
struct range {
    const unsigned char *start;
    size_t bytes;
};

struct node {
    struct halay_shared_memory base;
    int first; /* the lowest rank of this node */
    double memory_ns;
    struct range reached[NODE_RANKS_MAX]; /* of each neighbour */
    struct halay_reducer reducer;
    unsigned char *areas; /* owned */
    /* The bell: a receive that is always posted. */
    MPI_Request bell;
    int is_asleep, is_ringing;        /* it waits; a ring is on its way */
    MPI_Request rang[NODE_RANKS_MAX]; /* this rank's last ring to each neighbour */
    unsigned long rings;
    MPI_Request *requests; /* owned: room for the awaited requests and the bell */
    int capacity;
};

static struct node *nodes[SIMULATED_RANKS_MAX]; /* each rank's own; neighbours see it too */

static struct node *own_node(void)
{
    int rank = 0;

    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* it worked before */
    return nodes[rank];
}

static struct node *neighbour(const struct halay_shared_memory *t, int peer)
{
    return nodes[((const struct node *)t)->first + peer];
}

/* ---- time ---- */

static int holds(struct range range, const void *at)
{
    const unsigned char *p = at;

    return p >= range.start && p < range.start + range.bytes;
}

static int is_neighbours(const struct node *self, const void *at)
{
    for (int peer = 0; peer < self->base.size; peer++) {
        const struct range areas = { neighbour(&self->base, peer)->areas, AREAS_BYTES };
        if (peer != self->base.rank && (holds(self->reached[peer], at) || holds(areas, at)))
            return 1;
    }
    return 0;
}

/* A simulated host computes one flop a nanosecond (perf/bench/simulate). */
static void take_time(const struct node *self, size_t bytes)
{
    if (bytes)
        smpi_execute_flops((double)bytes * self->memory_ns);
}

static void reduce_in_time(void *const *dst, int destinations, const void *const *src, int sources, size_t count,
                           int divisor)
{
    struct node *self = own_node();
    size_t bytes = 0;

    for (int i = 0; i < sources; i++)
        bytes += is_neighbours(self, src[i]) ? count * sizeof(float) : 0;
    take_time(self, bytes);
    halay_reducer_best()->reduce[HALAY_F32][HALAY_SUM](dst, destinations, src, sources, count, divisor);
}

const struct halay_reducer *simulated_node_reducer(void)
{
    const struct node *self = own_node();

    return self ? &self->reducer : halay_reducer_best();
}

void __real_halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                                const void *array);
void __wrap_halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                                const void *array);

void __wrap_halay_vector_unpack(const struct halay_vector *v, struct halay_cursor *cursor, size_t at, size_t count,
                                const void *array)
{
    const struct node *self = own_node();

    if (self && is_neighbours(self, array))
        take_time(self, count * v->element);
    __real_halay_vector_unpack(v, cursor, at, count, array);
}

/* ---- the bell ---- */

static int bell_listen(struct node *self)
{
    self->is_ringing = 0;
    return MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, BELL_TAG, MPI_COMM_WORLD, &self->bell);
}

static void node_notify(struct halay_shared_memory *t, int peer)
{
    struct node *self = (struct node *)t, *other = neighbour(t, peer);

    if (!other)
        return; /* it has left */
    other->rings++;
    if (!other->is_asleep || other->is_ringing)
        return;
    other->is_ringing = 1;
    MPI_Wait(&self->rang[peer], MPI_STATUS_IGNORE); /* received long ago */
    MPI_Isend(NULL, 0, MPI_BYTE, other->first + peer, BELL_TAG, MPI_COMM_WORLD, &self->rang[peer]);
}

unsigned long simulated_node_rings(void)
{
    const struct node *self = own_node();

    return self ? self->rings : 0;
}

static int requests_reserve(struct node *self, int count)
{
    if (count <= self->capacity)
        return 1;
    MPI_Request *grown = realloc(self->requests, 2 * (size_t)count * sizeof *grown);
    if (!grown)
        return 0;
    self->requests = grown;
    self->capacity = 2 * count;
    return 1;
}

int simulated_node_wait(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
    struct node *self = own_node();

    if (!self)
        return MPI_Waitany(count, requests, index, status);
    if (!requests_reserve(self, count + 1))
        return MPI_ERR_OTHER;
    for (int i = 0; i < count; i++)
        self->requests[i] = requests[i];
    self->requests[count] = self->bell;
    self->is_asleep = 1;
    int error = MPI_Waitany(count + 1, self->requests, index, status);
    self->is_asleep = 0;
    if (error != MPI_SUCCESS || *index == MPI_UNDEFINED)
        return error;
    if (*index < count) {
        requests[*index] = self->requests[*index];
        return MPI_SUCCESS;
    }
    *index = MPI_UNDEFINED;
    return bell_listen(self);
}

/* ---- the table: areas of one group ---- */

static enum halay_status node_take_areas(struct halay_shared_memory *t, uint64_t *offset)
{
    (void)t;
    *offset = AREAS_OFFSET;
    return HALAY_OK;
}

static uint64_t node_locate(struct halay_shared_memory *t, const void *ptr, size_t bytes)
{
    (void)t, (void)bytes;
    return (uint64_t)(uintptr_t)ptr;
}

static void *node_reach(struct halay_shared_memory *t, int peer, uint64_t offset, size_t bytes)
{
    struct node *self = (struct node *)t;
    unsigned char *at = (unsigned char *)(uintptr_t)offset;

    if (offset == AREAS_OFFSET)
        return neighbour(t, peer)->areas;
    self->reached[peer] = (struct range){ at, bytes };
    return at;
}

static enum halay_status node_alloc(struct halay_shared_memory *t, size_t bytes, void **out)
{
    (void)t;
    *out = halay_aligned_alloc(HALAY_PAGE, bytes);
    return *out ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

static void node_free(struct halay_shared_memory *t, void *ptr)
{
    (void)t;
    free(ptr);
}

static const struct halay_shared_memory_ops node_ops = {
    .alloc = node_alloc,
    .free = node_free,
    .take_areas = node_take_areas,
    .locate = node_locate,
    .reach = node_reach,
    .notify = node_notify,
};

void simulated_node_close(void)
{
    struct node *self = own_node();

    if (!self)
        return;
    if (self->bell != MPI_REQUEST_NULL) {
        self->is_asleep = 1;
        node_notify(&self->base, self->base.rank);
        MPI_Wait(&self->bell, MPI_STATUS_IGNORE);
        MPI_Waitall(self->base.size, self->rang, MPI_STATUSES_IGNORE);
    }
    if (self->areas != MAP_FAILED)
        munmap(self->areas, AREAS_BYTES);
    nodes[self->first + self->base.rank] = NULL;
    free(self->requests);
    free(self);
}

enum halay_status simulated_node_open(struct halay_log *log, int node_ranks, double memory_ns,
                                      struct halay_shared_memory **out)
{
    struct node *self;
    int rank = log->rank;

    if (node_ranks > NODE_RANKS_MAX)
        return HALAY_ERR_ARGUMENT;
    self = calloc(1, sizeof *self);
    if (!self)
        return HALAY_ERR_NO_MEMORY;
    *self = (struct node){
        .base = { &node_ops, rank % node_ranks, node_ranks },
        .first = rank - rank % node_ranks,
        .memory_ns = memory_ns,
        .reducer = *halay_reducer_best(),
        .bell = MPI_REQUEST_NULL,
    };
    for (int i = 0; i < NODE_RANKS_MAX; i++)
        self->rang[i] = MPI_REQUEST_NULL;
    self->reducer.reduce[HALAY_F32][HALAY_SUM] = reduce_in_time;
    nodes[rank] = self;
    self->areas = mmap(NULL, AREAS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (self->areas == MAP_FAILED || bell_listen(self) != MPI_SUCCESS) {
        simulated_node_close();
        return HALAY_ERR_SYSTEM;
    }
    MPI_Barrier(MPI_COMM_WORLD); /* neighbours have theirs */
    *out = &self->base;
    return HALAY_OK;
}

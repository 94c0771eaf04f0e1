/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi transport: MPI point-to-point.
 *
 * Messages go in parts (parts.h): MPI sees memory only that we keep, so that what a peer sends late, or a request that
 * never ends because its peer is dead, hurts nobody. A cancelled receive is given to MPI_Cancel; one that was matched
 * already can't be cancelled and ends in memory that was set aside. Requests under way lie side by side in one array:
 * progress is one MPI_Testsome.
 *
 * MPI can't sleep and can't see that a peer is dead. The world watches the peers. A rank with a request under way looks
 * at it again at the latest after NAP_MOST_US, and sooner while something has completed lately (mpi_arm); one without
 * sleeps until the bell rings.
 *
 * Leaving. A rank that closes sends every peer a goodbye with the number of parts it has sent to it. Until it has heard
 * all goodbyes, and received what they announce, its communicators can't be freed (mpi_process.c says why): they stay
 * behind as remains, which each later call of the module looks at. The goodbye also tells a peer that still waits.
 *
 * Lengths fit MPI's int because a part is small. Cleanup: zero-init and fini.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/transport/mpi/mpi_module.h"
#include "collectives/transport/mpi/mpi_process.h"
#include "collectives/transport/mpi/mpi_tags.h"
#include "collectives/transport/parts.h"
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Tests take small ones. */
#ifndef HALAY_MPI_PART_BYTES
#define HALAY_MPI_PART_BYTES (((size_t)1 << 20) + 64)
#endif
#ifndef HALAY_MPI_TAG_UB_MAX
#define HALAY_MPI_TAG_UB_MAX (1L << 30)
#endif

enum {
    AWAKE_US = 200, /* how long it is polled without a nap */
    NAP_LEAST_US = 50,
    NAP_MOST_US = 1000,
};

struct goodbye {
    uint64_t sent; /* parts from the sender to the receiver */
};

struct mpi_transport {
    struct halay_parts parts;         /* first */
    struct halay_mpi_remains remains; /* after close */
    struct halay_mpi_tags tags;
    MPI_Comm comms[HALAY_MPI_COMMS_MAX]; /* owned: tags.comms of them */
    int open_comms;

    /* Requests with MPI, side by side; 0 is the receive of goodbyes, those of parts and of own goodbyes follow. */
    MPI_Request *requests;        /* owned, capacity of each */
    struct halay_part **parts_of; /* owned array; NULL: a goodbye */
    int *indices;                 /* owned: of MPI_Testsome */
    MPI_Status *statuses;         /* owned */
    int active, capacity;
    int64_t moved_us; /* when one of them was last given to MPI or completed */

    struct goodbye heard; /* the newest */
    struct goodbye *said; /* owned: size of them */
    uint64_t *announced;  /* owned: what each peer said that it had sent */
    int goodbyes;         /* heard so far */
};

static struct mpi_transport *self_of(struct halay_link *t)
{
    return (struct mpi_transport *)t;
}

/* --- requests */

static enum halay_status requests_reserve(struct mpi_transport *self)
{
    if (self->active < self->capacity)
        return HALAY_OK;
    int capacity = self->capacity ? 2 * self->capacity : 64;
    size_t n = (size_t)capacity;

    /* Each array that has grown is kept, also if the next one can't. */
    void *grown;
    if (!(grown = realloc(self->requests, n * sizeof *self->requests)))
        return HALAY_ERR_NO_MEMORY;
    self->requests = grown;
    if (!(grown = realloc(self->parts_of, n * sizeof *self->parts_of)))
        return HALAY_ERR_NO_MEMORY;
    self->parts_of = grown;
    if (!(grown = realloc(self->indices, n * sizeof *self->indices)))
        return HALAY_ERR_NO_MEMORY;
    self->indices = grown;
    if (!(grown = realloc(self->statuses, n * sizeof *self->statuses)))
        return HALAY_ERR_NO_MEMORY;
    self->statuses = grown;
    self->capacity = capacity;
    return HALAY_OK;
}

static void requests_add(struct mpi_transport *self, MPI_Request request, struct halay_part *part)
{
    self->requests[self->active] = request;
    self->parts_of[self->active] = part;
    if (part)
        part->index = (size_t)self->active;
    self->active++;
    self->moved_us = halay_now_us();
}

/* Close the gaps that completed requests left. */
static void requests_compact(struct mpi_transport *self)
{
    int kept = 1; /* the receive of goodbyes keeps its place, complete or not */

    for (int i = 1; i < self->active; i++) {
        if (self->requests[i] == MPI_REQUEST_NULL)
            continue;
        self->requests[kept] = self->requests[i];
        self->parts_of[kept] = self->parts_of[i];
        if (self->parts_of[kept])
            self->parts_of[kept]->index = (size_t)kept;
        kept++;
    }
    self->active = kept;
}

/* --- parts */

static enum halay_status part_post(struct halay_link *t, struct halay_part *part, size_t *arrived)
{
    struct mpi_transport *self = self_of(t);
    MPI_Request request = MPI_REQUEST_NULL;
    int comm = 0, tag = 0, error, bytes = (int)part->capacity;

    (void)arrived;
    enum halay_status status = halay_mpi_tags_map(&self->tags, part->tag, &comm, &tag);
    if (status != HALAY_OK)
        return halay_host_fail(self->parts.host, status, "tag %#" PRIx64 ": no such group or channel over MPI",
                               part->tag);
    if (requests_reserve(self) != HALAY_OK)
        return halay_host_fail(self->parts.host, HALAY_ERR_NO_MEMORY, "out of memory: %d MPI requests",
                               2 * self->capacity);
    if (part->is_send)
        error = MPI_Isend(part->memory, bytes, MPI_BYTE, part->peer, tag, self->comms[comm], &request);
    else
        error = MPI_Irecv(part->memory, bytes, MPI_BYTE, part->peer, tag, self->comms[comm], &request);
    if (error != MPI_SUCCESS)
        return halay_mpi_check(self->parts.host, error, part->is_send ? "MPI_Isend" : "MPI_Irecv");
    requests_add(self, request, part);
    return HALAY_IN_PROGRESS;
}

static void part_set_aside(struct halay_link *t, struct halay_part *part)
{
    struct mpi_transport *self = self_of(t);

    if (!part->is_send) /* an MPI that can't leaves the receive where it is: in memory of ours */
        (void)MPI_Cancel(&self->requests[part->index]);
}

static const struct halay_parts_ops parts_ops = { .post = part_post, .set_aside = part_set_aside };

/* MPI is done with a part; error: the request's own. */
static void part_end(struct mpi_transport *self, struct halay_part *part, const MPI_Status *result, int error)
{
    int count = 0, error_class = MPI_SUCCESS, is_cancelled = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (error == MPI_SUCCESS) {
        if (!part->is_send && MPI_Test_cancelled(result, &is_cancelled) == MPI_SUCCESS && is_cancelled) {
            halay_parts_end(&self->parts, part, HALAY_ERR_CANCELED, 0);
            return;
        }
        if (!part->is_send && MPI_Get_count(result, MPI_BYTE, &count) != MPI_SUCCESS)
            count = -1;
        halay_parts_end(&self->parts, part, HALAY_OK, (size_t)count);
        return;
    }
    MPI_Error_class(error, &error_class);
    if (error_class == MPI_ERR_TRUNCATE) {
        halay_parts_end(&self->parts, part, HALAY_OK, part->capacity + 1);
        return;
    }
    if (part->message && MPI_Error_string(error, text, &length) == MPI_SUCCESS)
        halay_host_info(self->parts.host, "transfer with rank %d failed: %s", part->peer, text);
    if (part->message)
        halay_parts_peer_lost(&self->parts, part->peer, "MPI could not end a transfer with it");
    halay_parts_end(&self->parts, part, HALAY_ERR_PEER, 0);
}

/* --- goodbyes */

static int goodbyes_expect(struct mpi_transport *self)
{
    return MPI_Irecv(&self->heard, sizeof self->heard, MPI_BYTE, MPI_ANY_SOURCE, self->tags.goodbye, self->comms[0],
                     &self->requests[0]);
}

static void goodbyes_take(struct mpi_transport *self, const MPI_Status *result)
{
    int peer = result->MPI_SOURCE;

    self->announced[peer] = self->heard.sent;
    self->goodbyes++;
    halay_parts_peer_left(&self->parts, peer);
    if (self->goodbyes < self->parts.t.size - 1 && goodbyes_expect(self) != MPI_SUCCESS)
        halay_parts_fail(&self->parts, HALAY_ERR_SYSTEM);
}

static void goodbyes_say(struct mpi_transport *self)
{
    for (int peer = 0; peer < self->parts.t.size; peer++) {
        MPI_Request request = MPI_REQUEST_NULL;
        self->said[peer].sent = self->parts.peers[peer].sent;
        if (peer == self->parts.t.rank || requests_reserve(self) != HALAY_OK)
            continue;
        if (MPI_Isend(&self->said[peer], sizeof self->said[peer], MPI_BYTE, peer, self->tags.goodbye, self->comms[0],
                      &request) == MPI_SUCCESS)
            requests_add(self, request, NULL);
    }
}

/* --- slots */

/* Look at all requests once. */
static void look(struct mpi_transport *self)
{
    int done = 0;
    int error = MPI_Testsome(self->active, self->requests, &done, self->indices, self->statuses);

    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) {
        halay_parts_fail(&self->parts, halay_mpi_check(self->parts.host, error, "MPI_Testsome"));
        return;
    }
    if (done == MPI_UNDEFINED || !done)
        return;
    self->moved_us = halay_now_us();
    for (int i = 0; i < done; i++) {
        struct halay_part *part = self->parts_of[self->indices[i]];
        int own_error = error == MPI_ERR_IN_STATUS ? self->statuses[i].MPI_ERROR : MPI_SUCCESS;
        if (part)
            part_end(self, part, &self->statuses[i], own_error);
        else if (self->indices[i] == 0 && own_error == MPI_SUCCESS)
            goodbyes_take(self, &self->statuses[i]);
    }
    requests_compact(self);
}

static enum halay_status mpi_progress(struct halay_link *t)
{
    struct mpi_transport *self = self_of(t);

    enum halay_status status = halay_parts_check(&self->parts);
    if (status != HALAY_OK || t->size == 1)
        return status;
    look(self);
    return halay_parts_pump(&self->parts);
}

static long mpi_arm(struct halay_link *t)
{
    struct mpi_transport *self = self_of(t);
    int64_t idle_us = halay_now_us() - self->moved_us, nap_us = idle_us / 8;

    if (self->parts.status != HALAY_OK || (self->active <= 1 && !self->parts.waiting))
        return HALAY_RINGS;
    if (idle_us < AWAKE_US) {
        sched_yield();
        return 0;
    }
    return nap_us < NAP_LEAST_US ? NAP_LEAST_US : nap_us < NAP_MOST_US ? (long)nap_us : NAP_MOST_US;
}

/* --- the end */

static void transport_fini(struct mpi_transport *self)
{
    for (int i = 0; i < self->open_comms; i++)
        (void)MPI_Comm_free(&self->comms[i]);
    halay_parts_fini(&self->parts, 1);
    free(self->announced);
    free(self->said);
    free(self->statuses);
    free(self->indices);
    free(self->parts_of);
    free(self->requests);
    free(self);
}

static void log_nothing(struct halay_log *log, enum halay_log_level level, const char *format, ...)
{
    (void)log, (void)level, (void)format;
}

static enum halay_status check_nobody(const struct halay_host *host, int *rank)
{
    (void)host, (void)rank;
    return HALAY_OK;
}

static void note_nobody(const struct halay_host *host, int rank)
{
    (void)host, (void)rank;
}

/* The function that is told what befalls the remains. */
static const struct halay_host nobody = { .log_write = log_nothing,
                                          .check_peers = check_nobody,
                                          .peer_left = note_nobody };

/* Is nothing on its way in our communicators, in either direction? */
static int is_quiet(const struct mpi_transport *self)
{
    if (self->goodbyes < self->parts.t.size - 1 || self->active > 1)
        return 0;
    for (int peer = 0; peer < self->parts.t.size; peer++)
        if (self->parts.peers[peer].received != self->announced[peer])
            return 0;
    return 1;
}

static int remains_sweep(struct halay_mpi_remains *remains, int last)
{
    struct mpi_transport *self = (struct mpi_transport *)((char *)remains - offsetof(struct mpi_transport, remains));

    if (!is_quiet(self) && self->parts.t.size > 1)
        look(self);
    if (is_quiet(self)) {
        transport_fini(self);
        return 1;
    }
    if (last && self->requests[0] != MPI_REQUEST_NULL)
        (void)MPI_Cancel(&self->requests[0]);
    return 0;
}

/* Lost a peer that MPI_Finalize would wait for? It may be known to others only: a rank that heard of a death over
 * another transport closes this one without having used it since. */
static int has_lost_a_peer(const struct mpi_transport *self)
{
    for (int r = 0; r < self->parts.t.size; r++)
        if (self->parts.peers[r].presence != HALAY_PARTS_LEFT &&
            (self->parts.t.lost[r] || self->parts.host->has_died(self->parts.host, r)))
            return 1;
    return 0;
}

/* Whatever can't be freed yet stays behind; nothing is waited for. */
static void mpi_close(struct halay_link *t)
{
    struct mpi_transport *self = self_of(t);

    if (has_lost_a_peer(self))
        halay_mpi_count_failure();
    halay_mpi_count_open(-1);
    goodbyes_say(self);
    t->log = NULL; /* the owner's, gone soon, as is its table */
    self->parts.host = &nobody;
    halay_parts_memory_hand_over(&self->parts.memory);
    halay_mpi_leave_remains(&self->remains);
}

static const struct halay_link_ops mpi_ops = {
    .name = "mpi",
    .send = halay_parts_send,
    .recv = halay_parts_recv,
    .progress = mpi_progress,
    .cancel = halay_parts_cancel,
    .alloc = halay_parts_alloc,
    .free = halay_parts_free,
    .keep = halay_parts_keep,
    .arm = mpi_arm,
    .close = mpi_close,
};

/* --- the start */

/* What each rank tells the others before anything collective of MPI is called: one that can't must not hang the
 * others. */
struct readiness {
    int32_t can;
    int32_t mpi_rank;
    int32_t mpi_size;
};

static int is_asked_for(const struct halay_host *host)
{
    return host->config->transport && !strcmp(host->config->transport, "mpi");
}

static struct readiness readiness_find(const struct halay_host *host, const struct halay_boot *boot)
{
    struct readiness mine = { 0, -1, -1 };
    int rank = 0, size = 0;

    if (halay_mpi_start(host) != HALAY_OK || MPI_Comm_rank(halay_mpi_boot_comm(boot), &rank) != MPI_SUCCESS ||
        MPI_Comm_size(halay_mpi_boot_comm(boot), &size) != MPI_SUCCESS)
        return mine;
    halay_mpi_sweep();
    const char *why_not = halay_mpi_why_not_drive();
    enum halay_log_level level = is_asked_for(host) ? HALAY_LOG_ERROR : HALAY_LOG_WARNING;
    mine.mpi_rank = rank;
    mine.mpi_size = size;
    if (why_not)
        host->log_write(host->log, level, "transport 'mpi' can't be used: %s", why_not);
    else if (size != boot->size)
        host->log_write(host->log, level,
                        "transport 'mpi' can't be used: the job has %d ranks, MPI_COMM_WORLD has %d%s", boot->size,
                        size,
                        size == 1 ? ": this process was not started by the mpirun of this MPI; 'halayrun --mpi' "
                                    "starts ranks by it"
                                  : "");
    else
        mine.can = 1;
    return mine;
}

/* HALAY_ERR_UNSUPPORTED on every rank unless every rank can; the same number of exchanges in any case. */
static enum halay_status all_ready(const struct halay_host *host, struct halay_boot *boot, int has_memory)
{
    struct readiness mine = readiness_find(host, boot);
    struct readiness *all = calloc((size_t)boot->size, sizeof *all);
    if (!all)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: %d ranks", boot->size);

    mine.can = mine.can && has_memory;
    enum halay_status status = halay_boot_allgather(boot, &mine, sizeof mine, all, host->config->start_timeout_ms);
    for (int r = 0; status == HALAY_OK && r < boot->size; r++)
        if (!all[r].can) {
            if (mine.can)
                halay_host_warning(host, "transport 'mpi' can't be used: rank %d can't", r);
            status = HALAY_ERR_UNSUPPORTED;
        }
    free(all);
    return status;
}

static enum halay_status comms_open(struct mpi_transport *self, const struct halay_host *host, MPI_Comm of)
{
    int *granted = NULL, is_set = 0;

    enum halay_status status =
        halay_mpi_check(host, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &granted, &is_set), "MPI_Comm_get_attr");
    if (status != HALAY_OK)
        return status;
    long tag_ub = is_set ? *granted : 32767;
    status = halay_mpi_tags_plan(tag_ub < HALAY_MPI_TAG_UB_MAX ? tag_ub : HALAY_MPI_TAG_UB_MAX, &self->tags);
    if (status != HALAY_OK) {
        halay_host_warning(host, "transport 'mpi' can't be used: MPI_TAG_UB is %ld, %ld would do", tag_ub,
                           1L << HALAY_TAG_BITS);
        return status;
    }
    for (; self->open_comms < self->tags.comms; self->open_comms++) {
        status = halay_mpi_split(host, of, self->parts.t.rank, &self->comms[self->open_comms]);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

static enum halay_status transport_init(struct mpi_transport *self, const struct halay_host *host,
                                        const struct halay_boot *boot)
{
    self->remains.sweep = remains_sweep;
    enum halay_status status = halay_parts_init(&self->parts, &mpi_ops, &parts_ops, host, boot, HALAY_MPI_PART_BYTES);
    if (status != HALAY_OK)
        return status;
    self->said = calloc((size_t)boot->size, sizeof *self->said);
    self->announced = calloc((size_t)boot->size, sizeof *self->announced);
    if (!self->said || !self->announced || requests_reserve(self) != HALAY_OK)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'mpi' of %d ranks", boot->size);
    requests_add(self, MPI_REQUEST_NULL, NULL);
    return HALAY_OK;
}

enum halay_status halay_mpi_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_link **out)
{
    struct mpi_transport *self = calloc(1, sizeof *self);
    if (!self)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'mpi'");

    enum halay_status lacks = transport_init(self, host, boot);
    enum halay_status status = all_ready(host, boot, lacks == HALAY_OK);
    if (lacks != HALAY_OK)
        status = lacks;
    if (status == HALAY_OK)
        status = comms_open(self, host, halay_mpi_boot_comm(boot));
    if (status == HALAY_OK && boot->size > 1)
        status = halay_mpi_check(host, goodbyes_expect(self), "MPI_Irecv");
    if (status != HALAY_OK) {
        transport_fini(self);
        return status;
    }
    halay_mpi_count_open(1);
    self->parts.t.groups = self->tags.groups;
    *out = &self->parts.t;
    return HALAY_OK;
}

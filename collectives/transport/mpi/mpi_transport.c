/* SPDX-License-Identifier: Apache-2.0
 *
 * The mpi transport: MPI point-to-point.
 *
 * Messages travel in parts (parts.h): MPI is given only memory that we keep, so a part that arrives late, or a request
 * that never completes because its peer is dead, cannot write into a caller's buffer. Each part is announced by a frame
 * under one MPI tag; tags are matched here, so MPI's few bits of tag do not limit them:
 *
 *     byte  0 ..  7  tag
 *           8 .. 11  bytes of the part
 *          12 .. 15  0: the part follows in this frame (at most FRAME_BYTES); > 0: it is a message of its own under
 *                    that MPI tag; NOTICE: the sender has closed, and this is its last frame
 *
 * A rank keeps FRAMES receives of frames posted, from any source, and handles them in the order in which they were
 * posted: MPI matches messages of one sender and tag in order, so frames of one sender are handled in order. Of the
 * parts of one sender and tag the n-th announced matches the n-th receive posted. A part with a message of its own is
 * received when its receive is there, straight into the memory of that one; until then it waits at its sender.
 *
 * MPI has no descriptor to sleep on and does not report that a peer is dead. The world watches the peers. A rank with
 * something under way looks again after HALAY_UNRUNG_MAX_US at most, and sooner while something has completed lately
 * (mpi_arm); a rank with nothing under way sleeps until the bell rings.
 *
 * Closing. A closing rank sends every peer a close notice. Its communicator is freed when it has every notice
 * and has received the parts announced before (mpi_process.c has why not sooner): until then it is kept as remains,
 * which each later call of the module looks at. The notice also ends the wait of a peer.
 *
 * Lengths fit MPI's int because a part is small. Cleanup: zero-init and fini.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/mpi/mpi_module.h"
#include "collectives/transport/mpi/mpi_process.h"
#include "collectives/transport/parts.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Tests take small ones. */
#ifndef HALAY_MPI_PART_BYTES
#define HALAY_MPI_PART_BYTES (((size_t)1 << 20) + 64)
#endif
#ifndef HALAY_MPI_FRAME_BYTES
#define HALAY_MPI_FRAME_BYTES ((size_t)4000) /* with its head less than Open MPI sends at once in shared memory */
#endif

enum {
    FRAMES = 4,     /* receives of frames that are posted */
    FRAME_TAG = 0,  /* MPI's tag of frames; parts have those above it */
    TAG_UB = 32767, /* the least that MPI grants */
    NOTICE = -1,
    LOOKS_MAX = 8,
};

static const struct halay_group_range any_group = { 0, UINT32_MAX };

struct head {
    uint64_t tag;
    uint32_t bytes;
    int32_t number;
};

struct frame {
    struct head head;
    unsigned char payload[HALAY_MPI_FRAME_BYTES];
};

struct peer {
    struct halay_part *posted; /* borrowed, oldest first, by part->next: receives that nothing was announced for */
    struct halay_part *early;  /* the same: what was announced before its receive; part->index: its number */
    int32_t number;            /* of the newest part with a message of its own to this peer */
    struct head notice;        /* ours, while it is sent */
};

struct mpi_transport {
    struct halay_parts parts;         /* first */
    struct halay_mpi_remains remains; /* after close */
    MPI_Comm comm;                    /* owned; MPI_COMM_NULL: not open */
    int32_t tag_ub;

    /* Requests with MPI, side by side; the first FRAMES receive frames, those of sends and of parts follow. */
    MPI_Request *requests;        /* owned, capacity of each */
    struct halay_part **parts_of; /* owned array; NULL: a receive of a frame, or the send of a notice */
    int *indices;                 /* owned: of MPI_Testsome */
    MPI_Status *statuses;         /* owned */
    int active;
    size_t capacity;
    int64_t moved_us; /* when something was last posted or completed */

    struct frame *frames; /* owned: FRAMES, where they arrive */
    struct {
        int is_here, source, bytes;
    } arrived[FRAMES];
    int oldest; /* of the receives of frames */

    struct peer *peers; /* owned: size of them */
    size_t posted;      /* receives in their lists */
    int notices;        /* received so far */
    int is_closed;      /* what arrives is dropped */
};

static struct mpi_transport *self_of(struct halay_link *link)
{
    return (struct mpi_transport *)link;
}

/* ---- requests ---- */

/* An array that has grown is kept, also if the next one cannot grow. */
static enum halay_status requests_reserve(struct mpi_transport *self, int more)
{
    const struct {
        void *list;
        size_t item;
    } arrays[] = { { &self->requests, sizeof *self->requests },
                   { &self->parts_of, sizeof *self->parts_of },
                   { &self->indices, sizeof *self->indices },
                   { &self->statuses, sizeof *self->statuses } };
    size_t room = 0;

    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        room = self->capacity;
        if (halay_list_grow(arrays[i].list, (size_t)(self->active + more - 1), &room, arrays[i].item) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
    }
    self->capacity = room;
    return HALAY_OK;
}

/* There is room. */
static void requests_add(struct mpi_transport *self, MPI_Request request, struct halay_part *part)
{
    self->requests[self->active] = request;
    self->parts_of[self->active++] = part;
    self->moved_us = halay_now_us();
}

/* Closes the gaps that completed requests left. */
static void requests_compact(struct mpi_transport *self)
{
    int kept = FRAMES; /* receives of frames keep their places, complete or not */

    for (int i = FRAMES; i < self->active; i++) {
        if (self->requests[i] == MPI_REQUEST_NULL)
            continue;
        self->requests[kept] = self->requests[i];
        self->parts_of[kept++] = self->parts_of[i];
    }
    self->active = kept;
}

/* ---- sends ---- */

static enum halay_status send_bytes(struct mpi_transport *self, const void *buf, size_t bytes, int peer, int tag,
                                    struct halay_part *part)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error = MPI_Isend(buf, (int)bytes, MPI_BYTE, peer, tag, self->comm, &request);

    if (error != MPI_SUCCESS)
        return halay_mpi_check(self->parts.host, error, "MPI_Isend");
    requests_add(self, request, part);
    return HALAY_OK;
}

/* A part of ours that belongs to no message, with memory. NULL: out of memory, logged. */
static struct halay_part *own_part(struct mpi_transport *self, int peer, int is_send, size_t bytes)
{
    struct halay_part *part = halay_parts_take(&self->parts, NULL, bytes);

    if (!part) {
        halay_host_error(self->parts.host, "out of memory: %zu bytes for rank %d", bytes, peer);
        return NULL;
    }
    part->peer = peer;
    part->is_send = is_send;
    part->bytes = bytes;
    return part;
}

/* The frame has the part: that is sent as far as its owner is concerned. */
static enum halay_status send_in_frame(struct mpi_transport *self, const struct halay_part *part)
{
    const struct head head = { .tag = part->tag, .bytes = (uint32_t)part->bytes };
    struct halay_part *frame = own_part(self, part->peer, 1, sizeof head + part->bytes);

    if (!frame)
        return HALAY_ERR_NO_MEMORY;
    memcpy(frame->memory, &head, sizeof head);
    if (part->bytes)
        memcpy(frame->memory + sizeof head, part->memory, part->bytes);
    enum halay_status status = send_bytes(self, frame->memory, frame->bytes, part->peer, FRAME_TAG, frame);
    frame->costs = frame->is_with_library = status == HALAY_OK;
    if (status != HALAY_OK)
        halay_parts_give(&self->parts, frame);
    return status;
}

/* Its frame, and the part itself. It is sent when both are: part->costs counts them. */
static enum halay_status send_beside_frame(struct mpi_transport *self, struct halay_part *part)
{
    struct peer *peer = &self->peers[part->peer];
    struct head *head = (struct head *)(void *)part->header;
    _Static_assert(sizeof *head <= sizeof part->header, "room for the head");

    peer->number = peer->number % self->tag_ub + 1;
    *head = (struct head){ .tag = part->tag, .bytes = (uint32_t)part->bytes, .number = peer->number };
    part->costs = 0;
    enum halay_status status = send_bytes(self, head, sizeof *head, part->peer, FRAME_TAG, part);
    if (status != HALAY_OK)
        return status;
    part->costs++;
    status = send_bytes(self, part->memory, part->bytes, part->peer, peer->number, part);
    if (status != HALAY_OK) { /* the frame is on its way: the part stays with MPI, and its end is the transport's */
        halay_parts_fail(&self->parts, status);
        return HALAY_IN_PROGRESS;
    }
    part->costs++;
    return HALAY_IN_PROGRESS;
}

/* ---- receives ---- */

static struct halay_part *posted_take(struct mpi_transport *self, int peer, uint64_t tag, const struct halay_part *it)
{
    struct halay_part *part = halay_parts_list_take(&self->peers[peer].posted, tag, it);

    self->posted -= part != NULL;
    return part;
}

static enum halay_status early_keep(struct mpi_transport *self, int source, const struct frame *frame)
{
    struct halay_part *early = own_part(self, source, 0, frame->head.number ? 0 : frame->head.bytes);

    if (!early)
        return HALAY_ERR_NO_MEMORY;
    early->tag = frame->head.tag;
    early->bytes = frame->head.bytes;
    early->index = (size_t)frame->head.number;
    if (!frame->head.number && early->bytes)
        memcpy(early->memory, frame->payload, early->bytes);
    halay_parts_list_put(&self->peers[source].early, early);
    return HALAY_OK;
}

/* Receives the message of that number as the part. HALAY_IN_PROGRESS, or an error, logged. */
static enum halay_status receive_message(struct mpi_transport *self, struct halay_part *part, size_t bytes, int number)
{
    MPI_Request request = MPI_REQUEST_NULL;

    if (requests_reserve(self, 1) != HALAY_OK)
        return halay_host_fail(self->parts.host, HALAY_ERR_NO_MEMORY, "out of memory: %zu MPI requests",
                               2 * self->capacity);
    int error = MPI_Irecv(part->memory, (int)bytes, MPI_BYTE, part->peer, number, self->comm, &request);
    if (error != MPI_SUCCESS)
        return halay_mpi_check(self->parts.host, error, "MPI_Irecv");
    part->costs = 1;
    requests_add(self, request, part);
    return HALAY_IN_PROGRESS;
}

/* Receives an announced part into the memory of a receive: a message of that number, or what is at payload (0).
 * HALAY_IN_PROGRESS, or how it ended. */
static enum halay_status receive_part(struct mpi_transport *self, struct halay_part *part, size_t bytes, int number,
                                      const unsigned char *payload)
{
    if (bytes != part->bytes)
        return HALAY_OK; /* halay_parts_end reports it, and the link fails */
    if (number)
        return receive_message(self, part, bytes, number);
    if (bytes)
        memcpy(part->memory, payload, bytes);
    return HALAY_OK;
}

/* Receives the message of an announced part that no receive will be posted for. */
static void drop_message(struct mpi_transport *self, int source, size_t bytes, int number)
{
    struct halay_part *part = number ? own_part(self, source, 0, bytes) : NULL;

    if (!part)
        return;
    part->is_with_library = receive_message(self, part, bytes, number) == HALAY_IN_PROGRESS;
    if (!part->is_with_library)
        halay_parts_give(&self->parts, part);
}

static enum halay_status part_post(struct halay_link *link, struct halay_part *part, size_t *arrived)
{
    struct mpi_transport *self = self_of(link);

    if (requests_reserve(self, 2) != HALAY_OK)
        return halay_host_fail(self->parts.host, HALAY_ERR_NO_MEMORY, "out of memory: %zu MPI requests",
                               2 * self->capacity);
    if (part->is_send)
        return part->bytes <= HALAY_MPI_FRAME_BYTES ? send_in_frame(self, part) : send_beside_frame(self, part);
    struct halay_part *early = halay_parts_list_take(&self->peers[part->peer].early, part->tag, NULL);
    if (!early) {
        halay_parts_list_put(&self->peers[part->peer].posted, part);
        self->posted++;
        self->moved_us = halay_now_us();
        return HALAY_IN_PROGRESS;
    }
    *arrived = early->bytes;
    enum halay_status status = receive_part(self, part, early->bytes, (int)early->index, early->memory);
    halay_parts_give(&self->parts, early);
    return status;
}

/* A receive that MPI has ends in memory of ours. */
static void part_set_aside(struct halay_link *link, struct halay_part *part)
{
    struct mpi_transport *self = self_of(link);

    if (!part->is_send && posted_take(self, part->peer, 0, part))
        halay_parts_end(&self->parts, part, HALAY_ERR_CANCELED, 0);
}

/* Receives announced parts that no receive will be posted for, so that nothing of them is left in MPI. */
static void drop_early(struct mpi_transport *self, int source, struct halay_group_range groups)
{
    for (struct halay_part **at = &self->peers[source].early, *early; (early = *at);) {
        if (!halay_group_range_has(groups, early->tag)) {
            at = &early->next;
            continue;
        }
        *at = early->next;
        drop_message(self, source, early->bytes, (int)early->index);
        halay_parts_give(&self->parts, early);
    }
}

static void mpi_forget(struct halay_link *link, struct halay_group_range groups)
{
    halay_forgotten_add(&link->forgotten, groups);
    for (int r = 0; r < link->size; r++)
        drop_early(self_of(link), r, groups);
}

static const struct halay_parts_ops parts_ops = { .post = part_post, .set_aside = part_set_aside };

/* MPI is done with a request of a part; error: the request's own. */
static void part_end(struct mpi_transport *self, struct halay_part *part, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (error != MPI_SUCCESS && part->result == HALAY_OK) {
        part->result = HALAY_ERR_PEER;
        if (part->message && MPI_Error_string(error, text, &length) == MPI_SUCCESS)
            halay_host_info(self->parts.host, "transfer with rank %d failed: %s", part->peer, text);
        if (part->message)
            halay_parts_peer_lost(&self->parts, part->peer, "MPI could not complete a transfer with it");
    }
    if (--part->costs > 0)
        return;
    enum halay_status status = part->result;
    part->result = HALAY_OK;
    halay_parts_end(&self->parts, part, status, part->bytes);
}

/* ---- frames ---- */

static int frame_expect(struct mpi_transport *self, int at)
{
    return MPI_Irecv(&self->frames[at], sizeof *self->frames, MPI_BYTE, MPI_ANY_SOURCE, FRAME_TAG, self->comm,
                     &self->requests[at]);
}

static int frame_is_right(const struct head *head, size_t bytes)
{
    if (bytes < sizeof *head)
        return 0;
    if (head->number)
        return bytes == sizeof *head && head->bytes <= HALAY_MPI_PART_BYTES;
    return head->bytes == bytes - sizeof *head;
}

static void notice_take(struct mpi_transport *self, int source)
{
    self->notices++;
    halay_parts_peer_left(&self->parts, source);
}

static void frame_take(struct mpi_transport *self, int source, const struct frame *frame)
{
    const struct head *head = &frame->head;

    if (head->number == NOTICE) {
        notice_take(self, source);
        return;
    }
    struct halay_part *part = posted_take(self, source, head->tag, NULL);
    if (!part && (self->is_closed || halay_forgotten_has(&self->parts.link.forgotten, head->tag))) {
        drop_message(self, source, head->bytes, head->number);
        return;
    }
    enum halay_status status =
        part ? receive_part(self, part, head->bytes, head->number, frame->payload) : early_keep(self, source, frame);
    if (part && status != HALAY_IN_PROGRESS)
        halay_parts_end(&self->parts, part, status, head->bytes);
    else if (!part && status != HALAY_OK)
        halay_parts_fail(&self->parts, status);
}

static void frame_refuse(struct mpi_transport *self, int source, int bytes)
{
    halay_host_error(self->parts.host, "%d bytes from rank %d over MPI are not a frame", bytes, source);
    halay_parts_fail(&self->parts, HALAY_ERR_FORMAT);
}

/* Handles the frames that have arrived, in order, and posts their receives again. */
static void frames_take(struct mpi_transport *self)
{
    for (; self->arrived[self->oldest].is_here; self->oldest = (self->oldest + 1) % FRAMES) {
        int at = self->oldest, source = self->arrived[at].source;
        self->arrived[at].is_here = 0;
        if (source >= 0 && frame_is_right(&self->frames[at].head, (size_t)self->arrived[at].bytes))
            frame_take(self, source, &self->frames[at]);
        else if (source >= 0)
            frame_refuse(self, source, self->arrived[at].bytes);
        if (frame_expect(self, at) != MPI_SUCCESS)
            halay_parts_fail(&self->parts, HALAY_ERR_SYSTEM);
    }
}

static void frame_note(struct mpi_transport *self, int at, const MPI_Status *result, int error)
{
    int count = 0;

    if (error != MPI_SUCCESS || MPI_Get_count(result, MPI_BYTE, &count) != MPI_SUCCESS)
        count = -1;
    self->arrived[at].is_here = 1;
    self->arrived[at].source = count < 0 ? -1 : result->MPI_SOURCE;
    self->arrived[at].bytes = count;
}

/* ---- slots ---- */

static void request_end(struct mpi_transport *self, int at, const MPI_Status *result, int error)
{
    if (at < FRAMES)
        frame_note(self, at, result, error);
    else if (self->parts_of[at])
        part_end(self, self->parts_of[at], error);
}

/* Looks at all requests once. Returns nonzero if one had completed. */
static int look_once(struct mpi_transport *self)
{
    int done = 0;
    int error = MPI_Testsome(self->active, self->requests, &done, self->indices, self->statuses);

    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) {
        halay_parts_fail(&self->parts, halay_mpi_check(self->parts.host, error, "MPI_Testsome"));
        return 0;
    }
    if (done == MPI_UNDEFINED || !done)
        return 0;
    self->moved_us = halay_now_us();
    for (int i = 0; i < done; i++)
        request_end(self, self->indices[i], &self->statuses[i],
                    error == MPI_ERR_IN_STATUS ? self->statuses[i].MPI_ERROR : MPI_SUCCESS);
    requests_compact(self);
    frames_take(self);
    return 1;
}

/* Looks until there is nothing new, within bounds: a frame is often followed by its part at once, and Open MPI makes no
 * progress in a look that finds something. */
static void look_all(struct mpi_transport *self)
{
    for (int i = 0; i < LOOKS_MAX && look_once(self); i++)
        ;
}

static enum halay_status mpi_progress(struct halay_link *link)
{
    struct mpi_transport *self = self_of(link);

    enum halay_status status = halay_parts_check(&self->parts);
    if (status != HALAY_OK || link->size == 1)
        return status;
    look_all(self);
    return halay_parts_pump(&self->parts);
}

static long mpi_arm(struct halay_link *link)
{
    struct mpi_transport *self = self_of(link);

    if (self->parts.status != HALAY_OK || (self->active <= FRAMES && !self->posted && !self->parts.waiting))
        return HALAY_RINGS;
    long us = halay_unrung_sleep_us(halay_now_us() - self->moved_us);
    if (!us)
        sched_yield();
    return us;
}

/* ---- the end ---- */

static void notices_send(struct mpi_transport *self)
{
    for (int r = 0; r < self->parts.link.size; r++) {
        struct peer *peer = &self->peers[r];
        if (r == self->parts.link.rank || requests_reserve(self, 1) != HALAY_OK)
            continue;
        peer->notice = (struct head){ .number = NOTICE };
        (void)send_bytes(self, &peer->notice, sizeof peer->notice, r, FRAME_TAG, NULL);
    }
}

/* The receives of frames: nothing arrives for them any more. */
static void frames_cancel(struct mpi_transport *self, int waits)
{
    for (int i = 0; i < FRAMES && i < self->active; i++) {
        if (self->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (MPI_Cancel(&self->requests[i]) == MPI_SUCCESS && waits)
            (void)MPI_Wait(&self->requests[i], MPI_STATUS_IGNORE);
    }
}

static void transport_fini(struct mpi_transport *self)
{
    if (self->comm != MPI_COMM_NULL) {
        frames_cancel(self, 1);
        (void)MPI_Comm_free(&self->comm);
    }
    halay_parts_fini(&self->parts, 1);
    free(self->peers);
    free(self->frames);
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

/* The host of remains: what befalls them concerns no one. */
static const struct halay_host nobody = { .log_write = log_nothing,
                                          .check_peers = check_nobody,
                                          .peer_left = note_nobody };

/* Returns nonzero if nothing is on its way in our communicator, in either direction: a notice is its sender's last. */
static int is_quiet(const struct mpi_transport *self)
{
    return self->notices >= self->parts.link.size - 1 && self->active <= FRAMES;
}

static int remains_sweep(struct halay_mpi_remains *remains, int last)
{
    struct mpi_transport *self = (struct mpi_transport *)((char *)remains - offsetof(struct mpi_transport, remains));

    if (!is_quiet(self) && self->parts.link.size > 1)
        look_all(self);
    if (is_quiet(self)) {
        transport_fini(self);
        return 1;
    }
    if (last)
        frames_cancel(self, 0);
    return 0;
}

/* Lost a peer that MPI_Finalize would wait for? It may be known to others only: a rank that learned of a death over
 * another transport closes this one without having used it since. */
static int has_lost_a_peer(const struct mpi_transport *self)
{
    for (int r = 0; r < self->parts.link.size; r++)
        if (self->parts.peers[r].presence != HALAY_PARTS_LEFT &&
            (self->parts.link.lost[r] || self->parts.host->has_died(self->parts.host, r)))
            return 1;
    return 0;
}

/* Whatever can't be freed yet is kept as remains; nothing is waited for. */
static void mpi_close(struct halay_link *link)
{
    struct mpi_transport *self = self_of(link);

    if (has_lost_a_peer(self))
        halay_mpi_count_failure();
    halay_mpi_count_open(-1);
    self->is_closed = 1;
    for (int r = 0; r < link->size; r++)
        drop_early(self, r, any_group);
    notices_send(self);
    link->log = NULL; /* the owner's, gone soon, as is its table */
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
    .forget = mpi_forget,
    .alloc = halay_parts_alloc,
    .free = halay_parts_free,
    .keep = halay_parts_keep,
    .arm = mpi_arm,
    .close = mpi_close,
};

/* --- the start */

/* Sent to all ranks before anything collective of MPI is called: a rank that can't use MPI must not hang the others. */
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

static enum halay_status comm_open(struct mpi_transport *self, const struct halay_host *host, MPI_Comm of)
{
    int *granted = NULL, is_set = 0;

    enum halay_status status =
        halay_mpi_check(host, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &granted, &is_set), "MPI_Comm_get_attr");
    if (status != HALAY_OK)
        return status;
    self->tag_ub = is_set && *granted > TAG_UB ? *granted : TAG_UB;
    status = halay_mpi_split(host, of, self->parts.link.rank, &self->comm);
    for (int i = 0; i < FRAMES && status == HALAY_OK && self->parts.link.size > 1; i++)
        status = halay_mpi_check(host, frame_expect(self, i), "MPI_Irecv");
    return status;
}

static enum halay_status transport_init(struct mpi_transport *self, const struct halay_host *host,
                                        const struct halay_boot *boot)
{
    self->remains.sweep = remains_sweep;
    enum halay_status status = halay_parts_init(&self->parts, &mpi_ops, &parts_ops, host, boot, HALAY_MPI_PART_BYTES);
    if (status != HALAY_OK)
        return status;
    self->peers = calloc((size_t)boot->size, sizeof *self->peers);
    self->frames = calloc(FRAMES, sizeof *self->frames);
    if (!self->peers || !self->frames || requests_reserve(self, FRAMES) != HALAY_OK)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'mpi' of %d ranks", boot->size);
    for (int i = 0; i < FRAMES; i++)
        requests_add(self, MPI_REQUEST_NULL, NULL);
    return HALAY_OK;
}

enum halay_status halay_mpi_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_link **out)
{
    struct mpi_transport *self = calloc(1, sizeof *self);
    if (!self)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'mpi'");

    self->comm = MPI_COMM_NULL;
    enum halay_status lacks = transport_init(self, host, boot);
    enum halay_status status = all_ready(host, boot, lacks == HALAY_OK);
    if (lacks != HALAY_OK)
        status = lacks;
    if (status == HALAY_OK)
        status = comm_open(self, host, halay_mpi_boot_comm(boot));
    if (status != HALAY_OK) {
        transport_fini(self);
        return status;
    }
    halay_mpi_count_open(1);
    *out = &self->parts.link;
    return HALAY_OK;
}

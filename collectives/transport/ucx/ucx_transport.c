/* SPDX-License-Identifier: Apache-2.0
 *
 * The ucx transport: active messages over the networks that UCX finds (TCP, RDMA). ucx_frames.c has the frames; this
 * file opens and closes endpoints, and drives the worker.
 *
 * Of two ranks the lower one connects: it opens its endpoint and sends a HELLO; the higher one opens its own when
 * that has arrived, and UCX gives it the one that it made for it. Its earlier messages wait. If both connected
 * at the same time, UCX would have to sort that out for each pair of ranks, at every start. Create returns when all are
 * connected: UCX (1.13.1, 1.18.1) may end a process by an assertion if a connection that is half made is closed.
 *
 * Endpoints are in PEER error mode: one that fails calls on_endpoint_error, and the peer is lost (parts.h). UCX's
 * keep-alive takes too long to be relied on: a connection that was never used reports nothing, the watch over processes
 * of this host does.
 *
 * Sleeping: events make the worker's descriptor readable once it is armed. After earlier ones ucp_worker_arm returns
 * "busy".
 *
 * Leaving: send close notices, push everything out, wait a moment for the others' close notices (a socket that is
 * closed with something unread resets the connection, and drops what is still on its way), close by force, wait for
 * UCX to end its requests. Each step has a deadline.
 *
 * Cleanup: zero-init and fini.
 */
#include "collectives/transport/ucx/ucx_transport.h"
#include "base/clock.h"
#include "collectives/transport/ucx/ucx_frames.h"
#include "collectives/transport/ucx/ucx_worker.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* A part goes in one message of UCX over TCP (ucx_worker.c) and holds a chunk of the usual size. Tests take a small
 * one. */
#ifndef HALAY_UCX_PART_BYTES
#define HALAY_UCX_PART_BYTES (((size_t)256 << 10) + 64)
#endif

enum {
    PUSH_MS = 1000,        /* to push out what was sent before a close */
    PUSH_FAILED_MS = 200,  /* after a failure: for the close notices */
    CALLED_MS = 200,       /* before that: for a lower rank's HELLO */
    LISTEN_MS = 200,       /* for the others' close notices */
    CONNECT_MS = 30000,    /* at the start, for the connections with all ranks */
    CONNECT_SLEEP_MS = 50, /* meanwhile, between looks at what else may end that */
    CLOSE_MS = 1000,       /* for endpoints to close by force, which waits for no peer */
    PROGRESS_MAX = 64      /* events taken in one progress */
};

struct ucx_transport {
    struct halay_ucx_frames frames; /* first */
    struct halay_ucx_worker worker;
    unsigned char *addresses; /* owned: of each rank, stride bytes */
    size_t stride;
};

static struct ucx_transport *self_of(struct halay_link *link)
{
    return (struct ucx_transport *)link;
}

/* --- endpoints */

#define OTHER_NETWORK                                                                                               \
    "where hosts have several networks, HALAY_NETWORK_INTERFACE (halayrun --network-interface) names one that all " \
    "can "                                                                                                          \
    "reach"

static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct halay_ucx_peer *peer = arg;
    struct halay_parts *parts = &peer->frames->parts;
    int is_unreachable = status == UCS_ERR_UNREACHABLE || status == UCS_ERR_ENDPOINT_TIMEOUT;

    (void)ep;
    peer->is_broken = 1;
    if (is_unreachable && !peer->is_reached && parts->peers[peer->rank].presence == HALAY_PARTS_HERE)
        halay_host_warning(parts->host, "rank %d can't be reached over UCX: %s; " OTHER_NETWORK, peer->rank,
                           ucs_status_string(status));
    halay_parts_peer_lost(parts, peer->rank, ucs_status_string(status));
}

static enum halay_status endpoint_open(struct ucx_transport *self, int rank)
{
    struct halay_ucx_peer *peer = &self->frames.peers[rank];
    const ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(self->addresses + (size_t)rank * self->stride),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { .cb = on_endpoint_error, .arg = peer },
    };

    ucs_status_t status = ucp_ep_create(self->worker.worker, &params, &peer->ep);
    if (status == UCS_OK)
        return HALAY_OK;
    peer->ep = NULL;
    return halay_host_fail(self->frames.parts.host, HALAY_ERR_SYSTEM,
                           "rank %d can't be reached over UCX: %s; " OTHER_NETWORK, rank, ucs_status_string(status));
}

/* Connects back to lower ranks that have called. */
static void open_called(struct ucx_transport *self)
{
    for (int r = 0; r < self->frames.parts.link.rank && self->frames.called; r++) {
        struct halay_ucx_peer *peer = &self->frames.peers[r];
        if (!peer->is_called || peer->ep)
            continue;
        self->frames.called--;
        if (endpoint_open(self, r) == HALAY_OK)
            halay_ucx_frames_connected(&self->frames, r);
        else
            halay_parts_peer_lost(&self->frames.parts, r, "no endpoint");
    }
}

/* --- slots */

/* Returns the number of events. */
static int progress_worker(struct ucx_transport *self)
{
    int i = 0;

    while (i < PROGRESS_MAX && ucp_worker_progress(self->worker.worker))
        i++;
    halay_ucx_frames_end(&self->frames);
    open_called(self);
    return i;
}

static enum halay_status ucx_progress(struct halay_link *link)
{
    struct ucx_transport *self = self_of(link);

    enum halay_status status = halay_parts_check(&self->frames.parts);
    if (status != HALAY_OK || link->size == 1)
        return status;
    (void)progress_worker(self);
    status = halay_parts_pump(&self->frames.parts);
    /* Parts that were just handed out may match early ones. */
    for (int i = 0; i < PROGRESS_MAX && halay_ucx_frames_push(&self->frames) && self->frames.parts.status == HALAY_OK;
         i++) {
        halay_ucx_frames_end(&self->frames);
        status = halay_parts_pump(&self->frames.parts);
    }
    return status;
}

static int ucx_event_fd(struct halay_link *link)
{
    return self_of(link)->worker.event_fd;
}

static long ucx_arm(struct halay_link *link)
{
    struct ucx_transport *self = self_of(link);

    if (self->frames.parts.status != HALAY_OK || link->size == 1)
        return HALAY_RINGS;
    /* Anything but UCS_OK: there are events already ("busy"), or progress will return what is wrong. */
    return !halay_ucx_frames_have_work(&self->frames) && ucp_worker_arm(self->worker.worker) == UCS_OK ? HALAY_RINGS
                                                                                                       : 0;
}

/* --- the end */

/* Counts down the requests that close has under way. */
static void on_counted(void *request, ucs_status_t status, void *arg)
{
    size_t *pending = arg;

    (void)status;
    --*pending;
    ucp_request_free(request);
}

static ucp_request_param_t counted_param(size_t *pending)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_counted,
        .user_data = pending,
    };
}

static void count_request(size_t *pending, ucs_status_ptr_t request)
{
    if (request && !UCS_PTR_IS_ERR(request))
        ++*pending;
}

/* Progresses without handing out parts: what the peers were promised is sent. */
static void drain_worker(struct ucx_transport *self)
{
    (void)progress_worker(self);
    (void)halay_ucx_frames_push(&self->frames);
}

/* Progresses until nothing is pending, or for this time. */
static void drive_until_done(struct ucx_transport *self, const size_t *pending, int timeout_ms)
{
    int64_t deadline = halay_deadline_us(timeout_ms);

    while (*pending && !halay_deadline_passed(deadline))
        drain_worker(self);
}

/* Returns nonzero while there is neither an error nor a lost peer. */
static int is_whole(const struct ucx_transport *self)
{
    return self->frames.parts.status == HALAY_OK && self->frames.parts.link.failed_peer < 0;
}

/* Returns nonzero while a lower rank may still call: without its HELLO nothing can be sent to it. */
static int is_awaited(const struct ucx_transport *self)
{
    for (int r = 0; r < self->frames.parts.link.rank; r++)
        if (!self->frames.peers[r].ep && self->frames.parts.peers[r].presence == HALAY_PARTS_HERE)
            return 1;
    return 0;
}

static int is_any_connected(const struct ucx_transport *self)
{
    return self->frames.parts.left + self->frames.parts.lost < self->frames.parts.link.size - 1;
}

/* Progresses while this holds, for this time, until a process of this host dies. */
static void drain_while(struct ucx_transport *self, int (*holds)(const struct ucx_transport *), int timeout_ms)
{
    int64_t deadline = halay_deadline_us(timeout_ms);
    int rank = -1;

    while (holds(self) && !halay_deadline_passed(deadline) &&
           self->frames.parts.host->check_peers(self->frames.parts.host, &rank) == HALAY_OK)
        drain_worker(self);
}

/* Opens the endpoints that are left: UCX cannot destroy a worker with a half-open connection of no endpoint. */
static void open_rest(struct ucx_transport *self)
{
    for (int r = 0; r < self->frames.parts.link.rank; r++)
        if (!self->frames.peers[r].ep)
            (void)endpoint_open(self, r);
}

static void send_close_notices(struct ucx_transport *self, size_t *pending)
{
    ucp_request_param_t param = counted_param(pending);

    for (int r = 0; r < self->frames.parts.link.size; r++) {
        const struct halay_ucx_peer *peer = &self->frames.peers[r];
        if (!peer->ep || peer->is_broken)
            continue;
        (void)halay_ucx_frames_send(&self->frames, r, HALAY_UCX_CLOSE); /* flushed with the rest */
        count_request(pending, ucp_ep_flush_nbx(peer->ep, &param));
    }
    drive_until_done(self, pending, is_whole(self) ? PUSH_MS : PUSH_FAILED_MS);
}

static void close_endpoints(struct ucx_transport *self, size_t *pending)
{
    ucp_request_param_t param = counted_param(pending);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (int r = 0; r < self->frames.parts.link.size; r++)
        if (self->frames.peers[r].ep) {
            count_request(pending, ucp_ep_close_nbx(self->frames.peers[r].ep, &param));
            self->frames.peers[r].ep = NULL;
        }
}

/* Waits for the requests of closed endpoints: UCX 1.18 breaks the heap if a worker is destroyed before they have ended.
 * Nothing is pushed: all endpoints are closed. */
static void await_requests(struct ucx_transport *self, const size_t *pending)
{
    int64_t deadline = halay_deadline_us(CLOSE_MS);

    while ((*pending || self->frames.under_way) && !halay_deadline_passed(deadline))
        (void)ucp_worker_progress(self->worker.worker);
}

/* Accepts any half-built state. The counter of what is pending lives until the worker is gone: a request may outlive
 * its time. */
static void transport_fini(struct ucx_transport *self)
{
    size_t pending = 0;

    if (self->frames.peers && self->worker.worker) {
        if (self->addresses && is_whole(self))
            drain_while(self, is_awaited, CALLED_MS);
        if (self->addresses)
            open_rest(self);
        send_close_notices(self, &pending);
        if (is_whole(self))
            drain_while(self, is_any_connected, LISTEN_MS);
        halay_ucx_frames_stop(&self->frames);
        close_endpoints(self, &pending);
        await_requests(self, &pending);
    }
    halay_ucx_worker_fini(&self->worker);
    halay_ucx_frames_fini(&self->frames);
    free(self->addresses);
    free(self);
}

static void ucx_close(struct halay_link *link)
{
    transport_fini(self_of(link));
}

static const struct halay_link_ops ucx_ops = {
    .name = "ucx",
    .send = halay_parts_send,
    .recv = halay_parts_recv,
    .progress = ucx_progress,
    .cancel = halay_parts_cancel,
    .forget = halay_ucx_frames_forget,
    .alloc = halay_parts_alloc,
    .free = halay_parts_free,
    .keep = halay_parts_keep,
    .arm = ucx_arm,
    .event_fd = ucx_event_fd,
    .close = ucx_close,
};

/* --- the start */

static enum halay_status transport_init(struct ucx_transport *self, const struct halay_host *host,
                                        const struct halay_boot *boot)
{
    enum halay_status status = halay_ucx_frames_init(&self->frames, &ucx_ops, host, boot, HALAY_UCX_PART_BYTES);
    if (status != HALAY_OK)
        return status;
    status = halay_ucx_worker_init(host, boot->size, &self->worker);
    return status == HALAY_OK ? halay_ucx_frames_start(&self->frames, self->worker.worker) : status;
}

static enum halay_status call_higher(struct ucx_transport *self)
{
    enum halay_status status = HALAY_OK;

    for (int r = self->frames.parts.link.rank + 1; r < self->frames.parts.link.size && status == HALAY_OK; r++) {
        status = endpoint_open(self, r);
        if (status == HALAY_OK)
            status = halay_ucx_frames_send(&self->frames, r, HALAY_UCX_HELLO);
    }
    return status;
}

static void connect_sleep(struct ucx_transport *self)
{
    struct pollfd news = { .fd = self->worker.event_fd, .events = POLLIN };

    if (ucx_arm(&self->frames.parts.link) == HALAY_RINGS)
        (void)poll(&news, 1, CONNECT_SLEEP_MS); /* whatever ends it: the caller looks */
}

/* Waits until all connections are made. All ranks are here; the first message shows what is lost, or takes longer. */
static void connect_all(struct ucx_transport *self)
{
    int64_t deadline = halay_deadline_us(CONNECT_MS);
    int rank = -1;

    drain_worker(self);
    while (is_whole(self) && (is_awaited(self) || self->frames.under_way) && !halay_deadline_passed(deadline) &&
           self->frames.parts.host->check_peers(self->frames.parts.host, &rank) == HALAY_OK) {
        connect_sleep(self);
        drain_worker(self);
    }
}

enum halay_status halay_ucx_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_link **out)
{
    struct ucx_transport *self = calloc(1, sizeof *self);
    if (!self)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'ucx'");

    /* A failure of this rank is logged; the exchange has the same outcome for all. */
    int is_able = transport_init(self, host, boot) == HALAY_OK;
    enum halay_status status =
        halay_ucx_exchange(host, boot, is_able ? &self->worker : NULL, &self->stride, &self->addresses);
    if (status == HALAY_OK)
        status = call_higher(self);
    if (status != HALAY_OK) {
        transport_fini(self);
        return status;
    }
    if (boot->size > 1)
        connect_all(self);
    *out = &self->frames.parts.link;
    return HALAY_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The ucx transport: UCP tag matching over what UCX finds (TCP, RDMA).
 *
 * Messages go in parts (parts.h): UCX sees memory only that we keep. A UCP tag is
 *
 *     63        62 ........ 32  31 30  29 ........ 0
 *     goodbye   sender's rank    0  0  tag
 *
 * There are HALAY_UCX_ENDPOINTS endpoints a peer, each with connections of its own. Messages of one tag all take the same
 * one, so their order stays; the lanes of a collective have tags that follow each other, so its segments take all in
 * turn. Ranks need not agree on the number: the sender chooses.
 *
 * Endpoints are in PEER error mode: one that fails calls on_endpoint_error, and the peer is lost (parts.h). UCX's
 * keep-alive takes too long to be relied on: a connection that was never used tells nothing, the watch over co-located
 * peers does.
 *
 * Callbacks of UCX may come from within any call into it: they only put the part on a list; progress takes it from
 * there.
 *
 * Sleeping. The worker's descriptor and an eventfd, by which other threads of this rank end the sleep. `armed` is
 * stored before the last look for work, wake loads it after the work was stored (both sequentially consistent): one of
 * the two sees the other. What arrives before the worker is armed inside sleep makes ucp_worker_arm say "busy".
 *
 * Leaving: say goodbye to everyone, push everything out, listen a moment for the others' goodbyes (a socket that is
 * closed with something unread resets the connection, and what is still on its way with it), close by force. Each step
 * has an end by the clock.
 *
 * Cleanup: zero-init and fini.
 */
#include "collectives/transport/ucx_transport.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/transport/parts.h"
#include "collectives/transport/ucx_worker.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Tests take a small one. */
#ifndef HALAY_UCX_PART_BYTES
#define HALAY_UCX_PART_BYTES (((size_t)1 << 20) + 64)
#endif

enum {
    PUSH_MS = 1000,        /* to push out what was sent before a close */
    PUSH_FAILED_MS = 200,  /* after a failure: for the goodbyes */
    LISTEN_MS = 200,       /* for the others' goodbyes */
    CLOSE_MS = 1000,       /* for endpoints to close by force, which waits for nobody */
    PROGRESS_MAX = 64,     /* events taken in one progress */
    SLEEP_US = 1000 * 1000 /* "about a second" */
};
#define GOODBYE_BIT ((ucp_tag_t)1 << 63)

struct ucx_transport;

struct ucx_peer {
    struct ucx_transport *transport; /* borrowed */
    int rank;
    ucp_ep_h eps[HALAY_UCX_ENDPOINTS_MAX]; /* owned: as many as the transport says; NULL: not open */
    int is_broken;
};

struct ucx_transport {
    struct halay_parts parts; /* first */
    struct halay_ucx_worker worker;
    int endpoints;               /* a peer */
    struct ucx_peer *peers;      /* owned: size of them */
    struct halay_part *finished; /* parts that callbacks reported, in no order */
    int32_t heard, said;         /* a goodbye is the rank that leaves: UCX 1.13 doesn't always tell the tag */
    int is_listening;            /* for goodbyes */
    void *goodbye;               /* the receive of them; NULL: none */
    int wake_fd;                 /* owned: eventfd; -1: none */
    _Atomic int armed;           /* see the top of the file */
};

static struct ucx_transport *self_of(struct halay_transport *t)
{
    return (struct ucx_transport *)t;
}

static ucp_tag_t ucx_tag(int sender, uint32_t tag)
{
    return (ucp_tag_t)sender << 32 | tag;
}

/* The endpoint for messages of that tag: see the top of the file. */
static ucp_ep_h endpoint_of(const struct ucx_transport *self, int peer, uint32_t tag)
{
    uint32_t own = tag & ((1u << HALAY_TAG_BITS) - 1), channel = tag >> HALAY_TAG_BITS;

    return self->peers[peer].eps[(own + channel) % (uint32_t)self->endpoints];
}

/* --- parts */

static void finished_put(struct ucx_transport *self, struct halay_part *part, enum halay_status result, size_t arrived)
{
    part->request = NULL; /* freed by the caller */
    part->index = 1;
    part->result = result;
    part->arrived = arrived;
    part->next = self->finished;
    self->finished = part;
}

/* What UCX says about a part, in our words. */
static enum halay_status part_result(struct ucx_transport *self, const struct halay_part *part, ucs_status_t status)
{
    if (status == UCS_OK)
        return HALAY_OK;
    if (!part->message)
        return HALAY_ERR_CANCELED;
    halay_parts_peer_lost(&self->parts, part->peer, ucs_status_string(status));
    return HALAY_ERR_PEER;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct halay_part *part = arg;
    struct ucx_transport *self = self_of(part->t);

    finished_put(self, part, part_result(self, part, status), 0);
    ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct halay_part *part = arg;
    struct ucx_transport *self = self_of(part->t);

    if (status == UCS_ERR_MESSAGE_TRUNCATED)
        finished_put(self, part, HALAY_OK, part->capacity + 1);
    else
        finished_put(self, part, part_result(self, part, status), status == UCS_OK ? info->length : 0);
    ucp_request_free(request);
}

/* Nothing completes at once: UCX 1.13 doesn't tell the length of a receive that does. part->index says that the
 * callback has been called, from within the post perhaps; the request is gone then. */
static enum halay_status part_post(struct halay_transport *t, struct halay_part *part, size_t *arrived)
{
    struct ucx_transport *self = self_of(t);
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .user_data = part,
    };
    ucs_status_ptr_t request;

    part->index = 0;
    if (part->is_send) {
        param.cb.send = on_sent;
        request = ucp_tag_send_nbx(endpoint_of(self, part->peer, part->tag), part->memory, part->bytes,
                                   ucx_tag(t->rank, part->tag), &param);
    } else {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv = on_received;
        request = ucp_tag_recv_nbx(self->worker.worker, part->memory, part->capacity, ucx_tag(part->peer, part->tag),
                                   ~(ucp_tag_t)0, &param);
    }
    if (UCS_PTR_IS_ERR(request))
        return part_result(self, part, UCS_PTR_STATUS(request));
    *arrived = 0;
    if (!request) /* a send */
        return HALAY_OK;
    if (!part->index)
        part->request = request;
    return HALAY_IN_PROGRESS;
}

static void part_set_aside(struct halay_transport *t, struct halay_part *part)
{
    if (!part->is_send &&
        part->request) /* one that is matched already ends in memory of ours; a send can't be cancelled */
        ucp_request_cancel(self_of(t)->worker.worker, part->request);
}

static const struct halay_parts_ops parts_ops = { .post = part_post, .set_aside = part_set_aside };

static void finished_take(struct ucx_transport *self)
{
    while (self->finished) {
        struct halay_part *part = self->finished;
        self->finished = part->next;
        halay_parts_end(&self->parts, part, part->result, part->arrived);
    }
}

/* --- goodbyes */

static void on_goodbye(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    struct ucx_transport *self = arg;

    self->is_listening = 0;
    self->goodbye = NULL;
    ucp_request_free(request);
    if (status == UCS_OK && info->length == sizeof self->heard && self->heard >= 0 && self->heard < self->parts.t.size)
        halay_parts_peer_left(&self->parts, self->heard); /* else cancelled by close, or nonsense */
}

/* Receive the next goodbye, whosever it is. It may be there already: the callback is called from within then. */
static void goodbyes_expect(struct ucx_transport *self)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_goodbye,
        .user_data = self,
    };

    self->is_listening = 1;
    ucs_status_ptr_t request =
        ucp_tag_recv_nbx(self->worker.worker, &self->heard, sizeof self->heard, GOODBYE_BIT, GOODBYE_BIT, &param);
    if (UCS_PTR_IS_ERR(request))
        self->is_listening = 0; /* the next look tries again */
    else if (self->is_listening)
        self->goodbye = request;
}

/* --- endpoints */

static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct ucx_peer *peer = arg;

    (void)ep;
    peer->is_broken = 1;
    halay_parts_peer_lost(&peer->transport->parts, peer->rank, ucs_status_string(status));
}

static enum halay_status endpoint_open(struct ucx_transport *self, int rank, int index, const unsigned char *address)
{
    struct ucx_peer *peer = &self->peers[rank];
    const ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = { .cb = on_endpoint_error, .arg = peer },
    };

    ucs_status_t status = ucp_ep_create(self->worker.worker, &params, &peer->eps[index]);
    if (status == UCS_OK)
        return HALAY_OK;
    peer->eps[index] = NULL;
    halay_host_error(self->parts.host, "rank %d can't be reached over UCX: %s", rank, ucs_status_string(status));
    return HALAY_ERR_SYSTEM;
}

/* --- slots */

static void look(struct ucx_transport *self)
{
    for (int i = 0; i < PROGRESS_MAX && ucp_worker_progress(self->worker.worker); i++)
        ;
    finished_take(self);
    if (!self->is_listening && self->parts.left < self->parts.t.size - 1)
        goodbyes_expect(self);
}

static enum halay_status ucx_progress(struct halay_transport *t)
{
    struct ucx_transport *self = self_of(t);

    enum halay_status status = halay_parts_check(&self->parts);
    if (status != HALAY_OK || t->size == 1)
        return status;
    look(self);
    status = halay_parts_pump(&self->parts);
    /* What was just handed out may have met what was there already. */
    for (int i = 0; i < PROGRESS_MAX && self->finished && status == HALAY_OK; i++) {
        finished_take(self);
        status = halay_parts_pump(&self->parts);
    }
    return status;
}

static uint32_t ucx_arm(struct halay_transport *t)
{
    atomic_store(&self_of(t)->armed, 1);
    return 0;
}

static void ucx_disarm(struct halay_transport *t)
{
    atomic_store(&self_of(t)->armed, 0);
}

static void ucx_sleep(struct halay_transport *t, uint32_t token, long timeout_us)
{
    struct ucx_transport *self = self_of(t);
    struct pollfd fds[2] = { { .fd = self->wake_fd, .events = POLLIN },
                             { .fd = self->worker.event_fd, .events = POLLIN } };
    long us = timeout_us < 0 ? SLEEP_US : timeout_us;
    const struct timespec timeout = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    uint64_t wakes;

    (void)token;
    /* Anything but UCS_OK: something is there already ("busy"), or progress will say what is wrong. */
    if (!self->finished && (t->size == 1 || ucp_worker_arm(self->worker.worker) == UCS_OK))
        (void)ppoll(fds, t->size == 1 ? 1 : 2, &timeout, NULL); /* whatever ends it: the caller looks */
    atomic_store(&self->armed, 0);
    if (read(self->wake_fd, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
        halay_host_warning(self->parts.host, "reading an eventfd: %s", strerror(errno));
}

static void ucx_wake(struct halay_transport *t)
{
    struct ucx_transport *self = self_of(t);
    const uint64_t one = 1;

    if (!atomic_load(&self->armed) || !atomic_exchange(&self->armed, 0))
        return;
    if (write(self->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN) /* EAGAIN: awake 2^64 - 1 times over */
        halay_host_warning(self->parts.host, "writing an eventfd: %s", strerror(errno));
}

/* --- the end */

/* Requests that close has under way; callbacks count them down. */
static void on_counted(void *request, ucs_status_t status, void *arg)
{
    size_t *pending = arg;

    (void)status;
    --*pending;
    ucp_request_free(request);
}

static ucp_request_param_t counted(size_t *pending)
{
    return (ucp_request_param_t){
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_counted,
        .user_data = pending,
    };
}

static void count(size_t *pending, ucs_status_ptr_t request)
{

    if (request && !UCS_PTR_IS_ERR(request))
        ++*pending;
}

/* Progress until nothing is pending, at most so long. */
static void drive(struct ucx_transport *self, const size_t *pending, int timeout_ms)
{
    int64_t deadline = halay_deadline_us(timeout_ms);

    while (*pending && !halay_deadline_passed(deadline))
        look(self);
}

static void say_goodbye(struct ucx_transport *self, size_t *pending)
{
    ucp_request_param_t param = counted(pending);

    self->said = self->parts.t.rank;
    for (int r = 0; r < self->parts.t.size; r++) {
        const struct ucx_peer *peer = &self->peers[r];
        if (!peer->eps[0] || peer->is_broken)
            continue;
        count(pending, ucp_tag_send_nbx(peer->eps[0], &self->said, sizeof self->said,
                                        GOODBYE_BIT | ucx_tag(self->parts.t.rank, 0), &param));
        for (int i = 0; i < self->endpoints && peer->eps[i]; i++)
            count(pending, ucp_ep_flush_nbx(peer->eps[i], &param));
    }
    drive(self, pending, self->parts.status == HALAY_OK ? PUSH_MS : PUSH_FAILED_MS);
}

static void listen_for_goodbyes(struct ucx_transport *self)
{
    int64_t deadline = halay_deadline_us(LISTEN_MS);
    int rank = -1;

    while (self->parts.left + self->parts.lost < self->parts.t.size - 1 && !halay_deadline_passed(deadline) &&
           self->parts.host->check_peers(self->parts.host, &rank) == HALAY_OK)
        look(self);
}

static void close_endpoints(struct ucx_transport *self, size_t *pending)
{
    ucp_request_param_t param = counted(pending);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (int r = 0; r < self->parts.t.size; r++)
        for (int i = 0; i < HALAY_UCX_ENDPOINTS_MAX; i++)
            if (self->peers[r].eps[i]) {
                count(pending, ucp_ep_close_nbx(self->peers[r].eps[i], &param));
                self->peers[r].eps[i] = NULL;
            }
    drive(self, pending, CLOSE_MS);
}

/* Accepts any half-built state. The counters of what is pending live until the worker is gone: a request may outlive
 * its time. */
static void transport_fini(struct ucx_transport *self)
{
    size_t pushing = 0, closing = 0;

    if (self->peers && self->worker.worker) {
        say_goodbye(self, &pushing);
        if (self->parts.status == HALAY_OK)
            listen_for_goodbyes(self);
        self->is_listening = 1; /* no more */
        if (self->goodbye)
            ucp_request_cancel(self->worker.worker, self->goodbye);
        close_endpoints(self, &closing);
    }
    halay_ucx_worker_fini(&self->worker);
    halay_parts_fini(&self->parts, 0);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    free(self->peers);
    free(self);
}

static void ucx_close(struct halay_transport *t)
{
    transport_fini(self_of(t));
}

static const struct halay_transport_ops ucx_ops = {
    .name = "ucx",
    .send = halay_parts_send,
    .recv = halay_parts_recv,
    .progress = ucx_progress,
    .cancel = halay_parts_cancel,
    .alloc = halay_parts_alloc,
    .free = halay_parts_free,
    .hold = halay_parts_hold,
    .release = halay_parts_free,
    .arm = ucx_arm,
    .disarm = ucx_disarm,
    .sleep = ucx_sleep,
    .wake = ucx_wake,
    .close = ucx_close,
};

/* --- the start */

static enum halay_status transport_init(struct ucx_transport *self, const struct halay_host *host,
                                        const struct halay_boot *boot)
{
    enum halay_status status =
        halay_parts_init(&self->parts, &ucx_ops, HALAY_TRANSPORT_SLEEPS, &parts_ops, host, boot, HALAY_UCX_PART_BYTES);
    if (status != HALAY_OK)
        return status;
    self->peers = calloc((size_t)boot->size, sizeof *self->peers);
    if (!self->peers) {
        halay_host_error(host, "out of memory: transport 'ucx' of %d ranks", boot->size);
        return HALAY_ERR_NO_MEMORY;
    }
    self->endpoints = host->config->ucx_endpoints;
    for (int r = 0; r < boot->size; r++)
        self->peers[r] = (struct ucx_peer){ .transport = self, .rank = r };
    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake_fd < 0) {
        halay_host_error(host, "eventfd: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    return halay_ucx_worker_init(host, boot->size, &self->worker);
}

static enum halay_status connect_all(struct ucx_transport *self, const unsigned char *addresses, size_t stride)
{
    for (int r = 0; r < self->parts.t.size; r++)
        for (int i = 0; i < self->endpoints && r != self->parts.t.rank; i++) {
            enum halay_status status = endpoint_open(self, r, i, addresses + (size_t)r * stride);
            if (status != HALAY_OK)
                return status;
        }
    return HALAY_OK;
}

enum halay_status halay_ucx_transport_create(const struct halay_host *host, struct halay_boot *boot,
                                             struct halay_transport **out)
{
    unsigned char *addresses = NULL;
    size_t stride = 0;
    struct ucx_transport *self = calloc(1, sizeof *self);
    if (!self) {
        halay_host_error(host, "out of memory: transport 'ucx'");
        return HALAY_ERR_NO_MEMORY;
    }

    self->wake_fd = -1;
    enum halay_status lacks = transport_init(self, host, boot);
    enum halay_status status =
        halay_ucx_exchange(host, boot, lacks == HALAY_OK ? &self->worker : NULL, &stride, &addresses);
    if (lacks != HALAY_OK)
        status = lacks;
    if (status == HALAY_OK)
        status = connect_all(self, addresses, stride);
    free(addresses);
    if (status != HALAY_OK) {
        transport_fini(self);
        return status;
    }
    *out = &self->parts.t;
    return HALAY_OK;
}

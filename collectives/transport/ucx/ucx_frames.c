/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts as active messages of UCX: ucx_frames.h has how they are matched and what bounds them.
 *
 * A part that is with "the library" is in exactly one of these states (part->index):
 *
 *     send      HELD -> DUE -> IN_UCX -> FINISHED, or IN_UCX -> FINISHED
 *     receive   POSTED (-> GRANTED) (-> FETCHABLE -> FETCHING) -> FINISHED
 *     ours      EARLY: arrived before its receive; BUFFER: UCX fetches into it;
 *               CONTROL: a frame without data
 *
 * and on that state's list, if it has one. What is set aside is FINISHED at once, a send that is IN_UCX apart.
 *
 * Cleanup: zero-init and fini.
 */
#include "collectives/transport/ucx/ucx_frames.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { FRAME_ID = 1 }; /* of our active messages */

enum state { FINISHED, POSTED, GRANTED, FETCHABLE, FETCHING, HELD, DUE, IN_UCX, EARLY, BUFFER, CONTROL };

/* The bytes that a peer may send ahead of receives, and the sum of all peers. */
#define PEER_BYTES ((size_t)4 << 20)
#define ALL_BYTES ((size_t)256 << 20)

static struct halay_ucx_frames *frames_of(struct halay_link *link)
{
    return (struct halay_ucx_frames *)link;
}

static struct halay_ucx_header *header_of(struct halay_part *part)
{
    _Static_assert(sizeof(struct halay_ucx_header) <= sizeof part->header, "room for the header");
    return (struct halay_ucx_header *)(void *)part->header;
}

/* --- lists */

static void list_put(struct halay_part **list, struct halay_part *part, enum state state)
{
    part->index = state;
    halay_parts_list_put(list, part);
}

static struct halay_part *list_pop(struct halay_part **list)
{
    return halay_parts_list_take(list, 0, *list);
}

/* Takes out the oldest one of that tag; NULL: none. */
static struct halay_part *list_take(struct halay_part **list, uint64_t tag)
{
    return halay_parts_list_take(list, tag, NULL);
}

static int list_has(const struct halay_part *list, uint64_t tag)
{
    while (list && list->tag != tag)
        list = list->next;
    return list != NULL;
}

/* --- credit */

size_t halay_ucx_budget(int size)
{
    size_t share = ALL_BYTES / (size_t)(size > 1 ? size - 1 : 1);

    return share < PEER_BYTES ? share : PEER_BYTES;
}

/* Returns whole pages. Kept memory is larger, by power of two: pages that were never written take none, so that it is
 * at most twice this where memory of larger parts is used again. */
size_t halay_ucx_cost(size_t bytes)
{
    return bytes ? (bytes + HALAY_PAGE - 1) / HALAY_PAGE * HALAY_PAGE : HALAY_PAGE;
}

static uint32_t credit_to_return(struct halay_ucx_peer *peer)
{
    uint32_t owed = peer->owed < UINT32_MAX ? (uint32_t)peer->owed : UINT32_MAX;

    peer->owed -= owed;
    return owed;
}

/* --- frames without data */

static void fail_no_memory(struct halay_ucx_frames *frames, size_t bytes)
{
    halay_host_error(frames->parts.host, "out of memory: %zu bytes for a message over UCX", bytes);
    halay_parts_fail(&frames->parts, HALAY_ERR_NO_MEMORY);
}

/* Queues a frame without data for the next push, or until the peer is connected. */
static void control_put(struct halay_ucx_frames *frames, int peer, enum halay_ucx_kind kind, uint64_t tag)
{
    struct halay_part *control = halay_parts_take(&frames->parts, NULL, 0);
    if (!control) {
        fail_no_memory(frames, sizeof *control);
        return;
    }

    control->peer = peer;
    *header_of(control) = (struct halay_ucx_header){ .sender = frames->parts.link.rank, .tag = tag, .kind = kind };
    list_put(frames->parts.peers[peer].is_unconnected ? &frames->peers[peer].controls : &frames->controls, control,
             CONTROL);
}

static void on_control_sent(void *request, ucs_status_t status, void *arg)
{
    struct halay_part *control = arg;
    struct halay_ucx_frames *frames = frames_of(control->link);

    if (status == UCS_OK) /* a peer that is lost is reported by its endpoint */
        frames->peers[control->peer].is_reached = 1;
    frames->under_way--;
    halay_parts_give(&frames->parts, control);
    ucp_request_free(request);
}

static void control_submit(struct halay_ucx_frames *frames, struct halay_part *control)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_control_sent,
        .user_data = control,
    };

    ucs_status_ptr_t request = ucp_am_send_nbx(frames->peers[control->peer].ep, FRAME_ID, control->header,
                                               sizeof(struct halay_ucx_header), NULL, 0, &param);
    if (UCS_PTR_IS_ERR(request))
        halay_parts_peer_lost(&frames->parts, control->peer, ucs_status_string(UCS_PTR_STATUS(request)));
    if (!request || UCS_PTR_IS_ERR(request))
        halay_parts_give(&frames->parts, control);
    else
        frames->under_way++;
}

static void control_send(struct halay_ucx_frames *frames, struct halay_part *control)
{
    struct halay_ucx_peer *peer = &frames->peers[control->peer];
    struct halay_ucx_header *header = header_of(control);

    if (header->kind == HALAY_UCX_CREDIT)
        peer->credit_is_due = 0;
    header->returned = credit_to_return(peer);
    control_submit(frames, control);
}

enum halay_status halay_ucx_frames_send(struct halay_ucx_frames *frames, int rank, enum halay_ucx_kind kind)
{
    struct halay_part *control = halay_parts_take(&frames->parts, NULL, 0);
    if (!control) {
        fail_no_memory(frames, sizeof *control);
        return HALAY_ERR_NO_MEMORY;
    }

    control->peer = rank;
    *header_of(control) = (struct halay_ucx_header){ .sender = frames->parts.link.rank, .kind = kind };
    control_submit(frames, control);
    return HALAY_OK;
}

void halay_ucx_frames_connected(struct halay_ucx_frames *frames, int rank)
{
    struct halay_part *control;

    frames->parts.peers[rank].is_unconnected = 0;
    while ((control = list_pop(&frames->peers[rank].controls)))
        list_put(&frames->controls, control, CONTROL);
}

/* --- sends */

static void part_finish(struct halay_ucx_frames *frames, struct halay_part *part, enum halay_status result,
                        size_t arrived)
{
    part->request = NULL;
    part->result = result;
    part->arrived = arrived;
    list_put(&frames->finished, part, FINISHED);
}

/* Converts the end that UCX reports of a part. */
static enum halay_status part_result(struct halay_ucx_frames *frames, const struct halay_part *part,
                                     ucs_status_t status)
{
    if (status == UCS_OK)
        return HALAY_OK;
    if (!part->message)
        return HALAY_ERR_CANCELED;
    halay_parts_peer_lost(&frames->parts, part->peer, ucs_status_string(status));
    return HALAY_ERR_PEER;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    struct halay_part *part = arg;
    struct halay_ucx_frames *frames = frames_of(part->link);

    frames->under_way--;
    part_finish(frames, part, part_result(frames, part, status), 0);
    ucp_request_free(request);
}

static enum halay_status part_send(struct halay_ucx_frames *frames, struct halay_part *part, enum halay_ucx_kind kind)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = on_sent,
        .user_data = part,
    };
    struct halay_ucx_header *header = header_of(part);

    *header = (struct halay_ucx_header){ .sender = frames->parts.link.rank,
                                         .tag = part->tag,
                                         .kind = kind,
                                         .returned = credit_to_return(&frames->peers[part->peer]) };
    part->index = IN_UCX;
    ucs_status_ptr_t request = ucp_am_send_nbx(frames->peers[part->peer].ep, FRAME_ID, header, sizeof *header,
                                               part->memory, part->bytes, &param);
    if (UCS_PTR_IS_ERR(request))
        return part_result(frames, part, UCS_PTR_STATUS(request));
    frames->under_way += !!request;
    return request ? HALAY_IN_PROGRESS : HALAY_OK;
}

static enum halay_status post_send(struct halay_ucx_frames *frames, struct halay_part *part)
{
    struct halay_ucx_peer *peer = &frames->peers[part->peer];
    size_t cost = halay_ucx_cost(part->bytes);

    if (part->is_optional)
        return part_send(frames, part, HALAY_UCX_FREE);
    if (peer->credit >= cost && !list_has(peer->held, part->tag)) {
        peer->credit -= cost;
        return part_send(frames, part, HALAY_UCX_DATA);
    }
    control_put(frames, part->peer, HALAY_UCX_REQUEST, part->tag);
    list_put(&peer->held, part, HELD);
    return HALAY_IN_PROGRESS;
}

/* --- receives */

static void part_place(struct halay_part *part, const void *data, size_t length)
{
    size_t bytes = length < part->bytes ? length : part->bytes;

    if (bytes)
        memcpy(part->memory, data, bytes);
}

static void credit_owe(struct halay_ucx_frames *frames, struct halay_ucx_peer *peer, size_t length)
{
    peer->owed += halay_ucx_cost(length);
    if (peer->owed < frames->budget / 2 || peer->credit_is_due)
        return;
    peer->credit_is_due = 1;
    control_put(frames, peer->rank, HALAY_UCX_CREDIT, 0);
}

/* Ends the receive whose data UCX has fetched into this part, unless it was taken back. */
static void on_fetched(void *request, ucs_status_t status, size_t length, void *arg)
{
    struct halay_part *buffer = arg, *part = buffer->request;
    struct halay_ucx_frames *frames = frames_of(buffer->link);

    frames->under_way--;
    if (part) {
        if (status == UCS_OK && !buffer->block)
            part_place(part, buffer->memory, length);
        part_finish(frames, part, part_result(frames, part, status), length);
    }
    halay_parts_give(&frames->parts, buffer);
    ucp_request_free(request);
}

/* Starts to fetch data of `length` bytes that UCX holds. */
static void part_fetch(struct halay_ucx_frames *frames, struct halay_part *part, void *data, size_t length)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv_am = on_fetched,
        .user_data = halay_parts_take(&frames->parts, length == part->bytes ? part->memory : NULL, length),
    };
    struct halay_part *buffer = param.user_data;
    if (!buffer) {
        ucp_am_data_release(frames->worker, data);
        fail_no_memory(frames, length);
        part_finish(frames, part, HALAY_ERR_NO_MEMORY, 0);
        return;
    }

    buffer->index = BUFFER;
    buffer->peer = part->peer;
    buffer->request = part;
    part->index = FETCHING;
    part->request = buffer;
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(frames->worker, data, buffer->memory, length, &param);
    if (UCS_PTR_IS_ERR(request)) {
        part_finish(frames, part, part_result(frames, part, UCS_PTR_STATUS(request)), 0);
        halay_parts_give(&frames->parts, buffer);
        return;
    }
    frames->under_way++;
}

/* Matches the receive with the oldest early part of its tag, or lets it wait. */
static enum halay_status post_receive(struct halay_ucx_frames *frames, struct halay_part *part, size_t *arrived)
{
    struct halay_ucx_peer *peer = &frames->peers[part->peer];
    struct halay_part *early = list_take(&peer->early, part->tag);
    enum halay_status status = HALAY_IN_PROGRESS;

    if (!early) {
        list_put(&peer->posted, part, POSTED);
        return HALAY_IN_PROGRESS;
    }
    if (early->is_request) {
        list_put(&peer->granted, part, GRANTED);
        control_put(frames, part->peer, HALAY_UCX_GRANT, part->tag);
    } else if (early->request) {
        part->request = early->request;
        part->arrived = early->bytes;
        list_put(&frames->to_fetch, part, FETCHABLE);
    } else {
        part_place(part, early->memory, early->bytes);
        *arrived = early->bytes;
        status = HALAY_OK;
    }
    if (early->costs)
        credit_owe(frames, peer, early->bytes);
    halay_parts_give(&frames->parts, early);
    return status;
}

static enum halay_status part_post(struct halay_link *link, struct halay_part *part, size_t *arrived)
{
    return part->is_send ? post_send(frames_of(link), part) : post_receive(frames_of(link), part, arrived);
}

static struct halay_part **list_of(struct halay_ucx_frames *frames, const struct halay_part *part)
{
    struct halay_ucx_peer *peer = &frames->peers[part->peer];

    switch ((enum state)part->index) {
    case POSTED:
        return &peer->posted;
    case GRANTED:
        return &peer->granted;
    case HELD:
        return &peer->held;
    case DUE:
        return &frames->due;
    case FETCHABLE:
        return &frames->to_fetch;
    default:
        return NULL;
    }
}

static void part_set_aside(struct halay_link *link, struct halay_part *part)
{
    struct halay_ucx_frames *frames = frames_of(link);
    struct halay_part **list = list_of(frames, part);

    if (part->index == IN_UCX || part->index == FINISHED)
        return;
    if (list)
        (void)halay_parts_list_take(list, 0, part);
    if (part->index == FETCHABLE)
        ucp_am_data_release(frames->worker, part->request);
    if (part->index == FETCHING) /* UCX continues, into memory of ours */
        ((struct halay_part *)part->request)->request = NULL;
    part_finish(frames, part, HALAY_ERR_CANCELED, 0);
}

static const struct halay_parts_ops parts_ops = { .post = part_post, .set_aside = part_set_aside };

/* --- what arrives */

/* Keeps a part that arrives before its receive. Returns nonzero if the descriptor `data` is kept with it. */
static int keep_early(struct halay_ucx_frames *frames, const struct halay_ucx_header *header, void *data, size_t length,
                      int is_descriptor)
{
    int has_data = !is_descriptor && header->kind != HALAY_UCX_REQUEST;
    struct halay_part *early = halay_parts_take(&frames->parts, NULL, has_data ? length : 0);
    if (!early) {
        fail_no_memory(frames, length);
        return 0;
    }

    early->peer = header->sender;
    early->tag = header->tag;
    early->bytes = length;
    early->is_request = header->kind == HALAY_UCX_REQUEST;
    early->costs = header->kind == HALAY_UCX_DATA;
    early->request = is_descriptor ? data : NULL;
    if (has_data && length)
        memcpy(early->memory, data, length);
    list_put(&frames->peers[header->sender].early, early, EARLY);
    return is_descriptor;
}

/* Gives data to the oldest receive of their tag. Returns nonzero if the descriptor is kept. */
static int take_data(struct halay_ucx_frames *frames, const struct halay_ucx_header *header, void *data, size_t length,
                     int is_descriptor)
{
    struct halay_ucx_peer *peer = &frames->peers[header->sender];
    int was_granted = header->kind == HALAY_UCX_GRANTED;
    struct halay_part *part = list_take(was_granted ? &peer->granted : &peer->posted, header->tag);

    if (!part && was_granted)
        return 0; /* its receive was taken back, or its group is forgotten */
    if (!part && halay_forgotten_has(&frames->parts.link.forgotten, header->tag)) {
        if (header->kind == HALAY_UCX_DATA)
            credit_owe(frames, peer, length);
        return 0;
    }
    if (!part)
        return keep_early(frames, header, data, length, is_descriptor);
    if (header->kind == HALAY_UCX_DATA)
        credit_owe(frames, peer, length);
    if (is_descriptor) {
        part->request = data;
        part->arrived = length;
        list_put(&frames->to_fetch, part, FETCHABLE);
        return 1;
    }
    part_place(part, data, length);
    part_finish(frames, part, HALAY_OK, length);
    return 0;
}

static void take_request(struct halay_ucx_frames *frames, const struct halay_ucx_header *header)
{
    struct halay_ucx_peer *peer = &frames->peers[header->sender];
    struct halay_part *part = list_take(&peer->posted, header->tag);

    if (!part && !halay_forgotten_has(&frames->parts.link.forgotten, header->tag)) {
        keep_early(frames, header, NULL, 0, 0);
        return;
    }
    if (part)
        list_put(&peer->granted, part, GRANTED);
    control_put(frames, header->sender, HALAY_UCX_GRANT, header->tag);
}

static void take_grant(struct halay_ucx_frames *frames, const struct halay_ucx_header *header)
{
    struct halay_part *part = list_take(&frames->peers[header->sender].held, header->tag);

    if (part) /* else it was taken back */
        list_put(&frames->due, part, DUE);
}

/* This rank's endpoint is opened when UCX here knows that of the lower rank: it pairs them then. */
static void take_hello(struct halay_ucx_frames *frames, struct halay_ucx_peer *peer)
{
    frames->called += !peer->is_called;
    peer->is_called = 1;
}

static int is_sound(const struct halay_ucx_frames *frames, const struct halay_ucx_header *h, size_t length)
{
    if (h->kind == HALAY_UCX_HELLO && h->sender >= frames->parts.link.rank)
        return 0;
    return h->sender >= 0 && h->sender < frames->parts.link.size && h->sender != frames->parts.link.rank &&
           h->kind <= HALAY_UCX_HELLO && length <= frames->parts.part_bytes;
}

static ucs_status_t on_frame(void *arg, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    struct halay_ucx_frames *frames = arg;
    const int is_descriptor = !!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    struct halay_ucx_header h = { .sender = -1 };
    int is_kept = 0;

    if (frames->is_stopped)
        return UCS_OK;
    if (header_length == sizeof h)
        memcpy(&h, header, sizeof h); /* it may lie at any address */
    if (!is_sound(frames, &h, length)) {
        halay_host_error(frames->parts.host, "a message over UCX is not one of ours");
        halay_parts_fail(&frames->parts, HALAY_ERR_FORMAT);
        return UCS_OK;
    }
    frames->peers[h.sender].is_reached = 1;
    frames->peers[h.sender].credit += h.returned;
    switch ((enum halay_ucx_kind)h.kind) {
    case HALAY_UCX_DATA:
    case HALAY_UCX_FREE:
    case HALAY_UCX_GRANTED:
        is_kept = take_data(frames, &h, data, length, is_descriptor);
        break;
    case HALAY_UCX_REQUEST:
        take_request(frames, &h);
        break;
    case HALAY_UCX_GRANT:
        take_grant(frames, &h);
        break;
    case HALAY_UCX_CLOSE:
        halay_parts_peer_left(&frames->parts, h.sender);
        break;
    case HALAY_UCX_HELLO:
        take_hello(frames, &frames->peers[h.sender]);
        break;
    case HALAY_UCX_CREDIT:
        break;
    }
    return is_kept ? UCS_INPROGRESS : UCS_OK;
}

/* --- forgetting */

static void early_drop(struct halay_ucx_frames *frames, struct halay_part *early)
{
    if (early->is_request)
        control_put(frames, early->peer, HALAY_UCX_GRANT, early->tag);
    else if (early->request)
        ucp_am_data_release(frames->worker, early->request);
    if (early->costs)
        credit_owe(frames, &frames->peers[early->peer], early->bytes);
    halay_parts_give(&frames->parts, early);
}

void halay_ucx_frames_forget(struct halay_link *link, struct halay_group_range groups)
{
    struct halay_ucx_frames *frames = frames_of(link);

    halay_forgotten_add(&link->forgotten, groups);
    for (int r = 0; r < link->size; r++)
        for (struct halay_part **at = &frames->peers[r].early, *early; (early = *at);) {
            if (!halay_group_range_has(groups, early->tag)) {
                at = &early->next;
                continue;
            }
            *at = early->next;
            early_drop(frames, early);
        }
}

/* --- driving */

int halay_ucx_frames_have_work(const struct halay_ucx_frames *frames)
{
    return frames->finished || frames->due || frames->to_fetch || frames->controls || frames->called;
}

void halay_ucx_frames_end(struct halay_ucx_frames *frames)
{
    struct halay_part *part;

    while ((part = list_pop(&frames->finished)))
        halay_parts_end(&frames->parts, part, part->result, part->arrived);
}

int halay_ucx_frames_push(struct halay_ucx_frames *frames)
{
    int pushed = 0;
    struct halay_part *part;

    while ((part = list_pop(&frames->controls))) {
        control_send(frames, part);
        pushed = 1;
    }
    while ((part = list_pop(&frames->due))) {
        enum halay_status status = part_send(frames, part, HALAY_UCX_GRANTED);
        if (status != HALAY_IN_PROGRESS)
            part_finish(frames, part, status, 0);
        pushed = 1;
    }
    while ((part = list_pop(&frames->to_fetch))) {
        part_fetch(frames, part, part->request, part->arrived);
        pushed = 1;
    }
    return pushed || frames->finished;
}

/* --- start and end */

enum halay_status halay_ucx_frames_init(struct halay_ucx_frames *frames, const struct halay_link_ops *slots,
                                        const struct halay_host *host, const struct halay_boot *boot, size_t part_bytes)
{
    enum halay_status status = halay_parts_init(&frames->parts, slots, &parts_ops, host, boot, part_bytes);
    if (status != HALAY_OK)
        return status;
    frames->parts.places_itself = 1;
    frames->budget = halay_ucx_budget(boot->size);
    frames->peers = calloc((size_t)boot->size, sizeof *frames->peers);
    if (!frames->peers)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: transport 'ucx' of %d ranks", boot->size);
    for (int r = 0; r < boot->size; r++)
        frames->peers[r] = (struct halay_ucx_peer){ .frames = frames, .rank = r, .credit = frames->budget };
    for (int r = 0; r < boot->rank; r++)
        frames->parts.peers[r].is_unconnected = 1;
    return HALAY_OK;
}

enum halay_status halay_ucx_frames_start(struct halay_ucx_frames *frames, ucp_worker_h worker)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = FRAME_ID,
        .cb = on_frame,
        .arg = frames,
    };

    frames->worker = worker;
    ucs_status_t status = ucp_worker_set_am_recv_handler(worker, &param);
    if (status == UCS_OK)
        return HALAY_OK;
    return halay_host_fail(frames->parts.host, HALAY_ERR_SYSTEM, "ucp_worker_set_am_recv_handler: %s",
                           ucs_status_string(status));
}

void halay_ucx_frames_stop(struct halay_ucx_frames *frames)
{
    struct halay_part *part;

    frames->is_stopped = 1;
    for (int r = 0; frames->peers && r < frames->parts.link.size; r++)
        while ((part = list_pop(&frames->peers[r].early)))
            if (part->request)
                ucp_am_data_release(frames->worker, part->request);
    while ((part = list_pop(&frames->to_fetch)))
        ucp_am_data_release(frames->worker, part->request);
}

void halay_ucx_frames_fini(struct halay_ucx_frames *frames)
{
    halay_parts_fini(&frames->parts, 0);
    free(frames->peers);
    frames->peers = NULL;
}

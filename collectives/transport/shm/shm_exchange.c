/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: segments have no name, so their descriptors, and those of the ranks' bells where they poll, travel over
 * abstract unix sockets, which have none in the file system either.
 *
 *     1  every rank   announces its possible size, rank 0 a token, the first of each host the random name of a
 *                     socket that it has opened                                                     allgather
 *     2  every rank   creates its segment (the least of the sizes); the first of each host also the board
 *     3  each other   connects to the first of its host, hands it the descriptors together with the token, or
 *                     says why it has none
 *     4  the first    hands all of them to each other, or the reason
 *     5  every rank   maps them, reports whether it has all                                         allgather
 *
 * So n ranks need n connections and not n squared. Two ranks are on one host if, and only if, this works: a descriptor
 * cannot come from another system. Names, host names and environment prove nothing.
 *
 * A connection of another process (any of this network namespace can connect) differs from a peer's by the credentials
 * that the kernel attaches: the same user, and the process that a peer announced; and by the token, which only ranks of
 * the bootstrap know. It is dropped at once, before it has sent anything, and delays no rank. A rank that ends while
 * others wait for it is seen by its process (peers.h) or its connection.
 *
 * Of several hosts each does this by itself, but every rank reports its status to all: either every host shares memory
 * or none does.
 *
 * Every rank takes part in each allgather whatever goes wrong, so that a failure of one is known to all; the one that
 * reports a failure is the last.
 *
 * Cleanup: zero-initialised, fini accepts a half-built state.
 * Reference: memfd_create(2).
 */
#include "collectives/transport/shm/shm_exchange.h"
#include "base/clock.h"
#include "base/machine/descriptors.h"
#include "base/net/local_socket.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x79616c6168006d73) /* "sm", 0, "halay" */

enum { PASS_VERSION = 2, TOKEN_BYTES = 16, QUEUE = 4096, PASSED = 2, BATCH = 100, LOOK_MS = 20 };

_Static_assert(1 + PASSED * BATCH <= HALAY_LOCAL_FDS_MAX, "a message has the board's descriptor and a batch");

/* A rank's message in step 1. */
struct announcement {
    int32_t status; /* HALAY_OK, or why it cannot take part */
    int32_t has_barrier;
    uint64_t bytes;
    char name[HALAY_LOCAL_NAME_BYTES]; /* of its local socket */
    unsigned char token[TOKEN_BYTES];  /* rank 0's, to be shown by all; zeros of the others */
};

/* The message that carries descriptors: a rank's own, or the board's and those of `count` members from the first on,
 * one kind after the other. */
struct delivery {
    uint64_t magic;
    uint32_t version;
    uint32_t rank;  /* the sender's */
    int32_t status; /* HALAY_OK, or the reason that a descriptor is missing */
    uint32_t first, count;
    unsigned char token[TOKEN_BYTES];
};

/* For the first rank of a host: what another one has sent it. */
struct member {
    int socket;      /* owned; -1: has not sent anything */
    int fds[PASSED]; /* owned until all have got them; -1: none */
};

struct exchange {
    struct halay_log *log;
    struct halay_peers *peers;                        /* borrowed */
    const struct halay_shm_exchange_options *options; /* borrowed */
    struct halay_shm_map *map;                        /* borrowed: filled here */
    int rank, size;                                   /* the bootstrap's */
    int64_t deadline_us;
    int listener; /* owned, -1 if none */
    struct announcement me;
    struct announcement *all; /* owned: [size] */
    /* Owned: [size] for peers that have connected and sent nothing yet, -1: free. */
    int *silent;
    struct member *members;   /* owned: [map->size] */
    enum halay_status failed; /* the first failure that a member has reported */
    int have;                 /* members that have sent something, this rank too */
    int board_fd;             /* owned: the first's; -1: none */
};

static enum halay_status random_fill(struct halay_log *log, void *bytes, size_t count)
{
    if (getrandom(bytes, count, 0) == (ssize_t)count)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_SYSTEM, "cannot get random bytes: %s", strerror(errno));
}

/* ---- 1: announce ---- */

/* Returns the number of ranks that segments are laid out for. */
static int ranks_laid_out(const struct exchange *x)
{
    return x->options->ranks > x->map->size ? x->options->ranks : x->map->size;
}

static enum halay_status exchange_prepare(struct exchange *x)
{
    size_t bytes = x->options->memory->layout.bytes;
    enum halay_status status = HALAY_OK;

    if (!x->options->memory->base)
        status = halay_shm_fit(x->log, ranks_laid_out(x), x->options->wanted, &bytes);
    if (status != HALAY_OK)
        return status;
    if (x->options->bell_polls && (status = halay_bell_open_event(x->options->bell)) != HALAY_OK)
        return status;
    /* The first rank keeps all, with a connection each, until all have them; the others get some at a time. */
    size_t members = (size_t)x->map->size, at_once = members < BATCH ? members : BATCH;
    size_t more = (x->options->bell_polls ? members : 0) + PASSED * (x->map->rank ? at_once : members) + members;
    status = halay_descriptors_allow(x->log, more, "shared memory with the other ranks of this host");
    if (status != HALAY_OK)
        return status;
    x->me.bytes = bytes;
    x->me.has_barrier = !x->options->without_barrier && halay_bell_register();
    if (x->rank == 0)
        status = random_fill(x->log, x->me.token, sizeof x->me.token);
    if (status == HALAY_OK && x->map->rank == 0 && x->map->size > 1)
        status = halay_local_listen(x->log, "to pass shared memory", QUEUE, x->me.name, &x->listener);
    return status;
}

/* Returns the status of the first rank that failed, and that rank. */
static enum halay_status first_failure(const struct exchange *x, int *rank)
{
    for (int r = 0; r < x->size; r++)
        if (x->all[r].status != HALAY_OK) {
            *rank = r;
            return (enum halay_status)x->all[r].status;
        }
    return HALAY_OK;
}

/* ---- 2: create ---- */

static size_t board_bytes(const struct halay_shm_map *map)
{
    return halay_round_up((size_t)map->size * sizeof *map->board, HALAY_PAGE);
}

/* A new one, or the one that there is with all but its heap as new. */
static enum halay_status get_memory(struct exchange *x, size_t bytes)
{
    struct halay_shm_memory *memory = x->options->memory;

    if (!memory->base)
        return halay_shm_memory_create(memory, ranks_laid_out(x), bytes);
    if (memory->layout.bytes != x->map->layout.bytes || memory->layout.heap != x->map->layout.heap)
        return halay_fail(x->log, HALAY_ERR_UNSUPPORTED,
                          "this rank's shared segment has %zu bytes, the others can have only %zu",
                          memory->layout.bytes, x->map->layout.bytes);
    return halay_shm_memory_renew(memory);
}

static enum halay_status segment_create(struct exchange *x)
{
    struct halay_shm_map *map = x->map;
    size_t bytes = x->me.bytes;

    for (int m = 0; m < map->size; m++)
        if (x->all[map->ranks[m]].bytes < bytes)
            bytes = x->all[map->ranks[m]].bytes;
    if (bytes < halay_shm_least_bytes(ranks_laid_out(x)))
        return HALAY_ERR_FORMAT;
    halay_shm_layout(ranks_laid_out(x), bytes, &map->layout);
    enum halay_status status = get_memory(x, bytes);
    if (status != HALAY_OK)
        return status;
    map->base[map->rank] = x->options->memory->base;
    return HALAY_OK;
}

static void map_board(struct exchange *x, int fd)
{
    struct halay_shm_map *map = x->map;
    void *board;

    if (map->board || halay_segment_map(x->log, fd, board_bytes(map), &board) != HALAY_OK)
        return;
    madvise(board, board_bytes(map), MADV_DONTDUMP);
    map->board = board;
    map->board[map->rank].has_barrier = (uint32_t)x->me.has_barrier;
}

static enum halay_status board_create(struct exchange *x)
{
    enum halay_status status = halay_segment_create(x->log, "halay-board", board_bytes(x->map), &x->board_fd);

    if (status == HALAY_OK)
        map_board(x, x->board_fd);
    return status;
}

/* ---- 3, 4: pass ---- */

static int bell_of(const struct exchange *x)
{
    return x->options->bell_polls ? x->options->bell->event_fd : -1;
}

static int is_full(int error)
{
    return error == EAGAIN || error == EINTR || error == ENOBUFS || error == ETOOMANYREFS;
}

/* Nothing reports room in a queue, nor that there are fewer descriptors on their way than a user may have. Zero: it is
 * too late. */
static int wait_for_room(const struct exchange *x)
{
    poll(NULL, 0, 1);
    return !halay_deadline_passed(x->deadline_us);
}

/* Sends a message with this number of descriptors. Returns nonzero if it was sent; otherwise errno is set. */
static int send_descriptors(const struct exchange *x, int socket_fd, const struct delivery *delivery, const int *fds,
                            size_t count)
{
    int is_sent;

    while (!(is_sent = halay_local_send(socket_fd, delivery, sizeof *delivery, fds, count)))
        if (!is_full(errno) || !wait_for_room(x))
            break;
    return is_sent;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Returns zero if nothing has arrived, a negative number if the connection has ended. */
static ssize_t receive_descriptors(int socket_fd, struct delivery *delivery, int *fds, size_t room)
{
    ssize_t n = halay_local_receive(socket_fd, delivery, sizeof *delivery, fds, room);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return n > 0 ? n : -1;
}

/* The process at the other end when it connected; 0 if it is another user's. */
static pid_t who_connected(int socket_fd)
{
    pid_t pid;

    return halay_local_is_own_user(socket_fd, &pid) ? pid : 0;
}

/* Returns nonzero if it is the process of another rank of this host. */
static int is_any_peer(const struct exchange *x, pid_t pid)
{
    for (int r = 0; r < x->size && pid; r++)
        if (r != x->rank && pid == halay_peers_pid(x->peers, r) && halay_peers_is_local(x->peers, r))
            return 1;
    return 0;
}

static int is_peer(const struct exchange *x, const struct delivery *d, pid_t pid)
{
    return d->magic == MAGIC && d->version == PASS_VERSION && d->rank < (uint32_t)x->size && (int)d->rank != x->rank &&
           !memcmp(d->token, x->all[0].token, sizeof d->token) && pid == halay_peers_pid(x->peers, (int)d->rank);
}

/* Returns the number of a rank among the members, -1 if it is not one. */
static int member_of(const struct exchange *x, int rank)
{
    int m = x->map->size - 1;

    while (m >= 0 && x->map->ranks[m] != rank)
        m--;
    return m;
}

/* From one segment to the next in the address space. */
static size_t stride_of(const struct halay_shm_map *map)
{
    return halay_round_up(map->layout.bytes, HALAY_HUGE_PAGE);
}

/* Returns nonzero once there is address space for the segments of the others. */
static int has_space(struct exchange *x)
{
    struct halay_shm_map *map = x->map;

    if (!map->space) {
        map->space_bytes = (size_t)(map->size - 1) * stride_of(map);
        (void)halay_segment_reserve(x->log, map->space_bytes, &map->space);
    }
    return map->space != NULL;
}

/* Takes the eventfd over if the segment is mapped. */
static void map_segment(struct exchange *x, int peer, int fds[PASSED])
{
    struct halay_shm_map *map = x->map;
    int member = member_of(x, peer);

    if (member < 0 || !map->layout.bytes || map->base[member] || !has_space(x))
        return;
    void *base = (unsigned char *)map->space + (size_t)(member - (member > map->rank)) * stride_of(map);
    if (halay_segment_map_at(x->log, fds[0], map->layout.bytes, base) != HALAY_OK)
        return;
    map->base[member] = base;
    map->event_fd[member] = fds[1];
    fds[1] = -1;
}

/* Takes what one member has sent: zero if there is nothing yet. */
static int take_delivery(struct exchange *x, int socket_fd)
{
    struct delivery delivery;
    int fds[PASSED];

    ssize_t n = receive_descriptors(socket_fd, &delivery, fds, PASSED);
    if (n <= 0)
        return n ? -1 : 0;
    int member = n == (ssize_t)sizeof delivery && is_peer(x, &delivery, who_connected(socket_fd))
                     ? member_of(x, (int)delivery.rank)
                     : -1;
    if (member < 0 || x->members[member].socket >= 0) {
        halay_warning(x->log, "a message over the local socket was not a rank's shared memory and was dropped");
        close_all(fds, PASSED);
        return -1;
    }
    x->members[member].socket = socket_fd;
    memcpy(x->members[member].fds, fds, sizeof fds);
    x->have++;
    if (x->failed == HALAY_OK)
        x->failed = (enum halay_status)delivery.status;
    return 1;
}

/* Keeps the connection of a peer that has sent nothing yet. Each peer has a place. */
static void keep_silent(struct exchange *x, int socket_fd)
{
    int i = 0;

    while (i < x->size && x->silent[i] >= 0)
        i++;
    if (i < x->size)
        x->silent[i] = socket_fd;
    else
        close(socket_fd);
}

static void peer_welcome(struct exchange *x, int socket_fd)
{
    if (!is_any_peer(x, who_connected(socket_fd))) {
        halay_debug(x->log, "a stranger connected to the local socket and was dropped");
        close(socket_fd);
        return;
    }
    int taken = take_delivery(x, socket_fd);
    if (!taken)
        keep_silent(x, socket_fd);
    else if (taken < 0)
        close(socket_fd);
}

static void take_deliveries(struct exchange *x)
{
    for (int i = 0; i < x->size; i++) {
        int taken = x->silent[i] >= 0 ? take_delivery(x, x->silent[i]) : 0;
        if (taken < 0)
            close(x->silent[i]);
        if (taken)
            x->silent[i] = -1;
    }
    for (int i = 0; i <= QUEUE; i++) { /* all that can have waited by now, not those that still arrive */
        int fd = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        peer_welcome(x, fd);
    }
}

/* Nonzero if a rank of this host has ended, or it is too late. */
static int is_hopeless(const struct exchange *x)
{
    int rank;

    return halay_deadline_passed(x->deadline_us) || halay_peers_check(x->peers, &rank) != HALAY_OK;
}

/* To one member those of all, or why it gets none. */
static void relay_to(struct exchange *x, int socket_fd, int rank)
{
    struct delivery delivery = { .magic = MAGIC, .version = PASS_VERSION, .rank = (uint32_t)x->rank };
    int fds[1 + PASSED * BATCH] = { x->board_fd }, kinds = bell_of(x) < 0 ? 1 : PASSED;
    int sent = 1;

    delivery.status = (int32_t)x->failed;
    memcpy(delivery.token, x->all[0].token, sizeof delivery.token);
    for (int first = 0; sent && first < x->map->size; first += BATCH) {
        int count = x->failed ? 0 : x->map->size - first < BATCH ? x->map->size - first : BATCH;
        for (int k = 0; k < kinds; k++)
            for (int i = 0; i < count; i++)
                fds[1 + k * count + i] = x->members[first + i].fds[k];
        delivery.first = (uint32_t)first;
        delivery.count = (uint32_t)count;
        sent = send_descriptors(x, socket_fd, &delivery, fds, x->failed ? 0 : (size_t)(1 + kinds * count));
        if (x->failed)
            return;
    }
    if (!sent)
        halay_debug(x->log, "cannot pass shared memory to rank %d: %s", rank, strerror(errno));
}

/* The first rank of a host. mine: how the creation of its own segment went. */
static enum halay_status pass_all(struct exchange *x, enum halay_status mine)
{
    struct pollfd listener = { .fd = x->listener, .events = POLLIN };

    x->failed = mine;
    x->have = 1;
    x->members[0].fds[0] = x->options->memory->fd;
    x->members[0].fds[1] = bell_of(x);
    while (x->have < x->map->size && !is_hopeless(x)) {
        poll(&listener, 1, x->silent[0] >= 0 ? 1 : LOOK_MS);
        take_deliveries(x);
    }
    if (x->failed == HALAY_OK && x->have < x->map->size)
        x->failed = HALAY_ERR_UNSUPPORTED;
    for (int m = 1; m < x->map->size; m++)
        if (x->members[m].socket >= 0)
            relay_to(x, x->members[m].socket, x->map->ranks[m]);
    for (int m = 1; m < x->map->size && x->failed == HALAY_OK; m++)
        map_segment(x, x->map->ranks[m], x->members[m].fds); /* takes the bell's */
    return x->failed;
}

/* Connects to the first rank of this host, waiting while its queue is full. */
static int connect_to(const struct exchange *x, int peer)
{
    int fd;

    while ((fd = halay_local_connect(x->all[peer].name)) < 0)
        if (!is_full(errno) || !wait_for_room(x))
            break;
    return fd;
}

/* Some of the segments. Nonzero: there may be more to come. */
static int take_batch(struct exchange *x, int socket_fd)
{
    struct delivery delivery;
    int all[1 + PASSED * BATCH], *fds = all + 1;

    ssize_t n = receive_descriptors(socket_fd, &delivery, all, 1 + PASSED * BATCH);
    if (n <= 0)
        return !n;
    int is_right = n == (ssize_t)sizeof delivery && is_peer(x, &delivery, who_connected(socket_fd)) &&
                   delivery.count <= BATCH && delivery.first <= (uint32_t)x->map->size &&
                   delivery.count <= (uint32_t)x->map->size - delivery.first;
    for (int i = 0; is_right && i < (int)delivery.count; i++) {
        int member = (int)delivery.first + i;
        int pair[PASSED] = { fds[i], fds[(int)delivery.count + i] };
        if (member != x->map->rank)
            map_segment(x, x->map->ranks[member], pair);
        fds[(int)delivery.count + i] = pair[1];
        x->have++;
    }
    if (is_right && all[0] >= 0)
        map_board(x, all[0]);
    close_all(all, 1 + PASSED * BATCH);
    if (is_right)
        x->failed = (enum halay_status)delivery.status;
    return is_right && delivery.status == HALAY_OK;
}

/* Receives all descriptors; any rank of a host but the first. The first one reports its own failure; another one shows
 * when the rank looks for its descriptors. */
static enum halay_status get_all(struct exchange *x, enum halay_status mine)
{
    int first = x->map->ranks[0], fds[PASSED] = { x->options->memory->fd, bell_of(x) };
    struct delivery delivery = {
        .magic = MAGIC, .version = PASS_VERSION, .rank = (uint32_t)x->rank, .status = (int32_t)mine
    };
    struct pollfd socket = { .fd = connect_to(x, first), .events = POLLIN };
    size_t count = mine != HALAY_OK ? 0 : fds[1] < 0 ? 1 : PASSED;

    memcpy(delivery.token, x->all[0].token, sizeof delivery.token);
    int is_on = socket.fd >= 0 && send_descriptors(x, socket.fd, &delivery, fds, count);
    if (!is_on)
        halay_debug(x->log, "cannot pass shared memory to rank %d: %s", first, strerror(errno));
    while (is_on && x->have < x->map->size && !is_hopeless(x))
        is_on = poll(&socket, 1, LOOK_MS) <= 0 || take_batch(x, socket.fd);
    if (socket.fd >= 0)
        close(socket.fd);
    return mine != HALAY_OK ? mine : x->failed;
}

static enum halay_status pass_descriptors(struct exchange *x, enum halay_status mine)
{
    for (int m = 0; m < x->map->size; m++)
        if (!halay_peers_is_local(x->peers, x->map->ranks[m]))
            return mine;
    if (x->map->size == 1)
        return mine;
    return x->map->rank ? get_all(x, mine) : pass_all(x, mine);
}

static enum halay_status check_all_mapped(struct exchange *x)
{
    if (x->map->space)
        madvise(x->map->space, x->map->space_bytes, MADV_DONTDUMP); /* their owners dump them */
    for (int m = 0; m < x->map->size; m++) {
        int r = x->map->ranks[m];
        int has_bell = x->map->event_fd[m] >= 0 || !x->options->bell_polls || m == x->map->rank;
        if (x->map->board && x->map->base[m] && has_bell)
            continue;
        halay_info(x->log, "shared memory of rank %d on '%s' cannot be mapped here: not the same host or container", r,
                   halay_peers_host(x->peers, r));
        return HALAY_ERR_UNSUPPORTED;
    }
    return HALAY_OK;
}

/* ---- all ---- */

static enum halay_status exchange_allocate(struct exchange *x, int its_host_only)
{
    struct halay_shm_map *map = x->map;
    size_t n = (size_t)x->size;

    x->all = calloc(n, sizeof *x->all);
    x->silent = malloc(n * sizeof *x->silent);
    map->ranks = calloc(n, sizeof *map->ranks);
    if (!x->all || !x->silent || !map->ranks)
        return HALAY_ERR_NO_MEMORY;
    memset(x->silent, -1, n * sizeof *x->silent);
    for (int r = 0; r < x->size; r++) {
        if (its_host_only && !halay_peers_is_local(x->peers, r))
            continue;
        if (r == x->rank)
            map->rank = map->size;
        map->ranks[map->size++] = r;
    }
    map->base = calloc((size_t)map->size, sizeof *map->base);
    map->event_fd = malloc((size_t)map->size * sizeof *map->event_fd);
    x->members = malloc((size_t)map->size * sizeof *x->members);
    if (!map->base || !map->event_fd || !x->members)
        return HALAY_ERR_NO_MEMORY;
    memset(x->members, -1, (size_t)map->size * sizeof *x->members);
    memset(map->event_fd, -1, (size_t)map->size * sizeof *map->event_fd);
    return HALAY_OK;
}

/* Returns the worst status of all ranks, and logs whose it is. */
static enum halay_status exchange_agree(struct exchange *x, struct halay_boot *boot, enum halay_status mine)
{
    int rank = 0;

    x->me.status = (int32_t)mine;
    enum halay_status status =
        halay_boot_allgather(boot, &x->me, sizeof x->me, x->all, halay_deadline_left_ms(x->deadline_us));
    if (status != HALAY_OK)
        return status;
    status = first_failure(x, &rank);
    if (status != HALAY_OK && rank != x->rank)
        halay_log_write(x->log, status == HALAY_ERR_UNSUPPORTED ? HALAY_LOG_INFO : HALAY_LOG_ERROR,
                        "rank %d cannot share memory: %s", rank, halay_status_string(status));
    return status;
}

static enum halay_status exchange_all(struct exchange *x, struct halay_boot *boot)
{
    enum halay_status status = exchange_agree(x, boot, exchange_prepare(x));

    if (status != HALAY_OK)
        return status;
    status = segment_create(x);
    if (status == HALAY_OK && x->map->rank == 0)
        status = board_create(x);
    status = pass_descriptors(x, status);
    return exchange_agree(x, boot, status == HALAY_OK ? check_all_mapped(x) : status);
}

void halay_shm_exchange_refuse(struct halay_boot *boot, enum halay_status status, int timeout_ms)
{
    const struct announcement mine = { .status = (int32_t)status };

    (void)halay_boot_allgather(boot, &mine, sizeof mine, NULL, timeout_ms); /* the caller has a status already */
}

enum halay_status halay_shm_exchange(struct halay_log *log, struct halay_boot *boot, struct halay_peers *peers,
                                     const struct halay_shm_exchange_options *options, struct halay_shm_map *map)
{
    struct exchange x = {
        .log = log,
        .peers = peers,
        .options = options,
        .map = map,
        .rank = boot->rank,
        .size = boot->size,
        .deadline_us = halay_deadline_us(options->timeout_ms),
        .listener = -1,
        .board_fd = -1,
    };

    *map = (struct halay_shm_map){ 0 };
    enum halay_status status = exchange_allocate(&x, options->its_host_only);
    if (status == HALAY_OK)
        status = exchange_all(&x, boot);
    else
        halay_shm_exchange_refuse(boot, status, options->timeout_ms);
    if (x.listener >= 0)
        close(x.listener);
    for (int i = 0; x.silent && i < x.size; i++)
        if (x.silent[i] >= 0)
            close(x.silent[i]);
    for (int m = 1; x.members && m < map->size; m++) {
        close_all(x.members[m].fds, PASSED);
        if (x.members[m].socket >= 0)
            close(x.members[m].socket);
    }
    if (x.board_fd >= 0)
        close(x.board_fd);
    free(x.members);
    free(x.silent);
    free(x.all);
    return status;
}

void halay_shm_map_fini(struct halay_shm_map *map)
{
    halay_segment_unmap(map->space, map->space_bytes);
    halay_segment_unmap(map->board, board_bytes(map));
    for (int r = 0; map->event_fd && r < map->size; r++)
        if (map->event_fd[r] >= 0)
            close(map->event_fd[r]);
    free(map->event_fd);
    free(map->base);
    free(map->ranks);
    map->base = NULL;
    map->space = NULL;
    map->board = NULL;
    map->event_fd = NULL;
    map->ranks = NULL;
}

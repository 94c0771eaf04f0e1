/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: a non-blocking connect to each address, one loop over all.
 */
#include "launcher/where/reach.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/net/socket.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ATTEMPTS_MAX = 32 };

struct attempt {
    int fd;   /* -1: it failed */
    int code; /* errno; EINPROGRESS: under way; 0: reached */
    int is_own;
};

static struct attempt begin_attempt(const char *text, const char *network, const struct halay_address *own,
                                    int own_count)
{
    struct attempt attempt = { -1, EINVAL, 0 };
    struct addrinfo *to;

    if (!halay_address_parse(text, &to))
        return attempt;
    attempt.is_own = halay_address_is_among(to->ai_addr, own, own_count);
    attempt.fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (attempt.fd < 0 || halay_socket_bind(attempt.fd, to->ai_addr, network) < 0 ||
        connect(attempt.fd, to->ai_addr, to->ai_addrlen) < 0)
        attempt.code = errno;
    else
        attempt.code = 0;
    freeaddrinfo(to);
    return attempt;
}

static void end_attempt(void *context)
{
    struct attempt *attempt = context;
    socklen_t length = sizeof attempt->code;

    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &attempt->code, &length) < 0)
        attempt->code = errno;
}

/* Returns the first with that code, 0 for one that is reached; -1 without one. is_own: this host has the address,
 * too. */
static int find_attempt(const struct attempt *attempts, int count, int is_own, int code)
{
    for (int i = 0; i < count; i++)
        if (attempts[i].code == code && attempts[i].is_own == is_own)
            return i;
    return -1;
}

/* Returns nonzero if no open attempt can change the choice. */
static int is_decided(const struct attempt *attempts, int count)
{
    if (find_attempt(attempts, count, 0, 0) >= 0)
        return 1;
    return find_attempt(attempts, count, 0, EINPROGRESS) < 0 &&
           (find_attempt(attempts, count, 1, EINPROGRESS) < 0 || find_attempt(attempts, count, 1, 0) >= 0);
}

static int await_reached(struct attempt *attempts, int count, int64_t deadline_us)
{
    enum halay_status status = HALAY_OK;
    struct halay_loop loop;

    halay_loop_init(&loop);
    while (status == HALAY_OK && !is_decided(attempts, count)) {
        for (int i = 0; i < count; i++)
            if (attempts[i].code == EINPROGRESS)
                halay_loop_watch(&loop, attempts[i].fd, POLLOUT, end_attempt, &attempts[i]);
        status = halay_loop_turn(&loop, deadline_us);
    }
    halay_loop_fini(&loop);
    int reached = find_attempt(attempts, count, 0, 0);
    return reached >= 0 ? reached : find_attempt(attempts, count, 1, 0);
}

static const char *outcome(const struct attempt *attempt, int is_chosen)
{
    if (attempt->code == EINPROGRESS)
        return "no answer yet";
    if (attempt->code)
        return strerror(attempt->code);
    return attempt->is_own && !is_chosen ? "reached, but this host has it too" : "reached";
}

int reach_first(struct halay_log *log, char *const *addresses, const char *network, int timeout_ms, char *why,
                size_t size)
{
    struct attempt attempts[ATTEMPTS_MAX];
    struct halay_address own[HALAY_ADDRESSES_ALL];
    size_t used = 0;
    int count = 0, own_count = 0;

    *why = 0;
    if (halay_addresses_list(log, NULL, own, &own_count) != HALAY_OK)
        return -1;
    for (; addresses[count] && count < ATTEMPTS_MAX; count++)
        attempts[count] = begin_attempt(addresses[count], network, own, own_count);
    int reached = await_reached(attempts, count, halay_deadline_us(timeout_ms));
    for (int i = 0; i < count; i++) {
        const char *what = outcome(&attempts[i], i == reached);
        if (used < size)
            used += (size_t)snprintf(why + used, size - used, "%s%s %s", i ? ", " : "", addresses[i], what);
        if (attempts[i].fd >= 0)
            close(attempts[i].fd);
    }
    return reached;
}

int reach_from(const char *address, char from[HALAY_ADDRESS_TEXT])
{
    struct addrinfo *to;
    struct sockaddr_storage own;
    socklen_t length = sizeof own;

    if (!halay_address_parse(address, &to))
        return 0;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* connecting it sends nothing */
    int ok = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
             getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
             getnameinfo((struct sockaddr *)&own, length, from, HALAY_ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    freeaddrinfo(to);
    return ok;
}

int reach_peer(int fd, char text[HALAY_ADDRESS_TEXT])
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
           getnameinfo((struct sockaddr *)&peer, length, text, HALAY_ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) == 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: a non-blocking connect to each address, one poll over all.
 */
#include "launcher/where/reach.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
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

static void check_attempts(struct attempt *attempts, int count, const struct pollfd *fds)
{
    for (int i = 0; i < count; i++) {
        socklen_t length = sizeof attempts[i].code;
        if (attempts[i].code == EINPROGRESS && fds[i].revents &&
            getsockopt(attempts[i].fd, SOL_SOCKET, SO_ERROR, &attempts[i].code, &length) < 0)
            attempts[i].code = errno;
    }
}

/* The first one reached, -1 if none is. */
static int find_reached(const struct attempt *attempts, int count, int is_own)
{
    for (int i = 0; i < count; i++)
        if (!attempts[i].code && attempts[i].is_own == is_own)
            return i;
    return -1;
}

/* Is an attempt at such an address still under way? is_own: this host has the address, too. */
static int is_any_open(const struct attempt *attempts, int count, int is_own)
{
    for (int i = 0; i < count; i++)
        if (attempts[i].code == EINPROGRESS && attempts[i].is_own == is_own)
            return 1;
    return 0;
}

/* No open attempt can change the choice. */
static int is_decided(const struct attempt *attempts, int count)
{
    if (find_reached(attempts, count, 0) >= 0)
        return 1;
    return !is_any_open(attempts, count, 0) &&
           (!is_any_open(attempts, count, 1) || find_reached(attempts, count, 1) >= 0);
}

static int await_reached(struct attempt *attempts, int count, int64_t deadline_us)
{
    while (!is_decided(attempts, count) && !halay_deadline_passed(deadline_us)) {
        struct pollfd fds[ATTEMPTS_MAX];
        for (int i = 0; i < count; i++)
            fds[i] = (struct pollfd){ .fd = attempts[i].code == EINPROGRESS ? attempts[i].fd : -1, .events = POLLOUT };
        if (poll(fds, (nfds_t)count, halay_deadline_left_ms(deadline_us)) < 0 && errno != EINTR)
            break;
        check_attempts(attempts, count, fds);
    }
    int reached = find_reached(attempts, count, 0);
    return reached >= 0 ? reached : find_reached(attempts, count, 1);
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

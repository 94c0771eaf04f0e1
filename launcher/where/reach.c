/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: a non-blocking connect to each address, one poll over all.
 */
#include "launcher/where/reach.h"
#include "base/clock.h"
#include "base/net/address.h"
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
    int fd;   /* -1: it has failed */
    int code; /* errno; EINPROGRESS: under way; 0: reached */
    int is_own;
};

/* "10.0.0.1:4000" or "[fd00::1]:4000", numbers only. */
static struct addrinfo *parse(const char *text)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    const char *colon = strrchr(text, ':');
    struct addrinfo *found;
    char host[64];

    if (!colon || colon - text >= (int)sizeof host)
        return NULL;
    int is_bracketed = *text == '[' && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * is_bracketed, text + is_bracketed);
    return getaddrinfo(host, colon + 1, &hints, &found) ? NULL : found;
}

static struct attempt begin(const char *text, const struct halay_address *own, int own_count)
{
    struct attempt attempt = { -1, EINVAL, 0 };
    struct addrinfo *to = parse(text);

    if (!to)
        return attempt;
    attempt.is_own = halay_address_is_among(to->ai_addr, own, own_count);
    attempt.fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    attempt.code = attempt.fd < 0 || connect(attempt.fd, to->ai_addr, to->ai_addrlen) < 0 ? errno : 0;
    freeaddrinfo(to);
    return attempt;
}

static void look(struct attempt *attempts, int count, const struct pollfd *fds)
{
    for (int i = 0; i < count; i++) {
        socklen_t length = sizeof attempts[i].code;
        if (attempts[i].code == EINPROGRESS && fds[i].revents &&
            getsockopt(attempts[i].fd, SOL_SOCKET, SO_ERROR, &attempts[i].code, &length) < 0)
            attempts[i].code = errno;
    }
}

/* The first that is reached, -1 if none is. */
static int find_reached(const struct attempt *attempts, int count, int is_own)
{
    for (int i = 0; i < count; i++)
        if (!attempts[i].code && attempts[i].is_own == is_own)
            return i;
    return -1;
}

static int await(struct attempt *attempts, int count, int64_t deadline_us)
{
    int reached;

    while ((reached = find_reached(attempts, count, 0)) < 0 && !halay_deadline_passed(deadline_us)) {
        struct pollfd fds[ATTEMPTS_MAX];
        int others = 0, own = 0;
        for (int i = 0; i < count; i++) {
            int is_open = attempts[i].code == EINPROGRESS;
            fds[i] = (struct pollfd){ .fd = is_open ? attempts[i].fd : -1, .events = POLLOUT };
            *(attempts[i].is_own ? &own : &others) += is_open;
        }
        if (!others && (!own || find_reached(attempts, count, 1) >= 0))
            break;
        if (poll(fds, (nfds_t)count, halay_deadline_left_ms(deadline_us)) < 0 && errno != EINTR)
            break;
        look(attempts, count, fds);
    }
    return reached >= 0 ? reached : find_reached(attempts, count, 1);
}

int reach_first(struct halay_log *log, char *const *addresses, int timeout_ms, char *why, size_t size)
{
    struct attempt attempts[ATTEMPTS_MAX];
    struct halay_address own[HALAY_ADDRESSES_MAX];
    size_t used = 0;
    int count = 0, own_count = 0;

    *why = 0;
    if (halay_own_addresses(log, NULL, 0, own, &own_count) != HALAY_OK)
        return -1;
    for (; addresses[count] && count < ATTEMPTS_MAX; count++)
        attempts[count] = begin(addresses[count], own, own_count);
    int reached = await(attempts, count, halay_deadline_us(timeout_ms));
    for (int i = 0; i < count; i++) {
        const char *what = !attempts[i].code
                               ? i != reached && attempts[i].is_own ? "reached, but this host has it too" : "reached"
                           : attempts[i].code == EINPROGRESS ? "no answer yet"
                                                             : strerror(attempts[i].code);
        if (used < size)
            used += (size_t)snprintf(why + used, size - used, "%s%s %s", i ? ", " : "", addresses[i], what);
        if (attempts[i].fd >= 0)
            close(attempts[i].fd);
    }
    return reached;
}

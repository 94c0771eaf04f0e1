/* SPDX-License-Identifier: Apache-2.0
 *
 * Reach: a non-blocking connect to each address, one poll over all.
 */
#include "launcher/reach.h"
#include "base/clock.h"
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

static struct attempt begin(const char *text)
{
    struct attempt attempt = { -1, EINVAL };
    struct addrinfo *to = parse(text);

    if (!to)
        return attempt;
    attempt.fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    attempt.code = attempt.fd < 0 || connect(attempt.fd, to->ai_addr, to->ai_addrlen) < 0 ? errno : 0;
    freeaddrinfo(to);
    return attempt;
}

/* The first that is reached, -1 if none is yet. */
static int look(struct attempt *attempts, int count, const struct pollfd *fds)
{
    for (int i = 0; i < count; i++) {
        socklen_t length = sizeof attempts[i].code;
        if (attempts[i].code == EINPROGRESS && fds && fds[i].revents &&
            getsockopt(attempts[i].fd, SOL_SOCKET, SO_ERROR, &attempts[i].code, &length) < 0)
            attempts[i].code = errno;
        if (!attempts[i].code)
            return i;
    }
    return -1;
}

static int await(struct attempt *attempts, int count, int64_t deadline_us)
{
    int reached = look(attempts, count, NULL);

    while (reached < 0 && !halay_deadline_passed(deadline_us)) {
        struct pollfd fds[ATTEMPTS_MAX];
        int open = 0;
        for (int i = 0; i < count; i++) {
            int is_open = attempts[i].code == EINPROGRESS;
            fds[i] = (struct pollfd){ .fd = is_open ? attempts[i].fd : -1, .events = POLLOUT };
            open += is_open;
        }
        if (!open || (poll(fds, (nfds_t)count, halay_deadline_left_ms(deadline_us)) < 0 && errno != EINTR))
            return -1;
        reached = look(attempts, count, fds);
    }
    return reached;
}

int reach_first(char *const *addresses, int timeout_ms, char *why, size_t size)
{
    struct attempt attempts[ATTEMPTS_MAX];
    size_t used = 0;
    int count = 0;

    for (; addresses[count] && count < ATTEMPTS_MAX; count++)
        attempts[count] = begin(addresses[count]);
    int reached = await(attempts, count, halay_deadline_us(timeout_ms));
    *why = 0;
    for (int i = 0; i < count; i++) {
        const char *what = i == reached                                           ? "reached"
                           : attempts[i].code == EINPROGRESS || !attempts[i].code ? "no answer yet"
                                                                                  : strerror(attempts[i].code);
        if (used < size)
            used += (size_t)snprintf(why + used, size - used, "%s%s %s", i ? ", " : "", addresses[i], what);
        if (attempts[i].fd >= 0)
            close(attempts[i].fd);
    }
    return reached;
}

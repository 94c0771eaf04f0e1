/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers: a connection becomes readable only when all of its first words are there (or it has ended), and these can be judged without
 * waiting. Only who has heard the first words of one who holds the secret, and repeats them, can keep others waiting after that.
 */
#include "launcher/strangers.h"
#include "base/clock.h"
#include "base/handshake.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000, FIRST = STRANGERS_FIRST };

void strangers_init(struct strangers *s, int listener, const unsigned char secret[HALAY_SECRET_BYTES])
{
    *s = (struct strangers){ .count = FIRST, .secret = secret };
    s->fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
    strangers_watch(s, -1);
}

void strangers_watch(struct strangers *s, int fd)
{
    s->fds[1] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* The descriptor, which is no longer ours; those behind it move up. */
static int take(struct strangers *s, size_t i)
{
    int fd = s->fds[i].fd;

    s->count--;
    memmove(&s->fds[i], &s->fds[i + 1], (s->count - i) * sizeof *s->fds);
    memmove(&s->deadlines_us[i], &s->deadlines_us[i + 1], (s->count - i) * sizeof *s->deadlines_us);
    return fd;
}

void strangers_fini(struct strangers *s)
{
    while (s->count > FIRST)
        close(take(s, s->count - 1));
}

static void add(struct strangers *s, int fd)
{
    int one = 1, first = HALAY_HANDSHAKE_FIRST_BYTES;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &first, sizeof first);
    if (s->count == STRANGERS_ROOM)
        close(take(s, FIRST));
    s->fds[s->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
    s->deadlines_us[s->count++] = halay_deadline_us(PATIENCE_MS);
}

static void accept_all(struct strangers *s)
{
    int fd;

    for (int i = 0; i < STRANGERS_ROOM && (fd = accept4(s->fds[0].fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++)
        add(s, fd);
}

/* fd itself, or -1: it was closed. */
static int judge(const struct strangers *s, int fd, unsigned char *purpose)
{
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    if (halay_handshake_answer(fd, s->secret, PATIENCE_MS, purpose) == HALAY_OK)
        return fd;
    close(fd); /* a stranger, or somebody who has only looked whether the port is open */
    return -1;
}

int strangers_next(struct strangers *s, int timeout_ms, unsigned char *purpose)
{
    int left_ms = s->count > FIRST ? halay_deadline_left_ms(s->deadlines_us[FIRST]) : timeout_ms, fd;

    if (poll(s->fds, (nfds_t)s->count, left_ms < timeout_ms ? left_ms : timeout_ms) < 0)
        return -1;
    for (size_t i = FIRST; i < s->count;)
        if (!s->fds[i].revents)
            i++;
        else if ((fd = judge(s, take(s, i), purpose)) >= 0)
            return fd;
    while (s->count > FIRST && halay_deadline_passed(s->deadlines_us[FIRST]))
        close(take(s, FIRST));
    if (s->fds[0].revents)
        accept_all(s);
    return -1;
}

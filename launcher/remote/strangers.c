/* SPDX-License-Identifier: Apache-2.0
 *
 * Strangers: one poll; a stranger is read the moment he is accepted, since most often his hello has come with him, and
 * only then somebody has to go if there are too many.
 *
 * A right hello that is heard for the first time comes from one who holds the secret, and there are few of those: they
 * are not let go for others. Who repeats it, having listened on the network, is let go at once.
 */
#include "launcher/remote/strangers.h"
#include "base/clock.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000, FIRST = STRANGERS_FIRST, ACCEPTS = 64 };

void strangers_init(struct strangers *s, int listener, const unsigned char secret[HALAY_SECRET_BYTES])
{
    memset(s, 0, sizeof *s);
    s->count = FIRST;
    s->secret = secret;
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
    memmove(&s->at[i], &s->at[i + 1], (s->count - i) * sizeof *s->at);
    explicit_bzero(&s->at[s->count], sizeof *s->at);
    return fd;
}

void strangers_fini(struct strangers *s)
{
    while (s->count > FIRST)
        close(take(s, s->count - 1));
}

/* Nonzero if this right hello has been heard before; it is remembered. */
static int is_repeated(struct strangers *s, const struct halay_answer *answer)
{
    const unsigned char *mark = answer->handshake.hello + STORE_HELLO_BYTES - STRANGERS_MARK;
    size_t known = s->heard < STRANGERS_HELLOS ? s->heard : STRANGERS_HELLOS;

    for (size_t i = 0; i < known; i++)
        if (!memcmp(s->hellos[i], mark, STRANGERS_MARK))
            return 1;
    memcpy(s->hellos[s->heard++ % STRANGERS_HELLOS], mark, STRANGERS_MARK);
    return 0;
}

/* Hear what there is: 1 if he is one of us, 0 if more has to come, -1 if he is to be let go. */
static int hear(struct strangers *s, size_t i)
{
    struct halay_answer *answer = &s->at[i].answer;
    int was_known = answer->is_known;

    if (halay_answer_progress(answer, s->fds[i].fd, s->secret) != HALAY_OK ||
        (answer->is_known && !was_known && is_repeated(s, answer)))
        return -1;
    return answer->is_done;
}

/* The oldest who has said nothing right; if all have, the oldest. */
static void let_one_go(struct strangers *s)
{
    size_t i = FIRST;

    while (i < s->count && s->at[i].answer.is_known)
        i++;
    close(take(s, i < s->count ? i : FIRST));
}

static void add(struct strangers *s, int fd)
{
    int one = 1;
    size_t i = s->count++;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->fds[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
    s->at[i] = (struct stranger){ .deadline_us = halay_deadline_us(PATIENCE_MS) };
    if (hear(s, i) < 0)
        close(take(s, i));
    else if (s->count == STRANGERS_ROOM)
        let_one_go(s);
}

static void accept_some(struct strangers *s)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(s->fds[0].fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            add(s, fd);
        else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) && s->count > FIRST)
            let_one_go(s);
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* One who has shown that he holds the secret; 0 if none has. */
static int take_one(struct strangers *s, struct call *call, unsigned char *purpose)
{
    for (size_t i = FIRST; i < s->count;) {
        int heard = s->at[i].answer.is_done ? 1 : s->fds[i].revents ? hear(s, i) : 0;
        if (heard > 0) {
            halay_answer_take(&s->at[i].answer, s->secret, &call->session, purpose);
            call->fd = take(s, i);
            return 1;
        }
        if (heard < 0)
            close(take(s, i));
        else
            i++;
    }
    return 0;
}

int strangers_next(struct strangers *s, int timeout_ms, struct call *call, unsigned char *purpose)
{
    int left_ms = s->count > FIRST ? halay_deadline_left_ms(s->at[FIRST].deadline_us) : timeout_ms;

    if (poll(s->fds, (nfds_t)s->count, left_ms < timeout_ms ? left_ms : timeout_ms) < 0)
        return 0;
    int has_callers = s->fds[0].revents;
    if (take_one(s, call, purpose))
        return 1;
    while (s->count > FIRST && halay_deadline_passed(s->at[FIRST].deadline_us))
        close(take(s, FIRST));
    if (has_callers)
        accept_some(s);
    return has_callers && take_one(s, call, purpose);
}

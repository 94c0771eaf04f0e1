/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending: one poll. A connection is read as soon as it is accepted, since its hello has usually arrived with it; only
 * then is one evicted if there are too many.
 *
 * A right hello that was never received before was made by a holder of the secret. There are few of those, and they are
 * evicted last. A repeated hello was recorded on the network: its sender is dropped at once.
 */
#include "launcher/remote/pending.h"
#include "base/clock.h"
#include "launcher/where/reach.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000, PAUSE_MS = 100, FIRST = PENDING_FIRST, ACCEPTS = 64 };
enum { FD_LISTENER, FD_WATCHED }; /* the first two of fds */

enum pending_result { UNPROVEN, PROVEN, REFUSED };

void pending_init(struct pending *s, int listener, const unsigned char secret[HALAY_SECRET_BYTES])
{
    memset(s, 0, sizeof *s);
    s->count = FIRST;
    s->secret = secret;
    s->fds[FD_LISTENER] = (struct pollfd){ .fd = listener, .events = POLLIN };
    pending_watch(s, -1);
}

void pending_watch(struct pending *s, int fd)
{
    s->fds[FD_WATCHED] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* Returns its descriptor, now the caller's; those after it move up. */
static int pending_remove(struct pending *s, size_t i)
{
    int fd = s->fds[i].fd;

    s->count--;
    memmove(&s->fds[i], &s->fds[i + 1], (s->count - i) * sizeof *s->fds);
    memmove(&s->at[i], &s->at[i + 1], (s->count - i) * sizeof *s->at);
    explicit_bzero(&s->at[s->count], sizeof *s->at);
    return fd;
}

void pending_fini(struct pending *s)
{
    while (s->count > FIRST)
        close(pending_remove(s, s->count - 1));
}

static const unsigned char *mark_of(const struct halay_answer *answer)
{
    return answer->handshake.hello + STORE_HELLO_BYTES - PENDING_MARK;
}

static int is_repeated(const struct pending *s, const struct halay_answer *answer)
{
    size_t known = s->hello_count < PENDING_HELLOS ? s->hello_count : PENDING_HELLOS;

    for (size_t i = 0; i < known; i++)
        if (!memcmp(s->hellos[i], mark_of(answer), PENDING_MARK))
            return 1;
    return 0;
}

/* For the user of a caller with a mistake; scanners make noise enough in logs. */
static void note_refused(struct pending *s, size_t i, enum halay_status status)
{
    static const char mapped[] = "::ffff:"; /* an address of IPv4, on a port of IPv6 */
    char text[HALAY_ADDRESS_TEXT];

    if (status != HALAY_ERR_VERSION && !s->at[i].answer.is_other)
        return;
    if (!reach_peer(s->fds[i].fd, text))
        snprintf(text, sizeof text, "an unknown address");
    s->refused = status;
    snprintf(s->refused_from, sizeof s->refused_from, "%s",
             strncmp(text, mapped, sizeof mapped - 1) ? text : text + sizeof mapped - 1);
}

/* Reads what has arrived on this connection. */
static enum pending_result pending_read(struct pending *s, size_t i)
{
    struct halay_answer *answer = &s->at[i].answer;
    int was_known = answer->is_known;

    if (answer->is_done)
        return PROVEN;
    enum halay_status status = halay_answer_progress(answer, s->fds[i].fd, s->secret);
    if (status != HALAY_OK) {
        note_refused(s, i, status);
        return REFUSED;
    }
    if (answer->is_known && !was_known) {
        if (is_repeated(s, answer))
            return REFUSED;
        memcpy(s->hellos[s->hello_count++ % PENDING_HELLOS], mark_of(answer), PENDING_MARK);
    }
    return answer->is_done ? PROVEN : UNPROVEN;
}

/* Drops the oldest whose hello is not right yet; without one, the oldest. */
static void evict_one(struct pending *s)
{
    size_t i = FIRST;

    while (i < s->count && s->at[i].answer.is_known)
        i++;
    close(pending_remove(s, i < s->count ? i : FIRST));
}

static void pending_add(struct pending *s, int fd)
{
    int one = 1;
    size_t i = s->count++;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->fds[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
    s->at[i] = (struct pending_one){ .deadline_us = halay_deadline_us(PATIENCE_MS) };
    if (pending_read(s, i) == REFUSED)
        close(pending_remove(s, i));
    else if (s->count == PENDING_ROOM)
        evict_one(s);
}

static void pending_accept(struct pending *s)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(s->fds[FD_LISTENER].fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            pending_add(s, fd);
        else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) && s->count > FIRST)
            evict_one(s);
        else if (errno != ECONNABORTED && errno != EINTR) {
            s->is_paused = errno != EAGAIN && errno != EWOULDBLOCK;
            return;
        }
    }
}

/* Returns 0 if no connection has proved the secret. */
static int take_proven(struct pending *s, struct tunnel *tunnel, uint32_t *purpose)
{
    for (size_t i = FIRST; i < s->count;) {
        enum pending_result result = UNPROVEN;
        if (s->at[i].answer.is_done || s->fds[i].revents)
            result = pending_read(s, i);
        if (result == PROVEN) {
            tunnel->session = s->at[i].answer.session;
            *purpose = halay_answer_purpose(&s->at[i].answer);
            tunnel->fd = pending_remove(s, i);
            return 1;
        }
        if (result == REFUSED)
            close(pending_remove(s, i));
        else
            i++;
    }
    return 0;
}

int pending_next(struct pending *s, int timeout_ms, struct tunnel *tunnel, uint32_t *purpose)
{
    int left_ms = s->count > FIRST ? halay_deadline_left_ms(s->at[FIRST].deadline_us) : timeout_ms;

    if (s->is_paused && left_ms > PAUSE_MS)
        left_ms = PAUSE_MS;
    s->fds[FD_LISTENER].events = s->is_paused ? 0 : POLLIN;
    s->is_paused = 0;
    if (poll(s->fds, (nfds_t)s->count, left_ms < timeout_ms ? left_ms : timeout_ms) < 0)
        return 0;
    int has_callers = s->fds[FD_LISTENER].revents;
    if (take_proven(s, tunnel, purpose))
        return 1;
    while (s->count > FIRST && halay_deadline_passed(s->at[FIRST].deadline_us))
        close(pending_remove(s, FIRST));
    if (has_callers)
        pending_accept(s);
    return has_callers && take_proven(s, tunnel, purpose);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: one poll over all lines, none of which waits for another. A line reads only when all that it has read is
 * written, so it holds one record at most.
 */
#include "launcher/remote/relay.h"
#include "launcher/common/say.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct direction {
    const struct relay_line *line; /* borrowed */
    int from, to;                  /* from: -1 once nothing more is read */
    int is_finished;               /* all is written, too */
    enum halay_status status;
    size_t read;         /* bytes in in: of an incoming line, what is no whole record yet */
    size_t first, count; /* of out: what is to be written */
    unsigned char in[HALAY_CIPHER_RECORD_MAX], out[HALAY_CIPHER_RECORD_MAX];
};

static void fail(struct direction *d, enum halay_status status)
{
    d->status = status;
    d->from = -1;
    d->count = 0;
}

/* The agent's exit code behind the zero; it is taken out of the text. */
static void take_code(struct direction *d)
{
    unsigned char *zero = memchr(d->out, 0, d->count);

    if (!zero)
        return;
    if (zero + 1 < d->out + d->count)
        *d->line->code = zero[1];
    d->count = (size_t)(zero - d->out);
}

/* What has been read becomes what is to be written, a record at a time. */
static void translate(struct direction *d)
{
    size_t used = 0;

    d->first = 0;
    if (d->line->is_outgoing) {
        d->count = halay_cipher_seal(d->line->cipher, d->in, d->read, d->from < 0, d->out);
        d->read = 0;
        return;
    }
    enum halay_status status = halay_cipher_open(d->line->cipher, d->in, d->read, &used, d->out, &d->count);
    if (status != HALAY_OK) {
        fail(d, status);
        return;
    }
    memmove(d->in, d->in + used, d->read - used);
    d->read -= used;
    if (halay_cipher_has_ended(d->line->cipher))
        d->from = -1;
    if (d->line->code)
        take_code(d);
}

static void read_some(struct direction *d)
{
    size_t room = d->line->is_outgoing ? HALAY_CIPHER_BYTES_MAX : sizeof d->in;
    ssize_t n = read(d->from, d->in + d->read, room - d->read);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        d->read += (size_t)n;
    else if (d->line->is_outgoing)
        d->from = -1; /* and the last record says so */
    else
        fail(d, HALAY_ERR_PEER);
    if (d->line->is_outgoing || d->from >= 0)
        translate(d);
}

static void write_some(struct direction *d)
{
    while (d->count) {
        ssize_t n = write(d->to, d->out + d->first, d->count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* nobody reads it any more */
            fail(d, HALAY_OK);
            return;
        }
        d->first += (size_t)n;
        d->count -= (size_t)n;
    }
}

/* Once: the other side of the line learns that it has ended. */
static void finish(struct direction *d)
{
    d->is_finished = 1;
    if (d->line->is_outgoing)
        shutdown(d->to, SHUT_WR);
    else
        close(d->to);
}

static void progress(struct direction *d, short revents)
{
    if (d->is_finished)
        return;
    if (revents && !d->count && d->from >= 0)
        read_some(d);
    write_some(d);
    while (!d->count && d->from >= 0 && !d->line->is_outgoing && d->read) { /* more than one record has come at once */
        size_t before = d->read;
        translate(d);
        write_some(d);
        if (d->read == before)
            break;
    }
    if (d->from < 0 && !d->count)
        finish(d);
}

static int must_go_on(const struct direction *all, int *is_open)
{
    int goes_on = 0;

    *is_open = 0;
    for (int i = 0; i < RELAY_LINES; i++) {
        goes_on |= all[i].line->is_leading && !all[i].is_finished;
        *is_open |= all[i].line->is_leading && all[i].from >= 0;
    }
    return goes_on;
}

static enum halay_status turn(struct direction *all, int silence_ms)
{
    struct pollfd fds[RELAY_LINES];
    int is_open;

    while (must_go_on(all, &is_open)) {
        for (int i = 0; i < RELAY_LINES; i++) {
            const struct direction *d = &all[i];
            fds[i] = (struct pollfd){ .fd = d->is_finished ? -1
                                            : d->count     ? d->to
                                                           : d->from,
                                      .events = d->count ? POLLOUT : POLLIN };
        }
        int n = poll(fds, RELAY_LINES, is_open ? -1 : silence_ms);
        if (n < 0 && errno != EINTR)
            return HALAY_ERR_SYSTEM;
        if (n == 0)
            return HALAY_ERR_TIMEOUT;
        for (int i = 0; i < RELAY_LINES; i++) {
            progress(&all[i], n > 0 ? fds[i].revents : 0);
            if (all[i].status != HALAY_OK)
                return all[i].status; /* nor are the other lines to be trusted */
        }
    }
    return HALAY_OK;
}

enum halay_status relay_run(const struct relay_line lines[RELAY_LINES], int silence_ms)
{
    struct direction *all = calloc(RELAY_LINES, sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = HALAY_OK;
    for (int i = 0; i < RELAY_LINES; i++) {
        const struct relay_line *line = &lines[i];
        all[i].line = line;
        all[i].from = line->is_outgoing ? line->stream : line->socket;
        all[i].to = line->is_outgoing ? line->socket : line->stream;
        if (fcntl(line->stream, F_SETFL, O_NONBLOCK) < 0 || fcntl(line->socket, F_SETFL, O_NONBLOCK) < 0)
            status = HALAY_ERR_SYSTEM;
    }
    if (status == HALAY_OK)
        status = turn(all, silence_ms);
    explicit_bzero(all, RELAY_LINES * sizeof *all);
    free(all);
    return status;
}

void relay_say(enum halay_status status)
{
    say("the connection is given up: %s", status == HALAY_ERR_AUTH        ? "what came was changed on its way"
                                          : status == HALAY_ERR_PEER      ? "it ended in the middle"
                                          : status == HALAY_ERR_TIMEOUT   ? "the other end takes nothing any more"
                                          : status == HALAY_ERR_NO_MEMORY ? "no memory"
                                                                          : strerror(errno));
}

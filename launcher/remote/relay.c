/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: one loop over all lines; none waits for another. A line reads only after writing everything it has read, so it
 * holds one record at most.
 */
#include "launcher/remote/relay.h"
#include "base/clock.h"
#include "base/loop.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct direction {
    const struct relay_line *line; /* borrowed */
    int from, to;                  /* from: -1 once nothing more is read */
    int is_finished;               /* and all is written */
    enum halay_status status;
    size_t read;         /* bytes in `in`; of an incoming line, the beginning of a record */
    size_t first, count; /* bytes in `out` still to be written */
    unsigned char in[HALAY_CIPHER_RECORD_MAX], out[HALAY_CIPHER_RECORD_MAX];
};

static void fail_direction(struct direction *d, enum halay_status status)
{
    d->status = status;
    d->from = -1;
    d->count = 0;
}

/* The agent's exit code after the zero byte; both are removed from the text. */
static void take_code(struct direction *d)
{
    unsigned char *zero = memchr(d->out, 0, d->count);

    if (!zero)
        return;
    if (zero + 1 < d->out + d->count)
        *d->line->code = zero[1];
    d->count = (size_t)(zero - d->out);
}

/* Turns what was read into what is to be written, a record at a time. */
static void translate_record(struct direction *d)
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
        fail_direction(d, status);
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
        d->from = -1; /* the last record informs the other end */
    else
        fail_direction(d, HALAY_ERR_PEER);
    if (d->line->is_outgoing || d->from >= 0)
        translate_record(d);
}

static void write_some(struct direction *d)
{
    while (d->count) {
        ssize_t n = write(d->to, d->out + d->first, d->count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* it has no reader any more */
            fail_direction(d, HALAY_OK);
            return;
        }
        d->first += (size_t)n;
        d->count -= (size_t)n;
    }
}

/* Once: tell the other end of the line that it has ended. */
static void end_direction(struct direction *d)
{
    d->is_finished = 1;
    if (d->line->is_outgoing)
        shutdown(d->to, SHUT_WR);
    else
        close(d->to);
}

static void progress_direction(void *context)
{
    struct direction *d = context;

    if (!d->count)
        read_some(d);
    write_some(d);
    while (!d->count && d->from >= 0 && !d->line->is_outgoing && d->read) { /* several records arrived at once */
        size_t before = d->read;
        translate_record(d);
        write_some(d);
        if (d->read == before)
            break;
    }
    if (d->from < 0 && !d->count)
        end_direction(d);
}

/* Returns nonzero if a leading line has more to pass on. */
static int must_continue(const struct direction *all)
{
    for (int i = 0; i < RELAY_LINES; i++)
        if (all[i].line->is_leading && !all[i].is_finished)
            return 1;
    return 0;
}

/* Returns nonzero if a leading line still reads. */
static int is_open(const struct direction *all)
{
    for (int i = 0; i < RELAY_LINES; i++)
        if (all[i].line->is_leading && all[i].from >= 0)
            return 1;
    return 0;
}

static enum halay_status relay_loop(struct direction *all, int silence_ms)
{
    enum halay_status status = HALAY_OK;
    struct halay_loop loop;

    halay_loop_init(&loop);
    while (status == HALAY_OK && must_continue(all)) {
        for (struct direction *d = all; d < all + RELAY_LINES; d++)
            if (!d->is_finished)
                halay_loop_watch(&loop, d->count ? d->to : d->from, d->count ? POLLOUT : POLLIN, progress_direction, d);
        status = halay_loop_turn(&loop, is_open(all) ? HALAY_NEVER : halay_deadline_us(silence_ms));
        for (int i = 0; i < RELAY_LINES && status == HALAY_OK; i++)
            status = all[i].status; /* the other lines are not to be trusted either */
    }
    halay_loop_fini(&loop);
    return status;
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
        status = relay_loop(all, silence_ms);
    explicit_bzero(all, RELAY_LINES * sizeof *all);
    free(all);
    return status;
}

static const char *name_cause(enum halay_status status)
{
    switch (status) {
    case HALAY_ERR_AUTH:
        return "data were altered on their way";
    case HALAY_ERR_PEER:
        return "it ended in the middle";
    case HALAY_ERR_TIMEOUT:
        return "the other end takes no more data";
    case HALAY_ERR_NO_MEMORY:
        return "no memory";
    default:
        return strerror(errno);
    }
}

void relay_report(enum halay_status status)
{
    report("the connection is closed: %s", name_cause(status));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: turns the bytes of many ranks into whole lines of one stream.
 *
 *     rank 0 stdout --> line "[0] ..." --+--> sink stdout --> descriptor 1
 *     rank 1 stdout --> line "[1] ..." --+
 *     rank 0 stderr --> ...            ------> sink stderr --> descriptor 2
 *
 * A line leaves its stream only when it is whole, so that lines never mix. One of LINE_MAX_BYTES is cut, so that memory
 * stays bounded. On a terminal a carriage return also ends a line, so that progress bars move. Descriptors 1 and 2 may
 * be shared with other programs and are therefore not made non-blocking. They are written to when poll says that they
 * take bytes, and never more than a pipe then takes without waiting. When nobody reads a sink any more, its streams are
 * closed: ranks that go on writing get SIGPIPE, as with a plain pipe. When a write fails for another reason, such as a
 * full disk, later output is read and dropped: no job ends because of its log.
 *
 * Cleanup: fini accepts any half-built state that began with zeros.
 */
#include "launcher/local/output.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/say.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20, SINK_BYTES = 1 << 20, READ_BYTES = 1 << 16 };

/* Output is dropped if there is no memory: better than ending the job. */
static void append_or_drop(struct buffer *buffer, const char *bytes, size_t count)
{
    buffer_append(buffer, bytes, count);
}

/* ---- sinks ------------------------------------------------------------------------------------------------------- */

void output_init(struct output *output, int ranks, int no_prefix, int timestamp, int colours)
{
    *output = (struct output){ .ranks = ranks, .no_prefix = no_prefix, .timestamp = timestamp };
    for (int i = 0; i < 2; i++) {
        output->sinks[i].fd = STDOUT_FILENO + i;
        output->sinks[i].is_terminal = isatty(STDOUT_FILENO + i);
        output->sinks[i].has_colours = colours && output->sinks[i].is_terminal;
    }
}

void output_fini(struct output *output)
{
    buffer_fini(&output->sinks[0].pending);
    buffer_fini(&output->sinks[1].pending);
}

int sink_is_full(const struct sink *sink)
{
    return sink->pending.count >= SINK_BYTES;
}

/* Wait up to timeout_ms for each piece; 0: write only what can be written at once. */
static void sink_flush(struct sink *sink, int timeout_ms)
{
    size_t done = 0;

    while (done < sink->pending.count && !sink->is_gone && !sink->lost) {
        struct pollfd fd = { .fd = sink->fd, .events = POLLOUT };
        size_t left = sink->pending.count - done;
        int n = poll(&fd, 1, timeout_ms);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        ssize_t written = write(sink->fd, sink->pending.bytes + done, left < PIPE_BUF ? left : PIPE_BUF);
        if (written >= 0)
            done += (size_t)written;
        else if (errno == EAGAIN && timeout_ms == 0)
            break;
        else if (errno == EPIPE)
            sink->is_gone = 1;
        else if (errno != EINTR && errno != EAGAIN)
            sink->lost = errno;
    }
    if (sink->is_gone || sink->lost)
        done = sink->pending.count;
    if (done)
        buffer_remove_front(&sink->pending, done);
}

static void flush_all(struct output *output, int timeout_ms)
{
    int was_lost = output->sinks[0].lost;

    sink_flush(&output->sinks[0], timeout_ms);
    if (output->sinks[0].lost && !was_lost)
        output_say(output, "cannot write standard output: %s; it ends here, the job goes on",
                   strerror(output->sinks[0].lost));
    sink_flush(&output->sinks[1], timeout_ms);
}

void output_flush(struct output *output)
{
    flush_all(output, 0);
}

void output_finish(struct output *output)
{
    flush_all(output, -1);
}

int output_is_lost(const struct output *output)
{
    return output->sinks[0].lost || output->sinks[1].lost;
}

void output_say(struct output *output, const char *format, ...)
{
    char line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    struct buffer *to = &output->sinks[1].pending;
    append_or_drop(to, "halayrun: ", 10);
    append_or_drop(to, line, strlen(line));
    append_or_drop(to, "\n", 1);
    if (output->copy_fd)
        dprintf(output->copy_fd, "%s\n", line); /* a memfd: what does not fit is missing there */
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* "2026-03-01T12:00:00.123 ", local time. */
static size_t write_time(char *text, size_t size)
{
    struct timespec now;
    struct tm local;

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t n = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &local);
    return n + (size_t)snprintf(text + n, size - n, ".%03ld ", now.tv_nsec / 1000000);
}

static int count_digits(int number)
{
    int n = 1;

    while (number /= 10)
        n++;
    return n;
}

/* "[1] " on standard output, "[1]! " on standard error: they can be told apart when both go to one place. */
static void write_prefix(struct stream *stream)
{
    static const int colours[] = { 36, 32, 33, 35, 34, 31 };
    struct sink *sink = stream->sink;
    int is_error = sink == &stream->output->sinks[1];
    char text[64];

    if (stream->output->timestamp)
        append_or_drop(&sink->pending, text, write_time(text, sizeof text));
    if (stream->output->no_prefix)
        return;
    int width = count_digits(stream->output->ranks - 1), colour = colours[stream->rank % 6];
    const char *mark = is_error ? "!" : "";
    int n;

    if (sink->has_colours)
        n = snprintf(text, sizeof text, "\033[%dm[%*d]%s\033[0m ", colour, width, stream->rank, mark);
    else
        n = snprintf(text, sizeof text, "[%*d]%s ", width, stream->rank, mark);
    append_or_drop(&sink->pending, text, (size_t)n);
}

static void write_file(struct stream *stream, const char *bytes, size_t count, int at_line_start)
{
    char text[64];

    if (!stream->file)
        return;
    if (at_line_start && stream->output->timestamp)
        fwrite(text, 1, write_time(text, sizeof text), stream->file);
    fwrite(bytes, 1, count, stream->file);
    if (ferror(stream->file) || fflush(stream->file) == EOF) {
        output_say(stream->output, "cannot write '%s': %s; the file ends here, the job goes on", stream->path,
                   strerror(errno));
        fclose(stream->file);
        stream->file = NULL;
    }
}

static void keep_tail(struct stream *stream, const char *bytes, size_t count)
{
    if (!stream->tail)
        return;
    for (size_t i = count > TAIL_BYTES ? count - TAIL_BYTES : 0; i < count; i++)
        stream->tail[stream->tail_count++ % TAIL_BYTES] = bytes[i];
}

/* bytes end with a newline, or without one: a line that was cut, or the end of the stream. On a terminal they may end
 * with a carriage return: what follows is written over them, as the rank intends. */
static void emit_line(struct stream *stream, const char *bytes, size_t count)
{
    char last = count ? bytes[count - 1] : 0;
    int is_whole = last == '\n' || (last == '\r' && stream->sink->is_terminal);

    if (stream->has_returned && count == 1 && last == '\n') { /* it comes late, but belongs to the same line */
        stream->has_returned = 0;
        write_file(stream, bytes, count, 0);
        if (!stream->is_hidden)
            append_or_drop(&stream->sink->pending, bytes, count);
        return;
    }
    stream->has_returned = last == '\r' && stream->sink->is_terminal;

    write_file(stream, bytes, count, 1);
    if (stream->is_hidden || stream->sink->is_gone || stream->sink->lost)
        return;
    write_prefix(stream);
    append_or_drop(&stream->sink->pending, bytes, count);
    if (!is_whole && !stream->output->no_prefix)
        append_or_drop(&stream->sink->pending, "\n", 1);
}

/* The first byte after the line's end; NULL: the end has not come yet. */
static const char *find_end(const struct stream *stream, const char *bytes, size_t count)
{
    const char *newline = memchr(bytes, '\n', count);
    size_t length = newline ? (size_t)(newline - bytes) : count;
    const char *back = stream->sink->is_terminal ? memchr(bytes, '\r', length) : NULL;

    if (back && back + 1 != newline)
        return back + 1;
    return newline ? newline + 1 : NULL;
}

void stream_feed(struct stream *stream, const char *bytes, size_t count)
{
    keep_tail(stream, bytes, count);
    while (count) {
        const char *end = find_end(stream, bytes, count);
        size_t piece = end ? (size_t)(end - bytes) : count;
        if (end && !stream->line.count) {
            emit_line(stream, bytes, piece);
        } else {
            append_or_drop(&stream->line, bytes, piece);
            if (end || stream->line.count >= LINE_MAX_BYTES) {
                emit_line(stream, stream->line.bytes, stream->line.count);
                stream->line.count = 0;
            }
        }
        bytes += piece;
        count -= piece;
    }
}

int stream_is_read(const struct stream *stream)
{
    return !stream->sink->is_gone || stream->file;
}

void stream_end_line(struct stream *stream)
{
    if (stream->line.count)
        emit_line(stream, stream->line.bytes, stream->line.count);
    stream->line.count = 0;
}

static void end_stream(struct stream *stream)
{
    stream_end_line(stream);
    close(stream->fd);
    stream->fd = -1;
}

void stream_read(struct stream *stream)
{
    char bytes[READ_BYTES];

    while (stream->fd >= 0 && !sink_is_full(stream->sink)) {
        if (!stream_is_read(stream)) {
            end_stream(stream);
            return;
        }
        ssize_t n = read(stream->fd, bytes, sizeof bytes);
        if (n > 0)
            stream_feed(stream, bytes, (size_t)n);
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            end_stream(stream);
        else if (errno == EAGAIN)
            return;
    }
}

int stream_init(struct stream *stream, struct output *output, int rank, int which, int fd, const char *path,
                int appends)
{
    *stream = (struct stream){ .output = output, .sink = &output->sinks[which], .rank = rank, .fd = fd };
    stream->is_hidden = output->shown && !rank_list_has(output->shown, rank);
    if (fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        say("cannot prepare the output of rank %d: %s", rank, strerror(errno));
        return 0;
    }
    if (which == 1 && !(stream->tail = malloc(TAIL_BYTES))) {
        say_no_memory();
        return 0;
    }
    if (path && !(stream->path = strdup(path))) {
        say_no_memory();
        return 0;
    }
    if (path && !(stream->file = fopen(path, appends ? "ae" : "we"))) {
        say("cannot create '%s': %s", path, strerror(errno));
        return 0;
    }
    return 1;
}

void stream_fini(struct stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->file)
        fclose(stream->file);
    buffer_fini(&stream->line);
    free(stream->tail);
    free(stream->path);
    *stream = (struct stream){ .fd = -1 };
}

void stream_say_tail(struct stream *stream)
{
    char text[TAIL_BYTES + 1];
    size_t count = stream->tail_count < TAIL_BYTES ? stream->tail_count : TAIL_BYTES;
    int lines = 0;

    if (!stream->tail || !count)
        return;
    for (size_t i = 0; i < count; i++)
        text[i] = stream->tail[(stream->tail_count - count + i) % TAIL_BYTES];
    if (text[count - 1] == '\n')
        count--;
    text[count] = 0;
    char *start = text + count;
    while (start > text && lines < TAIL_LINES)
        if (*--start == '\n')
            lines++;
    if (start > text || *start == '\n')
        start++;
    for (char *line = start; line <= text + count;) {
        size_t length = strcspn(line, "\n");
        output_say(stream->output, "  | %.*s", (int)length, line);
        line += length + 1;
    }
}

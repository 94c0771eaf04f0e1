/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: turns the bytes of many ranks into whole lines of one stream.
 *
 *     rank 0 stdout --> line "[0] ..." --+--> sink stdout --> descriptor 1
 *     rank 1 stdout --> line "[1] ..." --+
 *     rank 0 stderr --> ...            ------> sink stderr --> descriptor 2
 *
 * A line leaves its stream when it is whole, so that lines do not mix. A part of one is passed on when nothing more has
 * arrived for QUIET_MS, when it has waited for PART_MS, or has grown to LINE_MAX_BYTES: the line stays open in its
 * sink, and the stream continues it there unless another line, written in between, has ended it. The first bytes of a
 * UTF-8 character wait for the rest for CHARACTER_MS: in another encoding they are whole characters.
 *
 * On a terminal a carriage return also ends a line, so that progress bars move. A line in between erases the
 * bar, which the rank draws again with its next update. A line typed there ends the open line, by the terminal's echo.
 * If standard output and error are one file, they share a sink, which keeps their order.
 *
 * Each sink has a writer's thread (writer.h), and all files share one: a reader or a disk that takes nothing holds up
 * neither the other sink nor the loop. Their room is bounded: when it is used up, ranks are not read and wait in their
 * own writes. When a sink has no reader left, its streams are closed: ranks that write more get SIGPIPE, as with a
 * plain pipe. When a write fails for another reason, such as a full disk, later output is read and dropped: no job
 * ends because of its log.
 *
 * Cleanup: fini accepts any half-built state that began with zeros.
 */
#include "launcher/local/output.h"
#include "base/clock.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1 << 20, SINK_BYTES = 1 << 20, FILES_BYTES = 1 << 23, FILES_MS = 60000 };
enum { TURN_READS = 4 }; /* of one stream: a rank that writes without pause must not hold up the others */
enum { QUIET_MS = 100, PART_MS = 1000, CHARACTER_MS = 3000 };

/* Without memory, output is dropped: a job does not end because of that. */
static void append_or_drop(struct buffer *buffer, const char *bytes, size_t count)
{
    buffer_append(buffer, bytes, count);
}

/* Returns the number of bytes to pass on without cutting a UTF-8 character: all, unless they end with the beginning
 * of one. Other encodings pass through. */
static size_t count_uncut(const char *bytes, size_t count)
{
    size_t back = 1;

    while (back < 4 && back < count && (bytes[count - back] & 0xC0) == 0x80)
        back++;
    unsigned char lead = count ? (unsigned char)bytes[count - back] : 0;
    size_t length = lead >= 0xF8 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    return length > back ? count - back : count;
}

/* ---- sinks ------------------------------------------------------------------------------------------------------- */

static int is_one_file(int a, int b)
{
    struct stat files[2];

    return fstat(a, &files[0]) == 0 && fstat(b, &files[1]) == 0 && files[0].st_dev == files[1].st_dev &&
           files[0].st_ino == files[1].st_ino;
}

static int sink_init(struct sink *sink, int fd, int wake_fd)
{
    sink->fd = fd;
    sink->writer = writer_create(SINK_BYTES, wake_fd);
    if (sink->writer)
        sink->outlet = writer_open(sink->writer, fd, 0, fd == STDOUT_FILENO ? "standard output" : "standard error");
    return sink->outlet != NULL;
}

int output_init(struct output *output, int ranks, int no_prefix, int timestamp, const char *terminal, int colours)
{
    const int is_capable = terminal && strcmp(terminal, "dumb") != 0;
    int ok = 1;

    *output = (struct output){ .ranks = ranks, .no_prefix = no_prefix, .timestamp = timestamp, .due_us = HALAY_NEVER };
    output->is_one = is_one_file(STDOUT_FILENO, STDERR_FILENO);
    output->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (output->wake_fd < 0) {
        report("cannot create an eventfd: %s", strerror(errno));
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        sink->is_terminal = isatty(STDOUT_FILENO + i);
        sink->erases = is_capable && sink->is_terminal;
        sink->has_colours = colours && sink->erases;
        ok = ok && ((i && output->is_one) || sink_init(sink, STDOUT_FILENO + i, output->wake_fd));
    }
    return ok;
}

void output_fini(struct output *output)
{
    for (int i = 0; i < 2; i++) {
        writer_destroy(output->sinks[i].writer);
        buffer_fini(&output->sinks[i].pending);
    }
    writer_destroy(output->files);
    if (output->wake_fd > 0)
        close(output->wake_fd);
}

static int sink_is_full(const struct sink *sink)
{
    return sink->pending.count >= SINK_BYTES || (sink->writer && writer_is_full(sink->writer));
}

int output_is_full(const struct output *output)
{
    return sink_is_full(&output->sinks[0]) || sink_is_full(&output->sinks[1]) ||
           (output->files && writer_is_full(output->files));
}

static struct sink *output_sink(struct output *output, int which)
{
    return &output->sinks[output->is_one ? 0 : which];
}

static void sink_report(struct output *output, struct sink *sink)
{
    struct writer_failure failure;

    if (!sink->writer || !writer_take_failure(sink->writer, &failure))
        return;
    if (failure.error == EPIPE)
        sink->is_gone = 1;
    else
        sink->lost = failure.error;
    if (sink->lost)
        output_report(output, "cannot write %s: %s; it ends here, the job continues", failure.name,
                      strerror(sink->lost));
}

static void files_report(struct output *output)
{
    struct writer_failure failure;

    while (output->files && writer_take_failure(output->files, &failure))
        if (failure.error)
            output_report(output, "cannot write '%s': %s; the file ends here, the job continues", failure.name,
                          strerror(failure.error));
        else
            output_report(output, "cannot write '%s': it has taken nothing for %d s; its end is missing", failure.name,
                          FILES_MS / 1000);
}

static void sink_flush(struct sink *sink)
{
    if (sink->outlet)
        outlet_put(sink->outlet, sink->pending.bytes, sink->pending.count);
    sink->pending.count = 0;
}

void output_flush(struct output *output)
{
    files_report(output);
    for (int i = 0; i < 2; i++)
        sink_report(output, &output->sinks[i]);
    for (int i = 0; i < 2; i++)
        sink_flush(&output->sinks[i]);
}

void output_awake(struct output *output)
{
    eventfd_t count;

    if (eventfd_read(output->wake_fd, &count) < 0)
        return; /* woken before */
    output_flush(output);
}

void output_finish(struct output *output)
{
    if (output->files)
        writer_finish(output->files, FILES_MS);
    for (int i = 0; i < 2; i++) { /* then what the first has to report */
        output_flush(output);
        for (int k = 0; k < 2; k++)
            if (output->sinks[k].writer)
                writer_finish(output->sinks[k].writer, -1);
    }
}

int output_is_lost(const struct output *output)
{
    return output->sinks[0].lost || output->sinks[1].lost;
}

/* Another line begins: one that is open there ends, and a progress bar is erased. next: the stream that writes it;
 * NULL: it is halayrun's own. Without prefixes, a rank's two streams continue each other as if they were written to one
 * file. */
static void end_open_line(struct sink *sink, const struct stream *next)
{
    static const char erase[] = "\r\033[K";
    const struct stream *before = sink->open ? sink->open : sink->bar;

    if (!before || before == next)
        return;
    if (!next || !next->output->no_prefix || next->rank != before->rank) {
        if (sink->bar && sink->erases)
            append_or_drop(&sink->pending, erase, sizeof erase - 1);
        else
            append_or_drop(&sink->pending, "\n", 1);
    }
    sink->open = sink->bar = NULL;
}

/* A line was typed on the terminal: its echo has ended what was open there. */
static void take_echo(struct output *output)
{
    const unsigned typed = output->typed ? atomic_load(output->typed) : 0; /* pairs with the supervisor's count */

    if (typed == output->typed_seen)
        return;
    output->typed_seen = typed;
    for (int i = 0; i < 2; i++) {
        struct sink *sink = &output->sinks[i];
        if (!sink->is_terminal)
            continue;
        if (sink->open)
            sink->open->is_answered = 1;
        sink->open = sink->bar = NULL;
    }
}

void output_report(struct output *output, const char *format, ...)
{
    struct sink *sink = output_sink(output, 1);
    struct buffer *to = &sink->pending;
    char line[2048];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length >= (int)sizeof line)
        line[count_uncut(line, sizeof line - 1)] = 0;
    end_open_line(sink, NULL);
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

/* "[1] " on standard output, "[1]! " on standard error: they differ, since both may go to one place. */
static void write_prefix(struct stream *stream)
{
    static const int colours[] = { 36, 32, 33, 35, 34, 31 };
    struct sink *sink = stream->sink;
    char text[64];

    if (stream->output->timestamp)
        append_or_drop(&sink->pending, text, write_time(text, sizeof text));
    if (stream->output->no_prefix)
        return;
    int width = count_digits(stream->output->ranks - 1), colour = colours[stream->rank % 6];
    const char *mark = stream->is_error ? "!" : "";
    int n;

    if (sink->has_colours)
        n = snprintf(text, sizeof text, "\033[%dm[%*d]%s\033[0m ", colour, width, stream->rank, mark);
    else
        n = snprintf(text, sizeof text, "[%*d]%s ", width, stream->rank, mark);
    append_or_drop(&sink->pending, text, (size_t)n);
}

static int is_copied(const struct stream *stream)
{
    return stream->file && !outlet_has_failed(stream->file);
}

static void write_file(struct stream *stream, const char *bytes, size_t count, int at_line_start)
{
    char text[64];

    if (!is_copied(stream))
        return;
    if (at_line_start && stream->output->timestamp)
        append_or_drop(&stream->copy, text, write_time(text, sizeof text));
    append_or_drop(&stream->copy, bytes, count);
}

static void flush_file(struct stream *stream)
{
    if (stream->file)
        outlet_put(stream->file, stream->copy.bytes, stream->copy.count);
    stream->copy.count = 0;
}

static void keep_tail(struct stream *stream, const char *bytes, size_t count)
{
    if (!stream->tail)
        return;
    const size_t skipped = count > TAIL_BYTES ? count - TAIL_BYTES : 0;
    stream->tail_count += skipped;
    for (size_t i = skipped; i < count; i++)
        stream->tail[stream->tail_count++ % TAIL_BYTES] = bytes[i];
}

/* returns: with a carriage return, on a terminal. */
static void write_sink(struct stream *stream, const char *bytes, size_t count, int ends, int returns)
{
    struct sink *sink = stream->sink;

    if (stream->is_hidden || sink->is_gone || sink->lost)
        return;
    take_echo(stream->output);
    const int continues = sink->open == stream, follows_bar = stream->has_returned && sink->bar == stream,
              is_interrupted = (stream->has_begun && !stream->is_answered) || stream->has_returned;
    if (is_interrupted && !continues && !follows_bar && count == 1 && ends && !stream->output->no_prefix)
        return; /* the interrupted line has its end */
    end_open_line(sink, stream);
    if (!continues && !follows_bar)
        write_prefix(stream);
    append_or_drop(&sink->pending, bytes, count);
    sink->open = ends ? NULL : stream;
    sink->bar = returns || (!ends && stream->is_bar) ? stream : NULL;
    stream->is_answered = 0;
}

/* A line, or a part of one without its end. A line of a terminal may end with a carriage return: what follows is
 * written over it, as the rank intends; and if a newline follows alone, it belongs to that line. */
static void stream_emit(struct stream *stream, const char *bytes, size_t count)
{
    char last = bytes[count - 1];
    int returns = last == '\r' && stream->sink->is_terminal, ends = last == '\n' || returns;

    if (!stream->has_begun)
        stream->is_bar = stream->has_returned;
    if (count > 1 || last != '\n')
        stream->has_returned = 0;
    write_file(stream, bytes, count, !stream->has_begun && !stream->has_returned);
    write_sink(stream, bytes, count, ends, returns);
    stream->has_returned = returns;
    stream->has_begun = !ends;
}

/* It is passed on when it has waited. */
static void note_due(struct stream *stream)
{
    if (stream->part_us && stream->part_us < stream->output->due_us)
        stream->output->due_us = stream->part_us;
}

/* More of a line's beginning has come. */
static void await_end(struct stream *stream)
{
    const int is_cut = stream->line.count && !count_uncut(stream->line.bytes, stream->line.count);

    if (!stream->latest_us)
        stream->latest_us = halay_deadline_us(PART_MS);
    stream->part_us = halay_deadline_us(is_cut ? CHARACTER_MS : QUIET_MS);
    if (!is_cut && stream->latest_us < stream->part_us)
        stream->part_us = stream->latest_us;
    note_due(stream);
}

/* Passes on the part of a line, without an incomplete character at its end unless there is nothing else. */
static void emit_part(struct stream *stream)
{
    const size_t uncut = count_uncut(stream->line.bytes, stream->line.count),
                 count = uncut ? uncut : stream->line.count;

    stream->part_us = stream->latest_us = 0;
    if (!count)
        return;
    stream_emit(stream, stream->line.bytes, count);
    buffer_remove_front(&stream->line, count);
    if (stream->line.count)
        await_end(stream);
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

static void emit_line(struct stream *stream)
{
    if (stream->line.count)
        stream_emit(stream, stream->line.bytes, stream->line.count);
    stream->line.count = 0;
    stream->part_us = stream->latest_us = 0;
}

void stream_feed(struct stream *stream, const char *bytes, size_t count)
{
    keep_tail(stream, bytes, count);
    while (count) {
        const char *end = find_end(stream, bytes, count);
        size_t piece = end ? (size_t)(end - bytes) : count;
        if (end && !stream->line.count) {
            stream_emit(stream, bytes, piece);
        } else {
            append_or_drop(&stream->line, bytes, piece);
            if (end)
                emit_line(stream);
            else if (stream->line.count >= LINE_MAX_BYTES)
                emit_part(stream);
            else
                await_end(stream);
        }
        bytes += piece;
        count -= piece;
    }
    flush_file(stream);
}

void stream_show_part(struct stream *stream)
{
    if (!stream->part_us)
        return;
    if (halay_deadline_passed(stream->part_us))
        emit_part(stream);
    else
        note_due(stream);
    flush_file(stream);
}

int stream_is_read(const struct stream *stream)
{
    return !stream->sink->is_gone || is_copied(stream);
}

int stream_is_held(const struct stream *stream)
{
    return sink_is_full(stream->sink) || (is_copied(stream) && writer_is_full(stream->output->files));
}

void stream_end_line(struct stream *stream)
{
    emit_line(stream);
    flush_file(stream);
    stream->has_begun = stream->is_answered = 0;
    if (stream->sink && stream->sink->open == stream && !stream->output->no_prefix) {
        append_or_drop(&stream->sink->pending, "\n", 1);
        stream->sink->open = NULL;
    }
}

static void end_stream(struct stream *stream)
{
    stream_end_line(stream);
    close(stream->fd);
    stream->fd = -1;
}

int stream_read(struct stream *stream)
{
    char bytes[STREAM_READ_BYTES];

    for (int i = 0; stream->fd >= 0 && i < TURN_READS && !stream_is_held(stream); i++) {
        if (!stream_is_read(stream)) {
            end_stream(stream);
            return 0;
        }
        ssize_t n = read(stream->fd, bytes, sizeof bytes);
        if (n > 0)
            stream_feed(stream, bytes, (size_t)n);
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            end_stream(stream);
        else if (errno == EAGAIN)
            return 0;
    }
    return stream->fd >= 0;
}

/* 0 if that fails (reported). */
static int open_file(struct stream *stream, const char *path, int appends)
{
    struct output *output = stream->output;

    if (!output->files)
        output->files = writer_create(FILES_BYTES, output->wake_fd);
    if (!output->files)
        return 0;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (appends ? O_APPEND : O_TRUNC), 0666);
    if (fd < 0) {
        report("cannot create '%s': %s", path, strerror(errno));
        return 0;
    }
    stream->file = writer_open(output->files, fd, 1, path);
    if (!stream->file)
        close(fd);
    return stream->file != NULL;
}

int stream_init(struct stream *stream, struct output *output, int rank, int which, int fd, const char *path,
                int appends)
{
    *stream = (struct stream){ .output = output, .sink = output_sink(output, which), .rank = rank, .fd = fd };
    stream->is_error = which == 1;
    stream->is_hidden = output->shown && !rank_list_has(output->shown, rank);
    if (fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
        report("cannot prepare the output of rank %d: %s", rank, strerror(errno));
        return 0;
    }
    if (which == 1 && !(stream->tail = malloc(TAIL_BYTES))) {
        report_no_memory();
        return 0;
    }
    return !path || open_file(stream, path, appends);
}

void stream_close_file(struct stream *stream)
{
    if (!stream->file)
        return;
    flush_file(stream);
    outlet_close(stream->file);
    stream->file = NULL;
}

void stream_fini(struct stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream_close_file(stream);
    if (stream->sink && stream->sink->open == stream)
        stream->sink->open = NULL;
    if (stream->sink && stream->sink->bar == stream)
        stream->sink->bar = NULL;
    buffer_fini(&stream->line);
    buffer_fini(&stream->copy);
    free(stream->tail);
    *stream = (struct stream){ .fd = -1 };
}

void stream_report_tail(struct stream *stream)
{
    char bytes[TAIL_BYTES + 1], *text = bytes;
    size_t count = stream->tail_count < TAIL_BYTES ? stream->tail_count : TAIL_BYTES;
    int lines = 0;

    if (!stream->tail || !count)
        return;
    for (size_t i = 0; i < count; i++)
        text[i] = stream->tail[(stream->tail_count - count + i) % TAIL_BYTES];
    while (stream->tail_count > TAIL_BYTES && count > 1 && (*text & 0xC0) == 0x80) { /* the rest of a character */
        text++;
        count--;
    }
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
        output_report(stream->output, "  | %.*s", (int)length, line);
        line += length + 1;
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: the ranks' lines on halayrun's own standard output and error, and in files.
 *
 * Two sinks (standard output, standard error) with a bounded buffer each; a stream for each rank and sink, which
 * gathers bytes until a line is whole. Nothing here blocks: the owner polls the descriptors and calls read and flush.
 */
#ifndef HALAY_LAUNCHER_OUTPUT_H
#define HALAY_LAUNCHER_OUTPUT_H

#include "launcher/common/buffer.h"
#include <stddef.h>
#include <stdio.h>

struct sink {
    int fd;      /* borrowed: 1 or 2 */
    int is_gone; /* nobody reads it any more */
    int lost;    /* why it cannot be written any more, errno; 0: it can */
    int is_terminal, has_colours;
    struct buffer pending; /* whole lines that are still to be written */
};

struct output {
    int ranks;
    int no_prefix, timestamp;
    struct sink sinks[2]; /* standard output, standard error */
    int witness;          /* lines of halayrun's own are written there too; 0: nowhere */
};

struct stream {
    struct output *output; /* borrowed */
    struct sink *sink;     /* borrowed */
    int rank;
    int fd;             /* owned: what the rank writes to, read end; -1 once it has ended */
    FILE *file;         /* owned; NULL if there is none */
    char *path;         /* owned: its name */
    struct buffer line; /* what has come of a line that is not whole */
    int has_returned;   /* the last that was passed on ended with a carriage return */
    char *tail;         /* owned: the newest bytes, TAIL_BYTES at most, a ring; NULL if not kept */
    size_t tail_count;  /* bytes ever written to it */
};

enum { TAIL_BYTES = 4096, TAIL_LINES = 10 };

/* colours: on sinks that are terminals. */
void output_init(struct output *output, int ranks, int no_prefix, int timestamp, int colours);
void output_fini(struct output *output);
/* Writes what can be written without waiting. */
void output_flush(struct output *output);
/* Writes everything, waiting for the readers for as long as it takes. */
void output_finish(struct output *output);
int output_is_lost(
    const struct output *output); /* something could not be written, for another reason than that nobody reads it */
int sink_is_full(const struct sink *sink); /* read no more streams into it until it is flushed */

/* A line of halayrun's own, in order with the ranks' lines on standard error. */
void output_say(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* which: 0 standard output, 1 standard error (whose tail is kept). Takes the descriptor, which is made non-blocking;
 * -1: bytes are fed; path may be NULL; appends: what the file has stays. 0 if the file cannot be created or there is no
 * memory: said on standard error; fini it all the same. */
int stream_init(struct stream *stream, struct output *output, int rank, int which, int fd, const char *path,
                int appends);
/* For a stream without a descriptor (fd -1): bytes that came by another way, and the end of what has been written so
 * far, so that what is left of a line becomes one. */
void stream_feed(struct stream *stream, const char *bytes, size_t count);
void stream_end_line(struct stream *stream);
int stream_is_read(const struct stream *stream); /* by its sink's reader, or a file */
/* Reads what is there; at the end of the stream what is left of a line becomes one, and fd becomes -1. */
void stream_read(struct stream *stream);
void stream_fini(struct stream *stream);
/* Says the last lines of a stream whose tail is kept, indented; the number of lines. */
int stream_say_tail(struct stream *stream);

#endif

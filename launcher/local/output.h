/* SPDX-License-Identifier: Apache-2.0
 *
 * Output: the ranks' lines on halayrun's own standard output and error, and in files.
 *
 * Two sinks (standard output, standard error) with a bounded buffer each; a stream for each rank and sink, which
 * collects bytes until a line is whole or no more of it arrives. Threads write to the sinks and files (writer.h), so
 * nothing here blocks: the owner polls the descriptors, then reads and flushes.
 */
#ifndef HALAY_LAUNCHER_OUTPUT_H
#define HALAY_LAUNCHER_OUTPUT_H

#include "launcher/common/buffer.h"
#include "launcher/local/writer.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sink {
    int fd;      /* borrowed: 1 or 2 */
    int is_gone; /* it has no reader any more */
    int lost;    /* errno of the write that failed; 0: none has */
    int is_terminal, has_colours;
    int erases;            /* a terminal that can erase a line */
    struct writer *writer; /* owned; NULL: not used */
    struct outlet *outlet; /* borrowed from writer */
    struct buffer pending; /* still to be given to the writer */
    struct stream *open;   /* borrowed: whose line it ends with, if that has no end yet; NULL: none */
    struct stream *bar;    /* borrowed: whose progress bar is in the terminal's current line; NULL: none */
};

struct output {
    int ranks;
    int no_prefix, timestamp;
    const char *shown;        /* borrowed: ranks whose lines are shown, rank_list.h; NULL: all */
    struct sink sinks[2];     /* standard output, standard error */
    int is_one;               /* they are the same file: all lines go to the first */
    int64_t due_us;           /* when stream_show_part must be called for all streams; HALAY_NEVER */
    const atomic_uint *typed; /* shared with the supervisor: lines typed on the terminal so far; NULL: not counted */
    unsigned typed_seen;
    int copy_fd;          /* halayrun's own lines are also written there; 0: nowhere */
    struct writer *files; /* owned: of the streams' files; NULL: none yet */
    int wake_fd;          /* owned: readable when a writer has room again, or has failed; below 1: none */
};

struct stream {
    struct output *output; /* borrowed */
    struct sink *sink;     /* borrowed */
    int rank;
    int fd;              /* owned: read end of what the rank writes to; -1 once it has ended */
    struct outlet *file; /* owned until outlet_close; NULL: no file */
    struct buffer copy;  /* still to be given to it */
    struct buffer line;  /* what has not been passed on of a line whose end has not come yet */
    int64_t part_us;     /* when it is passed on; 0: nothing waits */
    int64_t latest_us;   /* when it is passed on even if more arrives all the time; 0: nothing waits */
    int has_begun;       /* a part of that line was passed on */
    int is_bar;          /* that line follows a carriage return */
    int is_answered;     /* a line was typed after that part: the terminal has ended it */
    int is_error;        /* standard error */
    int is_hidden;       /* its lines go to the file only */
    int has_returned;    /* the newest line passed on ended with a carriage return */
    char *tail;          /* owned: a ring of the newest TAIL_BYTES bytes; NULL if not kept */
    size_t tail_count;   /* bytes ever written to it */
};

enum { TAIL_BYTES = 4096, TAIL_LINES = 10 };

/* terminal: the value of TERM; NULL: none. colours: allowed on sinks that are terminals. */
/* 0 if that fails (reported); call output_fini all the same. */
int output_init(struct output *output, int ranks, int no_prefix, int timestamp, const char *terminal, int colours);
void output_fini(struct output *output);
/* Gives all to the writers, and reports what could not be written. */
void output_flush(struct output *output);
/* wake_fd is readable. */
void output_awake(struct output *output);
/* Writes everything, however long the readers of standard output and error take. A file that takes nothing for a minute
 * is given up, and reported. */
void output_finish(struct output *output);
int output_is_lost(const struct output *output); /* a write failed, but not for want of a reader */
int output_is_full(const struct output *output); /* a sink is, or the files are: read nothing more for them */

/* A line of halayrun's own, in order with the ranks' lines on standard error. */
void output_report(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* which: 0 standard output, 1 standard error (whose tail is kept). Takes fd and makes it non-blocking; -1: bytes are
 * fed. path: a copy goes there; may be NULL. appends: keep what the file has. 0 without memory or if the file cannot
 * be created (reported); call stream_fini all the same. */
int stream_init(struct stream *stream, struct output *output, int rank, int which, int fd, const char *path,
                int appends);
/* For a stream without a descriptor (fd -1): feeds it bytes that arrived another way, and ends the last line. */
void stream_feed(struct stream *stream, const char *bytes, size_t count);
void stream_end_line(struct stream *stream);
int stream_is_read(const struct stream *stream); /* its sink's reader is there, or it has a file */
int stream_is_held(const struct stream *stream); /* until its sink or file has room */
/* Reads what is there, a bounded amount: once at least, for STREAM_READ_BYTES, if it is not held. Nonzero: there may be
 * more. At its end, the stream's last line is completed and fd becomes -1. */
enum { STREAM_READ_BYTES = 1 << 16 };
int stream_read(struct stream *stream);
void stream_show_part(struct stream *stream); /* passes the beginning of a line on if it has waited long enough */
void stream_close_file(struct stream *stream);
void stream_fini(struct stream *stream);
/* Prints the last lines of a stream whose tail is kept, indented. */
void stream_report_tail(struct stream *stream);

#endif

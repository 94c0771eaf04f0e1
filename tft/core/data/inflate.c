/* SPDX-License-Identifier: Apache-2.0
 *
 * Inflate: blocks circulate between the thread, which fills them, and the reader, which empties them. The waiting side
 * wakes when half of them are ready, so that on a busy machine the two do not wait for the scheduler at each block.
 *
 * A compressed file is one gzip member or several (RFC 1952 2.2), with zeros after the last, as tapes and some tools
 * pad them. zlib's own reader of files takes anything else after a member as the end, so that a damaged second member
 * would be lost silently; here it is an error. The reader reads the first block; a thread is started only if the file
 * continues. From its start until it sets `ended`, only the thread touches the file. Cleanup: the object is zeroed
 * first and close accepts it partly initialised.
 */
#include "base/memory.h"
#include "tft/core/data/csv.h"
#include "tft/core/kernels/thread.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCKS = 8, ENOUGH = 4 };

struct tft_inflate {
    struct halay_log *log; /* borrowed */
    const char *path;      /* borrowed until close */
    FILE *file;            /* owned; the thread's while it runs, like the next six */
    unsigned char *input;  /* owned; a block as it is in the file */
    z_stream stream;       /* next_in, avail_in: input not yet taken, also of a file that is not compressed */
    int compressed;        /* stream is initialised */
    int in_member;         /* a member has begun and not ended */
    int members;           /* that ended */
    const char *fault;     /* NULL, or what is wrong with the file; "": see errno */
    struct tft_thread *thread;
    int begun;  /* the first block was read; reader only, as the next */
    int joined; /* the end was reached and checked */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *blocks[BLOCKS];   /* owned; block (taken + i) mod BLOCKS is full for i < full */
    size_t lengths[BLOCKS]; /* of the full ones */
    size_t taken, full;     /* guarded by lock, as the next two */
    int ended;              /* the thread does not fill any more blocks */
    int leaving;            /* the reader does not want any more blocks */
    size_t got;             /* by the last read_block; written before `ended`, as the next */
    int error;              /* errno of that fault */
};

/* ---- the file ---- */

/* Makes input available, unless the file has ended or cannot be read. */
static int have_input(struct tft_inflate *f)
{
    if (f->stream.avail_in)
        return 1;
    f->stream.next_in = f->input;
    f->stream.avail_in = (unsigned)fread(f->input, 1, TFT_INFLATE_BLOCK, f->file);
    if (!f->stream.avail_in && ferror(f->file)) {
        f->fault = "";
        f->error = errno;
    }
    return f->stream.avail_in > 0;
}

/* Reads part of the bytes between members: zeros, or the beginning of another member. */
static void step_between(struct tft_inflate *f)
{
    while (f->members && f->stream.avail_in && !*f->stream.next_in) {
        f->stream.next_in++;
        f->stream.avail_in--;
    }
    if (!f->stream.avail_in)
        return;
    if (*f->stream.next_in == 0x1f)
        f->in_member = inflateReset(&f->stream) == Z_OK;
    if (!f->in_member)
        f->fault = "something else follows its compressed data";
}

static void step_inside(struct tft_inflate *f)
{
    int result = inflate(&f->stream, Z_NO_FLUSH);

    if (result == Z_STREAM_END) {
        f->in_member = 0;
        f->members++;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
        f->fault = f->stream.msg ? f->stream.msg : zError(result);
    }
}

/* Fills a block; fewer bytes mean the end, or a fault. */
static void read_block(struct tft_inflate *f, char *to)
{
    f->stream.next_out = (unsigned char *)to;
    f->stream.avail_out = (unsigned)TFT_INFLATE_BLOCK;
    while (f->stream.avail_out && !f->fault && have_input(f)) {
        if (!f->compressed) {
            unsigned n = f->stream.avail_in < f->stream.avail_out ? f->stream.avail_in : f->stream.avail_out;
            memcpy(f->stream.next_out, f->stream.next_in, n);
            f->stream.next_out += n;
            f->stream.avail_out -= n;
            f->stream.next_in += n;
            f->stream.avail_in -= n;
        } else if (f->in_member) {
            step_inside(f);
        } else {
            step_between(f);
        }
    }
    f->got = TFT_INFLATE_BLOCK - f->stream.avail_out;
}

/* Fails if the file was not whole, after its last byte. */
static enum halay_status look_at_end(const struct tft_inflate *f)
{
    if (f->fault && !*f->fault)
        return halay_fail(f->log, HALAY_ERR_SYSTEM, "cannot read '%s': %s", f->path, strerror(f->error));
    if (f->fault)
        halay_error(f->log, "file '%s' is damaged: %s", f->path, f->fault);
    else if (f->in_member)
        halay_error(f->log, "file '%s' is truncated: its compressed data end too early", f->path);
    return f->fault || f->in_member ? HALAY_ERR_FORMAT : HALAY_OK;
}

/* ---- the thread ---- */

/* Waits for an empty block; NULL: the reader does not want any more. */
static char *wait_for_room(struct tft_inflate *f)
{
    pthread_mutex_lock(&f->lock);
    if (f->full == BLOCKS)
        while (f->full > BLOCKS - ENOUGH && !f->leaving)
            pthread_cond_wait(&f->changed, &f->lock);
    char *block = f->leaving ? NULL : f->blocks[(f->taken + f->full) % BLOCKS];
    pthread_mutex_unlock(&f->lock);
    return block;
}

static void read_ahead(void *arg)
{
    struct tft_inflate *f = arg;
    char *block;
    int ended = 0;

    while (!ended && (block = wait_for_room(f))) {
        read_block(f, block);
        ended = f->got < TFT_INFLATE_BLOCK;
        pthread_mutex_lock(&f->lock);
        f->lengths[(f->taken + f->full) % BLOCKS] = f->got;
        f->full++;
        f->ended = ended;
        if (ended || f->full == ENOUGH)
            pthread_cond_signal(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
}

/* ---- the reader ---- */

static enum halay_status start_thread(struct tft_inflate *f)
{
    for (int i = 0; i < BLOCKS; i++) {
        f->blocks[i] = malloc(TFT_INFLATE_BLOCK);
        if (!f->blocks[i])
            return halay_no_memory(f->log, "to read '%s'", f->path);
    }
    return tft_thread_start(f->log, read_ahead, f, &f->thread);
}

static enum halay_status read_first(struct tft_inflate *f, char *to, size_t *got)
{
    f->begun = 1;
    read_block(f, to);
    *got = f->got;
    if (*got == TFT_INFLATE_BLOCK)
        return start_thread(f);
    f->joined = 1;
    return look_at_end(f);
}

enum halay_status tft_inflate_read(struct tft_inflate *f, char *to, size_t *got)
{
    *got = 0;
    if (!f->begun)
        return read_first(f, to, got);
    if (f->joined)
        return HALAY_OK;
    pthread_mutex_lock(&f->lock);
    if (!f->full)
        while (f->full < ENOUGH && !f->ended)
            pthread_cond_wait(&f->changed, &f->lock);
    size_t block = f->taken % BLOCKS;
    f->joined = f->ended && f->full == 1;
    pthread_mutex_unlock(&f->lock); /* the thread leaves a full block alone */
    memcpy(to, f->blocks[block], f->lengths[block]);
    *got = f->lengths[block];
    pthread_mutex_lock(&f->lock);
    f->taken++;
    f->full--;
    if (f->full == BLOCKS - ENOUGH)
        pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return f->joined ? look_at_end(f) : HALAY_OK;
}

/* Finds out from the first bytes whether the file is compressed. If only its name suggests so, its beginning is
 * damaged. */
static enum halay_status look_at_start(struct tft_inflate *f)
{
    size_t length = strlen(f->path);
    int named = length >= 3 && !strcmp(f->path + length - 3, ".gz");

    if (!have_input(f) && f->fault)
        return look_at_end(f);
    f->compressed = f->stream.avail_in > 1 && f->input[0] == 0x1f && f->input[1] == 0x8b;
    if (named && !f->compressed)
        return halay_fail(f->log, HALAY_ERR_FORMAT,
                          "file '%s' is not gzip-compressed although its name ends in .gz, or is truncated", f->path);
    if (f->compressed && inflateInit2(&f->stream, 16 + MAX_WBITS) != Z_OK) { /* 16: a gzip header */
        f->compressed = 0;
        return halay_no_memory(f->log, "to read '%s'", f->path);
    }
    return HALAY_OK;
}

enum halay_status tft_inflate_open(struct halay_log *log, const char *path, const char *text, size_t bytes,
                                   struct tft_inflate **inflate)
{
    struct tft_inflate *f = calloc(1, sizeof *f);
    enum halay_status status = HALAY_OK;

    if (!f)
        return halay_no_memory(log, "to read '%s'", path);
    f->log = log;
    f->path = path;
    pthread_mutex_init(&f->lock, NULL); /* with default attributes these cannot fail */
    pthread_cond_init(&f->changed, NULL);
    f->input = malloc(TFT_INFLATE_BLOCK);
    if (f->input)
        f->file = text ? fmemopen((char *)(uintptr_t)text, bytes, "rb") : fopen(path, "rbe");
    if (!f->input || (text && !f->file))
        status = halay_no_memory(log, "to read '%s'", path);
    else if (!f->file)
        status = halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    if (!status && !text) {
        setbuf(f->file, NULL); /* whole blocks are read */
        status = look_at_start(f);
    }
    if (status)
        tft_inflate_close(f);
    else
        *inflate = f;
    return status;
}

void tft_inflate_close(struct tft_inflate *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->leaving = 1;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    tft_thread_join(f->thread);
    if (f->compressed)
        (void)inflateEnd(&f->stream);
    if (f->file)
        fclose(f->file); /* it was only read */
    free(f->input);
    for (int i = 0; i < BLOCKS; i++)
        free(f->blocks[i]);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

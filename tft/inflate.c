/* SPDX-License-Identifier: Apache-2.0
 *
 * Inflate: blocks go round between the thread, which fills them, and the reader, which empties them. Who has to wait is
 * woken when half of them are there, so that on a busy machine the two do not wait for the scheduler at each block.
 *
 * zlib reads what is not compressed as it is, and reports a truncated stream only by gzerror after the last byte: look_at_end
 * does, so that no file is taken for complete that is not. The first block is read by the reader; if that was all there is no
 * thread. From its start until it has said `ended` the thread alone touches the file. Cleanup: the object is zeroed first and
 * close accepts it half-built.
 */
#include "tft/inflate.h"
#include "tft/thread.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCKS = 8, ENOUGH = 4 };

struct tft_inflate {
    struct halay_log *log; /* borrowed */
    const char *path;      /* borrowed until close */
    gzFile file;           /* owned; the thread's while there is one that has not ended */
    struct tft_thread *thread;
    int begun;  /* the first block was read; reader only, as the next */
    int joined; /* the end was seen, and looked at */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *blocks[BLOCKS];   /* owned; block (taken + i) mod BLOCKS is full for i < full */
    size_t lengths[BLOCKS]; /* of the full ones */
    size_t taken, full;     /* guarded by lock, as the next two */
    int ended;              /* the thread will fill no more */
    int leaving;            /* and nobody wants more */
    int got, error;         /* of the last gzread, and errno after it; written before `ended` */
};

static void read_block(struct tft_inflate *f, char *to)
{
    errno = 0;
    f->got = gzread(f->file, to, (unsigned)TFT_INFLATE_BLOCK);
    f->error = errno;
}

/* After the last byte: was the stream whole? */
static enum halay_status look_at_end(const struct tft_inflate *f)
{
    int error;
    const char *text = gzerror(f->file, &error);
    size_t name = strlen(f->path);

    if (f->got >= 0 && (error == Z_OK || error == Z_STREAM_END))
        return HALAY_OK;
    if (!strncmp(text, f->path, name) && !strncmp(text + name, ": ", 2))
        text += name + 2;
    if (error == Z_ERRNO)
        halay_error(f->log, "cannot read '%s': %s", f->path, strerror(f->error));
    else if (error == Z_BUF_ERROR)
        halay_error(f->log, "file '%s' is truncated: its compressed data end too early", f->path);
    else
        halay_error(f->log, "file '%s' is damaged: %s", f->path, text);
    return error == Z_ERRNO ? HALAY_ERR_SYSTEM : HALAY_ERR_FORMAT;
}

/* ---- the thread ---- */

/* Wait for an empty block; NULL: nobody wants more. */
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
        ended = f->got < (int)TFT_INFLATE_BLOCK; /* a short read is the end, or an error */
        pthread_mutex_lock(&f->lock);
        f->lengths[(f->taken + f->full) % BLOCKS] = f->got > 0 ? (size_t)f->got : 0;
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
        if (!f->blocks[i]) {
            halay_error(f->log, "no memory to read '%s'", f->path);
            return HALAY_ERR_NO_MEMORY;
        }
    }
    return tft_thread_start(f->log, read_ahead, f, &f->thread);
}

static enum halay_status read_first(struct tft_inflate *f, char *to, size_t *got)
{
    f->begun = 1;
    read_block(f, to);
    *got = f->got > 0 ? (size_t)f->got : 0;
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

/* Under a compressed file's name what is not compressed is a file whose beginning is damaged. */
static enum halay_status check_kind(const struct tft_inflate *f)
{
    size_t length = strlen(f->path);

    if (length < 3 || strcmp(f->path + length - 3, ".gz") || !gzdirect(f->file))
        return HALAY_OK;
    halay_error(f->log, "file '%s' is not gzip-compressed, as its name says, or is truncated", f->path);
    return HALAY_ERR_FORMAT;
}

enum halay_status tft_inflate_open(struct halay_log *log, const char *path, struct tft_inflate **inflate)
{
    struct tft_inflate *f = calloc(1, sizeof *f);

    if (!f) {
        halay_error(log, "no memory to read '%s'", path);
        return HALAY_ERR_NO_MEMORY;
    }
    f->log = log;
    f->path = path;
    pthread_mutex_init(&f->lock, NULL); /* with default attributes these cannot fail here */
    pthread_cond_init(&f->changed, NULL);
    errno = 0;
    f->file = gzopen(path, "rbe");
    enum halay_status status = HALAY_ERR_SYSTEM;
    if (f->file) {
        (void)gzbuffer(f->file, (unsigned)TFT_INFLATE_BLOCK); /* a wish */
        status = check_kind(f);
    } else {
        halay_error(log, "cannot open '%s': %s", path, errno ? strerror(errno) : "no memory");
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
    if (f->file)
        gzclose_r(f->file);
    for (int i = 0; i < BLOCKS; i++)
        free(f->blocks[i]);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

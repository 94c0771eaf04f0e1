/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipe. The n-th send of a tag meets the n-th receive of it, so a tag for each granule and direction does for all
 * steps.
 */
#include "tft/train/pipe.h"
#include "base/clock.h"
#include <stdlib.h>

enum { SIDES = 2, LOOK_MS = 500 };

static real *numbers_of(void *arg, size_t granule, enum tft_side side)
{
    const struct tft_pipe *p = arg;

    return p->memory + granule * p->granule_numbers + (size_t)side * p->numbers;
}

/* change: of the threads that wait. Returns what idle_us has become. */
static int64_t count_waiting(struct tft_pipe *p, int change)
{
    pthread_mutex_lock(&p->lock);
    int64_t now = halay_now_us();
    if (p->waiting > p->cores)
        p->idle_us += (now - p->since_us) * (p->waiting - p->cores);
    int64_t idle_us = p->idle_us;
    p->since_us = now;
    p->waiting += change;
    pthread_mutex_unlock(&p->lock);
    return idle_us;
}

/* Until it ends, or this rank gives up: then its peer will not answer any more. */
static enum halay_status wait_for(struct tft_pipe *p, struct halay_request *request, int peer)
{
    enum halay_status status;

    count_waiting(p, 1);
    do {
        status = halay_wait(request, LOOK_MS);
        if (status == HALAY_ERR_TIMEOUT)
            status = halay_test(request); /* it may have ended since */
    } while (status == HALAY_IN_PROGRESS && !atomic_load_explicit(&p->failed, memory_order_relaxed));
    count_waiting(p, -1);
    if (status == HALAY_IN_PROGRESS)
        return HALAY_ERR_PEER; /* the thread that gave up has said why */
    if (status)
        halay_error(p->log, "the exchange with rank %d failed: %s", peer, halay_request_text(request));
    return status;
}

static enum halay_status move(void *arg, size_t granule, enum tft_side side, int is_backward)
{
    struct tft_pipe *p = arg;
    const enum halay_dtype dtype = sizeof(real) == sizeof(float) ? HALAY_F32 : HALAY_F64;
    const int peer = side == TFT_UP ? p->rank - 1 : p->rank + 1, sends = (side == TFT_DOWN) != (is_backward != 0);
    const int64_t tag = 2 * (int64_t)granule + is_backward;
    real *numbers = numbers_of(p, granule, side);
    struct halay_request *request;
    enum halay_status status = sends
                                   ? halay_send_async(p->ctx, NULL, numbers, p->numbers, dtype, peer, tag, &request)
                                   : halay_receive_async(p->ctx, NULL, numbers, p->numbers, dtype, peer, tag, &request);

    if (!status) {
        status = wait_for(p, request, peer);
        halay_request_free(request);
    }
    if (status)
        atomic_store_explicit(&p->failed, 1, memory_order_relaxed);
    return status;
}

enum halay_status tft_pipe_init(struct halay_log *log, struct halay_context *ctx, const struct tft_model *model,
                                size_t granules, int cores, struct tft_pipe *p)
{
    int ranks = halay_size(ctx), rank = halay_rank(ctx);

    *p = (struct tft_pipe){ .log = log, .rank = rank };
    if (ranks > TFT_SEGMENTS) {
        halay_error(log, "'strategy: pipeline' has %d stages, and there are %d ranks: at most as many do", TFT_SEGMENTS,
                    ranks);
        return HALAY_ERR_CONFIG;
    }
    p->numbers = tft_stage_numbers(model, tft_model_config(model)->granule);
    p->granule_numbers = SIDES * p->numbers;
    p->memory = calloc(granules ? granules : 1, p->granule_numbers * sizeof *p->memory);
    if (!p->memory) {
        halay_error(log, "no memory for what %zu granules send", granules);
        return HALAY_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&p->lock, NULL); /* default attributes: cannot fail here */
    p->cores = cores;
    p->since_us = halay_now_us();
    p->ctx = ctx;
    p->stage = (struct tft_stage){ .first = TFT_SEGMENTS, .numbers = numbers_of, .move = move, .arg = p };
    for (int segment = TFT_SEGMENTS; segment-- > 0;)
        if (tft_segment_rank(segment, ranks) == rank) {
            p->stage.first = segment;
            p->stage.end = segment >= p->stage.end ? segment + 1 : p->stage.end;
        }
    return HALAY_OK;
}

double tft_pipe_waited(struct tft_pipe *p)
{
    return (double)count_waiting(p, 0) / 1e6 / p->cores;
}

void tft_pipe_fini(struct tft_pipe *p)
{
    if (p->ctx)
        pthread_mutex_destroy(&p->lock);
    free(p->memory);
    p->memory = NULL;
    p->ctx = NULL;
}

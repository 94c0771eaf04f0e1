/* SPDX-License-Identifier: Apache-2.0
 *
 * Pipe: how the numbers of a pipeline's stages (tft/model/stages.h) go from rank to rank: sends and receives of the
 * engine, by tag, a granule each way.
 *
 * A thread that waits for its neighbour leaves its core to another one, which computes another granule: a rank has
 * twice as many threads as cores.
 */
#ifndef HALAY_TFT_PIPE_H
#define HALAY_TFT_PIPE_H

#include "base/log.h"
#include "halay.h"
#include "tft/model/stages.h"
#include <pthread.h>
#include <stdatomic.h>

struct tft_pipe {
    struct halay_log *log;     /* borrowed, as the next one */
    struct halay_context *ctx; /* NULL: there is no pipe */
    int rank;
    size_t numbers, granule_numbers; /* of a granule, most; of all of the granule's sides */
    real *memory;                    /* owned: (granules, sides, numbers) */
    struct tft_stage stage;          /* this rank's */
    atomic_int failed;               /* this rank gives up: stored by the thread whose move failed (relaxed) */

    /* How long cores had nothing to do: each thread that waits beyond the number of cores leaves one without any. */
    int cores;
    pthread_mutex_t lock; /* of the three behind it */
    int waiting;          /* threads */
    int64_t since_us;     /* the last change of waiting */
    int64_t idle_us;      /* until then, a sum over cores */
};

/* granules: the most that a step has. cores: half of the threads that move. HALAY_ERR_CONFIG (logged): there are more
 * ranks than stages. fini in any case. */
enum halay_status tft_pipe_init(struct halay_log *log, struct halay_context *ctx, const struct tft_model *model,
                                size_t granules, int cores, struct tft_pipe *pipe);
/* Seconds that this rank's cores waited for neighbours so far, a mean over them. Any thread. */
double tft_pipe_waited(struct tft_pipe *pipe);
void tft_pipe_fini(struct tft_pipe *pipe);

#endif

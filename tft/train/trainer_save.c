/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's checkpoints. Rank 0 writes what every rank has; each rank writes what only it has: its tensors'
 * moments. All learn whether every rank could, and the manifest, written last, names all files:
 *
 *     rank 0     folders                   parameters, average, manifest, takes old ones away
 *                   \ made         / written
 *     each rank      its moments
 *
 * The moving average of tensors that are dealt out is gathered first: it is the model, and one file.
 */
#include "tft/data/paths.h"
#include "tft/train/trainer.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum halay_status tft_trainer_gather_average(struct tft_trainer *t)
{
    if (!t->average || t->average == t->average_whole)
        return tft_trainer_bring(t);
    enum halay_status status = tft_exchange_spread(&t->exchange, t->average);
    for (size_t i = 0; i < t->table->count && !status; i++) {
        const struct tft_param *p = &t->table->params[i];
        if (p->dead) /* never updated: it is its own average */
            memcpy(t->average_whole + p->offset, t->params + p->offset, p->count * sizeof *t->params);
    }
    return status;
}

enum { PROBE_NAME = 32 };

/* A file in rank 0's folder that the others look for. */
static enum halay_status make_probe(struct tft_trainer *t, char name[PROBE_NAME])
{
    enum halay_status status = tft_checkpoints_make_folders(&t->checkpoints, 1);

    if (status)
        return status;
    char *path = tft_path_join(t->log, t->checkpoints.folder, ".probe.XXXXXX");
    if (!path)
        return HALAY_ERR_NO_MEMORY;
    int file = mkstemp(path);
    if (file < 0) {
        halay_error(t->log, "cannot write into '%s': %s", t->checkpoints.folder, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    } else {
        close(file);
        snprintf(name, PROBE_NAME, "%s", strrchr(path, '/') + 1);
    }
    free(path);
    return status;
}

enum halay_status tft_trainer_check_folder(struct tft_trainer *t)
{
    char name[PROBE_NAME] = "";
    int32_t sees = 1, all_see = 1;
    enum halay_status status = HALAY_OK, made = HALAY_OK;

    if (!t->shards.bucket_count || !t->config->keep || t->ranks == 1)
        return HALAY_OK;
    if (t->rank == 0)
        made = make_probe(t, name);
    status = halay_broadcast(t->ctx, "probe", name, sizeof name, HALAY_U8, 0);
    char *path = *name ? tft_path_join(t->log, t->checkpoints.folder, name) : NULL;
    if (path)
        sees = !access(path, F_OK);
    if (!status)
        status = halay_allreduce(t->ctx, "probe seen", &sees, &all_see, 1, HALAY_I32, HALAY_MIN);
    if (!sees)
        halay_error(
            t->log,
            "'%s' is not the same folder here as on rank 0: ranks that write their own parts of the checkpoints must "
            "share it, unless 'strategy' is allreduce or 'keep' is 0",
            t->checkpoints.folder);
    if (t->rank == 0 && path)
        unlink(path);
    free(path);
    if (status || made)
        return made ? made : status;
    if (!*name)
        return HALAY_ERR_PEER;
    return all_see ? HALAY_OK : HALAY_ERR_CONFIG;
}

/* What a rank reports of its files. */
struct report {
    int32_t status; /* enum halay_status */
    int32_t has_any;
    struct tft_checkpoint_part moments[2];
};

static struct report write_own(struct tft_trainer *t)
{
    struct report own = { .has_any = t->shards.table.count > 0 };
    const float *const moments[2] = { t->moments[0], t->moments[1] };
    enum halay_status status = own.has_any ? tft_checkpoints_make_folders(&t->checkpoints, t->rank == 0) : HALAY_OK;

    for (int k = 0; k < 2 && own.has_any && !status; k++)
        status = tft_checkpoints_save_part(&t->checkpoints, t->state.step,
                                           (enum tft_checkpoint_block)(TFT_CHECKPOINT_MOMENT1 + k), t->rank,
                                           &t->shards.table, moments[k], &own.moments[k]);
    own.status = (int32_t)status;
    return own;
}

/* Write all ranks' files of moments, and collect their entries of the manifest on rank 0; the others learn that all
 * have written. reports: room for one per rank. */
static enum halay_status write_parts(struct tft_trainer *t, struct report *reports, json_t *parts)
{
    int failed = t->rank == 0 && tft_checkpoints_make_folders(&t->checkpoints, 1) != HALAY_OK;
    enum halay_status status = halay_broadcast(t->ctx, "folders", &failed, 1, HALAY_I32, 0);

    if (status)
        return status;
    if (failed)
        return t->rank == 0 ? HALAY_ERR_SYSTEM : HALAY_ERR_PEER;
    struct report own = write_own(t);
    status = halay_allgather(t->ctx, "files", &own, 1, sizeof own, HALAY_U8, reports, (size_t)t->ranks, NULL);
    for (int r = 0; r < t->ranks && !status; r++) {
        if (reports[r].status && r != t->rank)
            halay_error(t->log, "rank %d cannot write its part of the checkpoint: %s", r,
                        halay_status_string((enum halay_status)reports[r].status));
        status = (enum halay_status)reports[r].status;
        for (int k = 0; k < 2 && t->rank == 0 && reports[r].has_any && !status; k++)
            status = tft_checkpoints_add_part(&t->checkpoints, t->state.step,
                                              (enum tft_checkpoint_block)(TFT_CHECKPOINT_MOMENT1 + k), r,
                                              &reports[r].moments[k], parts);
    }
    return status;
}

enum halay_status tft_trainer_save(struct tft_trainer *t)
{
    int is_dealt = t->shards.bucket_count > 0;
    const float *const blocks[TFT_CHECKPOINT_BLOCKS] = { t->params, is_dealt ? NULL : t->moments[0],
                                                         is_dealt ? NULL : t->moments[1], t->average_whole };
    json_t *parts = NULL;
    if (!t->config->keep)
        return HALAY_OK;
    enum halay_status status = tft_trainer_bring(t);
    if (!status && is_dealt) {
        struct report *reports = calloc((size_t)t->ranks, sizeof *reports);
        parts = json_array();
        if (!reports || !parts) {
            halay_error(t->log, "no memory for the checkpoint of step %" PRIu64, t->state.step);
            status = HALAY_ERR_NO_MEMORY;
        }
        if (!status)
            status = tft_trainer_gather_average(t);
        if (!status)
            status = write_parts(t, reports, parts);
        free(reports);
    }
    if (!status && t->rank == 0) {
        status = tft_checkpoints_save(&t->checkpoints, t->run, &t->state, t->table, blocks, parts);
        t->saved |= !status;
        if (!status) /* for whoever watches the job */
            halay_gauge_set(t->ctx, "checkpoint_step", (double)t->state.step);
    }
    json_decref(parts);
    return status;
}

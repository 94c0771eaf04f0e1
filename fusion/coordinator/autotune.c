/* SPDX-License-Identifier: Apache-2.0
 *
 * Autotune: the search, and the file that keeps what it found. No allocation, no clock.
 *
 * A window is at least STEPS_MIN steps and WINDOW_US long, so that neither short steps are lost in the noise nor long
 * ones take all day: 7 + 3 + 4 candidates of 5 windows each are some 350 steps.
 */
#include "fusion/coordinator/autotune.h"
#include "collectives/api/group.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEADY = 4, STEPS_MIN = 4, WINDOW_US = 20000 };
#define COARSE_LEAST ((size_t)256 << 10)
#define COARSE_MOST ((size_t)256 << 20)
#define WORTH_IT 0.98 /* a gain of less than 2 % is not told from noise */

void halay_autotune_init(struct halay_autotune *tune, size_t configured, int ranks)
{
    *tune = (struct halay_autotune){
        .configured = configured, .threshold = configured, .ranks = (uint64_t)ranks, .step = 1
    };
}

/* ---- candidates ---- */

static void add_candidate(struct halay_autotune *tune, size_t threshold, int chunk_shift)
{
    for (int i = 0; i < tune->count; i++)
        if (tune->candidates[i].threshold == threshold && tune->candidates[i].chunk_shift == chunk_shift)
            return;
    if (tune->count == HALAY_AUTOTUNE_CANDIDATES)
        return;
    tune->candidates[tune->count].threshold = threshold;
    tune->candidates[tune->count++].chunk_shift = chunk_shift;
}

static void begin_candidate(struct halay_autotune *tune, int64_t now_us)
{
    tune->threshold = tune->candidates[tune->at].threshold;
    tune->chunk_shift = tune->candidates[tune->at].chunk_shift;
    tune->steps = -1; /* the step that begins now has tensors under way from before */
    tune->since_us = now_us;
}

static void begin_phase(struct halay_autotune *tune, enum halay_autotune_phase phase, int64_t now_us)
{
    tune->phase = phase;
    tune->at = tune->round = 0;
    begin_candidate(tune, now_us);
}

/* Thresholds above a step's bytes all mean one bucket for all: one of them is enough. */
static void begin_coarse(struct halay_autotune *tune, int64_t now_us)
{
    tune->count = 0;
    add_candidate(tune, tune->configured, 0);
    for (size_t t = COARSE_LEAST; t <= COARSE_MOST; t *= 4) {
        add_candidate(tune, t, 0);
        if (t >= tune->bytes)
            break;
    }
    begin_phase(tune, HALAY_AUTOTUNE_COARSE, now_us);
}

static int compare_scores(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double median(const struct halay_autotune *tune, int candidate, int rounds)
{
    double scores[HALAY_AUTOTUNE_ROUNDS];

    memcpy(scores, tune->candidates[candidate].scores, sizeof scores);
    qsort(scores, (size_t)rounds, sizeof *scores, compare_scores);
    return scores[rounds / 2];
}

/* The candidate whose windows took the least; the first, the configured one or that of the coarse phase, unless another
 * is worth it. */
static int best_candidate(const struct halay_autotune *tune, int rounds)
{
    int best = 0;

    for (int i = 1; i < tune->count; i++)
        if (median(tune, i, rounds) < median(tune, best, rounds))
            best = i;
    return median(tune, best, rounds) < median(tune, 0, rounds) * WORTH_IT ? best : 0;
}

static void begin_fine(struct halay_autotune *tune, int64_t now_us)
{
    size_t best = tune->candidates[best_candidate(tune, HALAY_AUTOTUNE_ROUNDS)].threshold;

    tune->count = 0;
    add_candidate(tune, best, 0);
    if (best / 2)
        add_candidate(tune, best / 2, 0);
    if (best <= SIZE_MAX / 2)
        add_candidate(tune, best * 2, 0);
    begin_phase(tune, HALAY_AUTOTUNE_FINE, now_us);
}

static void begin_chunks(struct halay_autotune *tune, int64_t now_us)
{
    static const int shifts[] = { 0, -1, 1, 2 };
    size_t best = tune->candidates[best_candidate(tune, HALAY_AUTOTUNE_ROUNDS)].threshold;

    tune->count = 0;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        add_candidate(tune, best, shifts[i]);
    begin_phase(tune, HALAY_AUTOTUNE_CHUNKS, now_us);
}

/* Keep what was found for these bytes; of too much the newest is dropped. */
static void remember(struct halay_autotune *tune)
{
    int i = 0;

    while (i < tune->known_count && (tune->known[i].ranks != tune->ranks || tune->known[i].bytes != tune->bytes))
        i++;
    if (i == HALAY_AUTOTUNE_KNOWN)
        return;
    if (i == tune->known_count)
        tune->known_count++;
    tune->known[i] = (struct halay_autotune_entry){ tune->ranks, tune->bytes, tune->threshold, tune->chunk_shift };
    tune->has_found = 1;
}

static void finish(struct halay_autotune *tune, size_t threshold, int chunk_shift, int is_measured)
{
    tune->phase = HALAY_AUTOTUNE_DONE;
    tune->threshold = threshold;
    tune->chunk_shift = chunk_shift;
    tune->is_measured = is_measured;
    if (is_measured)
        remember(tune);
}

static void finish_with(struct halay_autotune *tune, int candidate)
{
    finish(tune, tune->candidates[candidate].threshold, tune->candidates[candidate].chunk_shift, 1);
}

/* ---- steps ---- */

/* The program's steps have these bytes now. */
static void begin_bytes(struct halay_autotune *tune, uint64_t bytes, int64_t now_us)
{
    tune->bytes = bytes;
    for (int i = 0; i < tune->known_count; i++)
        if (tune->known[i].ranks == tune->ranks && tune->known[i].bytes == bytes) {
            finish(tune, (size_t)tune->known[i].threshold, tune->known[i].chunk_shift, 0);
            return;
        }
    begin_coarse(tune, now_us);
}

static void end_window(struct halay_autotune *tune, int64_t now_us)
{
    tune->candidates[tune->at].scores[tune->round] =
        (double)(now_us - tune->since_us) / (double)(tune->window_bytes + 1);
    if (++tune->at == tune->count) {
        tune->at = 0;
        tune->round++;
    }
    if (tune->round < HALAY_AUTOTUNE_ROUNDS)
        begin_candidate(tune, now_us);
    else if (tune->phase == HALAY_AUTOTUNE_COARSE)
        begin_fine(tune, now_us);
    else if (tune->phase == HALAY_AUTOTUNE_FINE)
        begin_chunks(tune, now_us);
    else
        finish_with(tune, best_candidate(tune, HALAY_AUTOTUNE_ROUNDS));
}

static void count_step(struct halay_autotune *tune, int64_t now_us)
{
    if (++tune->steps <= 0) {
        tune->since_us = now_us;
        tune->window_bytes = 0;
        return;
    }
    tune->window_bytes += tune->step_bytes;
    if (tune->steps >= STEPS_MIN && now_us - tune->since_us >= WINDOW_US)
        end_window(tune, now_us);
}

static void end_step(struct halay_autotune *tune, int64_t now_us)
{
    tune->same = tune->step_bytes == tune->last_bytes ? tune->same + 1 : 1;
    tune->last_bytes = tune->step_bytes;
    if (tune->same >= STEADY && (tune->phase == HALAY_AUTOTUNE_LOOKING || tune->last_bytes != tune->bytes))
        begin_bytes(tune, tune->last_bytes, now_us);
    else if (tune->phase != HALAY_AUTOTUNE_LOOKING && tune->phase != HALAY_AUTOTUNE_DONE)
        count_step(tune, now_us);
    tune->step++;
    tune->step_bytes = 0;
}

int halay_autotune_submitted(struct halay_autotune *tune, uint64_t *step, size_t bytes, int64_t now_us)
{
    size_t before = tune->threshold;
    int before_shift = tune->chunk_shift;

    if (tune->is_stopped)
        return 0;
    if (*step == tune->step)
        end_step(tune, now_us);
    *step = tune->step;
    tune->step_bytes += bytes;
    return tune->threshold != before || tune->chunk_shift != before_shift;
}

int halay_autotune_give_up(struct halay_autotune *tune)
{
    size_t before = tune->threshold;
    int before_shift = tune->chunk_shift;
    int knows_nothing = tune->phase == HALAY_AUTOTUNE_LOOKING || (tune->phase == HALAY_AUTOTUNE_COARSE && !tune->round);

    tune->is_stopped = 1;
    if (knows_nothing)
        finish(tune, tune->configured, 0, 0);
    else if (tune->phase != HALAY_AUTOTUNE_DONE) /* the first candidate is what the phase before found */
        finish_with(tune, tune->round ? best_candidate(tune, tune->round) : 0);
    return tune->threshold != before || tune->chunk_shift != before_shift;
}

/* ---- the file ---- */

enum halay_status halay_autotune_load(struct halay_log *log, const char *path, struct halay_autotune *tune)
{
    FILE *file = fopen(path, "re");
    char line[256];
    enum halay_status status = HALAY_OK;

    if (!file && errno == ENOENT)
        return HALAY_OK;
    if (!file) {
        halay_error(log, "cannot open '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    for (int number = 1; status == HALAY_OK && fgets(line, sizeof line, file); number++) {
        struct halay_autotune_entry e = { .chunk_shift = 0 };
        int end = 0;
        if (line[0] == '#' || line[strspn(line, " \t\n")] == 0)
            continue;
        int read = sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %n%d %n", &e.ranks, &e.bytes, &e.threshold, &end,
                          &e.chunk_shift, &end);
        if (read < 3 || line[end] || e.chunk_shift > HALAY_CHUNK_SHIFT_MOST ||
            e.chunk_shift < -HALAY_CHUNK_SHIFT_MOST) {
            halay_error(log,
                        "'%s' line %d: want the ranks, the bytes of a step, a threshold and a power of two for chunks",
                        path, number);
            status = HALAY_ERR_FORMAT;
        } else if (tune->known_count < HALAY_AUTOTUNE_KNOWN) {
            tune->known[tune->known_count++] = e;
        }
    }
    fclose(file);
    return status;
}

static int write_entries(FILE *out, const struct halay_autotune *tune)
{
    int failed =
        fputs("# halay autotune: ranks, bytes of a step, best fusion threshold, power of two for chunks\n", out) < 0;

    for (int i = 0; i < tune->known_count; i++) {
        const struct halay_autotune_entry *e = &tune->known[i];
        failed |= fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", e->ranks, e->bytes, e->threshold,
                          e->chunk_shift) < 0;
    }
    return failed;
}

enum halay_status halay_autotune_save(struct halay_log *log, const char *path, const struct halay_autotune *tune)
{
    if (!tune->has_found)
        return HALAY_OK;
    size_t size = strlen(path) + 8;
    char *beside = malloc(size);
    if (!beside)
        return HALAY_ERR_NO_MEMORY;
    snprintf(beside, size, "%s.part", path);
    FILE *out = fopen(beside, "we");
    int failed = !out || write_entries(out, tune);
    failed |= out && fclose(out);
    failed = failed || rename(beside, path);
    if (failed) {
        halay_error(log, "cannot write '%s': %s", path, strerror(errno));
        if (out)
            remove(beside);
    }
    free(beside);
    return failed ? HALAY_ERR_SYSTEM : HALAY_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress: lines for people, lines for programs. Only rank 0's says or writes anything.
 */
#include "tft/core/train/progress.h"
#include "base/clock.h"
#include "base/document.h"
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/lines.h"
#include "tft/core/run/run_length.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

static double cpu_seconds(void)
{
    struct rusage use;

    if (getrusage(RUSAGE_SELF, &use))
        return 0;
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/* Resident bytes of this process now; 0 if unknown. */
static double resident_bytes(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &pages, &resident) != 2)
        resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static long long step_of(const char *line)
{
    json_t *object = json_loads(line, 0, NULL), *number = json_object_get(object, "step");
    long long step = json_is_integer(number) ? (long long)json_integer_value(number) : -1;

    json_decref(object);
    return step;
}

enum halay_status tft_progress_init(struct halay_log *log, const char *folder, const struct tft_listener *listener,
                                    uint64_t total_steps, const struct tft_progress_start *start,
                                    struct tft_progress *progress)
{
    struct tft_progress p = { .log = log, .listener = *listener, .total_steps = total_steps, .start = *start };
    char *path = tft_path_join(log, folder, "metrics.jsonl");

    p.end = tft_path_join(log, folder, "end.json");
    if (!path || !p.end) {
        free(path);
        free(p.end);
        return HALAY_ERR_NO_MEMORY;
    }
    p.metrics = tft_lines_open(log, path, step_of, tft_progress_last_evaluation(start));
    free(path);
    if (!p.metrics) {
        free(p.end);
        return HALAY_ERR_SYSTEM;
    }
    flock(fileno(p.metrics), LOCK_EX | LOCK_NB); /* says that a training is at work; nothing else depends on it */
    unlink(p.end);                               /* of an earlier training; usually there is none */
    p.began_us = p.before_us = halay_now_us();
    p.cpu_before = cpu_seconds();
    *progress = p;
    return HALAY_OK;
}

void tft_progress_fini(struct tft_progress *progress)
{
    if (progress->metrics)
        fclose(progress->metrics);
    free(progress->end);
    progress->metrics = NULL;
    progress->end = NULL;
}

enum halay_status tft_progress_end(struct tft_progress *p, const char *how, uint64_t step)
{
    json_t *end = json_pack("{ss sI}", "end", how, "step", (json_int_t)step);
    enum halay_status status = end ? halay_document_write(p->log, "", p->end, end) : HALAY_ERR_NO_MEMORY;

    json_decref(end);
    return status;
}

double tft_progress_seconds(const struct tft_progress *progress)
{
    return progress->start.seconds + (double)(halay_now_us() - progress->began_us) / 1e6;
}

void tft_progress_say(struct tft_progress *p, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (!p->listener.say)
        return;
    va_start(args, format);
    halay_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    p->listener.say(p->listener.arg, line);
}

void tft_progress_step(struct tft_progress *p, const struct tft_progress_step *s)
{
    const double seconds = (double)(halay_now_us() - p->began_us) / 1e6;

    if (!p->listener.step)
        return;
    uint64_t steps = s->steps == TFT_STEPS_UNLIMITED ? s->step : s->steps; /* nothing is known after the first */
    double left = seconds / (double)(s->step - p->start.step) * (double)(steps - s->step);
    if (s->limit > 0)
        left = fmin(left, fmax(0, s->limit - tft_progress_seconds(p)));
    p->listener.step(p->listener.arg, &(struct halay_tft_progress){
                                          .step = s->step,
                                          .steps = steps,
                                          .epoch = s->epoch,
                                          .samples = s->samples,
                                          .loss = s->loss,
                                          .seconds = p->start.seconds + seconds,
                                          .seconds_left = left,
                                          .samples_per_second = (double)(s->samples - p->start.samples) / seconds });
}

void tft_progress_set_total(struct tft_progress *p, uint64_t total_steps, const char *time)
{
    if (total_steps < p->total_steps)
        tft_progress_say(p, "%" PRIu64 " steps are planned for %s", total_steps, time);
    p->total_steps = total_steps;
}

static void say_evaluation(struct tft_progress *p, const struct tft_progress_evaluation *e)
{
    char text[512];
    int n = halay_snprintf(text, sizeof text, "eval step=%" PRIu64 " epoch=%" PRIu64 " seconds=%.1f train_loss=%.6f",
                           e->at.step, e->at.epoch, tft_progress_seconds(p), e->train_loss);

    if (e->scores) {
        n += halay_snprintf(text + n, sizeof text - (size_t)n, " valid_loss=%.6f", e->valid_loss);
        for (size_t q = 0; q < e->scores->quantile_count && n < 400; q++) {
            char name[32];
            tft_quantile_name(e->scores->quantiles[q], name, sizeof name);
            n += halay_snprintf(text + n, sizeof text - (size_t)n, " valid_%s=%.5f", name,
                                tft_scores_mean_q_risk(e->scores, e->target_count, q));
        }
    }
    halay_snprintf(text + n, sizeof text - (size_t)n, " lr=%.3g samples_per_second=%.1f%s", e->learning_rate,
                   e->samples_per_second, e->best ? " best" : "");
    tft_progress_say(p, "%s", text);
}

static json_t *health_json(unsigned rules)
{
    json_t *words = json_array();

    for (int rule = 0; rule < TFT_HEALTH_RULES; rule++)
        if (rules >> rule & 1)
            json_array_append_new(words, json_string(tft_health_word((enum tft_health_rule)rule)));
    return words;
}

static enum halay_status write_line(struct tft_progress *p, const json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    int failed = 0;

    if (!text) {
        halay_error(p->log, "no memory for a line of metrics.jsonl");
        return HALAY_ERR_NO_MEMORY;
    }
    if (p->metrics)
        failed = fputs(text, p->metrics) == EOF || fputc('\n', p->metrics) == EOF || fflush(p->metrics);
    if (failed)
        halay_error(p->log, "cannot write metrics.jsonl: %s", strerror(errno));
    else if (p->listener.evaluation)
        p->listener.evaluation(p->listener.arg, text);
    free(text);
    return failed ? HALAY_ERR_SYSTEM : HALAY_OK;
}

enum halay_status tft_progress_evaluation(struct tft_progress *p, const struct tft_progress_evaluation *e)
{
    int64_t now = halay_now_us();
    double cpu = cpu_seconds(), wall = (double)(now - p->before_us) / 1e6;
    json_t *line =
        json_pack("{sI sI sf sI sf}", "step", (json_int_t)e->at.step, "epoch", (json_int_t)e->at.epoch, "seconds",
                  tft_progress_seconds(p), "samples", (json_int_t)e->at.samples, "train_loss", e->train_loss);

    if (line && p->total_steps != TFT_STEPS_UNLIMITED)
        json_object_set_new(line, "steps", json_integer((json_int_t)p->total_steps));
    if (line && e->scores) {
        json_object_set_new(line, "valid_loss", json_real(e->valid_loss));
        json_object_set_new(line, "valid_q_risk", tft_scores_mean_q_risk_json(e->scores, e->target_count));
        json_object_set_new(line, "valid_q_risk_by_horizon_mean",
                            tft_scores_mean_by_horizon_json(e->scores, e->target_count));
    }
    json_t *more =
        json_pack("{sf sf sf sf sI sb}", "learning_rate", e->learning_rate, "samples_per_second", e->samples_per_second,
                  "comm_seconds", e->comm_seconds, "cpu_percent", wall > 0 ? 100 * (cpu - p->cpu_before) / wall : 0.0,
                  "rss_bytes", (json_int_t)resident_bytes(), "best", e->best);
    if (line && more)
        json_object_update(line, more);
    json_decref(more);
    if (line && e->health)
        json_object_set_new(line, "health", health_json(e->health));
    p->cpu_before = cpu;
    p->before_us = now;
    say_evaluation(p, e);
    enum halay_status status = line ? write_line(p, line) : HALAY_OK;
    json_decref(line);
    return status;
}

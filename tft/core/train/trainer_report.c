/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0's reports of a training: lines for people, lines of JSON in metrics.jsonl, rows for other programs
 * (tracks), and warnings about the training's health.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/tracks.h"
#include "tft/core/train/trainer.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Below this share of all gradients' squares one counts as none: what rounding leaves of a constant input. */
static const double none = 1e-20;

/* Between two rows of the tracks. */
enum { STEPS_OF_ROW = 10 };

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

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

void tft_say(const struct tft_listener *listener, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (!listener->say)
        return;
    va_start(args, format);
    halay_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    listener->say(listener->arg, line);
}

double tft_report_seconds(const struct tft_report *r)
{
    return r->start.seconds + (double)(halay_now_us() - r->began_us) / 1e6;
}

/* ---- beginning and end ---- */

static long long step_of(const char *line)
{
    json_t *object = json_loads(line, 0, NULL), *number = json_object_get(object, "step");
    long long step = json_is_integer(number) ? (long long)json_integer_value(number) : -1;

    json_decref(object);
    return step;
}

/* last: the last step whose evaluation stays. */
static enum halay_status open_metrics(struct tft_trainer *t, const char *folder, uint64_t last)
{
    struct tft_report *r = &t->report;

    r->metrics = tft_lines_open(t->log, tft_path_in(folder, "metrics.jsonl").text, step_of, last);
    if (!r->metrics)
        return HALAY_ERR_SYSTEM;
    r->folder = folder;
    flock(fileno(r->metrics), LOCK_EX | LOCK_NB); /* marks that a training is at work; nothing else depends on it */
    unlink(tft_path_in(folder, "end.json").text); /* of an earlier training; usually missing */
    return HALAY_OK;
}

enum halay_status tft_report_begin(struct tft_trainer *t)
{
    const char *folder = t->options->metrics ? t->options->metrics : t->options->folder;
    const uint64_t step = t->state.step, last[TFT_ROW_TABLES] = { step, step - (t->state.pending && step) };
    struct tft_report *r = &t->report;
    const int64_t now = halay_now_us();

    tft_report_fini(t);
    *r = (struct tft_report){ .listener = t->options->listener,
                              .began_us = now,
                              .start = { step, t->state.seconds },
                              .start_samples = t->state.samples,
                              .total_steps = tft_trainer_steps(t),
                              .health.kind = (enum tft_loss)t->config->loss,
                              .step_us = now,
                              .row_us = now,
                              .row_samples = t->state.samples,
                              .before_us = now,
                              .cpu_before = cpu_seconds() };
    enum halay_status status = open_metrics(t, folder, last[TFT_ROW_EVALUATION]);
    if (status)
        return status;
    r->reached = calloc(t->table->count, 1);
    if (!r->reached)
        return halay_no_memory(t->log, "for notes of %zu parameters", t->table->count);
    return t->config->log ? tft_tracks_create(t->log, folder, (unsigned)t->config->log, last, &r->tracks) : HALAY_OK;
}

enum halay_status tft_report_end(struct tft_trainer *t, enum halay_status status)
{
    const char *word = status ? "failed" : t->interrupted ? "stopped" : "done";

    tft_tracks_destroy(t->report.tracks);
    t->report.tracks = NULL;
    if (!t->report.folder)
        return status;
    json_t *document = json_pack("{ss sI}", "end", word, "step", (json_int_t)t->state.step);
    enum halay_status closed = tft_folder_write(t->log, t->report.folder, "end.json", document);
    json_decref(document);
    return status ? status : closed;
}

void tft_report_fini(struct tft_trainer *t)
{
    struct tft_report *r = &t->report;

    tft_tracks_destroy(r->tracks);
    if (r->metrics)
        fclose(r->metrics);
    free(r->reached);
    *r = (struct tft_report){ 0 };
}

/* ---- health ---- */

/* Prints the text of a rule that spoke. rule: its bit; 0: none. */
static void warn_of(struct tft_trainer *t, unsigned rule)
{
    if (rule)
        tft_say(&t->report.listener, "health: %s", t->report.health.text);
    t->report.rules |= rule;
}

/* Returns nonzero if a tensor is the embedding of an input: what multiplies it. */
static int is_embedding(const struct tft_trainer *t, size_t i)
{
    const struct tft_param *p = &t->table->params[i];
    size_t length = strlen(p->name);

    return !p->dead && !strncmp(p->name, "input.", 6) && length > 13 && !strcmp(p->name + length - 7, ".kernel");
}

static void watch_inputs(struct tft_trainer *t)
{
    struct tft_report *r = &t->report;
    char name[TFT_PARAM_NAME_MAX + 1];
    int judges = tft_health_ends_block(&r->health);

    for (size_t i = 0; i < t->table->count; i++) {
        if (!is_embedding(t, i))
            continue;
        r->reached[i] |= t->adam.squares[i] > none * t->sums.norm * t->sums.norm;
        if (judges && !r->reached[i]) {
            const char *whole = t->table->params[i].name + 6;
            snprintf(name, sizeof name, "%.*s", (int)(strlen(whole) - 7), whole);
            warn_of(t, tft_health_take_dead_input(&r->health, name));
        }
    }
}

/* ---- steps ---- */

static enum halay_status write_row(struct tft_trainer *t, double loss)
{
    struct tft_report *r = &t->report;
    int64_t now = halay_now_us();
    const double seconds = (double)(now - r->row_us + 1) / 1e6;
    const struct tft_number numbers[] = {
        { "loss", loss },
        { "learning_rate", t->adam.learning_rate },
        { "gradient_norm", t->sums.norm },
        { "samples_per_second", (double)(t->state.samples - r->row_samples) / seconds },
        { "waiting_share", r->seconds > 0 ? r->waiting / r->seconds : 0 },
        { "gathering_share", r->seconds > 0 ? r->gathering / r->seconds : 0 },
    };
    const struct tft_row row = {
        TFT_ROW_STEP, t->state.step, seconds_now(), numbers, sizeof numbers / sizeof *numbers,
    };

    r->seconds = r->waiting = r->gathering = 0;
    r->row_us = now;
    r->row_samples = t->state.samples;
    return tft_tracks_add(r->tracks, &row);
}

/* Tells the listener of a step. */
static void announce_step(struct tft_trainer *t, double loss)
{
    const struct tft_report *r = &t->report;
    const double seconds = tft_report_seconds(r) - r->start.seconds;
    const uint64_t step = t->state.step, known = tft_trainer_steps(t);
    const uint64_t steps = known == TFT_STEPS_UNLIMITED ? step : known; /* nothing is known after the first */
    double left = seconds / (double)(step - r->start.step) * (double)(steps - step);

    if (!r->listener.step)
        return;
    if (t->limits.seconds > 0)
        left = fmin(left, fmax(0, t->limits.seconds - tft_report_seconds(r)));
    r->listener.step(
        r->listener.arg,
        &(struct halay_tft_progress){ .step = step,
                                      .steps = steps,
                                      .epoch = t->state.epoch + 1,
                                      .samples = t->state.samples,
                                      .loss = loss,
                                      .seconds = r->start.seconds + seconds,
                                      .seconds_left = left,
                                      .samples_per_second = (double)(t->state.samples - r->start_samples) / seconds });
}

enum halay_status tft_report_step(struct tft_trainer *t)
{
    struct tft_report *r = &t->report;
    const double loss = t->sums.numbers[TFT_STEP_LOSS], threads = tft_pool_threads(t->pool) * 1e6;
    const double waited = tft_trainer_waited(t);
    const long long gathered = atomic_load_explicit(&t->sums.gathered_us, memory_order_relaxed);
    const int64_t now = halay_now_us();
    const struct tft_health_step step = { .step = t->state.step,
                                          .loss = loss,
                                          .norm = t->sums.norm,
                                          .seconds = (double)(now - r->step_us) / 1e6,
                                          .waiting = t->ranks > 1 ? waited - r->step_waited : 0,
                                          .gathering = (double)(gathered - r->step_gathered_us) / threads };

    r->step_us = now;
    r->step_waited = waited;
    r->step_gathered_us = gathered;
    r->seconds += step.seconds;
    r->waiting += step.waiting;
    r->gathering += step.gathering;
    announce_step(t, loss);
    if (t->config->health != TFT_HEALTH_OFF) {
        warn_of(t, tft_health_take_step(&r->health, &step));
        watch_inputs(t);
    }
    return t->state.step % STEPS_OF_ROW || !r->tracks ? HALAY_OK : write_row(t, loss);
}

void tft_report_total(struct tft_trainer *t)
{
    const uint64_t steps = tft_trainer_steps(t);
    char time[80];

    tft_trainer_print_time(t, time);
    if (steps < t->report.total_steps)
        tft_say(&t->report.listener, "%" PRIu64 " steps are planned for %s", steps, time);
    t->report.total_steps = steps;
}

/* ---- evaluations ---- */

enum halay_status tft_report_values(struct tft_trainer *t)
{
    struct tft_tracks *tracks = t->report.tracks;
    double now = seconds_now();
    enum halay_status status = HALAY_OK;

    if (!tft_tracks_take_values(tracks))
        return HALAY_OK;
    status = tft_exchange_download(&t->exchange);
    for (size_t i = 0; i < t->table->count && !status; i++) {
        const struct tft_param *p = &t->table->params[i];
        struct tft_values values = { "weights", p->name, t->blocks.host.params + p->offset, p->count };

        status = tft_tracks_add_values(tracks, t->state.step, now, &values);
        values.group = "gradients";
        values.values = t->exchange.gradients + p->offset;
        if (!status && !p->dead && t->adam.squares && !p->sparse.most)
            status = tft_tracks_add_values(tracks, t->state.step, now, &values);
    }
    return status;
}

static double number_at(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

/* Writes a row of the tracks. */
static enum halay_status write_evaluation(struct tft_trainer *t, json_t *line)
{
    struct tft_number numbers[5 + TFT_RUN_QUANTILES_MAX] = {
        { "epoch", number_at(line, "epoch") },
        { "train_loss", number_at(line, "train_loss") },
        { "evaluation_samples_per_second", number_at(line, "samples_per_second") },
        { "comm_seconds", number_at(line, "comm_seconds") },
    };
    char names[TFT_RUN_QUANTILES_MAX][40];
    size_t count = 4, named = 0;
    const char *name;
    json_t *value;

    if (json_object_get(line, "valid_loss"))
        numbers[count++] = (struct tft_number){ "valid_loss", number_at(line, "valid_loss") };
    json_object_foreach(json_object_get(line, "valid_q_risk"), name, value) {
        snprintf(names[named], sizeof names[named], "valid_%s", name);
        numbers[count++] = (struct tft_number){ names[named++], json_number_value(value) };
    }
    const struct tft_row row = { TFT_ROW_EVALUATION, t->state.step, seconds_now(), numbers, count };
    return tft_tracks_add(t->report.tracks, &row);
}

/* Prints a line of key=value. */
static void print_evaluation(struct tft_trainer *t, json_t *line)
{
    char text[512];
    const char *name;
    json_t *value;

    halay_snprintf(text, sizeof text, "eval step=%" PRIu64 " epoch=%" PRIu64 " seconds=%.1f train_loss=%.6f",
                   t->state.step, t->state.epoch + 1, number_at(line, "seconds"), number_at(line, "train_loss"));
    if (json_object_get(line, "valid_loss"))
        halay_append(text, sizeof text, " valid_loss=%.6f", number_at(line, "valid_loss"));
    json_object_foreach(json_object_get(line, "valid_q_risk"), name, value)
        if (strlen(text) < 400)
            halay_append(text, sizeof text, " valid_%s=%.5f", name, json_number_value(value));
    halay_append(text, sizeof text, " lr=%.3g samples_per_second=%.1f%s", t->adam.learning_rate,
                 number_at(line, "samples_per_second"), json_is_true(json_object_get(line, "best")) ? " best" : "");
    tft_say(&t->report.listener, "%s", text);
}

static json_t *health_json(unsigned rules)
{
    json_t *names = json_array();

    for (int rule = 0; rule < TFT_HEALTH_RULES; rule++)
        if (rules >> rule & 1)
            json_array_append_new(names, json_string(tft_health_name((enum tft_health_rule)rule)));
    return names;
}

/* Writes a line of metrics.jsonl, and gives it to the listener. */
static enum halay_status write_line(struct tft_trainer *t, const json_t *line)
{
    char *text = json_dumps(line, JSON_COMPACT);
    struct tft_report *r = &t->report;
    enum halay_status status = HALAY_OK;

    if (!text)
        return halay_no_memory(t->log, "for a line of metrics.jsonl");
    if (r->metrics && (fputs(text, r->metrics) == EOF || fputc('\n', r->metrics) == EOF || fflush(r->metrics)))
        status = halay_fail(t->log, HALAY_ERR_SYSTEM, "cannot write metrics.jsonl: %s", strerror(errno));
    else if (r->listener.evaluation)
        r->listener.evaluation(r->listener.arg, text);
    free(text);
    return status;
}

/* Returns the line of an evaluation, from which its other forms are made; NULL without memory. result: NULL without
 * validation. */
static json_t *evaluation_json(struct tft_trainer *t, const struct tft_forecast_scores *result, double train_loss,
                               int is_best)
{
    struct tft_report *r = &t->report;
    const int64_t now = halay_now_us();
    const double cpu = cpu_seconds(), wall = (double)(now - r->before_us) / 1e6;
    const double seconds = (double)(now - t->since_us + 1) / 1e6;
    json_t *line =
        json_pack("{sI sI sf sI sf}", "step", (json_int_t)t->state.step, "epoch", (json_int_t)t->state.epoch + 1,
                  "seconds", tft_report_seconds(r), "samples", (json_int_t)t->state.samples, "train_loss", train_loss);
    json_t *more = json_pack("{sf sf sf sf sI sb}", "learning_rate", t->adam.learning_rate, "samples_per_second",
                             (double)(t->state.samples - t->since_samples) / seconds, "comm_seconds",
                             tft_trainer_waited(t) - t->since_waited, "cpu_percent",
                             wall > 0 ? 100 * (cpu - r->cpu_before) / wall : 0.0, "rss_bytes",
                             (json_int_t)resident_bytes(), "best", is_best);

    if (r->total_steps != TFT_STEPS_UNLIMITED)
        json_object_set_new(line, "steps", json_integer((json_int_t)r->total_steps));
    if (result) {
        const struct tft_scores *s = result->scores;
        json_object_set_new(line, "valid_loss", json_real(result->loss));
        json_object_set_new(line, "valid_q_risk", tft_scores_mean_q_risk_json(s, result->target_count));
        json_object_set_new(line, "valid_q_risk_by_horizon_mean",
                            tft_scores_mean_by_horizon_json(s, result->target_count));
    }
    json_object_update(line, more);
    json_decref(more);
    if (r->rules)
        json_object_set_new(line, "health", health_json(r->rules));
    r->rules = 0;
    r->cpu_before = cpu;
    r->before_us = now;
    return line;
}

enum halay_status tft_report_evaluation(struct tft_trainer *t, const struct tft_forecast_scores *result, int is_best)
{
    const double train_loss = t->state.loss_steps ? t->state.loss_sum / (double)t->state.loss_steps : 0;
    struct tft_report *r = &t->report;

    if (result && t->config->health != TFT_HEALTH_OFF)
        warn_of(t, tft_health_take_evaluation(&r->health, t->state.step, train_loss, result->loss));
    json_t *line = evaluation_json(t, result, train_loss, is_best);
    r->step_us = halay_now_us(); /* the next step begins after the evaluation */
    print_evaluation(t, line);
    enum halay_status status = write_line(t, line);
    if (!status && r->tracks)
        status = write_evaluation(t, line);
    json_decref(line);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner. One thread sleeps until a signal arrives or a fifth of a second has passed, then reads the trials' files
 * of metrics and checks which children have ended. A decision is in the journal before it takes effect, so that a
 * search that was killed continues as if it had not been: a running trial resumes from its checkpoint.
 */
#include "tft/tools/cli/tuner.h"
#include "base/output_file.h"
#include "tft/tools/cli/session.h"
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 200000000, ARGS_MAX = 32, VALUE_SIZE = 256, FAILURES_MAX = 3, REST_MOST = 512 };

void tft_tuner_path(const struct tft_tuner *t, size_t trial, const char *ending, char path[TFT_CHILD_PATH])
{
    snprintf(path, TFT_CHILD_PATH, "%s/trial-%04zu%s", t->folder, trial, ending);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* A value as an option has it. */
static void value_text(const json_t *value, char text[VALUE_SIZE])
{
    const json_t *item;
    size_t i, at = 0;

    *text = 0;
    if (json_is_string(value))
        snprintf(text, VALUE_SIZE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, VALUE_SIZE, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, VALUE_SIZE, "%.12g", json_real_value(value));
    json_array_foreach(value, i, item) {
        char word[VALUE_SIZE];
        value_text(item, word);
        int length = snprintf(text + at, VALUE_SIZE - at, "%s%s", i ? "," : "", word);
        at = length < 0 || at + (size_t)length >= VALUE_SIZE ? VALUE_SIZE - 1 : at + (size_t)length;
    }
}

static void print_keys(const struct tft_tuner *t, size_t trial)
{
    json_t *keys = tft_space_keys(&t->space, t->trials.list[trial].point), *value;
    const char *key;
    char text[VALUE_SIZE];

    json_object_foreach(keys, key, value) {
        value_text(value, text);
        printf(" %s=%s", key, text);
    }
    printf("\n");
    json_decref(keys);
}

static void print_end(const struct tft_tuner *t, size_t trial)
{
    const struct tft_trial *of = &t->trials.list[trial];
    char output[TFT_CHILD_PATH];

    tft_tuner_path(t, trial, ".log", output);
    printf("trial %zu: ", trial);
    if (of->state == TFT_TRIAL_FAILED)
        printf("failed with exit code %d: see %s;", of->exit_code, output);
    else
        printf("%s=%.6g%s, %s after %lld steps and %.0f s;", tft_goal_words[t->judging.goal], of->value,
               tft_trials_best(&t->trials) == trial ? " (best)" : "", tft_trial_states[of->state], of->step,
               of->seconds);
    print_keys(t, trial);
    fflush(stdout);
}

/* ---- one trial --------------------------------------------------------------------------------------------------- */

static enum halay_status no_memory(struct tft_tuner *t)
{
    halay_error(t->log, "no memory for a trial");
    return HALAY_ERR_NO_MEMORY;
}

/* Writes all keys of a trial to a file. Those that are searched are options, too, since the environment overrides it.
 * */
static enum halay_status write_config(struct tft_tuner *t, const json_t *keys, const char *path)
{
    json_t *all = json_copy(t->config);
    char *text = all && !json_object_update(all, (json_t *)keys)
                     ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(15))
                     : NULL;
    enum halay_status status = text ? halay_output_text(t->log, path, text) : no_memory(t);

    json_decref(all);
    free(text);
    return status;
}

/* The arguments of a trial's command; the options of the searched keys are in `texts`. */
struct command {
    char ranks[16], out[TFT_CHILD_PATH], config[TFT_CHILD_PATH], output[TFT_CHILD_PATH];
    char texts[TFT_SETTINGS_MAX][2][VALUE_SIZE];
    const char *args[ARGS_MAX + 2 * TFT_SETTINGS_MAX];
};

static void make_command(const struct tft_tuner *t, const struct tft_worker *worker, const json_t *keys,
                         struct command *c)
{
    const char **next = c->args, *key;
    const json_t *value;
    size_t n = 0;

    tft_tuner_path(t, worker->trial, "", c->out);
    tft_tuner_path(t, worker->trial, ".json", c->config);
    tft_tuner_path(t, worker->trial, ".log", c->output);
    snprintf(c->ranks, sizeof c->ranks, "%d", t->ranks);
    if (t->ranks > 1 || *worker->hosts) {
        *next++ = t->programs.halayrun;
        *next++ = "-np";
        *next++ = c->ranks;
    }
    if (*worker->hosts) {
        *next++ = "-H";
        *next++ = worker->hosts;
    }
    const char *const words[] = { t->programs.self, "train",    "--data",  t->data,    "--out",
                                  c->out,           "--config", c->config, "--resume", NULL };
    for (const char *const *word = words; *word; word++)
        *next++ = *word;
    json_object_foreach((json_t *)keys, key, value) {
        snprintf(c->texts[n][0], VALUE_SIZE, "--%s", key);
        for (char *letter = c->texts[n][0]; *letter; letter++)
            *letter = *letter == '_' ? '-' : *letter;
        value_text(value, c->texts[n][1]);
        *next++ = c->texts[n][0];
        *next++ = c->texts[n++][1];
    }
    *next = NULL;
}

static enum halay_status start_trial(struct tft_tuner *t, struct tft_worker *worker, size_t trial)
{
    struct command *command = calloc(1, sizeof *command);
    json_t *keys = tft_space_keys(&t->space, t->trials.list[trial].point);
    enum halay_status status = command && keys ? HALAY_OK : no_memory(t);

    worker->trial = trial;
    if (!status) {
        make_command(t, worker, keys, command);
        status = write_config(t, keys, command->config);
    }
    if (!status)
        status = tft_child_start(t->log, (char *const *)(uintptr_t)command->args, command->output,
                                 worker->has_cpus ? &worker->cpus : NULL, &worker->child);
    json_decref(keys);
    free(command);
    return status;
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    (void)where;
    return remove(path);
}

/* A trial that has ended needs no checkpoints. A failure costs only space. */
static void remove_checkpoints(const struct tft_tuner *t, size_t trial)
{
    char folder[TFT_CHILD_PATH];

    tft_tuner_path(t, trial, "/checkpoints", folder);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static enum halay_status end_trial(struct tft_tuner *t, size_t trial, enum tft_trial_state state)
{
    struct tft_trial *of = &t->trials.list[trial];

    of->state = state;
    enum halay_status status = tft_journal_end(&t->journal, trial, of);
    if (!status)
        print_end(t, trial);
    return status ? status : t->look(t);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Finds a trial that an earlier process began and no worker has. */
static size_t find_unattended(const struct tft_tuner *t)
{
    size_t i = 0, worker = 0;

    for (; i < t->trials.count; i++) {
        if (t->trials.list[i].state != TFT_TRIAL_RUNNING)
            continue;
        for (worker = 0; worker < t->worker_count && !(t->workers[worker].child.pid && t->workers[worker].trial == i);
             worker++)
            ;
        if (worker == t->worker_count)
            return i;
    }
    return i;
}

static int is_used_up(const struct tft_tuner *t)
{
    return t->seconds_max > 0 && tft_journal_seconds(&t->journal) >= t->seconds_max;
}

static enum halay_status begin_next(struct tft_tuner *t, struct tft_worker *worker)
{
    double point[TFT_SETTINGS_MAX] = { 0 };
    json_t *keys;
    enum halay_status status;

    if (!t->trials.count && t->has_start)
        memcpy(point, t->start, sizeof point);
    else if (!tft_search_next(&t->search, &t->trials, point)) {
        printf("no configuration is left that was not tried\n");
        t->is_over = 1;
        return HALAY_OK;
    }
    keys = tft_space_keys(&t->space, point);
    if (!keys || !tft_trials_add(&t->trials, point)) {
        json_decref(keys);
        return no_memory(t);
    }
    status = tft_journal_begin(&t->journal, t->trials.count - 1, keys);
    json_decref(keys);
    return status ? status : start_trial(t, worker, t->trials.count - 1);
}

static enum halay_status fill_workers(struct tft_tuner *t)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < t->worker_count && !status && !t->is_over && !t->stopped; i++) {
        size_t trial = find_unattended(t);
        if (t->workers[i].child.pid)
            continue;
        if (trial < t->trials.count)
            status = start_trial(t, &t->workers[i], trial);
        else if (is_used_up(t) || (t->trials_max && t->trials.count >= t->trials_max))
            return HALAY_OK;
        else
            status = begin_next(t, &t->workers[i]);
    }
    return status;
}

static void ask_to_end(const struct tft_worker *worker)
{
    if (worker->child.pid)
        kill(worker->child.pid, SIGTERM);
}

/* Reads the evaluations of a trial; ends it at a rung where others are better. */
static enum halay_status judge_trial(struct tft_tuner *t, struct tft_worker *worker)
{
    struct tft_trial *of = &t->trials.list[worker->trial];
    char path[TFT_CHILD_PATH];
    enum halay_status status = HALAY_OK;

    tft_tuner_path(t, worker->trial, "/metrics.jsonl", path);
    while (!status && of->state == TFT_TRIAL_RUNNING && tft_progress_take(path, &t->judging, of)) {
        status = tft_journal_rung(&t->journal, worker->trial, of->rungs, of->at_rung[of->rungs]);
        of->rungs++;
        if (status || tft_halving_keeps(&t->trials, worker->trial, of->rungs - 1, t->judging.eta))
            continue;
        ask_to_end(worker);
        status = end_trial(t, worker->trial, TFT_TRIAL_STOPPED);
    }
    return status;
}

/* Fails if all trials from the first on have failed: the next ones would, too. */
static enum halay_status check_failures(struct tft_tuner *t, size_t trial)
{
    char output[TFT_CHILD_PATH];

    for (size_t i = 0; i < t->trials.count; i++)
        if (t->trials.list[i].state != TFT_TRIAL_FAILED && i <= trial)
            return HALAY_OK;
    if (trial + 1 < FAILURES_MAX)
        return HALAY_OK;
    tft_tuner_path(t, trial, ".log", output);
    halay_error(t->log, "the first %zu trials have failed: see '%s'", trial + 1, output);
    return HALAY_ERR_FORMAT;
}

static enum halay_status look_at(struct tft_tuner *t, struct tft_worker *worker)
{
    int code = 0;
    struct tft_trial *of = &t->trials.list[worker->trial];
    int has_ended = tft_child_has_ended(&worker->child, &code); /* before: all that it wrote is then read */
    enum halay_status status = judge_trial(t, worker);

    if (status || !has_ended)
        return status;
    if (of->state == TFT_TRIAL_RUNNING && !t->stopped) {
        of->exit_code = code;
        int failed = of->exit_code != 0 || !isfinite(of->value);
        of->value = failed ? INFINITY : of->value;
        of->share = failed ? of->share : 1;
        status = end_trial(t, worker->trial, failed ? TFT_TRIAL_FAILED : TFT_TRIAL_DONE);
        if (!status && failed)
            status = check_failures(t, worker->trial);
    }
    if (of->state != TFT_TRIAL_RUNNING)
        remove_checkpoints(t, worker->trial);
    return status;
}

/* The budget is used up: trials that run count with the value they have. */
static enum halay_status cut_trials(struct tft_tuner *t)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < t->worker_count && !status; i++) {
        struct tft_worker *worker = &t->workers[i];
        if (!worker->child.pid || t->trials.list[worker->trial].state != TFT_TRIAL_RUNNING)
            continue;
        ask_to_end(worker);
        status = end_trial(t, worker->trial, TFT_TRIAL_CUT);
    }
    return status;
}

static int is_busy(const struct tft_tuner *t)
{
    for (size_t i = 0; i < t->worker_count; i++)
        if (t->workers[i].child.pid)
            return 1;
    return 0;
}

static void reap_children(struct tft_tuner *t)
{
    int code;

    for (size_t i = 0; i < t->worker_count; i++)
        if (t->workers[i].child.pid)
            tft_child_has_ended(&t->workers[i].child, &code);
}

static void end_all(const struct tft_tuner *t)
{
    for (size_t i = 0; i < t->worker_count; i++)
        ask_to_end(&t->workers[i]);
}

/* Sleeps until something may have happened; passes a request to end to all children. */
static void wait_a_little(struct tft_tuner *t, const sigset_t *signals)
{
    const struct timespec most = { .tv_nsec = LOOK_NS };
    int signal = sigtimedwait(signals, NULL, &most);

    if (signal != SIGINT && signal != SIGTERM)
        return;
    t->stopped = signal;
    end_all(t);
}

static enum halay_status take_turn(struct tft_tuner *t)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < t->worker_count && !status; i++)
        if (t->workers[i].child.pid)
            status = look_at(t, &t->workers[i]);
    if (!status && !t->stopped && !t->is_over && is_used_up(t)) {
        t->is_over = 1;
        status = cut_trials(t);
    }
    return status ? status : fill_workers(t);
}

enum halay_status tft_tuner_run(struct tft_tuner *t)
{
    sigset_t signals, before;
    enum halay_status status;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    while (!(status = take_turn(t)) && is_busy(t))
        wait_a_little(t, &signals);
    end_all(t);
    while (is_busy(t)) { /* what an error leaves */
        wait_a_little(t, &signals);
        reap_children(t);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (status)
        return status;
    if (t->stopped) {
        halay_error(t->log, "interrupted; use --resume to continue");
        return HALAY_ERR_CANCELED;
    }
    if (tft_trials_best(&t->trials) < t->trials.count)
        return HALAY_OK;
    halay_error(t->log, "no trial reached an evaluation within the budget");
    return HALAY_ERR_FORMAT;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static json_t *describe_trial(const struct tft_tuner *t, size_t trial)
{
    const struct tft_trial *of = &t->trials.list[trial];
    json_t *row = json_pack("{s:I, s:s, s:f, s:I, s:f, s:i, s:o}", "trial", (json_int_t)trial, "state",
                            tft_trial_states[of->state], "share", of->share, "steps", (json_int_t)of->step, "seconds",
                            of->seconds, "rungs", (int)of->rungs, "keys", tft_space_keys(&t->space, of->point));

    if (row && isfinite(of->value))
        json_object_set_new(row, "value", json_real(of->value));
    if (row && of->state == TFT_TRIAL_FAILED)
        json_object_set_new(row, "exit_code", json_integer(of->exit_code));
    return row;
}

json_t *tft_tuner_result(const struct tft_tuner *t)
{
    double importance[TFT_SETTINGS_MAX], seconds = tft_journal_seconds(&t->journal);
    size_t best = tft_trials_best(&t->trials);
    json_t *rows = json_array();
    json_t *result =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:O, s:o}", "kind", "tuning", "tuning", t->folder, "data", t->data,
                  "goal", tft_goal_words[t->judging.goal], "search", tft_search_words[t->search.kind], "seconds",
                  seconds, "space", t->space.document, "rows", rows);

    for (size_t i = 0; result && i < t->trials.count; i++)
        json_array_append_new(rows, describe_trial(t, i));
    if (result && best < t->trials.count)
        json_object_set_new(result, "best", json_integer((json_int_t)best));
    if (result && t->price > 0)
        json_object_set_new(result, "cost", json_real(t->price * seconds / 3600));
    if (result && tft_search_importance(&t->space, &t->trials, importance)) {
        json_t *parts = json_object();
        for (size_t d = 0; d < t->space.count; d++)
            json_object_set_new(parts, t->space.settings[d].name, json_real(importance[d]));
        json_object_set_new(result, "importance", parts);
    }
    return result;
}

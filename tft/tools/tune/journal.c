/* SPDX-License-Identifier: Apache-2.0
 *
 * Journals.
 */
#include "tft/tools/tune/journal.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- writing ----------------------------------------------------------------------------------------------------- */

double tft_journal_seconds(const struct tft_journal *j)
{
    return j->before + (double)(halay_now_us() - j->begun_us) / 1e6;
}

static enum halay_status write_line(struct tft_journal *j, json_t *object)
{
    char *text = NULL, *line = NULL;
    int length = -1;
    enum halay_status status = HALAY_OK;

    if (object && !json_object_set_new(object, "seconds", json_real(tft_journal_seconds(j))))
        text = json_dumps(object, JSON_COMPACT);
    if (text)
        length = asprintf(&line, "%s\n", text);
    json_decref(object);
    free(text);
    if (length < 0) {
        halay_error(j->log, "no memory for a line of '%s'", j->path);
        return HALAY_ERR_NO_MEMORY;
    }
    if (write(j->file, line, (size_t)length) != length || fdatasync(j->file)) {
        halay_error(j->log, "cannot write '%s': %s", j->path, strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    free(line);
    return status;
}

enum halay_status tft_journal_begin(struct tft_journal *j, size_t trial, const json_t *keys)
{
    return write_line(j, json_pack("{s:I, s:o}", "trial", (json_int_t)trial, "keys", json_deep_copy(keys)));
}

enum halay_status tft_journal_rung(struct tft_journal *j, size_t trial, size_t rung, double value)
{
    return write_line(
        j, json_pack("{s:I, s:I, s:f}", "trial", (json_int_t)trial, "rung", (json_int_t)rung, "value", value));
}

enum halay_status tft_journal_end(struct tft_journal *j, size_t trial, const struct tft_trial *t)
{
    json_t *object =
        json_pack("{s:I, s:s, s:f, s:I, s:f, s:i}", "trial", (json_int_t)trial, "state", tft_trial_states[t->state],
                  "share", t->share, "step", (json_int_t)t->step, "trained", t->seconds, "exit_code", t->exit_code);

    if (object && isfinite(t->value))
        json_object_set_new(object, "value", json_real(t->value));
    return write_line(j, object);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum tft_trial_state state_of(const char *word)
{
    for (int i = 0; tft_trial_states[i]; i++)
        if (!strcmp(tft_trial_states[i], word))
            return (enum tft_trial_state)i;
    return TFT_TRIAL_RUNNING;
}

/* Returns 0 if the line does not fit the trials so far. */
static int take_line(const json_t *line, const struct tft_space *space, struct tft_trials *trials)
{
    const json_t *keys = json_object_get(line, "keys"), *rung = json_object_get(line, "rung");
    const json_t *value = json_object_get(line, "value");
    const char *state = json_string_value(json_object_get(line, "state"));
    json_int_t number = json_integer_value(json_object_get(line, "trial"));
    double point[TFT_SETTINGS_MAX] = { 0 };

    if (!json_is_integer(json_object_get(line, "trial")) || number < 0)
        return 0;
    if (keys)
        return (size_t)number == trials->count && tft_space_point(space, keys, point) &&
               tft_trials_add(trials, point) != NULL;
    if ((size_t)number >= trials->count)
        return 0;
    struct tft_trial *t = &trials->list[number];
    if (rung) {
        if (json_integer_value(rung) != (json_int_t)t->rungs || t->rungs == TFT_RUNGS_MAX || !json_is_number(value))
            return 0;
        t->at_rung[t->rungs++] = json_number_value(value);
        return 1;
    }
    if (!state || t->state != TFT_TRIAL_RUNNING || state_of(state) == TFT_TRIAL_RUNNING)
        return 0;
    t->state = state_of(state);
    t->value = value ? json_number_value(value) : INFINITY;
    t->share = json_number_value(json_object_get(line, "share"));
    t->step = json_integer_value(json_object_get(line, "step"));
    t->seconds = json_number_value(json_object_get(line, "trained"));
    t->exit_code = (int)json_integer_value(json_object_get(line, "exit_code"));
    return 1;
}

/* Checks that a journal's search is this one. */
static enum halay_status check_search(struct tft_journal *j, const json_t *then, const json_t *now)
{
    const char *key;
    const json_t *value;

    json_object_foreach((json_t *)now, key, value) {
        if (json_equal(value, json_object_get(then, key)))
            continue;
        halay_error(j->log, "'%s' has a search with another '%s': continue with the same one, or choose another folder",
                    j->path, key);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

static enum halay_status refuse_line(struct tft_journal *j, size_t number)
{
    halay_error(j->log, "line %zu of '%s' is damaged: the search cannot continue", number, j->path);
    return HALAY_ERR_FORMAT;
}

/* Reads all whole lines; *length is where they end. */
static enum halay_status read_lines(struct tft_journal *j, FILE *file, const json_t *search,
                                    const struct tft_space *space, struct tft_trials *trials, off_t *length)
{
    char *text = NULL;
    size_t size = 0, number = 0;
    ssize_t got;
    enum halay_status status = HALAY_OK;

    while (!status && (got = getline(&text, &size, file)) > 0 && text[got - 1] == '\n') {
        json_t *line = json_loads(text, 0, NULL);
        const json_t *seconds = json_object_get(line, "seconds");
        number++;
        if (!json_is_number(seconds))
            status = refuse_line(j, number);
        else if (number == 1)
            status = check_search(j, json_object_get(line, "search"), search);
        else if (!take_line(line, space, trials))
            status = refuse_line(j, number);
        j->before = json_number_value(seconds);
        *length += got;
        json_decref(line);
    }
    free(text);
    return status;
}

static enum halay_status fail_to(struct tft_journal *j, const char *what)
{
    halay_error(j->log, "cannot %s '%s': %s", what, j->path, strerror(errno));
    return HALAY_ERR_SYSTEM;
}

enum halay_status tft_journal_open(struct halay_log *log, const char *path, int resume, const json_t *search,
                                   const struct tft_space *space, struct tft_trials *trials, struct tft_journal *j)
{
    off_t length = 0;
    enum halay_status status = HALAY_OK;

    *j = (struct tft_journal){ .log = log, .path = path, .begun_us = halay_now_us() };
    j->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    FILE *file = j->file < 0 ? NULL : fopen(path, "re");
    if (!file)
        return fail_to(j, "open");
    if (resume)
        status = read_lines(j, file, search, space, trials, &length);
    else if (fgetc(file) != EOF) {
        halay_error(log, "'%s' has a search already: use --resume to continue it", path);
        status = HALAY_ERR_CONFIG;
    }
    fclose(file);
    if (!status && ftruncate(j->file, length))
        status = fail_to(j, "cut");
    if (!status && !length)
        status = write_line(j, json_pack("{s:o}", "search", json_deep_copy(search)));
    return status;
}

void tft_journal_close(struct tft_journal *j)
{
    if (j->path && j->file >= 0)
        close(j->file);
    *j = (struct tft_journal){ .file = -1 };
}

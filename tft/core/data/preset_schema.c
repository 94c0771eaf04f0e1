/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: makes the document that a user would have written, from the rows and the given schema.
 */
#include "base/memory.h"
#include "tft/core/data/preset_impl.h"
#include <stdio.h>
#include <string.h>

/* Minimum length of series of which each has parameters of its own. */
enum { HORIZONS_OF_ID = 20 };
/* Minimum number of series for which the size is an input: among few it identifies moments that do not recur. */
enum { SERIES_OF_SIZE = 100 };

/* Window and calendar for steps of some length. */
struct habit {
    size_t encoder, horizon;
    const char *calendar[5]; /* inputs, ended by NULL */
};

static struct habit habit_of(const struct tft_preset_scan *s)
{
    int64_t count = s->every.count;

    if (s->every.kind == TFT_PERIOD_INTEGER)
        return (struct habit){ 48, 12, { NULL } };
    if (s->every.kind == TFT_PERIOD_BUSINESS_DAYS)
        return (struct habit){ 60, 20, { "day_of_week", "day_of_month", "month" } };
    if (s->every.kind == TFT_PERIOD_MONTHS && count < 12) /* three years, and one */
        return (struct habit){ (size_t)((36 + count - 1) / count), (size_t)((12 + count - 1) / count), { "month" } };
    if (s->every.kind == TFT_PERIOD_MONTHS)
        return (struct habit){ 6, 2, { NULL } };
    if (count >= TFT_WEEK)
        return (struct habit){ 52, 13, { "week" } };
    if (count >= TFT_DAY)
        return (struct habit){ 84, 28, { "day_of_week", "day_of_month", "month" } };
    const size_t steps = s->every.kind == TFT_PERIOD_HOURS ? (size_t)s->every.hours.steps : (size_t)(TFT_DAY / count);
    const size_t day = steps < 168 ? steps : 168;
    if (count % TFT_HOUR)
        return (struct habit){ 7 * day, day, { "minute", "hour", "day_of_week", "month" } };
    return (struct habit){ 7 * day, day, { "hour", "day_of_week", "month" } };
}

/* Completes an input of the given schema that is read from a column with the preset's defaults. */
static json_t *complete_input(const json_t *given)
{
    json_t *input = json_copy((json_t *)given);
    const int is_holiday = json_object_get(given, "holiday") && !tft_preset_says(given, "type", "category");
    const int is_target = tft_preset_says(given, "role", "target");
    const int changes = tft_preset_says(given, "role", "known") || tft_preset_says(given, "role", "observed");

    if ((is_holiday || json_is_string(json_object_get(given, "calendar"))) && !json_object_get(given, "per"))
        json_object_set_new(input, "per", json_string("all"));
    if (!json_object_get(given, "column"))
        return input;
    if ((is_target || changes) && !json_object_get(given, "fill"))
        json_object_set_new(input, "fill", json_string(is_target ? "interpolate" : "forward"));
    if (is_target && !json_object_get(given, "per") && !json_object_get(given, "blend")) {
        json_object_set_new(input, "per", json_string("window"));
        json_object_set_new(input, "blend", json_string("season"));
    }
    return input;
}

/* Adds an input of the preset's own, which takes the reference. If its name is that of a column or of the id, it is
 * renamed; an input of that name that the given schema makes replaces it. */
static enum halay_status add_own(const struct tft_preset_scan *s, const char *name, json_t *own, json_t *inputs)
{
    const json_t *other = json_object_get(inputs, name);
    char renamed[300];

    if (!other) {
        json_object_set_new(inputs, name, own);
        return HALAY_OK;
    }
    if (!json_object_get(other, "column") && !json_object_get(other, "from")) {
        json_decref(own);
        return HALAY_OK;
    }
    snprintf(renamed, sizeof renamed, "preset_%.250s", name);
    if (json_object_get(inputs, renamed)) {
        halay_error(s->log, "%s: the preset has an input '%s' of its own; rename the schema's '%s' or '%s'", s->where,
                    name, name, renamed);
        json_decref(own);
        return HALAY_ERR_FORMAT;
    }
    halay_warning(s->log, "input '%s' is the table's; the preset's own input of that name is '%s'", name, renamed);
    json_object_set_new(inputs, renamed, own);
    return HALAY_OK;
}

/* Returns nonzero if training, which ends at `end`, covers two whole cycles of a calendar input. Below that, its values
 * identify moments that do not recur, and those after training are new. */
static int has_two_cycles(const struct tft_preset_scan *s, const char *calendar, int64_t end)
{
    static const struct {
        const char *name;
        struct tft_period both;
    } cycles[] = { { "minute", { .kind = TFT_PERIOD_SECONDS, .count = 2 * TFT_HOUR } },
                   { "hour", { .kind = TFT_PERIOD_SECONDS, .count = 2 * TFT_DAY } },
                   { "day_of_week", { .kind = TFT_PERIOD_SECONDS, .count = 2 * TFT_WEEK } },
                   { "day_of_month", { .kind = TFT_PERIOD_MONTHS, .count = 2 } } };
    struct tft_period both = { .kind = TFT_PERIOD_MONTHS, .count = 24 }; /* for annual cycles */

    if (s->every.kind == TFT_PERIOD_BUSINESS_DAYS && s->every.count % 5 == 0 && !strcmp(calendar, "day_of_week"))
        return 0; /* always the same */
    for (size_t i = 0; i < sizeof cycles / sizeof *cycles; i++)
        if (!strcmp(calendar, cycles[i].name))
            both = cycles[i].both;
    return tft_period_add(&both, s->first, 1) <= end;
}

/* Adds waves of a season; each of several has a name of its own. */
static enum halay_status add_wave(const struct tft_preset_scan *s, size_t season, int is_only, json_t *inputs)
{
    char name[40] = "season";

    if (!is_only)
        snprintf(name, sizeof name, "season_%zu", season);
    return add_own(s, name,
                   json_pack("{s{sI sI} ss}", "fourier", "period", (json_int_t)season, "terms",
                             (json_int_t)(season >= 6   ? 3
                                          : season >= 4 ? 2
                                                        : 1),
                             "role", "known"),
                   inputs);
}

/* Adds waves of the seasons of which training covers two; if nothing else is known ahead, a wave as long as a step,
 * which is a constant: the decoder must read something. */
static enum halay_status add_waves(const struct tft_preset_scan *s, const struct tft_schema *probe, int64_t end,
                                   json_t *inputs)
{
    const int64_t steps = tft_period_between(&s->every, s->first, end);
    enum halay_status status = HALAY_OK;
    const char *name;
    json_t *input;
    size_t seasons[TFT_SEASONS_MAX], count = 0;
    int is_known = 0;

    for (size_t i = 0; i < probe->season_count; i++)
        if (probe->seasons[i] > 1 && 2 * (int64_t)probe->seasons[i] <= steps)
            seasons[count++] = probe->seasons[i];
    json_object_foreach(inputs, name, input)
        is_known |= tft_preset_says(input, "role", "known");
    for (size_t i = 0; i < count && !status; i++)
        status = add_wave(s, seasons[i], count == 1, inputs);
    return count || is_known ? status : add_wave(s, 1, 1, inputs);
}

int64_t tft_preset_training_end(const struct tft_preset_scan *s, const struct tft_schema *probe, int64_t last)
{
    if (!probe->splits_by_entity)
        return tft_schema_clock(probe, probe->split_end[TFT_TRAIN]);
    return tft_period_add(&s->every, last, 1 - (int64_t)probe->split_left[TFT_TRAIN]);
}

/* Adds the id, unless the schema has an input of it, and the calendar. */
static enum halay_status add_all_own(const struct tft_preset_scan *s, const struct habit *habit,
                                     const struct tft_schema *probe, int has_id, json_t *inputs)
{
    const int64_t end = tft_preset_training_end(s, probe, s->last);
    enum halay_status status = HALAY_OK;
    size_t count = 0;

    if (!has_id && !tft_preset_says(json_object_get(inputs, s->id), "column", s->id))
        status = add_own(s, s->id,
                         json_pack("{ss ss ss sb}", "from", "id", "role", "static", "type", "category", "unknown", 1),
                         inputs);
    for (size_t i = 0; habit->calendar[i] && !status; i++) {
        if (!has_two_cycles(s, habit->calendar[i], end))
            continue;
        status =
            add_own(s, habit->calendar[i],
                    json_pack("{ss ss ss}", "calendar", habit->calendar[i], "role", "known", "per", "all"), inputs);
        count++;
    }
    return status || count ? status : add_waves(s, probe, end, inputs);
}

/* Makes the inputs: targets, the other given inputs, the id unless it is given (has_id) or unwanted, the calendar. */
static enum halay_status make_inputs(const struct tft_preset_scan *s, const struct habit *habit,
                                     const struct tft_schema *probe, int has_id, json_t **made)
{
    json_t *inputs = json_object(), *given;
    const char *name;

    if (s->y) {
        json_t *target = json_pack("{ss ss}", "column", s->y, "role", "target");
        json_object_set_new(inputs, s->y, complete_input(target));
        json_decref(target);
    }
    json_object_foreach(json_object_get(s->given, "inputs"), name, given) {
        if (s->y && !strcmp(name, s->y) && json_is_object(given)) {
            halay_error(s->log, "%s: input '%s' has the target's name; rename it, or set 'role: target'", s->where,
                        name);
            json_decref(inputs);
            return HALAY_ERR_FORMAT;
        }
        has_id |= tft_preset_says(given, "from", "id");
        json_object_set_new(inputs, name, complete_input(given));
    }
    enum halay_status status = add_all_own(s, habit, probe, has_id, inputs);
    if (status)
        json_decref(inputs);
    else
        *made = inputs;
    return status;
}

/* Makes "< 2017-08-01 00:00:00": the moment n steps after the first. */
static json_t *make_bound(const struct tft_preset_scan *s, const char *relation, int64_t n)
{
    char time[32];

    tft_preset_print_moment(s, tft_period_add(&s->every, s->first, n), time);
    return json_sprintf("%s %s", relation, time);
}

/* Lengths of the series, in steps. */
struct lengths {
    size_t count, least, most, sum;
    size_t trained;              /* series that have a window before the horizons that are held back */
    size_t shorter;              /* series without a window */
    int64_t first_end, last_end; /* moments of last rows */
};

/* Returns the end of the series of moments that begins at `first`, and its length in steps. */
static size_t end_of_series(const struct tft_preset_scan *s, size_t first, size_t *rows)
{
    const size_t last = tft_preset_series_end(s, first);

    *rows = (size_t)tft_period_between(&s->every, s->moments[first].time, s->moments[last - 1].time) + 1;
    return last;
}

/* Measures the series. parts: the minimum number of horizons that are held back. */
static struct lengths find_lengths(const struct tft_preset_scan *s, size_t horizon, size_t parts)
{
    const size_t held = (parts + 1) * horizon;
    struct lengths l = { .least = SIZE_MAX };

    for (size_t first = 0, last, rows; first < s->count; first = last) {
        last = end_of_series(s, first, &rows);
        const int64_t end = s->moments[last - 1].time;
        l.least = rows < l.least ? rows : l.least;
        l.most = rows > l.most ? rows : l.most;
        l.sum += rows;
        l.trained += rows > held;
        l.shorter += rows <= horizon;
        l.first_end = !l.count || end < l.first_end ? end : l.first_end;
        l.last_end = !l.count || end > l.last_end ? end : l.last_end;
        l.count++;
    }
    return l;
}

/* Returns the largest number of past steps, up to `most`, that half of the series with more than `held` rows have
 * before these; at least one. From a past much shorter than the encoder a model learns little: its estimate of a
 * series' level and spread is noise. 0: out of memory. */
static size_t find_common_past(const struct tft_preset_scan *s, size_t held, size_t most)
{
    size_t *pasts = calloc(most + 1, sizeof *pasts), count = 0, shorter = 0, least = 1;

    for (size_t first = 0, rows; pasts && first < s->count;) {
        first = end_of_series(s, first, &rows);
        if (rows <= held)
            continue;
        pasts[rows - held < most ? rows - held : most]++;
        count++;
    }
    if (!pasts)
        return 0;
    while (count && least < most && 2 * (shorter += pasts[least]) <= count)
        least++;
    free(pasts);
    return least;
}

/* Returns nonzero if moments split the series badly: they end at different times, or one is mostly in the rows that are
 * held back. */
static int is_ragged(const struct tft_preset_scan *s, const struct lengths *l, size_t horizon, int64_t held)
{
    return (int64_t)l->least < 2 * held || tft_period_between(&s->every, l->first_end, l->last_end) > (int64_t)horizon;
}

/* Returns nonzero if a series is long enough to learn parameters of its own. Of short ones a model memorizes the rows:
 * the loss in validation rises after a few passes. */
static int learns_id(const struct lengths *l, size_t horizon)
{
    return l->sum >= HORIZONS_OF_ID * horizon * l->count;
}

/* Returns the column of the only target, if its window scales it, or NULL. */
static const char *scaled_target(const json_t *inputs)
{
    const char *name, *column = NULL;
    json_t *input;

    json_object_foreach((json_t *)inputs, name, input) {
        if (!tft_preset_says(input, "role", "target"))
            continue;
        if (column || !tft_preset_says(input, "per", "window"))
            return NULL;
        column = json_string_value(json_object_get(input, "column"));
    }
    return column;
}

/* Adds the target's past on a scale of all series where they have no parameters of their own: a window's scale removes
 * how large a series is among all, and how much it changes for its size. */
static enum halay_status add_size(const struct tft_preset_scan *s, const struct lengths *l, size_t horizon,
                                  json_t *inputs)
{
    const char *column = scaled_target(inputs);

    if (!column || l->count < SERIES_OF_SIZE || learns_id(l, horizon))
        return HALAY_OK;
    return add_own(
        s, "size",
        json_pack("{ss ss ss ss}", "column", column, "role", "observed", "fill", "interpolate", "per", "all"), inputs);
}

static json_t *last_horizons(size_t n)
{
    return n == 1 ? json_string("last horizon") : json_sprintf("last %zu horizons", n);
}

/* Reports that the rows are too few. */
static enum halay_status too_short(const struct tft_preset_scan *s, const struct lengths *l, size_t horizon,
                                   size_t needed, int has_test)
{
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "the table's longest series has %zu steps (%s each); for a horizon of %zu it needs %zu%s (or give a "
        "shorter horizon)",
        l->most, s->every_text, horizon, needed, has_test ? " with a test" : "");
}

/* Returns nonzero if the series are too short to hold rows back. */
static int trains_on_all(const struct lengths *l, int has_test)
{
    return 10 * l->trained < l->count && !has_test;
}

/* Makes the split. The last tenth of the rows is for validation; if a test is requested, it is for that, and the tenth
 * before it for validation. Each is at least a horizon. Where that leaves few series a window to train on, all rows are
 * for training, unless a test is requested. */
static enum halay_status make_split(const struct tft_preset_scan *s, const struct lengths *l, size_t horizon,
                                    int has_test, json_t **split)
{
    const int64_t steps = tft_period_between(&s->every, s->first, s->last) + 1;
    const int64_t tenth = steps / 10, held = tenth > (int64_t)horizon ? tenth : (int64_t)horizon;

    if (l->most <= horizon || (has_test && !l->trained))
        return too_short(s, l, horizon, has_test ? 3 * horizon + 1 : horizon + 1, has_test);
    if (trains_on_all(l, has_test)) {
        halay_warning(s->log, "the series are too short to hold a horizon of %zu back: no rows validate the training",
                      horizon);
        *split = json_pack("{so}", "train", make_bound(s, "<=", steps - 1));
        return HALAY_OK;
    }
    if (10 * l->trained < l->count)
        halay_warning(s->log,
                      "%zu of %zu series have more than the %zu steps of a window, a validation and a test: the others "
                      "are not trained on; without --test more of them are",
                      l->trained, l->count, 3 * horizon);
    if (l->count > 1 && is_ragged(s, l, horizon, held)) {
        const size_t n = l->sum / l->count / 10 / horizon;
        *split = json_pack("{so so*}", "valid", last_horizons(n ? n : 1), "test",
                           has_test ? last_horizons(n ? n : 1) : NULL);
    } else if (has_test) {
        *split = json_pack("{so so so}", "train", make_bound(s, "<", steps - 2 * held), "valid",
                           make_bound(s, "<", steps - held), "test", make_bound(s, "<=", steps - 1));
    } else {
        *split =
            json_pack("{so so}", "train", make_bound(s, "<", steps - held), "valid", make_bound(s, "<=", steps - 1));
    }
    return HALAY_OK;
}

/* Shortens a horizon of the preset's own that is too long for all series: so that rows can be held back, if
 * possible. */
static size_t fit_horizon(const struct tft_preset_scan *s, size_t horizon, size_t parts)
{
    const size_t most = find_lengths(s, horizon, parts).most, shorter = (most - 1) / (parts + 1);

    if (most > horizon)
        return horizon;
    halay_warning(s->log, "the longest series has %zu steps: the horizon is %zu, not %zu (give another one)", most,
                  shorter ? shorter : 1, horizon);
    return shorter ? shorter : 1;
}

static void warn_of_short(const struct tft_preset_scan *s, const struct lengths *l, size_t horizon)
{
    if (l->shorter)
        halay_warning(s->log,
                      "%zu of %zu series have no more steps than the horizon, %zu: the model does not learn from them, "
                      "and forecasts them by what it learns from the others",
                      l->shorter, l->count, horizon);
}

/* Returns a number of the given window, or the default. */
static size_t steps_of(const struct tft_preset_scan *s, const char *key, size_t otherwise)
{
    json_int_t steps = json_integer_value(json_object_get(json_object_get(s->given, "window"), key));

    return steps > 0 ? (size_t)steps : otherwise;
}

/* Makes the window. held: rows of a series that are not for training. */
static json_t *make_window(const struct tft_preset_scan *s, size_t encoder, size_t horizon, size_t held)
{
    const size_t half = encoder / 2, part = horizon - horizon / 4, most = half < part ? half : part;
    const size_t least = find_common_past(s, held, most ? most : 1);
    json_t *window = least ? json_pack("{sI sI sI}", "encoder", (json_int_t)encoder, "horizon", (json_int_t)horizon,
                                       "min_encoder", (json_int_t)least)
                           : NULL;

    if (window)
        json_object_update(window, json_object_get(s->given, "window"));
    return window;
}

/* Chooses the steps of the past: of whole numbers a week of hours or two seasons; of months two and a half horizons at
 * least; of others no more than these and a third of the steps that half of the series have before the rows that are
 * held back: a model that has hardly seen two such pasts, one after the other, knows one level. probe: its seasons;
 * NULL: unknown so far. */
static size_t choose_encoder(const struct tft_preset_scan *s, size_t habit, const struct tft_schema *probe,
                             size_t horizon, size_t held)
{
    enum { FROM = 24, WEEK = 168 };
    const size_t season = probe && probe->season_count ? probe->seasons[0] : 1;
    const size_t horizons = 2 * horizon + (horizon + 1) / 2;

    if (s->counts && season >= FROM)
        return 2 * season > WEEK ? 2 * season : WEEK;
    if (s->every.kind == TFT_PERIOD_MONTHS && s->every.count < 12)
        return habit < horizons ? horizons : habit;
    const size_t third = find_common_past(s, held, 3 * habit) / 3, past = horizons < third ? third : horizons;
    return past < habit ? past : habit;
}

/* Returns nonzero if the rows skip the same hours of each day or days of each week: then most of the steps may be
 * without a row. */
static int has_pauses(const struct tft_preset_scan *s)
{
    enum { SLOTS_MOST = TFT_WEEK / TFT_MINUTE };
    const size_t slots = (size_t)(TFT_WEEK / s->every.count);
    size_t rows[SLOTS_MOST] = { 0 }, most = 0, used = 0;

    if (s->every.kind != TFT_PERIOD_SECONDS || s->every.count >= TFT_DAY || slots > SLOTS_MOST)
        return 0;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t in_week = (s->moments[i].time % TFT_WEEK + TFT_WEEK) % TFT_WEEK;
        size_t *slot = &rows[(size_t)(in_week / s->every.count) % slots];
        ++*slot;
        most = *slot > most ? *slot : most;
    }
    for (size_t i = 0; i < slots; i++)
        used += 4 * rows[i] >= most;
    const size_t all = tft_preset_count_steps(s, &s->every);
    return 4 * used <= 3 * slots && 2 * s->count < all && 2 * s->count >= all / slots * used;
}

/* Copies the given schema's other settings. */
static void take_given(const struct tft_preset_scan *s, json_t *document)
{
    static const char *const keys[] = { "name", "season", "duplicates", "active", "gaps", "resample", "csv" };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(s->given, keys[i]))
            json_object_set(document, keys[i], json_object_get(s->given, keys[i]));
    if (json_object_get(json_object_get(s->given, "resample"), "every")) { /* with that, it is the step of the rows */
        json_object_del(document, "every");
        if (json_object_get(s->given, "every"))
            json_object_set(document, "every", json_object_get(s->given, "every"));
    }
    if (s->separator && s->separator != ',' && !json_object_get(document, "csv")) {
        const int has_decimals = (s->marks & TFT_MARK_COMMA) && !(s->marks & TFT_MARK_POINT);
        halay_warning(s->log, "columns are separated by %s%s", s->separator == '\t' ? "tabs" : "semicolons",
                      has_decimals ? ", and numbers are read with decimal commas" : "");
        json_object_set_new(document, "csv",
                            json_pack("{ss# ss}", "separator", &s->separator, 1, "decimal", has_decimals ? "," : "."));
    }
    if (s->resamples)
        json_object_set_new(document, "resample", json_pack("{ss ss}", "every", "1M", "how", "last"));
    if (!json_object_get(document, "duplicates")) /* where clocks are set back, tables as published have two rows */
        json_object_set_new(document, "duplicates", json_string("mean"));
    if (s->zone)
        json_object_set(document, "zone", s->zone_document);
    if (json_object_get(document, "gaps") || !has_pauses(s))
        return;
    halay_warning(s->log, "the rows skip the same hours of each day or week; the steps of %s between them are filled",
                  s->every_text);
    json_object_set_new(document, "gaps", json_string("fill"));
}

/* Makes everything but the inputs, which depend on the end of training: a schema with minimal inputs determines
 * that. */
static json_t *make_document(const struct tft_preset_scan *s, json_t *window, json_t *split)
{
    json_t *time = s->counts ? json_pack("{ss sb}", "column", s->ds, "integer", 1)
                             : json_pack("{ss ss*}", "column", s->ds, "format", s->format);
    json_t *inputs = json_pack("{s{ss ss} s{s{si} ss}}", "target", "column", s->y ? s->y : "y", "role", "target",
                               "known", "fourier", "period", 2, "role", "known");
    json_t *document =
        json_pack("{ss s{ss} so ss so so so}", "name", "long", "id", s->id_constant ? "constant" : "column",
                  s->id_constant ? s->id_constant : s->id, "time", time, "every", s->every_text, "inputs", inputs,
                  "window", window, "split", split);

    if (document)
        take_given(s, document);
    return document;
}

/* Finds the seasons in the rows if the schema does not have them. */
static enum halay_status find_seasons(struct tft_preset_scan *s, struct tft_schema *probe, json_t *document)
{
    size_t seasons[TFT_PERIOD_SEASONS], count;
    char text[64] = "";

    if (!s->counts || !s->season_is_unknown)
        return HALAY_OK;
    enum halay_status status = tft_preset_find_seasons(s, probe, seasons, &count);
    if (status || !count)
        return status;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_integer((json_int_t)seasons[i]));
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", i ? "," : "", seasons[i]);
        probe->seasons[i] = seasons[i];
    }
    probe->season_count = count;
    json_object_set_new(document, "season", list);
    halay_warning(s->log, "season %s, found in the rows; --season (in a schema, 'season') overrides it", text);
    return HALAY_OK;
}

enum halay_status tft_preset_make_schema(struct tft_preset_scan *s, const struct tft_preset *preset,
                                         struct tft_schema *schema)
{
    const struct habit habit = habit_of(s);
    const size_t parts = preset->has_test ? 2 : 1, given = steps_of(s, "horizon", preset->horizon);
    const size_t horizon = given ? given : fit_horizon(s, habit.horizon, parts);
    const size_t given_past = steps_of(s, "encoder", preset->encoder);
    const struct lengths lengths = find_lengths(s, horizon, parts);
    json_t *split = json_incref(json_object_get(s->given, "split")), *inputs = NULL;
    struct tft_schema probe;
    enum halay_status status = split ? HALAY_OK : make_split(s, &lengths, horizon, preset->has_test, &split);

    if (status)
        return status;
    warn_of_short(s, &lengths, horizon);
    const size_t held = trains_on_all(&lengths, preset->has_test) ? horizon : (parts + 1) * horizon;
    size_t encoder = given_past ? given_past : choose_encoder(s, habit.encoder, NULL, horizon, held);
    json_t *document = make_document(s, make_window(s, encoder, horizon, held), split);
    if (!document)
        return halay_no_memory(s->log, "for the schema");
    status = tft_schema_init(s->log, s->where, document, &probe);
    if (!status) {
        status = find_seasons(s, &probe, document);
        if (s->counts && !given_past) {
            encoder = choose_encoder(s, habit.encoder, &probe, horizon, held);
            json_object_set_new(document, "window", make_window(s, encoder, horizon, held));
        }
        status = status ? status : make_inputs(s, &habit, &probe, !learns_id(&lengths, horizon), &inputs);
        tft_schema_fini(&probe);
    }
    if (!status) {
        json_object_set_new(document, "inputs", inputs);
        status = add_size(s, &lengths, horizon, inputs);
    }
    if (!status)
        status = tft_schema_init(s->log, s->where, document, schema);
    json_decref(document);
    return status;
}

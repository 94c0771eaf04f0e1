/* SPDX-License-Identifier: Apache-2.0
 *
 * Spaces: read, and between points and values. Whether a value is one of its key is asked of the library.
 */
#include "tft/tools/tune/space.h"
#include "base/document.h"
#include "halay_tft.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys that say how long and on what a trial runs, by which trials must be alike, or which the search sets itself. */
static const char *const fixed[] = { "epochs",    "max_steps",  "max_time",      "train_samples", "valid_samples",
                                     "patience",  "eval_every", "threads",       "keep",          "log",
                                     "health",    "device",     "deterministic", "seed",          "checkpoint_every",
                                     "init_from", "members" };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static enum halay_status refuse_key(struct halay_log *log, const char *name, const char *key, const char *what)
{
    halay_error(log, "space '%s', key '%s': %s", name, key, what);
    return HALAY_ERR_CONFIG;
}

/* Checks that it is a value of the key. */
static enum halay_status check_value(struct halay_log *log, const char *name, const char *key, const json_t *value)
{
    json_t *keys = json_object();
    char where[256], *text = NULL, *config = NULL;
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    snprintf(where, sizeof where, "space '%.200s'", name);
    if (keys && !json_object_set_new(keys, key, json_deep_copy(value)))
        text = json_dumps(keys, JSON_COMPACT);
    if (text)
        status = halay_tft_config_add(NULL, where, text, &config);
    if (status)
        halay_error(log, "%s", text ? halay_tft_error_text() : "no memory for a space");
    halay_tft_free(config);
    free(text);
    json_decref(keys);
    return status == HALAY_ERR_UNSUPPORTED ? HALAY_ERR_CONFIG : status;
}

static int is_whole_key(const json_t *keys, const char *name)
{
    const json_t *key;
    size_t i;

    json_array_foreach(keys, i, key)
        if (!strcmp(json_string_value(json_object_get(key, "name")), name))
            return !strcmp(json_string_value(json_object_get(key, "kind")), "whole");
    return 0;
}

static enum halay_status read_range(struct halay_log *log, const char *name, const json_t *range, struct tft_setting *s)
{
    const json_t *from = json_object_get(range, "from"), *to = json_object_get(range, "to"), *other;
    const json_t *scale = json_object_get(range, "scale");
    const char *word;

    json_object_foreach((json_t *)range, word, other)
        if (strcmp(word, "from") != 0 && strcmp(word, "to") != 0 && strcmp(word, "scale") != 0)
            return refuse_key(log, name, s->name, "a range has 'from', 'to' and perhaps 'scale', nothing else");
    if (!json_is_number(from) || !json_is_number(to))
        return refuse_key(log, name, s->name, "a range has numbers 'from' and 'to'");
    word = scale ? json_string_value(scale) : "linear";
    if (!word || (strcmp(word, "linear") != 0 && strcmp(word, "log") != 0))
        return refuse_key(log, name, s->name, "a range's 'scale' is linear or log");
    s->is_range = s->is_ordered = 1;
    s->is_log = word[1] == 'o';
    s->from = json_number_value(from);
    s->to = json_number_value(to);
    if (!(s->from < s->to))
        return refuse_key(log, name, s->name, "'from' has to be less than 'to'");
    if (s->is_log && !(s->from > 0))
        return refuse_key(log, name, s->name, "a range of scale log begins above 0");
    if (s->is_whole && (s->from != floor(s->from) || s->to != floor(s->to)))
        return refuse_key(log, name, s->name, "its range goes from a whole number to a whole number");
    enum halay_status status = check_value(log, name, s->name, from);
    return status ? status : check_value(log, name, s->name, to);
}

static enum halay_status read_choices(struct halay_log *log, const char *name, const json_t *choices,
                                      struct tft_setting *s)
{
    enum halay_status status = HALAY_OK;

    s->count = json_array_size(choices);
    s->choices = choices;
    s->is_ordered = 1;
    if (s->count < 2 || s->count > TFT_CHOICES_MAX)
        return refuse_key(log, name, s->name, "a list has 2 to 64 values");
    for (size_t i = 0; i < s->count && !status; i++) {
        const json_t *value = json_array_get(choices, i), *before = json_array_get(choices, i ? i - 1 : 0);
        if (!json_is_number(value))
            s->is_ordered = 0;
        else if (i && json_is_number(before) && !(json_number_value(before) < json_number_value(value)))
            return refuse_key(log, name, s->name, "numbers of a list ascend");
        status = check_value(log, name, s->name, value);
    }
    return status;
}

static enum halay_status read_setting(struct halay_log *log, const char *name, const json_t *keys, const char *key,
                                      const json_t *values, struct tft_space *space)
{
    struct tft_setting *s = &space->settings[space->count];

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strcmp(key, fixed[i]))
            return refuse_key(log, name, key, "all trials have to have the same: give it on the command line");
    if (space->count == TFT_SETTINGS_MAX)
        return refuse_key(log, name, key, "one key too many: at most 24 are searched");
    space->count++;
    s->name = key;
    s->is_whole = is_whole_key(keys, key);
    if (json_is_array(values))
        return read_choices(log, name, values, s);
    if (json_is_object(values))
        return read_range(log, name, values, s);
    return refuse_key(
        log, name, key,
        "a list of values is wanted, or a range {from: X, to: Y, scale: log}; a single value belongs on the "
        "command line");
}

enum halay_status tft_space_take(struct halay_log *log, const char *name, json_t *document, struct tft_space *space)
{
    const char *key;
    const json_t *values;
    char *text = NULL;
    enum halay_status status = halay_tft_keys(&text);
    json_t *keys = status ? NULL : json_loads(text, 0, NULL);

    *space = (struct tft_space){ .document = document };
    halay_tft_free(text);
    if (!keys) {
        halay_error(log, "no memory for a space");
        return HALAY_ERR_NO_MEMORY;
    }
    json_object_foreach(document, key, values) {
        status = read_setting(log, name, keys, key, values, space);
        if (status)
            break;
    }
    json_decref(keys);
    if (!status && !space->count) {
        halay_error(log, "space '%s' has no key to search", name);
        status = HALAY_ERR_CONFIG;
    }
    return status;
}

enum halay_status tft_space_read(struct halay_log *log, const char *path, struct tft_space *space)
{
    json_t *document = NULL;
    enum halay_status status = halay_document_load(log, path, NULL, &document);

    *space = (struct tft_space){ 0 };
    return status ? status : tft_space_take(log, path, document, space);
}

void tft_space_fini(struct tft_space *space)
{
    json_decref(space->document);
    *space = (struct tft_space){ 0 };
}

int tft_space_has(const struct tft_space *space, const char *name)
{
    for (size_t i = 0; i < space->count; i++)
        if (!strcmp(space->settings[i].name, name))
            return 1;
    return 0;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static double clamp_to(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

/* The ends of a range's coordinate: a whole number has half a step to each side, so that the ends are as likely. */
static double end_of(const struct tft_setting *s, int is_upper)
{
    double end = is_upper ? s->to + (s->is_whole ? 0.5 : 0) : s->from - (s->is_whole ? 0.5 : 0);

    return s->is_log ? log(end) : end;
}

static double range_value(const struct tft_setting *s, double coordinate)
{
    double low = end_of(s, 0), value = low + coordinate * (end_of(s, 1) - low);

    value = s->is_log ? exp(value) : value;
    if (s->is_whole) {
        value = round(value);
    } else if (value != 0) {
        double digits = pow(10, 2 - floor(log10(fabs(value))));
        value = round(value * digits) / digits;
    }
    return clamp_to(value, s->from, s->to);
}

static double range_coordinate(const struct tft_setting *s, double value)
{
    double low = end_of(s, 0);

    return clamp_to(((s->is_log ? log(value) : value) - low) / (end_of(s, 1) - low), 0, 1);
}

static size_t choice_at(const struct tft_setting *s, double coordinate)
{
    double place = s->is_ordered ? floor(coordinate * (double)s->count) : coordinate;

    return (size_t)clamp_to(place, 0, (double)(s->count - 1));
}

static double choice_coordinate(const struct tft_setting *s, size_t place)
{
    return s->is_ordered ? ((double)place + 0.5) / (double)s->count : (double)place;
}

void tft_space_snap(const struct tft_space *space, double *point)
{
    for (size_t i = 0; i < space->count; i++) {
        const struct tft_setting *s = &space->settings[i];
        point[i] =
            s->is_range ? range_coordinate(s, range_value(s, point[i])) : choice_coordinate(s, choice_at(s, point[i]));
    }
}

json_t *tft_space_keys(const struct tft_space *space, const double *point)
{
    json_t *keys = json_object();
    int failed = !keys;

    for (size_t i = 0; i < space->count && !failed; i++) {
        const struct tft_setting *s = &space->settings[i];
        json_t *value;
        if (!s->is_range)
            value = json_deep_copy(json_array_get(s->choices, choice_at(s, point[i])));
        else if (s->is_whole)
            value = json_integer((json_int_t)range_value(s, point[i]));
        else
            value = json_real(range_value(s, point[i]));
        failed = json_object_set_new(keys, s->name, value);
    }
    if (!failed)
        return keys;
    json_decref(keys);
    return NULL;
}

static int find_choice(const struct tft_setting *s, const json_t *value, size_t *place)
{
    for (*place = 0; *place < s->count; ++*place) {
        const json_t *choice = json_array_get(s->choices, *place);
        if (json_is_number(choice) && json_is_number(value) ? json_number_value(choice) == json_number_value(value)
                                                            : json_equal(choice, value))
            return 1;
    }
    return 0;
}

int tft_space_point(const struct tft_space *space, const json_t *keys, double *point)
{
    for (size_t i = 0; i < space->count; i++) {
        const struct tft_setting *s = &space->settings[i];
        const json_t *value = json_object_get(keys, s->name);
        size_t place = 0;
        if (s->is_range) {
            double number = json_number_value(value);
            if (!json_is_number(value) || number < s->from || number > s->to)
                return 0;
            point[i] = range_coordinate(s, number);
        } else if (!find_choice(s, value, &place)) {
            return 0;
        } else {
            point[i] = choice_coordinate(s, place);
        }
    }
    return 1;
}

/* The number of values of a key; infinite for a range of reals. */
static double value_count(const struct tft_setting *s)
{
    return !s->is_range ? (double)s->count : s->is_whole ? s->to - s->from + 1 : INFINITY;
}

size_t tft_space_size(const struct tft_space *space, size_t most)
{
    double size = 1;

    for (size_t i = 0; i < space->count; i++)
        size *= value_count(&space->settings[i]);
    return size < (double)most ? (size_t)size : most;
}

void tft_space_point_at(const struct tft_space *space, size_t index, double *point)
{
    for (size_t i = space->count; i-- > 0;) {
        const struct tft_setting *s = &space->settings[i];
        const size_t count = (size_t)value_count(s), place = index % count;
        point[i] = s->is_range ? range_coordinate(s, s->from + (double)place) : choice_coordinate(s, place);
        index /= count;
    }
}

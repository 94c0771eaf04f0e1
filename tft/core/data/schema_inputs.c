/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of a schema: each is read, checked as a whole, and then expanded to what the model sees.
 */
#include "tft/core/data/csv.h"
#include "tft/core/data/paths.h"
#include "tft/core/data/schema.h"
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tft_role_traits tft_roles[] = {
    { "target", .is_variable = 1, .model = TFT_TARGET },
    { "known", .is_variable = 1, .is_known_ahead = 1, .model = TFT_KNOWN },
    { "observed", .is_variable = 1, .model = TFT_OBSERVED },
    { "static", .is_variable = 1, .is_constant = 1, .model = TFT_STATIC },
    { .name = "weight" },
};
_Static_assert(sizeof tft_roles / sizeof *tft_roles == TFT_INPUT_ROLES, "each role has a row");

/* An input as the document has it. */
struct given {
    struct tft_input input;
    const char *from;
    size_t most; /* days */
    int cyclic, missing_indicator;
    const json_t *lags, *missing_number;
    size_t terms; /* of a Fourier series */
};

#define AT(member) offsetof(struct given, member)
#define DAYS TFT_WORDS("none", "until", "since")
#define ROLES TFT_WORDS("target", "known", "observed", "static", "weight")
#define TYPES TFT_WORDS("real", "category")
#define SCALES TFT_WORDS("none", "standard", "robust", "log1p-standard")
#define PERS TFT_WORDS("entity", "all", "window")
#define TRANSFORMS TFT_WORDS("none", "log", "log1p")

static const struct tft_member members[] = {
    TFT_MEMBER("column", TEXT_OR_EMPTY, AT(input.column)),
    TFT_KEY("calendar"),
    TFT_KEY("holiday"),
    TFT_MEMBER("days", WORD, AT(input.days), .words = DAYS),
    TFT_MEMBER("most", STEPS, AT(most), .most = TFT_HOLIDAY_DAYS_MAX),
    TFT_KEY("fourier"),
    TFT_MEMBER("from", TEXT, AT(from)),
    TFT_MEMBER("role", WORD, AT(input.role), .words = ROLES,
               .missing = "given: target, known, observed, static or weight"),
    TFT_MEMBER("type", WORD, AT(input.is_category), .words = TYPES),
    TFT_KEY("fill"),
    TFT_MEMBER("scale", WORD, AT(input.scale), .words = SCALES),
    TFT_MEMBER("per", WORD, AT(input.per), .words = PERS),
    TFT_KEY("relative_to"),
    TFT_MEMBER("blend", WORD, AT(input.blend), .words = TFT_WORDS("none", "season")),
    TFT_MEMBER("missing_indicator", TRUTH, AT(missing_indicator)),
    TFT_MEMBER("lags", VALUE, AT(lags)),
    TFT_MEMBER("cyclic", TRUTH, AT(cyclic)),
    TFT_MEMBER("unknown", TRUTH, AT(input.unknown)),
    TFT_MEMBER("map", VALUE, AT(input.map)),
    TFT_MEMBER("transform", WORD, AT(input.transform), .words = TRANSFORMS),
    TFT_MEMBER("missing_number", VALUE, AT(missing_number)),
    TFT_MEMBERS_END,
};

#define OF(member) offsetof(struct tft_input, member)

/* An input as the schema lists it. */
static const struct tft_member listed[] = {
    TFT_MEMBER("role", WORD, OF(role), .words = ROLES),
    TFT_MEMBER("type", WORD, OF(is_category), .words = TYPES),
    TFT_MEMBER("source", WORD, OF(source), .words = TFT_WORDS("column", "calendar", "holidays", "fourier", "id")),
    TFT_MEMBER("derivation", WORD, OF(derivation), .words = TFT_WORDS("none", "lag", "missing", "sine", "cosine")),
    TFT_MEMBER("base", STEPS, OF(base)),
    TFT_MEMBER("lag", STEPS, OF(lag)),
    TFT_MEMBER("column", TEXT, OF(column)),
    TFT_MEMBER("calendar", WORD, OF(calendar), .words = tft_calendar_names),
    TFT_MEMBER("days", WORD, OF(days), .words = DAYS),
    TFT_MEMBER("most", WHOLE, OF(days_most)),
    TFT_MEMBER("period", REAL, OF(period)),
    TFT_MEMBER("period_in_steps", TRUTH, OF(period_in_steps)),
    TFT_MEMBER("harmonic", STEPS, OF(harmonic)),
    TFT_MEMBER("map", VALUE, OF(map)),
    TFT_MEMBER("transform", WORD, OF(transform), .words = TRANSFORMS),
    TFT_MEMBER("fill", WORD, OF(fill), .words = TFT_WORDS("none", "drop", "forward", "interpolate", "constant")),
    TFT_MEMBER("scale", WORD, OF(scale), .words = SCALES),
    TFT_MEMBER("per", WORD, OF(per), .words = PERS),
    TFT_MEMBERS_END,
};

json_t *tft_input_json(const struct tft_input *input)
{
    json_t *object = tft_members_write(listed, input);

    json_object_set_new(object, "name", json_string(input->name));
    if (input->has_missing_number)
        json_object_set_new(object, "missing_number", json_real(input->missing_number));
    return object;
}

/* {holiday: {DAY: NAME}}, as an input's key or as its calendar. */
static const json_t *holidays_of(const json_t *object)
{
    const json_t *calendar = json_object_get(object, "calendar");

    return json_object_get(json_is_object(calendar) ? calendar : object, "holiday");
}

static enum halay_status read_holidays(const struct tft_where *w, const json_t *object, struct tft_input *input)
{
    const json_t *holidays = holidays_of(object);

    if (!json_is_object(holidays))
        return tft_where_wrong(w, "holiday", "the name of a CSV file, or days and their names");
    input->source = TFT_FROM_HOLIDAYS;
    return tft_holidays_init(w->log, w->text, holidays, &input->holidays);
}

/* Reads "365.25 days", "24h"; a number is one of steps. */
static int read_period(const json_t *value, struct tft_input *input)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = { { "s", 1 },     { "min", 60 },     { "h", 3600 },   { "hours", 3600 },
                  { "d", 86400 }, { "days", 86400 }, { "w", 604800 }, { "weeks", 604800 } };
    const char *text = json_string_value(value), *unit;
    char number[32];

    input->period_in_steps = json_is_number(value);
    input->period = json_number_value(value);
    if (!text)
        return input->period >= 2 || input->period == 1;
    size_t n = strspn(text, "0123456789.");
    if (!n || n >= sizeof number)
        return 0;
    memcpy(number, text, n);
    number[n] = 0;
    unit = text + n + strspn(text + n, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name) && tft_number_parse(number, '.', &input->period)) {
            input->period *= units[i].seconds;
            return input->period >= 2 && input->period < 1e12;
        }
    return 0;
}

static const struct tft_member fourier_members[] = {
    TFT_KEY("period"),
    TFT_MEMBER("terms", STEPS, AT(terms), .most = TFT_WAVE_TERMS_MAX),
    TFT_MEMBERS_END,
};

static enum halay_status read_fourier(const struct tft_where *outer, const struct tft_schema *s, const json_t *object,
                                      struct given *g)
{
    const struct tft_where w = tft_where_inside(outer, "fourier", NULL);

    g->input.source = TFT_FROM_WAVE;
    g->terms = 1;
    enum halay_status status = tft_section_read(outer, object, "fourier", 1, fourier_members, g);
    if (status)
        return status;
    const json_t *period = json_object_get(json_object_get(object, "fourier"), "period");
    if (read_period(period, &g->input) && (!tft_schema_counts(s) || g->input.period_in_steps))
        return HALAY_OK;
    return tft_where_wrong(&w, "period",
                           tft_schema_counts(s)
                               ? "a number of steps, at least 2"
                               : "a time like \"365.25 days\", \"24h\", \"15min\", or a number of steps, at least 2");
}

/* Reads the source of an input's values: exactly one of column, calendar, holiday, fourier, from. */
static enum halay_status read_source(const struct tft_where *w, const struct tft_schema *s, const json_t *object,
                                     struct given *g)
{
    const struct tft_member calendar = TFT_MEMBER("calendar", WORD, AT(input.calendar), .words = tft_calendar_names);
    const int has_holidays = holidays_of(object) != NULL, is_wave = json_object_get(object, "fourier") != NULL;
    struct tft_input *input = &g->input;
    enum halay_status status = HALAY_OK;

    if (!json_is_object(json_object_get(object, "calendar")))
        status = tft_member_read(w, object, &calendar, g);
    if (status)
        return status;
    if (!!input->column + !!input->calendar + has_holidays + is_wave + !!g->from != 1 ||
        (g->from && strcmp(g->from, "id")))
        return halay_fail(w->log, HALAY_ERR_CONFIG,
                          "%s: give one of 'column: NAME', 'calendar: NAME' (hour, day_of_week, ...), 'holiday: FILE', "
                          "'fourier: {period: 365.25 days, terms: 3}', 'from: id'",
                          w->text);
    if (has_holidays)
        return read_holidays(w, object, input);
    if (is_wave)
        return read_fourier(w, s, object, g);
    input->source = g->from ? TFT_FROM_ID : input->calendar ? TFT_FROM_CALENDAR : TFT_FROM_COLUMN;
    return HALAY_OK;
}

static enum halay_status read_fill(const struct tft_where *w, const json_t *object, struct given *g)
{
    const struct tft_member word =
        TFT_MEMBER("fill", WORD, AT(input.fill), .words = TFT_WORDS("none", "drop", "forward", "interpolate"));
    const json_t *fill = json_object_get(object, "fill"), *constant = json_object_get(fill, "constant");
    struct tft_input *input = &g->input;

    if (json_is_object(fill)) {
        if (json_object_size(fill) != 1 || (input->is_category ? !json_is_string(constant) : !json_is_number(constant)))
            return tft_where_wrong(w, "fill",
                                   input->is_category ? "none, drop, forward or {constant: TEXT}"
                                                      : "none, drop, forward, interpolate or {constant: NUMBER}");
        input->fill = TFT_FILL_CONSTANT;
        input->constant = json_number_value(constant);
        input->constant_text = json_string_value(constant);
        return HALAY_OK;
    }
    enum halay_status status = tft_member_read(w, object, &word, g);
    if (!status && input->is_category && input->fill == TFT_FILL_INTERPOLATE)
        return tft_where_wrong(w, "fill", "none, drop, forward or {constant: TEXT} for a category");
    return status;
}

/* Rejects keys of older versions. Runs whose training chose 'relative_to: none' have that. */
static enum halay_status check_removed(const struct tft_where *w, const json_t *object)
{
    const char *per = json_string_value(json_object_get(object, "per"));
    const json_t *relative = json_object_get(object, "relative_to");
    const char *none = json_string_value(relative), *scale = json_string_value(json_object_get(object, "scale"));

    if (per && !strcmp(per, "auto"))
        halay_error(w->log, "%s: 'per: auto' was removed: write 'per: window', as '--preset long' does", w->text);
    else if (scale && !strcmp(scale, "minmax"))
        halay_error(w->log, "%s: 'scale: minmax' was removed: leave 'scale: standard', or write 'scale: robust'",
                    w->text);
    else if (relative && !(none && !strcmp(none, "none")))
        halay_error(w->log, "%s: 'relative_to' was removed: 'per: window' and 'blend: season' replace it", w->text);
    else
        return HALAY_OK;
    return HALAY_ERR_CONFIG;
}

/* Returns nonzero if a value is a mapping of texts to texts. */
static int maps_texts(const json_t *map)
{
    const char *key;
    json_t *to;

    json_object_foreach((json_t *)map, key, to)
        if (!json_is_string(to))
            return 0;
    return 1;
}

static int are_lags(const json_t *lags)
{
    const json_t *lag;
    size_t i;

    json_array_foreach((json_t *)lags, i, lag)
        if (!json_is_integer(lag) || json_integer_value(lag) < 1 || json_integer_value(lag) > TFT_STEPS_MAX)
            return 0;
    return 1;
}

/* A rule of an input: the key that breaks it, and what that must be. NULL: the text is a message of its own. */
struct rule {
    int is_broken;
    const char *key, *should;
};

static enum halay_status check_rules(const struct tft_where *w, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].is_broken)
            return rules[i].key ? tft_where_wrong(w, rules[i].key, rules[i].should)
                                : halay_fail(w->log, HALAY_ERR_CONFIG, "%s: %s", w->text, rules[i].should);
    return HALAY_OK;
}

/* Checks keys that the source does not matter to. */
static enum halay_status check_values(const struct tft_where *w, const json_t *object, const struct given *g)
{
    const struct tft_input *x = &g->input;
    const struct rule rules[] = {
        { x->days && x->source != TFT_FROM_HOLIDAYS, "days", "left out: it is for holidays" },
        { !x->days && json_object_get(object, "most"), "most", "left out: it limits 'days'" },
        { x->is_category && json_object_get(object, "scale") && x->scale != TFT_SCALE_NONE, "scale",
          "none for a category" },
        { x->role == TFT_INPUT_WEIGHT && x->scale != TFT_SCALE_NONE, "scale",
          "none for a weight (weights are divided by their mean)" },
        { g->missing_number && !json_is_number(g->missing_number), "missing_number", "a number" },
        { x->map && !json_is_object(x->map), "map", "a list of texts and what they become" },
        { !maps_texts(x->map), "map", "a list of texts and what they become (put numbers into quotes)" },
        { g->lags && !json_array_size(g->lags), "lags", "a list of steps like [24, 168]" },
        { !are_lags(g->lags), "lags", "a list of steps like [24, 168], each from 1 to 100000" },
    };

    return check_rules(w, rules, sizeof rules / sizeof *rules);
}

/* Checks the keys against each other. */
static enum halay_status check_input(const struct tft_where *w, const struct tft_schema *s, const struct given *g)
{
    const struct tft_input *x = &g->input;
    const int is_column = x->source == TFT_FROM_COLUMN, is_id = x->source == TFT_FROM_ID;
    const int is_wave = x->source == TFT_FROM_WAVE, is_steps = x->calendar == TFT_CALENDAR_STEPS;
    const int of_dates = !is_column && !is_id, is_real_column = is_column && !x->is_category;
    const int is_target = x->role == TFT_INPUT_TARGET, is_weight = x->role == TFT_INPUT_WEIGHT;
    const int is_static = x->role == TFT_INPUT_STATIC, is_scaled = x->scale != TFT_SCALE_NONE && !x->is_category;
    const struct rule rules[] = {
        { is_id && !x->is_category, "type", "category for the id" },
        { is_id && !is_static, "role", "static for the id" },
        { of_dates && x->role != TFT_INPUT_KNOWN, "role", "known for a calendar input" },
        { of_dates && !is_steps && !is_wave && tft_schema_counts(s), NULL,
          "time is a whole number here, so the calendar has only 'steps' and 'fourier'" },
        { is_steps && x->is_category, "type", "real for steps" },
        { (x->days || is_wave) && x->is_category, "type", "real for 'days' and 'fourier'" },
        { !is_column && x->fill, "fill", "left out: the values of this input are never missing" },
        { s->id_kind == TFT_ID_HEADER && is_column && is_static, "role",
          "any role but static where each column is an entity" },
        { (is_target || is_weight) && !is_real_column, "type", "real for a target or a weight" },
        { is_static && is_scaled && x->per != TFT_PER_ALL, "per",
          "all for a static input (an entity has one value only)" },
        { x->per == TFT_PER_WINDOW && !(is_real_column && is_scaled), "per",
          "entity or all: a window scales real columns that have a 'scale' already" },
        { x->blend && !is_target, "blend", "left out: it is for targets" },
        /* It would use values after the training span. */
        { is_weight && x->fill == TFT_FILL_INTERPOLATE, "fill",
          "none, drop, forward or {constant: NUMBER} for a weight" },
        { x->unknown && !x->is_category, "unknown", "left out: it is for categories" },
        { x->map && !x->is_category, "map", "left out: it is for categories" },
        { x->map && !is_column && !is_id, "map", "left out: it is for columns and the id" },
        { x->transform && !is_real_column, "transform", "left out: it is for real columns" },
        { g->missing_number && !is_real_column, "missing_number", "left out: it is for real columns" },
        { g->cyclic && (x->source != TFT_FROM_CALENDAR || is_steps || x->is_category), "cyclic",
          "left out: it is for real calendar inputs that come round again" },
        { g->lags && (!is_real_column || is_static || is_weight), "lags",
          "left out: they are of real columns that change with time" },
        { g->missing_indicator && (!is_column || is_weight), "missing_indicator", "left out: it is for columns" },
    };

    return check_rules(w, rules, sizeof rules / sizeof *rules);
}

static enum halay_status read_input(const struct tft_where *w, const struct tft_schema *s, const char *name,
                                    const json_t *object, struct given *g)
{
    struct tft_input *input = &g->input;
    enum halay_status status;

    if (!*name || strlen(name) > TFT_INPUT_NAME_MAX || !json_is_object(object))
        return halay_fail(w->log, HALAY_ERR_CONFIG, "%s: an input is NAME: {role: ..., ...}, its name at most %d bytes",
                          w->text, TFT_INPUT_NAME_MAX);
    const char *role = json_string_value(json_object_get(object, "role"));
    snprintf(input->name, sizeof input->name, "%s", name);
    input->scale = role && !strcmp(role, "weight") ? TFT_SCALE_NONE : TFT_SCALE_STANDARD;
    input->per = role && !strcmp(role, "static") ? TFT_PER_ALL : TFT_PER_ENTITY;
    if ((status = check_removed(w, object)) || (status = tft_members_read(w, object, members, g)) ||
        (status = read_source(w, s, object, g)) || (status = read_fill(w, object, g)) ||
        (status = check_values(w, object, g)) || (status = check_input(w, s, g)))
        return status;
    input->scale = input->is_category ? TFT_SCALE_NONE : input->scale;
    input->days_most = (int64_t)g->most;
    input->has_missing_number = g->missing_number != NULL;
    input->missing_number = json_number_value(g->missing_number);
    return HALAY_OK;
}

/* Adds an input that is derived from another one, whose name it extends. */
static enum halay_status derive_input(const struct tft_where *w, struct tft_schema *s, size_t base,
                                      enum tft_derivation derivation, size_t lag, const char *suffix)
{
    struct tft_input input = s->inputs[base];
    char name[TFT_INPUT_NAME_MAX + 33];

    if (s->input_count == TFT_INPUTS_MAX)
        return tft_where_wrong(w, "inputs", "at most 128, including those made from them");
    snprintf(name, sizeof name, "%s%s", input.name, suffix);
    if (strlen(name) > TFT_INPUT_NAME_MAX)
        return halay_fail(w->log, HALAY_ERR_CONFIG, "%s: '%s' is too long a name for the inputs made from it", w->text,
                          input.name);
    memcpy(input.name, name, strlen(name) + 1);
    input.derivation = derivation;
    input.base = base;
    input.lag = lag;
    if (derivation == TFT_WAS_MISSING) {
        input.is_category = input.unknown = 0;
        input.map = NULL;
        if (input.role == TFT_INPUT_TARGET)
            input.role = TFT_INPUT_OBSERVED;
    }
    if (derivation != TFT_LAG)
        input.scale = TFT_SCALE_NONE;
    else if (input.role != TFT_INPUT_KNOWN) /* values from before the horizon are known all through it */
        input.role = lag >= s->horizon ? TFT_INPUT_KNOWN : TFT_INPUT_OBSERVED;
    s->inputs[s->input_count++] = input;
    return HALAY_OK;
}

/* Adds a sine and a cosine for each term, the first of them instead of the input itself. Where a period is one step,
 * sines are 0 and cosines 1: one of these is the input. */
static enum halay_status expand_wave(const struct tft_where *w, struct tft_schema *s, size_t base, size_t terms)
{
    const int is_constant = s->inputs[base].period_in_steps && s->inputs[base].period == 1;
    enum halay_status status;

    for (size_t i = 1; i < 2 * terms && !is_constant; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "_%s%zu", i % 2 ? "cos" : "sin", i / 2 + 1);
        if ((status = derive_input(w, s, base, i % 2 ? TFT_COSINE : TFT_SINE, 0, suffix)))
            return status;
        s->inputs[base + i].base = base + i;
        s->inputs[base + i].harmonic = i / 2 + 1;
    }
    snprintf(s->inputs[base].name + strlen(s->inputs[base].name), 6, is_constant ? "_cos1" : "_sin1");
    s->inputs[base].derivation = is_constant ? TFT_COSINE : TFT_SINE;
    s->inputs[base].scale = TFT_SCALE_NONE;
    s->inputs[base].harmonic = 1;
    return HALAY_OK;
}

/* Adds the inputs derived from the one just added. */
static enum halay_status expand_input(const struct tft_where *w, struct tft_schema *s, const struct given *g)
{
    size_t base = s->input_count - 1, i;
    const json_t *lag;
    enum halay_status status;

    if (g->cyclic) { /* two in place of the one */
        if ((status = derive_input(w, s, base, TFT_COSINE, 0, "_cos")))
            return status;
        snprintf(s->inputs[base].name + strlen(s->inputs[base].name), 5, "_sin");
        s->inputs[base].derivation = TFT_SINE;
        s->inputs[base].scale = TFT_SCALE_NONE;
        s->inputs[base + 1].base = base + 1;
    }
    if (g->terms && (status = expand_wave(w, s, base, g->terms)))
        return status;
    if (g->missing_indicator && (status = derive_input(w, s, base, TFT_WAS_MISSING, 0, "_missing")))
        return status;
    json_array_foreach((json_t *)g->lags, i, lag) {
        char suffix[32];
        size_t steps = (size_t)json_integer_value(lag);
        snprintf(suffix, sizeof suffix, "_lag%zu", steps);
        if ((status = derive_input(w, s, base, TFT_LAG, steps, suffix)))
            return status;
        s->longest_lag = steps > s->longest_lag ? steps : s->longest_lag;
    }
    return HALAY_OK;
}

/* All names must differ, those of derived inputs too. */
static enum halay_status check_names(const struct tft_where *w, const struct tft_schema *s)
{
    for (size_t i = 0; i < s->input_count; i++)
        for (size_t j = 0; j < i; j++)
            if (!strcmp(s->inputs[i].name, s->inputs[j].name))
                return halay_fail(w->log, HALAY_ERR_CONFIG, "%s: two inputs have the name '%s'", w->text,
                                  s->inputs[i].name);
    return HALAY_OK;
}

static enum halay_status check_all(const struct tft_where *w, struct tft_schema *s)
{
    size_t known = 0, weights = 0;

    for (size_t i = 0; i < s->input_count; i++) {
        const struct tft_input *input = &s->inputs[i];
        if (input->role == TFT_INPUT_TARGET)
            s->targets[s->target_count++] = i;
        if (input->role == TFT_INPUT_WEIGHT && weights++ == 0)
            s->weight = i;
        known += input->role == TFT_INPUT_KNOWN;
    }
    s->has_weight = weights > 0;
    if (!s->target_count)
        return tft_where_wrong(w, "inputs", "a list with at least one 'role: target'");
    if (s->target_count > 1 && s->id_kind == TFT_ID_HEADER)
        return tft_where_wrong(w, "inputs", "a list with one 'role: target' where each column is an entity");
    if (weights > 1)
        return tft_where_wrong(w, "inputs", "a list with one 'role: weight' at most");
    if (!known)
        return tft_where_wrong(w, "inputs",
                               "a list with at least one 'role: known' (the model's decoder reads nothing else)");
    return check_names(w, s);
}

enum halay_status tft_schema_read_inputs(const struct tft_where *w, const json_t *document, struct tft_schema *s)
{
    const json_t *inputs;
    const char *name;
    json_t *value;
    enum halay_status status = tft_read_object(w, document, "inputs", &inputs);

    if (status)
        return status;
    json_object_foreach((json_t *)inputs, name, value) {
        const struct tft_where of_input = tft_where_inside(w, "input", name);
        struct given g = { .input.base = s->input_count, .most = 30 };
        if (s->input_count == TFT_INPUTS_MAX)
            return tft_where_wrong(w, "inputs", "at most 128");
        status = read_input(&of_input, s, name, value, &g);
        s->inputs[s->input_count++] = g.input; /* fini frees it */
        if (status || (status = expand_input(&of_input, s, &g)))
            return status;
    }
    return check_all(w, s);
}

/* The value of `holiday` if it is a file's name. */
static enum halay_status insert_holidays(struct halay_log *log, const char *folder, json_t *object)
{
    json_t *calendar = json_object_get(object, "calendar");
    json_t *holder = json_is_object(calendar) ? calendar : object, *days;
    const char *name = json_string_value(json_object_get(holder, "holiday"));

    if (!name)
        return HALAY_OK;
    enum halay_status status = tft_holidays_load(log, *name == '/' ? name : tft_path_in(folder, name).text, &days);
    if (!status && json_object_set_new(holder, "holiday", days))
        status = HALAY_ERR_NO_MEMORY;
    return status;
}

enum halay_status tft_schema_take_files(struct halay_log *log, const char *path, json_t *document)
{
    char *copy = strdup(path);
    enum halay_status status = copy ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    const char *name;
    json_t *input;

    if (status)
        return status;
    const char *folder = dirname(copy);
    json_object_foreach(json_object_get(document, "inputs"), name, input) {
        if (!status && json_is_object(input))
            status = insert_holidays(log, folder, input);
    }
    free(copy);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: the full-size example is understood, YAML and JSON say the same, and whatever is wrong, unknown
 * or not offered is refused with the place and what would be right.
 */
#include "tests/tft/files.h"
#include "tft/core/data/schema.h"

#define HEAD "id: {from: filename, pattern: \"^(.*)_x\"}\ntime: {column: t}\nevery: 1h\n"
#define INPUTS "inputs:\n  load: {column: v, role: target}\n  hour: {calendar: hour, role: known}\n"
#define WINDOW "window: {encoder: 8, horizon: 4}\n"
#define SPLIT "split: {train: \"< 2017-08-01\", valid: \"< 2018-02-01\"}\n"

static enum halay_status load(const char *text)
{
    struct tft_schema s;
    enum halay_status status = tft_schema_load(&test_log, write_text("s.yaml", text), &s);

    if (!status)
        tft_schema_fini(&s);
    return status;
}

static void example(void)
{
    const char *top = getenv("top_srcdir");
    char path[600];
    struct tft_schema s;

    snprintf(path, sizeof path, "%s/examples/pjm.yaml", top ? top : ".");
    REQUIRE(!tft_schema_load(&test_log, path, &s));
    CHECK(!strcmp(s.name, "pjm") && !strcmp(s.id_pattern, "^(.*)_hourly") && s.id_kind == TFT_ID_FILENAME &&
          s.every.count == 3600);
    CHECK(s.has_span && s.span[0] == tft_time_from_date(2013, 6, 1, 1, 0, 0) &&
          s.span[1] == tft_time_from_date(2018, 8, 2, 23, 0, 0));
    CHECK(s.duplicates == TFT_DUPLICATES_MEAN && s.encoder == 168 && s.horizon == 24 && s.stride == 1 &&
          s.context_before);
    CHECK(s.season_count == 2 && s.seasons[0] == 24 && s.seasons[1] == 168);
    CHECK(s.input_count == 5 && s.target_count == 1 && s.targets[0] == 0 && s.inputs[0].fill == TFT_FILL_INTERPOLATE &&
          s.inputs[0].per == TFT_PER_ENTITY);
    CHECK(s.inputs[3].calendar == TFT_CALENDAR_STEPS && s.inputs[4].is_category &&
          s.inputs[4].role == TFT_INPUT_STATIC);
    CHECK(s.split_end[TFT_TEST] == tft_time_from_date(2018, 8, 3, 0, 0, 0));
    CHECK(tft_schema_split_begin(&s, TFT_VALID) == tft_time_from_date(2017, 8, 1, 0, 0, 0) &&
          tft_schema_split_begin(&s, TFT_TRAIN) == INT64_MIN);
    char *json = json_dumps(s.document, 0);
    struct tft_schema again;
    CHECK(json && !tft_schema_load(&test_log, write_text("again.json", json), &again));
    CHECK(json_equal(s.document, again.document));
    tft_schema_fini(&again);
    tft_schema_fini(&s);
    free(json);
}

static void seasons(void)
{
    struct tft_schema s;

    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", HEAD INPUTS WINDOW SPLIT "season: 12\n"), &s));
    CHECK(s.season_count == 1 && s.seasons[0] == 12);
    tft_schema_fini(&s);
    REQUIRE(!tft_schema_load(&test_log,
                             write_text("s.yaml", HEAD INPUTS WINDOW SPLIT "season: [1, 24, 168, 1000000]\n"), &s));
    CHECK(s.season_count == 4 && s.seasons[0] == 1 && s.seasons[3] == 1000000);
    tft_schema_fini(&s);
    REQUIRE(!tft_schema_load(
        &test_log, write_text("s.yaml", HEAD INPUTS WINDOW SPLIT "resample: {every: 15min, how: mean}\n"), &s));
    CHECK(s.season_count == 2 && s.seasons[0] == 96 && s.seasons[1] == 672); /* of the step after resampling */
    tft_schema_fini(&s);
}

/* Schemas that are refused, and their errors. */
static const struct {
    const char *text, *says;
} refused_cases[] = {
    { HEAD INPUTS WINDOW SPLIT "windows: 3\n", "unknown key 'windows'; did you mean 'window'?" },
    { HEAD INPUTS WINDOW SPLIT "resample: {every: 1y}\n", "resample: 'every' must be" },
    { HEAD INPUTS WINDOW SPLIT "resample: {every: 1h 08:00-16:00}\n",
      "resample: 'every' must be a step without hours of the day" },
    { HEAD INPUTS WINDOW SPLIT "resample: {how: median}\n", "resample: 'how' must be one of mean, sum, last" },
    { HEAD INPUTS WINDOW SPLIT "resample: 1h\n", "'resample' must be a list of keys" },
    { HEAD INPUTS WINDOW SPLIT "active: yes\n", "'active' must be one of all, trim" },
    { INPUTS WINDOW SPLIT, "'id' is missing" },
    { HEAD WINDOW SPLIT, "'inputs' is missing" },
    { HEAD INPUTS SPLIT, "'window' is missing" },
    { HEAD INPUTS WINDOW, "'split' is missing" },
    { "id: {columns: [a, b]}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT, "'columns' must be a text" },
    { "id: {columns: header}\ntime: {column: t}\nevery: 1h\n" INPUTS "  a: {column: a, role: static}\n" WINDOW SPLIT,
      "each column is an entity" },
    { "id: {from: filename}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT, "give {from: filename" },
    { "id: {from: filename, pattern: \"(\"}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT,
      "a regular expression" },
    { "id: {from: filename, pattern: \"x\"}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT, "with one (group)" },
    { "id: {from: filename, pattern: \"(.*)l++++++++++++++\"}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT,
      "repeats multiply to 10000 at most" },
    { "id: {from: filename, pattern: \"(((.{9,30}){30}){30})\"}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW SPLIT,
      "repeats multiply to 10000 at most" },
    { "id: {from: filename, pattern: \"(x{99999999999999999999,})\"}\ntime: {column: t}\nevery: 1h\n" INPUTS WINDOW
          SPLIT,
      "repeats multiply to 10000 at most" },
    { "id: {column: z}\ntime: {columns: []}\nevery: 1h\n" INPUTS WINDOW SPLIT, "'columns' must be a list of names" },
    { "id: {column: z}\ntime: {columns: [y, m, d, h, mi, s, x]}\nevery: 1h\n" INPUTS WINDOW SPLIT, "year, month, day" },
    { "id: {column: z}\ntime: {format: \"%Y\"}\nevery: 1h\n" INPUTS WINDOW SPLIT, "'column' must be" },
    { "id: {column: z}\ntime: {column: t, integer: true, format: \"%Y\"}\nevery: 1\n" INPUTS WINDOW SPLIT,
      "'integer' must be" },
    { "id: {column: z}\ntime: {column: t, integer: true}\nevery: 1h\n" INPUTS WINDOW SPLIT, "a whole number of steps" },
    { "id: {column: z}\ntime: {column: t, integer: true}\n" INPUTS WINDOW SPLIT, "has only 'steps' and 'fourier'" },
    { "id: {column: z}\ntime: {column: t, format: \"%H\"}\nevery: 1h\n" INPUTS WINDOW SPLIT, "'format' must be" },
    { "id: {column: z}\ntime: {column: t}\nevery: 1\n" INPUTS WINDOW SPLIT, "'every' must be" },
    { "id: {column: z}\ntime: {column: t}\n" INPUTS WINDOW SPLIT, "'every' must be given" },
    { "id: {column: z}\ntime: {column: t}\nevery: soon\n" INPUTS WINDOW SPLIT, "'every' must be" },
    { HEAD INPUTS WINDOW SPLIT "season: 0\n", "'season' must be a number of steps like 24" },
    { HEAD INPUTS WINDOW SPLIT "season: 1d\n", "'season' must be" },
    { HEAD INPUTS WINDOW SPLIT "season: []\n", "'season' must be" },
    { HEAD INPUTS WINDOW SPLIT "season: [24, 24]\n", "an ascending list" },
    { HEAD INPUTS WINDOW SPLIT "season: [1, 2, 3, 4, 5]\n", "'season' must be" },
    { HEAD INPUTS WINDOW SPLIT "season: 1000001\n", "'season' must be" },
    { HEAD INPUTS WINDOW "split: {valid: \"< 2017-08-01\"}\n", "'train' must be" },
    { HEAD INPUTS WINDOW "split: {train: \"2017-08-01\"}\n", "'train' must be like" },
    { HEAD INPUTS WINDOW "split: {train: \"< 2017-08-01\", valid: \"< 2017-07-01\"}\n", "'valid' must be after" },
    { HEAD INPUTS "window: {encoder: 8}\n" SPLIT, "'horizon' must be given" },
    { HEAD INPUTS "window: {encoder: 0, horizon: 3}\n" SPLIT, "'encoder' must be a whole number" },
    { HEAD INPUTS "window: {encoder: 10000000, horizon: 3}\n" SPLIT,
      "'encoder' must be a whole number of steps from 1 to " },
    { HEAD INPUTS WINDOW SPLIT "span: [2018-01-01]\n", "'span' must be" },
    { HEAD INPUTS WINDOW SPLIT "span: [2018-01-01, 2017-01-01]\n", "'span' must be in order" },
    { HEAD INPUTS WINDOW SPLIT "duplicates: maen\n", "'duplicates' must be one of mean, first, last, error" },
    { HEAD INPUTS WINDOW SPLIT "csv: {separator: tab}\n", "'separator' must be one character" },
    { HEAD INPUTS WINDOW SPLIT "csv: {decimal: \",\"}\n", "another character than 'separator'" },
    { HEAD INPUTS WINDOW SPLIT "csv: {missing: [0]}\n", "put numbers into quotes" },
    { HEAD INPUTS "  w: {column: w, role: weight, scale: standard}\n" WINDOW SPLIT,
      "'scale' must be none for a weight" },
    { HEAD INPUTS "  w: {column: w, role: weight}\n  x: {column: x, role: weight}\n" WINDOW SPLIT,
      "one 'role: weight' at most" },
    { HEAD INPUTS "  w: {calendar: hour, role: weight}\n" WINDOW SPLIT, "'role' must be known" },
    { HEAD INPUTS "  w: {column: w, role: observed, lags: 1}\n" WINDOW SPLIT, "'lags' must be a list" },
    { HEAD INPUTS "  w: {column: w, role: observed, lags: [0]}\n" WINDOW SPLIT, "'lags' must be a list" },
    { HEAD INPUTS "  w: {calendar: month, role: known, lags: [1]}\n" WINDOW SPLIT, "'lags' must be left out" },
    { HEAD INPUTS "  w: {column: w, role: observed, cyclic: true}\n" WINDOW SPLIT, "'cyclic' must be left out" },
    { HEAD INPUTS "  w: {calendar: steps, role: known, cyclic: true}\n" WINDOW SPLIT, "'cyclic' must be left out" },
    { HEAD INPUTS "  w: {calendar: hour, role: known, cyclic: 1}\n" WINDOW SPLIT, "'cyclic' must be true or false" },
    { HEAD INPUTS "  w: {calendar: hour, role: known, fill: forward}\n" WINDOW SPLIT, "'fill' must be left out" },
    { HEAD INPUTS "  w: {column: w, role: observed, unknown: true}\n" WINDOW SPLIT, "'unknown' must be left out" },
    { HEAD INPUTS "  w: {column: w, role: observed, map: {a: b}}\n" WINDOW SPLIT, "'map' must be left out" },
    { HEAD INPUTS "  w: {column: w, role: observed, type: category, map: {a: 1}}\n" WINDOW SPLIT,
      "put numbers into quotes" },
    { HEAD INPUTS "  w: {column: w, role: observed, type: category, scale: standard}\n" WINDOW SPLIT,
      "none for a category" },
    { HEAD INPUTS "  w: {column: w, role: observed, type: category, fill: interpolate}\n" WINDOW SPLIT,
      "'fill' must be" },
    { HEAD INPUTS "  w: {column: w, role: observed, type: category, fill: {constant: 1}}\n" WINDOW SPLIT,
      "{constant: TEXT}" },
    { HEAD INPUTS "  w: {column: w, role: observed, type: category, transform: log}\n" WINDOW SPLIT,
      "'transform' must be left out" },
    { HEAD INPUTS "  w: {column: w, role: observed, transform: sqrt}\n" WINDOW SPLIT,
      "'transform' must be one of none, log, log1p" },
    { HEAD INPUTS "  w: {column: w, role: observed, missing_number: x}\n" WINDOW SPLIT,
      "'missing_number' must be a number" },
    { HEAD INPUTS
      "  load_lag2: {column: w, role: observed}\n  load: {column: w, role: observed, lags: [2]}\n" WINDOW SPLIT,
      "given twice" },
    { HEAD INPUTS "  w_lag2: {column: w, role: observed}\n  w: {column: w, role: observed, lags: [2]}\n" WINDOW SPLIT,
      "two inputs have the name 'w_lag2'" },
    { HEAD INPUTS "  w: {holiday: none.csv, role: known}\n" WINDOW SPLIT, "none.csv" },
    { HEAD INPUTS "  w: {holiday: {tomorrow: x}, role: known}\n" WINDOW SPLIT, "a holiday is like" },
    { HEAD INPUTS "  w: {holiday: 3, role: known}\n" WINDOW SPLIT, "'holiday' must be" },
    { HEAD INPUTS "  w: {holiday: {\"2017-01-01\": x}, calendar: hour, role: known}\n" WINDOW SPLIT, "give one of" },
    { HEAD INPUTS "  w: {column: w, role: observed, fill: {constant: x}}\n" WINDOW SPLIT, "'fill' must be" },
    { HEAD INPUTS "  w: {column: w, roel: observed}\n" WINDOW SPLIT, "unknown key 'roel'; did you mean 'role'?" },
    { HEAD INPUTS "  w: {column: w}\n" WINDOW SPLIT, "'role' must be given" },
    { HEAD INPUTS "  w: {role: observed}\n" WINDOW SPLIT, "give one of 'column: NAME'" },
    { HEAD "zone: Europe/Berlni\n" INPUTS WINDOW SPLIT, "did you mean 'Europe/Berlin'?" },
    { HEAD "zone: 3\n" INPUTS WINDOW SPLIT, "the time zone is neither a name" },
    { "id: {column: z}\ntime: {column: t, integer: true}\nzone: UTC\n" INPUTS WINDOW SPLIT, "'zone' must be left out" },
    { HEAD INPUTS "  w: {calendar: hour, days: until, role: known}\n" WINDOW SPLIT, "'days' must be left out" },
    { HEAD INPUTS "  w: {holiday: {\"2017-01-01\": x}, most: 3, role: known}\n" WINDOW SPLIT, "'most' must be left" },
    { HEAD INPUTS "  w: {holiday: {\"2017-01-01\": x}, days: since, type: category, role: known}\n" WINDOW SPLIT,
      "'type' must be real" },
    { HEAD INPUTS "  w: {fourier: {period: 1 year}, role: known}\n" WINDOW SPLIT, "'period' must be a time like" },
    { HEAD INPUTS "  w: {fourier: {period: 1.5}, role: known}\n" WINDOW SPLIT, "'period' must be a time like" },
    { HEAD INPUTS "  w: {fourier: {period: 1w, terms: 33}, role: known}\n" WINDOW SPLIT, "'terms' must be" },
    { HEAD INPUTS "  w: {fourier: {period: 1w}, role: known, cyclic: true}\n" WINDOW SPLIT, "'cyclic' must be left" },
    { HEAD INPUTS "  w: {fourier: {period: 1w}, role: observed}\n" WINDOW SPLIT, "'role' must be known" },
    { HEAD INPUTS "  w: {calendar: hour, role: observed}\n" WINDOW SPLIT, "'role' must be known" },
    { HEAD INPUTS "  w: {calendar: houer, role: known}\n" WINDOW SPLIT, "'calendar' must be one of" },
    { HEAD "inputs:\n  hour: {calendar: hour, role: known}\n" WINDOW SPLIT, "at least one 'role: target'" },
    { "id: {columns: header}\ntime: {column: t}\nevery: 1h\n" INPUTS "  w: {column: w, role: target}\n" WINDOW SPLIT,
      "one 'role: target' where each column is an entity" },
    { HEAD "inputs:\n  load: {column: v, role: target}\n" WINDOW SPLIT, "at least one 'role: known'" },
    { HEAD INPUTS WINDOW "split: {train: \"< 2017-08-01\", valid: last horizon}\n", "'train' must be left out" },
    { HEAD INPUTS WINDOW "split: {valid: last horizon, test: \"< 2018-02-01\"}\n", "'test' must be like" },
    { HEAD INPUTS WINDOW "split: {valid: last 0 horizons}\n", "'valid' must be like \"last 3 horizons\"" },
    { HEAD INPUTS WINDOW "split: {valid: last 2}\n", "'valid' must be like" },
    { HEAD INPUTS WINDOW "split: {valid: last 2 horizonsx}\n", "'valid' must be like" },
    { HEAD INPUTS WINDOW "split: {valid: last 0 steps}\n", "'valid' must be like" },
    { HEAD INPUTS WINDOW "split: {valid: last step of all}\n", "\"last 3 horizons\" or \"last 30 steps\"" },
    { HEAD INPUTS WINDOW "split: {valid: last 99999999999999999999 horizons}\n", "'valid' must be like" },
    { HEAD
      "inputs:\n  load: {column: v, role: target, per: auto}\n  hour: {calendar: hour, role: known}\n" WINDOW SPLIT,
      "'per: auto' was removed: write 'per: window'" },
    { HEAD "inputs:\n  load: {column: v, role: target, scale: minmax}\n" WINDOW SPLIT,
      "'scale: minmax' was removed: leave 'scale: standard', or write 'scale: robust'" },
    { HEAD "inputs:\n  load: {column: v, role: target, relative_to: season}\n" WINDOW SPLIT,
      "'relative_to' was removed: 'per: window' and 'blend: season' replace it" },
    { HEAD "inputs:\n  load: {column: v, role: target, relative_to: auto}\n" WINDOW SPLIT,
      "'relative_to' was removed" },
    { HEAD "inputs:\n  load: {column: v, role: target, relative_to: [none]}\n" WINDOW SPLIT,
      "'relative_to' was removed" },
};

static void refused(void)
{
    CHECK(load(HEAD INPUTS WINDOW SPLIT) == HALAY_OK &&
          load(HEAD INPUTS "  w: {column: w, role: target}\n" WINDOW SPLIT) == HALAY_OK);
    /* As the schemas of runs have it whose training chose. */
    CHECK(load(HEAD INPUTS "  w: {column: w, role: target, per: entity, relative_to: none}\n" WINDOW SPLIT) ==
          HALAY_OK);
    CHECK(load(HEAD INPUTS WINDOW "split: {valid: last step, test: last 7 steps}\n") == HALAY_OK &&
          load(HEAD INPUTS WINDOW "split: {test: last 12 horizons}\n") == HALAY_OK &&
          load(HEAD INPUTS WINDOW "split: {valid: last horizon, test: last 2 horizons, context: none}\n") == HALAY_OK);
    for (size_t i = 0; i < sizeof refused_cases / sizeof *refused_cases; i++) {
        enum halay_status status = load(refused_cases[i].text);
        CHECK(status && error_says(refused_cases[i].says), "case %zu: %s", i, refused_cases[i].says);
    }
}

int main(void)
{
    begin_scratch();
    example();
    seasons();
    refused();
    end_scratch();
    return test_end();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The library as a program uses it: columns in memory give what the same rows in a file give, to the last bit; a model
 * that was saved and opened forecasts the same; a request to stop ends a call, and the session goes on; errors have
 * texts; nothing is printed.
 */
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <halay_tft.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOURS = 24 * 16, ENTITIES = 2, ROWS = HOURS * ENTITIES, ENCODER = 24, HORIZON = 6, MOST = 4096 };

static const char config[] =
    "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 40, \"eval_every\": 20, \"threads\": 2}";

/* ---- rows, in memory and as a file ---- */

static int32_t codes[ROWS];
static int64_t times[ROWS];
static double values[ROWS];
static const char *const names[] = { "east", "west", "north" };

static struct halay_tft_column columns[] = {
    { .name = "unique_id", .kind = HALAY_TFT_CODES, .values = codes, .texts = names, .text_count = 3 },
    { .name = "ds", .kind = HALAY_TFT_TIMES, .values = times },
    { .name = "y", .kind = HALAY_TFT_REALS, .values = values },
};

static struct halay_tft_table memory_table(void)
{
    return (struct halay_tft_table){ .struct_size = sizeof(struct halay_tft_table),
                                     .columns = columns,
                                     .column_count = 3,
                                     .column_bytes = sizeof *columns,
                                     .rows = ROWS };
}

static void make_rows(const char *path)
{
    FILE *file = fopen(path, "w");
    unsigned random = 1;

    REQUIRE(file);
    fprintf(file, "unique_id,ds,y\n");
    for (size_t i = 0; i < ROWS; i++) {
        int entity = (int)(i / HOURS), hour = (int)(i % HOURS);
        random = random * 1103515245 + 12345;
        codes[i] = entity;
        times[i] = 1704067200 + 3600 * (int64_t)hour; /* 2024-01-01 */
        values[i] = 100 + 10 * entity + 20 * sin(hour * M_PI / 12) + (random >> 16) % 100 / 40.;
        if (i == 100)
            values[i] = NAN;
        fprintf(file, "%s,2024-01-%02d %02d:00:00,", names[entity], 1 + hour / 24, hour % 24);
        fprintf(file, isnan(values[i]) ? "\n" : "%.17g\n", values[i]);
    }
    REQUIRE(!fclose(file));
}

/* ---- what forecasts give ---- */

struct taken {
    size_t windows, count;
    double values[MOST];
    double static_weights, lags;
    int64_t origin;
    char entities[64];
    size_t measured;
};

static enum halay_status take(void *arg, const struct halay_tft_forecast *f)
{
    struct taken *t = arg;

    for (size_t i = 0; i < f->horizon * f->target_count * f->quantile_count; i++)
        t->values[t->count++ % MOST] = f->values[i];
    for (size_t h = 0; h < f->horizon; h++)
        t->measured += !isnan(f->actuals[h]);
    for (size_t i = 0; i < f->input_count; i++)
        t->static_weights += !strncmp(f->inputs[i], "static ", 7) ? f->weights[i] : 0;
    t->lags += f->lag_count > 1 ? f->lags[1] : 0;
    if (t->windows < 2)
        snprintf(t->entities + strlen(t->entities), sizeof t->entities - strlen(t->entities), "%s ", f->entity);
    t->origin = f->origin;
    t->windows++;
    return f->times[0] == f->origin + 3600 ? HALAY_OK : HALAY_ERR_MISMATCH;
}

static enum halay_status forecast(struct halay_tft_model *model, const struct halay_tft_table *table, struct taken *t)
{
    const struct halay_tft_forecast_options o = {
        .struct_size = sizeof o, .table = table, .take = take, .arg = t, .explains = 1
    };

    *t = (struct taken){ 0 };
    return halay_tft_forecast(model, &o);
}

static int is_same(const struct taken *a, const struct taken *b)
{
    return a->count == b->count && !memcmp(a->values, b->values, sizeof a->values);
}

/* ---- callbacks ---- */

struct heard {
    struct halay_tft *tft;
    uint64_t steps;
    int stops_at_step;                      /* at the first one that it hears of */
    int stops_at_evaluation, stops_at_line; /* the number of it, from 1 */
    int evaluations, lines, folders;        /* folders: lines that name the one of the call's own */
    const char *stops_at_text;              /* which a line begins with; NULL: none */
    char said[200];                         /* the last line */
};

static void hear_step(void *arg, const struct halay_tft_progress *p)
{
    struct heard *h = arg;

    h->steps = p->step;
    if (h->stops_at_step)
        halay_tft_stop(h->tft, 7);
}

static void hear_metrics(void *arg, const char *json)
{
    struct heard *h = arg;

    h->evaluations += !strncmp(json, "{\"step\":", 8);
    if (h->evaluations == h->stops_at_evaluation)
        halay_tft_stop(h->tft, 7);
}

static void hear_line(void *arg, const char *text)
{
    struct heard *h = arg;

    h->lines += *text != 0;
    if (h->lines == h->stops_at_line ||
        (h->stops_at_text && !strncmp(text, h->stops_at_text, strlen(h->stops_at_text))))
        halay_tft_stop(h->tft, 7);
    snprintf(h->said, sizeof h->said, "%s", text);
    h->folders += strstr(text, "/halay-tft.") != NULL;
}

static char warned[500]; /* the last warning */

static void count_line(void *arg, enum halay_log_level level, const char *line)
{
    if (level == HALAY_LOG_WARNING)
        snprintf(warned, sizeof warned, "%s", line);
    *(int *)arg += level == HALAY_LOG_ERROR && *line;
}

static enum halay_status train(struct halay_tft_data *data, struct heard *h, const char *folder,
                               struct halay_tft_model **model)
{
    const struct halay_tft_train_options o = { .struct_size = sizeof o,
                                               .config = config,
                                               .folder = folder,
                                               .progress = hear_step,
                                               .metrics_line = hear_metrics,
                                               .say = hear_line,
                                               .arg = h };

    h->steps = 0;
    return halay_tft_train(h->tft, data, &o, model);
}

static enum halay_status prepare(struct halay_tft *tft, const struct halay_tft_table *table,
                                 struct halay_tft_data **data)
{
    const struct halay_tft_prepare_options o = {
        .struct_size = sizeof o, .encoder = ENCODER, .horizon = HORIZON, .test = 1
    };

    return halay_tft_prepare(tft, table, &o, data);
}

/* ---- tests ---- */

/* The status that a call must return, and a part of the text that it must leave. */
static void expect(enum halay_status status, enum halay_status wanted, const char *text)
{
    CHECK(status == wanted && strstr(halay_tft_error_text(), text), "%s: '%s', not '%s'", halay_status_string(status),
          halay_tft_error_text(), text);
    CHECK(halay_tft_last_error()->status == status && !strcmp(halay_tft_last_error()->text, halay_tft_error_text()));
}

/* model is the folder's own. */
static void test_export(struct halay_tft_model *model, const char *folder)
{
    char path[256], *text = NULL;
    struct halay_tft_export_options o = { .struct_size = sizeof o, .path = path };

    snprintf(path, sizeof path, "%s.onnx", folder);
    CHECK(!halay_tft_model_export(model, &o, &text), "%s", halay_tft_error_text());
    CHECK(text && strstr(text, "\"target.y\"") && !strstr(text, "attention") && !access(path, R_OK), "%s", text);
    halay_tft_free(text);
    o.explains = 1;
    CHECK(!halay_tft_model_export(model, &o, &text) && strstr(text, "\"attention\""), "%s", halay_tft_error_text());
    halay_tft_free(text);
    o.format = "nvidia";
    text = NULL;
    CHECK(halay_tft_model_export(model, &o, &text) == HALAY_ERR_ARGUMENT && !text &&
              strstr(halay_tft_error_text(), "halay.tft.export_torch writes PyTorch's"),
          "%s", halay_tft_error_text());
    o.format = "keras";
    CHECK(halay_tft_model_export(model, &o, &text) == HALAY_ERR_ARGUMENT && !text &&
              strstr(halay_tft_error_text(), "unknown 'format' 'keras': 'onnx' is known"),
          "%s", halay_tft_error_text());
    o.format = NULL;
    o.calibrate = "rolling";
    CHECK(halay_tft_model_export(model, &o, &text) == HALAY_ERR_ARGUMENT && !text &&
              strstr(halay_tft_error_text(), "calibrat"), /* of a run that blends, any is refused */
          "%s", halay_tft_error_text());
    o.path = NULL;
    CHECK(halay_tft_model_export(model, &o, &text) == HALAY_ERR_ARGUMENT && strstr(halay_tft_error_text(), "'path'"));
    unlink(path);
}

/* A run's page, and its explanation for people. */
static void test_pages(struct halay_tft *tft, struct halay_tft_data *data, const char *folder, const char *explanation)
{
    char *table = NULL, page[256];
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .page = page };

    CHECK(!halay_tft_format(explanation, "table", &table) && strstr(table, "attention looks most"), "%s",
          halay_tft_error_text());
    halay_tft_free(table);
    snprintf(page, sizeof page, "%s.html", folder);
    CHECK(!halay_tft_report(tft, folder, data, &windows) && !access(page, R_OK), "%s", halay_tft_error_text());
}

/* Several tables in one go: each has the text that it has alone; one that is wrong fails alone, and says why. */
static void test_queries(struct halay_tft_model *model, const char *csv)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = fopen(csv, "r");
    const double median = 0.5, other = 0.3;

    REQUIRE(file && getdelim(&text, &bytes, 0, file) > 0 && !fclose(file));
    const struct halay_tft_table memory = memory_table(),
                                 of_text = { .struct_size = sizeof of_text, .text = text, .text_bytes = strlen(text) },
                                 odd = { .struct_size = sizeof odd, .text = "a,b\n", .text_bytes = 4, .name = "odd" };
    struct halay_tft_query queries[4] = {
        { .table = &memory }, { .table = &odd }, { .table = &of_text }, { .table = &memory }
    };
    struct halay_tft_queries all = {
        .struct_size = sizeof all, .queries = queries, .count = 4, .query_bytes = sizeof *queries, .explains = 1
    };

    CHECK(!halay_tft_forecast_queries(model, &all), "%s", halay_tft_error_text());
    CHECK(queries[1].status == HALAY_ERR_FORMAT && !queries[1].forecasts &&
              strstr(queries[1].error, "'odd' has no column"),
          "%s", queries[1].error);
    REQUIRE(queries[0].forecasts && queries[2].forecasts && queries[3].explanations);
    CHECK(!queries[0].status && queries[0].windows == ENTITIES && !queries[0].error);
    CHECK(!strcmp(queries[0].forecasts, queries[2].forecasts) && !strcmp(queries[0].forecasts, queries[3].forecasts));
    CHECK(!strncmp(queries[0].forecasts, "unique_id,origin,ds,horizon,y_0.1,y_0.5,y_0.9\neast,", 51), "%s",
          queries[0].forecasts);
    CHECK(!strncmp(queries[3].explanations, "entity,origin,", 14));
    halay_tft_queries_clear(&all);
    CHECK(!queries[1].status && !queries[0].forecasts && !queries[1].error);
    all.count = 1;
    all.quantiles = &median;
    all.quantile_count = 1;
    all.format = "jsonl";
    CHECK(!halay_tft_forecast_queries(model, &all) && strstr(queries[0].forecasts, "\"y_0.5\":") &&
              !strstr(queries[0].forecasts, "y_0.1"),
          "%s", halay_tft_error_text());
    halay_tft_queries_clear(&all);
    all.quantiles = &other;
    expect(halay_tft_forecast_queries(model, &all), HALAY_ERR_ARGUMENT, "does not forecast the quantile 0.3");
    all.quantiles = NULL;
    all.count = 0;
    CHECK(!halay_tft_forecast_queries(model, &all), "%s", halay_tft_error_text());
    all.calibrate = "conformal";
    expect(halay_tft_forecast_queries(model, &all), HALAY_ERR_ARGUMENT, "no calibration");
    free(text);
}

/* ---- a long call, and others between its parts ---- */

enum { MANY = 270, TABLES = 5, PAST = 40 }; /* many: more than one group of queries */

struct between {
    struct halay_tft *tft;
    struct halay_tft_model *model;
    struct halay_tft_queries one;
    struct halay_tft_query query;
    char *alone; /* the query's forecasts */
    int calls, stops;
};

static void ask_between(void *arg)
{
    struct between *b = arg;

    b->calls++;
    if (b->stops)
        halay_tft_stop(b->tft, 7);
    const enum halay_status status = halay_tft_forecast_queries(b->model, &b->one);
    if (b->stops)
        CHECK(status == HALAY_ERR_CANCELED, "%s", halay_status_string(status));
    else
        CHECK(!status && b->query.forecasts && !strcmp(b->query.forecasts, b->alone), "call %d: %s", b->calls,
              halay_tft_error_text());
    halay_tft_queries_clear(&b->one);
}

/* The last rows of one entity and the first of the other. */
static void make_tables(struct halay_tft_table *tables, struct halay_tft_column (*of)[3])
{
    for (size_t i = 0; i < TABLES; i++) {
        const size_t first = HOURS - PAST - i;
        memcpy(of[i], columns, sizeof of[i]);
        of[i][0].values = codes + first;
        of[i][1].values = times + first;
        of[i][2].values = values + first;
        tables[i] = memory_table();
        tables[i].columns = of[i];
        tables[i].rows = 2 * PAST + 2 * i;
    }
}

/* A row that is refused where others' turn comes keeps its error. */
static void test_late_error(struct between *b, const struct halay_tft_queries *like)
{
    enum { PART = 1 << 14 }; /* rows between two turns */
    static int32_t late_codes[PART];
    static int64_t late_times[PART];
    static double late_values[PART];
    struct halay_tft_column of[3];
    struct halay_tft_table table = memory_table();
    struct halay_tft_query query = { .table = &table };
    struct halay_tft_queries all = *like;

    for (int i = 0; i < PART; i++)
        late_times[i] = i < PART - 1 ? times[0] + 3600 * i : INT64_MIN;
    memcpy(of, columns, sizeof of);
    of[0].values = late_codes;
    of[1].values = late_times;
    of[2].values = late_values;
    table.columns = of;
    table.rows = PART;
    all.queries = &query;
    all.count = 1;
    CHECK(!halay_tft_forecast_queries(b->model, &all) && query.status, "%s", halay_status_string(query.status));
    CHECK(query.error && strstr(query.error, "row 16384"), "'%s'", query.error ? query.error : "none");
    CHECK(query.row == 16384 && query.subject && !strcmp(query.subject, "table"), "row %zu of '%s'", query.row,
          query.subject ? query.subject : "none");
    halay_tft_queries_clear(&all);
}

/* The model has a calibration. */
static void test_between(struct halay_tft *tft, struct halay_tft_model *model)
{
    static struct halay_tft_query whole[MANY], cut[MANY];
    struct halay_tft_column of[TABLES][3];
    struct halay_tft_table tables[TABLES];
    struct between b = { .tft = tft, .model = model };
    struct halay_tft_queries all = { .struct_size = sizeof all,
                                     .queries = whole,
                                     .count = MANY,
                                     .query_bytes = sizeof *whole,
                                     .calibrate = "rolling",
                                     .explains = 1 };

    make_tables(tables, of);
    for (size_t i = 0; i < MANY; i++)
        whole[i].table = cut[i].table = &tables[i % TABLES];
    b.one = all;
    b.one.queries = &b.query;
    b.one.count = 1;
    b.query.table = &tables[TABLES - 1];
    REQUIRE(!halay_tft_forecast_queries(model, &b.one) && b.query.forecasts);
    b.alone = b.query.forecasts;
    b.query.forecasts = NULL;
    halay_tft_queries_clear(&b.one);
    REQUIRE(!halay_tft_forecast_queries(model, &all) && whole[0].forecasts && whole[1].forecasts);
    CHECK(strcmp(whole[0].forecasts, whole[1].forecasts) != 0);
    all.queries = cut;
    all.between = ask_between;
    all.arg = &b;
    CHECK(!halay_tft_forecast_queries(model, &all) && b.calls > 3, "%d calls: %s", b.calls, halay_tft_error_text());
    for (size_t i = 0; i < MANY; i++)
        CHECK(cut[i].forecasts && !strcmp(cut[i].forecasts, whole[i].forecasts) &&
                  !strcmp(cut[i].explanations, whole[i].explanations),
              "query %zu", i);
    halay_tft_queries_clear(&all);
    test_late_error(&b, &all);
    b.stops = b.calls = 1;
    expect(halay_tft_forecast_queries(model, &all), HALAY_ERR_CANCELED, "asked to stop");
    CHECK(b.calls == 2 && halay_tft_stopped(tft) == 7, "%d calls", b.calls);
    halay_tft_queries_clear(&all);
    all.queries = whole;
    halay_tft_queries_clear(&all);
    halay_tft_free(b.alone);
}

/* ---- passes over windows, and rows ---- */

/* How much attention there is, how much the inputs of the past weigh, and the entity. On any thread. */
static void measure(void *arg, const struct halay_tft_weights *w, float *numbers)
{
    const size_t inputs = *(const size_t *)arg, heads = 2;
    double attention = 0, past = 0;

    for (size_t i = 0; i < heads * HORIZON * (ENCODER + HORIZON); i++)
        attention += (double)w->attention[i];
    for (size_t i = (ENCODER - w->past) * inputs; i < ENCODER * inputs; i++)
        past += (double)w->history[i];
    numbers[0] = (float)(attention / (double)(heads * HORIZON));
    numbers[1] = (float)(past / (double)w->past);
    numbers[2] = (float)w->number;
}

/* The windows of a pass are those of halay_tft_forecast, and come with what they weighed. */
static void check_window(const struct halay_tft_forecast *w, size_t entity, struct taken *taken)
{
    double statics = 0;
    size_t at = 0;

    for (size_t i = 0; i < w->input_count; i++)
        if (!strncmp(w->inputs[i], "static ", 7))
            statics += (double)w->weighed->statics[at++];
    CHECK(!take(taken, w) && w->number == entity && w->weighed->number == entity && w->weighed->past == w->past);
    CHECK(fabs(statics - 1) < 1e-5 && fabs((double)w->numbers[0] - 1) < 1e-5 && fabs((double)w->numbers[1] - 1) < 1e-5);
    CHECK((size_t)w->numbers[2] == entity && w->scales[0] == 1 && isnan(w->scaled_actuals[0]) == isnan(w->actuals[0]));
}

/* A window's actuals are those of its rows. */
static void check_rows_of(struct halay_tft_data *data, const struct halay_tft_forecast *w)
{
    double actuals[HORIZON];
    int64_t moment = 0;

    CHECK(!halay_tft_data_times(data, w->number, w->row, 1, &moment, NULL) && moment == w->times[0]);
    CHECK(!halay_tft_data_actuals(data, w->number, w->row, HORIZON, actuals), "%s", halay_tft_error_text());
    for (size_t h = 0; h < HORIZON; h++)
        CHECK(actuals[h] == w->actuals[h] || (isnan(actuals[h]) && isnan(w->actuals[h])), "%g", actuals[h]);
}

static size_t count_listed(struct halay_tft_model *model, struct halay_tft_data *data, size_t *inputs)
{
    const struct halay_tft_pass_options o = {
        .struct_size = sizeof o, .split = "test", .stride = 5, .is_list = 1, .explains = 1
    };
    struct halay_tft_pass *pass = NULL;
    const struct halay_tft_forecast *w = NULL;
    size_t count = 0;
    char *text = NULL;

    REQUIRE(!halay_tft_model_describe(model, &text));
    CHECK(strstr(text, "\"heads\":2") && strstr(text, "\"selected\":{"), "%s", text);
    for (const char *at = strstr(text, "\"past\":["); *at != ']'; at++)
        *inputs += *at == ',';
    halay_tft_free(text);
    REQUIRE(!halay_tft_pass_open(model, data, &o, &pass));
    while (!halay_tft_pass_next(pass, &w) && w)
        count += w->past == ENCODER && !w->numbers && !w->weighed;
    halay_tft_pass_close(pass);
    return count;
}

static void test_pass(struct halay_tft_model *model, struct halay_tft_data *data)
{
    size_t inputs = 1;
    struct taken all = { 0 }, again = { 0 };
    double risk[3] = { 0 }, other[3] = { 0 };
    const struct halay_tft_forecast_options o = {
        .struct_size = sizeof o, .data = data, .split = "test", .stride = 5, .take = take, .arg = &all, .explains = 1
    };
    struct halay_tft_pass_options p = { .struct_size = sizeof p,
                                        .split = "test",
                                        .stride = 5,
                                        .explains = 1,
                                        .has_weights = 1,
                                        .measure = measure,
                                        .number_count = 3,
                                        .arg = &inputs };
    struct halay_tft_pass *pass = NULL, *second = NULL;
    const struct halay_tft_forecast *w = NULL;

    CHECK(!halay_tft_forecast(model, &o), "%s", halay_tft_error_text());
    CHECK(count_listed(model, data, &inputs) == all.windows);
    REQUIRE(!halay_tft_pass_open(model, data, &p, &pass));
    CHECK(halay_tft_pass_seek(pass, 0, SIZE_MAX) == all.windows);
    CHECK(halay_tft_pass_seek(pass, 1, 1) + halay_tft_pass_seek(pass, 0, 1) == all.windows);
    for (size_t e = 0; e < ENTITIES; e++) {
        halay_tft_pass_seek(pass, e, 1);
        while (!halay_tft_pass_next(pass, &w) && w) {
            check_window(w, e, &again);
            check_rows_of(data, w);
        }
    }
    CHECK(is_same(&all, &again) && again.windows == all.windows && again.measured == all.measured);
    CHECK(!halay_tft_pass_next(pass, &w) && !w, "a window after the last one");
    halay_tft_pass_q_risk(pass, risk);
    p.without = "y";
    REQUIRE(!halay_tft_pass_open(model, data, &p, &second));
    while (!halay_tft_pass_next(second, &w) && w)
        ;
    halay_tft_pass_q_risk(second, other);
    CHECK(risk[1] > 0 && other[1] > 0 && risk[1] != other[1], "%g, and %g without the target", risk[1], other[1]);
    expect(halay_tft_forecast(model, &o), HALAY_ERR_ARGUMENT, "halay_tft_pass_close ends it");
    halay_tft_pass_close(second);
    p.without = "z";
    expect(halay_tft_pass_open(model, data, &p, &second), HALAY_ERR_ARGUMENT, "'z', not an input");
    p.without = NULL;
    p.calibrate = "conformal";
    expect(halay_tft_pass_open(model, data, &p, &second), HALAY_ERR_ARGUMENT, "a pass over other windows");
    halay_tft_pass_close(pass);
    halay_tft_pass_close(NULL);
    CHECK(!halay_tft_forecast(model, &o), "after the passes: %s", halay_tft_error_text());
}

/* Cells are the table's values. */
static void check_cells(struct halay_tft_data *data, size_t target)
{
    double cells[HOURS];

    CHECK(!halay_tft_data_cells(data, 0, target, 0, HOURS, cells) && isnan(cells[100]), "%s", halay_tft_error_text());
    for (size_t r = 0; r < HOURS; r++)
        CHECK(r == 100 || fabs(cells[r] - values[r]) < 1e-4, "%g, not %g", cells[r], values[r]);
    CHECK(!halay_tft_data_cells(data, 0, target, 7, 1, cells) && fabs(cells[0] - values[7]) < 1e-4);
    expect(halay_tft_data_cells(data, 0, target, 1, HOURS, cells), HALAY_ERR_ARGUMENT, "has no rows");
    CHECK(!halay_tft_data_actuals(data, 0, 0, HOURS, cells) && isnan(cells[100]) && cells[7] == values[7]);
    expect(halay_tft_data_actuals(data, 0, 1, HOURS, cells), HALAY_ERR_ARGUMENT, "has no rows");
}

static void test_rows(struct halay_tft_data *data)
{
    struct halay_tft_extent extent = { .struct_size = sizeof extent };
    struct halay_tft_input input = { .struct_size = sizeof input };
    int64_t moments[HOURS + 1], moment;
    unsigned char gaps[HOURS];
    char text[40];
    size_t rows = 0, target = 0;

    CHECK(!halay_tft_data_extent(data, &extent) && extent.entities == ENTITIES && extent.targets == 1 &&
              extent.begin == times[0] && extent.end == times[HOURS - 1] + 3600 && extent.horizon == HORIZON &&
              extent.train_end < extent.valid_end && !extent.counts,
          "%s", halay_tft_error_text());
    for (size_t k = 0; k < extent.inputs; k++) {
        CHECK(!halay_tft_data_input(data, k, &input));
        target = input.is_target ? k : target;
        CHECK(input.is_own == input.is_target && (input.categories > 0) == input.is_category, "%s", input.name);
    }
    expect(halay_tft_data_input(data, extent.inputs, &input), HALAY_ERR_ARGUMENT, "is not one of them");
    CHECK(!strcmp(halay_tft_data_entity(data, 1, &rows), "west") && rows == HOURS);
    CHECK(!halay_tft_data_entity(data, 2, NULL) && !halay_tft_data_category(data, target, 0));
    CHECK(!halay_tft_data_times(data, 0, 0, HOURS + 1, moments, NULL) && moments[HOURS] == extent.end);
    CHECK(!halay_tft_data_times(data, 1, 0, HOURS, moments, gaps) && moments[5] == times[5] && !gaps[5]);
    expect(halay_tft_data_times(data, 2, 0, 1, moments, NULL), HALAY_ERR_ARGUMENT, "has no rows");
    check_cells(data, target);
    halay_tft_data_print_time(data, times[1], text);
    CHECK(!strncmp(text, "2024-01-01 01:00", 16) && !halay_tft_data_read_time(data, text, &moment) &&
              moment == times[1] && halay_tft_data_read_time(data, "soon", &moment) == HALAY_ERR_FORMAT,
          "%s", text);
}

/* A model reads a table as training did: a pass over its last horizons is what halay_tft_forecast gives. */
static void test_read(struct halay_tft *tft, struct halay_tft_model *model)
{
    const struct halay_tft_table memory = memory_table();
    const struct halay_tft_pass_options newest = { .struct_size = sizeof newest, .explains = 1 };
    struct halay_tft_data *read = NULL;
    struct halay_tft_pass *pass = NULL;
    const struct halay_tft_forecast *w = NULL;
    struct taken all, again = { 0 };

    CHECK(!forecast(model, &memory, &all) && !halay_tft_model_read(model, &memory, 1, NULL, &read), "%s",
          halay_tft_error_text());
    REQUIRE(read && !halay_tft_pass_open(model, read, &newest, &pass));
    while (!halay_tft_pass_next(pass, &w) && w)
        CHECK(!take(&again, w));
    CHECK(is_same(&all, &again) && again.windows == ENTITIES && fabs(again.lags - all.lags) < 1e-12);
    halay_tft_pass_close(pass);
    halay_tft_data_close(read);
    CHECK(halay_tft_agree(tft, HALAY_ERR_FORMAT) == HALAY_ERR_FORMAT && !halay_tft_agree(tft, HALAY_OK));
}

static void test_models(struct halay_tft *tft, const char *csv, const char *folder)
{
    const struct halay_tft_table memory = memory_table(),
                                 file = { .struct_size = sizeof file, .files = &csv, .file_count = 1 };
    struct halay_tft_data *data = NULL, *of_file = NULL;
    struct halay_tft_model *model = NULL, *of_file_model = NULL, *opened = NULL;
    const struct halay_tft_windows of_rows = { .struct_size = sizeof of_rows, .table = &memory };
    struct heard heard = { .tft = tft };
    static struct taken a, b;
    char *text = NULL, *again = NULL;

    CHECK(!prepare(tft, &memory, &data), "%s", halay_tft_error_text());
    CHECK(!prepare(tft, &file, &of_file), "%s", halay_tft_error_text());
    CHECK(!train(data, &heard, NULL, &model), "%s", halay_tft_error_text());
    CHECK(heard.steps == 40 && heard.evaluations == 2 && heard.lines > 2, "%d steps, %d evaluations, %d lines",
          (int)heard.steps, heard.evaluations, heard.lines);
    CHECK(!heard.folders, "a line names a folder that is gone");
    CHECK(!train(of_file, &heard, folder, &of_file_model), "%s", halay_tft_error_text());
    REQUIRE(model && of_file_model);
    CHECK(!forecast(model, &memory, &a), "%s", halay_tft_error_text());
    CHECK(!forecast(of_file_model, &file, &b), "%s", halay_tft_error_text());
    CHECK(is_same(&a, &b), "%g and %g", a.values[0], b.values[0]);
    CHECK(a.windows == 2 && !strcmp(a.entities, "east west ") && a.origin == times[ROWS - 1], "%s", a.entities);
    CHECK(!a.measured && fabs(a.static_weights - 2) < 1e-4 && a.lags > 0, "%g", a.static_weights);
    CHECK(a.values[0] > 0 && a.values[0] < 300, "%g", a.values[0]);

    CHECK(!halay_tft_model_open(tft, folder, &opened), "%s", halay_tft_error_text());
    CHECK(opened && !forecast(opened, &memory, &b) && is_same(&a, &b));
    CHECK(halay_tft_model_save(model, folder) == HALAY_ERR_ARGUMENT && strstr(halay_tft_error_text(), "already"));
    CHECK(!halay_tft_model_describe(model, &text) && strstr(text, "\"horizon\":6") && strstr(text, "\"step\":"));
    halay_tft_free(text);
    CHECK(!halay_tft_data_describe(data, &text) && strstr(text, "\"rows_read\":768") && strstr(text, "\"filled\":1"),
          "%s", text);
    halay_tft_free(text);
    CHECK(!halay_tft_evaluate(model, data, NULL, &text) && strstr(text, "\"q_risk\""), "%s", halay_tft_error_text());
    CHECK(!halay_tft_evaluate(opened, NULL, &of_rows, &again) && !strcmp(text, again), "%s", again);
    halay_tft_free(again);
    halay_tft_free(text);
    CHECK(halay_tft_evaluate(model, data, &of_rows, &text) == HALAY_ERR_ARGUMENT, "data and a table");
    CHECK(!halay_tft_explain(model, data, NULL, &text) && strstr(text, "\"importance\""), "%s", halay_tft_error_text());
    test_pages(tft, data, folder, text);
    halay_tft_free(text);
    test_export(opened, folder);
    test_pass(model, data);
    test_rows(data);
    test_read(tft, model);
    test_queries(model, csv);
    halay_tft_model_close(opened);
    halay_tft_model_close(of_file_model);
    halay_tft_model_close(model);
    halay_tft_data_close(of_file);
    halay_tft_data_close(data);
}

/* A table may have a series that training has not seen: it is scored, explained and compared as the others are. */
static void test_unknown(struct halay_tft_model *model)
{
    const struct halay_tft_table memory = memory_table();
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .table = &memory };
    const struct halay_tft_drift_options o = { .struct_size = sizeof o, .table = &memory, .last = HORIZON };
    char *text = NULL;

    for (size_t i = HOURS; i < ROWS; i++)
        codes[i] = 2;
    CHECK(!halay_tft_evaluate(model, NULL, &windows, &text) && strstr(text, "\"windows\":66,") &&
              strstr(text, "\"north\":{\"values\":198,"),
          "%s", text ? text : halay_tft_error_text());
    halay_tft_free(text);
    text = NULL;
    CHECK(!halay_tft_explain(model, NULL, &windows, &text) && strstr(text, "\"windows\":12,"), "%s",
          text ? text : halay_tft_error_text());
    halay_tft_free(text);
    text = NULL;
    CHECK(!halay_tft_drift(model, NULL, &o, &text) && strstr(text, "\"entity\":\"north\""), "%s",
          text ? text : halay_tft_error_text());
    halay_tft_free(text);
    for (size_t i = HOURS; i < ROWS; i++)
        codes[i] = 1;
}

/* A model of hours does not score rows that become hours in another way. */
static void test_resampled(struct halay_tft *tft, struct halay_tft_model *model)
{
    static const char *const hows[] = { "mean", "sum" };
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_prepare_options o = { .struct_size = sizeof o, .test = 1 };
    struct halay_tft_data *data = NULL;
    char text[150], *scores = NULL;

    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        snprintf(text, sizeof text,
                 "{\"preset\": \"long\", \"every\": \"1h\", \"resample\": {\"how\": \"%s\"}, "
                 "\"window\": {\"encoder\": %d, \"horizon\": %d}}",
                 hows[i], ENCODER, HORIZON);
        o.schema_text = text;
        CHECK(!halay_tft_prepare(tft, &memory, &o, &data), "%s", halay_tft_error_text());
        expect(halay_tft_evaluate(model, data, NULL, &scores), HALAY_ERR_FORMAT, "'resample' differs");
        halay_tft_data_close(data);
    }
}

/* Scores in all forms, before and after a calibration. */
/* A name cannot end the element it is in, nor begin one. */
static void check_hostile_page(void)
{
    static const char drift[] =
        "{\"kind\":\"drift\",\"drifted\":true,\"inputs\":{\"rows\":[{\"entity\":\"</script><img src=x>&\\\"\","
        "\"input\":\"a\",\"value\":1}]},\"errors\":null}";
    char *page = NULL;
    int ends = 0;

    CHECK(!halay_tft_format(drift, "page", &page) &&
              strstr(page, "<td>&#60;/script&#62;&#60;img src=x&#62;&#38;&#34;</td>"),
          "%s", page ? page : halay_tft_error_text());
    CHECK(page && strstr(page, "\"\\u003c/script>\\u003cimg src=x>&\\\"\"") && !strstr(page, "<img"),
          "an image in the page");
    for (const char *at = page; at && (at = strstr(at, "</script>")); at++)
        ends++;
    CHECK(ends == 2, "%d scripts end", ends);
    halay_tft_free(page);
}

static void test_scores(struct halay_tft *tft, const char *file)
{
    const struct halay_tft_table memory = memory_table();
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .file = file, .calibrate = "conformal" };
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    struct heard heard = { .tft = tft };
    char *scores = NULL, *text = NULL;

    REQUIRE(!prepare(tft, &memory, &data) && !train(data, &heard, NULL, &model));
    expect(halay_tft_evaluate(model, data, &windows, &scores), HALAY_ERR_ARGUMENT, "halay_tft_calibrate makes one");
    CHECK(access(file, F_OK), "an error left a file behind");
    expect(halay_tft_calibrate(model, NULL, NULL, NULL, &text), HALAY_ERR_ARGUMENT, "either data or a table");
    CHECK(!halay_tft_calibrate(model, data, NULL, NULL, &text) && strstr(text, "intervals"), "%s",
          halay_tft_error_text());
    halay_tft_free(text);
    REQUIRE(!halay_tft_model_calibration(model, "conformal", &text));
    CHECK(strstr(text, "\"bands\":[{\"low\":0,\"high\":2,\"moves_low\":true,\"moves_high\":true,\"is_flat\":false,"
                       "\"least\":-0.5}") &&
              strstr(text, "\"targets\":{\"y\":{\"by_horizon\":[[") && strstr(text, "\"method\":\"conformal\""),
          "%s", text);
    halay_tft_free(text);
    CHECK(!halay_tft_evaluate(model, data, &windows, &scores) && !access(file, F_OK), "%s", halay_tft_error_text());
    REQUIRE(scores);
    check_hostile_page();
    CHECK(!halay_tft_format(scores, "table", &text) && strstr(text, "\ncoverage_p10_p90 "), "%s", text);
    halay_tft_free(text);
    CHECK(!halay_tft_format(scores, "csv", &text) && strstr(text, "\n,horizon,6,"), "%s", text);
    halay_tft_free(text);
    CHECK(!halay_tft_format(scores, "tables", &text) && strstr(text, "\"all\":{\"columns\":[\"target\",\"scope\","),
          "%s", text);
    halay_tft_free(text);
    CHECK(!halay_tft_format("{\"kind\": \"scores\", \"calibration\": {\"entity\": 0.25, \"none\": 0.75}}", "calibrated",
                            &text) &&
              !strcmp(text, "25 % by its validation windows, 75 % not, for want of windows"),
          "%s", text);
    halay_tft_free(text);
    expect(halay_tft_format(scores, "xml", &text), HALAY_ERR_ARGUMENT, "'csv'");
    expect(halay_tft_format("{}", "csv", &text), HALAY_ERR_ARGUMENT, "scores");
    halay_tft_free(scores);
    test_between(tft, model);
    test_resampled(tft, model);
    test_unknown(model);
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

/* Forecasts that go to a file, and a table that trains again and again. */
static void test_files(struct halay_tft *tft, const char *folder, const char *file)
{
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    struct heard heard = { .tft = tft };
    char *text = NULL;
    double rate = -1;
    const struct halay_tft_forecast_options o = {
        .struct_size = sizeof o, .table = &memory, .file = file, .format = "jsonl", .summary = &text
    };
    struct halay_tft_backtest_options b = { .struct_size = sizeof b, .config = config, .folder = folder };

    REQUIRE(!prepare(tft, &memory, &data) && !train(data, &heard, NULL, &model));
    CHECK(!halay_tft_forecast(model, &o) && !access(file, F_OK), "%s", halay_tft_error_text());
    CHECK(text && !strcmp(text, "{\"kind\":\"forecast\",\"windows\":2,\"short_windows\":0,\"calibrated\":null}"), "%s",
          text);
    halay_tft_free(text);
    CHECK(!halay_tft_backtest(tft, data, &b, &text) && strstr(text, "\"fits\":[{\"run\":\"fit-0001\""), "%s",
          halay_tft_error_text());
    halay_tft_free(text);
    CHECK(!halay_tft_evaluate(model, data, NULL, &text), "the data have their splits again: %s",
          halay_tft_error_text());
    halay_tft_free(text);
    b.split = "train";
    expect(halay_tft_backtest(tft, data, &b, &text), HALAY_ERR_CONFIG, "after the training span");
    CHECK(!halay_tft_find_learning_rate(tft, data, config, &rate, &text) && rate > 0 && strstr(text, "learning_rate: "),
          "%g, %s", rate, halay_tft_error_text());
    halay_tft_free(text);
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

/* Configurations need no session. */
static void test_config(void)
{
    char *keys = NULL, *c = NULL, *all = NULL;

    CHECK(!halay_tft_keys(&keys) && strstr(keys, "{\"name\":\"hidden_size\",\"kind\":\"whole\",\"default\":32,"), "%s",
          halay_tft_error_text());
    CHECK(!halay_tft_config_add(NULL, "file 'x'", "{\"heads\": \"2\", \"quantiles\": \"0.1,0.9\"}", &c), "%s",
          halay_tft_error_text());
    CHECK(!halay_tft_config_add(c, "option", "{\"hidden-size\": 7}", &all), "%s", halay_tft_error_text());
    CHECK(!strcmp(all, "{\"heads\":\"2\",\"quantiles\":\"0.1,0.9\",\"hidden_size\":7}"), "%s", all);
    expect(halay_tft_config_check(all, NULL), HALAY_ERR_CONFIG, "must be a multiple of 'heads'");
    halay_tft_free(all);
    CHECK(!halay_tft_config_check(c, &all) && !halay_tft_config_check(NULL, NULL), "%s", halay_tft_error_text());
    CHECK(strstr(all, "\"hidden_size\":32,\"heads\":2,") && strstr(all, "\"quantiles\":[0.1"), "%s", all);
    expect(halay_tft_config_add(c, "option --hedas", "{\"hedas\": 7}", &all), HALAY_ERR_CONFIG,
           "option --hedas: unknown key 'hedas'; did you mean 'heads'?");
    expect(halay_tft_config_add(c, "it", "[]", &all), HALAY_ERR_CONFIG, "it");
    halay_tft_free(keys);
    halay_tft_free(c);
    halay_tft_free(all);
}

/* All tensors of a model, one after the other; returns the count of numbers. */
static size_t read_weights(const struct halay_tft_model *model, float *weights, size_t most)
{
    const char *name = "";
    const size_t *shape;
    const float *from;
    size_t dimensions, count = 0, tensors = 0;

    for (; name; tensors++) {
        REQUIRE(!halay_tft_model_weights(model, tensors, &name, &dimensions, &shape, &from));
        size_t size = name ? 1 : 0;
        for (size_t k = 0; k < dimensions; k++)
            size *= shape[k];
        REQUIRE(count + size <= most);
        memcpy(weights + count, from ? from : weights, size * sizeof *weights);
        count += size;
    }
    CHECK(tensors > 50 && !shape && !from && !dimensions, "%zu tensors", tensors);
    CHECK(halay_tft_model_weights(model, 0, NULL, &dimensions, &shape, &from) == HALAY_ERR_ARGUMENT);
    return count;
}

/* A new model: how it encodes values, and its calibration, which it lacks. */
static void test_encoding(struct halay_tft_model *made)
{
    static const char *const parts[] = { "{\"kind\":\"encoding\",",        "\"entities\":[\"east\",",
                                         "\"needs_entity\":true",          "\"fill\":\"forward\"",
                                         "\"source\":\"calendar\"",        "\"first\":0,\"count\":24",
                                         "\"per\":\"entity\",\"name\":",   "\"steps\":24,\"shifts\":[",
                                         "\"normal_quantiles\":[-1.28155", "\"skip_scales\":{}" };
    char *text = NULL;

    REQUIRE(!halay_tft_model_encoding(made, &text));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        CHECK(strstr(text, parts[i]), "%s is not in %s", parts[i], text);
    halay_tft_free(text);
    CHECK(halay_tft_model_encoding(made, NULL) == HALAY_ERR_ARGUMENT);
    expect(halay_tft_model_calibration(made, "conformal", &text), HALAY_ERR_ARGUMENT, "halay_tft_calibrate makes one");
    expect(halay_tft_model_calibration(made, "always", &text), HALAY_ERR_ARGUMENT, "calibrate is 'always'");
    REQUIRE(!halay_tft_model_calibration(made, NULL, &text));
    CHECK(!strcmp(text, "{\"kind\":\"calibration\",\"method\":\"none\"}"), "%s", text);
    halay_tft_free(text);
}

/* A model of another one's weights forecasts as that one does, without its calibration; one of a blend has no such
 * form. */
static void test_create(struct halay_tft *tft, struct halay_tft_model *blended)
{
    const struct halay_tft_prepare_options plain = {
        .struct_size = sizeof plain,
        .schema_text = "{\"id\": {\"column\": \"unique_id\"}, \"time\": {\"column\": \"ds\"}, \"every\": \"1h\", "
                       "\"inputs\": {\"y\": {\"column\": \"y\", \"role\": \"target\", \"fill\": \"forward\"}, "
                       "\"hour\": {\"calendar\": \"hour\", \"role\": \"known\"}}, "
                       "\"window\": {\"encoder\": 24, \"horizon\": 6}, "
                       "\"split\": {\"valid\": \"last 2 horizons\", \"test\": \"last horizon\"}}"
    };
    const struct halay_tft_table memory = memory_table();
    static float weights[100000];
    static struct taken a, b;
    struct halay_tft_create_options how = { .struct_size = sizeof how, .like = blended };
    struct halay_tft_forecast_options o = {
        .struct_size = sizeof o, .split = "test", .calibrate = "none", .take = take, .arg = &a
    };
    struct heard heard = { .tft = tft };
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL, *made = NULL;
    char *text = NULL;

    CHECK(!halay_tft_prepare(tft, &memory, &plain, &data), "%s", halay_tft_error_text());
    REQUIRE(data && !train(data, &heard, NULL, &model));
    how.weights = weights;
    how.weight_count = read_weights(model, weights, sizeof weights / sizeof *weights);
    expect(halay_tft_model_create(tft, &how, &made), HALAY_ERR_FORMAT, "target 'y' has a 'blend'");
    how.like = model;
    CHECK(!halay_tft_model_create(tft, &how, &made), "%s", halay_tft_error_text());
    a = b = (struct taken){ 0 };
    o.data = data;
    CHECK(!halay_tft_forecast(model, &o), "%s", halay_tft_error_text());
    o.arg = &b;
    CHECK(made && !halay_tft_forecast(made, &o) && a.count && is_same(&a, &b), "%s", halay_tft_error_text());
    CHECK(!halay_tft_model_describe(made, &text) && strstr(text, "\"calibrated\":false") &&
              strstr(text, "{\"name\":\"y\",\"role\":\"target\",\"type\":\"real\",\"categories\":0}"),
          "%s", text);
    halay_tft_free(text);
    test_encoding(made);
    halay_tft_model_close(made);
    how.weight_count--;
    expect(halay_tft_model_create(tft, &how, &made), HALAY_ERR_ARGUMENT, " weights for a model of ");
    how.data = data;
    expect(halay_tft_model_create(tft, &how, &made), HALAY_ERR_ARGUMENT, "come either from data");
    how = (struct halay_tft_create_options){ .struct_size = sizeof how, .data = data, .config = "{\"heads\": 3}" };
    expect(halay_tft_model_create(tft, &how, &made), HALAY_ERR_CONFIG, "heads");
    how.config = "{\"hidden_size\": 6, \"heads\": 3}";
    CHECK(!halay_tft_model_create(tft, &how, &made), "%s", halay_tft_error_text());
    halay_tft_model_close(made);
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

static void test_save(struct halay_tft *tft, const char *htd, const char *folder)
{
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_data *data = NULL, *mapped = NULL;
    struct halay_tft_model *model = NULL, *opened = NULL;
    struct heard heard = { .tft = tft };
    static struct taken a, b;
    struct halay_tft_forecast_options o = { .struct_size = sizeof o, .split = "test", .take = take, .arg = &a };

    REQUIRE(!prepare(tft, &memory, &data));
    CHECK(!halay_tft_data_save(data, htd) && !halay_tft_data_open(tft, htd, &mapped), "%s", halay_tft_error_text());
    REQUIRE(mapped && !train(mapped, &heard, NULL, &model));
    CHECK(!halay_tft_model_save(model, folder), "%s", halay_tft_error_text());
    CHECK(!halay_tft_model_open(tft, folder, &opened), "%s", halay_tft_error_text());
    a = b = (struct taken){ 0 };
    o.data = mapped;
    CHECK(!halay_tft_forecast(model, &o), "%s", halay_tft_error_text());
    o.data = data;
    o.arg = &b;
    CHECK(opened && !halay_tft_forecast(opened, &o), "%s", halay_tft_error_text());
    CHECK(is_same(&a, &b) && a.windows > 20 && a.measured == a.windows * HORIZON, "%zu windows", a.windows);
    test_create(tft, opened);
    halay_tft_model_close(opened);
    halay_tft_model_close(model);
    halay_tft_data_close(mapped);
    halay_tft_data_close(data);
}

static void test_stop(struct halay_tft *tft)
{
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    struct heard heard = { .tft = tft, .stops_at_step = 1 };
    static struct taken t;

    REQUIRE(!prepare(tft, &memory, &data));
    CHECK(train(data, &heard, NULL, &model) == HALAY_ERR_CANCELED && !model, "before there are weights");
    CHECK(heard.steps < 20 && halay_tft_stopped(tft) == 7, "%d steps", (int)heard.steps);
    heard.stops_at_step = 0;
    heard.stops_at_evaluation = 1;
    CHECK(!train(data, &heard, NULL, &model) && model, "%s", halay_tft_error_text());
    CHECK(heard.steps < 40 && halay_tft_stopped(tft) == 7, "%d steps", (int)heard.steps);
    REQUIRE(model);
    halay_tft_stop(tft, 3);
    CHECK(forecast(model, &memory, &t) == HALAY_ERR_CANCELED && halay_tft_stopped(tft) == 3);
    CHECK(!forecast(model, &memory, &t) && !halay_tft_stopped(tft), "%s", halay_tft_error_text());
    halay_tft_stop(tft, 3);
    halay_tft_stop(tft, 0);
    CHECK(!forecast(model, &memory, &t) && !halay_tft_stopped(tft), "it was taken back: %s", halay_tft_error_text());
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

/* A run's files: parameters with the blend's weights, the calibration, and the refit. */
enum { RUN_FILES = 3 };
struct run_files {
    size_t bytes[RUN_FILES];
    char text[RUN_FILES][200000];
};

static void read_run(const char *folder, struct run_files *files)
{
    static const char *const of_run[] = { "model.safetensors", "calibration.json", "refit.safetensors" };

    for (size_t i = 0; i < RUN_FILES; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/%s", folder, of_run[i]);
        FILE *file = fopen(path, "r");
        REQUIRE(file);
        files->bytes[i] = fread(files->text[i], 1, sizeof files->text[i], file);
        REQUIRE(!fclose(file) && files->bytes[i] && files->bytes[i] < sizeof files->text[i]);
    }
}

static int is_same_run(const struct run_files *a, const struct run_files *b)
{
    for (size_t i = 0; i < RUN_FILES; i++)
        if (a->bytes[i] != b->bytes[i] || memcmp(a->text[i], b->text[i], a->bytes[i]))
            return 0;
    return 1;
}

/* What the header of the parameters says of the blend. */
static const char *blend_of(const struct run_files *files)
{
    const char *from = memmem(files->text[0], files->bytes[0], "\"blend\":\"", 9);
    static char text[2000];

    snprintf(text, sizeof text, "%.1500s", from ? from : "none");
    text[strcspn(text, "]")] = 0;
    return text;
}

/* Before a training ends no weights of a blend are chosen. */
static void check_checkpoints(struct halay_tft *tft, const char *folder)
{
    struct halay_tft_model *model = NULL;
    char checkpoints[100];

    warned[0] = 0;
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    CHECK(!halay_tft_model_open(tft, checkpoints, &model) && strstr(warned, "checkpoints' holds checkpoints: "), "%s",
          warned);
    halay_tft_model_close(model);
}

/* A run that has ended keeps its files when its resume is stopped, at any of its lines. One that trains on keeps the
 * blend's weights until others are chosen. */
static void test_resume(struct halay_tft *tft, const char *folder)
{
    static struct run_files before, after;
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_data *data = NULL;
    struct heard heard = { .tft = tft };
    struct halay_tft_train_options o = { .struct_size = sizeof o,
                                         .config = "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 20, "
                                                   "\"eval_every\": 5, \"threads\": 2, \"schedule\": \"constant\", "
                                                   "\"calibrate\": \"conformal\", \"refit\": \"on\", "
                                                   "\"max_time\": 1000000}",
                                         .folder = folder,
                                         .say = hear_line,
                                         .arg = &heard };
    char chosen[2000], refit[100];
    int stopped = 0;

    REQUIRE(!prepare(tft, &memory, &data));
    CHECK(!halay_tft_train(tft, data, &o, NULL), "%s", halay_tft_error_text());
    read_run(folder, &before);
    snprintf(chosen, sizeof chosen, "%s", blend_of(&before));
    o.resume = 1;
    do {
        heard.lines = 0;
        heard.stops_at_line++;
        (void)halay_tft_train(tft, data, &o, NULL);
        stopped += halay_tft_stopped(tft) != 0;
        read_run(folder, &after);
        CHECK(is_same_run(&before, &after), "stopped at line %d: its blend is %s, not %s", heard.stops_at_line,
              blend_of(&after), chosen);
    } while (heard.lines >= heard.stops_at_line && heard.stops_at_line < 20);
    CHECK(stopped > 3, "stopped %d times", stopped);
    snprintf(refit, sizeof refit, "%s/refit.safetensors", folder);
    REQUIRE(!unlink(refit));
    heard = (struct heard){ .tft = tft, .stops_at_text = "refit: " };
    CHECK(!halay_tft_train(tft, data, &o, NULL) && access(refit, F_OK), "an interrupted refit leaves a file");
    CHECK(!strcmp(heard.said, "the refit was interrupted: it leaves no weights"), "%s", heard.said);
    heard = (struct heard){ .tft = tft };
    CHECK(!halay_tft_train(tft, data, &o, NULL), "%s", halay_tft_error_text());
    read_run(folder, &after);
    CHECK(is_same_run(&before, &after), "a refit that is made again");
    heard = (struct heard){ .tft = tft, .stops_at_evaluation = 3 };
    o.metrics_line = hear_metrics;
    o.config = "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 40, \"eval_every\": 5, \"threads\": 2, "
               "\"schedule\": \"constant\", \"calibrate\": \"conformal\", \"refit\": \"on\"}";
    CHECK(!halay_tft_train(tft, data, &o, NULL) && heard.evaluations == 3, "%s", halay_tft_error_text());
    read_run(folder, &after);
    CHECK(!is_same_run(&before, &after) && !strcmp(blend_of(&after), chosen), "%s, not %s", blend_of(&after), chosen);
    check_checkpoints(tft, folder);
    halay_tft_data_close(data);
}

/* Stopped between its members, a run has no model yet; its resume has the bits of one that was not stopped. A model of
 * it is saved with its members. */
static void test_members(struct halay_tft *tft, const char *scratch)
{
    static const char *const files[] = { "model.safetensors", "member-2.safetensors" };
    const struct halay_tft_table memory = memory_table();
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    struct heard heard = { .tft = tft, .stops_at_text = "member 1 of 2:" };
    char stopped[64], whole[64], saved[64], command[300];
    struct halay_tft_train_options o = { .struct_size = sizeof o,
                                         .config = "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 4, "
                                                   "\"threads\": 2, \"members\": 2}",
                                         .folder = stopped,
                                         .say = hear_line,
                                         .arg = &heard };

    snprintf(stopped, sizeof stopped, "%s/stopped", scratch);
    snprintf(whole, sizeof whole, "%s/whole", scratch);
    snprintf(saved, sizeof saved, "%s/members", scratch);
    snprintf(command, sizeof command, "%s/model.safetensors", stopped);
    REQUIRE(!prepare(tft, &memory, &data));
    (void)halay_tft_train(tft, data, &o, NULL);
    CHECK(halay_tft_stopped(tft) == 7 && access(command, F_OK), "it has a model");
    heard.stops_at_text = NULL;
    o.resume = 1;
    CHECK(!halay_tft_train(tft, data, &o, NULL), "%s", halay_tft_error_text());
    o.resume = 0;
    o.folder = whole;
    CHECK(!halay_tft_train(tft, data, &o, &model) && !halay_tft_model_save(model, saved), "%s", halay_tft_error_text());
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "cd %s && cmp stopped/%s whole/%s && cmp whole/%s members/%s", scratch,
                 files[i], files[i], files[i], files[i]);
        CHECK(!system(command), "%s", files[i]);
    }
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

/* A schema that names the columns and leaves the rest to the rows. */
static void test_preset(struct halay_tft *tft)
{
    static const char *const named[] = { "zone", "when", "load" }, *const usual[] = { "unique_id", "ds", "y" };
    static const char text[] =
        "{\"preset\": \"long\", \"id\": {\"column\": \"zone\"}, \"time\": {\"column\": \"when\"}, "
        "\"inputs\": {\"load\": {\"column\": \"load\", \"role\": \"target\"}}, "
        "\"window\": {\"encoder\": 24, \"horizon\": 6}}";
    const struct halay_tft_table memory = memory_table();
    const struct halay_tft_prepare_options o = { .struct_size = sizeof o, .schema_text = text };
    struct halay_tft_data *data = NULL;
    char *said = NULL;

    for (int i = 0; i < 3; i++)
        columns[i].name = named[i];
    CHECK(!halay_tft_prepare(tft, &memory, &o, &data), "%s", halay_tft_error_text());
    CHECK(data && !halay_tft_data_describe(data, &said) && strstr(said, "\"name\":\"hour\"") &&
              strstr(said, "\"horizon\":6") && strstr(said, "\"name\":\"zone\"") && strstr(said, "\"filled\":1"),
          "%s", said);
    halay_tft_free(said);
    halay_tft_data_close(data);
    for (int i = 0; i < 3; i++)
        columns[i].name = usual[i];
}

static void test_errors(struct halay_tft *tft, const int *errors)
{
    struct halay_tft_table table = memory_table();
    struct halay_tft_data *data = NULL;
    struct halay_tft_train_options o = { .struct_size = sizeof o, .config = "{\"hidden_sise\": 8}", .folder = "/x/y" };
    struct halay_tft_prepare_options how = { .struct_size = sizeof how, .schema_text = "name: x\nimputs: {}\n" };

    codes[5] = 3;
    expect(prepare(tft, &table, &data), HALAY_ERR_ARGUMENT, "row 6, column 'unique_id': 3 is not a text's number");
    codes[5] = 0;
    for (int far = 0; far < 4; far++) { /* beyond the years of which dates are made */
        const int64_t time = times[6], ends[] = { INT64_MAX, INT64_MIN + 1, 253402300800, -62135596801 };
        times[6] = ends[far];
        expect(prepare(tft, &table, &data), HALAY_ERR_ARGUMENT, "row 7, column 'ds': ");
        expect(prepare(tft, &table, &data), HALAY_ERR_ARGUMENT, "of the years 1 to 9999");
        times[6] = time;
    }
    values[7] = INFINITY;
    expect(prepare(tft, &table, &data), HALAY_ERR_FORMAT, "table, row 8, column 'y'");
    values[7] = NAN;
    columns[2].name = "z";
    expect(prepare(tft, &table, &data), HALAY_ERR_FORMAT, "table has no column 'y'");
    columns[2].name = "y";
    expect(halay_tft_prepare(tft, &table, &how, &data), HALAY_ERR_CONFIG, "inputs");
    table.struct_size = 0;
    expect(prepare(tft, &table, &data), HALAY_ERR_ARGUMENT, "halay_tft_table");
    table = memory_table();
    REQUIRE(!prepare(tft, &table, &data));
    expect(halay_tft_train(tft, data, &o, NULL), HALAY_ERR_CONFIG, "hidden_size");
    o.config = NULL;
    expect(halay_tft_train(tft, data, &o, NULL), HALAY_ERR_SYSTEM, "/x/y");
    expect(halay_tft_data_open(tft, "/no/such/file", &data), HALAY_ERR_SYSTEM, "/no/such/file");
    expect(halay_tft_init(NULL, NULL), HALAY_ERR_ARGUMENT, "NULL");
    CHECK(*errors >= 7, "%d lines in the log", *errors);
    halay_tft_data_close(data);
}

/* ---- what is printed ---- */

/* From now on standard output and error go to a file. */
static void redirect(const char *path, int kept[2])
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    fflush(stdout);
    kept[0] = dup(1);
    kept[1] = dup(2);
    REQUIRE(fd >= 0 && kept[0] >= 0 && kept[1] >= 0 && dup2(fd, 1) == 1 && dup2(fd, 2) == 2);
    close(fd);
}

/* They go where they went; what came meanwhile is shown. Returns how much that is. */
static long restore(const char *path, const int kept[2])
{
    char line[512];
    struct stat st = { 0 };

    fflush(stdout);
    REQUIRE(dup2(kept[0], 1) == 1 && dup2(kept[1], 2) == 2 && !stat(path, &st));
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
    if (file)
        fclose(file);
    return (long)st.st_size;
}

int main(void)
{
    char scratch[] = "/tmp/halay-test.XXXXXX", csv[64], htd[64], run[64], saved[64], said[64], scores[64], fits[64],
         forecasts[64], resumed[64], command[64];
    struct halay_tft *tft = NULL;
    int errors = 0, kept[2];
    const struct halay_tft_options options = { .struct_size = sizeof options, .log = count_line, .log_arg = &errors };

    REQUIRE(mkdtemp(scratch));
    snprintf(csv, sizeof csv, "%s/rows.csv", scratch);
    snprintf(htd, sizeof htd, "%s/rows.htd", scratch);
    snprintf(run, sizeof run, "%s/run", scratch);
    snprintf(saved, sizeof saved, "%s/saved", scratch);
    snprintf(said, sizeof said, "%s/said", scratch);
    snprintf(scores, sizeof scores, "%s/scores", scratch);
    snprintf(fits, sizeof fits, "%s/fits", scratch);
    snprintf(forecasts, sizeof forecasts, "%s/forecasts", scratch);
    snprintf(resumed, sizeof resumed, "%s/resumed", scratch);
    snprintf(command, sizeof command, "rm -r %s", scratch);
    make_rows(csv);
    redirect(said, kept);
    enum halay_status status = halay_tft_init(&options, &tft);
    if (!status) {
        test_models(tft, csv, run);
        test_save(tft, htd, saved);
        test_scores(tft, scores);
        test_files(tft, fits, forecasts);
        test_config();
        test_stop(tft);
        test_resume(tft, resumed);
        test_members(tft, scratch);
        test_preset(tft);
        test_errors(tft, &errors);
    }
    halay_tft_fini(tft);
    CHECK(restore(said, kept) == 0, "the library printed something");
    CHECK(!status, "%s", halay_status_string(status));
    REQUIRE(!system(command)); /* NOLINT: a folder of ours */
    return test_end();
}

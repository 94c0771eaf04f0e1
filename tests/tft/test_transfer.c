/* SPDX-License-Identifier: Apache-2.0
 *
 * Another run's parameters as a beginning: rows of embeddings go by the category's name, whatever stands before it in
 * either list; new ones begin as the row for unknown ones, or as the mean; all else has to have the same shape.
 */
#include "base/document.h"
#include "tests/tft/files.h"
#include "tft/core/train/trainer.h"
#include <math.h>

/* A schema's inputs beside the target, and rows of it: three days an entity, whose words are its own. */
static const char *const plain = "  w:   {column: w, role: known, type: category, unknown: true}\n"
                                 "  day: {calendar: day_of_week, role: known, type: category}\n";

/* What the next runs have. */
static int conformance = TFT_PUBLISHED, crossing;
static struct tft_list quantiles = { 3, { 0.1, 0.5, 0.9 } };

static void make(const char *inputs, const char *ids, int hidden, struct tft_run *c)
{
    char text[2000];
    struct tft_table table;
    struct tft_model_config model;
    json_t *document;

    *c = (struct tft_run){ 0 };
    snprintf(text, sizeof text,
             "id: {column: id}\ntime: {column: t}\nevery: 1d\ninputs:\n  y:   {column: y, role: target, per: all}\n%s"
             "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 2020-02-01\"}\n",
             inputs);
    REQUIRE(!halay_document_parse(&test_log, "s", text, strlen(text), 0, NULL, &document));
    REQUIRE(!tft_schema_init(&test_log, "'s'", document, &c->schema));
    json_decref(document);
    int n = snprintf(text, sizeof text, "id,t,y,w\n");
    for (const char *id = ids; *id; id++)
        for (int day = 1; day <= 3; day++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%c,2020-01-0%d,%d,w%c\n", *id, day, day + *id, *id);
    const char *path = write_text("table.csv", text);
    REQUIRE(!tft_table_read(&test_log, &c->schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &c->schema, &table, &c->encoding));
    tft_table_fini(&table);
    tft_run_config_defaults(&c->config);
    c->config.hidden_size = hidden;
    c->config.conformance = conformance;
    c->config.crossing = crossing;
    c->config.quantiles = quantiles;
    tft_batches_describe(&c->schema, &c->encoding, &c->config, &model);
    REQUIRE(!tft_model_create(&test_log, &model, &c->model));
    size_t reals = tft_model_params(c->model)->reals;
    c->params = malloc(reals * sizeof *c->params);
    REQUIRE(c->params);
    for (size_t i = 0; i < reals; i++)
        c->params[i] = (float)i;
}

static enum halay_status transfer(const struct tft_run *from, struct tft_run *to)
{
    const struct tft_transfer_to what = { &to->schema, &to->encoding, tft_model_config(to->model),
                                          tft_model_params(to->model) };

    for (size_t t = 0; t < what.table->count; t++)
        for (size_t i = 0; i < what.table->params[t].count; i++)
            to->params[what.table->params[t].offset + i] = -1;
    return tft_transfer(&test_log, "there", from, &what, to->params);
}

static const struct tft_param *param(const struct tft_run *c, const char *tensor)
{
    const struct tft_param_table *table = tft_model_params(c->model);
    size_t i = 0;

    while (i < table->count && strcmp(table->params[i].name, tensor))
        i++;
    REQUIRE(i < table->count);
    return &table->params[i];
}

/* Row r of an embedding, and how many there are. */
static const float *row(const struct tft_run *c, const char *tensor, size_t r, size_t *rows)
{
    const struct tft_param *p = param(c, tensor);

    *rows = p->shape[0];
    return c->params + p->offset + r * p->shape[1];
}

/* Row r there is row s here. */
static int same(const struct tft_run *to, size_t r, const struct tft_run *from, size_t s, const char *tensor)
{
    size_t rows;

    return !memcmp(row(to, tensor, r, &rows), row(from, tensor, s, &rows),
                   (size_t)to->config.hidden_size * sizeof(float));
}

/* Row r there is the mean of rows [0, n) here. */
static int is_mean(const struct tft_run *to, size_t r, const struct tft_run *from, size_t n, const char *tensor)
{
    size_t rows;

    for (int k = 0; k < to->config.hidden_size; k++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += row(from, tensor, i, &rows)[k];
        if (fabs(row(to, tensor, r, &rows)[k] - sum / (double)n) > 1e-3)
            return 0;
    }
    return 1;
}

static const char *const known_id = "  id:  {from: id, role: static, type: category, unknown: true}\n";

static const char *join(const char *a, const char *b)
{
    static char both[2][1000];
    static int turn;

    turn = !turn;
    snprintf(both[turn], sizeof both[turn], "%s%s", a, b);
    return both[turn];
}

static void by_name(void)
{
    struct tft_run from, to;
    size_t rows;

    make(join(plain, known_id), "bdm", 8, &from);
    make(join(plain, known_id), "mabz", 8, &to); /* a, b, m, z: d is gone, a and z are new */
    REQUIRE(!transfer(&from, &to));
    for (int k = 0; k < 2; k++) {
        const char *tensor = k ? "input.w.table" : "input.id.table";
        row(&to, tensor, 0, &rows);
        CHECK(rows == 5);
        CHECK(same(&to, 1, &from, 0, tensor) && same(&to, 2, &from, 2, tensor), "%s: b and m keep their rows", tensor);
        CHECK(same(&to, 0, &from, 3, tensor) && same(&to, 3, &from, 3, tensor) && same(&to, 4, &from, 3, tensor),
              "%s: what is new begins as unknown", tensor);
    }
    for (size_t day = 0; day < 7; day++)
        CHECK(same(&to, day, &from, day, "input.day.table"));
    const struct tft_param_table *table = tft_model_params(to.model);
    for (size_t i = 0; i < table->reals; i++)
        CHECK(to.params[i] >= 0, "%zu", i);
    tft_run_fini(&to);

    make(join(plain, known_id), "bdm", 8, &to); /* the same lists: the same numbers */
    REQUIRE(!transfer(&from, &to));
    table = tft_model_params(to.model);
    CHECK(!memcmp(to.params, from.params, table->reals * sizeof *to.params));
    tft_run_fini(&to);
    tft_run_fini(&from);
}

/* A row that was never trained is none to begin with. */
static void without_unknown(void)
{
    struct tft_run from, to;

    conformance = TFT_NVIDIA; /* of which a model may come from elsewhere */
    make(join(plain, known_id), "bd", 8, &from);
    conformance = TFT_PUBLISHED;
    make(join(plain, known_id), "cd", 8, &to);
    REQUIRE(!transfer(&from, &to));
    CHECK(is_mean(&to, 0, &from, 2, "input.id.table") && same(&to, 1, &from, 1, "input.id.table") &&
          is_mean(&to, 2, &from, 2, "input.id.table"));
    tft_run_fini(&from);
    make(join(plain, "  id:  {from: id, role: static, type: category}\n"), "bcx", 8, &from);
    REQUIRE(!transfer(&from, &to)); /* it had no such row */
    CHECK(same(&to, 0, &from, 1, "input.id.table") && is_mean(&to, 1, &from, 3, "input.id.table") &&
          is_mean(&to, 2, &from, 3, "input.id.table"));
    tft_run_fini(&from);
    tft_run_fini(&to);
}

static void mapped_and_holidays(void)
{
    static const char *const there =
        "  area: {from: id, role: static, type: category, unknown: true, map: {b: south, d: north}}\n"
        "  off:  {holiday: {\"2020-01-01\": New Year, \"2020-01-06\": Epiphany}, role: known, type: category}\n";
    static const char *const here =
        "  area: {from: id, role: static, type: category, unknown: true, map: {b: south, d: east, e: north}}\n"
        "  off:  {holiday: {\"2020-01-01\": New Year, \"2020-01-02\": Day after}, role: known, type: category}\n";
    struct tft_run from, to;

    make(there, "bd", 8, &from); /* north, south; none, Epiphany, New Year */
    make(here, "bde", 8, &to);   /* east, north, south; none, Day after, New Year */
    REQUIRE(!transfer(&from, &to));
    CHECK(same(&to, 1, &from, 0, "input.area.table") && same(&to, 2, &from, 1, "input.area.table") &&
          same(&to, 0, &from, 2, "input.area.table"));
    CHECK(same(&to, 0, &from, 0, "input.off.table") && same(&to, 2, &from, 2, "input.off.table") &&
          is_mean(&to, 1, &from, 3, "input.off.table"));
    tft_run_fini(&from);
    tft_run_fini(&to);
}

/* A column of a parameter, or of its rows [row, row + rows) (one of a vector). */
static int same_column(const struct tft_run *to, size_t c, const struct tft_run *from, size_t d, const char *tensor,
                       const size_t rows[3])
{
    const struct tft_param *mine = param(to, tensor), *theirs = param(from, tensor);
    size_t wide = mine->shape[mine->dimensions - 1], wider = theirs->shape[theirs->dimensions - 1];

    for (size_t r = 0; r < rows[2]; r++)
        if (to->params[mine->offset + (rows[0] + r) * wide + c] !=
            from->params[theirs->offset + (rows[1] + r) * wider + d])
            return 0;
    return 1;
}

/* The parts of a selection's joint network that belong to w and day: there the first and the second of its inputs. */
static void check_inputs(const struct tft_run *to, const struct tft_run *from, const size_t places[2],
                         const char *joint)
{
    const size_t H = 8, all[3] = { 0, 0, 8 }, one[3] = { 0, 0, 1 };
    char name[64];

    for (size_t k = 0; k < 2; k++) {
        const size_t wide[3] = { places[k] * H, k * H, H };
        snprintf(name, sizeof name, "%s.dense1.kernel", joint);
        for (size_t c = 0; c < H; c++)
            CHECK(same_column(to, c, from, c, name, wide), "%s, input %zu", name, k);
        snprintf(name, sizeof name, "%s.value.kernel", joint);
        CHECK(same_column(to, places[k], from, k, name, all), "%s, input %zu", name, k);
        snprintf(name, sizeof name, "%s.norm.gamma", joint);
        CHECK(same_column(to, places[k], from, k, name, one), "%s, input %zu", name, k);
        snprintf(name, sizeof name, "%s.skip.kernel", joint);
        CHECK(same_column(to, places[k], from, k, name, wide), "%s, input %zu", name, k);
    }
}

static const char *const day_first = "  day: {calendar: day_of_week, role: known, type: category}\n"
                                     "  w:   {column: w, role: known, type: category, unknown: true}\n";
static const char *const one_more = "  month: {calendar: month, role: known, type: category}\n"
                                    "  w:   {column: w, role: known, type: category, unknown: true}\n"
                                    "  day: {calendar: day_of_week, role: known, type: category}\n";

static void other_inputs(void)
{
    struct tft_run from, to;

    make(plain, "bd", 8, &from);
    make(day_first, "bd", 8, &to); /* the same inputs in another order */
    REQUIRE(!transfer(&from, &to));
    check_inputs(&to, &from, (const size_t[]){ 1, 0 }, "future.joint");
    for (size_t i = 0; i < tft_model_params(to.model)->reals; i++)
        CHECK(to.params[i] >= 0, "%zu", i);
    tft_run_fini(&to);
    make(one_more, "bd", 8, &to);
    REQUIRE(!transfer(&from, &to));
    check_inputs(&to, &from, (const size_t[]){ 1, 2 }, "future.joint");
    CHECK(to.params[param(&to, "future.joint.dense1.kernel")->offset] == -1 &&
          to.params[param(&to, "future.joint.value.bias")->offset] == -1 &&
          to.params[param(&to, "input.month.table")->offset] == -1 &&
          same_column(&to, 3, &from, 3, "future.variable.w.dense1.bias", (const size_t[]){ 0, 0, 1 }));
    /* and back: month is left out */
    tft_run_fini(&from);
    make(plain, "bd", 8, &from);
    for (size_t i = 0; i < tft_model_params(to.model)->reals; i++)
        to.params[i] = (float)i;
    REQUIRE(!transfer(&to, &from));
    check_inputs(&to, &from, (const size_t[]){ 1, 2 }, "future.joint");
    tft_run_fini(&to);
    tft_run_fini(&from);

    conformance = TFT_PYTORCH_FORECASTING; /* its joint networks are as wide as there are inputs */
    make(plain, "bd", 8, &from);
    make(one_more, "bdefgh", 8, &to); /* w has more categories: its embedding is wider */
    REQUIRE(!transfer(&from, &to));
    CHECK(to.params[param(&to, "future.joint.dense1.kernel")->offset] == -1 &&
          to.params[param(&to, "input.w.table")->offset] == -1 && to.params[param(&to, "encoder.kernel")->offset] >= 0);
    tft_run_fini(&to);
    tft_run_fini(&from);
    conformance = TFT_PUBLISHED;
}

/* Column c of the last layer begins as a mean of a and b of the other run's. */
static int is_between(const struct tft_run *to, size_t c, const struct tft_run *from, size_t a, size_t b, double share)
{
    const struct tft_param *mine = param(to, "output.quantiles.bias"), *theirs = param(from, "output.quantiles.bias");
    const float *old = from->params + theirs->offset;

    return fabs(to->params[mine->offset + c] - ((1 - share) * old[a] + share * old[b])) < 1e-2;
}

static void other_quantiles(void)
{
    static const char *const targets[] = { "  z:   {column: y, role: target, per: all}\n",
                                           "  a:   {column: y, role: target, per: all}\n"
                                           "  z:   {column: y, role: target, per: all}\n" };
    struct tft_run from, to;

    make(join(plain, targets[0]), "bd", 8, &from); /* columns: y and z at 0.1, at 0.5, at 0.9 */
    quantiles = (struct tft_list){ 4, { 0.05, 0.5, 0.7, 0.9 } };
    make(join(plain, targets[1]), "bd", 8, &to); /* y, a and z */
    REQUIRE(!transfer(&from, &to));
    CHECK(is_between(&to, 0, &from, 0, 0, 0) && is_between(&to, 2, &from, 1, 1, 0), "0.05 begins as 0.1");
    CHECK(is_between(&to, 3, &from, 2, 2, 0) && is_between(&to, 11, &from, 5, 5, 0), "0.5 and 0.9");
    CHECK(is_between(&to, 6, &from, 2, 4, 0.5) && is_between(&to, 8, &from, 3, 5, 0.5), "0.7 between 0.5 and 0.9");
    CHECK(to.params[param(&to, "output.quantiles.bias")->offset + 1] == -1, "a new target");
    tft_run_fini(&to);
    crossing = 1; /* columns are distances */
    make(join(plain, targets[0]), "bd", 8, &to);
    REQUIRE(!transfer(&from, &to));
    CHECK(to.params[param(&to, "output.quantiles.bias")->offset] == -1);
    tft_run_fini(&to);
    tft_run_fini(&from);
    crossing = 0;
    quantiles = (struct tft_list){ 3, { 0.1, 0.5, 0.9 } };
}

static void refused(void)
{
    struct tft_run from, to;

    make(plain, "bd", 8, &from);
    make(plain, "bd", 16, &to);
    CHECK(transfer(&from, &to) == HALAY_ERR_CONFIG &&
          error_says("tensor 'input.w.table' is [3, 8] in 'there', this model's is [3, 16]"));
    tft_run_fini(&to);
    make(join(plain, known_id), "bd", 8,
         &to); /* an input more: no tensor of it there, and selections of another width */
    CHECK(!transfer(&from, &to) && to.params[0] == -1, "a new static input has tensors of its own alone");
    tft_run_fini(&to);
    tft_run_fini(&from);
}

int main(void)
{
    begin_scratch();
    by_name();
    without_unknown();
    mapped_and_holidays();
    other_inputs();
    other_quantiles();
    refused();
    end_scratch();
    return test_end();
}

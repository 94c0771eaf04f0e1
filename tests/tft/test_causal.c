/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing after a forecast's origin reaches its inputs: a property, tried on random schemas and tables with gaps.
 *
 *   origin:   whatever changes, comes or goes after it (of known inputs: after the window's end), the window's inputs
 *             keep their bits;
 *   training: whatever changes after the training span, also entities that come, the encoding and the training windows,
 *             with their targets and weights, keep theirs;
 *   live:     a file that ends at the origin, and one of known inputs behind it, make the inputs that the window has.
 *
 * usage: test_causal [CASES [FIRST]]: random numbers begin anew with each case's number, which a failure prints.
 */
#include "tests/tft/files.h"
#include "tft/core/data/data.h"
#include "tft/core/data/table.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/resident.h"
#include <math.h>
#include <stdarg.h>

enum { COLUMNS = 12, ROWS = 1600, TEXT = 1 << 18, NAMES = 6, NEVER = 9999 };

/* ---- random numbers ---- */

static uint64_t state;

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state * 0x2545f4914f6cdd1du >> 33) % n;
}

static int one_in(unsigned n)
{
    return below(n) == 0;
}

#define ANY(...) any(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *), (const char *[]){ __VA_ARGS__ })
static const char *any(size_t n, const char *const *words)
{
    return words[below((unsigned)n)];
}

/* ---- a schema ---- */

struct table_column {
    const char *role;
    int is_category, complete; /* complete: a missing value is an error */
};

struct plan {
    char text[8000];
    struct table_column columns[COLUMNS];
    size_t column_count, horizon;
    int parts, dates, takes_new, has_known; /* parts of a step; may entities come that training has not seen? */
    int train, valid;                       /* ends of splits, in steps */
    const char *context;
};

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsprintf(text + used, format, args);
    va_end(args);
}

static const char *moment(const struct plan *p, int slot)
{
    static char texts[4][32];
    static int turn;
    char *text = texts[turn = (turn + 1) % 4];
    int minutes = slot * 60 / p->parts;

    if (p->dates)
        sprintf(text, "2020-02-%02d %02d:%02d:00", 26 + minutes / 1440, minutes / 60 % 24, minutes % 60);
    else
        sprintf(text, "%d", slot);
    if (p->dates && minutes >= 4 * 1440) /* from the 26th to the 29th of a leap year */
        sprintf(text, "2020-03-%02d %02d:%02d:00", minutes / 1440 - 3, minutes / 60 % 24, minutes % 60);
    return text;
}

static void add_lags(struct plan *p)
{
    add(p->text, ", lags: [%u%s]", 1 + below(3), one_in(2) ? ", 5" : "");
}

static void add_real(struct plan *p, const char *role)
{
    int target = !strcmp(role, "target"), weight = !strcmp(role, "weight"), fixed = !strcmp(role, "static");
    const char *fill = ANY("none", "drop", "forward", "interpolate", "interpolate", "interpolate", "{constant: 3}");

    if (weight && !strcmp(fill, "interpolate"))
        fill = "forward";
    p->columns[p->column_count] = (struct table_column){ role, 0, !strcmp(fill, "none") };
    add(p->text, "  x%zu: {column: x%zu, role: %s, fill: %s", p->column_count, p->column_count, role, fill);
    p->column_count++;
    const char *scale = weight ? "none" : ANY("none", "standard", "robust", "log1p-standard");
    if (!weight && !fixed && strcmp(scale, "none") != 0 && one_in(3))
        add(p->text, ", scale: %s, per: window", scale);
    else if (!weight)
        add(p->text, ", scale: %s, per: %s", scale, fixed || p->takes_new ? "all" : ANY("all", "entity"));
    if (!weight && one_in(3))
        add(p->text, ", missing_indicator: true");
    if (!weight && !fixed && one_in(3))
        add_lags(p);
    if (target && one_in(4))
        add(p->text, ", transform: log1p");
    if (one_in(8))
        add(p->text, ", missing_number: 7");
    add(p->text, "}\n");
}

static void add_category(struct plan *p, const char *role)
{
    const char *fill = ANY("none", "drop", "forward", "{constant: k1}");
    int unknown = one_in(2);

    p->columns[p->column_count] = (struct table_column){ role, 1, !unknown && !strcmp(fill, "none") };
    add(p->text, "  x%zu: {column: x%zu, role: %s, type: category, fill: %s, unknown: %s", p->column_count,
        p->column_count, role, fill, unknown ? "true" : "false");
    p->column_count++;
    if (one_in(3))
        add(p->text, ", missing_indicator: true");
    add(p->text, "}\n");
}

static void add_inputs(struct plan *p)
{
    for (unsigned n = 1 + below(3); n > 0; n--)
        add_real(p, "target");
    for (unsigned n = below(3); n > 0; n--)
        add_real(p, "observed");
    for (unsigned n = below(3); n > 0; n--, p->has_known = 1)
        add_real(p, "known");
    if (one_in(3))
        add_category(p, "observed");
    if (one_in(4)) {
        add_category(p, "known");
        p->has_known = 1;
    }
    if (one_in(4))
        add_real(p, "static");
    if (one_in(4))
        add_category(p, "static");
    if (one_in(3))
        add_real(p, "weight");
    add(p->text, "  steps: {calendar: steps, role: known, scale: none}\n");
    if (p->dates)
        add(p->text, "  hour: {calendar: hour, role: known%s}\n", ANY("", ", cyclic: true", ", type: category"));
    if (one_in(2))
        add(p->text, "  id: {from: id, role: static, type: category%s}\n",
            p->takes_new ? ANY(", unknown: true", ", unknown: true, map: {a: L, b: M, c: K, aa: A, bb: J}") : "");
}

static void make_plan(struct plan *p)
{
    int encoder = 2 + (int)below(7);

    *p = (struct plan){ .parts = 1, .dates = one_in(2), .takes_new = one_in(2) };
    p->horizon = 1 + below(4);
    p->train = 22 + (int)below(8);
    p->valid = p->train + 6;
    p->context = one_in(5) ? "none" : "before";
    if (p->dates && one_in(2))
        p->parts = 4;
    add(p->text, "id: {column: id}\ntime: {column: t%s}\n", p->dates ? "" : ", integer: true");
    if (p->dates)
        add(p->text, "every: 1h\n");
    if (p->parts > 1)
        add(p->text, "resample: {how: %s}\n", ANY("mean", "sum", "last"));
    add(p->text, "duplicates: %s\nactive: %s\ninputs:\n", ANY("mean", "first", "last"), ANY("all", "all", "trim"));
    add_inputs(p);
    add(p->text, "season: %u\n", 1 + below(2));
    add(p->text, "window: {encoder: %d, horizon: %zu, min_encoder: %d}\n", encoder, p->horizon,
        1 + (int)below((unsigned)encoder));
    add(p->text, "split: {train: \"< %s\", ", moment(p, p->train * p->parts));
    add(p->text, "valid: \"< %s\", ", moment(p, p->valid * p->parts));
    add(p->text, "test: \"< %s\", context: %s}\n", moment(p, 90 * p->parts), p->context);
}

/* ---- a table ---- */

struct row {
    const char *id;
    int slot;
    int cells[COLUMNS]; /* -1: nothing is there */
};

struct rows {
    size_t count;
    struct row list[ROWS];
};

/* What a row has in a column; -1: nothing. Values of complete columns are never 7. */
static int draw_cell(const struct row *row, const struct table_column *c, int may_miss)
{
    int value;

    if (may_miss && !c->complete)
        return -1;
    if (!strcmp(c->role, "static"))
        value = row->id[0] % 4;
    else
        value = (int)below(c->is_category ? 4 : 90);
    return c->complete && value == 7 ? 8 : value;
}

static void set_cells(const struct plan *p, struct row *row, const int open[COLUMNS])
{
    for (size_t k = 0; k < p->column_count; k++) {
        const struct table_column *c = &p->columns[k];
        row->cells[k] = draw_cell(row, c, open[k]);
    }
}

static int may_miss_rows(const struct plan *p)
{
    for (size_t k = 0; k < p->column_count; k++)
        if (p->columns[k].complete)
            return 0;
    return 1;
}

/* Slots [from, to) of an entity, with gaps in its columns, rows that are not there and some that are there twice. */
static void add_entity(const struct plan *p, const char *id, int from, int to, struct rows *rows)
{
    int open[COLUMNS], misses = may_miss_rows(p);

    for (size_t k = 0; k < COLUMNS; k++)
        open[k] = one_in(6);
    for (int slot = from; slot < to && rows->count < ROWS; slot += !one_in(12)) {
        struct row *row = &rows->list[rows->count];
        *row = (struct row){ .id = id, .slot = slot };
        for (size_t k = 0; k < COLUMNS; k++)
            open[k] = open[k] ? !one_in(3) : one_in(10);
        set_cells(p, row, open);
        rows->count += !(misses && slot > from && one_in(15));
    }
}

static const char *write_rows(const struct plan *p, const char *name, const struct rows *rows, int known_only)
{
    static char text[TEXT];
    char *at = text + sprintf(text, "id,t");

    for (size_t k = 0; k < p->column_count; k++)
        if (!known_only || !strcmp(p->columns[k].role, "known"))
            at += sprintf(at, ",x%zu", k);
    at += sprintf(at, "\n");
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        at += sprintf(at, "%s,%s", row->id, moment(p, row->slot));
        for (size_t k = 0; k < p->column_count; k++) {
            if (known_only && strcmp(p->columns[k].role, "known"))
                continue;
            at += sprintf(at, p->columns[k].is_category && row->cells[k] >= 0 ? ",k" : ",");
            if (row->cells[k] >= 0)
                at += sprintf(at, "%d", row->cells[k]);
        }
        at += sprintf(at, "\n");
    }
    return write_text(name, text);
}

/* ---- from rows to inputs ---- */

struct build {
    struct tft_data data;
    struct tft_windows windows[TFT_SPLIT_COUNT];
};

static void build_fini(struct build *b)
{
    for (int s = 0; s < TFT_SPLIT_COUNT; s++)
        tft_windows_fini(&b->windows[s]);
    tft_data_fini(&b->data);
}

/* Are bridges in the order that finding one relies on? */
static int bridges_in_order(const struct tft_data *d)
{
    for (size_t i = 1; i < d->bridge_count; i++) {
        const struct tft_bridge *a = &d->bridges[i - 1], *b = &d->bridges[i];
        if (a->entity > b->entity || (a->entity == b->entity && a->column > b->column) ||
            (a->entity == b->entity && a->column == b->column && a->first + (int64_t)a->rows >= b->first))
            return 0;
    }
    return 1;
}

static enum halay_status take_future(const struct tft_schema *schema, const char *path, size_t rows,
                                     struct tft_table *table)
{
    return tft_future_take(&test_log, schema, &(struct tft_table_source){ .paths = &path, .path_count = 1 }, rows,
                           table);
}

/* known: the encoding's document, or NULL to fit one. future: NULL, or what is known behind the rows' end. */
static enum halay_status make_data(const struct plan *p, const struct rows *rows, json_t *known,
                                   const struct rows *future, int live, struct tft_data *data)
{
    const char *path = write_rows(p, "rows.csv", rows, 0);
    struct tft_schema schema = { 0 };
    struct tft_table table = { 0 };
    struct tft_encoding encoding = { 0 };
    enum halay_status status = tft_schema_load(&test_log, write_text("s.yaml", p->text), &schema);

    CHECK(!status || error_says("schema"), "%s", p->text);
    if (!status)
        status = tft_table_read(&test_log, &schema, &path, 1, &table);
    if (!status && !known)
        tft_encoding_drop_untrained(&test_log, &schema, &table);
    if (!status)
        status = known ? tft_encoding_init(&test_log, "test", &schema, known, &encoding)
                       : tft_encoding_fit(&test_log, &schema, &table, &encoding);
    if (!status && live)
        status = tft_table_extend(&test_log, p->horizon, &table);
    if (!status && future)
        status = take_future(&schema, write_rows(p, "future.csv", future, 1), p->horizon, &table);
    if (!status)
        status = tft_data_init(&test_log, &schema, &encoding, &table, data);
    CHECK(status || bridges_in_order(data), "%s", p->text);
    tft_encoding_fini(&encoding);
    tft_table_fini(&table);
    tft_schema_fini(&schema);
    return status;
}

static void little_room(size_t *free_bytes, size_t *all)
{
    *free_bytes = 64;
    *all = 1 << 20;
}

/* A device that has no room for them leaves batches to the host. */
static void rows_do_not_fit(const struct tft_data *d)
{
    struct kernels table = *tft_kernels_cpu();
    struct queue_head queue = { .kernels = &table };
    struct tft_resident *rows = NULL;

    table.room = little_room;
    CHECK(!tft_resident_create(&test_log, d, (struct queue *)&queue, 1, 1, &rows) && !rows);
}

static int build(const struct plan *p, const struct rows *rows, json_t *known, struct build *b)
{
    *b = (struct build){ 0 };
    if (make_data(p, rows, known, NULL, 0, &b->data))
        return 0;
    for (int s = 0; s < TFT_SPLIT_COUNT; s++)
        REQUIRE(!tft_windows_init(&test_log, &b->data, (enum tft_split)s, 1, &b->windows[s]));
    rows_do_not_fit(&b->data);
    return 1;
}

/* What a window gives to the model; zero where the model does not look. */
struct inputs {
    size_t length;
    float reals[16 * 64], static_reals[16], targets[16], weights[16], offsets[16], units[4];
    int32_t cats[16 * 16], static_cats[16];
};

/* The same window, cut from rows as those on a device are: all bits are alike. */
static void cut_again(const struct tft_gather *gather, const struct tft_batch *batch)
{
    static struct inputs again;
    struct tft_batch there = { .reals = again.reals,
                               .cats = again.cats,
                               .static_reals = again.static_reals,
                               .static_cats = again.static_cats,
                               .targets = again.targets,
                               .weights = again.weights,
                               .offsets = again.offsets,
                               .units = again.units };
    const struct tft_data *d = gather->windows->data;
    size_t E = d->schema.encoder, D = d->schema.horizon, O = d->schema.target_count, length;
    size_t begin = E - batch->lengths[0], steps = E + D - begin, R = d->real_count, C = d->cat_count;
    struct tft_batch cut = { .B = 1, .position = batch->position, .lengths = &length, .there = &there };
    struct tft_resident *rows;

    REQUIRE(!tft_kernels_cpu()->open(&(struct queue_needs){ 0 }, &cut.queue));
    REQUIRE(!tft_resident_create(&test_log, d, cut.queue, 1, 1, &rows) && rows);
    REQUIRE(!tft_resident_fill(rows, gather, 0, &cut));
    CHECK(cut.is_there && length == batch->lengths[0]);
    CHECK(!memcmp(again.reals + begin * R, batch->reals + begin * R, steps * R * sizeof(float)), "reals");
    CHECK(!memcmp(again.cats + begin * C, batch->cats + begin * C, steps * C * sizeof(int32_t)), "categories");
    CHECK(!memcmp(again.static_reals, batch->static_reals, d->static_count * sizeof(float)), "static reals");
    CHECK(!memcmp(again.static_cats, batch->static_cats, d->static_cat_count * sizeof(int32_t)), "static categories");
    CHECK(!memcmp(again.weights, batch->weights, D * O * sizeof(float)), "weights");
    CHECK(!memcmp(again.offsets, batch->offsets, D * O * sizeof(float)), "offsets");
    CHECK(!memcmp(again.units, batch->units, O * sizeof(float)), "units");
    for (size_t i = 0; i < D * O; i++)
        CHECK(batch->weights[i] == 0 || !memcmp(&again.targets[i], &batch->targets[i], sizeof(float)), "target %zu", i);
    tft_resident_destroy(rows);
    tft_kernels_cpu()->close(cut.queue);
}

static void take_inputs(const struct tft_windows *w, size_t number, struct inputs *in)
{
    const struct tft_data *d = w->data;
    struct tft_gather gather = { .windows = w, .base = number };
    struct tft_batch batch = { .B = 1,
                               .reals = in->reals,
                               .cats = in->cats,
                               .static_reals = in->static_reals,
                               .static_cats = in->static_cats,
                               .targets = in->targets,
                               .weights = in->weights,
                               .offsets = in->offsets,
                               .units = in->units,
                               .lengths = &in->length };
    size_t E = d->schema.encoder, rows = E + d->schema.horizon, R = d->real_count, C = d->cat_count;

    REQUIRE(rows * R <= 16 * 64 && rows * C <= 16 * 16 && d->static_count < 16 && d->static_cat_count < 16);
    memset(in, 0, sizeof *in);
    for (size_t o = 0; o < d->schema.target_count; o++)
        in->units[o] = 1;
    REQUIRE(!tft_gather_fill(&gather, 0, &batch));
    cut_again(&gather, &batch);
    for (size_t i = (E - in->length) * R; i < E * R; i++)
        CHECK(isfinite(in->reals[i]), "input %zu of window %zu", i % R, number);
    memset(in->reals, 0, (E - in->length) * R * sizeof(float));
    memset(in->cats, 0, (E - in->length) * C * sizeof(int32_t));
    for (size_t i = 0; i < d->schema.horizon * d->schema.target_count; i++)
        in->targets[i] = in->weights[i] > 0 ? in->targets[i] : 0; /* masked: times 0 */
    for (size_t i = E; i < rows; i++) {
        for (size_t k = 0; k < R; k++)
            if (d->schema.inputs[d->reals[k]].role != TFT_INPUT_KNOWN)
                in->reals[i * R + k] = 0;
        for (size_t k = 0; k < C; k++)
            if (d->schema.inputs[d->cats[k]].role != TFT_INPUT_KNOWN)
                in->cats[i * C + k] = 0;
    }
}

/* The first input that differs in a bit, and its row; NULL: none. */
static const char *differs(const struct tft_data *d, const struct inputs *a, const struct inputs *b, size_t *row)
{
    size_t rows = d->schema.encoder + d->schema.horizon;

    *row = 0;
    if (a->length != b->length)
        return "the length";
    for (*row = 0; *row < rows; ++*row) {
        for (size_t k = 0; k < d->real_count; k++)
            if (memcmp(&a->reals[*row * d->real_count + k], &b->reals[*row * d->real_count + k], sizeof(float)) != 0)
                return d->schema.inputs[d->reals[k]].name;
        for (size_t k = 0; k < d->cat_count; k++)
            if (a->cats[*row * d->cat_count + k] != b->cats[*row * d->cat_count + k])
                return d->schema.inputs[d->cats[k]].name;
    }
    if (memcmp(a->offsets, b->offsets, sizeof a->offsets) != 0 || memcmp(a->units, b->units, sizeof a->units) != 0)
        return "the scale of a target";
    if (memcmp(a->static_reals, b->static_reals, sizeof a->static_reals) != 0)
        return "a static real";
    return memcmp(a->static_cats, b->static_cats, sizeof a->static_cats) ? "a static category" : NULL;
}

/* The window of an entity with that origin; SIZE_MAX: none. */
static size_t find_window(const struct tft_windows *w, const char *id, int64_t time)
{
    for (size_t i = 0; i < w->count; i++) {
        struct tft_window x = tft_windows_get(w, i);
        if (!strcmp(w->data->entities[x.entity].id, id) && tft_data_time(w->data, x.entity, x.origin) == time)
            return i;
    }
    return SIZE_MAX;
}

/* ---- the property ---- */

struct trial {
    unsigned number;
    const struct plan *plan;
    const struct rows *rows;
    struct build *base;
};

static unsigned compared[3]; /* windows: origin, training, live */

static void compare(const struct trial *t, const char *what, int kind, const struct tft_windows *w, size_t number,
                    const struct tft_windows *others, size_t other)
{
    struct tft_window x = tft_windows_get(w, number);
    struct inputs a, b;
    size_t row;

    take_inputs(w, number, &a);
    take_inputs(others, other, &b);
    const char *name = differs(w->data, &a, &b, &row);
    compared[kind]++;
    CHECK(!name, "case %u, %s: '%s' of window %zu of '%s' differs in row %zu of %zu\n%s", t->number, what,
          name ? name : "", number, w->data->entities[x.entity].id, row, w->data->schema.encoder, t->plan->text);
    if (kind == 1 || kind == 3)
        CHECK(!memcmp(a.targets, b.targets, sizeof a.targets) && !memcmp(a.weights, b.weights, sizeof a.weights),
              "case %u, %s: a target or a weight differs\n%s", t->number, what, t->plan->text);
}

/* Change rows from a slot on; known inputs from another one on. */
static void change(const struct plan *p, const struct rows *from, int slot, int known_slot, struct rows *to)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        struct row *row = &to->list[to->count++];
        *row = from->list[i];
        for (size_t k = 0; k < p->column_count; k++) {
            const struct table_column *c = &p->columns[k];
            if (row->slot < (strcmp(c->role, "known") ? slot : known_slot) || one_in(2))
                continue;
            row->cells[k] = draw_cell(row, c, one_in(2));
        }
        if (row->slot >= known_slot && may_miss_rows(p) && one_in(4))
            to->count--;
    }
}

/* Rows behind the origin of a window differ. */
static void try_origin(const struct trial *t, enum tft_split split)
{
    static struct rows changed;
    const struct tft_windows *w = &t->base->windows[split];
    const struct plan *p = t->plan;
    struct build other;

    if (!w->count)
        return;
    size_t number = below((unsigned)w->count);
    struct tft_window x = tft_windows_get(w, number);
    int64_t time = tft_data_time(w->data, x.entity, x.origin),
            zero = p->dates ? tft_time_from_date(2020, 2, 26, 0, 0, 0) : 0;
    int slot = (int)(time - zero) / (p->dates ? 3600 : 1) * p->parts;
    change(p, t->rows, slot, p->has_known ? slot + (int)p->horizon * p->parts : slot, &changed);
    if (!build(p, &changed, t->base->data.encoding.document, &other))
        return;
    size_t again = find_window(&other.windows[split], w->data->entities[x.entity].id, time);
    if (again != SIZE_MAX)
        compare(t, "origin", 0, w, number, &other.windows[split], again);
    build_fini(&other);
}

/* Rows behind the training span differ, and entities begin there. */
static void try_training(const struct trial *t)
{
    static struct rows changed;
    const struct tft_windows *w = &t->base->windows[TFT_TRAIN];
    int end = t->plan->train * t->plan->parts;
    struct build other;

    change(t->plan, t->rows, end, end, &changed);
    if (one_in(2)) {
        add_entity(t->plan, "aa", end, end + 12 * t->plan->parts, &changed);
        add_entity(t->plan, "bb", end, end + 12 * t->plan->parts, &changed);
    }
    if (!build(t->plan, &changed, NULL, &other))
        return;
    char *before = json_dumps(t->base->data.encoding.document, JSON_SORT_KEYS),
         *after = json_dumps(other.data.encoding.document, JSON_SORT_KEYS);
    CHECK(before && after && !strcmp(before, after), "case %u, training: the encoding was\n%s\nand is\n%s\n%s",
          t->number, before, after, t->plan->text);
    free(before);
    free(after);
    for (size_t i = 0; i < w->count; i++) {
        struct tft_window x = tft_windows_get(w, i);
        size_t again = find_window(&other.windows[TFT_TRAIN], w->data->entities[x.entity].id,
                                   tft_data_time(w->data, x.entity, x.origin));
        if (again != SIZE_MAX)
            compare(t, "training", 1, w, i, &other.windows[TFT_TRAIN], again);
    }
    build_fini(&other);
}

/* The rows of a window's future, one for each moment at least. */
static void future_rows(const struct plan *p, const struct rows *from, int slot, struct rows *to)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        if (from->list[i].slot >= slot && from->list[i].slot < slot + (int)p->horizon * p->parts)
            to->list[to->count++] = from->list[i];
    for (int n = 0; n < (int)p->horizon && may_miss_rows(p); n++)
        for (const char *id = "a\0b\0c\0"; *id; id += 2) {
            struct row *row = &to->list[to->count];
            int there = 0;
            for (size_t i = 0; i < to->count; i++)
                there |= !strcmp(to->list[i].id, id) && to->list[i].slot / p->parts == slot / p->parts + n;
            if (there)
                continue;
            *row = (struct row){ .id = id, .slot = slot + n * p->parts };
            memset(row->cells, -1, sizeof row->cells);
            to->count++;
        }
}

/* A file that ends at the window's origin. */
static void try_live(const struct trial *t, enum tft_split split)
{
    static struct rows past, future;
    const struct tft_windows *w = &t->base->windows[split];
    const struct plan *p = t->plan;
    struct tft_data live;
    struct tft_windows last;

    if (!w->count || !strcmp(p->context, "none"))
        return;
    size_t number = below((unsigned)w->count);
    struct tft_window x = tft_windows_get(w, number);
    int64_t time = tft_data_time(w->data, x.entity, x.origin),
            zero = p->dates ? tft_time_from_date(2020, 2, 26, 0, 0, 0) : 0;
    int slot = (int)(time - zero) / (p->dates ? 3600 : 1) * p->parts;
    past.count = 0;
    for (size_t i = 0; i < t->rows->count; i++)
        if (t->rows->list[i].slot < slot)
            past.list[past.count++] = t->rows->list[i];
    future_rows(p, t->rows, slot, &future);
    if (make_data(p, &past, w->data->encoding.document, p->has_known ? &future : NULL, 1, &live))
        return;
    REQUIRE(!tft_windows_init_last(&test_log, &live, &last));
    size_t again = find_window(&last, w->data->entities[x.entity].id, time);
    if (again != SIZE_MAX)
        compare(t, "live", 2, w, number, &last, again);
    tft_windows_fini(&last);
    tft_data_fini(&live);
}

/* What is read from a file of prepared data is what was written. */
static void try_file(const struct trial *t)
{
    const char *path = in_scratch("data.htd");
    struct tft_data data;
    struct tft_windows w;

    REQUIRE(!tft_htd_write(&test_log, path, &t->base->data) && !tft_htd_open(&test_log, path, &data));
    REQUIRE(!tft_windows_init(&test_log, &data, TFT_TRAIN, 1, &w));
    CHECK(w.count == t->base->windows[TFT_TRAIN].count);
    for (size_t i = 0; i < w.count; i++)
        compare(t, "file", 1, &w, i, &t->base->windows[TFT_TRAIN], i);
    tft_windows_fini(&w);
    tft_data_fini(&data);
}

/* Is there something to compare? Some tables cannot be prepared: a column without values, a new category. */
static int try_case(unsigned number)
{
    static const char *const ids[] = { "a", "b", "c" };
    static struct rows rows;
    struct plan plan;
    struct build base;
    const struct trial t = { number, &plan, &rows, &base };

    state = number * 0x9e3779b97f4a7c15u + 88172645463325252u;
    for (int i = 0; i < 4; i++)
        below(2);
    make_plan(&plan);
    rows.count = 0;
    for (size_t e = 0; e < 1 + below(3); e++)
        add_entity(&plan, ids[e], (int)below(8) * plan.parts, (38 + (int)below(8)) * plan.parts, &rows);
    if (!build(&plan, &rows, NULL, &base))
        return 0;
    for (int s = 0; s < TFT_SPLIT_COUNT; s++)
        for (int i = 0; i < 3; i++) {
            try_origin(&t, (enum tft_split)s);
            try_live(&t, (enum tft_split)s);
        }
    try_training(&t);
    if (number % 50 == 0)
        try_file(&t);
    build_fini(&base);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned cases = getenv("TEST_BRIEF") ? 100 : 400, first = argc > 2 ? (unsigned)atoi(argv[2]) : 0, built = 0;

    if (argc > 1)
        cases = (unsigned)atoi(argv[1]);
    begin_scratch();
    try_case(102080); /* by what comes behind the training span an entity's rows end with it or before */
    for (unsigned i = first; i < first + cases && test_failed < 5; i++)
        built += (unsigned)try_case(i);
    printf("%u of %u tables, windows: %u origin, %u training, %u live\n", built, cases, compared[0], compared[1],
           compared[2]);
    CHECK(argc > 1 ||
          (built > cases * 9 / 10 && compared[0] > 5 * cases && compared[1] > 15 * cases && compared[2] > 5 * cases));
    end_scratch();
    return test_end();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Favorita: train.csv, in order of date, streamed twice: first to find the trajectories (a store and an item) that ever
 * had negative sales, which the published experiment leaves out; then to join each row with the small tables, which are
 * held in memory, by day and by text. A trajectory's days without a row become rows without sales on which it was not
 * open, so that prices of oil and holidays are known on them too; memory grows with trajectories and days, not with
 * rows. Rows are
 *
 *     traj_id,date,unit_sales,onpromotion,open,store_nbr,item_nbr,city,state,type,cluster,family,class,perishable,
 *     transactions,oil,national_hol,regional_hol,local_hol
 *
 * with -1 for transactions that are not known and for oil before its first price; later gaps of oil have the price
 * before. Transferred holidays are left out. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/data/calendar.h"
#include "tft/data/convert.h"
#include "tft/data/csv.h"
#include "tft/data/dictionary.h"
#include "tft/data/paths.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { KEY_MAX = 256, DAYS_MAX = 20000 };

/* Texts by text. */
struct lookup {
    struct tft_dictionary keys, values;
    size_t *value_of; /* owned: (keys) number of its value */
    size_t size;
};

struct trajectory {
    int64_t last_day; /* with a row; INT64_MIN: none yet */
    int negative;
};

struct favorita {
    struct halay_log *log;
    const char *folder;
    int64_t first, last; /* days */
    struct lookup stores, items, transactions, oil, holidays;
    struct tft_dictionary names;     /* of trajectories */
    struct trajectory *trajectories; /* owned: (size) */
    size_t size;
    FILE *out;
};

/* A table being read: its columns by the order of the names that were asked for. */
struct table {
    struct favorita *f;
    char *path; /* owned */
    struct tft_csv *csv;
    size_t columns[12], count;
    char **fields;
};

static enum halay_status no_memory(const struct favorita *f)
{
    halay_error(f->log, "no memory for Favorita's tables");
    return HALAY_ERR_NO_MEMORY;
}

/* ---- texts by text ---- */

static enum halay_status lookup_set(const struct favorita *f, struct lookup *l, const char *key, const char *value)
{
    size_t k, v;

    if (tft_dictionary_add(&l->keys, key, &k) || tft_dictionary_add(&l->values, value, &v))
        return no_memory(f);
    if (k >= l->size) {
        size_t size = l->size ? l->size * 2 : 64;
        size_t *more = realloc(l->value_of, size * sizeof *more);
        if (!more)
            return no_memory(f);
        l->value_of = more;
        l->size = size;
    }
    l->value_of[k] = v;
    return HALAY_OK;
}

/* What was set for a key, or `otherwise`. */
static const char *lookup_get(const struct lookup *l, const char *key, const char *otherwise)
{
    size_t k;

    return tft_dictionary_find(&l->keys, key, &k) ? l->values.texts[l->value_of[k]] : otherwise;
}

static void lookup_fini(struct lookup *l)
{
    tft_dictionary_fini(&l->keys);
    tft_dictionary_fini(&l->values);
    free(l->value_of);
}

/* ---- tables ---- */

static enum halay_status table_open(struct favorita *f, const char *name, const char *const *columns, struct table *t)
{
    char file[64];
    enum halay_status status = HALAY_OK;

    *t = (struct table){ .f = f };
    t->path = tft_path_join(f->log, f->folder, name);
    if (t->path && access(t->path, F_OK)) { /* perhaps it is compressed */
        snprintf(file, sizeof file, "%s.gz", name);
        char *compressed = tft_path_join(f->log, f->folder, file);
        if (compressed && !access(compressed, F_OK)) {
            free(t->path);
            t->path = compressed;
        } else {
            free(compressed);
        }
    }
    if (!t->path)
        return HALAY_ERR_NO_MEMORY;
    status = tft_csv_open(f->log, t->path, ',', &t->csv);
    for (; columns[t->count] && !status; t->count++)
        status = tft_csv_find_column(t->csv, columns[t->count], &t->columns[t->count]);
    return status;
}

static void table_close(struct table *t)
{
    if (t->csv)
        tft_csv_close(t->csv);
    free(t->path);
}

static const char *cell(const struct table *t, size_t k)
{
    return t->fields[t->columns[k]];
}

static enum halay_status bad_cell(const struct table *t, size_t k, const char *should)
{
    halay_error(t->f->log, "file '%s', row %zu, column '%s': '%.64s' is not %s", t->path, tft_csv_row(t->csv),
                tft_csv_column_name(t->csv, t->columns[k]), cell(t, k), should);
    return HALAY_ERR_FORMAT;
}

static enum halay_status read_day(const struct table *t, size_t k, int64_t *day)
{
    int64_t time;

    if (tft_time_parse(cell(t, k), "%Y-%m-%d", &time))
        return bad_cell(t, k, "a day like 2015-01-01");
    *day = tft_time_day(time);
    return HALAY_OK;
}

/* Read all rows of a small table; each is given to take. */
static enum halay_status read_table(struct favorita *f, const char *name, const char *const *columns,
                                    enum halay_status (*take)(const struct table *t))
{
    struct table t;
    int end = 0;
    enum halay_status status = table_open(f, name, columns, &t);

    while (!status && !end) {
        status = tft_csv_next(t.csv, &t.fields, &end);
        if (!status && !end)
            status = take(&t);
    }
    table_close(&t);
    return status;
}

/* A field as CSV has it, for texts that are copied. */
static void quote(const char *text, char *out, size_t size)
{
    size_t n = 0;

    if (!text[strcspn(text, ",\"\r\n")]) {
        snprintf(out, size, "%s", text);
        return;
    }
    out[n++] = '"';
    for (; *text && n + 3 < size; text++) {
        if (*text == '"')
            out[n++] = '"';
        out[n++] = *text;
    }
    out[n++] = '"';
    out[n] = 0;
}

/* Columns 1 to count of a row, joined by commas, under the text of column 0. */
static enum halay_status keep_row(const struct table *t, struct lookup *l)
{
    char text[1024] = "", field[KEY_MAX];

    for (size_t k = 1; k < t->count; k++) {
        size_t used = strlen(text);
        quote(cell(t, k), field, sizeof field);
        snprintf(text + used, sizeof text - used, "%s%s", k > 1 ? "," : "", field);
    }
    return lookup_set(t->f, l, cell(t, 0), text);
}

static enum halay_status take_store(const struct table *t)
{
    char key[KEY_MAX];
    enum halay_status status = keep_row(t, &t->f->stores);

    if (status)
        return status;
    /* where its holidays are found: "city/12" and "state/12" */
    snprintf(key, sizeof key, "city/%.200s", cell(t, 0));
    status = lookup_set(t->f, &t->f->holidays, key, cell(t, 1));
    if (status)
        return status;
    snprintf(key, sizeof key, "state/%.200s", cell(t, 0));
    return lookup_set(t->f, &t->f->holidays, key, cell(t, 2));
}

static enum halay_status take_item(const struct table *t)
{
    return keep_row(t, &t->f->items);
}

static enum halay_status take_transactions(const struct table *t)
{
    char key[KEY_MAX];
    int64_t day;
    enum halay_status status = read_day(t, 0, &day);

    if (status)
        return status;
    snprintf(key, sizeof key, "%lld/%.200s", (long long)day, cell(t, 1));
    return lookup_set(t->f, &t->f->transactions, key, cell(t, 2));
}

static enum halay_status take_oil(const struct table *t)
{
    char key[KEY_MAX];
    int64_t day;
    enum halay_status status = read_day(t, 0, &day);

    if (status || !*cell(t, 1))
        return status;
    snprintf(key, sizeof key, "%lld", (long long)day);
    return lookup_set(t->f, &t->f->oil, key, cell(t, 1));
}

/* "day/National/", "day/Regional/STATE", "day/Local/CITY". */
static enum halay_status take_holiday(const struct table *t)
{
    char key[KEY_MAX], name[KEY_MAX];
    int64_t day;
    enum halay_status status = read_day(t, 0, &day);

    if (status || !strcasecmp(cell(t, 4), "true"))
        return status;
    snprintf(key, sizeof key, "%lld/%.100s/%.100s", (long long)day, cell(t, 1),
             strcmp(cell(t, 1), "National") ? cell(t, 2) : "");
    quote(cell(t, 3), name, sizeof name);
    return lookup_set(t->f, &t->f->holidays, key, name);
}

/* Every day of the span has a price: its own, or the one before. */
static enum halay_status carry_oil(struct favorita *f)
{
    char key[KEY_MAX];
    const char *price = "-1";
    enum halay_status status = HALAY_OK;

    for (int64_t day = f->first - 31; day <= f->last && !status; day++) { /* the first day's may be some days old */
        snprintf(key, sizeof key, "%lld", (long long)day);
        price = lookup_get(&f->oil, key, price);
        status = lookup_set(f, &f->oil, key, price);
    }
    return status;
}

static enum halay_status read_small_tables(struct favorita *f)
{
    static const char *const stores[] = { "store_nbr", "city", "state", "type", "cluster", NULL };
    static const char *const items[] = { "item_nbr", "family", "class", "perishable", NULL };
    static const char *const transactions[] = { "date", "store_nbr", "transactions", NULL };
    static const char *const oil[] = { "date", "dcoilwtico", NULL };
    static const char *const holidays[] = { "date", "locale", "locale_name", "description", "transferred", NULL };
    enum halay_status status = read_table(f, "stores.csv", stores, take_store);

    if (!status)
        status = read_table(f, "items.csv", items, take_item);
    if (!status)
        status = read_table(f, "transactions.csv", transactions, take_transactions);
    if (!status)
        status = read_table(f, "oil.csv", oil, take_oil);
    if (!status)
        status = read_table(f, "holidays_events.csv", holidays, take_holiday);
    return status ? status : carry_oil(f);
}

/* ---- sales ---- */

enum { DATE, STORE, ITEM, SALES, PROMOTION };

/* The trajectory of a row of sales that lies in the span; NULL if it does not. */
static enum halay_status find_trajectory(const struct table *t, int64_t *day, struct trajectory **found)
{
    struct favorita *f = t->f;
    char name[KEY_MAX];
    size_t number;
    enum halay_status status = read_day(t, DATE, day);

    *found = NULL;
    if (status || *day < f->first || *day > f->last)
        return status;
    snprintf(name, sizeof name, "%.100s_%.100s", cell(t, STORE), cell(t, ITEM));
    if (tft_dictionary_add(&f->names, name, &number))
        return no_memory(f);
    if (number >= f->size) {
        size_t size = f->size ? f->size * 2 : 1024;
        struct trajectory *more = realloc(f->trajectories, size * sizeof *more);
        if (!more)
            return no_memory(f);
        for (size_t i = f->size; i < size; i++)
            more[i] = (struct trajectory){ .last_day = INT64_MIN };
        f->trajectories = more;
        f->size = size;
    }
    *found = &f->trajectories[number];
    return HALAY_OK;
}

static enum halay_status look_for_negative(const struct table *t)
{
    struct trajectory *trajectory;
    int64_t day;
    enum halay_status status = find_trajectory(t, &day, &trajectory);

    if (trajectory)
        trajectory->negative |= *cell(t, SALES) == '-';
    return status;
}

static const char *holiday(const struct favorita *f, int64_t day, const char *locale, const char *place)
{
    char key[KEY_MAX];

    snprintf(key, sizeof key, "%lld/%s/%.100s", (long long)day, locale, place);
    return lookup_get(&f->holidays, key, "");
}

/* One row of the result; sales NULL: a day without one. */
static enum halay_status write_day(const struct table *t, int64_t day, const char *sales)
{
    const struct favorita *f = t->f;
    const char *store = cell(t, STORE), *item = cell(t, ITEM), *of_store = lookup_get(&f->stores, store, NULL);
    const char *of_item = lookup_get(&f->items, item, NULL);
    char date[32], key[KEY_MAX], oil[32];

    if (!of_store || !of_item)
        return bad_cell(t, of_store ? ITEM : STORE, of_store ? "in items.csv" : "in stores.csv");
    tft_time_print(day * 86400, date, sizeof date);
    date[10] = 0;
    fprintf(f->out, "%s_%s,%s,%s,%s,%d,%s,%s,%s,%s,", store, item, date, sales ? sales : "",
            sales ? cell(t, PROMOTION) : "", sales != NULL, store, item, of_store, of_item);
    snprintf(key, sizeof key, "%lld/%.200s", (long long)day, store);
    snprintf(oil, sizeof oil, "%lld", (long long)day);
    fprintf(f->out, "%s,%s,%s", lookup_get(&f->transactions, key, "-1"), lookup_get(&f->oil, oil, "-1"),
            holiday(f, day, "National", ""));
    snprintf(key, sizeof key, "state/%.200s", store);
    fprintf(f->out, ",%s", holiday(f, day, "Regional", lookup_get(&f->holidays, key, "")));
    snprintf(key, sizeof key, "city/%.200s", store);
    fprintf(f->out, ",%s\n", holiday(f, day, "Local", lookup_get(&f->holidays, key, "")));
    return HALAY_OK;
}

static enum halay_status write_sales(const struct table *t)
{
    struct trajectory *trajectory;
    int64_t day;
    enum halay_status status = find_trajectory(t, &day, &trajectory);

    if (status || !trajectory || trajectory->negative)
        return status;
    if (trajectory->last_day != INT64_MIN && day <= trajectory->last_day)
        return bad_cell(t, DATE, "after this store's and item's row before (train.csv is in order of date)");
    for (int64_t gap = trajectory->last_day + 1; trajectory->last_day != INT64_MIN && gap < day && !status; gap++)
        status = write_day(t, gap, NULL);
    trajectory->last_day = day;
    return status ? status : write_day(t, day, cell(t, SALES));
}

static enum halay_status read_sales(struct favorita *f, struct tft_output *output, const char *out)
{
    static const char *const sales[] = { "date", "store_nbr", "item_nbr", "unit_sales", "onpromotion", NULL };
    enum halay_status status = read_table(f, "train.csv", sales, look_for_negative);

    if (!status)
        status = tft_output_open(f->log, out, output);
    if (status)
        return status;
    f->out = output->file;
    fputs("traj_id,date,unit_sales,onpromotion,open,store_nbr,item_nbr,city,state,type,cluster,family,class,perishable,"
          "transactions,oil,national_hol,regional_hol,local_hol\n",
          f->out);
    status = read_table(f, "train.csv", sales, write_sales);
    return status ? status : tft_output_commit(output);
}

enum halay_status tft_convert_favorita(struct halay_log *log, const char *folder, const char *first, const char *last,
                                       const char *out)
{
    struct favorita f = { .log = log, .folder = folder };
    struct tft_output output = { 0 };
    int64_t from, to;

    if (tft_time_parse(first, "%Y-%m-%d", &from) || tft_time_parse(last, "%Y-%m-%d", &to) || from > to ||
        tft_time_day(to) - tft_time_day(from) > DAYS_MAX) {
        halay_error(log, "'--first' and '--last' must be days like 2015-01-01, in order");
        return HALAY_ERR_CONFIG;
    }
    f.first = tft_time_day(from);
    f.last = tft_time_day(to);
    enum halay_status status = read_small_tables(&f);
    if (!status)
        status = read_sales(&f, &output, out);
    tft_output_abort(&output);
    lookup_fini(&f.stores);
    lookup_fini(&f.items);
    lookup_fini(&f.transactions);
    lookup_fini(&f.oil);
    lookup_fini(&f.holidays);
    tft_dictionary_fini(&f.names);
    free(f.trajectories);
    return status;
}

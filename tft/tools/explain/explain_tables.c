/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation as CSV: importance.csv (of each input, of all steps and of each), attention.csv (of each head, and of
 * all, from each step of the horizon) and windows.csv (each forecast), which is written as the windows come.
 */
#include "base/number_text.h"
#include "tft/tools/explain/explain.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COLUMN_MAX = 128 };

static int is_writer(const struct tft_explanation *e)
{
    return e->given.tables && e->is_first;
}

static enum halay_status open_table(const struct tft_explanation *e, const char *name, struct halay_output *out)
{
    const char *folder = e->given.tables, *slash = *folder && folder[strlen(folder) - 1] == '/' ? "" : "/";
    char *path;

    if (asprintf(&path, "%s%s%s", folder, slash, name) < 0)
        return halay_no_memory(e->log, "for a file's name");
    enum halay_status status = halay_output_open(e->log, path, out);
    free(path);
    return status;
}

enum halay_status tft_explain_tables_open(struct tft_explanation *e)
{
    char column[COLUMN_MAX];

    if (!is_writer(e))
        return HALAY_OK;
    if (mkdir(e->given.tables, 0777) < 0 && errno != EEXIST) {
        halay_error(e->log, "cannot make '%s': %s", e->given.tables, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    enum halay_status status = open_table(e, "windows.csv", &e->table);
    if (status)
        return status;
    fputs("entity,origin,distance,regime", e->table.file);
    for (int part = 0; part < TFT_WEIGHED_PARTS; part++)
        for (size_t j = 0; j < e->of.V[part]; j++) {
            fputc(',', e->table.file);
            snprintf(column, sizeof column, "%s %s", tft_weighed_parts[part], tft_weighed_name(&e->of, part, j));
            halay_write_field(e->table.file, column);
        }
    fputc('\n', e->table.file);
    return HALAY_OK;
}

void tft_explain_tables_window(const struct tft_explanation *e, const struct halay_tft_forecast *w, double distance)
{
    char origin[TFT_TIME_MAX];

    if (!e->table.file)
        return;
    halay_tft_data_print_time(e->data, w->origin, origin);
    halay_write_field(e->table.file, w->entity);
    halay_fprintf(e->table.file, ",%s,%.6g,%d", origin, distance, distance > e->given.regime);
    for (size_t j = 0; j < w->input_count; j++)
        halay_fprintf(e->table.file, ",%.6g", w->weights[j]);
    fputc('\n', e->table.file);
}

/* Writes the end of a line. bins NULL: without percentiles. */
static void write_percentiles(FILE *file, const int64_t *bins)
{
    if (bins)
        halay_fprintf(file, ",%.6g,%.6g,%.6g\n", tft_share_quantile(bins, .1), tft_share_quantile(bins, .5),
                      tft_share_quantile(bins, .9));
    else
        fprintf(file, ",,,\n");
}

/* Step 0 is the origin, as in the page: the last one whose values a forecast knows. */
static void write_input(const struct tft_explanation *e, FILE *file, int part, size_t j)
{
    const int64_t *bins = e->sums.bins[part] + j * TFT_SHARE_BINS;
    const char *name = tft_weighed_name(&e->of, part, j);

    fprintf(file, "%s,", tft_weighed_parts[part]);
    halay_write_field(file, name);
    halay_fprintf(file, ",all,%zu,%.6g", e->windows, tft_weight_sums_mean_of_steps(&e->sums, part, j));
    write_percentiles(file, bins);
    for (size_t t = 0; part != TFT_WEIGHED_STATIC && t < e->of.steps[part]; t++) {
        int64_t n = tft_weight_sums_windows(&e->sums, part, t);
        if (!n)
            continue;
        fprintf(file, "%s,", tft_weighed_parts[part]);
        halay_write_field(file, name);
        halay_fprintf(file, ",%ld,%lld,%.6g", part == TFT_WEIGHED_PAST ? (long)t - (long)e->of.E + 1 : (long)t + 1,
                      (long long)n, tft_weight_sums_mean(&e->sums, part, t, j));
        write_percentiles(
            file, part == TFT_WEIGHED_FUTURE ? e->sums.future_bins + (t * e->of.V[part] + j) * TFT_SHARE_BINS : NULL);
    }
}

static enum halay_status write_importance(const struct tft_explanation *e)
{
    struct halay_output out = { 0 };
    enum halay_status status = open_table(e, "importance.csv", &out);

    if (status)
        return status;
    fputs("part,input,step,windows,mean,p10,p50,p90\n", out.file);
    for (int part = 0; part < TFT_WEIGHED_PARTS; part++)
        for (size_t j = 0; j < e->of.V[part]; j++)
            write_input(e, out.file, part, j);
    return halay_output_commit(&out);
}

/* Writes the attention from a step of the horizon, of a head, or (head = heads) of all together. bins: (T,
 * TFT_SHARE_BINS), or NULL. */
static void write_attention_of(const struct tft_explanation *e, FILE *file, size_t h, size_t head, const int64_t *bins)
{
    const struct tft_weighed *of = &e->of;
    char name[24] = "all";

    if (head < of->heads)
        snprintf(name, sizeof name, "%zu", head + 1);
    for (size_t t = 0; t <= of->E + h; t++)
        if (e->sums.seen[t]) {
            halay_fprintf(file, "%zu,%s,%ld,%zu,%.6g", h + 1, name, (long)t - (long)of->E + 1, of->E + h - t,
                          tft_weight_sums_attention(&e->sums, head, h, t));
            write_percentiles(file, bins ? bins + t * TFT_SHARE_BINS : NULL);
        }
}

static enum halay_status write_attention(const struct tft_explanation *e)
{
    const struct tft_weighed *of = &e->of;
    struct halay_output out = { 0 };
    enum halay_status status = open_table(e, "attention.csv", &out);

    if (status)
        return status;
    fputs("horizon,head,step,lag,mean,p10,p50,p90\n", out.file);
    for (size_t h = 0, k = 0; h < of->D; h++) {
        for (size_t head = 0; head < of->heads; head++)
            write_attention_of(e, out.file, h, head, NULL);
        int is_shown = k < e->sums.shown && tft_weight_sums_shown(&e->sums, k) == h;
        write_attention_of(e, out.file, h, of->heads,
                           is_shown ? e->sums.shown_bins + k * of->T * TFT_SHARE_BINS : NULL);
        k += (size_t)is_shown;
    }
    return halay_output_commit(&out);
}

enum halay_status tft_explain_tables_close(struct tft_explanation *e)
{
    if (!is_writer(e))
        return HALAY_OK;
    enum halay_status status = halay_output_commit(&e->table);
    if (!status)
        status = write_importance(e);
    return status ? status : write_attention(e);
}

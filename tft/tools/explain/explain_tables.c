/* SPDX-License-Identifier: Apache-2.0
 *
 * The explanation as CSV: importance.csv (of each input, of all steps and of each), attention.csv (of each head, and of
 * all, from each step of the horizon) and windows.csv (each forecast), which is written as the windows come.
 */
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/score/explain_file.h"
#include "tft/core/score/forecast_file.h"
#include "tft/tools/explain/explain.h"
#include "tft/tools/explain/shares.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_writer(const struct tft_explanation *e)
{
    return e->request->tables && e->inference->rank == 0;
}

static enum halay_status open_table(const struct tft_explanation *e, const char *name, struct halay_output *out)
{
    char *path = tft_path_join(e->inference->log, e->request->tables, name);
    enum halay_status status = path ? halay_output_open(e->inference->log, path, out) : HALAY_ERR_NO_MEMORY;

    free(path);
    return status;
}

enum halay_status tft_explain_tables_open(struct tft_explanation *e)
{
    if (!is_writer(e))
        return HALAY_OK;
    if (mkdir(e->request->tables, 0777) < 0 && errno != EEXIST) {
        halay_error(e->inference->log, "cannot make '%s': %s", e->request->tables, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    enum halay_status status = open_table(e, "windows.csv", &e->table);
    if (status)
        return status;
    fputs("entity,origin,distance,regime", e->table.file);
    tft_explain_file_columns(e->table.file, &e->reader);
    fputc('\n', e->table.file);
    return HALAY_OK;
}

void tft_explain_tables_window(struct tft_explanation *e, const struct tft_window *w, const float *means,
                               double distance)
{
    const struct tft_data *d = &e->inference->data;
    char origin[32];

    if (!e->table.file)
        return;
    tft_schema_print_time(&d->schema, tft_data_time(d, w->entity, w->origin - 1), origin, sizeof origin);
    tft_write_field(e->table.file, d->entities[w->entity].id);
    halay_fprintf(e->table.file, ",%s,%.6g,%d", origin, distance, distance > e->request->distance);
    for (size_t j = 0; j < e->reader.all; j++)
        halay_fprintf(e->table.file, ",%.6g", (double)means[j]);
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
static void write_input(const struct tft_explanation *e, FILE *file, int choice, size_t j)
{
    const int64_t *bins = e->sums.bins[choice] + j * TFT_SHARE_BINS;
    const char *name = tft_weight_name(&e->reader, choice, j);

    fprintf(file, "%s,", tft_part_names[choice]);
    tft_write_field(file, name);
    halay_fprintf(file, ",all,%zu,%.6g", e->windows.count, tft_explanation_mean(e, choice, j));
    write_percentiles(file, bins);
    for (size_t t = 0; choice != TFT_CHOICE_STATIC && t < tft_weight_steps(&e->reader, choice); t++) {
        int64_t n = tft_weight_sums_windows(&e->sums, choice, t);
        if (!n)
            continue;
        fprintf(file, "%s,", tft_part_names[choice]);
        tft_write_field(file, name);
        halay_fprintf(file, ",%ld,%lld,%.6g",
                      choice == TFT_CHOICE_HISTORY ? (long)t - (long)e->reader.E + 1 : (long)t + 1, (long long)n,
                      tft_weight_sums_mean(&e->sums, choice, t, j));
        write_percentiles(file, choice == TFT_CHOICE_FUTURE
                                    ? e->sums.future_bins + (t * e->reader.V[choice] + j) * TFT_SHARE_BINS
                                    : NULL);
    }
}

static enum halay_status write_importance(const struct tft_explanation *e)
{
    struct halay_output out = { 0 };
    enum halay_status status = open_table(e, "importance.csv", &out);

    if (status)
        return status;
    fputs("part,input,step,windows,mean,p10,p50,p90\n", out.file);
    for (int choice = 0; choice < TFT_CHOICES; choice++)
        for (size_t j = 0; j < e->reader.V[choice]; j++)
            write_input(e, out.file, choice, j);
    return halay_output_commit(&out);
}

/* Writes the attention from a step of the horizon, of a head, or (head = heads) of all together. bins: (T,
 * TFT_SHARE_BINS), or NULL. */
static void write_attention_of(const struct tft_explanation *e, FILE *file, size_t h, size_t head, const int64_t *bins)
{
    const struct tft_weight_reader *r = &e->reader;
    char name[24] = "all";

    if (head < r->heads)
        snprintf(name, sizeof name, "%zu", head + 1);
    for (size_t t = 0; t <= r->E + h; t++)
        if (e->sums.seen[t]) {
            halay_fprintf(file, "%zu,%s,%ld,%zu,%.6g", h + 1, name, (long)t - (long)r->E + 1, r->E + h - t,
                          tft_weight_sums_attention(&e->sums, head, h, t));
            write_percentiles(file, bins ? bins + t * TFT_SHARE_BINS : NULL);
        }
}

static enum halay_status write_attention(const struct tft_explanation *e)
{
    const struct tft_weight_reader *r = &e->reader;
    struct halay_output out = { 0 };
    enum halay_status status = open_table(e, "attention.csv", &out);

    if (status)
        return status;
    fputs("horizon,head,step,lag,mean,p10,p50,p90\n", out.file);
    for (size_t h = 0, k = 0; h < r->D; h++) {
        for (size_t head = 0; head < r->heads; head++)
            write_attention_of(e, out.file, h, head, NULL);
        int is_shown = k < e->sums.shown && tft_weight_sums_shown(&e->sums, k) == h;
        write_attention_of(e, out.file, h, r->heads, is_shown ? e->sums.shown_bins + k * r->T * TFT_SHARE_BINS : NULL);
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

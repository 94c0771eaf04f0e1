/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's library in a program that has set a locale: locale_probe LOCALE CSV FOLDER trains on the rows, leaves
 * model, export, pages, forecasts and scores in the folder, and prints the lines that the library says. With a fourth
 * argument it only forecasts with what the folder holds, into FORECASTS.
 */
#include "halay_tft.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(enum halay_status status, const char *what)
{
    if (status) {
        printf("%s: %s\n", what, halay_tft_error_text());
        exit(1);
    }
}

static void say(void *arg, const char *text)
{
    (void)arg;
    printf("%s\n", text);
}

static void keep(const char *folder, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file)) {
        printf("cannot write %s\n", path);
        exit(1);
    }
}

static void forecast(struct halay_tft_model *model, const struct halay_tft_table *rows, const char *folder,
                     const char *format)
{
    struct halay_tft_query query = { .table = rows };
    struct halay_tft_queries all = { .struct_size = sizeof all,
                                     .queries = &query,
                                     .count = 1,
                                     .query_bytes = sizeof query,
                                     .format = format,
                                     .explains = 1 };

    must(halay_tft_forecast_queries(model, &all), "forecast");
    if (query.status)
        say(NULL, query.error);
    keep(folder, format, query.forecasts ? query.forecasts : "none");
    keep(folder, "why", query.explanations ? query.explanations : "none");
    halay_tft_queries_clear(&all);
}

static void train(struct halay_tft *tft, const struct halay_tft_table *rows, const char *folder)
{
    static const char config[] =
        "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 40, \"eval_every\": 20, \"threads\":"
        " 1, \"batch_size\": 16, \"valid_samples\": 64, \"learning_rate\": \"0.003\"}";
    const struct halay_tft_prepare_options prepared = { .struct_size = sizeof prepared, .encoder = 24, .horizon = 6 };
    const struct halay_tft_train_options how = {
        .struct_size = sizeof how, .config = config, .folder = folder, .say = say
    };
    struct halay_tft_data *data;
    struct halay_tft_model *model;
    char *text, *table, path[512];
    struct halay_tft_export_options o = { .struct_size = sizeof o, .path = path };
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .page = path };

    must(halay_tft_prepare(tft, rows, &prepared, &data), "prepare");
    must(halay_tft_train(tft, data, &how, &model), "train");
    must(halay_tft_evaluate(model, data, NULL, &text), "evaluate");
    keep(folder, "scores", text);
    halay_tft_free(text);
    must(halay_tft_explain(model, data, NULL, &text), "explain");
    must(halay_tft_format(text, "table", &table), "format");
    keep(folder, "explained", table);
    halay_tft_free(table);
    halay_tft_free(text);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    must(halay_tft_model_export(model, &o, &text), "export");
    halay_tft_free(text);
    snprintf(path, sizeof path, "%s/page.html", folder);
    must(halay_tft_report(tft, folder, data, &windows), "report");
    halay_tft_model_close(model);
    halay_tft_data_close(data);
}

int main(int argc, char **argv)
{
    const struct halay_tft_options options = { .struct_size = sizeof options };
    const char *csv = argv[2];
    const struct halay_tft_table rows = { .struct_size = sizeof rows, .files = &csv, .file_count = 1 };
    struct halay_tft *tft;
    struct halay_tft_model *model;

    if (argc < 4 || !setlocale(LC_ALL, argv[1])) {
        printf("no locale %s\n", argc < 4 ? "given" : argv[1]);
        return 77;
    }
    must(halay_tft_init(&options, &tft), "init");
    if (argc == 4)
        train(tft, &rows, argv[3]);
    must(halay_tft_model_open(tft, argv[3], &model), "open");
    forecast(model, &rows, argv[argc - 1], "csv");
    forecast(model, &rows, argv[argc - 1], "jsonl");
    halay_tft_model_close(model);
    halay_tft_fini(tft);
    return 0;
}

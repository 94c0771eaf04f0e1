/* SPDX-License-Identifier: Apache-2.0
 *
 * Train a model on a CSV file with the columns unique_id, ds and y, for a few seconds, and print what comes
 * next: the median of each step, and the interval that should hold four values of five.
 *     cc forecast.c $(pkg-config --cflags --libs halay-tft) -o forecast && ./forecast series.csv
 */
#include <halay_tft.h>
#include <stdio.h>
#include <stdlib.h>

static void say(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "%s\n", text);
}

static enum halay_status print(void *arg, const struct halay_tft_forecast *f)
{
    (void)arg;
    for (size_t h = 0; h < f->horizon; h++) {
        const double *q = f->values + h * f->target_count * f->quantile_count; /* 0.1, 0.5, 0.9 of the first target */
        printf("%s,%lld,%g,%g,%g\n", f->entity, (long long)f->times[h], q[1], q[0], q[2]);
    }
    return HALAY_OK;
}

int main(int argc, char **argv)
{
    struct halay_tft *tft = NULL;
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    const char *const files[] = { argv[1] };
    const struct halay_tft_table table = { .struct_size = sizeof table, .files = files, .file_count = 1 };
    const struct halay_tft_train_options how = { .struct_size = sizeof how,
                                                 .config = "{\"hidden_size\": 16, \"heads\": 2, \"max_time\": 5}",
                                                 .say = say };
    const struct halay_tft_forecast_options what = { .struct_size = sizeof what, .table = &table, .take = print };

    if (argc != 2) {
        fprintf(stderr, "usage: forecast FILE.csv\n");
        return 2;
    }
    enum halay_status status = halay_tft_init(NULL, &tft);
    if (!status)
        status = halay_tft_prepare(tft, &table, NULL, &data);
    if (!status)
        status = halay_tft_train(tft, data, &how, &model);
    if (!status)
        printf("unique_id,seconds,median,low,high\n");
    if (!status)
        status = halay_tft_forecast(model, &what);
    if (status)
        fprintf(stderr, "forecast: %s\n", halay_tft_error_text());
    halay_tft_model_close(model);
    halay_tft_data_close(data);
    halay_tft_fini(tft);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

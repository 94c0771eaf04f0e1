/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of all ranks in which one gives up: rank 0 cannot write, the last rank does not take a forecast. Nobody waits,
 * and the session goes on. Run by library.sh, with the CSV file.
 */
#include "tests/test.h"
#include <halay_tft.h>

static enum halay_status take(void *arg, const struct halay_tft_forecast *forecast)
{
    (void)forecast;
    return *(const int *)arg ? HALAY_ERR_FORMAT : HALAY_OK;
}

static void check_files(struct halay_tft_model *model, struct halay_tft_data *data, int rank)
{
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .file = "/no such folder/scores.json" };
    char *json = NULL;
    enum halay_status status = halay_tft_evaluate(model, data, &windows, &json);

    CHECK(status == (rank == 0 ? HALAY_ERR_SYSTEM : HALAY_ERR_PEER), "evaluate: %s", halay_status_string(status));
    CHECK(!json, "scores that nobody wrote");
    status = halay_tft_explain(model, data, &windows, &json);
    CHECK(status == (rank == 0 ? HALAY_ERR_SYSTEM : HALAY_ERR_PEER), "explain: %s", halay_status_string(status));
}

static void check_takes(struct halay_tft_model *model, struct halay_tft_data *data, int refuses)
{
    struct halay_tft_forecast_options what = {
        .struct_size = sizeof what, .data = data, .split = "valid", .take = take, .arg = &refuses
    };
    enum halay_status status = halay_tft_forecast(model, &what);

    CHECK(status == (refuses ? HALAY_ERR_FORMAT : HALAY_OK), "forecast: %s", halay_status_string(status));
}

static void count_window(void *arg, const struct halay_tft_weights *weights, float *numbers)
{
    (void)arg;
    numbers[0] = (float)weights->past;
}

/* Each rank gets all windows, also what the others measured; a pass may end early; ranks agree on an error. */
static void check_pass(struct halay_tft *tft, struct halay_tft_model *model, struct halay_tft_data *data, int rank)
{
    const struct halay_tft_pass_options o = {
        .struct_size = sizeof o, .split = "valid", .measure = count_window, .number_count = 1
    };
    struct halay_tft_pass *pass = NULL;
    const struct halay_tft_forecast *w = NULL;
    size_t count = 0;

    REQUIRE(!halay_tft_pass_open(model, data, &o, &pass));
    const size_t all = halay_tft_pass_seek(pass, 0, SIZE_MAX);
    while (!halay_tft_pass_next(pass, &w) && w)
        count += w->numbers[0] > 0 && (size_t)w->numbers[0] == w->past;
    CHECK(all > 0 && count == all, "%zu windows of %zu", count, all);
    halay_tft_pass_seek(pass, 1, 1);
    CHECK(!halay_tft_pass_next(pass, &w) && w && w->number == 1, "pass: %s", halay_tft_error_text());
    halay_tft_pass_close(pass);
    enum halay_status status = halay_tft_agree(tft, rank == 0 ? HALAY_ERR_SYSTEM : HALAY_OK);
    CHECK(status == (rank == 0 ? HALAY_ERR_SYSTEM : HALAY_ERR_PEER), "agree: %s", halay_status_string(status));
}

int main(int argc, char **argv)
{
    const char *const files[] = { argc > 1 ? argv[1] : "" };
    const struct halay_tft_table table = { .struct_size = sizeof table, .files = files, .file_count = 1 };
    const struct halay_tft_train_options how = { .struct_size = sizeof how,
                                                 .config = "{\"hidden_size\": 8, \"heads\": 2, \"max_steps\": 3}" };
    struct halay_tft *tft = NULL;
    struct halay_tft_data *data = NULL;
    struct halay_tft_model *model = NULL;
    char *json = NULL;

    REQUIRE(argc == 2 && halay_tft_init(NULL, &tft) == HALAY_OK);
    REQUIRE(halay_tft_prepare(tft, &table, NULL, &data) == HALAY_OK);
    enum halay_status status = halay_tft_train(tft, data, &how, &model);
    CHECK(!status, "train: %s", halay_tft_error_text());
    if (!status) {
        const int rank = halay_rank(halay_tft_context(tft));
        check_files(model, data, rank);
        check_takes(model, data, rank == halay_size(halay_tft_context(tft)) - 1);
        check_pass(tft, model, data, rank);
        status = halay_tft_evaluate(model, data, NULL, &json);
        CHECK(!status && !json == (rank != 0), "evaluate: %s", halay_tft_error_text());
    }
    halay_tft_free(json);
    halay_tft_model_close(model);
    halay_tft_data_close(data);
    halay_tft_fini(tft);
    return test_end();
}

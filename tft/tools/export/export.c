/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/tools/export/export.h"
#include "tft/tools/export/torch_file.h"

const char *const tft_export_formats[TFT_EXPORT_FORMATS + 1] = {
    [TFT_TORCH_NVIDIA] = "nvidia", [TFT_TORCH_FORECASTING] = "pytorch-forecasting", [TFT_EXPORT_ONNX] = "onnx"
};

static enum halay_status export_torch(struct halay_log *log, const struct tft_run *run, const struct tft_export *export,
                                      json_t **described)
{
    const struct tft_model_config *config = tft_model_config(run->model);
    const enum tft_torch_format format = (enum tft_torch_format) export->format;
    struct tft_torch_map map = { 0 };
    enum halay_status status = tft_torch_check(log, format, config, &run->schema);

    if (!status)
        status = tft_torch_map_init(log, format, config, tft_model_params(run->model), &map);
    if (!status)
        status = tft_torch_file_write(log, export->path, &map, run->params);
    tft_torch_map_fini(&map);
    if (status)
        return status;
    *described = tft_torch_arguments(format, config, &run->config);
    if (*described)
        return HALAY_OK;
    halay_error(log, "no memory for the arguments");
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_export_run(struct halay_log *log, const struct tft_run *run, const struct tft_export *export,
                                 json_t **described)
{
    if (run->members.count) {
        halay_error(log,
                    "a run of %zu members has no such form: it would have the first alone; export a run that was "
                    "trained with 'members: 1'",
                    run->members.count + 1);
        return HALAY_ERR_UNSUPPORTED;
    }
    if (export->format == TFT_EXPORT_ONNX)
        return tft_onnx_write(log, export->path, run, &export->onnx, described);
    return export_torch(log, run, export, described);
}

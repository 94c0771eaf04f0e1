/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading. A folder's stamp is made of names, sizes and times of what is a model's: run.json, calibration.json,
 * *.safetensors and manifests of checkpoints; a training writes others beside them all the time.
 */
#include "tft/tools/serve/model.h"
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the folder ---- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    while (count--)
        hash = (hash ^ *at++) * 0x100000001b3; /* FNV-1a */
    return hash;
}

static int is_of_model(const char *name)
{
    const char *dot = strrchr(name, '.');

    return *name != '.' && dot && (!strcmp(dot, ".json") || !strcmp(dot, ".safetensors"));
}

uint64_t serve_model_stamp(const char *folder)
{
    DIR *dir = opendir(folder);
    uint64_t all = 0;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat s;
        if (!is_of_model(entry->d_name) || fstatat(dirfd(dir), entry->d_name, &s, 0) || !S_ISREG(s.st_mode))
            continue;
        uint64_t one = mix(0xcbf29ce484222325, entry->d_name, strlen(entry->d_name));
        one = mix(one, &s.st_mtim, sizeof s.st_mtim);
        one = mix(one, &s.st_size, sizeof s.st_size);
        all += mix(one, &s.st_ino, sizeof s.st_ino); /* in any order */
    }
    if (dir)
        closedir(dir);
    return all;
}

/* ---- the model ---- */

static enum halay_status describe(struct serve_model *m)
{
    char *text;
    enum halay_status status = halay_tft_model_describe(m->model, &text);

    if (status)
        return status;
    json_t *about = json_loads(text, 0, NULL);
    m->step = json_integer_value(json_object_get(about, "step"));
    m->needs_future = json_is_true(json_object_get(about, "needs_future"));
    snprintf(m->step_text, sizeof m->step_text, "%lld", m->step);
    json_decref(about);
    halay_tft_free(text);
    return HALAY_OK;
}

enum halay_status serve_model_load(struct halay_log *log, const char *folder, const char *device, const char *calibrate,
                                   struct serve_model **model)
{
    const struct halay_tft_options options = {
        .struct_size = sizeof options, .log = log->write, .log_arg = log->arg, .reports_errors = 1, .device = device
    };
    struct serve_model *m = calloc(1, sizeof *m);

    if (!m) {
        halay_error(log, "no memory for a model");
        return HALAY_ERR_NO_MEMORY;
    }
    const struct halay_tft_queries none = { .struct_size = sizeof none, .calibrate = calibrate };
    enum halay_status status = halay_tft_init(&options, &m->tft);
    if (!status)
        status = halay_tft_model_open(m->tft, folder, &m->model);
    if (!status)
        status = describe(m);
    if (!status)
        status = halay_tft_forecast_queries(m->model, &none);
    if (!status) {
        *model = m;
        return HALAY_OK;
    }
    halay_error(log, "%s", halay_tft_error_text());
    serve_model_close(m);
    return status;
}

void serve_model_close(struct serve_model *m)
{
    if (!m)
        return;
    halay_tft_model_close(m->model);
    halay_tft_fini(m->tft);
    free(m);
}

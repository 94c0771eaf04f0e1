/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's folder: two files, each of which knows the other. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/core/run/run_folder.h"
#include "base/config.h"
#include "base/document.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/core/data/paths.h"
#include "tft/core/kernels/gemm_bf16.h"
#include "tft/core/model/model.h"
#include "tft/core/run/checkpoints.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/safetensors.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* The instruction set for which the loops of tft/core/kernels/vector.h that run here are compiled. */
static const char *instruction_set(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return "x86-64-v4";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "x86-64-v3" : "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "generic";
#endif
}

/* What of the machine the bits of a training depend on; NULL if there is no memory. */
static json_t *describe_machine(const struct tft_run_config *config)
{
    static const char *const means[] = {
        [TFT_BF16_NONE] = "none", [TFT_BF16_DOT] = "avx512_bf16", [TFT_BF16_TILES] = "amx_bf16"
    };
    char products[256];

    tft_gemm_describe(products, sizeof products);
    json_t *machine = json_pack("{ss ss}", "instruction_set", instruction_set(), "matrix_products", products);
    if (machine && config->dtype == TFT_BF16 &&
        json_object_set_new(machine, "bf16_products", json_string(means[tft_bf16_here()]))) {
        json_decref(machine);
        machine = NULL;
    }
    return machine;
}

enum { FORMAT_VERSION = 1 };

json_t *tft_run_describe(struct halay_log *log, const struct tft_run_config *config, const struct tft_schema *schema,
                         const struct tft_encoding *encoding)
{
    json_t *run = json_pack("{si ss so sO sO}", "format", FORMAT_VERSION, "halay", halay_version(), "config",
                            tft_run_config_json(config), "schema", schema->document, "encoding", encoding->document);

    if (run && json_object_set_new(run, "machine", describe_machine(config))) {
        json_decref(run);
        run = NULL;
    }
    if (!run)
        halay_error(log, "no memory for the run's description");
    return run;
}

/* Of a run's description without what may change when it resumes. */
static uint32_t crc_of(const json_t *run)
{
    json_t *copy = json_copy((json_t *)run);
    uLong crc = crc32(0, NULL, 0);

    json_object_set_new(copy, "config", tft_run_config_identity(json_object_get(run, "config")));
    json_object_del(copy, "halay");
    json_object_del(copy, "machine");
    char *text = copy ? json_dumps(copy, JSON_COMPACT) : NULL;
    json_decref(copy);
    if (text)
        crc = crc32(crc, (const unsigned char *)text, (uInt)strlen(text));
    free(text);
    return (uint32_t)crc;
}

/* What has changed since the run was written gives a warning. */
static enum halay_status warn_of_machine(struct halay_log *log, const char *where, const json_t *before,
                                         const struct tft_run_config *config)
{
    json_t *machine = describe_machine(config), *value;
    const char *halay = json_string_value(json_object_get(before, "halay")), *key;

    if (!machine) {
        halay_error(log, "no memory for the run's description");
        return HALAY_ERR_NO_MEMORY;
    }
    if (halay && strcmp(halay, halay_version()))
        halay_warning(log, "%s: it was written by halay %s, this is %s: the bits may differ from now on", where, halay,
                      halay_version());
    json_object_foreach(machine, key, value) {
        const char *was = json_string_value(json_object_get(json_object_get(before, "machine"), key));
        if (was && strcmp(was, json_string_value(value)))
            halay_warning(log, "%s: it was written with %s '%s', here it is '%s': the bits may differ from now on",
                          where, key, was, json_string_value(value));
    }
    json_decref(machine);
    return HALAY_OK;
}

enum halay_status tft_run_check_resume(struct halay_log *log, const char *where, const json_t *before,
                                       const struct tft_run_config *config, struct tft_data *data)
{
    enum halay_status status = tft_run_config_check_resume(log, where, json_object_get(before, "config"), config);

    if (status)
        return status;
    if (!json_equal(json_object_get(before, "schema"), data->schema.document) ||
        !tft_encoding_is_same(json_object_get(before, "encoding"), data->encoding.document)) {
        halay_error(
            log, "%s: the run began with data of another schema, other entities or scalers, or times of another kind",
            where);
        return HALAY_ERR_FORMAT;
    }
    return warn_of_machine(log, where, before, config);
}

static void remove_file(const char *folder, const char *name)
{
    char *path = tft_path_join(NULL, folder, name);

    if (path)
        unlink(path);
    free(path);
}

/* Weights that are beside those of another training in the folder; what stays is not read. */
static void remove_beside(const char *folder)
{
    remove_file(folder, "refit.safetensors");
    for (size_t i = 0; i + 1 < TFT_RUN_MEMBERS_MAX; i++)
        remove_file(folder, tft_member_name(i, ".safetensors").text);
}

enum halay_status tft_run_begin(struct halay_log *log, const char *folder, const json_t *run, int resumes)
{
    enum halay_status status = tft_make_folder(log, folder);

    if (status)
        return status;
    char *path = tft_path_join(log, folder, "run.json"), *model = tft_path_join(log, folder, "model.safetensors");
    if (!path || !model) {
        status = HALAY_ERR_NO_MEMORY;
    } else if (!resumes && !access(model, F_OK)) {
        halay_error(log, "'%s' holds a run already, with its model; remove it, or choose another folder", folder);
        status = HALAY_ERR_ARGUMENT;
    } else {
        if (!resumes)
            remove_beside(folder);
        status = halay_document_write(log, "", path, run);
    }
    free(model);
    free(path);
    return status;
}

void tft_run_discard(const char *folder)
{
    static const char *const names[] = { "run.json", "metrics.jsonl", "end.json" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = tft_path_join(NULL, folder, names[i]);
        if (path)
            unlink(path); /* a file that stays does no harm: a folder without a model may be trained into */
        free(path);
    }
    char *checkpoints = tft_path_join(NULL, folder, "checkpoints");
    if (checkpoints)
        rmdir(checkpoints); /* only if it is empty */
    free(checkpoints);
}

void tft_run_print_crc(const struct tft_param_table *table, const float *params, char text[16])
{
    uLong crc = crc32(0, NULL, 0);

    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        crc = crc32_z(crc, (const unsigned char *)(params + p->offset), p->count * sizeof *params);
    }
    snprintf(text, 16, "%08x", (unsigned)crc);
}

/* Returns nonzero if a file's metadata name the run whose document has this CRC-32. */
static int is_of_run(const json_t *metadata, uint32_t crc)
{
    const char *run = json_string_value(json_object_get(metadata, "run"));
    char of_run[16];

    snprintf(of_run, sizeof of_run, "%08x", crc);
    return run && !strcmp(run, of_run);
}

/* The text of the blend's weights that the file has, to be freed; NULL if it is not of this run. */
static char *blend_of_file(const char *path, uint32_t crc)
{
    json_t *header = NULL;

    if (access(path, F_OK) || tft_safetensors_header(NULL, path, &header))
        return NULL;
    const json_t *metadata = json_object_get(header, "__metadata__");
    const char *blend = json_string_value(json_object_get(metadata, "blend"));
    char *text = blend && is_of_run(metadata, crc) ? strdup(blend) : NULL;
    json_decref(header);
    return text;
}

/* Write weights of a step. key, text: one more entry of the metadata; NULL: none. */
static enum halay_status save_params(struct halay_log *log, const char *path, const json_t *run, long long step,
                                     const struct tft_param_table *table, const float *params, const char *key,
                                     const char *text)
{
    char of_run[16], of_step[32], of_params[16];
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    snprintf(of_run, sizeof of_run, "%08x", crc_of(run));
    snprintf(of_step, sizeof of_step, "%lld", step);
    tft_run_print_crc(table, params, of_params);
    json_t *metadata =
        json_pack("{ss ss ss ss}", "format", "halay-tft", "run", of_run, "step", of_step, "crc32", of_params);
    if (metadata && (!key || !json_object_set_new(metadata, key, json_string(text))))
        status = tft_safetensors_write(log, path, table, params, metadata);
    json_decref(metadata);
    return status;
}

enum halay_status tft_run_save_best(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                    const struct tft_blend *blend, const struct tft_param_table *table,
                                    const float *params, int keeps_blend)
{
    const int is_blended = blend && blend->errors;
    char *path = tft_path_join(log, folder, "model.safetensors"), *of_blend = NULL;
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (is_blended && keeps_blend && path)
        of_blend = blend_of_file(path, crc_of(run));
    if (is_blended && !of_blend)
        of_blend = tft_blend_weights_text(blend);
    if (path && (!is_blended || of_blend))
        status = save_params(log, path, run, step, table, params, is_blended ? "blend" : NULL, of_blend);
    free(of_blend);
    free(path);
    return status;
}

enum halay_status tft_run_save_refit(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                     const struct tft_param_table *table, const float *first, const float *params)
{
    char *path = tft_path_join(log, folder, "refit.safetensors"), of_first[16];

    tft_run_print_crc(table, first, of_first);
    enum halay_status status =
        path ? save_params(log, path, run, step, table, params, "first", of_first) : HALAY_ERR_NO_MEMORY;
    free(path);
    return status;
}

enum halay_status tft_run_save_members(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                       const struct tft_param_table *table, const float *first,
                                       const struct tft_members *members)
{
    char of_first[16];
    enum halay_status status = HALAY_OK;

    tft_run_print_crc(table, first, of_first);
    for (size_t i = 0; i < members->count && !status; i++) {
        char *path = tft_path_join(log, folder, tft_member_name(i, ".safetensors").text);
        status = path ? save_params(log, path, run, step, table, members->params[i], "first", of_first)
                      : HALAY_ERR_NO_MEMORY;
        free(path);
    }
    return status;
}

/* ---- load ---- */

static enum halay_status take_run(struct halay_log *log, const char *path, const json_t *run, struct tft_run *r)
{
    char where[300];
    json_t *config = json_object_get(run, "config"), *schema = json_object_get(run, "schema");
    json_t *encoding = json_object_get(run, "encoding");
    enum halay_status status;

    if (json_integer_value(json_object_get(run, "format")) != FORMAT_VERSION || !json_is_object(config) ||
        !json_is_object(schema) || !json_is_object(encoding)) {
        halay_error(log, "'%s' does not describe a run that this version reads", path);
        return HALAY_ERR_FORMAT;
    }
    tft_run_config_defaults(&r->config);
    snprintf(where, sizeof where, "configuration in '%.200s'", path);
    status = tft_run_config_take_run(log, where, config, &r->config);
    r->config.members = r->config.members ? r->config.members : 1; /* of a version that did not write it */
    if (!status)
        status = tft_run_config_check(log, &r->config);
    snprintf(where, sizeof where, "schema in '%.200s'", path);
    if (!status)
        status = tft_schema_init(log, where, schema, &r->schema);
    if (!status)
        status = tft_encoding_init(log, path, &r->schema, encoding, &r->encoding);
    if (status)
        return status;
    status = tft_blend_read(json_object_get(run, "blend"), &r->schema, r->config.quantiles.count, &r->blend);
    if (status)
        halay_error(log,
                    "'%s' does not have the baselines that this version blends forecasts with: train the model again",
                    path);
    r->document = json_incref((json_t *)run);
    return status;
}

static enum halay_status make_model(struct halay_log *log, const struct tft_device *device, struct tft_run *r)
{
    struct tft_model_config config;

    tft_batches_describe(&r->schema, &r->encoding, &r->config, &config);
    config.device = device ? *device : (struct tft_device){ 0 };
    size_t least = config.device.kernels ? TFT_DEVICE_FORECAST_GRANULE : TFT_FORECAST_GRANULE;
    if (config.granule < least)
        config.granule = least;
    enum halay_status status = tft_model_create(log, &config, &r->model);
    if (status)
        return status;
    r->params = tft_alloc_params(log, r->model);
    return r->params ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Read weights whose run is this one's, and their metadata, which the caller gets. */
static enum halay_status read_params(struct halay_log *log, const char *path, uint32_t crc,
                                     const struct tft_param_table *table, float *params, json_t **metadata)
{
    char of_params[16];
    enum halay_status status = tft_safetensors_read(log, path, table, params, metadata);

    if (status)
        return status;
    const char *crc_of_params = json_string_value(json_object_get(*metadata, "crc32"));
    tft_run_print_crc(table, params, of_params);
    if (!is_of_run(*metadata, crc))
        halay_error(log, "'%s' holds the parameters of another run than the run.json beside it", path);
    else if (crc_of_params && strcmp(crc_of_params, of_params))
        halay_error(log, "'%s' is damaged: its parameters have another checksum (CRC-32) than it says", path);
    else
        return HALAY_OK;
    json_decref(*metadata);
    *metadata = NULL;
    return HALAY_ERR_FORMAT;
}

int tft_run_has_best(const char *folder, const json_t *run, const struct tft_param_table *table, long long first,
                     long long last)
{
    char *path = tft_path_join(NULL, folder, "model.safetensors");
    float *params = calloc(table->reals + 1, sizeof *params);
    json_t *metadata = NULL;
    int has = path && params && !access(path, F_OK) && !read_params(NULL, path, crc_of(run), table, params, &metadata);

    if (has) {
        const char *step = json_string_value(json_object_get(metadata, "step"));
        long long at = step ? strtoll(step, NULL, 10) : -1;
        has = json_object_get(metadata, "crc32") && at >= first && at <= last;
    }
    json_decref(metadata);
    free(params);
    free(path);
    return has;
}

static enum halay_status take_params(struct halay_log *log, const char *path, uint32_t crc, struct tft_run *r)
{
    json_t *metadata;
    enum halay_status status = read_params(log, path, crc, tft_model_params(r->model), r->params, &metadata);

    if (status)
        return status;
    const char *step = json_string_value(json_object_get(metadata, "step")),
               *blend = json_string_value(json_object_get(metadata, "blend"));
    r->step = step ? strtoll(step, NULL, 10) : 0;
    if (tft_blend_weights_read(blend, &r->blend)) {
        halay_error(log, "'%s' is damaged: it does not have a weight for each part of the blend", path);
        status = HALAY_ERR_FORMAT;
    }
    json_decref(metadata);
    return status;
}

/* Returns nonzero if the file's header names this run, and the weights with this CRC-32 as those that it is beside. */
static int belongs_beside(const json_t *header, uint32_t crc, const char *of_first)
{
    const json_t *metadata = json_object_get(header, "__metadata__");
    const char *first = json_string_value(json_object_get(metadata, "first"));

    return is_of_run(metadata, crc) && first && !strcmp(first, of_first);
}

/* Read weights that belong beside the run's. *params: a new block; NULL: there are none, they are of another run or of
 * a training that continued since, or (with a warning) they are damaged. */
static enum halay_status take_beside(struct halay_log *log, const char *folder, const char *name, uint32_t crc,
                                     const struct tft_run *r, float **params)
{
    char *path = tft_path_join(log, folder, name), of_first[16];
    json_t *header = NULL, *metadata = NULL;
    enum halay_status status = path ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    *params = NULL;
    if (status || access(path, F_OK)) {
        free(path);
        return status;
    }
    tft_run_print_crc(tft_model_params(r->model), r->params, of_first);
    status = tft_safetensors_header(NULL, path, &header);
    if (!status && belongs_beside(header, crc, of_first)) {
        *params = tft_alloc_params(log, r->model);
        status = *params ? read_params(NULL, path, crc, tft_model_params(r->model), *params, &metadata)
                         : HALAY_ERR_NO_MEMORY;
        json_decref(metadata);
    }
    json_decref(header);
    if (status) {
        free(*params);
        *params = NULL;
    }
    if (status && status != HALAY_ERR_NO_MEMORY) {
        halay_warning(log, "'%s' is not used: it cannot be read or is damaged", path);
        status = HALAY_OK;
    }
    free(path);
    return status;
}

/* All members, or none. */
static enum halay_status take_members(struct halay_log *log, const char *folder, uint32_t crc, struct tft_run *r)
{
    const size_t count = (size_t)r->config.members - 1;
    enum halay_status status = HALAY_OK;

    while (!status && r->members.count < count) {
        float **params = &r->members.params[r->members.count];
        status = take_beside(log, folder, tft_member_name(r->members.count, ".safetensors").text, crc, r, params);
        if (!*params)
            break;
        r->members.count++;
    }
    if (r->members.count < count)
        tft_members_fini(&r->members);
    return status;
}

/* A folder of checkpoints: the best weights of the newest good one, or its parameters if it has none. */
static enum halay_status load_newest(struct halay_log *log, const char *folder, const struct tft_device *device,
                                     struct tft_run *r)
{
    struct tft_training_state state;
    struct tft_checkpoints checkpoints;
    json_t *manifest = NULL;
    const json_t *run;

    enum halay_status status = tft_checkpoints_init(log, folder, 0, &checkpoints);
    if (status)
        return status;
    status = tft_checkpoints_find(&checkpoints, &manifest);
    if (!status)
        status = tft_checkpoints_state(&checkpoints, manifest, &run, &state);
    if (!status)
        status = take_run(log, folder, run, r);
    if (!status)
        status = make_model(log, device, r);
    if (!status)
        status = tft_checkpoints_resume(&checkpoints, manifest, tft_model_params(r->model), r->params, &r->step);
    if (!status && r->step < 0) {
        r->step = (long long)state.step;
        status =
            tft_checkpoints_read(&checkpoints, manifest, TFT_CHECKPOINT_PARAMS, tft_model_params(r->model), r->params);
    }
    r->is_checkpoint = 1;
    json_decref(manifest);
    tft_checkpoints_fini(&checkpoints);
    return status;
}

static enum halay_status load_run(struct halay_log *log, const char *folder, const char *run_path,
                                  const char *model_path, const struct tft_device *device, struct tft_run *r)
{
    json_t *run = NULL;

    if (access(model_path, F_OK)) {
        halay_error(log, "'%s' holds no trained model: '%s': %s", folder, model_path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    enum halay_status status = halay_document_load(log, run_path, NULL, &run);
    if (!status)
        status = take_run(log, run_path, run, r);
    if (!status)
        status = make_model(log, device, r);
    if (!status)
        status = take_params(log, model_path, crc_of(run), r);
    json_decref(run);
    return status;
}

/* What is beside a run's parameters. */
static enum halay_status load_beside(struct halay_log *log, const char *folder, struct tft_run *r)
{
    const uint32_t crc = crc_of(r->document);
    enum halay_status status = take_members(log, folder, crc, r);

    if (!status && r->config.refit && r->config.members < 2)
        status = take_beside(log, folder, "refit.safetensors", crc, r, &r->refit);
    return status;
}

static int has_checkpoints(struct halay_log *log, const char *folder)
{
    struct tft_checkpoints checkpoints;

    if (tft_checkpoints_init(log, folder, 0, &checkpoints))
        return 0;
    int has_any = tft_checkpoints_has_any(&checkpoints);
    tft_checkpoints_fini(&checkpoints);
    return has_any;
}

static enum halay_status load(struct halay_log *log, const char *folder, const struct tft_device *device,
                              int is_first_only, struct tft_run *run)
{
    struct tft_run r = { 0 };
    char *run_path = tft_path_join(log, folder, "run.json"),
         *model_path = tft_path_join(log, folder, "model.safetensors");
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (run_path && model_path && access(run_path, F_OK) && has_checkpoints(log, folder)) {
        status = load_newest(log, folder, device, &r);
    } else if (run_path && model_path) {
        status = load_run(log, folder, run_path, model_path, device, &r);
        if (!status && !is_first_only)
            status = load_beside(log, folder, &r);
    }
    free(run_path);
    free(model_path);
    if (status)
        tft_run_fini(&r);
    else
        *run = r;
    return status;
}

enum halay_status tft_run_load(struct halay_log *log, const char *folder, const struct tft_device *device,
                               struct tft_run *run)
{
    return load(log, folder, device, 0, run);
}

enum halay_status tft_run_load_first(struct halay_log *log, const char *folder, struct tft_run *run)
{
    return load(log, folder, NULL, 1, run);
}

enum halay_status tft_run_of(struct halay_log *log, const char *where, const json_t *document,
                             const struct tft_device *device, struct tft_run *run)
{
    struct tft_run r = { 0 };
    enum halay_status status = take_run(log, where, document, &r);

    if (!status)
        status = make_model(log, device, &r);
    if (status)
        tft_run_fini(&r);
    else
        *run = r;
    return status;
}

void tft_run_fini(struct tft_run *r)
{
    free(r->params);
    free(r->refit);
    tft_members_fini(&r->members);
    tft_blend_fini(&r->blend);
    tft_model_destroy(r->model);
    tft_encoding_fini(&r->encoding);
    tft_schema_fini(&r->schema);
    json_decref(r->document);
    *r = (struct tft_run){ 0 };
}

/* The season is the model's only where it is blended with forecasts by it. */
static int same_season(const struct tft_schema *a, const struct tft_schema *b)
{
    int is_blended = 0;

    for (size_t o = 0; o < a->target_count; o++)
        is_blended |= a->inputs[a->targets[o]].blend != TFT_BLEND_NONE;
    return !is_blended || (a->season_count == b->season_count &&
                           !memcmp(a->seasons, b->seasons, a->season_count * sizeof *a->seasons));
}

/* Rules may differ where tzdata does; the place is the same. */
static int same_zone(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(json_object_get(json_object_get(a, "zone"), "name"));
    const char *y = json_string_value(json_object_get(json_object_get(b, "zone"), "name"));

    return x && y ? !strcmp(x, y) : x == y;
}

enum halay_status tft_run_check_data(struct halay_log *log, const struct tft_run *r, const char *path,
                                     struct tft_data *data)
{
    static const char *const sections[] = { "inputs", "window", "every", "resample" };

    if (!same_zone(r->schema.document, data->schema.document)) {
        halay_error(log, "'%s' was prepared by another schema than the model was trained with: 'zone' differs", path);
        return HALAY_ERR_FORMAT;
    }
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const json_t *trained = json_object_get(r->schema.document, sections[i]);
        const json_t *given = json_object_get(data->schema.document, sections[i]);
        if ((trained || given) && !json_equal(trained, given)) {
            halay_error(log, "'%s' was prepared by another schema than the model was trained with: '%s' differs", path,
                        sections[i]);
            return HALAY_ERR_FORMAT;
        }
    }
    if (!same_season(&r->schema, &data->schema)) {
        halay_error(log,
                    "'%s' was prepared with a season of %zu steps (seasons: %zu), the model's forecasts are "
                    "blended by one of %zu (seasons: %zu)",
                    path, data->schema.seasons[0], data->schema.season_count, r->schema.seasons[0],
                    r->schema.season_count);
        return HALAY_ERR_FORMAT;
    }
    if (!tft_encoding_is_same(r->encoding.document, data->encoding.document)) {
        if (r->encoding.clocks != data->encoding.clocks && r->encoding.clocks && data->encoding.clocks) {
            halay_error(log,
                        "'%s' was prepared from times with %s offset from UTC; those that the model was trained on "
                        "have %s",
                        path, data->encoding.clocks == 2 ? "an" : "no", data->encoding.clocks == 2 ? "none" : "one");
            return HALAY_ERR_FORMAT;
        }
        halay_error(log, "'%s' was prepared with other entities or scalers than the model was trained with", path);
        return HALAY_ERR_FORMAT;
    }
    return HALAY_OK;
}

struct tft_member_name tft_member_name(size_t member, const char *ending)
{
    struct tft_member_name name;

    snprintf(name.text, sizeof name.text, "member-%zu%s", member + 2, ending);
    return name;
}

float *tft_alloc_params(struct halay_log *log, const struct tft_model *model)
{
    size_t bytes = tft_model_params(model)->reals * sizeof(float);
    float *params = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);

    if (params)
        memset(params, 0, bytes);
    else
        halay_error(log, "no memory for %zu parameters", tft_model_params(model)->reals);
    return params;
}

enum halay_status tft_members_init(struct halay_log *log, const struct tft_model *model, size_t count,
                                   struct tft_members *members)
{
    *members = (struct tft_members){ 0 };
    for (; members->count < count; members->count++) {
        members->params[members->count] = tft_alloc_params(log, model);
        if (!members->params[members->count])
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

void tft_members_fini(struct tft_members *members)
{
    for (size_t i = 0; i < members->count; i++)
        free(members->params[i]);
    *members = (struct tft_members){ 0 };
}

/* ---- on all ranks ---- */

enum halay_status tft_share_members(struct halay_context *ctx, const struct tft_param_table *table,
                                    struct tft_members *members)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < members->count && !status && halay_size(ctx) > 1; i++)
        status = halay_broadcast(ctx, "run.member", members->params[i], table->reals, HALAY_F32, 0);
    return status;
}

/* The numbers of what rank 0 has read, in memory that all ranks have. */
static enum halay_status share_params(struct halay_log *log, struct halay_context *ctx, struct tft_run *r)
{
    const size_t reals = tft_model_params(r->model)->reals;
    double about[] = { (double)r->step, r->refit != NULL, (double)r->members.count };
    enum halay_status status = halay_broadcast(ctx, "run.step", about, 3, HALAY_F64, 0), room = HALAY_OK;

    r->step = (long long)about[0];
    if (!status && about[1] && !r->refit) {
        r->refit = tft_alloc_params(log, r->model);
        room = r->refit ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    if (!status && !room && !r->members.count)
        room = tft_members_init(log, r->model, (size_t)about[2], &r->members);
    status = tft_agree(ctx, "run.room", status ? status : room);
    if (!status)
        status = tft_share_members(ctx, tft_model_params(r->model), &r->members);
    if (!status && r->refit)
        status = halay_broadcast(ctx, "run.refit", r->refit, reals, HALAY_F32, 0);
    if (!status && r->blend.errors)
        status = halay_broadcast(ctx, "run.blend", r->blend.weights, tft_blend_weights_count(&r->blend), HALAY_F64, 0);
    return status ? status : halay_broadcast(ctx, "run.parameters", r->params, reals, HALAY_F32, 0);
}

enum halay_status tft_run_load_shared(struct halay_log *log, struct halay_context *ctx, const char *folder,
                                      const struct tft_device *device, struct tft_run *run)
{
    const int reads = halay_rank(ctx) == 0;
    struct tft_run r = { 0 };
    enum halay_status status = reads ? tft_run_load(log, folder, device, &r) : HALAY_OK;
    json_t *document = json_incref(r.document); /* NULL stays that */

    status = tft_share_document(log, ctx, folder, status, &document);
    if (!status && !reads)
        status = tft_run_of(log, folder, document, device, &r);
    json_decref(document);
    status = tft_agree(ctx, "run.made", status);
    if (!status && halay_size(ctx) > 1)
        status = share_params(log, ctx, &r);
    if (status)
        tft_run_fini(&r);
    else
        *run = r;
    return status;
}

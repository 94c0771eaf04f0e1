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
#include "tft/core/kernels/gemm.h"
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

/* Describes what of the machine the bits of a training depend on; NULL without memory. */
static json_t *describe_machine(const struct tft_run_config *config)
{
    static const char *const means[] = {
        [TFT_BF16_NONE] = "none", [TFT_BF16_DOT] = "avx512_bf16", [TFT_BF16_TILES] = "amx_bf16"
    };
    const char *bf16 = config->dtype == TFT_BF16 ? means[tft_bf16_here()] : NULL;
    char products[256];

    tft_gemm_describe(products, sizeof products);
    return json_pack("{ss ss ss*}", "instruction_set", instruction_set(), "matrix_products", products, "bf16_products",
                     bf16);
}

enum { FORMAT_VERSION = 1 };

json_t *tft_run_describe(struct halay_log *log, const struct tft_run_config *config, const struct tft_schema *schema,
                         const struct tft_encoding *encoding)
{
    json_t *run = json_pack("{si ss so sO sO so}", "format", FORMAT_VERSION, "halay", halay_version(), "config",
                            tft_run_config_json(config), "schema", schema->document, "encoding", encoding->document,
                            "machine", describe_machine(config));

    if (!run)
        halay_error(log, "no memory for the run's description");
    return run;
}

/* Returns the CRC-32 of a run's description without what may change when it resumes. */
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

/* Warns of what has changed on the machine since the run was written. */
static enum halay_status warn_of_machine(struct halay_log *log, const char *where, const json_t *before,
                                         const struct tft_run_config *config)
{
    json_t *machine = describe_machine(config), *value;
    const char *halay = json_string_value(json_object_get(before, "halay")), *key;

    if (!machine)
        return halay_no_memory(log, "for the run's description");
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
        !tft_encoding_is_same(json_object_get(before, "encoding"), data->encoding.document))
        return halay_fail(
            log, HALAY_ERR_FORMAT,
            "%s: the run began with data of another schema, other entities or scalers, or times of another kind",
            where);
    return warn_of_machine(log, where, before, config);
}

static void remove_file(const char *folder, const char *name)
{
    /* a file that stays does no harm: a folder without a model may be trained into */
    unlink(tft_path_in(folder, name).text);
}

enum halay_status tft_run_begin(struct halay_log *log, const char *folder, const json_t *run, int resumes)
{
    enum halay_status status = tft_make_folder(log, folder);

    if (status)
        return status;
    if (!resumes && tft_run_has_model(folder))
        return halay_fail(log, HALAY_ERR_ARGUMENT,
                          "'%s' holds a run already, with its model; remove it, or choose another folder", folder);
    if (!resumes) { /* weights beside those of another training; a file that stays is not read */
        remove_file(folder, "refit.safetensors");
        for (size_t i = 0; i + 1 < TFT_RUN_MEMBERS_MAX; i++)
            remove_file(folder, tft_member_name(i, ".safetensors").text);
    }
    return halay_document_write(log, "", tft_path_in(folder, "run.json").text, run);
}

int tft_run_has_model(const char *folder)
{
    return !access(tft_path_in(folder, "model.safetensors").text, F_OK);
}

void tft_run_discard(const char *folder)
{
    remove_file(folder, "run.json");
    remove_file(folder, "metrics.jsonl");
    remove_file(folder, "end.json");
    rmdir(tft_path_in(folder, "checkpoints").text); /* only if it is empty */
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

/* Returns the text of the blend's weights that the file has, to be freed; NULL if it is not of this run. */
static char *blend_of_file(const char *folder, uint32_t crc)
{
    const struct tft_path path = tft_path_in(folder, "model.safetensors");
    json_t *header;

    if (access(path.text, F_OK) || tft_safetensors_header(NULL, path.text, &header))
        return NULL;
    const json_t *metadata = json_object_get(header, "__metadata__");
    const char *blend = json_string_value(json_object_get(metadata, "blend"));
    char *text = blend && is_of_run(metadata, crc) ? strdup(blend) : NULL;
    json_decref(header);
    return text;
}

/* Writes weights of a step. more: entries of the metadata, which it takes over. */
static enum halay_status save_params(struct halay_log *log, const char *folder, const char *name, const json_t *run,
                                     long long step, const struct tft_param_table *table, const float *params,
                                     json_t *more)
{
    char of_run[16], of_step[32], of_params[16];
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    snprintf(of_run, sizeof of_run, "%08x", crc_of(run));
    snprintf(of_step, sizeof of_step, "%lld", step);
    tft_run_print_crc(table, params, of_params);
    json_t *metadata =
        json_pack("{ss ss ss ss}", "format", "halay-tft", "run", of_run, "step", of_step, "crc32", of_params);
    if (more && !json_object_update(metadata, more))
        status = tft_safetensors_write(log, tft_path_in(folder, name).text, table, params, metadata);
    json_decref(metadata);
    json_decref(more);
    return status;
}

enum halay_status tft_run_save_best(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                    const struct tft_blend *blend, const struct tft_param_table *table,
                                    const float *params, int keeps_blend)
{
    const int is_blended = blend && blend->errors;
    char *weights = is_blended && keeps_blend ? blend_of_file(folder, crc_of(run)) : NULL;

    if (is_blended && !weights)
        weights = tft_blend_weights_text(blend);
    json_t *more = is_blended ? json_pack("{ss}", "blend", weights) : json_object();
    free(weights);
    return save_params(log, folder, "model.safetensors", run, step, table, params, more);
}

/* Writes weights that belong beside those of `first`. */
static enum halay_status save_beside(struct halay_log *log, const char *folder, const char *name, const json_t *run,
                                     long long step, const struct tft_param_table *table, const float *first,
                                     const float *params)
{
    char of_first[16];

    tft_run_print_crc(table, first, of_first);
    return save_params(log, folder, name, run, step, table, params, json_pack("{ss}", "first", of_first));
}

enum halay_status tft_run_save_refit(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                     const struct tft_param_table *table, const float *first, const float *params)
{
    return save_beside(log, folder, "refit.safetensors", run, step, table, first, params);
}

enum halay_status tft_run_save_members(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                       const struct tft_param_table *table, const float *first,
                                       const struct tft_members *members)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < members->count && !status; i++)
        status = save_beside(log, folder, tft_member_name(i, ".safetensors").text, run, step, table, first,
                             members->params[i]);
    return status;
}

/* ---- load ---- */

/* Reads a run's description. The message of a section names it and the file. */
static enum halay_status read_run(struct halay_log *log, const char *path, const json_t *run, struct tft_run *r)
{
    char of_config[300], of_schema[300];
    json_t *config = json_object_get(run, "config"), *schema = json_object_get(run, "schema");
    json_t *encoding = json_object_get(run, "encoding");
    enum halay_status status;

    if (json_integer_value(json_object_get(run, "format")) != FORMAT_VERSION || !json_is_object(config) ||
        !json_is_object(schema) || !json_is_object(encoding))
        return halay_fail(log, HALAY_ERR_FORMAT, "'%s' does not describe a run that this version reads", path);
    snprintf(of_config, sizeof of_config, "configuration in '%.200s'", path);
    snprintf(of_schema, sizeof of_schema, "schema in '%.200s'", path);
    tft_run_config_defaults(&r->config);
    status = tft_run_config_take_run(log, of_config, config, &r->config);
    r->config.members = r->config.members ? r->config.members : 1; /* of a version that did not write it */
    if (status || (status = tft_run_config_check(log, &r->config)) ||
        (status = tft_schema_init(log, of_schema, schema, &r->schema)) ||
        (status = tft_encoding_init(log, path, &r->schema, encoding, &r->encoding)))
        return status;
    status = tft_blend_read(json_object_get(run, "blend"), &r->schema, r->config.quantiles.count, &r->blend);
    if (status)
        halay_error(log,
                    "'%s' does not have the baselines that this version blends forecasts with: train the model again",
                    path);
    r->document = json_incref((json_t *)run);
    return status;
}

/* Returns memory for a block of a model's weights, zeroed; NULL if it runs out (logged). */
static float *alloc_params(struct halay_log *log, const struct tft_model *model)
{
    size_t bytes = tft_model_params(model)->reals * sizeof(float);
    float *params = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);

    if (params)
        memset(params, 0, bytes);
    else
        halay_error(log, "no memory for %zu parameters", tft_model_params(model)->reals);
    return params;
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
    r->params = alloc_params(log, r->model);
    return r->params ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Reads weights whose run is this one's, and their metadata, which the caller gets. */
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
        halay_error(log, "'%s' is damaged: its parameters have another checksum (CRC-32) than its metadata", path);
    else
        return HALAY_OK;
    json_decref(*metadata);
    *metadata = NULL;
    return HALAY_ERR_FORMAT;
}

int tft_run_has_best(const char *folder, const json_t *run, const struct tft_param_table *table, long long first,
                     long long last)
{
    const struct tft_path path = tft_path_in(folder, "model.safetensors");
    float *params = calloc(table->reals + 1, sizeof *params);
    json_t *metadata = NULL;
    int has =
        params && !access(path.text, F_OK) && !read_params(NULL, path.text, crc_of(run), table, params, &metadata);

    if (has) {
        const char *step = json_string_value(json_object_get(metadata, "step"));
        long long at = step ? strtoll(step, NULL, 10) : -1;
        has = json_object_get(metadata, "crc32") && at >= first && at <= last;
    }
    json_decref(metadata);
    free(params);
    return has;
}

static enum halay_status read_best(struct halay_log *log, const char *path, uint32_t crc, struct tft_run *r)
{
    json_t *metadata;
    enum halay_status status = read_params(log, path, crc, tft_model_params(r->model), r->params, &metadata);

    if (status)
        return status;
    const char *step = json_string_value(json_object_get(metadata, "step")),
               *blend = json_string_value(json_object_get(metadata, "blend"));
    r->step = step ? strtoll(step, NULL, 10) : 0;
    if (tft_blend_weights_read(blend, &r->blend))
        status = halay_fail(log, HALAY_ERR_FORMAT,
                            "'%s' is damaged: it does not have a weight for each part of the blend", path);
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

/* Reads weights that belong to the run's. *params: a new block; NULL if the file is missing, of another run, of a
 * training that continued since, or (with a warning) damaged. */
static enum halay_status read_beside(struct halay_log *log, const char *folder, const char *name, uint32_t crc,
                                     const struct tft_run *r, float **params)
{
    const struct tft_param_table *table = tft_model_params(r->model);
    const struct tft_path path = tft_path_in(folder, name);
    char of_first[16];
    json_t *header = NULL, *metadata = NULL;
    enum halay_status status;

    *params = NULL;
    if (access(path.text, F_OK))
        return HALAY_OK;
    tft_run_print_crc(table, r->params, of_first);
    if ((status = tft_safetensors_header(NULL, path.text, &header)) || !belongs_beside(header, crc, of_first))
        goto release;
    *params = alloc_params(log, r->model);
    status = *params ? read_params(NULL, path.text, crc, table, *params, &metadata) : HALAY_ERR_NO_MEMORY;
release:
    json_decref(metadata);
    json_decref(header);
    if (status) {
        free(*params);
        *params = NULL;
    }
    if (status && status != HALAY_ERR_NO_MEMORY) {
        halay_warning(log, "'%s' is not used: it cannot be read or is damaged", path.text);
        status = HALAY_OK;
    }
    return status;
}

/* Reads all members, or none. */
static enum halay_status read_members(struct halay_log *log, const char *folder, uint32_t crc, struct tft_run *r)
{
    const size_t count = (size_t)r->config.members - 1;
    enum halay_status status = HALAY_OK;

    while (!status && r->members.count < count) {
        const size_t i = r->members.count;
        status = read_beside(log, folder, tft_member_name(i, ".safetensors").text, crc, r, &r->members.params[i]);
        if (!r->members.params[i])
            break;
        r->members.count++;
    }
    if (r->members.count < count)
        tft_members_fini(&r->members);
    return status;
}

/* Reads the best weights of a folder's newest good checkpoint, or its parameters if it has none. */
static enum halay_status load_newest(struct tft_checkpoints *c, const struct tft_device *device, struct tft_run *r)
{
    struct tft_training_state state;
    json_t *manifest = NULL;
    const json_t *run;
    enum halay_status status;

    if ((status = tft_checkpoints_find(c, &manifest)) || (status = tft_checkpoints_state(c, manifest, &run, &state)) ||
        (status = read_run(c->log, c->folder, run, r)) || (status = make_model(c->log, device, r)) ||
        (status = tft_checkpoints_resume(c, manifest, tft_model_params(r->model), r->params, &r->step)))
        goto release;
    if (r->step < 0) {
        r->step = (long long)state.step;
        status = tft_checkpoints_read(c, manifest, TFT_CHECKPOINT_PARAMS, tft_model_params(r->model), r->params);
    }
    r->is_checkpoint = 1;
release:
    json_decref(manifest);
    return status;
}

static enum halay_status load_run(struct halay_log *log, const char *folder, const struct tft_path *path,
                                  const struct tft_device *device, int is_first_only, struct tft_run *r)
{
    const struct tft_path model = tft_path_in(folder, "model.safetensors");
    json_t *run = NULL;
    enum halay_status status;

    if (access(model.text, F_OK))
        return halay_fail(log, HALAY_ERR_SYSTEM, "'%s' holds no trained model: '%s': %s", folder, model.text,
                          strerror(errno));
    if ((status = halay_document_load(log, path->text, NULL, &run)))
        return status;
    const uint32_t crc = crc_of(run);
    if (!(status = read_run(log, path->text, run, r)) && !(status = make_model(log, device, r)))
        status = read_best(log, model.text, crc, r);
    json_decref(run);
    if (status || is_first_only || (status = read_members(log, folder, crc, r)) || !r->config.refit ||
        r->config.members > 1)
        return status;
    return read_beside(log, folder, "refit.safetensors", crc, r, &r->refit);
}

static enum halay_status load_folder(struct halay_log *log, const char *folder, const struct tft_device *device,
                                     int is_first_only, struct tft_run *r)
{
    const struct tft_path run = tft_path_in(folder, "run.json");
    struct tft_checkpoints checkpoints;
    enum halay_status status = tft_checkpoints_init(log, folder, 0, &checkpoints);

    *r = (struct tft_run){ 0 };
    if (status)
        return status;
    if (access(run.text, F_OK) && tft_checkpoints_has_any(&checkpoints))
        status = load_newest(&checkpoints, device, r);
    else
        status = load_run(log, folder, &run, device, is_first_only, r);
    tft_checkpoints_fini(&checkpoints);
    if (status)
        tft_run_fini(r);
    return status;
}

enum halay_status tft_run_load(struct halay_log *log, const char *folder, const struct tft_device *device,
                               struct tft_run *run)
{
    return load_folder(log, folder, device, 0, run);
}

enum halay_status tft_run_load_first(struct halay_log *log, const char *folder, struct tft_run *run)
{
    return load_folder(log, folder, NULL, 1, run);
}

enum halay_status tft_run_of(struct halay_log *log, const char *where, const json_t *document,
                             const struct tft_device *device, struct tft_run *r)
{
    enum halay_status status;

    *r = (struct tft_run){ 0 };
    if ((status = read_run(log, where, document, r)) || (status = make_model(log, device, r)))
        tft_run_fini(r);
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

/* Returns nonzero if no forecast is blended, or by the same seasons: only there is the season the model's. */
static int same_season(const struct tft_schema *a, const struct tft_schema *b)
{
    int is_blended = 0;

    for (size_t o = 0; o < a->target_count; o++)
        is_blended |= a->inputs[a->targets[o]].blend != TFT_BLEND_NONE;
    return !is_blended || (a->season_count == b->season_count &&
                           !memcmp(a->seasons, b->seasons, a->season_count * sizeof *a->seasons));
}

/* Returns nonzero if two schemas have the same zone. Rules may differ where tzdata does; the place is the same. */
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
    const json_t *trained = r->schema.document, *given = data->schema.document;
    const int clocks = data->encoding.clocks;
    const char *differs = same_zone(trained, given) ? NULL : "zone";

    for (size_t i = 0; i < sizeof sections / sizeof *sections && !differs; i++) {
        const json_t *a = json_object_get(trained, sections[i]), *b = json_object_get(given, sections[i]);
        differs = (a || b) && !json_equal(a, b) ? sections[i] : NULL;
    }
    if (differs)
        halay_error(log, "'%s' was prepared by another schema than the model was trained with: '%s' differs", path,
                    differs);
    else if (!same_season(&r->schema, &data->schema))
        halay_error(log,
                    "'%s' was prepared with a season of %zu steps (seasons: %zu), the model's forecasts are "
                    "blended by one of %zu (seasons: %zu)",
                    path, data->schema.seasons[0], data->schema.season_count, r->schema.seasons[0],
                    r->schema.season_count);
    else if (tft_encoding_is_same(r->encoding.document, data->encoding.document))
        return HALAY_OK;
    else if (r->encoding.clocks != clocks && r->encoding.clocks && clocks)
        halay_error(log,
                    "'%s' was prepared from times with %s offset from UTC; those that the model was trained on "
                    "have %s",
                    path, clocks == 2 ? "an" : "no", clocks == 2 ? "none" : "one");
    else
        halay_error(log, "'%s' was prepared with other entities or scalers than the model was trained with", path);
    return HALAY_ERR_FORMAT;
}

struct tft_member_name tft_member_name(size_t member, const char *ending)
{
    struct tft_member_name name;

    snprintf(name.text, sizeof name.text, "member-%zu%s", member + 2, ending);
    return name;
}

enum halay_status tft_members_init(struct halay_log *log, const struct tft_model *model, size_t count,
                                   struct tft_members *members)
{
    *members = (struct tft_members){ 0 };
    for (; members->count < count; members->count++) {
        members->params[members->count] = alloc_params(log, model);
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

/* Shares the numbers that rank 0 has read; the others make memory for them. */
static enum halay_status share_params(struct halay_log *log, struct halay_context *ctx, struct tft_run *r)
{
    const size_t reals = tft_model_params(r->model)->reals;
    double about[] = { (double)r->step, r->refit != NULL, (double)r->members.count };
    enum halay_status status = halay_broadcast(ctx, "run.step", about, 3, HALAY_F64, 0);

    r->step = (long long)about[0];
    if (!status && about[1] && !r->refit && !(r->refit = alloc_params(log, r->model)))
        status = HALAY_ERR_NO_MEMORY;
    if (!status && !r->members.count)
        status = tft_members_init(log, r->model, (size_t)about[2], &r->members);
    if ((status = tft_agree(ctx, "run.room", status)) ||
        (status = tft_share_members(ctx, tft_model_params(r->model), &r->members)))
        return status;
    if (r->refit && (status = halay_broadcast(ctx, "run.refit", r->refit, reals, HALAY_F32, 0)))
        return status;
    if (r->blend.errors && (status = halay_broadcast(ctx, "run.blend", r->blend.weights,
                                                     tft_blend_weights_count(&r->blend), HALAY_F64, 0)))
        return status;
    return halay_broadcast(ctx, "run.parameters", r->params, reals, HALAY_F32, 0);
}

enum halay_status tft_run_load_shared(struct halay_log *log, struct halay_context *ctx, const char *folder,
                                      const struct tft_device *device, struct tft_run *r)
{
    const int reads = halay_rank(ctx) == 0;
    enum halay_status status = HALAY_OK;

    *r = (struct tft_run){ 0 };
    if (reads)
        status = tft_run_load(log, folder, device, r);
    json_t *document = json_incref(r->document); /* NULL stays NULL */
    status = tft_share_document(log, ctx, folder, status, &document);
    if (!status && !reads)
        status = tft_run_of(log, folder, document, device, r);
    json_decref(document);
    status = tft_agree(ctx, "run.made", status);
    if (!status && halay_size(ctx) > 1)
        status = share_params(log, ctx, r);
    if (status)
        tft_run_fini(r);
    return status;
}

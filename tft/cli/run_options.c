/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a run from its three sources, and the job that it is for.
 */
#include "tft/cli/run_options.h"
#include "base/config.h"
#include "base/document.h"
#include "tft/data/htd.h"
#include "tft/data/prepare.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int keep_key(const struct halay_option *option, const char *value, void *at, char *why, size_t size)
{
    struct tft_run_keys *keys = at;

    if (keys->count == sizeof keys->given / sizeof *keys->given) {
        snprintf(why, size, "one key too many");
        return 0;
    }
    keys->given[keys->count].option = option;
    keys->given[keys->count++].value = value;
    return 1;
}

/* Defaults, the file and what is beside it, the environment, the options; checked as a whole. */
static enum halay_status resolve(struct halay_log *log, const struct tft_run_keys *keys,
                                 const struct tft_run_source *beside, struct tft_run_config *config)
{
    json_t *document = NULL;
    char where[256];
    enum halay_status status = keys->file ? halay_document_load(log, keys->file, NULL, &document) : HALAY_OK;

    tft_run_config_defaults(config);
    if (!status && document) {
        snprintf(where, sizeof where, "configuration '%.200s'", keys->file);
        status = tft_run_config_take(log, where, document, config);
    }
    json_decref(document);
    if (!status && beside && beside->document)
        status = tft_run_config_take(log, beside->where, beside->document, config);
    if (!status)
        status = tft_run_config_take_environment(log, config);
    for (size_t i = 0; i < keys->count && !status; i++)
        status = tft_run_config_take_option(log, keys->given[i].option->name, keys->given[i].value, config);
    if (!status)
        status = tft_run_config_check(log, config);
    return status == HALAY_ERR_UNSUPPORTED ? HALAY_ERR_CONFIG : status;
}

int tft_run_options_parse(struct halay_log *log, const struct halay_command_line *line,
                          const struct tft_run_source *beside, char **argv, void *values, struct tft_run_config *config)
{
    struct halay_command_line with_keys = *line;

    with_keys.more = tft_run_config_options(keep_key);
    int status = tft_options_parse(log, &with_keys, argv, values);
    if (status >= 0)
        return status;
    enum halay_status resolved = resolve(log, values, beside, config);
    return resolved ? tft_exit_status(resolved) : -1;
}

static enum halay_status join_job(struct halay_log *log, struct tft_job *job)
{
    const struct halay_options options = { .struct_size = sizeof options, .log = log->write, .log_arg = log->arg };
    enum halay_status status = halay_init(&options, &job->ctx);

    if (!status && halay_size(job->ctx) > 1)
        log->rank = halay_rank(job->ctx);
    return status;
}

enum halay_status tft_job_init(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                               struct tft_job *job)
{
    enum halay_status status = tft_run_config_export(log, config);

    if (!status)
        status = tft_htd_open(log, data_path, &job->data);
    return status ? status : join_job(log, job);
}

/* All ranks together: HALAY_OK only if all succeeded, so that none waits for one that has given up. */
static enum halay_status agree(struct tft_job *job, const char *name, enum halay_status status)
{
    int32_t worst = (int32_t)status;
    enum halay_status agreed = HALAY_OK;

    if (halay_size(job->ctx) > 1)
        agreed = halay_allreduce(job->ctx, name, NULL, &worst, 1, HALAY_I32, HALAY_MAX);
    if (status || agreed)
        return status ? status : agreed;
    return worst ? HALAY_ERR_PEER : HALAY_OK;
}

/* A name that all ranks know and no other job uses; the file lives until all have mapped it. */
static enum halay_status name_prepared(struct halay_log *log, struct tft_job *job, char *path, size_t size)
{
    const char *folder = halay_environment_get("TMPDIR");
    int64_t number = 0;
    enum halay_status status = HALAY_OK;

    if (halay_rank(job->ctx) == 0 && getrandom(&number, sizeof number, 0) < 0) {
        halay_error(log, "no random number: %s", strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    if (!status && halay_size(job->ctx) > 1)
        status = halay_broadcast(job->ctx, "prepared", &number, 1, HALAY_I64, 0);
    snprintf(path, size, "%.3900s/halay-tft.%016llx.htd", folder && *folder ? folder : "/tmp",
             (unsigned long long)number);
    return agree(job, "prepared.named", status);
}

enum halay_status tft_job_init_table(struct halay_log *log, const struct tft_run_config *config, const char *schema,
                                     const char *table, struct tft_job *job)
{
    char path[4096];
    enum halay_status status = tft_run_config_export(log, config);

    if (!status)
        status = join_job(log, job);
    if (!status)
        status = name_prepared(log, job, path, sizeof path);
    if (status)
        return status;
    const struct tft_prepare_request request = {
        .schema = schema, .out = path, .files = &table, .file_count = 1, .is_quiet = halay_rank(job->ctx) != 0
    };
    int prepares = halay_local_rank(job->ctx) == 0;
    if (prepares)
        status = tft_prepare(log, &request);
    status = agree(job, "prepared.written", status);
    if (!status)
        status = agree(job, "prepared.open", tft_htd_open(log, path, &job->data));
    if (prepares)
        unlink(path); /* absent if it failed */
    return status;
}

void tft_job_fini(struct tft_job *job)
{
    halay_fini(job->ctx);
    tft_data_fini(&job->data);
    job->ctx = NULL;
}

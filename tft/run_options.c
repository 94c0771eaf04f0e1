/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a run from its three sources, and the job that it is for.
 */
#include "tft/run_options.h"
#include "tft/document.h"
#include "tft/htd.h"
#include <stdio.h>

/* Of the command line, in its order. */
struct given {
    size_t count;
    const char *values[128]; /* borrowed */
    char names[128][64];
};

static enum halay_status keep(void *arg, const char *name, const char *value)
{
    struct given *given = arg;

    if (given->count == sizeof given->values / sizeof *given->values)
        return HALAY_ERR_CONFIG;
    snprintf(given->names[given->count], sizeof given->names[0], "%s", name);
    given->values[given->count++] = value;
    return HALAY_OK;
}

static void print_keys(void)
{
    tft_run_config_help(stdout);
}

/* Defaults, the file (NULL: none), the environment, the options; checked as a whole. */
static enum halay_status resolve(struct halay_log *log, const char *path, const struct given *given,
                                 struct tft_run_config *config)
{
    json_t *document = NULL;
    char where[256];
    enum halay_status status = path ? tft_document_load(log, path, &document) : HALAY_OK;

    tft_run_config_defaults(config);
    if (!status && document) {
        snprintf(where, sizeof where, "configuration '%.200s'", path);
        status = tft_run_config_take(log, where, document, config);
    }
    json_decref(document);
    if (!status)
        status = tft_run_config_take_environment(log, config);
    for (size_t i = 0; i < given->count && !status; i++)
        status = tft_run_config_take_option(log, given->names[i], given->values[i], config);
    if (!status)
        status = tft_run_config_check(log, config);
    return status == HALAY_ERR_UNSUPPORTED ? HALAY_ERR_CONFIG : status;
}

int tft_run_options_parse(struct tft_options *options, const char *const *file, int argc, char **argv, int *rest,
                          size_t *keys, struct tft_run_config *config)
{
    struct given given = { 0 };

    options->other = keep;
    options->arg = &given;
    options->more_help = print_keys;
    int status = tft_options_parse(options, argc, argv, rest);
    options->arg = NULL;
    if (status >= 0)
        return status;
    if (keys)
        *keys = given.count;
    enum halay_status resolved = resolve(options->log, *file, &given, config);
    return resolved ? tft_exit_status(resolved) : -1;
}

enum halay_status tft_job_init(struct halay_log *log, const struct tft_run_config *config, const char *data_path,
                               struct tft_job *job)
{
    enum halay_status status = tft_run_config_export(log, config);

    if (!status)
        status = tft_htd_open(log, data_path, &job->data);
    if (!status)
        status = halay_init(NULL, &job->ctx);
    if (!status && halay_size(job->ctx) > 1)
        log->rank = halay_rank(job->ctx);
    return status;
}

void tft_job_fini(struct tft_job *job)
{
    halay_fini(job->ctx);
    tft_data_fini(&job->data);
    job->ctx = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Container: its files, and the failure file.
 *
 * The log's lines go to standard error as always; the first error is kept. Other threads and the engine report their
 * errors the same way, so it is what failed first on this host.
 */
#include "sagemaker/container.h"
#include "base/config.h"
#include "base/document.h"
#include "sagemaker/opt_ml.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void keep_error(void *arg, enum halay_log_level level, const char *line)
{
    struct sagemaker_container *c = arg;
    char out[1200];
    int n = snprintf(out, sizeof out, "%.1190s\n", line);

    if (level == HALAY_LOG_ERROR) {
        pthread_mutex_lock(&c->log->lock);
        if (!c->reason[0])
            snprintf(c->reason, sizeof c->reason, "%s", line);
        pthread_mutex_unlock(&c->log->lock);
    }
    if (write(STDERR_FILENO, out, (size_t)n) < 0) /* closed: nobody to tell */
        return;
}

/* ---- hyperparameters --------------------------------------------------------------------------------------------- */

int sagemaker_is_for_platform(const char *name)
{
    return !strncmp(name, "sagemaker_", 10) || !strncmp(name, "sagemaker-", 10) || !strncmp(name, "_tuning_", 8);
}

int sagemaker_is_none(const char *text)
{
    return !*text || !strcmp(text, "None");
}

/* A text may be JSON: "\"adam\"", "[0.1, 0.9]", "null". Numbers and booleans stay texts, for whoever takes them to
 * parse. A new reference; NULL for a value that says nothing. */
static json_t *decode(json_t *value)
{
    const char *text = json_string_value(value);
    json_t *inner = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

    if (json_is_null(value) || json_is_null(inner) || (text && sagemaker_is_none(text))) {
        json_decref(inner);
        return NULL;
    }
    if (json_is_string(inner) || json_is_array(inner))
        return inner;
    json_decref(inner);
    if (json_is_boolean(value))
        return json_string(json_is_true(value) ? "true" : "false");
    return json_incref(value);
}

/* 2, "2" or "\"2\"" */
static long count_processes(const json_t *value)
{
    const char *text = json_string_value(value);

    if (text)
        return atol(text + strspn(text, "\""));
    return json_is_integer(value) ? (long)json_integer_value(value) : 0;
}

static enum halay_status take_parameters(struct sagemaker_container *c, const json_t *document)
{
    const char *name;
    json_t *value;

    if (!json_is_object(document)) {
        halay_error(c->log, "%s: no list of keys and values", c->where);
        return HALAY_ERR_FORMAT;
    }
    c->processes = count_processes(json_object_get(document, "sagemaker_mpi_num_of_processes_per_host"));
    json_object_foreach((json_t *)document, name, value) {
        json_t *decoded = sagemaker_is_for_platform(name) ? NULL : decode(value);
        if (decoded && json_object_set_new(c->parameters, name, decoded)) {
            halay_error(c->log, "no memory for the hyperparameters");
            return HALAY_ERR_NO_MEMORY;
        }
    }
    return HALAY_OK;
}

/* ---- the files --------------------------------------------------------------------------------------------------- */

/* NULL if it is not there. */
static enum halay_status load_if_there(struct halay_log *log, const char *name, json_t **document)
{
    char path[PATH_MAX];

    *document = NULL;
    opt_ml_path(name, path, sizeof path);
    return access(path, F_OK) ? HALAY_OK : halay_document_load(log, path, NULL, document);
}

/* The toolkit's library reads the file in every call of gethostname(), MPI's too, and crashes if it is missing. */
static enum halay_status check_preload(const struct sagemaker_container *c)
{
    const char *preload = halay_environment_get("LD_PRELOAD");

    if (!preload || !strstr(preload, "gethostname") || c->resources)
        return HALAY_OK;
    halay_error(c->log,
                "LD_PRELOAD=%s makes each call of gethostname() read '%s/input/config/resourceconfig.json', and crash "
                "where that is not there: unset LD_PRELOAD outside of SageMaker",
                preload, opt_ml_root());
    return HALAY_ERR_CONFIG;
}

enum halay_status sagemaker_container_open(struct halay_log *log, struct sagemaker_container *c)
{
    json_t *parameters = NULL;

    *c = (struct sagemaker_container){ .log = log };
    enum halay_status status = load_if_there(log, "input/config/resourceconfig.json", &c->resources);
    if (!status)
        status = load_if_there(log, "input/config/hyperparameters.json", &parameters);
    if (!status)
        status = load_if_there(log, "input/config/inputdataconfig.json", &c->channels);
    c->is_there = status || c->resources || parameters;
    if (c->is_there) {
        if (status)
            halay_log_last_error(log, c->reason, sizeof c->reason);
        log->write = keep_error;
        log->arg = c;
    }
    snprintf(c->where, sizeof c->where, "hyperparameters in '%.200s/input/config'", opt_ml_root());
    c->parameters = json_object();
    if (!status && !c->parameters)
        status = HALAY_ERR_NO_MEMORY;
    if (!status && parameters)
        status = take_parameters(c, parameters);
    json_decref(parameters);
    return status ? status : check_preload(c);
}

void sagemaker_container_close(struct sagemaker_container *c, int code)
{
    char text[SAGEMAKER_REASON_MAX + 1];

    if (c->is_there && code) {
        snprintf(text, sizeof text, "%s\n", c->reason[0] ? c->reason : "halay-tft failed");
        opt_ml_write_failure(text, 0);
    }
    c->log->write = NULL;
    c->log->arg = NULL;
    json_decref(c->parameters);
    json_decref(c->resources);
    json_decref(c->channels);
    json_decref(c->copies);
    free(c->args);
}

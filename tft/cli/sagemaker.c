/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: the container's files, and the failure file.
 *
 * The log's lines go on to standard error as ever; of the first error the text is kept. Errors of other threads and of
 * the engine come the same way, so that what is told first is what failed first on this host.
 */
#include "tft/cli/sagemaker.h"
#include "base/config.h"
#include "tft/data/document.h"
#include "tft/data/paths.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void join(const struct tft_sagemaker *s, const char *path, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", s->root, path);
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- the reason ---- */

static void keep_error(void *arg, enum halay_log_level level, const char *line)
{
    struct tft_sagemaker *s = arg;
    char out[1200];
    int n = snprintf(out, sizeof out, "%.1190s\n", line);

    if (level == HALAY_LOG_ERROR) {
        pthread_mutex_lock(&s->log->lock);
        if (!s->reason[0])
            snprintf(s->reason, sizeof s->reason, "%s", line);
        pthread_mutex_unlock(&s->log->lock);
    }
    if (write(STDERR_FILENO, out, (size_t)n) < 0) /* closed: nobody to tell */
        return;
}

/* Made under a name beside it and linked, so that it is there whole or not at all, and the first one stays. */
static void write_failure(struct tft_sagemaker *s)
{
    char path[PATH_MAX], beside[PATH_MAX + 32];

    join(s, "output", path, sizeof path);
    if (tft_make_folder(NULL, path))
        return;
    join(s, "output/failure", path, sizeof path);
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(beside, "we");
    if (!file)
        return; /* it has been said on standard error anyway */
    fprintf(file, "%s\n", s->reason[0] ? s->reason : "halay-tft failed");
    if (!fclose(file) && link(beside, path) && errno != EEXIST && !exists(path) && !rename(beside, path))
        return; /* a file system without links */
    unlink(beside);
}

/* ---- hyperparameters ---- */

/* What SDKs and tuning jobs add for the platform. */
static int is_platforms(const char *name)
{
    return !strncmp(name, "sagemaker_", 10) || !strncmp(name, "sagemaker-", 10) || !strncmp(name, "_tuning_", 8);
}

/* Python's None: SDK v2's generic Estimator spells values as str() does. */
static int is_none(const char *text)
{
    return !*text || !strcmp(text, "None");
}

/* A text may be JSON: "\"adam\"", "[0.1, 0.9]", "null". Numbers and truth values stay texts, which whoever takes them
 * reads. A new reference; NULL if it is nothing. */
static json_t *decode(json_t *value)
{
    const char *text = json_string_value(value);
    json_t *inner = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

    if (json_is_null(value) || json_is_null(inner) || (text && is_none(text))) {
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

static enum halay_status take_parameters(struct tft_sagemaker *s, const json_t *document)
{
    static const char processes[] = "sagemaker_mpi_num_of_processes_per_host";
    const char *name;
    json_t *value, *kept;

    if (!json_is_object(document)) {
        halay_error(s->log, "%s: no list of keys and values", s->where);
        return HALAY_ERR_FORMAT;
    }
    json_object_foreach((json_t *)document, name, value) {
        if (!strcmp(name, processes))
            s->processes = json_is_integer(value) ? json_integer_value(value) : 0;
        if (!strcmp(name, processes) && json_is_string(value))
            s->processes = atoi(json_string_value(value) + strspn(json_string_value(value), "\""));
        if (is_platforms(name) || !(kept = decode(value)))
            continue;
        if (json_object_set_new(s->parameters, name, kept)) {
            halay_error(s->log, "no memory for the hyperparameters");
            return HALAY_ERR_NO_MEMORY;
        }
    }
    return HALAY_OK;
}

/* ---- the files ---- */

/* NULL if it is not there. */
static enum halay_status load(struct tft_sagemaker *s, const char *name, json_t **document)
{
    char path[PATH_MAX];

    *document = NULL;
    join(s, name, path, sizeof path);
    return exists(path) ? tft_document_load(s->log, path, document) : HALAY_OK;
}

/* The toolkit's library reads the file in the middle of any gethostname(), MPI's too, and crashes if it is not
 * there. */
static enum halay_status check_preload(struct tft_sagemaker *s)
{
    const char *preload = halay_environment_get("LD_PRELOAD");

    if (!preload || !strstr(preload, "gethostname") || s->resources)
        return HALAY_OK;
    halay_error(s->log,
                "LD_PRELOAD=%s makes each call of gethostname() read '%s/input/config/resourceconfig.json', and crash "
                "where that is not there: unset LD_PRELOAD outside of SageMaker",
                preload, s->root);
    return HALAY_ERR_CONFIG;
}

enum halay_status tft_sagemaker_open(struct halay_log *log, struct tft_sagemaker *s)
{
    const char *root = halay_environment_get("HALAY_OPT_ML");
    json_t *parameters = NULL;
    enum halay_status status;

    *s = (struct tft_sagemaker){ .log = log };
    snprintf(s->root, sizeof s->root, "%s", root && *root ? root : "/opt/ml");
    status = load(s, "input/config/resourceconfig.json", &s->resources);
    if (!status)
        status = load(s, "input/config/hyperparameters.json", &parameters);
    if (!status)
        status = load(s, "input/config/inputdataconfig.json", &s->channels);
    s->is_there = status || s->resources || parameters;
    if (s->is_there) {
        if (status)
            halay_log_last_error(log, s->reason, sizeof s->reason);
        log->write = keep_error;
        log->arg = s;
    }
    snprintf(s->where, sizeof s->where, "hyperparameters in '%.200s/input/config'", s->root);
    s->parameters = json_object();
    if (!status && !s->parameters)
        status = HALAY_ERR_NO_MEMORY;
    if (!status && parameters)
        status = take_parameters(s, parameters);
    json_decref(parameters);
    return status ? status : check_preload(s);
}

void tft_sagemaker_close(struct tft_sagemaker *s, int status)
{
    if (s->is_there && status)
        write_failure(s);
    s->log->write = NULL;
    s->log->arg = NULL;
    json_decref(s->parameters);
    json_decref(s->resources);
    json_decref(s->channels);
    json_decref(s->copies);
    free(s->words);
}

/* ---- the command line ---- */

/* "checkpoint-dir" by a hyperparameter's name, where '_' may stand for '-'. */
static json_t *find_parameter(const struct tft_sagemaker *s, const char *option, char *name, size_t size)
{
    snprintf(name, size, "%s", option);
    if (json_object_get(s->parameters, name))
        return json_object_get(s->parameters, name);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    return json_object_get(s->parameters, name);
}

/* A word of its own, which lives as long as s; NULL without memory. */
static char *add_word(struct tft_sagemaker *s, int *count, const char *before, const char *text)
{
    json_t *copy = json_sprintf("%s%s", before, text);

    if (!copy || json_array_append_new(s->copies, copy))
        return NULL;
    return s->words[(*count)++] = (char *)(uintptr_t)json_string_value(copy); /* only read */
}

/* Those of the list, with their values, taken out. */
static int add_parameters(struct tft_sagemaker *s, const struct tft_option *list, int *count)
{
    char name[128], number[64];

    for (; list->name; list++) {
        const json_t *value = find_parameter(s, list->name, name, sizeof name);
        const char *text = json_string_value(value);
        if (!value)
            continue;
        if (json_is_number(value)) {
            snprintf(number, sizeof number, "%g", json_number_value(value));
            text = number;
        }
        if (!text || !add_word(s, count, "--", list->name) || !add_word(s, count, "", text))
            return 0;
        json_object_del(s->parameters, name);
    }
    return 1;
}

enum halay_status tft_sagemaker_arguments(struct tft_sagemaker *s, const struct tft_option *list, int *argc,
                                          char ***argv)
{
    size_t options = 0;
    int count = 0;

    if (!s->is_there)
        return HALAY_OK;
    while (list[options].name)
        options++;
    s->copies = json_array();
    s->words = calloc((size_t)*argc + 2 * options + 1, sizeof *s->words);
    if (!s->words || !s->copies || (s->words[count++] = (*argv)[0], !add_parameters(s, list, &count))) {
        halay_error(s->log, "%s: an option that is no text, or no memory", s->where);
        return HALAY_ERR_CONFIG;
    }
    for (int i = 1; i < *argc; i++) {
        const char *word = (*argv)[i], *next = i + 1 < *argc ? (*argv)[i + 1] : NULL;
        int is_option = !strncmp(word, "--", 2) && word[2] && !strchr(word, '=');
        if (is_option && next && (is_platforms(word + 2) || is_none(next)))
            i++; /* the platform's, or nothing */
        else
            s->words[count++] = (*argv)[i];
    }
    *argv = s->words;
    *argc = count;
    return HALAY_OK;
}

/* ---- hosts ---- */

static const char *const usual_causes =
    "SDK v3's MPI(process_count_per_node=P) starts P ranks in all: add mpi_additional_options=['-np', 'HOSTS x P']; "
    "a generic Estimator ignores 'distribution': give the hyperparameters sagemaker_mpi_enabled and "
    "sagemaker_mpi_num_of_processes_per_host, or start it by 'halayrun --sagemaker'";

static int number_of(const json_t *hosts, const char *name)
{
    for (size_t i = 0; name && i < json_array_size(hosts); i++) {
        const char *host = json_string_value(json_array_get(hosts, i));
        if (host && !strcmp(host, name))
            return (int)i;
    }
    return -1;
}

/* The hosts that have no rank, as far as there is room. */
static void name_idle(const json_t *hosts, const int32_t *ranks, char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < json_array_size(hosts) && used < size; i++)
        if (!ranks[i])
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
                                     json_string_value(json_array_get(hosts, i)));
}

enum halay_status tft_sagemaker_check_ranks(struct tft_sagemaker *s, struct halay_context *ctx)
{
    /* What was not asked to train together (groups of a heterogeneous cluster) need not. */
    const json_t *hosts = s->resources ? json_object_get(s->resources, "hosts") : NULL;
    const char *here = json_string_value(json_object_get(s->resources, "current_host"));
    const char *said = halay_environment_get("SM_CURRENT_HOST"), *group, *mine;
    size_t count = json_array_size(hosts);
    char idle[256] = "";
    enum halay_status status = HALAY_OK;

    if (!s->is_there || !count)
        return HALAY_OK;
    mine = json_string_value(json_object_get(s->resources, "current_group_name"));
    for (size_t i = 0; i < json_array_size(json_object_get(s->resources, "instance_groups")); i++) {
        const json_t *of = json_array_get(json_object_get(s->resources, "instance_groups"), i);
        group = json_string_value(json_object_get(of, "instance_group_name"));
        if (mine && group && !strcmp(mine, group) && json_array_size(json_object_get(of, "hosts")))
            hosts = json_object_get(of, "hosts");
    }
    count = json_array_size(hosts);
    if (said && here && strcmp(said, here))
        halay_info(s->log, "SM_CURRENT_HOST=%s is another host's, passed on by mpirun: this one is %s", said, here);
    int32_t *ranks = calloc(count, sizeof *ranks);
    if (!ranks) {
        halay_error(s->log, "no memory for a list of hosts");
        return HALAY_ERR_NO_MEMORY;
    }
    int at = number_of(hosts, here);
    if (at >= 0)
        ranks[at] = 1;
    if (halay_size(ctx) > 1)
        status = halay_allreduce(ctx, "sagemaker.hosts", NULL, ranks, count, HALAY_I32, HALAY_MAX);
    name_idle(hosts, ranks, idle, sizeof idle);
    free(ranks);
    if (!status && idle[0]) {
        halay_error(s->log, "%s: the job has %zu hosts, and no rank runs there (%d in all); %s", idle, count,
                    halay_size(ctx), usual_causes);
        return HALAY_ERR_CONFIG;
    }
    if (!status && s->processes > 0 && halay_size(ctx) < s->processes * (int64_t)count && halay_rank(ctx) == 0)
        halay_warning(s->log, "%d ranks run, the job was asked for %zu hosts x %lld", halay_size(ctx), count,
                      (long long)s->processes);
    return status;
}

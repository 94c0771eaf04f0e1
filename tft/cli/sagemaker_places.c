/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: which of the container's files a training reads, and where it writes what.
 *
 * The model goes to model/ whenever it is the best so far, so that it is there however the job ends; only run.json and
 * model.safetensors are in it. Lines of evaluations are kept with the checkpoints, where there are any, so that a job
 * that was interrupted goes on with them in another container.
 */
#include "tft/cli/sagemaker.h"
#include "tft/data/paths.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

static void channel_path(const struct tft_sagemaker *s, const char *channel, char *path)
{
    snprintf(path, PATH_MAX, "%s/input/data/%s", s->root, channel);
}

/* Not data: what SDKs upload, and what says what data mean. */
static int is_no_data(const char *channel)
{
    static const char *const names[] = { "code", "sm_drivers", "schema", "config", "model" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(channel, names[i]))
            return 1;
    return channel[0] == '.';
}

/* The only folder of data that there is; *count: how many there are, text: their names. */
static void find_only_channel(const struct tft_sagemaker *s, char *path, size_t *count, char *text, size_t size)
{
    char folder[PATH_MAX], at[2 * PATH_MAX];
    struct dirent **entries;
    size_t used = 0;

    snprintf(folder, sizeof folder, "%s/input/data", s->root);
    int n = scandir(folder, &entries, NULL, alphasort);
    *count = 0;
    for (int i = 0; i < n; i++) {
        snprintf(at, sizeof at, "%s/%s", folder, entries[i]->d_name);
        if (!is_no_data(entries[i]->d_name) && is_folder(at)) {
            snprintf(path, PATH_MAX, "%.*s", PATH_MAX - 1, at);
            ++*count;
            if (used < size)
                used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

static enum halay_status find_channel(struct tft_sagemaker *s, char *path)
{
    static const char *const names[] = { "training", "train", "data" };
    char list[256] = "none";
    size_t count;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        channel_path(s, names[i], path);
        if (is_folder(path))
            return HALAY_OK;
    }
    find_only_channel(s, path, &count, list, sizeof list);
    if (count == 1)
        return HALAY_OK;
    halay_error(s->log,
                "no channel 'training', 'train' or 'data' in '%s/input/data' (there: %s); the hyperparameter 'data' "
                "names a channel or a file",
                s->root, list);
    return HALAY_ERR_CONFIG;
}

/* Does a channel bring all its files to each host? */
static enum halay_status check_channel(struct tft_sagemaker *s, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const json_t *channel = json_object_get(s->channels, name);
    const char *mode = json_string_value(json_object_get(channel, "TrainingInputMode"));
    const char *spread = json_string_value(json_object_get(channel, "S3DistributionType"));

    if (mode && !strcmp(mode, "Pipe")) {
        halay_error(s->log, "channel '%s': input mode Pipe; data are read more than once: ask for File or FastFile",
                    name);
        return HALAY_ERR_CONFIG;
    }
    if (spread && !strcmp(spread, "ShardedByS3Key") && json_array_size(json_object_get(s->resources, "hosts")) > 1) {
        halay_error(
            s->log,
            "channel '%s': distribution ShardedByS3Key gives each host other files; each needs all of them: ask "
            "for FullyReplicated (batches are shared out among the ranks anyway)",
            name);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

static int ends_in(const char *name, const char *const *ends)
{
    size_t length = strlen(name);

    for (; *ends; ends++) {
        size_t n = strlen(*ends);
        if (length > n && !strcmp(name + length - n, *ends))
            return 1;
    }
    return 0;
}

/* The only file in the folder with one of the endings: 1; 0 if there is none. More than one is an error (-1). */
static int find_only(struct tft_sagemaker *s, const char *folder, const char *const *ends, char *path)
{
    struct dirent **entries;
    int found = 0, n = scandir(folder, &entries, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (ends_in(entries[i]->d_name, ends) && entries[i]->d_name[0] != '.') {
            found++;
            snprintf(path, PATH_MAX, "%.2000s/%.1000s", folder, entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    if (found <= 1)
        return found;
    halay_error(s->log, "'%s' holds %d files that end in %s; one of them is to be named", folder, found, ends[0]);
    return -1;
}

/* A name as it is, or below a channel. */
static void resolve(const struct tft_sagemaker *s, const char *name, char *path)
{
    static const char *const channels[] = { "schema", "config", "code", "training", "train", "data" };

    snprintf(path, PATH_MAX, "%s", name);
    for (size_t i = 0; !exists(path) && *name != '/' && i < sizeof channels / sizeof *channels; i++)
        snprintf(path, PATH_MAX, "%s/input/data/%s/%s", s->root, channels[i], name);
    if (!exists(path))
        snprintf(path, PATH_MAX, "%s", name); /* whoever opens it complains by the name that was given */
}

static enum halay_status find_data(struct tft_sagemaker *s, struct tft_sagemaker_job *job)
{
    static const char *const prepared[] = { ".htd", NULL };
    char folder[PATH_MAX];
    enum halay_status status = HALAY_OK;

    if (job->data) {
        channel_path(s, job->data, folder);
        if (exists(job->data) || !is_folder(folder)) {
            resolve(s, job->data, s->data);
            job->data = s->data;
            return HALAY_OK;
        }
    } else {
        status = find_channel(s, folder);
    }
    if (!status)
        status = check_channel(s, folder);
    if (status)
        return status;
    int found = job->schema ? 0 : find_only(s, folder, prepared, s->data);
    if (!found)
        snprintf(s->data, sizeof s->data, "%s", folder);
    job->data = s->data;
    return found < 0 ? HALAY_ERR_CONFIG : HALAY_OK;
}

/* What a folder of tables means, if nobody has said. */
static enum halay_status find_schema(struct tft_sagemaker *s, struct tft_sagemaker_job *job)
{
    static const char *const any[] = { ".yaml", ".yml", ".json", NULL }, *const yaml[] = { ".yaml", ".yml", NULL };
    char folder[PATH_MAX];

    if (job->schema) {
        resolve(s, job->schema, s->schema);
        job->schema = s->schema;
        return HALAY_OK;
    }
    if (!is_folder(job->data))
        return HALAY_OK;
    channel_path(s, "schema", folder);
    int found = find_only(s, folder, any, s->schema);
    if (!found)
        found = find_only(s, job->data, yaml, s->schema);
    if (found < 0)
        return HALAY_ERR_CONFIG;
    if (found) {
        job->schema = s->schema;
        return HALAY_OK;
    }
    halay_error(
        s->log,
        "'%s' holds no prepared file (.htd), and no schema says what its tables mean: a channel 'schema' with one "
        "file, a .yaml beside the tables, or the hyperparameter 'schema'",
        job->data);
    return HALAY_ERR_CONFIG;
}

static enum halay_status make(struct tft_sagemaker *s, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s%s%s", s->root, *name ? "/" : "", name);
    return tft_make_folder(s->log, path);
}

enum halay_status tft_sagemaker_places(struct tft_sagemaker *s, struct tft_sagemaker_job *job)
{
    if (!s->is_there)
        return HALAY_OK;
    enum halay_status status = find_data(s, job);
    if (!status)
        status = find_schema(s, job);
    if (!status)
        status = make(s, "output");
    if (!status)
        status = make(s, "output/data");
    snprintf(s->folder, sizeof s->folder, "%s/model", s->root);
    snprintf(s->checkpoints, sizeof s->checkpoints, "%s/checkpoints", s->root);
    if (!job->folder)
        job->folder = s->folder;
    if (!job->checkpoints && is_folder(s->checkpoints))
        job->checkpoints = s->checkpoints;
    job->keeps_nothing = !job->checkpoints;
    snprintf(s->metrics, sizeof s->metrics, "%s/output/data", s->root);
    job->metrics = job->checkpoints ? job->checkpoints : s->metrics;
    return status;
}

enum halay_status tft_sagemaker_publish(struct tft_sagemaker *s, const char *metrics)
{
    struct tft_output out = { 0 };
    char path[PATH_MAX], bytes[1 << 14];
    size_t n;

    if (!s->is_there || !strcmp(metrics, s->metrics))
        return HALAY_OK;
    snprintf(path, sizeof path, "%s/metrics.jsonl", metrics);
    FILE *from = fopen(path, "re");
    if (!from) {
        halay_error(s->log, "cannot open '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    snprintf(path, sizeof path, "%s/output/data/metrics.jsonl", s->root);
    enum halay_status status = tft_output_open(s->log, path, &out);
    while (!status && (n = fread(bytes, 1, sizeof bytes, from)) > 0)
        fwrite(bytes, 1, n, out.file); /* commit says how it went */
    fclose(from);
    return status ? status : tft_output_commit(&out);
}

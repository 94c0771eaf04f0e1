/* SPDX-License-Identifier: Apache-2.0
 *
 * Places: which of the container's files a training reads, and where it writes what.
 *
 * model/ gets run.json and model.safetensors whenever the model is the best so far, so that they are there however the
 * job ends. The lines of evaluations are kept with the checkpoints, if there are any, so that an interrupted job
 * continues them in another container.
 */
#include "base/output_file.h"
#include "sagemaker/container.h"
#include "sagemaker/opt_ml.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void channel_path(const char *channel, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/input/data/%s", opt_ml_root(), channel);
}

/* Channels for what SDKs upload, and for what explains the data. */
static int is_reserved(const char *channel)
{
    static const char *const names[] = { "code", "sm_drivers", "schema", "config", "model" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(channel, names[i]))
            return 1;
    return channel[0] == '.';
}

/* The folders that may hold data: path of the last one, *count, and their names in text. */
static void find_channels(char path[PATH_MAX], size_t *count, char *text, size_t size)
{
    char folder[PATH_MAX], at[2 * PATH_MAX];
    struct dirent **entries;
    size_t used = 0;

    opt_ml_path("input/data", folder, sizeof folder);
    int n = scandir(folder, &entries, NULL, alphasort);
    *count = 0;
    for (int i = 0; i < n; i++) {
        snprintf(at, sizeof at, "%s/%s", folder, entries[i]->d_name);
        if (!is_reserved(entries[i]->d_name) && is_folder(at)) {
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

static enum halay_status find_channel(struct sagemaker_container *c, char *path)
{
    static const char *const names[] = { "training", "train", "data" };
    char list[256] = "none";
    size_t count;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        channel_path(names[i], path);
        if (is_folder(path))
            return HALAY_OK;
    }
    find_channels(path, &count, list, sizeof list);
    if (count == 1)
        return HALAY_OK;
    halay_error(c->log,
                "no channel 'training', 'train' or 'data' in '%s/input/data' (there: %s); the hyperparameter 'data' "
                "names a channel or a file",
                opt_ml_root(), list);
    return HALAY_ERR_CONFIG;
}

/* Does a channel bring all its files to every host, to be read more than once? */
static enum halay_status check_channel(struct sagemaker_container *c, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    const json_t *channel = json_object_get(c->channels, name);
    const char *mode = json_string_value(json_object_get(channel, "TrainingInputMode"));
    const char *spread = json_string_value(json_object_get(channel, "S3DistributionType"));

    if (mode && !strcmp(mode, "Pipe")) {
        halay_error(c->log, "channel '%s': input mode Pipe, but data are read more than once: ask for File or FastFile",
                    name);
        return HALAY_ERR_CONFIG;
    }
    if (spread && !strcmp(spread, "ShardedByS3Key") && json_array_size(json_object_get(c->resources, "hosts")) > 1) {
        halay_error(
            c->log,
            "channel '%s': distribution ShardedByS3Key gives each host other files, but each needs all of them: ask "
            "for FullyReplicated (the ranks share the batches anyway)",
            name);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

static int has_one_suffix(const char *name, const char *const *suffixes)
{
    size_t length = strlen(name);

    for (; *suffixes; suffixes++) {
        size_t n = strlen(*suffixes);
        if (length > n && !strcmp(name + length - n, *suffixes))
            return 1;
    }
    return 0;
}

/* The only file in the folder with one of the endings: 1; 0 if there is none. More than one is an error (-1). */
static int find_only(struct sagemaker_container *c, const char *folder, const char *const *suffixes, char *path)
{
    struct dirent **entries;
    int found = 0, n = scandir(folder, &entries, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (has_one_suffix(entries[i]->d_name, suffixes) && entries[i]->d_name[0] != '.') {
            found++;
            snprintf(path, PATH_MAX, "%.2000s/%.1000s", folder, entries[i]->d_name);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    if (found <= 1)
        return found;
    halay_error(c->log, "'%s' holds %d files that end in %s: name one of them", folder, found, suffixes[0]);
    return -1;
}

/* A name as it is, or in a channel. */
static void resolve_name(const char *name, char path[PATH_MAX])
{
    static const char *const channels[] = { "schema", "config", "code", "training", "train", "data" };

    snprintf(path, PATH_MAX, "%s", name);
    for (size_t i = 0; !exists(path) && *name != '/' && i < sizeof channels / sizeof *channels; i++)
        snprintf(path, PATH_MAX, "%s/input/data/%s/%s", opt_ml_root(), channels[i], name);
    if (!exists(path))
        snprintf(path, PATH_MAX, "%s", name); /* so that errors quote the name that was given */
}

static enum halay_status find_data(struct sagemaker_container *c, struct tft_train_command *command)
{
    static const char *const prepared[] = { ".htd", NULL };
    char folder[PATH_MAX];
    enum halay_status status = HALAY_OK;

    if (command->data) {
        channel_path(command->data, folder);
        if (exists(command->data) || !is_folder(folder)) {
            resolve_name(command->data, c->data);
            command->data = c->data;
            return HALAY_OK;
        }
    } else {
        status = find_channel(c, folder);
    }
    if (!status)
        status = check_channel(c, folder);
    if (status)
        return status;
    int found = command->schema ? 0 : find_only(c, folder, prepared, c->data);
    if (!found)
        snprintf(c->data, sizeof c->data, "%s", folder);
    command->data = c->data;
    return found < 0 ? HALAY_ERR_CONFIG : HALAY_OK;
}

/* The schema of a folder of tables. */
static enum halay_status find_schema(struct sagemaker_container *c, struct tft_train_command *command)
{
    static const char *const any[] = { ".yaml", ".yml", ".json", NULL }, *const yaml[] = { ".yaml", ".yml", NULL };
    char folder[PATH_MAX];

    if (command->schema) {
        resolve_name(command->schema, c->schema);
        command->schema = c->schema;
        return HALAY_OK;
    }
    if (!is_folder(command->data))
        return HALAY_OK;
    channel_path("schema", folder);
    int found = find_only(c, folder, any, c->schema);
    if (!found)
        found = find_only(c, command->data, yaml, c->schema);
    if (found < 0)
        return HALAY_ERR_CONFIG;
    if (found) {
        command->schema = c->schema;
        return HALAY_OK;
    }
    halay_error(
        c->log,
        "'%s' holds no prepared file (.htd), and no schema says what its tables mean: a channel 'schema' with one "
        "file, a .yaml beside the tables, or the hyperparameter 'schema'",
        command->data);
    return HALAY_ERR_CONFIG;
}

static enum halay_status make_folder(struct sagemaker_container *c, const char *name)
{
    char path[PATH_MAX];

    opt_ml_path(name, path, sizeof path);
    if (!mkdir(path, 0777) || (errno == EEXIST && is_folder(path)))
        return HALAY_OK;
    halay_error(c->log, "cannot make folder '%s': %s", path, errno == EEXIST ? "it is no folder" : strerror(errno));
    return HALAY_ERR_SYSTEM;
}

static enum halay_status find_folders(struct sagemaker_container *c, struct tft_train_command *command)
{
    struct halay_tft_train_options *how = &command->options;

    opt_ml_path("model", c->folder, sizeof c->folder);
    opt_ml_path("checkpoints", c->checkpoints, sizeof c->checkpoints);
    opt_ml_path("output/data", c->metrics, sizeof c->metrics);
    if (!how->folder)
        how->folder = c->folder;
    if (!how->checkpoints && is_folder(c->checkpoints))
        how->checkpoints = c->checkpoints;
    how->metrics = how->checkpoints ? how->checkpoints : c->metrics;
    how->resume = command->watches_continue = 1;
    if (how->checkpoints)
        return HALAY_OK;
    halay_info(c->log, "no folder '%s': no checkpoints are kept", c->checkpoints);
    return tft_run_options_set(c->log, &command->config, "keep", 0);
}

int sagemaker_find_places(struct sagemaker_container *c, struct tft_train_command *command)
{
    enum halay_status status = find_data(c, command);

    if (!status)
        status = find_schema(c, command);
    if (!status)
        status = make_folder(c, "output");
    if (!status)
        status = make_folder(c, "output/data");
    if (!status)
        status = find_folders(c, command);
    return status ? tft_exit_status(status) : -1;
}

static int copy_file(const char *from_path, const char *to_path)
{
    char bytes[1 << 14];
    size_t n;
    struct halay_output to = { 0 };
    FILE *from = fopen(from_path, "re");
    int failed = !from || halay_output_open(NULL, to_path, &to);

    while (!failed && (n = fread(bytes, 1, sizeof bytes, from)) > 0)
        fwrite(bytes, 1, n, to.file);
    failed = failed || ferror(from) || halay_output_commit(&to);
    int error = errno;
    if (from)
        fclose(from);
    halay_output_abort(&to);
    errno = error;
    return failed;
}

enum halay_status sagemaker_publish(struct sagemaker_container *c, const char *metrics)
{
    char from[PATH_MAX], to[PATH_MAX];

    if (!strcmp(metrics, c->metrics))
        return HALAY_OK;
    snprintf(from, sizeof from, "%s/metrics.jsonl", metrics);
    opt_ml_path("output/data/metrics.jsonl", to, sizeof to);
    if (!copy_file(from, to))
        return HALAY_OK;
    halay_error(c->log, "cannot copy '%s' to '%s': %s", from, to, strerror(errno));
    return HALAY_ERR_SYSTEM;
}

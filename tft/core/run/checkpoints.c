/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: blocks are written first, the manifest last.
 *
 * They are deleted in the opposite order: first manifests that are too old, then the files that none of the remaining
 * manifests names. Cleanup: NULL-initialised, one exit.
 */
#include "tft/core/run/checkpoints.h"
#include "base/document.h"
#include "base/memory.h"
#include "tft/core/data/document_reader.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/safetensors.h"
#include <dirent.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FORMAT_VERSION = 1 };

static const char *const block_names[TFT_CHECKPOINT_BLOCKS] = { "params", "moment1", "moment2", "average" };

/* The state in a manifest. Older versions did not write all of it. */
#define AT(member) offsetof(struct tft_training_state, member)
#define COUNT(name, member, ...) TFT_MEMBER(name, WHOLE, AT(member), .most = 0x1p62, __VA_ARGS__)
#define REAL(name, member, ...) TFT_MEMBER(name, REAL, AT(member), .least = -DBL_MAX, .most = DBL_MAX, __VA_ARGS__)
#define NEEDED .missing = "a number"
static const struct tft_member state_members[] = {
    COUNT("step", step, NEEDED),
    COUNT("samples", samples, NEEDED),
    COUNT("epoch", epoch, NEEDED),
    COUNT("position", position, NEEDED),
    COUNT("windows", windows),
    COUNT("loss_steps", loss_steps, NEEDED),
    REAL("loss_sum", loss_sum, NEEDED),
    REAL("lowest", lowest, NEEDED),
    REAL("mark", mark, NEEDED),
    REAL("seconds", seconds, NEEDED),
    COUNT("planned_steps", length.steps),
    REAL("planned_seconds", length.seconds),
    COUNT("measured_from", length.began.step),
    REAL("measured_from_seconds", length.began.seconds),
    COUNT("judged", judged, NEEDED),
    COUNT("in_vain", in_vain, NEEDED),
    TFT_MEMBER("pending", TRUTH, AT(pending), NEEDED),
    REAL("window_seconds", window_seconds),
    TFT_MEMBERS_END,
};

enum halay_status tft_checkpoints_init(struct halay_log *log, const char *folder, size_t keep,
                                       struct tft_checkpoints *c)
{
    *c = (struct tft_checkpoints){ .log = log, .folder = strdup(folder), .stage = strdup(""), .keep = keep };
    if (c->folder && c->stage)
        return HALAY_OK;
    tft_checkpoints_fini(c);
    return halay_no_memory(log, "for the checkpoints' folder");
}

/* ---- list ---- */

/* Returns nonzero if it is a manifest's name. *step: the manifest's. */
static int is_manifest(const char *name, uint64_t *step)
{
    int end = 0;

    return sscanf(name, "manifest-%10" SCNu64 ".json%n", step, &end) == 1 && end && !name[end];
}

static int is_block(const char *name)
{
    uint64_t step;
    int end = 0;

    return sscanf(name, "step-%10" SCNu64 ".%n", &step, &end) == 1 && end && strstr(name + end, ".safetensors");
}

static int newest_first(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left < right) - (left > right);
}

/* Lists the steps of all manifests, newest first; owned by the caller. A folder that does not exist has none. */
static enum halay_status list_steps(const struct tft_checkpoints *c, uint64_t **steps, size_t *count)
{
    DIR *folder = opendir(c->folder);
    size_t n = 0, room = 0;

    *steps = NULL;
    *count = 0;
    if (!folder && errno == ENOENT)
        return HALAY_OK;
    if (!folder)
        return halay_fail(c->log, HALAY_ERR_SYSTEM, "cannot read folder '%s': %s", c->folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));) {
        uint64_t step;
        if (!is_manifest(entry->d_name, &step))
            continue;
        if (halay_list_grow(steps, n, &room, sizeof **steps)) {
            closedir(folder);
            free(*steps);
            *steps = NULL;
            return halay_no_memory(c->log, "for the list of checkpoints");
        }
        (*steps)[n++] = step;
    }
    closedir(folder);
    if (n)
        qsort(*steps, n, sizeof **steps, newest_first);
    *count = n;
    return HALAY_OK;
}

int tft_checkpoints_has_any(const struct tft_checkpoints *c)
{
    uint64_t *steps;
    size_t count;

    if (list_steps(c, &steps, &count))
        return 0;
    free(steps);
    return count > 0;
}

static struct tft_path manifest_path(const struct tft_checkpoints *c, uint64_t step)
{
    char name[64];

    snprintf(name, sizeof name, "manifest-%010" PRIu64 ".json", step);
    return tft_path_in(c->folder, name);
}

/* ---- checksums ---- */

static int crc_of_file(const char *path, uint64_t *bytes, uint32_t *crc)
{
    unsigned char *buffer = malloc(1 << 20);
    FILE *file = buffer ? fopen(path, "rbe") : NULL;
    uLong sum = crc32(0, NULL, 0);
    size_t n;

    *bytes = 0;
    while (file && (n = fread(buffer, 1, 1 << 20, file)) > 0) {
        sum = crc32(sum, buffer, (uInt)n);
        *bytes += n;
    }
    int failed = !file || ferror(file);
    if (file)
        fclose(file);
    free(buffer);
    *crc = (uint32_t)sum;
    return failed;
}

/* Returns the CRC-32 of a manifest without its own entry. Reading a number and writing it again gives the same text. */
static uint32_t crc_of_manifest(const json_t *manifest)
{
    json_t *rest = json_copy((json_t *)manifest);
    uLong sum = crc32(0, NULL, 0);

    json_object_del(rest, "crc32");
    char *text = rest ? json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (text)
        sum = crc32(sum, (const unsigned char *)text, (uInt)strlen(text));
    free(text);
    json_decref(rest);
    return (uint32_t)sum;
}

/* ---- find ---- */

/* Returns what is wrong with a file that a manifest names, or NULL; *bad is then its name, borrowed from the
 * manifest. */
static const char *check_file(const struct tft_checkpoints *c, const json_t *entry, const char **bad)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    uint64_t bytes = 0;
    uint32_t crc = 0;

    *bad = NULL;
    if (!name || strchr(name, '/'))
        return "it names no file";
    *bad = name;
    if (crc_of_file(tft_path_in(c->folder, name).text, &bytes, &crc))
        return "cannot be read";
    if ((json_int_t)bytes != json_integer_value(json_object_get(entry, "bytes")))
        return "has another length than was written";
    return (json_int_t)crc != json_integer_value(json_object_get(entry, "crc32")) ? "is damaged (CRC-32)" : NULL;
}

/* Returns what is wrong with the manifest itself or with the file *bad that it names, or NULL. */
static const char *check_manifest(const struct tft_checkpoints *c, const json_t *manifest, const char **bad)
{
    const json_t *files = json_object_get(manifest, "files"), *best = json_object_get(manifest, "best");
    const char *wrong = NULL;

    if (json_integer_value(json_object_get(manifest, "format")) != FORMAT_VERSION)
        return "it is of another version";
    if (json_integer_value(json_object_get(manifest, "crc32")) != (json_int_t)crc_of_manifest(manifest))
        return "it is damaged (CRC-32)";
    if (!json_is_array(files) || !json_is_object(json_object_get(manifest, "run")))
        return "it is incomplete";
    for (size_t i = 0; i < json_array_size(files) && !wrong; i++)
        wrong = check_file(c, json_array_get(files, i), bad);
    if (!wrong && best)
        wrong = check_file(c, best, bad);
    *bad = wrong ? *bad : NULL;
    return wrong;
}

/* Returns one checkpoint's manifest; NULL, which is logged, if it is damaged. */
static json_t *try_step(const struct tft_checkpoints *c, uint64_t step)
{
    const struct tft_path path = manifest_path(c, step);
    json_error_t error;
    json_t *manifest = json_load_file(path.text, JSON_REJECT_DUPLICATES, &error);
    const char *bad = NULL, *wrong = manifest ? check_manifest(c, manifest, &bad) : "it cannot be read";

    if (!wrong)
        return manifest;
    halay_warning(c->log, "checkpoint '%s' is not used: %s%s%s%s", path.text, bad ? "its file '" : "", bad ? bad : "",
                  bad ? "' " : "", wrong);
    json_decref(manifest);
    return NULL;
}

enum halay_status tft_checkpoints_find(const struct tft_checkpoints *c, json_t **manifest)
{
    uint64_t *steps;
    size_t count;
    enum halay_status status = list_steps(c, &steps, &count);

    *manifest = NULL;
    if (status)
        return status;
    for (size_t i = 0; i < count && !*manifest; i++)
        *manifest = try_step(c, steps[i]);
    free(steps);
    if (*manifest || !count)
        return HALAY_OK;
    return halay_fail(c->log, HALAY_ERR_FORMAT, "none of the %zu checkpoints in '%s' can be used", count, c->folder);
}

/* Returns nonzero if the optimizer's state is dealt out, as older versions could. */
static int has_rank_files(const json_t *manifest)
{
    const json_t *files = json_object_get(manifest, "files");
    int has = 0;

    for (size_t i = 0; i < json_array_size(files); i++)
        has |= json_object_get(json_array_get(files, i), "rank") != NULL;
    return has;
}

enum halay_status tft_checkpoints_state(const struct tft_checkpoints *c, const json_t *manifest, const json_t **run,
                                        struct tft_training_state *state)
{
    struct tft_training_state s = { 0 };

    *run = json_object_get(manifest, "run");
    if (has_rank_files(manifest))
        return halay_fail(
            c->log, HALAY_ERR_UNSUPPORTED,
            "the checkpoint in '%s' has its optimizer's state in a file of each rank, as the former key "
            "'strategy' dealt it out, and cannot be resumed; a new run can begin with its weights ('init_from')",
            c->folder);
    if (tft_members_take(json_object_get(manifest, "state"), state_members, &s) || s.length.began.step > s.step)
        return halay_fail(c->log, HALAY_ERR_FORMAT, "the checkpoint in '%s' does not say where training stood",
                          c->folder);
    *state = s;
    return HALAY_OK;
}

static enum halay_status read_entry(const struct tft_checkpoints *c, const json_t *entry,
                                    const struct tft_param_table *table, float *values)
{
    const struct tft_path path = tft_path_in(c->folder, json_string_value(json_object_get(entry, "name")));

    return tft_safetensors_read(c->log, path.text, table, values, NULL);
}

static int is_of(const json_t *entry, enum tft_checkpoint_block block)
{
    const char *what = json_string_value(json_object_get(entry, "block"));

    return what && !strcmp(what, block_names[block]);
}

/* Returns the first file of a block in a list; NULL if the list has none. */
static json_t *find_block(const json_t *files, enum tft_checkpoint_block block)
{
    for (size_t i = 0; i < json_array_size(files); i++)
        if (is_of(json_array_get(files, i), block))
            return json_array_get(files, i);
    return NULL;
}

enum halay_status tft_checkpoints_read(const struct tft_checkpoints *c, const json_t *manifest,
                                       enum tft_checkpoint_block block, const struct tft_param_table *table,
                                       float *values)
{
    const json_t *files = json_object_get(manifest, "files"), *entry = find_block(files, block);

    if (entry)
        return read_entry(c, entry, table, values);
    return halay_fail(c->log, HALAY_ERR_FORMAT, "the checkpoint in '%s' has no block '%s'", c->folder,
                      block_names[block]);
}

static void replace_json(json_t **held, json_t *value)
{
    json_incref(value);
    json_decref(*held);
    *held = value;
}

enum halay_status tft_checkpoints_resume(struct tft_checkpoints *c, const json_t *manifest,
                                         const struct tft_param_table *table, float *best, long long *step)
{
    json_t *entry = json_object_get(manifest, "best");
    enum halay_status status = entry ? read_entry(c, entry, table, best) : HALAY_OK;

    if (status)
        return status;
    *step = entry ? (long long)json_integer_value(json_object_get(entry, "step")) : -1;
    replace_json(&c->best, entry);
    replace_json(&c->files, json_object_get(manifest, "files"));
    return HALAY_OK;
}

/* ---- save ---- */

/* ".NAME.stage" beside the folder if that is on the same file system; else "": files are then staged in the folder. */
static char *find_stage(struct halay_log *log, const char *folder)
{
    char *parent_of = strdup(folder), *name_of = strdup(folder), *stage = NULL;
    struct stat here, beside;

    if (!parent_of || !name_of || asprintf(&stage, "%s/.%s.stage", dirname(parent_of), basename(name_of)) < 0)
        stage = NULL;
    free(parent_of);
    free(name_of);
    if (!stage) {
        halay_error(log, "no memory for the name of the checkpoints' stage");
        return NULL;
    }
    int made = !mkdir(stage, 0777) || errno == EEXIST;
    if (!made || stat(stage, &beside) || stat(folder, &here) || here.st_dev != beside.st_dev ||
        access(stage, W_OK | X_OK)) {
        if (made)
            rmdir(stage);
        *stage = '\0';
    }
    return stage;
}

/* Removes what a killed process left there. */
static void clean_stage(const char *stage)
{
    DIR *folder = *stage ? opendir(stage) : NULL;

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

/* Makes the folders to write into, once, and removes what a killed process left half-written. */
static enum halay_status make_folders(struct tft_checkpoints *c)
{
    enum halay_status status;

    if (*c->stage)
        return HALAY_OK;
    status = tft_make_folder(c->log, c->folder);
    if (status)
        return status;
    char *stage = find_stage(c->log, c->folder);
    if (!stage)
        return HALAY_ERR_NO_MEMORY;
    free(c->stage);
    c->stage = stage;
    clean_stage(stage);
    return HALAY_OK;
}

/* Writes a block's file, and appends its entry of the manifest to files. */
static enum halay_status save_block(const struct tft_checkpoints *c, uint64_t step, enum tft_checkpoint_block block,
                                    const struct tft_param_table *table, const float *values, json_t *files)
{
    char name[96];
    uint64_t bytes;
    uint32_t crc;

    snprintf(name, sizeof name, "step-%010" PRIu64 ".%s.safetensors", step, block_names[block]);
    const struct tft_path path = tft_path_in(c->folder, name);
    json_t *metadata = json_pack("{ss ss}", "format", "halay-tft", "block", block_names[block]);
    if (!metadata)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = tft_safetensors_write_staged(c->log, c->stage, path.text, table, values, metadata);
    json_decref(metadata);
    if (status)
        return status;
    if (crc_of_file(path.text, &bytes, &crc))
        return halay_fail(c->log, HALAY_ERR_SYSTEM, "cannot read '%s' again: %s", path.text, strerror(errno));
    json_t *entry = json_pack("{ss ss sI sI sI}", "name", name, "block", block_names[block], "step", (json_int_t)step,
                              "bytes", (json_int_t)bytes, "crc32", (json_int_t)crc);
    return json_array_append_new(files, entry) ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

static enum halay_status save_manifest(const struct tft_checkpoints *c, const json_t *run,
                                       const struct tft_training_state *state, json_t *files)
{
    json_t *manifest = json_pack("{si ss sO so sO sO*}", "format", FORMAT_VERSION, "halay", halay_version(), "run", run,
                                 "state", tft_members_write(state_members, state), "files", files, "best", c->best);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (manifest && !json_object_set_new(manifest, "crc32", json_integer((json_int_t)crc_of_manifest(manifest))))
        status = halay_document_write(c->log, c->stage, manifest_path(c, state->step).text, manifest);
    json_decref(manifest);
    return status;
}

/* Returns nonzero if an entry of a manifest is that of a file. */
static int is_entry_of(const json_t *entry, const char *name)
{
    const char *other = json_string_value(json_object_get(entry, "name"));

    return other && !strcmp(other, name);
}

/* Returns nonzero if one of these manifests names the file. One that cannot be read may. */
static int is_in_manifests(const struct tft_checkpoints *c, const uint64_t *steps, size_t count, const char *name)
{
    int named = 0;

    for (size_t i = 0; i < count && !named; i++) {
        json_t *m = json_load_file(manifest_path(c, steps[i]).text, 0, NULL), *files = json_object_get(m, "files");
        named = !m || is_entry_of(json_object_get(m, "best"), name);
        for (size_t k = 0; k < json_array_size(files) && !named; k++)
            named = is_entry_of(json_array_get(files, k), name);
        json_decref(m);
    }
    return named;
}

/* Deletes old checkpoints. What cannot be deleted does no harm. */
static void prune_old(const struct tft_checkpoints *c)
{
    uint64_t *steps;
    size_t count;

    if (list_steps(c, &steps, &count))
        return;
    for (size_t i = c->keep; i < count; i++)
        unlink(manifest_path(c, steps[i]).text);
    count = count < c->keep ? count : c->keep;
    DIR *folder = opendir(c->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (is_block(entry->d_name) && !is_in_manifests(c, steps, count, entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    free(steps);
}

enum halay_status tft_checkpoints_save(struct tft_checkpoints *c, const json_t *run,
                                       const struct tft_training_state *state, const struct tft_param_table *table,
                                       const float *const blocks[TFT_CHECKPOINT_BLOCKS])
{
    json_t *files = json_array();
    enum halay_status status = files ? make_folders(c) : HALAY_ERR_NO_MEMORY;

    for (int block = 0; block < TFT_CHECKPOINT_BLOCKS && !status; block++)
        if (blocks[block])
            status = save_block(c, state->step, (enum tft_checkpoint_block)block, table, blocks[block], files);
    if (!status && !(status = save_manifest(c, run, state, files))) {
        replace_json(&c->files, files);
        prune_old(c);
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(c->log, "no memory for the checkpoint of step %" PRIu64, state->step);
    json_decref(files);
    return status;
}

void tft_checkpoints_set_best(struct tft_checkpoints *c, enum tft_checkpoint_block block)
{
    replace_json(&c->best, find_block(c->files, block));
}

void tft_checkpoints_fini(struct tft_checkpoints *c)
{
    if (c->stage && *c->stage)
        rmdir(c->stage);
    free(c->stage);
    free(c->folder);
    json_decref(c->best);
    json_decref(c->files);
    *c = (struct tft_checkpoints){ 0 };
}

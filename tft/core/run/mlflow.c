/* SPDX-License-Identifier: Apache-2.0
 *
 * MLflow's file store: EXPERIMENT/meta.yaml and EXPERIMENT/RUN/{meta.yaml,metrics,params,tags,artifacts}.
 */
#include "tft/core/run/mlflow.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include "tft/core/data/paths.h"
#include "tft/core/run/lines.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static long long milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* "milliseconds value step" */
static long long step_of(const char *line)
{
    const char *space = strrchr(line, ' ');

    return space ? strtoll(space, NULL, 10) : -1;
}

static enum halay_status write_text(struct halay_log *log, const char *folder, const char *name, const char *text)
{
    struct halay_output out;
    char *path = tft_path_join(log, folder, name);
    enum halay_status status = path ? halay_output_open(log, path, &out) : HALAY_ERR_NO_MEMORY;

    if (!status) {
        fputs(text, out.file);
        status = halay_output_commit(&out);
    }
    free(path);
    return status;
}

/* A text in YAML, between quotation marks, where only the mark itself needs care. */
static void put_quoted(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++)
        fputs(*text == '\'' ? "''" : (const char[]){ *text, 0 }, file);
    fputs("'\n", file);
}

/* ---- the store ---- */

static enum halay_status make_folder(struct halay_log *log, const char *folder, const char *name, char **path)
{
    *path = tft_path_join(log, folder, name);
    return *path ? tft_make_folder(log, *path) : HALAY_ERR_NO_MEMORY;
}

/* The run that lies in the experiment already. */
static void find_run(const char *experiment, char id[33])
{
    DIR *dir = opendir(experiment);
    struct dirent *entry;

    id[0] = 0;
    while (dir && (entry = readdir(dir)))
        if (strlen(entry->d_name) == 32 && strspn(entry->d_name, "0123456789abcdef") == 32)
            memcpy(id, entry->d_name, 33);
    if (dir)
        closedir(dir);
}

static void draw_id(char id[33])
{
    unsigned char bytes[16];
    long long now = milliseconds();

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(now >> (i % 8) * 8);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

static enum halay_status describe_experiment(struct tft_mlflow *m, const char *experiment)
{
    struct halay_output out;
    char *path = tft_path_join(m->log, experiment, "meta.yaml");
    enum halay_status status = path ? halay_output_open(m->log, path, &out) : HALAY_ERR_NO_MEMORY;

    if (!status) {
        fputs("artifact_location: ", out.file);
        put_quoted(out.file, experiment);
        fprintf(out.file,
                "creation_time: %lld\nexperiment_id: '0'\nlast_update_time: %lld\nlifecycle_stage: active\n"
                "name: halay-tft\n",
                m->began_ms, m->began_ms);
        status = halay_output_commit(&out);
    }
    free(path);
    return status;
}

static enum halay_status describe_run(struct tft_mlflow *m, enum tft_mlflow_end end)
{
    struct halay_output out;
    char *path = tft_path_join(m->log, m->folder, "meta.yaml");
    enum halay_status status = path ? halay_output_open(m->log, path, &out) : HALAY_ERR_NO_MEMORY;

    if (!status) {
        fputs("artifact_uri: ", out.file);
        char *artifacts = tft_path_join(m->log, m->folder, "artifacts");
        put_quoted(out.file, artifacts ? artifacts : "");
        free(artifacts);
        if (end == TFT_MLFLOW_RUNNING)
            fputs("end_time: null\n", out.file);
        else
            fprintf(out.file, "end_time: %lld\n", milliseconds());
        fprintf(out.file,
                "entry_point_name: ''\nexperiment_id: '0'\nlifecycle_stage: active\nrun_id: '%s'\nrun_name: ", m->id);
        put_quoted(out.file, m->name);
        fprintf(out.file,
                "run_uuid: '%s'\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: %lld\nstatus: %d\n"
                "tags: []\nuser_id: ''\n",
                m->id, m->began_ms, (int)end);
        status = halay_output_commit(&out);
    }
    free(path);
    return status;
}

/* When the run began, from its description; now, if it has none. */
static long long began(const struct tft_mlflow *m)
{
    long long at = milliseconds();
    char *path = tft_path_join(m->log, m->folder, "meta.yaml"), line[1024];
    FILE *file = path ? fopen(path, "re") : NULL;

    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "start_time: ", 12))
            at = strtoll(line + 12, NULL, 10);
    if (file)
        fclose(file);
    free(path);
    return at;
}

static enum halay_status write_parameters(struct tft_mlflow *m, const json_t *parameters)
{
    char *folder = NULL;
    const char *name;
    json_t *value;
    enum halay_status status = make_folder(m->log, m->folder, "params", &folder);

    json_object_foreach((json_t *)parameters, name, value) {
        char *text = json_is_string(value) ? strdup(json_string_value(value))
                                           : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        if (!text && !status)
            status = HALAY_ERR_NO_MEMORY;
        if (!status)
            status = write_text(m->log, folder, name, text);
        free(text);
    }
    free(folder);
    return status;
}

static enum halay_status write_tags(struct tft_mlflow *m)
{
    char *folder = NULL;
    enum halay_status status = make_folder(m->log, m->folder, "tags", &folder);

    if (!status)
        status = write_text(m->log, folder, "mlflow.runName", m->name);
    if (!status)
        status = write_text(m->log, folder, "mlflow.source.name", "halay-tft");
    free(folder);
    return status;
}

/* The folder's own name, as users know the run. */
static enum halay_status name_run(struct tft_mlflow *m, const char *folder, char **whole)
{
    *whole = realpath(folder, NULL);
    if (!*whole) {
        halay_error(m->log, "cannot find '%s': %s", folder, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    const char *slash = strrchr(*whole, '/');
    m->name = strdup(slash && slash[1] ? slash + 1 : *whole);
    return m->name ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* STORE/0 and the run's folder in it, which is an old one if the run resumes. */
static enum halay_status make_store(struct tft_mlflow *m, const char *whole)
{
    char *store = NULL, *experiment = NULL;
    enum halay_status status = make_folder(m->log, whole, "mlflow", &store);

    if (!status)
        status = make_folder(m->log, store, "0", &experiment);
    if (!status)
        find_run(experiment, m->id);
    int is_new = !m->id[0];
    if (is_new)
        draw_id(m->id);
    if (!status)
        status = make_folder(m->log, experiment, m->id, &m->folder);
    if (!status)
        m->began_ms = began(m);
    if (!status && is_new)
        status = describe_experiment(m, experiment);
    free(store);
    free(experiment);
    return status;
}

enum halay_status tft_mlflow_init(struct halay_log *log, const char *folder, const uint64_t last[TFT_ROW_TABLES],
                                  const json_t *parameters, struct tft_mlflow *mlflow)
{
    char *whole = NULL, *made[2] = { NULL, NULL };

    *mlflow = (struct tft_mlflow){ .log = log };
    memcpy(mlflow->last, last, sizeof mlflow->last);
    enum halay_status status = name_run(mlflow, folder, &whole);
    if (!status)
        status = make_store(mlflow, whole);
    if (!status)
        status = describe_run(mlflow, TFT_MLFLOW_RUNNING);
    if (!status)
        status = write_parameters(mlflow, parameters);
    if (!status)
        status = write_tags(mlflow);
    if (!status)
        status = make_folder(log, mlflow->folder, "metrics", &made[0]);
    if (!status)
        status = make_folder(log, mlflow->folder, "artifacts", &made[1]);
    free(whole);
    free(made[0]);
    free(made[1]);
    return status;
}

/* ---- numbers ---- */

/* The file of a number, to add a line; the first time in this process it loses what comes after the last step. */
static FILE *open_number(struct tft_mlflow *m, const char *name, uint64_t last)
{
    char path[PATH_MAX];
    FILE *file;

    if (snprintf(path, sizeof path, "%s/metrics/%s", m->folder, name) >= (int)sizeof path) {
        halay_error(m->log, "the path of '%s' in '%s' is too long", name, m->folder);
        return NULL;
    }
    for (size_t i = 0; i < m->known_count; i++)
        if (!strcmp(m->known[i], name)) {
            file = fopen(path, "ae");
            if (!file)
                halay_error(m->log, "cannot write '%s': %s", path, strerror(errno));
            return file;
        }
    if (m->known_count == sizeof m->known / sizeof *m->known || strlen(name) >= sizeof *m->known) {
        halay_error(m->log, "too many numbers, or too long a name: '%s'", name);
        return NULL;
    }
    strcpy(m->known[m->known_count++], name);
    return tft_lines_open(m->log, path, step_of, last);
}

enum halay_status tft_mlflow_add(struct tft_mlflow *m, const struct tft_row *row)
{
    for (size_t i = 0; i < row->count; i++) {
        FILE *file = open_number(m, row->numbers[i].name, m->last[row->table]);
        if (!file)
            return HALAY_ERR_SYSTEM;
        int failed = halay_fprintf(file, "%lld %.9g %llu\n", (long long)(row->seconds * 1000), row->numbers[i].value,
                                   (unsigned long long)row->step) < 0;
        failed |= fclose(file) != 0;
        if (failed) {
            halay_error(m->log, "cannot write MLflow's '%s': %s", row->numbers[i].name, strerror(errno));
            return HALAY_ERR_SYSTEM;
        }
    }
    return HALAY_OK;
}

enum halay_status tft_mlflow_end(struct tft_mlflow *m, enum tft_mlflow_end end)
{
    return m->folder && m->name ? describe_run(m, end) : HALAY_OK;
}

void tft_mlflow_fini(struct tft_mlflow *m)
{
    free(m->folder);
    free(m->name);
    *m = (struct tft_mlflow){ 0 };
}

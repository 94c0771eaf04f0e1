/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: writer and strict reader.
 *
 * The reader first reads the header, checks that its tensors are the table's and that, sorted by offset, they cover the
 * data without gap or overlap, then reads each into the block. Little-endian machines only, as the rest of the
 * trainer's files.
 */
#include "tft/core/run/safetensors.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEADER_MAX ((uint64_t)100 << 20)

/* ---- write ---- */

static json_t *make_header(const struct tft_param_table *table, const json_t *metadata)
{
    json_t *header = json_object();
    json_int_t begin, end = 0;

    if (header && metadata)
        json_object_set(header, "__metadata__", (json_t *)metadata);
    for (size_t i = 0; header && i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        json_t *shape = json_array();
        for (int k = 0; k < p->dimensions; k++)
            json_array_append_new(shape, json_integer((json_int_t)p->shape[k]));
        begin = end;
        end += (json_int_t)(p->count * sizeof(float));
        if (json_object_set_new(
                header, p->name,
                json_pack("{ss so s[II]}", "dtype", "F32", "shape", shape, "data_offsets", begin, end))) {
            json_decref(header);
            return NULL;
        }
    }
    return header;
}

enum halay_status tft_safetensors_write(struct halay_log *log, const char *path, const struct tft_param_table *table,
                                        const float *block, const json_t *metadata)
{
    return tft_safetensors_write_staged(log, "", path, table, block, metadata);
}

enum halay_status tft_safetensors_write_staged(struct halay_log *log, const char *stage, const char *path,
                                               const struct tft_param_table *table, const float *block,
                                               const json_t *metadata)
{
    struct halay_output out;
    json_t *header = make_header(table, metadata);
    char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
    enum halay_status status;

    json_decref(header);
    if (!text)
        return halay_no_memory(log, "to write '%s'", path);
    status = halay_output_open_staged(log, stage, path, &out);
    if (!status) {
        uint64_t length = strlen(text), padded = (length + 7) / 8 * 8;
        fwrite(&padded, sizeof padded, 1, out.file);
        fprintf(out.file, "%s%*s", text, (int)(padded - length), "");
        for (size_t i = 0; i < table->count; i++)
            fwrite(block + table->params[i].offset, sizeof *block, table->params[i].count, out.file);
        status = halay_output_commit(&out);
    }
    free(text);
    return status;
}

/* ---- read ---- */

static enum halay_status __attribute__((format(printf, 3, 4)))
cannot_read(struct halay_log *log, const char *path, const char *format, ...)
{
    char why[256];
    va_list list;

    va_start(list, format);
    halay_vsnprintf(why, sizeof why, format, list);
    va_end(list);
    return halay_fail(log, HALAY_ERR_FORMAT, "'%s' cannot be read: %s", path, why);
}

static enum halay_status read_json_header(struct halay_log *log, const char *path, FILE *file, uint64_t file_bytes,
                                          json_t **header, uint64_t *data)
{
    uint64_t length;
    json_error_t error;

    if (fread(&length, sizeof length, 1, file) != 1)
        return cannot_read(log, path, "it is truncated");
    if (length > HEADER_MAX || length > file_bytes - sizeof length)
        return cannot_read(log, path, "its header is longer than the file (truncated, or not safetensors)");
    char *text = malloc(length + 1);
    if (!text)
        return halay_no_memory(log, "to read '%s'", path);
    if (fread(text, 1, length, file) != length) {
        free(text);
        return cannot_read(log, path, "it is truncated");
    }
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!json_is_object(root)) {
        json_decref(root);
        return cannot_read(log, path, "its header is not JSON");
    }
    *header = root;
    *data = sizeof length + length;
    return HALAY_OK;
}

/* Checks that an entry of the header describes this parameter. *begin: its place in the data. */
static enum halay_status check_entry(struct halay_log *log, const char *path, const struct tft_param *p,
                                     const json_t *entry, uint64_t data_bytes, uint64_t *begin)
{
    const json_t *shape = json_object_get(entry, "shape");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    int same = json_array_size(shape) == (size_t)p->dimensions;
    json_int_t from, to;

    if (!entry)
        return cannot_read(log, path, "tensor '%s' is missing", p->name);
    if (!dtype || strcmp(dtype, "F32"))
        return cannot_read(log, path, "tensor '%s' is not of type F32", p->name);
    for (int k = 0; same && k < p->dimensions; k++)
        same = json_is_integer(json_array_get(shape, (size_t)k)) &&
               json_integer_value(json_array_get(shape, (size_t)k)) == (json_int_t)p->shape[k];
    if (!same)
        return cannot_read(log, path, "tensor '%s' has another shape than the model's", p->name);
    if (json_unpack((json_t *)entry, "{s[II!]}", "data_offsets", &from, &to) || from < 0 || to < from ||
        (uint64_t)to > data_bytes || (uint64_t)(to - from) != p->count * sizeof(float))
        return cannot_read(log, path, "the place of tensor '%s' makes no sense", p->name);
    *begin = (uint64_t)from;
    return HALAY_OK;
}

struct range {
    uint64_t begin, end;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static enum halay_status check_ranges(struct halay_log *log, const char *path, const struct tft_param_table *table,
                                      const json_t *header, uint64_t data_bytes, struct range *ranges)
{
    enum halay_status status;

    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        status = check_entry(log, path, p, json_object_get(header, p->name), data_bytes, &ranges[i].begin);
        if (status)
            return status;
        ranges[i].end = ranges[i].begin + p->count * sizeof(float);
    }
    if (json_object_size(header) != table->count + !!json_object_get(header, "__metadata__"))
        return cannot_read(log, path, "it holds tensors that the model does not have");
    qsort(ranges, table->count, sizeof *ranges, compare_ranges);
    uint64_t at = 0;
    for (size_t i = 0; i < table->count; at = ranges[i++].end)
        if (ranges[i].begin != at)
            return cannot_read(log, path, "its tensors overlap or leave gaps");
    return at == data_bytes ? HALAY_OK : cannot_read(log, path, "its length is wrong (truncated?)");
}

static enum halay_status read_tensors(struct halay_log *log, const char *path, FILE *file,
                                      const struct tft_param_table *table, const json_t *header, uint64_t data,
                                      float *block)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        const json_t *offsets = json_object_get(json_object_get(header, p->name), "data_offsets");
        uint64_t begin = (uint64_t)json_integer_value(json_array_get(offsets, 0));
        if (fseeko(file, (off_t)(data + begin), SEEK_SET) ||
            fread(block + p->offset, sizeof *block, p->count, file) != p->count)
            return cannot_read(log, path, "it cannot be read to its end");
    }
    return HALAY_OK;
}

/* Opens a file and reads its header: its length, and where the data begin. On error nothing is held. */
static enum halay_status open_file(struct halay_log *log, const char *path, FILE **file, json_t **header,
                                   uint64_t *bytes, uint64_t *data)
{
    struct stat st;
    enum halay_status status;

    *file = fopen(path, "rbe");
    if (!*file || fstat(fileno(*file), &st))
        status = halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    else if ((*bytes = (uint64_t)st.st_size) < 8)
        status = cannot_read(log, path, "it is truncated");
    else
        status = read_json_header(log, path, *file, *bytes, header, data);
    if (status && *file)
        fclose(*file);
    return status;
}

enum halay_status tft_safetensors_header(struct halay_log *log, const char *path, json_t **header)
{
    uint64_t bytes, data;
    FILE *file;
    enum halay_status status = open_file(log, path, &file, header, &bytes, &data);

    if (!status)
        fclose(file);
    return status;
}

enum halay_status tft_safetensors_read(struct halay_log *log, const char *path, const struct tft_param_table *table,
                                       float *block, json_t **metadata)
{
    json_t *header = NULL;
    uint64_t bytes, data;
    FILE *file;
    enum halay_status status = open_file(log, path, &file, &header, &bytes, &data);

    if (status)
        return status;
    struct range *ranges = calloc(table->count + 1, sizeof *ranges);
    if (!ranges) {
        status = halay_no_memory(log, "to read '%s'", path);
    } else if (!(status = check_ranges(log, path, table, header, bytes - data, ranges))) {
        status = read_tensors(log, path, file, table, header, data, block);
    }
    if (!status && metadata && !(*metadata = json_incref(json_object_get(header, "__metadata__"))))
        *metadata = json_object();
    json_decref(header);
    free(ranges);
    fclose(file);
    return status;
}

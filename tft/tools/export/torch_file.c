/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's header is compared with the map, tensor by tensor, and every difference is logged. A file without any is
 * then read by the strict reader, with a table of what it holds. Cleanup: NULL-initialised, one exit.
 */
#include "tft/tools/export/torch_file.h"
#include "tft/core/run/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum halay_status tft_torch_file_write(struct halay_log *log, const char *path, const struct tft_torch_map *map,
                                       const float *ours)
{
    float *theirs = malloc((map->theirs.reals + 1) * sizeof *theirs);
    json_t *metadata = json_pack("{ss}", "format", "pt");
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (theirs && metadata) {
        tft_torch_map_give(map, ours, theirs);
        status = tft_safetensors_write(log, path, &map->theirs, theirs, metadata);
    } else {
        halay_error(log, "no memory to write '%s'", path);
    }
    json_decref(metadata);
    free(theirs);
    return status;
}

/* ---- read ---- */

struct reader {
    struct halay_log *log;
    const char *path;
    const struct tft_torch_map *map;
    json_t *header;               /* owned */
    size_t known, differences;    /* tensors of the map that the file has; faults found */
    struct tft_param_table table; /* owned: of those that it has */
    size_t *offsets;              /* owned: (map's count) of theirs in that table; SIZE_MAX: not in the file */
    float *block;                 /* owned: in the table's order */
    float *theirs;                /* owned: in the map's order */
};

static void print_shape(const json_t *shape, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "[");

    for (size_t i = 0; i < json_array_size(shape) && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%lld", i ? ", " : "",
                                   (long long)json_integer_value(json_array_get(shape, i)));
    if (length < size)
        snprintf(text + length, size - length, "]");
}

static json_t *shape_of(const struct tft_param *param)
{
    json_t *shape = json_array();

    for (int k = 0; shape && k < param->dimensions; k++)
        json_array_append_new(shape, json_integer((json_int_t)param->shape[k]));
    return shape;
}

static void compare_entry(struct reader *r, const struct tft_param *param, const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    json_t *wanted = shape_of(param);
    char here[96], there[96];

    r->known++;
    print_shape(shape, here, sizeof here);
    print_shape(wanted, there, sizeof there);
    if (!json_equal(shape, wanted)) {
        halay_error(r->log, "'%s': tensor '%s' is %s, the model's is %s", r->path, param->name, here, there);
        r->differences++;
    }
    if (!dtype || strcmp(dtype, "F32")) {
        halay_error(r->log, "'%s': tensor '%s' is of type %.16s, F32 is taken", r->path, param->name,
                    dtype ? dtype : "none");
        r->differences++;
    }
    json_decref(wanted);
}

/* Does the file have this tensor, or one that repeats it? */
static int is_there(const struct reader *r, size_t tensor)
{
    const struct tft_torch_map *map = r->map;

    for (size_t t = 0; t < map->theirs.count; t++)
        if (map->tensors[t].same_as == map->tensors[tensor].same_as &&
            json_object_get(r->header, map->theirs.params[t].name))
            return 1;
    return 0;
}

static void compare_map(struct reader *r)
{
    const struct tft_torch_map *map = r->map;

    for (size_t t = 0; t < map->theirs.count; t++) {
        const struct tft_param *param = &map->theirs.params[t];
        const json_t *entry = json_object_get(r->header, param->name);

        if (entry) {
            compare_entry(r, param, entry);
        } else if (!is_there(r, t)) {
            json_t *shape = shape_of(param);
            char there[96];

            print_shape(shape, there, sizeof there);
            halay_error(r->log, "'%s': tensor '%s' %s is missing", r->path, param->name, there);
            json_decref(shape);
            r->differences++;
        }
    }
}

static int is_in_map(const struct tft_torch_map *map, const char *name)
{
    for (size_t t = 0; t < map->theirs.count; t++)
        if (!strcmp(map->theirs.params[t].name, name))
            return 1;
    return 0;
}

static enum halay_status compare_header(struct reader *r)
{
    const char *name;
    json_t *entry;
    size_t unknown = 0;

    json_object_foreach(r->header, name, entry)
        unknown += strcmp(name, "__metadata__") && !is_in_map(r->map, name);
    size_t listed = json_object_size(r->header) - !!json_object_get(r->header, "__metadata__");
    if (unknown == listed) { /* a line for each would say less */
        halay_error(r->log, "'%s' has none of the model's tensors ('%s', ...); it holds %zu others", r->path,
                    r->map->theirs.params[0].name, listed);
        return HALAY_ERR_FORMAT;
    }
    compare_map(r);
    json_object_foreach(r->header, name, entry) {
        char here[96];

        if (!strcmp(name, "__metadata__") || is_in_map(r->map, name))
            continue;
        print_shape(json_object_get(entry, "shape"), here, sizeof here);
        halay_error(r->log, "'%s': tensor '%.200s' %s is none of the model's", r->path, name, here);
        r->differences++;
    }
    return r->differences ? HALAY_ERR_FORMAT : HALAY_OK;
}

/* Reads what the file holds to where the map has it. */
static enum halay_status read_listed(struct reader *r)
{
    const struct tft_torch_map *map = r->map;
    enum halay_status status = HALAY_OK;

    for (size_t t = 0; t < map->theirs.count && !status; t++) {
        const struct tft_param *param = &map->theirs.params[t];

        r->offsets[t] = SIZE_MAX;
        if (!json_object_get(r->header, param->name))
            continue;
        status = tft_params_add(&r->table, param->name, param->count, 1, TFT_INIT_ZERO, &r->offsets[t]);
        if (status)
            break;
        struct tft_param *added = &r->table.params[r->table.count - 1];
        added->dimensions = param->dimensions;
        memcpy(added->shape, param->shape, sizeof added->shape);
    }
    if (status)
        halay_error(r->log, "no memory to read '%s'", r->path);
    else
        status = tft_safetensors_read(r->log, r->path, &r->table, r->block, NULL);
    for (size_t t = 0; t < map->theirs.count && !status; t++)
        if (r->offsets[t] != SIZE_MAX)
            memcpy(r->theirs + map->theirs.params[t].offset, r->block + r->offsets[t],
                   map->theirs.params[t].count * sizeof *r->theirs);
    return status;
}

/* Of tensors that repeat each other the first gets what the file has; all of them must be equal. */
static enum halay_status unite(struct reader *r)
{
    const struct tft_torch_map *map = r->map;

    for (size_t t = 0; t < map->theirs.count; t++) {
        const struct tft_param *copy = &map->theirs.params[t], *first = &map->theirs.params[map->tensors[t].same_as];
        size_t *held = &r->offsets[map->tensors[t].same_as], bytes = copy->count * sizeof *r->theirs;

        if (copy == first || r->offsets[t] == SIZE_MAX)
            continue;
        if (*held == SIZE_MAX) {
            memcpy(r->theirs + first->offset, r->theirs + copy->offset, bytes);
            *held = r->offsets[t];
        } else if (memcmp(r->theirs + first->offset, r->theirs + copy->offset, bytes)) {
            halay_error(r->log, "'%s': tensors '%s' and '%s' are one and the same, here they differ", r->path,
                        first->name, copy->name);
            return HALAY_ERR_FORMAT;
        }
    }
    return HALAY_OK;
}

static enum halay_status check_masks(struct reader *r)
{
    for (size_t t = 0; t < r->map->theirs.count; t++)
        if (r->map->tensors[t].source == TFT_TORCH_MASK && !tft_torch_map_is_mask(r->map, t, r->theirs)) {
            halay_error(r->log, "'%s': tensor '%s' is not the mask of a step that sees itself and what was before",
                        r->path, r->map->theirs.params[t].name);
            return HALAY_ERR_FORMAT;
        }
    return HALAY_OK;
}

enum halay_status tft_torch_file_read(struct halay_log *log, const char *path, const struct tft_torch_map *map,
                                      float *ours)
{
    struct reader r = { .log = log, .path = path, .map = map };
    enum halay_status status = tft_safetensors_header(log, path, &r.header);

    if (!status)
        status = compare_header(&r);
    if (status)
        goto done;
    r.offsets = malloc(map->theirs.count * sizeof *r.offsets);
    r.block = malloc(map->theirs.reals * sizeof *r.block);
    r.theirs = malloc(map->theirs.reals * sizeof *r.theirs);
    if (!r.offsets || !r.block || !r.theirs) {
        halay_error(log, "no memory to read '%s'", path);
        status = HALAY_ERR_NO_MEMORY;
        goto done;
    }
    status = read_listed(&r);
    if (!status)
        status = unite(&r);
    if (!status)
        status = check_masks(&r);
    if (!status)
        tft_torch_map_take(map, r.theirs, ours);
done:
    tft_params_fini(&r.table);
    free(r.offsets);
    free(r.block);
    free(r.theirs);
    json_decref(r.header);
    return status;
}

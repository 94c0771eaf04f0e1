/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: write prepared data, map them again.
 *
 * Everything that the file says is checked before it is believed: lengths against the file's (so that no access can lie
 * beyond its end), checksums of every section, counts against each other, the schema and the encoding by the same code
 * that reads them from their own files. Files are replaced by renaming, so that a mapped one does not shrink under its
 * reader.
 */
#include "tft/htd.h"
#include "base/memory.h"
#include "tft/paths.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { META, ARRAYS, SECTIONS = ARRAYS + TFT_ARRAY_COUNT }; /* section ARRAYS + k is the data's array k */
enum { FORMAT_VERSION = 2, ENDIAN = 0x01020304, ALIGNMENT = 64 };

static const char magic[8] = { 'H', 'A', 'L', 'A', 'Y', 'H', 'T', 'D' };

struct section {
    uint64_t offset, bytes;
    uint32_t crc, kind;
    uint64_t zero;
};

struct header {
    char magic[8];
    uint32_t version, endian;
    uint64_t file_bytes;
    uint32_t sections, table_crc;
    struct section table[SECTIONS];
};

static uint32_t checksum(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uLong crc = crc32(0, NULL, 0);

    while (bytes) { /* zlib counts in 32 bits */
        size_t n = bytes < (1u << 30) ? bytes : 1u << 30;
        crc = crc32(crc, p, (uInt)n);
        p += n;
        bytes -= n;
    }
    return (uint32_t)crc;
}

/* ---- write ---- */

/* The numbers of a summary and their names. */
#define SUMMARY_FIELD(name)                                                                                            \
    {                                                                                                                  \
#name, offsetof(struct tft_table_summary, name)                                                                \
    }
static const struct {
    const char *name;
    size_t at;
} summary_fields[] = {
    SUMMARY_FIELD(files),           SUMMARY_FIELD(rows_read),          SUMMARY_FIELD(rows_outside_span),
    SUMMARY_FIELD(rows_duplicated), SUMMARY_FIELD(rows_resampled),     SUMMARY_FIELD(rows_trimmed),
    SUMMARY_FIELD(rows_missing),    SUMMARY_FIELD(rows_dropped),       SUMMARY_FIELD(filled),
    SUMMARY_FIELD(entities_empty),  SUMMARY_FIELD(entities_untrained), SUMMARY_FIELD(entities_short),
    SUMMARY_FIELD(columns_ignored),
};
enum { SUMMARY_FIELDS = sizeof summary_fields / sizeof *summary_fields };

static json_t *make_summary(const struct tft_table_summary *s)
{
    json_t *object = json_object();

    for (size_t i = 0; i < SUMMARY_FIELDS; i++) {
        size_t value;
        memcpy(&value, (const char *)s + summary_fields[i].at, sizeof value);
        json_object_set_new(object, summary_fields[i].name, json_integer((json_int_t)value));
    }
    return object;
}

static json_t *make_meta(const struct tft_data *d)
{
    json_t *entities = json_array();

    for (size_t e = 0; entities && e < d->entity_count; e++) {
        const struct tft_entity *x = &d->entities[e];
        if (json_array_append_new(entities, json_pack("[sIIII]", x->id, (json_int_t)d->codes[e], (json_int_t)x->start,
                                                      (json_int_t)x->first, (json_int_t)x->rows))) {
            json_decref(entities);
            return NULL;
        }
    }
    return json_pack("{sO sO so so sI}", "schema", d->schema.document, "encoding", d->encoding.document, "entities",
                     entities, "summary", make_summary(&d->summary), "gaps", (json_int_t)d->gap_count);
}

/* Lay the sections out one after the other. */
static void plan_sections(const void *const data[SECTIONS], const size_t bytes[SECTIONS], struct header *h)
{
    size_t at = halay_round_up(sizeof *h, ALIGNMENT);

    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, sizeof magic);
    h->version = FORMAT_VERSION;
    h->endian = ENDIAN;
    h->sections = SECTIONS;
    for (uint32_t k = 0; k < SECTIONS; k++) {
        h->table[k] =
            (struct section){ .offset = at, .bytes = bytes[k], .crc = checksum(data[k], bytes[k]), .kind = k + 1 };
        at = halay_round_up(at + bytes[k], ALIGNMENT);
    }
    h->file_bytes = at;
    h->table_crc = checksum(h->table, sizeof h->table);
}

/* Errors of the stream are found by its commit. */
static void write_sections(FILE *file, const struct header *h, const void *const data[SECTIONS])
{
    static const char zeros[ALIGNMENT];
    size_t at = fwrite(h, 1, sizeof *h, file);

    for (int k = 0; k < SECTIONS; k++) {
        fwrite(zeros, 1, h->table[k].offset - at, file);
        if (h->table[k].bytes)
            fwrite(data[k], 1, h->table[k].bytes, file);
        at = h->table[k].offset + h->table[k].bytes;
    }
    fwrite(zeros, 1, h->file_bytes - at, file);
}

enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *d)
{
    struct tft_output out;
    struct header h;
    json_t *meta = make_meta(d);
    char *text = meta ? json_dumps(meta, JSON_COMPACT) : NULL;
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    json_decref(meta);
    if (!text) {
        halay_error(log, "no memory to write '%s'", path);
        return status;
    }
    const void *data[SECTIONS] = { text };
    size_t bytes[SECTIONS] = { strlen(text) };
    tft_data_get_arrays(d, data + ARRAYS);
    status = tft_data_array_bytes(d, bytes + ARRAYS);
    if (status)
        goto err_free;
    plan_sections(data, bytes, &h);
    status = tft_output_open(log, path, &out);
    if (!status) {
        write_sections(out.file, &h, data);
        status = tft_output_commit(&out);
    }
err_free:
    free(text);
    return status;
}

/* ---- open ---- */

static enum halay_status bad(struct halay_log *log, const char *path, const char *what)
{
    halay_error(log, "'%s' %s", path, what);
    return HALAY_ERR_FORMAT;
}

static enum halay_status check_header(struct halay_log *log, const char *path, const struct header *h,
                                      size_t file_bytes)
{
    if (memcmp(h->magic, magic, sizeof magic))
        return bad(log, path, "is not a file of prepared data (halay-tft prepare makes them)");
    if (h->endian != ENDIAN)
        return bad(log, path, "was prepared on a machine of another byte order; prepare it here again");
    if (h->version != FORMAT_VERSION) {
        halay_error(log, "'%s' has version %u of the format, this program reads %d; prepare it again", path, h->version,
                    FORMAT_VERSION);
        return HALAY_ERR_VERSION;
    }
    if (h->file_bytes > file_bytes) {
        halay_error(log, "'%s' is truncated: %zu bytes of %llu", path, file_bytes, (unsigned long long)h->file_bytes);
        return HALAY_ERR_FORMAT;
    }
    if (h->file_bytes != file_bytes || h->sections != SECTIONS || checksum(h->table, sizeof h->table) != h->table_crc)
        return bad(log, path, "is damaged: its section table does not add up");
    for (uint32_t k = 0; k < SECTIONS; k++) {
        const struct section *s = &h->table[k];
        if (s->kind != k + 1 || s->offset % ALIGNMENT || s->offset > file_bytes || s->bytes > file_bytes - s->offset)
            return bad(log, path, "is damaged: a section lies outside the file");
        if (checksum((const char *)h + s->offset, s->bytes) != s->crc)
            return bad(log, path, "is damaged: a checksum is wrong");
    }
    return HALAY_OK;
}

/* One entity: [id, code, start, first row, rows]. */
static enum halay_status take_entity(struct halay_log *log, const char *path, const json_t *list, struct tft_data *d)
{
    json_int_t code, start, first, rows;
    const char *id;
    size_t e = d->entity_count;

    if (json_unpack((json_t *)list, "[sIIII!]", &id, &code, &start, &first, &rows) || code < 0 ||
        (size_t)code > d->encoding.entity_count || (e && strcmp(d->names[e - 1], id) >= 0) ||
        first != (json_int_t)d->rows || rows < 1 || rows > (json_int_t)1 << 40 || start > (json_int_t)1 << 40 ||
        start < -((json_int_t)1 << 40))
        return bad(log, path, "is damaged: an entity makes no sense");
    d->names[e] = strdup(id);
    if (!d->names[e])
        return HALAY_ERR_NO_MEMORY;
    d->codes[e] = (size_t)code;
    d->entities[e] =
        (struct tft_entity){ .id = d->names[e], .start = start, .first = (size_t)first, .rows = (size_t)rows };
    d->entity_count++;
    d->rows += (size_t)rows;
    return d->rows > (size_t)1 << 44 ? bad(log, path, "is damaged: too many rows") : HALAY_OK;
}

/* Entities, contiguous, in order. */
static enum halay_status take_entities(struct halay_log *log, const char *path, const json_t *list, struct tft_data *d)
{
    size_t count = json_array_size(list);
    enum halay_status status = HALAY_OK;

    if (!count)
        return bad(log, path, "is damaged: no entities");
    d->entities = calloc(count, sizeof *d->entities);
    d->names = calloc(count, sizeof *d->names);
    d->codes = calloc(count, sizeof *d->codes);
    if (!d->entities || !d->names || !d->codes)
        status = HALAY_ERR_NO_MEMORY;
    for (size_t e = 0; e < count && !status; e++)
        status = take_entity(log, path, json_array_get(list, e), d);
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory to open '%s'", path);
    return status;
}

static void take_summary(const json_t *object, struct tft_table_summary *s)
{
    for (size_t i = 0; i < SUMMARY_FIELDS; i++) {
        size_t value = (size_t)json_integer_value(json_object_get(object, summary_fields[i].name));
        memcpy((char *)s + summary_fields[i].at, &value, sizeof value);
    }
}

static enum halay_status take_meta(struct halay_log *log, const char *path, json_t *meta, struct tft_data *d)
{
    char where[256];
    json_int_t gaps = json_integer_value(json_object_get(meta, "gaps"));
    enum halay_status status;

    snprintf(where, sizeof where, "schema in '%.200s'", path);
    status = tft_schema_init(log, where, json_object_get(meta, "schema"), &d->schema);
    if (!status)
        status = tft_encoding_init(log, path, &d->schema, json_object_get(meta, "encoding"), &d->encoding);
    if (!status)
        status = take_entities(log, path, json_object_get(meta, "entities"), d);
    if (status)
        return status;
    if (gaps < 0 || (size_t)gaps > d->rows)
        return bad(log, path, "is damaged: too many gaps");
    d->gap_count = (size_t)gaps;
    take_summary(json_object_get(meta, "summary"), &d->summary);
    tft_data_order_inputs(d);
    return HALAY_OK;
}

/* Gaps lie inside the block, one behind the other. */
static int gaps_are_sound(const struct tft_data *d)
{
    uint64_t end = 0;

    for (size_t i = 0; i < d->gap_count; i++) {
        const struct tft_gap *g = &d->gaps[i];
        if (g->first < end || g->first >= d->rows || !g->rows || g->rows > d->rows - g->first)
            return 0;
        end = g->first + g->rows;
    }
    return 1;
}

static enum halay_status take_arrays(struct halay_log *log, const char *path, const struct header *h,
                                     struct tft_data *d)
{
    size_t bytes[TFT_ARRAY_COUNT];
    const void *arrays[TFT_ARRAY_COUNT];
    enum halay_status status = tft_data_array_bytes(d, bytes);

    for (int k = 0; k < TFT_ARRAY_COUNT; k++) {
        if (status || h->table[ARRAYS + k].bytes != bytes[k])
            return bad(log, path, "is damaged: its sections do not fit its description");
        arrays[k] = (const char *)h + h->table[ARRAYS + k].offset;
    }
    tft_data_set_arrays(arrays, d);
    return gaps_are_sound(d) ? HALAY_OK : bad(log, path, "is damaged: its gaps make no sense");
}

static enum halay_status take_file(struct halay_log *log, const char *path, struct tft_data *d)
{
    const struct header *h = d->map;
    enum halay_status status = check_header(log, path, h, d->map_bytes);
    json_error_t error;

    if (status)
        return status;
    json_t *meta =
        json_loadb((const char *)h + h->table[META].offset, h->table[META].bytes, JSON_REJECT_DUPLICATES, &error);
    if (!meta)
        return bad(log, path, "is damaged: its description is not JSON");
    status = json_is_object(meta) && json_is_object(json_object_get(meta, "schema"))
                 ? take_meta(log, path, meta, d)
                 : bad(log, path, "is damaged: its description has no schema");
    json_decref(meta);
    if (status)
        return status;
    return take_arrays(log, path, h, d);
}

static enum halay_status map_file(struct halay_log *log, const char *path, struct tft_data *d)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum halay_status status = HALAY_ERR_SYSTEM;

    if (fd < 0 || fstat(fd, &st)) {
        halay_error(log, "cannot open '%s': %s", path, strerror(errno));
        goto err_close;
    }
    if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(struct header)) {
        status = bad(log, path, "is not a file of prepared data, or is truncated");
        goto err_close;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        halay_error(log, "cannot map '%s': %s", path, strerror(errno));
        goto err_close;
    }
    d->map = map;
    d->map_bytes = (size_t)st.st_size;
    status = HALAY_OK;
err_close:
    if (fd >= 0)
        close(fd);
    return status;
}

enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data)
{
    struct tft_data d = { 0 };
    enum halay_status status = map_file(log, path, &d);

    if (!status)
        status = take_file(log, path, &d);
    if (status)
        tft_data_fini(&d);
    else
        *data = d;
    return status;
}

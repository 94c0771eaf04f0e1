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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { META, TARGET, VALUES, STATICS, PRESENT, SECTIONS };
enum { FORMAT_VERSION = 1, ENDIAN = 0x01020304, ALIGNMENT = 64 };

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

static json_t *make_meta(const struct tft_data *d)
{
    const struct tft_table_summary *s = &d->summary;
    json_t *entities = json_array();

    for (size_t e = 0; entities && e < d->entity_count; e++) {
        const struct tft_entity *x = &d->entities[e];
        if (json_array_append_new(entities, json_pack("[IIII]", (json_int_t)d->codes[e], (json_int_t)x->start,
                                                      (json_int_t)x->first, (json_int_t)x->rows))) {
            json_decref(entities);
            return NULL;
        }
    }
    return json_pack("{sO sO so s{sI sI sI sI sI sI}}", "schema", d->schema.document, "encoding", d->encoding.document,
                     "entities", entities, "summary", "files", (json_int_t)s->files, "rows_read",
                     (json_int_t)s->rows_read, "rows_outside_span", (json_int_t)s->rows_outside_span, "rows_duplicated",
                     (json_int_t)s->rows_duplicated, "rows_missing", (json_int_t)s->rows_missing, "filled",
                     (json_int_t)s->filled);
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
    const void *data[SECTIONS] = { text, d->target, d->values, d->static_values, d->present };
    size_t bytes[SECTIONS] = { strlen(text), d->rows * sizeof(double), d->rows * d->real_count * sizeof(float),
                               d->entity_count * d->static_count * sizeof(float), d->rows };
    plan_sections(data, bytes, &h);
    status = tft_output_open(log, path, &out);
    if (!status) {
        write_sections(out.file, &h, data);
        status = tft_output_commit(&out);
    }
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

/* Entities: [code, start, first row, rows], contiguous, in order. */
static enum halay_status take_entities(struct halay_log *log, const char *path, const json_t *list, struct tft_data *d)
{
    d->entity_count = json_array_size(list);
    if (!d->entity_count)
        return bad(log, path, "is damaged: no entities");
    d->entities = calloc(d->entity_count, sizeof *d->entities);
    d->codes = calloc(d->entity_count, sizeof *d->codes);
    if (!d->entities || !d->codes) {
        halay_error(log, "no memory to open '%s'", path);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t e = 0; e < d->entity_count; e++) {
        json_int_t v[4];
        if (json_unpack(json_array_get(list, e), "[IIII!]", &v[0], &v[1], &v[2], &v[3]) || v[0] < 0 ||
            (size_t)v[0] >= d->encoding.entity_count || (e && (size_t)v[0] <= d->codes[e - 1]) ||
            v[2] != (json_int_t)d->rows || v[3] < 1 || v[3] > (json_int_t)1 << 40 || v[1] > (json_int_t)1 << 40 ||
            v[1] < -((json_int_t)1 << 40))
            return bad(log, path, "is damaged: an entity makes no sense");
        d->codes[e] = (size_t)v[0];
        d->entities[e] = (struct tft_entity){
            .id = d->encoding.ids[v[0]], .start = v[1], .first = (size_t)v[2], .rows = (size_t)v[3]
        };
        d->rows += (size_t)v[3];
        if (d->rows > (size_t)1 << 44)
            return bad(log, path, "is damaged: too many rows");
    }
    return HALAY_OK;
}

static enum halay_status take_meta(struct halay_log *log, const char *path, json_t *meta, struct tft_data *d)
{
    char where[256];
    struct tft_table_summary *s = &d->summary;
    json_int_t n[6] = { 0 };
    enum halay_status status;

    snprintf(where, sizeof where, "schema in '%.200s'", path);
    status = tft_schema_init(log, where, json_object_get(meta, "schema"), &d->schema);
    if (!status)
        status = tft_encoding_init(log, path, &d->schema, json_object_get(meta, "encoding"), &d->encoding);
    if (!status)
        status = take_entities(log, path, json_object_get(meta, "entities"), d);
    if (status)
        return status;
    json_unpack(json_object_get(meta, "summary"), "{sI sI sI sI sI sI}", "files", &n[0], "rows_read", &n[1],
                "rows_outside_span", &n[2], "rows_duplicated", &n[3], "rows_missing", &n[4], "filled", &n[5]);
    *s = (struct tft_table_summary){
        (size_t)n[0], (size_t)n[1], (size_t)n[2], (size_t)n[3], (size_t)n[4], (size_t)n[5]
    };
    tft_data_order_inputs(d);
    return HALAY_OK;
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
    if (h->table[TARGET].bytes != d->rows * sizeof(double) ||
        h->table[VALUES].bytes != d->rows * d->real_count * sizeof(float) ||
        h->table[STATICS].bytes != d->entity_count * d->static_count * sizeof(float) ||
        h->table[PRESENT].bytes != d->rows)
        return bad(log, path, "is damaged: its sections do not fit its description");
    d->target = (const double *)((const char *)h + h->table[TARGET].offset);
    d->values = (const float *)((const char *)h + h->table[VALUES].offset);
    d->static_values = (const float *)((const char *)h + h->table[STATICS].offset);
    d->present = (const uint8_t *)h + h->table[PRESENT].offset;
    return HALAY_OK;
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: write prepared data, map them again.
 *
 * Everything that the file says is checked before it is believed: lengths against the file's (so that no access can lie
 * beyond its end), checksums of every part before it is read, counts against each other, the schema and the encoding by
 * the same code that reads them from their own files. Files are replaced by renaming, so that a mapped one does not
 * shrink under its reader.
 */
#include "tft/data/htd.h"
#include "base/memory.h"
#include "tft/data/paths.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { META, ARRAYS, SUMS = ARRAYS + TFT_ARRAY_COUNT, SECTIONS }; /* section ARRAYS + k is the data's array k */
enum { FORMAT_VERSION = 4, ENDIAN = 0x01020304, ALIGNMENT = 64, PART = 65536 };

static const char magic[8] = { 'H', 'A', 'L', 'A', 'Y', 'H', 'T', 'D' };
static const char *const section_names[] = { "description", "targets",    "gaps",          "bridges",
                                             "values",      "categories", "static values", "static codes",
                                             "weights",     "present",    "checksums" };
_Static_assert(sizeof section_names / sizeof *section_names == SECTIONS, "each section has a name");

struct section {
    uint64_t offset, bytes;
    uint32_t kind, zero;
};

struct header {
    char magic[8];
    uint32_t version, endian;
    uint64_t file_bytes;
    uint32_t sections, table_crc;
    struct section table[SECTIONS];
};

enum part_state { PART_UNREAD, PART_SOUND, PART_DAMAGED };

/* An open file. */
struct tft_htd {
    struct halay_log *log;    /* borrowed */
    char *path;               /* owned */
    const struct header *map; /* owned: the whole file */
    size_t bytes;
    const uint32_t *sums;       /* in the map: of each part */
    size_t first_sum[SECTIONS]; /* of each section's parts */
    /* Owned: (parts) enum part_state. Any thread sets one, and two may find out the same; it publishes nothing, as what
     * it is about does not change. */
    _Atomic uint8_t *states;
};

static size_t parts_of(size_t bytes)
{
    return (bytes + PART - 1) / PART;
}

static uint32_t checksum_of_part(const void *section, size_t bytes, size_t part)
{
    size_t left = bytes - part * PART;

    return (uint32_t)crc32(0, (const unsigned char *)section + part * PART, (uInt)(left < PART ? left : PART));
}

/* Of the section table and the checksums behind it. */
static uint32_t checksum_of_table(const struct header *h, const uint32_t *sums)
{
    uLong crc = crc32(0, (const unsigned char *)h->table, sizeof h->table);

    return (uint32_t)crc32_z(crc, (const unsigned char *)sums, h->table[SUMS].bytes);
}

/* ---- write ---- */

/* The numbers of a summary and their names. */
#define SUMMARY_FIELD(name)                             \
    {                                                   \
#name, offsetof(struct tft_table_summary, name) \
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
    return json_pack("{sO sO so so sI sI}", "schema", d->schema.document, "encoding", d->encoding.document, "entities",
                     entities, "summary", make_summary(&d->summary), "gaps", (json_int_t)d->gap_count, "bridges",
                     (json_int_t)d->bridge_count);
}

/* The checksums of all parts; NULL without memory. Freed by the caller. */
static uint32_t *make_sums(const void *const data[SECTIONS], size_t bytes[SECTIONS])
{
    size_t n = 0;

    for (int k = 0; k < SUMS; k++)
        n += parts_of(bytes[k]);
    uint32_t *sums = malloc((n + 1) * sizeof *sums);
    bytes[SUMS] = n * sizeof *sums;
    n = 0;
    for (int k = 0; sums && k < SUMS; k++)
        for (size_t part = 0; part < parts_of(bytes[k]); part++)
            sums[n++] = checksum_of_part(data[k], bytes[k], part);
    return sums;
}

/* Lay the sections out one after the other. */
static void plan_sections(const uint32_t *sums, const size_t bytes[SECTIONS], struct header *h)
{
    size_t at = halay_round_up(sizeof *h, ALIGNMENT);

    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, sizeof magic);
    h->version = FORMAT_VERSION;
    h->endian = ENDIAN;
    h->sections = SECTIONS;
    for (uint32_t k = 0; k < SECTIONS; k++) {
        h->table[k] = (struct section){ .offset = at, .bytes = bytes[k], .kind = k + 1 };
        at = halay_round_up(at + bytes[k], ALIGNMENT);
    }
    h->file_bytes = at;
    h->table_crc = checksum_of_table(h, sums);
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
    const void *data[SECTIONS] = { text };
    size_t bytes[SECTIONS] = { text ? strlen(text) : 0 };
    uint32_t *sums = NULL;
    enum halay_status status = text ? tft_data_array_bytes(d, bytes + ARRAYS) : HALAY_ERR_NO_MEMORY;

    json_decref(meta);
    tft_data_get_arrays(d, data + ARRAYS);
    if (!status)
        data[SUMS] = sums = make_sums(data, bytes);
    if (!sums) {
        halay_error(log, "no memory to write '%s'", path);
        status = HALAY_ERR_NO_MEMORY;
        goto err_free;
    }
    plan_sections(sums, bytes, &h);
    status = tft_output_open(log, path, &out);
    if (!status) {
        write_sections(out.file, &h, data);
        status = tft_output_commit(&out);
    }
err_free:
    free(sums);
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
    if (h->file_bytes != file_bytes || h->sections != SECTIONS)
        return bad(log, path, "is damaged: its section table does not add up");
    for (uint32_t k = 0; k < SECTIONS; k++) {
        const struct section *s = &h->table[k];
        if (s->kind != k + 1 || s->offset % ALIGNMENT || s->offset > file_bytes || s->bytes > file_bytes - s->offset)
            return bad(log, path, "is damaged: a section lies outside the file");
    }
    return HALAY_OK;
}

static const void *section_of(const struct tft_htd *f, int section)
{
    return (const char *)f->map + f->map->table[section].offset;
}

/* Find the checksums, which from here on are right. */
static enum halay_status take_sums(struct tft_htd *f)
{
    const struct section *table = f->map->table;
    size_t n = 0;

    for (int k = 0; k < SUMS; k++) {
        f->first_sum[k] = n;
        n += parts_of(table[k].bytes);
    }
    f->sums = section_of(f, SUMS);
    if (table[SUMS].bytes != n * sizeof *f->sums || checksum_of_table(f->map, f->sums) != f->map->table_crc)
        return bad(f->log, f->path, "is damaged: its section table does not add up");
    f->states = calloc(n + 1, sizeof *f->states);
    if (!f->states) {
        halay_error(f->log, "no memory to open '%s'", f->path);
        return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

static enum halay_status check_part(struct tft_htd *f, int section, size_t part)
{
    const struct section *s = &f->map->table[section];
    _Atomic uint8_t *state = &f->states[f->first_sum[section] + part];

    if (atomic_load_explicit(state, memory_order_relaxed) == PART_SOUND)
        return HALAY_OK;
    if (checksum_of_part(section_of(f, section), s->bytes, part) == f->sums[f->first_sum[section] + part]) {
        atomic_store_explicit(state, PART_SOUND, memory_order_relaxed);
        return HALAY_OK;
    }
    if (atomic_exchange_explicit(state, PART_DAMAGED, memory_order_relaxed) != PART_DAMAGED)
        halay_error(
            f->log,
            "'%s' is damaged: a checksum is wrong, that of part %zu of %zu of its %s (from byte %zu of the file on); "
            "prepare it again",
            f->path, part + 1, parts_of(s->bytes), section_names[section], (size_t)s->offset + part * PART);
    return HALAY_ERR_FORMAT;
}

static enum halay_status check_section(struct tft_htd *f, int section, size_t first, size_t bytes)
{
    enum halay_status status = HALAY_OK;

    for (size_t part = first / PART; part < parts_of(first + bytes) && bytes && !status; part++)
        status = check_part(f, section, part);
    return status;
}

enum halay_status tft_htd_check(struct tft_htd *f, enum tft_array array, size_t first, size_t bytes)
{
    return check_section(f, ARRAYS + (int)array, first, bytes);
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
    json_int_t gaps = json_integer_value(json_object_get(meta, "gaps")),
               bridges = json_integer_value(json_object_get(meta, "bridges"));
    enum halay_status status;

    snprintf(where, sizeof where, "schema in '%.200s'", path);
    status = tft_schema_init(log, where, json_object_get(meta, "schema"), &d->schema);
    if (!status)
        status = tft_encoding_init(log, path, &d->schema, json_object_get(meta, "encoding"), &d->encoding);
    if (!status)
        status = take_entities(log, path, json_object_get(meta, "entities"), d);
    if (status)
        return status;
    if (gaps < 0 || (size_t)gaps > d->rows || bridges < 0)
        return bad(log, path, "is damaged: too many gaps");
    d->gap_count = (size_t)gaps;
    d->bridge_count = (size_t)bridges;
    take_summary(json_object_get(meta, "summary"), &d->summary);
    tft_data_order_inputs(d);
    return HALAY_OK;
}

/* Bridges are of the data's entities, in order of them, and end where numbers do not. */
static int bridges_are_sound(const struct tft_data *d)
{
    const int64_t most = (int64_t)1 << 44;

    for (size_t i = 0; i < d->bridge_count; i++) {
        const struct tft_bridge *b = &d->bridges[i];
        if (b->entity >= d->entity_count || (i && b->entity < d->bridges[i - 1].entity) || b->first < -most ||
            b->first > most || b->rows > (uint64_t)most)
            return 0;
    }
    return 1;
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

static enum halay_status take_arrays(struct tft_htd *f, struct tft_data *d)
{
    size_t bytes[TFT_ARRAY_COUNT];
    const void *arrays[TFT_ARRAY_COUNT];
    enum halay_status status = tft_data_array_bytes(d, bytes);

    for (int k = 0; k < TFT_ARRAY_COUNT; k++) {
        if (status || f->map->table[ARRAYS + k].bytes != bytes[k])
            return bad(f->log, f->path, "is damaged: its sections do not fit its description");
        arrays[k] = section_of(f, ARRAYS + k);
    }
    for (int k = 0; k < TFT_ARRAY_COUNT && !status; k++)
        if (!tft_data_row_bytes(d, (enum tft_array)k))
            status = check_section(f, ARRAYS + k, 0, bytes[k]);
    if (status)
        return status;
    tft_data_set_arrays(arrays, d);
    return gaps_are_sound(d) && bridges_are_sound(d) ? HALAY_OK
                                                     : bad(f->log, f->path, "is damaged: its gaps make no sense");
}

static enum halay_status take_file(struct tft_htd *f, struct tft_data *d)
{
    enum halay_status status = check_header(f->log, f->path, f->map, f->bytes);
    json_error_t error;

    if (!status)
        status = take_sums(f);
    if (!status)
        status = check_section(f, META, 0, f->map->table[META].bytes);
    if (status)
        return status;
    json_t *meta = json_loadb(section_of(f, META), f->map->table[META].bytes, JSON_REJECT_DUPLICATES, &error);
    if (!meta)
        return bad(f->log, f->path, "is damaged: its description is not JSON");
    status = json_is_object(meta) && json_is_object(json_object_get(meta, "schema"))
                 ? take_meta(f->log, f->path, meta, d)
                 : bad(f->log, f->path, "is damaged: its description has no schema");
    json_decref(meta);
    return status ? status : take_arrays(f, d);
}

static enum halay_status map_file(struct tft_htd *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    enum halay_status status = HALAY_ERR_SYSTEM;

    if (fd < 0 || fstat(fd, &st)) {
        halay_error(f->log, "cannot open '%s': %s", f->path, strerror(errno));
        goto err_close;
    }
    if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof *f->map) {
        status = bad(f->log, f->path, "is not a file of prepared data, or is truncated");
        goto err_close;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        halay_error(f->log, "cannot map '%s': %s", f->path, strerror(errno));
        goto err_close;
    }
    f->map = map;
    f->bytes = (size_t)st.st_size;
    status = HALAY_OK;
err_close:
    if (fd >= 0)
        close(fd);
    return status;
}

enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data)
{
    struct tft_data d = { .file = calloc(1, sizeof *d.file) };
    char *copy = strdup(path);

    if (!d.file || !copy) {
        halay_error(log, "no memory to open '%s'", path);
        free(copy);
        free(d.file);
        return HALAY_ERR_NO_MEMORY;
    }
    d.file->log = log;
    d.file->path = copy;
    enum halay_status status = map_file(d.file);
    if (!status)
        status = take_file(d.file, &d);
    if (status) {
        tft_data_fini(&d);
        return status;
    }
    *data = d;
    return HALAY_OK;
}

void tft_htd_close(struct tft_htd *f)
{
    if (!f)
        return;
    if (f->map)
        munmap((void *)f->map, f->bytes);
    free(f->states);
    free(f->path);
    free(f);
}

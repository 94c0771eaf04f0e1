/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: write prepared data, map them again.
 *
 * A file's description of the data is checked before it is used: counts against each other and against the sections'
 * lengths, the schema and the encoding by the code that reads them from their own files. htd_sections.c checks the
 * sections themselves.
 *
 *   offset  bytes
 *        0      8  magic "HALAYHTD"
 *        8      4  version, 4
 *       12      4  endianness: 0x01020304 in the writer's byte order
 *       16      8  bytes of the whole file
 *       24      4  number of sections, 11
 *       28      4  CRC-32 of the section table and, following it, of section 11
 *       32     24  for each section: offset (8), bytes (8), kind (4), zero (4)
 *
 * Sections, each beginning on a multiple of 64: 1 meta (JSON: schema, encoding, summary, entities); then the arrays of
 * struct tft_data: 2 targets (double, rows x targets), 3 gaps (two 64-bit numbers each), 4 bridges (column and entity,
 * 32-bit each; first row, signed, and rows, 64-bit each; a double), 5 values (float, rows x reals), 6 categories
 * (32-bit, rows x categories), 7 static values (float, entities x reals), 8 static codes (32-bit, entities x
 * categories), 9 weights (float, rows, or nothing), 10 present (byte, rows x targets); 11 the CRC-32 (32-bit) of each
 * part of sections 1 to 10, one section after the other. A part is 65536 bytes of a section, the last one the rest. All
 * numbers are in the writer's byte order.
 *
 * Another byte order, another version, a wrong length, and a wrong checksum of anything without rows are errors when
 * the file is opened. Parts of arrays with rows are checked when they are first read (tft_data_check), so that opening
 * a large file does not read all of it.
 */
#include "base/memory.h"
#include "tft/core/data/data.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- write ---- */

#define COUNT(name) TFT_MEMBER(#name, COUNT, offsetof(struct tft_table_summary, name))

static const struct tft_member summary_members[] = {
    COUNT(files),           COUNT(rows_read),      COUNT(rows_outside_span),  COUNT(rows_duplicated),
    COUNT(rows_resampled),  COUNT(rows_trimmed),   COUNT(rows_missing),       COUNT(rows_dropped),
    COUNT(filled),          COUNT(entities_empty), COUNT(entities_untrained), COUNT(entities_short),
    COUNT(columns_ignored), COUNT(rows_repeated),  COUNT(rows_skipped),       TFT_MEMBERS_END,
};

/* Returns the scalers of entities that training has not seen: [shift, scale, ...] of the inputs of each; NULL without
 * such entities. */
static json_t *make_own(const struct tft_data *d)
{
    const size_t inputs = d->schema.input_count;
    json_t *all = d->own ? json_array() : NULL;

    for (size_t e = 0; all && e < d->entity_count; e++)
        for (size_t i = 0; d->codes[e] == d->encoding.entity_count && i < inputs; i++) {
            json_array_append_new(all, json_real(d->own[e * inputs + i].shift));
            json_array_append_new(all, json_real(d->own[e * inputs + i].scale));
        }
    return all;
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
    return json_pack("{sO sO so so sI sI so*}", "schema", d->schema.document, "encoding", d->encoding.document,
                     "entities", entities, "summary", tft_members_write(summary_members, &d->summary), "gaps",
                     (json_int_t)d->gap_count, "bridges", (json_int_t)d->bridge_count, "own", make_own(d));
}

/* Lists what the data's file has in its sections. *meta is the first one, which the caller frees.
 * HALAY_ERR_NO_MEMORY. */
static enum halay_status list_sections(const struct tft_data *d, const void *data[HTD_SUMS], size_t bytes[HTD_SUMS],
                                       char **meta)
{
    json_t *document = make_meta(d);

    *meta = document ? json_dumps(document, JSON_COMPACT) : NULL;
    json_decref(document);
    if (!*meta || tft_data_array_bytes(d, bytes + HTD_ARRAYS))
        return HALAY_ERR_NO_MEMORY;
    data[HTD_META] = *meta;
    bytes[HTD_META] = strlen(*meta);
    tft_data_get_arrays(d, data + HTD_ARRAYS);
    return HALAY_OK;
}

enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *d)
{
    const void *data[HTD_SUMS];
    size_t bytes[HTD_SUMS];
    char *meta;
    enum halay_status status = list_sections(d, data, bytes, &meta);

    if (status)
        halay_error(log, "no memory to write '%s'", path);
    else
        status = tft_htd_write_sections(log, path, data, bytes, d->spill);
    free(meta);
    return status;
}

enum halay_status tft_htd_digest(struct halay_log *log, const struct tft_data *d, uint64_t *digest)
{
    const void *data[HTD_SUMS];
    size_t bytes[HTD_SUMS];
    char *meta;

    if (d->file) {
        *digest = tft_htd_digest_map(d->file);
        return HALAY_OK;
    }
    enum halay_status status = list_sections(d, data, bytes, &meta);
    if (status)
        halay_error(log, "no memory to compare the data with those of other ranks");
    else
        status = tft_htd_digest_sections(log, data, bytes, d->spill, digest);
    free(meta);
    return status;
}

/* ---- open ---- */

/* Reads one entity: [id, code, start, first row, rows]. */
static enum halay_status take_entity(const json_t *list, struct tft_data *d)
{
    json_int_t code, start, first, rows;
    const char *id;
    size_t e = d->entity_count;

    if (json_unpack((json_t *)list, "[sIIII!]", &id, &code, &start, &first, &rows) || code < 0 ||
        (size_t)code > d->encoding.entity_count || (e && strcmp(d->entities[e - 1].id, id) >= 0) ||
        first != (json_int_t)d->rows || rows < 1 || rows > (json_int_t)1 << 40 || start > (json_int_t)1 << 40 ||
        start < -((json_int_t)1 << 40))
        return tft_htd_bad(d->file, "is damaged: an entity is malformed");
    enum halay_status status = tft_data_add_entity(d, id, (size_t)code, start, (size_t)rows);
    if (status)
        return status;
    return d->rows > (size_t)1 << 44 ? tft_htd_bad(d->file, "is damaged: too many rows") : HALAY_OK;
}

/* Reads the entities: contiguous, in order. */
static enum halay_status read_entities(struct halay_log *log, const char *path, const json_t *list, int has_own,
                                       struct tft_data *d)
{
    size_t count = json_array_size(list);

    if (!count)
        return tft_htd_bad(d->file, "is damaged: no entities");
    enum halay_status status = tft_data_allocate(d, count, has_own);
    for (size_t e = 0; e < count && !status; e++)
        status = take_entity(json_array_get(list, e), d);
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory to open '%s'", path);
    return status;
}

/* Reads the scalers of unseen entities. Older files do not have them: there unseen entities are scaled as all are. */
static enum halay_status take_own(const json_t *list, struct tft_data *d)
{
    const size_t inputs = d->schema.input_count;
    size_t at = 0;

    for (size_t e = 0; list && e < d->entity_count; e++)
        for (size_t i = 0; d->codes[e] == d->encoding.entity_count && i < inputs; i++, at += 2) {
            const double shift = json_number_value(json_array_get(list, at)),
                         scale = json_number_value(json_array_get(list, at + 1));
            if (!(scale > 0))
                return tft_htd_bad(d->file, "is damaged: an entity has no scaler");
            d->own[e * inputs + i] = (struct tft_scaler){ shift, scale, d->schema.inputs[i].scale == TFT_SCALE_LOG1P };
        }
    return HALAY_OK;
}

static enum halay_status take_meta(struct halay_log *log, const char *path, json_t *meta, struct tft_data *d)
{
    char where[256];
    const json_t *own = json_object_get(meta, "own");
    json_int_t gaps = json_integer_value(json_object_get(meta, "gaps")),
               bridges = json_integer_value(json_object_get(meta, "bridges"));
    enum halay_status status;

    snprintf(where, sizeof where, "schema in '%.200s'", path);
    status = tft_schema_init(log, where, json_object_get(meta, "schema"), &d->schema);
    if (status ||
        (status = tft_encoding_init(log, path, &d->schema, json_object_get(meta, "encoding"), &d->encoding)) ||
        (status = read_entities(log, path, json_object_get(meta, "entities"), own != NULL, d)) ||
        (status = take_own(own, d)))
        return status;
    if (gaps < 0 || (size_t)gaps > d->rows || bridges < 0)
        return tft_htd_bad(d->file, "is damaged: too many gaps");
    d->gap_count = (size_t)gaps;
    d->bridge_count = (size_t)bridges;
    tft_members_take(json_object_get(meta, "summary"), summary_members, &d->summary);
    tft_data_order_inputs(d);
    return HALAY_OK;
}

/* Returns nonzero if bridges belong to the data's entities, in their order, and their rows do not overflow. */
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

/* Returns nonzero if gaps are inside the block, one after the other. */
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

static enum halay_status take_arrays(struct tft_data *d)
{
    size_t bytes[TFT_ARRAY_COUNT], there;
    const void *arrays[TFT_ARRAY_COUNT];
    enum halay_status status = tft_data_array_bytes(d, bytes);

    for (int k = 0; k < TFT_ARRAY_COUNT; k++) {
        arrays[k] = tft_htd_section(d->file, HTD_ARRAYS + k, &there);
        if (status || there != bytes[k])
            return tft_htd_bad(d->file, "is damaged: its sections do not fit its description");
    }
    for (int k = 0; k < TFT_ARRAY_COUNT && !status; k++)
        if (!tft_data_row_bytes(d, (enum tft_array)k))
            status = tft_htd_check(d->file, HTD_ARRAYS + k, 0, bytes[k]);
    if (status)
        return status;
    tft_data_set_arrays(arrays, d);
    return gaps_are_sound(d) && bridges_are_sound(d) ? HALAY_OK
                                                     : tft_htd_bad(d->file, "is damaged: its gaps are malformed");
}

static enum halay_status read_description(struct halay_log *log, const char *path, struct tft_data *d)
{
    size_t bytes;
    const void *text = tft_htd_section(d->file, HTD_META, &bytes);
    enum halay_status status = tft_htd_check(d->file, HTD_META, 0, bytes);
    json_error_t error;

    if (status)
        return status;
    json_t *meta = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!meta)
        return tft_htd_bad(d->file, "is damaged: its description is not JSON");
    status = json_is_object(meta) && json_is_object(json_object_get(meta, "schema"))
                 ? take_meta(log, path, meta, d)
                 : tft_htd_bad(d->file, "is damaged: its description has no schema");
    json_decref(meta);
    return status ? status : take_arrays(d);
}

enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data)
{
    struct tft_data d = { 0 };
    enum halay_status status = tft_htd_map(log, path, &d.file);

    if (!status)
        status = read_description(log, path, &d);
    if (status)
        tft_data_fini(&d);
    else
        *data = d;
    return status;
}

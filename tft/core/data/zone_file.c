/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone files: tzdata's binary form (TZif, RFC 8536), read into a document.
 *
 *   header (44 bytes)     "TZif", version, 15 unused, then how many there are of: UTC marks, standard marks, leap
 *                         seconds, changes, kinds, bytes of names (32-bit each, the most significant byte first)
 *   body                  moments of changes, the kind after each (1 byte), kinds (offset, 32-bit; is summer time;
 *                         name), names, leap seconds, marks
 *
 * In version 1 moments have 32 bits. From version 2 on, a second header and body follow, with 64 bits, and a line with
 * the rule that holds after them.
 */
#include "base/parse.h"
#include "tft/core/data/zone.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HEADER = 44, FILE_MOST = 1 << 16, NAMES_MOST = 4096 };

/* ---- the file ---- */

struct body {
    const unsigned char *times, *kinds_of_times, *kinds;
    size_t width; /* bytes of a time */
    uint32_t time_count, kind_count, leap_count;
    const unsigned char *end;
};

static int64_t number_at(const unsigned char *bytes, size_t width)
{
    uint64_t sum = width == 4 && bytes[0] & 0x80 ? UINT64_MAX : 0;

    for (size_t i = 0; i < width; i++)
        sum = sum << 8 | bytes[i];
    return (int64_t)sum;
}

/* Reads a header and a body; 0: they do not fit into the file. */
static int take_body(const unsigned char *bytes, const unsigned char *end, size_t width, struct body *b)
{
    uint32_t counts[6];

    if (end - bytes < HEADER || memcmp(bytes, "TZif", 4))
        return 0;
    for (size_t i = 0; i < 6; i++) {
        counts[i] = (uint32_t)number_at(bytes + 20 + 4 * i, 4);
        if (counts[i] > FILE_MOST)
            return 0;
    }
    size_t size =
        counts[3] * (width + 1) + counts[4] * (size_t)6 + counts[5] + counts[2] * (width + 4) + counts[1] + counts[0];
    if ((size_t)(end - bytes - HEADER) < size)
        return 0;
    b->times = bytes + HEADER;
    b->kinds_of_times = b->times + counts[3] * width;
    b->kinds = b->kinds_of_times + counts[3];
    b->width = width;
    b->time_count = counts[3];
    b->kind_count = counts[4];
    b->leap_count = counts[2];
    b->end = bytes + HEADER + size;
    return 1;
}

/* Lists the changes of the offset; NULL: an invalid kind, or out of memory. */
static json_t *list_changes(const struct body *b)
{
    json_t *list = json_array();
    int64_t offset = number_at(b->kinds, 4);

    for (uint32_t i = 0; list && i < b->time_count; i++) {
        uint32_t kind = b->kinds_of_times[i];
        int64_t to = kind < b->kind_count ? number_at(b->kinds + kind * (size_t)6, 4) : 0;
        if (kind < b->kind_count && to == offset)
            continue;
        if (kind >= b->kind_count ||
            json_array_append_new(list, json_integer(number_at(b->times + i * b->width, b->width))) ||
            json_array_append_new(list, json_integer(to))) {
            json_decref(list);
            return NULL;
        }
        offset = to;
    }
    return list;
}

/* Reads a zone; NULL: the file is malformed. */
static json_t *read_zone(const char *name, const unsigned char *bytes, size_t size)
{
    const unsigned char *end = bytes + size;
    struct body b;
    char rule[128] = "";

    if (!take_body(bytes, end, 4, &b))
        return NULL;
    if (bytes[4] >= '2') {
        if (!take_body(b.end, end, 8, &b) || b.end == end || *b.end != '\n')
            return NULL;
        const unsigned char *line = b.end + 1, *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop || (size_t)(stop - line) >= sizeof rule)
            return NULL;
        memcpy(rule, line, (size_t)(stop - line));
    }
    if (!b.kind_count || b.leap_count)
        return NULL;
    json_t *document =
        json_pack("{ss sI so}", "name", name, "offset", (json_int_t)number_at(b.kinds, 4), "changes", list_changes(&b));
    if (document && *rule && json_object_set_new(document, "then", json_string(rule))) {
        json_decref(document);
        return NULL;
    }
    return document;
}

/* ---- its name ---- */

struct names {
    char *list[NAMES_MOST + 1]; /* owned */
    size_t count;
};

static int ignores_entry(const struct dirent *entry, int depth)
{
    return *entry->d_name == '.' || strchr(entry->d_name, '.') ||
           (!depth && (!strcmp(entry->d_name, "posix") || !strcmp(entry->d_name, "right")));
}

/* Lists the names of zones below a folder, as far as it can be read. */
static void list_names(const char *folder, const char *before, int depth, struct names *names)
{
    char path[512], name[256];
    struct dirent *entry;
    DIR *dir = NULL;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, before) < sizeof path)
        dir = opendir(path);
    while (dir && names->count < NAMES_MOST && (entry = readdir(dir)) != NULL) {
        if (ignores_entry(entry, depth) ||
            (size_t)snprintf(name, sizeof name, "%s%s%s", before, *before ? "/" : "", entry->d_name) >= sizeof name)
            continue;
        if (entry->d_type == DT_DIR && depth < 3)
            list_names(folder, name, depth + 1, names);
        else if (entry->d_type != DT_DIR && (names->list[names->count] = strdup(name)) != NULL)
            names->count++;
    }
    if (dir)
        closedir(dir);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the same place in another part of the world, or the name nearest to a misspelt one. */
static const char *nearest_name(const struct names *names, const char *name)
{
    const char *slash = strrchr(name, '/'), *place = slash ? slash + 1 : name;

    for (size_t i = 0; i < names->count; i++) {
        const char *other = strrchr(names->list[i], '/');
        if (!strcasecmp(place, other ? other + 1 : names->list[i]))
            return names->list[i];
    }
    return halay_nearest_name(name, (const char *const *)names->list);
}

static enum halay_status no_zone(struct halay_log *log, const char *where, const char *folder, const char *name)
{
    struct names *names = calloc(1, sizeof *names);

    if (names) {
        list_names(folder, "", 0, names);
        qsort(names->list, names->count, sizeof *names->list, compare_names);
    }
    const char *near = names ? nearest_name(names, name) : NULL;
    if (names && !names->count)
        halay_error(log, "%s: time zone '%.64s': '%s' has no zones; install tzdata", where, name, folder);
    else if (near)
        halay_error(log, "%s: unknown time zone '%.64s'; did you mean '%s'?", where, name, near);
    else
        halay_error(log, "%s: unknown time zone '%.64s'; expected a name like Europe/Berlin, America/New_York or UTC",
                    where, name);
    for (size_t i = 0; names && i < names->count; i++)
        free(names->list[i]);
    free(names);
    return HALAY_ERR_CONFIG;
}

/* Returns nonzero if a name stays inside the folder. */
static int is_name(const char *name)
{
    return *name && *name != '/' && strlen(name) < 128 && !strstr(name, "..") &&
           !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/")];
}

enum halay_status tft_zone_load(struct halay_log *log, const char *where, const char *folder, const char *name,
                                json_t **document)
{
    char path[512];
    FILE *file = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;

    if (is_name(name) && (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path)
        file = fopen(path, "rb");
    if (file)
        bytes = malloc(FILE_MOST);
    if (bytes)
        size = fread(bytes, 1, FILE_MOST, file);
    if (file)
        fclose(file);
    if (!size) { /* or the path is a folder */
        free(bytes);
        return no_zone(log, where, folder, name);
    }
    json_t *zone = read_zone(name, bytes, size);
    free(bytes);
    if (!zone)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "%s: '%s' is not a file of tzdata that can be used (damaged, or it counts leap seconds)",
                          where, path);
    *document = zone;
    return HALAY_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a file of prepared data: writes them with their checksums, maps them, checks a part before it is
 * read.
 *
 * Everything in the file is checked before it is used: lengths against the file's (so that no access can be beyond its
 * end), checksums of every part before it is read. Files are replaced by renaming, so that a mapped one does not shrink
 * under its reader.
 */
#include "base/memory.h"
#include "base/output_file.h"
#include "tft/core/data/data.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FORMAT_VERSION = 4, ENDIAN = 0x01020304, ALIGNMENT = 64, PART = 65536, BLOCK = 1 << 20 };

static const char magic[8] = { 'H', 'A', 'L', 'A', 'Y', 'H', 'T', 'D' };
static const char *const section_names[] = { "description", "targets",    "gaps",          "bridges",
                                             "values",      "categories", "static values", "static codes",
                                             "weights",     "present",    "checksums" };
_Static_assert(sizeof section_names / sizeof *section_names == HTD_SECTIONS, "each section has a name");

struct section {
    uint64_t offset, bytes;
    uint32_t kind, zero;
};

struct header {
    char magic[8];
    uint32_t version, endian;
    uint64_t file_bytes;
    uint32_t sections, table_crc;
    struct section table[HTD_SECTIONS];
};

enum part_state { PART_UNREAD, PART_SOUND, PART_DAMAGED };

/* An open file. */
struct tft_htd {
    struct halay_log *log;    /* borrowed */
    char *path;               /* owned */
    const struct header *map; /* owned: the whole file */
    size_t bytes;
    const uint32_t *sums;           /* in the map: of each part */
    size_t first_sum[HTD_SECTIONS]; /* of each section's parts */
    /* Owned: (parts) enum part_state. Any thread may set one, and two may check the same part; relaxed, since the
     * described part never changes. */
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

/* Returns the checksum of the section table and the checksums after it. */
static uint32_t checksum_of_table(const struct header *h, const uint32_t *sums)
{
    uLong crc = crc32(0, (const unsigned char *)h->table, sizeof h->table);

    return (uint32_t)crc32_z(crc, (const unsigned char *)sums, h->table[HTD_SUMS].bytes);
}

/* ---- write ---- */

/* Returns the checksums of all parts, to be freed; NULL without memory. */
static uint32_t *make_sums(const void *const *data, size_t bytes[HTD_SECTIONS], struct tft_spill *spill)
{
    size_t n = 0;

    for (int k = 0; k < HTD_SUMS; k++)
        n += parts_of(bytes[k]);
    uint32_t *sums = malloc((n + 1) * sizeof *sums);
    bytes[HTD_SUMS] = n * sizeof *sums;
    n = 0;
    for (int k = 0; sums && k < HTD_SUMS; k++)
        for (size_t part = 0; part < parts_of(bytes[k]); part++) {
            sums[n++] = checksum_of_part(data[k], bytes[k], part);
            tft_spill_touched(spill, PART);
        }
    return sums;
}

/* Places the sections one after the other. */
static void plan_sections(const uint32_t *sums, const size_t bytes[HTD_SECTIONS], struct header *h)
{
    size_t at = halay_round_up(sizeof *h, ALIGNMENT);

    memset(h, 0, sizeof *h);
    memcpy(h->magic, magic, sizeof magic);
    h->version = FORMAT_VERSION;
    h->endian = ENDIAN;
    h->sections = HTD_SECTIONS;
    for (uint32_t k = 0; k < HTD_SECTIONS; k++) {
        h->table[k] = (struct section){ .offset = at, .bytes = bytes[k], .kind = k + 1 };
        at = halay_round_up(at + bytes[k], ALIGNMENT);
    }
    h->file_bytes = at;
    h->table_crc = checksum_of_table(h, sums);
}

/* Writes the sections; errors of the stream are found by its commit. */
static void write_sections(FILE *file, const struct header *h, const void *const data[HTD_SECTIONS],
                           struct tft_spill *spill)
{
    static const char zeros[ALIGNMENT];
    size_t at = fwrite(h, 1, sizeof *h, file);

    for (int k = 0; k < HTD_SECTIONS; k++) {
        fwrite(zeros, 1, h->table[k].offset - at, file);
        for (size_t from = 0, n; from < h->table[k].bytes; from += n) {
            n = h->table[k].bytes - from < BLOCK ? h->table[k].bytes - from : BLOCK;
            fwrite((const char *)data[k] + from, 1, n, file);
            tft_spill_touched(spill, n);
        }
        at = h->table[k].offset + h->table[k].bytes;
    }
    fwrite(zeros, 1, h->file_bytes - at, file);
}

enum halay_status tft_htd_write_sections(struct halay_log *log, const char *path, const void *const data[HTD_SUMS],
                                         const size_t bytes[HTD_SUMS], struct tft_spill *spill)
{
    const void *all[HTD_SECTIONS];
    size_t lengths[HTD_SECTIONS];
    struct halay_output out;
    struct header h;

    memcpy(all, data, HTD_SUMS * sizeof *data);
    memcpy(lengths, bytes, HTD_SUMS * sizeof *bytes);
    uint32_t *sums = make_sums(all, lengths, spill);
    if (!sums)
        return halay_no_memory(log, "to write '%s'", path);
    all[HTD_SUMS] = sums;
    plan_sections(sums, lengths, &h);
    enum halay_status status = halay_output_open(log, path, &out);
    if (!status) {
        write_sections(out.file, &h, all, spill);
        status = halay_output_commit(&out);
    }
    free(sums);
    return status;
}

/* ---- digest ---- */

/* Mixes the sections' lengths and the checksums of their parts. */
static uint64_t mix_sums(const size_t bytes[HTD_SUMS], const uint32_t *sums, size_t count)
{
    uint64_t digest = count;

    for (size_t i = 0; i < HTD_SUMS + count; i++) {
        digest = (digest ^ (i < HTD_SUMS ? bytes[i] : sums[i - HTD_SUMS])) * 0x9E3779B97F4A7C15u;
        digest ^= digest >> 32;
    }
    return digest;
}

uint64_t tft_htd_digest_map(const struct tft_htd *f)
{
    size_t bytes[HTD_SUMS];

    for (int k = 0; k < HTD_SUMS; k++)
        bytes[k] = f->map->table[k].bytes;
    return mix_sums(bytes, f->sums, f->map->table[HTD_SUMS].bytes / sizeof *f->sums);
}

enum halay_status tft_htd_digest_sections(struct halay_log *log, const void *const data[HTD_SUMS],
                                          const size_t bytes[HTD_SUMS], struct tft_spill *spill, uint64_t *digest)
{
    size_t lengths[HTD_SECTIONS];

    memcpy(lengths, bytes, HTD_SUMS * sizeof *bytes);
    uint32_t *sums = make_sums(data, lengths, spill);
    if (!sums)
        return halay_no_memory(log, "to compare the data with those of other ranks");
    *digest = mix_sums(bytes, sums, lengths[HTD_SUMS] / sizeof *sums);
    free(sums);
    return HALAY_OK;
}

/* ---- map ---- */

static enum halay_status report_bad(struct halay_log *log, const char *path, const char *what)
{
    return halay_fail(log, HALAY_ERR_FORMAT, "'%s' %s", path, what);
}

static enum halay_status check_header(struct halay_log *log, const char *path, const struct header *h,
                                      size_t file_bytes)
{
    if (memcmp(h->magic, magic, sizeof magic))
        return report_bad(log, path, "is not a file of prepared data (halay-tft prepare makes them)");
    if (h->endian != ENDIAN)
        return report_bad(log, path, "was prepared on a machine of another byte order; prepare it here again");
    if (h->version != FORMAT_VERSION)
        return halay_fail(log, HALAY_ERR_VERSION,
                          "'%s' has version %u of the format, this program reads %d; prepare it again", path,
                          h->version, FORMAT_VERSION);
    if (h->file_bytes > file_bytes)
        return halay_fail(log, HALAY_ERR_FORMAT, "'%s' is truncated: %zu bytes of %llu", path, file_bytes,
                          (unsigned long long)h->file_bytes);
    if (h->file_bytes != file_bytes || h->sections != HTD_SECTIONS)
        return report_bad(log, path, "is damaged: its section table does not add up");
    for (uint32_t k = 0; k < HTD_SECTIONS; k++) {
        const struct section *s = &h->table[k];
        if (s->kind != k + 1 || s->offset % ALIGNMENT || s->offset > file_bytes || s->bytes > file_bytes - s->offset)
            return report_bad(log, path, "is damaged: a section is outside the file");
    }
    return HALAY_OK;
}

static const void *section_of(const struct tft_htd *f, int section)
{
    return (const char *)f->map + f->map->table[section].offset;
}

/* Finds the checksums and checks theirs. */
static enum halay_status take_sums(struct tft_htd *f)
{
    const struct section *table = f->map->table;
    size_t n = 0;

    for (int k = 0; k < HTD_SUMS; k++) {
        f->first_sum[k] = n;
        n += parts_of(table[k].bytes);
    }
    f->sums = section_of(f, HTD_SUMS);
    if (table[HTD_SUMS].bytes != n * sizeof *f->sums || checksum_of_table(f->map, f->sums) != f->map->table_crc)
        return report_bad(f->log, f->path, "is damaged: its section table does not add up");
    f->states = calloc(n + 1, sizeof *f->states);
    if (!f->states)
        return halay_no_memory(f->log, "to open '%s'", f->path);
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

enum halay_status tft_htd_check(struct tft_htd *f, int section, size_t first, size_t bytes)
{
    enum halay_status status = HALAY_OK;

    for (size_t part = first / PART; part < parts_of(first + bytes) && bytes && !status; part++)
        status = check_part(f, section, part);
    return status;
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
        status = report_bad(f->log, f->path, "is not a file of prepared data, or is truncated");
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

enum halay_status tft_htd_map(struct halay_log *log, const char *path, struct tft_htd **file)
{
    struct tft_htd *f = calloc(1, sizeof *f);
    char *copy = strdup(path);

    if (!f || !copy) {
        halay_error(log, "no memory to open '%s'", path);
        free(copy);
        free(f);
        return HALAY_ERR_NO_MEMORY;
    }
    f->log = log;
    f->path = copy;
    enum halay_status status;
    if ((status = map_file(f)) || (status = check_header(f->log, f->path, f->map, f->bytes)) || (status = take_sums(f)))
        tft_htd_close(f);
    else
        *file = f;
    return status;
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

const void *tft_htd_section(const struct tft_htd *f, int section, size_t *bytes)
{
    *bytes = f->map->table[section].bytes;
    return section_of(f, section);
}

enum halay_status tft_htd_bad(const struct tft_htd *f, const char *what)
{
    return report_bad(f->log, f->path, what);
}

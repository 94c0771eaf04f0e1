/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning table of a world: rank 0 reads the file, all ranks get what it read.
 *
 *     rank 0 looks for a file, parses it -> every rank learns how it went and how much there is, from the first
 *     record of the start (group/world_record.c) -> and gets the rows, if there are any
 *
 * So no two ranks can choose differently, whatever files and environment each has; and a wrong table ends the start of
 * all of them. Rank 0's settings of chunks, slots and checking hold for all ranks, too.
 */
#include "collectives/choose/tuning.h"
#include "collectives/transport/bootstrap/boot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- rank 0: find and read ---- */

static int path_under(char *path, size_t size, const char *variable, const char *rest)
{
    const char *folder = halay_environment_get(variable);
    int length = folder && *folder == '/' ? snprintf(path, size, "%s/%s", folder, rest) : -1;

    return length > 0 && (size_t)length < size && !access(path, F_OK);
}

/* Finds the file to read: what is configured, else the first of the usual places that is there. Returns 0 if none is.
 * */
static int find_file(const struct halay_config *config, char *path, size_t size)
{
    if (config->tuning) {
        snprintf(path, size, "%s", config->tuning);
        return strcmp(config->tuning, "builtin") != 0;
    }
    if (path_under(path, size, "XDG_CONFIG_HOME", "halay/tuning"))
        return 1;
    const char *xdg = halay_environment_get("XDG_CONFIG_HOME");
    if (!(xdg && *xdg) && path_under(path, size, "HOME", ".config/halay/tuning"))
        return 1;
    snprintf(path, size, "%s", HALAY_SYSCONFDIR "/halay/tuning");
    return !access(path, F_OK);
}

static enum halay_status read_file(const struct halay_config *config, struct halay_log *log, struct halay_tuning *table)
{
    char path[4096], why[5120];

    if (!find_file(config, path, sizeof path))
        return HALAY_OK;
    enum halay_status status = halay_tuning_read(path, table, why, sizeof why);
    if (status != HALAY_OK)
        halay_error(log, "%s", why);
    else
        halay_info(log, "tuning table '%s': %zu rows", path, table->count);
    return status;
}

/* ---- all ranks ---- */

static void fill_head(struct halay_tuning_head *head, const struct halay_config *config,
                      const struct halay_tuning *table)
{
    head->count = table->count;
    head->chunk_bytes = config->chunk_bytes;
    head->check = (uint64_t)config->check;
    head->device_algorithm = (uint64_t)config->device_algorithm;
    head->slot_bytes = config->slot_bytes;
    memcpy(head->name, table->name, sizeof head->name);
}

static void apply_head(const struct halay_tuning_head *head, struct halay_config *config, struct halay_tuning *table)
{
    config->chunk_bytes = head->chunk_bytes;
    config->check = head->check != 0;
    config->device_algorithm = (int)head->device_algorithm;
    config->slot_bytes = head->slot_bytes;
    table->count = head->count;
    memcpy(table->name, head->name, sizeof table->name);
}

enum halay_status halay_tuning_offer(struct halay_log *log, const struct halay_config *config, int rank,
                                     struct halay_tuning_head *head, struct halay_tuning **out)
{
    memset(head, 0, sizeof *head);  /* padding travels too */
    *out = calloc(2, sizeof **out); /* the file's and the built-in one */
    if (!*out)
        return HALAY_ERR_NO_MEMORY;
    if (rank == 0)
        head->status = read_file(config, log, *out);
    fill_head(head, config, *out);
    return HALAY_OK;
}

enum halay_status halay_tuning_take(struct halay_boot *boot, const struct halay_tuning_head *head,
                                    struct halay_config *config, struct halay_tuning *tables)
{
    char why[256];

    if (head->status != HALAY_OK) {
        if (boot->rank)
            halay_error(boot->log, "rank 0 cannot use its tuning table");
        return (enum halay_status)head->status;
    }
    if (head->count > HALAY_TUNING_ROWS)
        return halay_fail(boot->log, HALAY_ERR_VERSION, "rank 0 gave a tuning table that this version does not know");
    apply_head(head, config, &tables[0]);
    struct halay_tuning_row *rows = tables[0].rows;
    enum halay_status status =
        head->count ? halay_boot_broadcast(boot, rows, head->count * sizeof *rows, config->start_timeout_ms) : HALAY_OK;
    if (status == HALAY_OK)
        status = halay_tuning_parse(halay_tuning_builtin, "the built-in table", &tables[1], why, sizeof why);
    if (status == HALAY_OK)
        tables[0].next = &tables[1];
    return status;
}

enum halay_status halay_tuning_share(struct halay_boot *boot, struct halay_config *config, struct halay_tuning **out)
{
    struct halay_tuning_head head;
    struct halay_tuning *tables;

    enum halay_status status = halay_tuning_offer(boot->log, config, boot->rank, &head, &tables);
    if (status == HALAY_OK)
        status = halay_boot_broadcast(boot, &head, sizeof head, config->start_timeout_ms);
    if (status == HALAY_OK)
        status = halay_tuning_take(boot, &head, config, tables);
    if (status == HALAY_OK)
        *out = tables;
    else
        free(tables);
    return status;
}

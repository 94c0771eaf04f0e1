/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning table of a world: rank 0 reads the file, all ranks get what it read.
 *
 *     rank 0 looks for a file, parses it -> every rank is told how it went and how much there is -> and gets the rows
 *
 * So no two ranks can choose differently, whatever lies on their disks or in their environments; and a table that is
 * wrong ends the start of all of them. What rank 0's environment says about fragments, slots and checking holds for
 * all ranks too.
 */
#include "base/memory.h"
#include "collectives/choose/tuning.h"
#include "collectives/transport/meet/boot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct head {
    int64_t status;
    uint64_t cost_count, rule_count, fragment_count, slot_count;
    uint64_t fragment_bytes, slot_bytes; /* HALAY_RING_SEGMENT, HALAY_SLOT; 0: by table */
    uint64_t check;                      /* HALAY_CHECK */
    char name[sizeof((struct halay_tuning *)0)->name];
};

/* ---- rank 0: find and read ---- */

static int path_under(char *path, size_t size, const char *variable, const char *rest)
{
    const char *folder = halay_environment_get(variable);
    int length = folder && *folder == '/' ? snprintf(path, size, "%s/%s", folder, rest) : -1;

    return length > 0 && (size_t)length < size && !access(path, F_OK);
}

/* The file to read: what is configured, else the first of the usual places that is there. 0: none. */
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
        halay_info(log, "tuning table '%s': %zu rules, %zu costs", path, table->rule_count, table->cost_count);
    return status;
}

/* ---- all ranks ---- */

/* How the ranks exchange it. */
struct meeting {
    struct halay_boot *boot;
    int timeout_ms;
};

/* Give mine, get rank 0's. */
static enum halay_status from_first(const struct meeting *m, const void *mine, size_t bytes, void *out)
{
    struct halay_boot *boot = m->boot;
    size_t total;

    if (halay_mul_overflows(bytes, (size_t)boot->size, &total))
        return HALAY_ERR_NO_MEMORY;
    unsigned char *all = malloc(total);
    if (!all)
        return halay_fail(boot->log, HALAY_ERR_NO_MEMORY, "no memory for the tuning tables of %d ranks", boot->size);
    enum halay_status status = boot->ops->allgather(boot, mine, bytes, all, m->timeout_ms);
    if (status == HALAY_OK)
        memcpy(out, all, bytes);
    free(all);
    return status;
}

static enum halay_status share_rows(const struct meeting *m, struct halay_tuning *table)
{
    const struct {
        void *rows;
        size_t bytes;
    } all[] = { { table->costs, table->cost_count * sizeof *table->costs },
                { table->rules, table->rule_count * sizeof *table->rules },
                { table->fragments, table->fragment_count * sizeof *table->fragments },
                { table->slots, table->slot_count * sizeof *table->slots } };
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < sizeof all / sizeof *all && status == HALAY_OK; i++)
        if (all[i].bytes)
            status = from_first(m, all[i].rows, all[i].bytes, all[i].rows);
    return status;
}

static void fill_head(struct head *head, const struct halay_config *config, const struct halay_tuning *table)
{
    head->cost_count = table->cost_count;
    head->rule_count = table->rule_count;
    head->fragment_count = table->fragment_count;
    head->slot_count = table->slot_count;
    head->fragment_bytes = config->fragment_bytes;
    head->check = (uint64_t)config->check;
    head->slot_bytes = config->slot_bytes;
    memcpy(head->name, table->name, sizeof head->name);
}

static void apply_head(const struct head *head, struct halay_config *config, struct halay_tuning *table)
{
    config->fragment_bytes = head->fragment_bytes;
    config->check = head->check != 0;
    config->slot_bytes = head->slot_bytes;
    table->cost_count = head->cost_count;
    table->rule_count = head->rule_count;
    table->fragment_count = head->fragment_count;
    table->slot_count = head->slot_count;
    memcpy(table->name, head->name, sizeof table->name);
}

static int is_plausible(const struct head *head)
{
    return head->cost_count <= HALAY_TUNING_COSTS && head->rule_count <= HALAY_TUNING_RULES &&
           head->fragment_count <= HALAY_TUNING_FRAGMENTS && head->slot_count <= HALAY_TUNING_SLOTS;
}

static enum halay_status share(const struct meeting *m, struct halay_config *config, struct halay_tuning *table)
{
    struct halay_log *log = m->boot->log;
    struct head head;

    memset(&head, 0, sizeof head); /* padding travels too */
    if (m->boot->rank == 0)
        head.status = read_file(config, log, table);
    fill_head(&head, config, table);
    enum halay_status status = from_first(m, &head, sizeof head, &head);
    if (status != HALAY_OK)
        return status;
    if (head.status != HALAY_OK) {
        if (m->boot->rank)
            halay_error(log, "rank 0 cannot use its tuning table");
        return (enum halay_status)head.status;
    }
    if (!is_plausible(&head))
        return halay_fail(log, HALAY_ERR_VERSION, "rank 0 gave a tuning table that this version does not know");
    apply_head(&head, config, table);
    return share_rows(m, table);
}

enum halay_status halay_tuning_share(struct halay_boot *boot, struct halay_config *config, struct halay_tuning **out)
{
    struct halay_tuning *tables = calloc(2, sizeof *tables); /* the file's and the built-in one */
    const struct meeting m = { boot, config->start_timeout_ms };
    char why[256];

    if (!tables)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = share(&m, config, &tables[0]);
    if (status == HALAY_OK)
        status = halay_tuning_parse(halay_tuning_builtin, "the built-in table", &tables[1], why, sizeof why);
    if (status != HALAY_OK) {
        free(tables);
        return status;
    }
    tables[0].next = &tables[1];
    *out = tables;
    return HALAY_OK;
}

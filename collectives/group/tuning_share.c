/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning table of a world: rank 0 reads the file, all ranks get what it read.
 *
 *     rank 0 looks for a file, parses it -> everybody is told how it went and how much there is -> and gets the rows
 *
 * So no two ranks can choose differently, whatever lies on their disks or in their environments; and a table that is
 * wrong ends the start of all of them. What the environment of rank 0 says about segments, slots and checking holds for
 * all ranks too.
 */
#include "base/memory.h"
#include "collectives/choose/tuning.h"
#include "collectives/group/world_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct head {
    int64_t status;
    uint64_t cost_count, rule_count, segment_count, slot_count;
    uint64_t segment_bytes, slot_bytes; /* HALAY_RING_SEGMENT, HALAY_SLOT; 0: by table */
    uint64_t check;                     /* HALAY_CHECK */
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

static enum halay_status read_file(struct halay_world *world, struct halay_tuning *table)
{
    char path[4096], why[5120];

    if (!find_file(&world->config, path, sizeof path))
        return HALAY_OK;
    enum halay_status status = halay_tuning_read(path, table, why, sizeof why);
    if (status != HALAY_OK)
        halay_error(world->log, "%s", why);
    else
        halay_info(world->log, "tuning table '%s': %zu rules, %zu costs", path, table->rule_count, table->cost_count);
    return status;
}

/* ---- all ranks ---- */

/* Give mine, get rank 0's. */
static enum halay_status from_first(struct halay_world *world, const void *mine, size_t bytes, void *out)
{
    size_t total;

    if (halay_mul_overflows(bytes, (size_t)world->size, &total))
        return HALAY_ERR_NO_MEMORY;
    unsigned char *all = malloc(total);
    if (!all) {
        halay_error(world->log, "no memory for the tuning tables of %d ranks", world->size);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status =
        world->boot->ops->allgather(world->boot, mine, bytes, all, world->config.start_timeout_ms);
    if (status == HALAY_OK)
        memcpy(out, all, bytes);
    free(all);
    return status;
}

static enum halay_status share_rows(struct halay_world *world, void *rows, size_t count, size_t row_bytes)
{
    return count ? from_first(world, rows, count * row_bytes, rows) : HALAY_OK;
}

static int are_plausible(const struct head *head)
{
    return head->cost_count <= HALAY_TUNING_COSTS && head->rule_count <= HALAY_TUNING_RULES &&
           head->segment_count <= HALAY_TUNING_SEGMENTS && head->slot_count <= HALAY_TUNING_SLOTS;
}

static enum halay_status share(struct halay_world *world, struct halay_tuning *table)
{
    struct head head;

    memset(&head, 0, sizeof head); /* padding travels too */
    if (world->rank == 0)
        head.status = read_file(world, table);
    head.cost_count = table->cost_count;
    head.rule_count = table->rule_count;
    head.segment_count = table->segment_count;
    head.slot_count = table->slot_count;
    head.segment_bytes = world->config.ring_segment_bytes;
    head.check = (uint64_t)world->config.check;
    head.slot_bytes = world->config.slot_bytes;
    memcpy(head.name, table->name, sizeof head.name);
    enum halay_status status = from_first(world, &head, sizeof head, &head);
    if (status != HALAY_OK)
        return status;
    if (head.status != HALAY_OK) {
        if (world->rank)
            halay_error(world->log, "rank 0 cannot use its tuning table");
        return (enum halay_status)head.status;
    }
    if (!are_plausible(&head)) {
        halay_error(world->log, "rank 0 gave a tuning table that this version does not know");
        return HALAY_ERR_VERSION;
    }
    world->config.ring_segment_bytes = head.segment_bytes;
    world->config.check = head.check != 0;
    world->config.slot_bytes = head.slot_bytes;
    table->cost_count = head.cost_count;
    table->rule_count = head.rule_count;
    table->segment_count = head.segment_count;
    table->slot_count = head.slot_count;
    memcpy(table->name, head.name, sizeof table->name);
    status = share_rows(world, table->costs, table->cost_count, sizeof *table->costs);
    if (status == HALAY_OK)
        status = share_rows(world, table->rules, table->rule_count, sizeof *table->rules);
    if (status == HALAY_OK)
        status = share_rows(world, table->segments, table->segment_count, sizeof *table->segments);
    if (status == HALAY_OK)
        status = share_rows(world, table->slots, table->slot_count, sizeof *table->slots);
    return status;
}

enum halay_status halay_tuning_share(struct halay_world *world)
{
    char why[256];

    world->tuning = calloc(2, sizeof *world->tuning); /* the file's and the built-in one */
    if (!world->tuning)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = share(world, &world->tuning[0]);
    if (status == HALAY_OK)
        status = halay_tuning_parse(halay_tuning_builtin, "the built-in table", &world->tuning[1], why, sizeof why);
    world->tuning[0].next = &world->tuning[1];
    return status;
}

void halay_tuning_settle(struct halay_world *world)
{
    unsigned place = world->local_size == world->size ? HALAY_TUNING_LOCAL : HALAY_TUNING_REMOTE;

    if (!world->config.ring_segment_bytes)
        world->config.ring_segment_bytes = halay_tuning_segment(world->tuning, world->data->ops->name, place);
}

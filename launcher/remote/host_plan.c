/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan's bytes: NUMBERS numbers of 4 bytes, the secret, then six lists of strings (folder, master and record are
 * lists of one). A list is its length and its strings, a string its length and its bytes.
 *
 * Cleanup: host_plan_fini accepts a half-read plan that began with zeros.
 */
#include "launcher/remote/host_plan.h"
#include "launcher/remote/frame.h"
#include "launcher/where/binding.h"
#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 15 };

struct plan_reader {
    const char *at;
    size_t left;
};

static int write_plan_number(struct buffer *to, uint32_t number)
{
    unsigned char bytes[4];

    frame_store_number(bytes, number);
    return buffer_append(to, bytes, sizeof bytes);
}

static int write_plan_list(struct buffer *to, char *const *list)
{
    uint32_t count = 0;

    while (list[count])
        count++;
    int ok = write_plan_number(to, count);
    for (uint32_t i = 0; ok && i < count; i++) {
        size_t length = strlen(list[i]);
        ok = length <= FRAME_MAX && write_plan_number(to, (uint32_t)length) && buffer_append(to, list[i], length);
    }
    return ok;
}

int host_plan_write(const struct host_plan *plan, struct buffer *to)
{
    const int numbers[NUMBERS] = { plan->first, plan->count,       plan->size,       plan->world,    plan->node,
                                   plan->nodes, plan->master_port, plan->binding,    plan->grace_ms, plan->keeps_record,
                                   plan->local, plan->local_size,  plan->silence_ms, plan->block,    plan->samples };
    char *folder[] = { plan->folder, NULL }, *master[] = { plan->master, NULL }, *record[] = { plan->record, NULL };

    for (int i = 0; i < NUMBERS; i++)
        if (!write_plan_number(to, (uint32_t)numbers[i]))
            return 0;
    return buffer_append(to, plan->secret, sizeof plan->secret) && write_plan_list(to, folder) &&
           write_plan_list(to, master) && write_plan_list(to, record) && write_plan_list(to, plan->addresses) &&
           write_plan_list(to, plan->environment) && write_plan_list(to, plan->command);
}

static int take_bytes(struct plan_reader *from, void *to, size_t count)
{
    if (from->left < count)
        return 0;
    memcpy(to, from->at, count);
    from->at += count;
    from->left -= count;
    return 1;
}

static int read_plan_number(struct plan_reader *from, uint32_t *number)
{
    unsigned char bytes[4];

    if (!take_bytes(from, bytes, sizeof bytes))
        return 0;
    *number = frame_load_number(bytes);
    return 1;
}

static char *read_plan_string(struct plan_reader *from)
{
    uint32_t length;

    if (!read_plan_number(from, &length) || length > from->left)
        return NULL;
    char *text = malloc((size_t)length + 1);
    if (!text || !take_bytes(from, text, length) || memchr(text, 0, length)) {
        free(text);
        return NULL;
    }
    text[length] = 0;
    return text;
}

static void free_list(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

static char **read_plan_list(struct plan_reader *from)
{
    uint32_t count;

    if (!read_plan_number(from, &count) || count > from->left / 4)
        return NULL;
    char **list = calloc((size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list && i < count; i++)
        if (!(list[i] = read_plan_string(from))) {
            free_list(list);
            return NULL;
        }
    return list;
}

/* A list of exactly one string. */
static char *read_one(struct plan_reader *from)
{
    char **list = read_plan_list(from), *text = NULL;

    if (list && list[0] && !list[1]) {
        text = list[0];
        list[0] = NULL;
    }
    free_list(list);
    return text;
}

static int is_sound_plan(const struct host_plan *plan)
{
    return plan->folder && plan->master && plan->record && plan->addresses && plan->addresses[0] && plan->environment &&
           plan->command && plan->command[0] && plan->first >= 0 && plan->count > 0 && plan->size > 0 &&
           plan->binding >= BIND_AUTO && plan->binding <= BIND_NONE && plan->first <= plan->size - plan->count &&
           plan->local >= 0 && plan->local < plan->size && plan->local_size > 0 && plan->local_size <= plan->size &&
           plan->count <= plan->local_size && plan->local <= plan->local_size - plan->count && plan->grace_ms >= 0 &&
           plan->silence_ms >= SILENCE_MIN_MS && plan->world >= 0 && plan->node >= 0 && plan->nodes > 0 &&
           plan->block >= 0 && plan->block <= plan->size && plan->master_port >= 0 &&
           (plan->master_port || plan->first == 0);
}

int host_plan_read(const char *bytes, size_t count, struct host_plan *plan)
{
    struct plan_reader from = { bytes, count };
    uint32_t numbers[NUMBERS];

    *plan = (struct host_plan){ 0 };
    for (int i = 0; i < NUMBERS; i++)
        if (!read_plan_number(&from, &numbers[i]))
            return 0;
    if (!take_bytes(&from, plan->secret, sizeof plan->secret))
        return 0;
    plan->first = (int)numbers[0];
    plan->count = (int)numbers[1];
    plan->size = (int)numbers[2];
    plan->world = (int)numbers[3];
    plan->node = (int)numbers[4];
    plan->nodes = (int)numbers[5];
    plan->master_port = (int)numbers[6];
    plan->binding = (int)numbers[7];
    plan->grace_ms = (int)numbers[8];
    plan->keeps_record = (int)numbers[9];
    plan->local = (int)numbers[10];
    plan->local_size = (int)numbers[11];
    plan->silence_ms = (int)numbers[12];
    plan->block = (int)numbers[13];
    plan->samples = (int)numbers[14];
    plan->folder = read_one(&from);
    plan->master = read_one(&from);
    plan->record = read_one(&from);
    plan->addresses = read_plan_list(&from);
    plan->environment = read_plan_list(&from);
    plan->command = read_plan_list(&from);
    if (!is_sound_plan(plan) || from.left) {
        host_plan_fini(plan);
        return 0;
    }
    return 1;
}

void host_plan_fini(struct host_plan *plan)
{
    explicit_bzero(plan->secret, sizeof plan->secret);
    free(plan->folder);
    free(plan->master);
    free(plan->record);
    free_list(plan->addresses);
    free_list(plan->environment);
    free_list(plan->command);
    *plan = (struct host_plan){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Torchrun's options, in one table. One that changes nothing that a script can see is accepted without a line.
 */
#include "launcher/cli/torchrun.h"
#include <string.h>

static const char redirects[] =
    "write --output-filename DIR, for files of both streams, and --show-ranks LIST, for the ranks that are shown";
static const char conf[] = "--start-timeout SECONDS is the time that nodes wait for each other";

/* when: the value for which a row counts; NULL: any. The first row that fits counts. */
static const struct torchrun_row {
    const char *when;
    struct horovod_flag flag;
} table[] = {
    { NULL, { "--standalone", 0, FLAG_TRANSLATED("--nnodes", "1") } },
    { NULL, { "--rdzv-backend", 1, FLAG_ALWAYS } },
    { NULL, { "--rdzv_backend", 1, FLAG_ALWAYS } },
    { NULL, { "--rdzv-id", 1, FLAG_ALWAYS } },
    { NULL, { "--rdzv_id", 1, FLAG_ALWAYS } },
    { NULL, { "--rdzv-conf", 1, FLAG_IGNORED(conf) } },
    { NULL, { "--rdzv_conf", 1, FLAG_IGNORED(conf) } },
    { NULL, { "--monitor-interval", 1, FLAG_ALWAYS } },
    { NULL, { "--monitor_interval", 1, FLAG_ALWAYS } },
    { NULL, { "--start-method", 1, FLAG_ALWAYS } },
    { NULL, { "--start_method", 1, FLAG_ALWAYS } },
    { NULL, { "--role", 1, FLAG_IGNORED("no part of a line of output has it; --timestamp and the rank are there") } },
    { NULL, { "--run-path", 0, FLAG_ALWAYS } },
    { NULL, { "--run_path", 0, FLAG_ALWAYS } },
    { NULL, { "--event-log-handler", 1, FLAG_IGNORED("--events FILE writes what happens to the job") } },
    { NULL, { "--event_log_handler", 1, FLAG_IGNORED("--events FILE writes what happens to the job") } },
    { NULL, { "--log-dir", 1, FLAG_TRANSLATED("--output-filename", NULL) } },
    { NULL, { "--log_dir", 1, FLAG_TRANSLATED("--output-filename", NULL) } },
    { NULL, { "--tee", 1, FLAG_ALWAYS } },
    { NULL, { "-t", 1, FLAG_ALWAYS } },
    { "0", { "--redirects", 1, FLAG_ALWAYS } },
    { "0", { "-r", 1, FLAG_ALWAYS } },
    { "3", { "--redirects", 1, FLAG_TRANSLATED("--show-ranks", "none") } },
    { "3", { "-r", 1, FLAG_TRANSLATED("--show-ranks", "none") } },
    { NULL, { "--redirects", 1, FLAG_REFUSED(redirects) } },
    { NULL, { "-r", 1, FLAG_REFUSED(redirects) } },
    { NULL, { "--local-ranks-filter", 1, FLAG_REFUSED("write --show-ranks LIST, whose ranks are those of the job") } },
    { NULL, { "--local_ranks_filter", 1, FLAG_REFUSED("write --show-ranks LIST, whose ranks are those of the job") } },
    { NULL, { "--local-addr", 1, FLAG_REFUSED("write --network-interface NETWORK, like eth0 or 10.0.0.0/8") } },
    { NULL, { "--local_addr", 1, FLAG_REFUSED("write --network-interface NETWORK, like eth0 or 10.0.0.0/8") } },
    { NULL, { "--logs-specs", 1, FLAG_REFUSED("write --output-filename DIR") } },
    { NULL, { "--logs_specs", 1, FLAG_REFUSED("write --output-filename DIR") } },
};

const struct horovod_flag *torchrun_flag_find(char *const *args)
{
    const size_t length = strcspn(*args, "=");
    const char *value = (*args)[length] ? *args + length + 1 : args[1];

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct torchrun_row *row = &table[i];
        if (strlen(row->flag.name) == length && !strncmp(row->flag.name, *args, length) &&
            (!row->when || (value && !strcmp(row->when, value))))
            return &row->flag;
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a run from its three sources.
 */
#include "tft/run_options.h"
#include "tft/document.h"
#include <stdio.h>

enum halay_status tft_run_options_keep(void *arg, const char *name, const char *value)
{
    struct tft_run_options *given = arg;

    if (given->count == sizeof given->values / sizeof *given->values)
        return HALAY_ERR_CONFIG;
    snprintf(given->names[given->count], sizeof given->names[0], "%s", name);
    given->values[given->count++] = value;
    return HALAY_OK;
}

enum halay_status tft_run_options_resolve(struct halay_log *log, const char *path, const struct tft_run_options *given,
                                          struct tft_run_config *config)
{
    json_t *document = NULL;
    char where[256];
    enum halay_status status = path ? tft_document_load(log, path, &document) : HALAY_OK;

    tft_run_config_defaults(config);
    if (!status && document) {
        snprintf(where, sizeof where, "configuration '%.200s'", path);
        status = tft_run_config_take(log, where, document, config);
    }
    json_decref(document);
    if (!status)
        status = tft_run_config_take_environment(log, config);
    for (size_t i = 0; i < given->count && !status; i++)
        status = tft_run_config_take_option(log, given->names[i], given->values[i], config);
    if (!status)
        status = tft_run_config_check(log, config);
    return status == HALAY_ERR_UNSUPPORTED ? HALAY_ERR_CONFIG : status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Training configurations as JSON. These calls need no session: a program may ask before it joins a job.
 */
#include "base/document.h"
#include "base/error_text.h"
#include "tft/core/api/api_impl.h"
#include <stdio.h>
#include <string.h>

/* Reads keys, given as a JSON object; NULL: no keys. log: NULL outside of a session. */
static enum halay_status take_keys(struct halay_log *log, const char *where, const char *keys,
                                   struct tft_run_config *config)
{
    json_t *document = NULL;
    enum halay_status status = HALAY_OK;

    if (keys)
        status = halay_document_parse(log, where, keys, strlen(keys), 1, NULL, &document);
    if (!status && document)
        status = tft_run_config_take(log, where, document, config);
    json_decref(document);
    return status == HALAY_ERR_FORMAT ? HALAY_ERR_CONFIG : status;
}

enum halay_status tft_session_config(struct halay_tft *t, const char *keys, struct tft_run_config *config)
{
    tft_run_config_defaults(config);
    enum halay_status status = take_keys(&t->log, "configuration", keys, config);
    if (status == HALAY_ERR_UNSUPPORTED)
        return HALAY_ERR_CONFIG;
    return status ? status : tft_run_config_check(&t->log, config);
}

static enum halay_status give_document(json_t *document, char **json)
{
    char *text = document ? json_dumps(document, JSON_COMPACT) : NULL;

    json_decref(document);
    if (!text)
        return halay_refuses(HALAY_ERR_NO_MEMORY, "no memory for a configuration");
    *json = text;
    return HALAY_OK;
}

enum halay_status halay_tft_keys(char **json)
{
    return json ? give_document(tft_run_config_keys(), json) : tft_session_refuse_null("halay_tft_keys", "json");
}

/* Puts keys over those of a configuration; both are valid. Returns NULL without memory. */
static json_t *merge(const char *config, const char *keys)
{
    json_t *all = config ? json_loads(config, 0, NULL) : json_object(), *more = json_loads(keys, 0, NULL), *value;
    const char *name;
    int failed = !all || !more;

    json_object_foreach(more, name, value) {
        char plain[64];
        snprintf(plain, sizeof plain, "%s", name);
        for (char *c = plain; *c; c++)
            *c = *c == '-' ? '_' : *c;
        failed |= json_object_set(all, plain, value);
    }
    json_decref(more);
    if (!failed)
        return all;
    json_decref(all);
    return NULL;
}

enum halay_status halay_tft_config_add(const char *config, const char *where, const char *keys, char **more)
{
    struct tft_run_config c;

    if (!where || !keys || !more)
        return tft_session_refuse_null("halay_tft_config_add", "an argument");
    tft_run_config_defaults(&c);
    enum halay_status status;
    if ((status = take_keys(NULL, "configuration", config, &c)) || (status = take_keys(NULL, where, keys, &c)))
        return halay_returns(status);
    return give_document(merge(config, keys), more);
}

enum halay_status halay_tft_config_check(const char *config, char **all)
{
    struct tft_run_config c;

    tft_run_config_defaults(&c);
    enum halay_status status = take_keys(NULL, "configuration", config, &c);
    if (!status)
        status = tft_run_config_check(NULL, &c);
    return status || !all ? halay_returns(status) : give_document(tft_run_config_json(&c), all);
}

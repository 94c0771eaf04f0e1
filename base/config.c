/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: what follows from the table of all environment variables (config.def): parsing (of defaults, too),
 * error messages, the list that doctor prints, the checks of halayrun before it starts a rank, the settings of programs
 * and the test that the manual has every row. The config owns its texts; fini accepts any state from all zeros on.
 */
#include "base/config.h"
#include "base/number_text.h"
#include "base/parse.h"
#include "base/transports.h"
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct row {
    struct halay_config_variable variable;
    enum halay_value_kind type;
    size_t offset; /* of the field in struct halay_config */
    long min, max;
    const char *const *horovod_choices; /* pairs of HOROVOD_X's name for a choice and ours; NULL: the same names */
};

static const char *const log_choices[] = { "error", "warning", "info", "debug", NULL };
static const char *const horovod_log_choices[] = { "trace", "debug", "fatal", "error", NULL };
static const char *const bootstrap_choices[] = { "auto", "self", "store", "mpi", "srun", NULL };
static const char *const deterministic_choices[] = { "off", "run", "ranks", NULL };
static const char *const device_algorithm_choices[] = { "auto", "nccl", NULL };
static const char *const gpus_choices[] = { "none", "auto", NULL };
static const char *const join_average_choices[] = { "all", "present", NULL };

enum { DAY = 24 * 60 * 60 };

#define ROW(kind, member, variable_name, text, help_text)                                                        \
    .type = HALAY_VALUE_##kind, .offset = offsetof(struct halay_config, member), .variable.name = variable_name, \
    .variable.default_text = text, .variable.help = help_text
#define SETTING(kind, member, name, text, accepted, help) { ROW(kind, member, name, text, help), accepted },
#define HOROVOD_SETTING(kind, member, name, other, text, accepted, help) \
    { ROW(kind, member, name, text, help), .variable.horovod = other, accepted },
#define LAUNCHER_SETTING(kind, member, name, accepted, help) \
    { ROW(kind, member, name, "", help), .variable.is_set_by_launcher = 1, accepted },
#define ANY .min = 0
#define FROM_TO(low, high) .min = low, .max = high
#define ONE_OF(names) .variable.choices = names
#define LOG_LEVELS ONE_OF(log_choices), .horovod_choices = horovod_log_choices

static const struct row table[] = {
#include "base/config.def"
};

enum { ROWS = sizeof table / sizeof *table };
#define STALL_DISABLE "HOROVOD_STALL_CHECK_DISABLE" /* accepted without a row: sets another row to 0 */

const struct halay_config_variable *halay_config_variable(size_t index)
{
    return index < ROWS ? &table[index].variable : NULL;
}

const char *halay_environment_get(const char *name)
{
    return getenv(name);
}

const char *const *halay_environment_all(void)
{
    return (const char *const *)environ;
}

/* ---- one value --------------------------------------------------------------------------------------------------- */

static enum halay_status store_value(const struct row *row, const char *text, struct halay_config *config, char *why,
                                     size_t size)
{
    const struct halay_value_rule rule = { row->type, (double)row->min, (double)row->max, row->variable.choices };

    return halay_value_store(&rule, text, (char *)config + row->offset, why, size);
}

static const struct row *find_variable(const char *name)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (!strcmp(name, row->variable.name))
            return row;
    return NULL;
}

static const char *suggest_variable(const char *name, char to[HALAY_SUGGESTION_BYTES])
{
    const char *names[ROWS + 1];

    for (int i = 0; i < ROWS; i++)
        names[i] = table[i].variable.name;
    names[ROWS] = NULL;
    return halay_suggest(name, names, to);
}

enum halay_status halay_config_set(struct halay_config *config, const char *name, const char *value, char *why,
                                   size_t size)
{
    const struct row *row = find_variable(name);

    if (row)
        return store_value(row, value, config, why, size);
    snprintf(why, size, "'%s' is not a known variable", name);
    return HALAY_ERR_ARGUMENT;
}

enum halay_status halay_config_check(const char *name, const char *value, char *why, size_t size)
{
    struct halay_config scratch = { 0 };
    enum halay_status status = halay_config_set(&scratch, name, value, why, size);

    halay_config_fini(&scratch);
    return status;
}

/* ---- settings of the program's ----------------------------------------------------------------------------------- */

/* Returns the last text that settings ("NAME=value", NULL at the end; may be NULL) have for a name, or NULL. */
static const char *setting_of(const char *const *settings, const char *name)
{
    size_t length = strlen(name);
    const char *text = NULL;

    for (; settings && *settings; settings++)
        if (!strncmp(*settings, name, length) && (*settings)[length] == '=')
            text = *settings + length + 1;
    return text;
}

/* Checks that a program can make this setting; load_row checks its value. */
static enum halay_status check_setting(struct halay_log *log, const char *setting)
{
    char name[128], suggestion[HALAY_SUGGESTION_BYTES];

    if (!strchr(setting, '='))
        return halay_fail(log, HALAY_ERR_CONFIG, "setting '%.100s' has no '='; write for example HALAY_LOG=info",
                          setting);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, "="), setting);
    const struct row *row = find_variable(name);
    if (!row)
        return halay_fail(log, HALAY_ERR_CONFIG, "unknown setting '%s'%s", name, suggest_variable(name, suggestion));
    if (row->variable.is_set_by_launcher)
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "setting '%s' is not the program's to make: halayrun sets it for each rank", name);
    return HALAY_OK;
}

static enum halay_status check_settings(struct halay_log *log, const char *const *settings)
{
    enum halay_status first = HALAY_OK;

    for (; settings && *settings; settings++) {
        enum halay_status status = check_setting(log, *settings);
        if (first == HALAY_OK)
            first = status;
    }
    return first;
}

/* ---- the whole environment --------------------------------------------------------------------------------------- */

/* Returns our name for a choice of Horovod's; the text itself where they are the same. */
static const char *translate_choice(const struct row *row, const char *text)
{
    const char *const *pair = row->horovod_choices;

    for (; pair && *pair; pair += 2)
        if (!strcasecmp(text, pair[0]))
            return pair[1];
    return text;
}

static enum halay_status load_row(struct halay_log *log, const struct row *row, const char *const *settings,
                                  struct halay_config *config)
{
    const char *name = row->variable.name, *text = setting_of(settings, name), *given;
    char why[400] = "";

    enum halay_status status = HALAY_OK;
    if (row->type == HALAY_VALUE_INT && row->variable.is_set_by_launcher)
        memcpy((char *)config + row->offset, &(int){ -1 }, sizeof(int));
    else
        status = store_value(row, row->variable.default_text, config, why, sizeof why);
    if (status != HALAY_OK)
        return status;
    if (!text)
        text = getenv(name);
    given = text;
    if (!text && row->variable.horovod && (given = getenv(row->variable.horovod))) {
        name = row->variable.horovod;
        text = translate_choice(row, given);
    }
    if (!text)
        return HALAY_OK;
    status = store_value(row, text, config, why, sizeof why);
    if (status == HALAY_ERR_CONFIG)
        halay_error(log, "%s: '%.100s' %s", name, given, why);
    return status;
}

static enum halay_status load_stall_disable(struct halay_log *log, const char *const *settings,
                                            struct halay_config *config)
{
    const char *text = getenv(STALL_DISABLE);
    int disable;

    if (!text || getenv("HALAY_STALL_CHECK_TIME") || setting_of(settings, "HALAY_STALL_CHECK_TIME"))
        return HALAY_OK;
    if (halay_parse_bool(text, &disable) != HALAY_OK)
        return halay_fail(log, HALAY_ERR_CONFIG, STALL_DISABLE ": '%.100s' is neither 0 nor 1", text);
    if (disable)
        config->stall_check_ms = 0;
    return HALAY_OK;
}

static enum halay_status check_rank(struct halay_log *log, const struct halay_config *config)
{
    if ((config->rank < 0) != (config->size < 0))
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "HALAY_RANK and HALAY_SIZE go together, but only %s is set; halayrun sets both",
                          config->rank < 0 ? "HALAY_SIZE" : "HALAY_RANK");
    if (config->rank >= 0 && config->rank >= config->size)
        return halay_fail(log, HALAY_ERR_CONFIG, "HALAY_RANK: %d is not below HALAY_SIZE, which is %d", config->rank,
                          config->size);
    return HALAY_OK;
}

static int is_horovod_row(const char *name)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (row->variable.horovod && !strcmp(name, row->variable.horovod))
            return 1;
    return !strcmp(name, STALL_DISABLE);
}

static int starts_with(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

static void note_unknown(struct halay_log *log)
{
    char name[128], suggestion[HALAY_SUGGESTION_BYTES];

    for (char **entry = environ; entry && *entry; entry++) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (starts_with(name, "HALAY_") && !starts_with(name, "HALAY_TFT_") && !find_variable(name))
            halay_warning(log, "unknown variable '%s' in the environment%s", name, suggest_variable(name, suggestion));
        if (starts_with(name, "HOROVOD_") && !is_horovod_row(name))
            halay_info(log, "variable '%s' has no meaning here and is ignored", name);
    }
}

enum halay_status halay_config_load_rest(struct halay_log *log, const char *const *settings,
                                         struct halay_config *config)
{
    struct halay_config loaded = { 0 };
    enum halay_status first = check_settings(log, settings);

    for (const struct row *row = table; row < table + ROWS; row++) {
        enum halay_status status = load_row(log, row, settings, &loaded);
        if (first == HALAY_OK)
            first = status;
        if (row == table && status == HALAY_OK && log) /* HALAY_LOG is the first row */
            log->level = loaded.log_level;
    }
    if (first == HALAY_OK)
        first = load_stall_disable(log, settings, &loaded);
    if (first == HALAY_OK)
        first = check_rank(log, &loaded);
    halay_launchers_find(&loaded.launchers);
    if (first == HALAY_OK)
        note_unknown(log);
    *config = loaded;
    return first;
}

enum halay_status halay_config_load(struct halay_log *log, struct halay_config *config)
{
    struct halay_config loaded;

    enum halay_status status = halay_config_load_rest(log, NULL, &loaded);
    if (status == HALAY_OK)
        *config = loaded;
    else
        halay_config_fini(&loaded);
    return status;
}

static int is_text(const struct row *row)
{
    return row->type == HALAY_VALUE_TEXT || row->type == HALAY_VALUE_NETWORKS;
}

static char **text_of(const struct row *row, struct halay_config *config)
{
    return (char **)((char *)config + row->offset);
}

enum halay_status halay_config_copy(const struct halay_config *from, struct halay_config *to)
{
    enum halay_status status = HALAY_OK;

    *to = *from;
    for (const struct row *row = table; row < table + ROWS; row++) {
        char **text = is_text(row) ? text_of(row, to) : NULL;
        if (text && *text && !(*text = strdup(*text)))
            status = HALAY_ERR_NO_MEMORY;
    }
    return status;
}

void halay_config_fini(struct halay_config *config)
{
    for (const struct row *row = table; row < table + ROWS; row++)
        if (is_text(row)) {
            free(*text_of(row, config));
            *text_of(row, config) = NULL;
        }
}

/* ---- the table as text ------------------------------------------------------------------------------------------- */

static void format_size(size_t value, char *text, size_t size)
{
    static const char units[] = "\0KMGT";
    int unit = 0;

    for (; unit < 4 && value && value % 1024 == 0; unit++)
        value /= 1024;
    snprintf(text, size, "%zu%.1s", value, unit ? &units[unit] : "");
}

static void format_value(const struct row *row, const struct halay_config *config, char *text, size_t size)
{
    const void *field = (const char *)config + row->offset;
    const int *numbers = field;
    const char *const *name = field;

    switch (row->type) {
    case HALAY_VALUE_SIZE:
        format_size(*(const size_t *)field, text, size);
        break;
    case HALAY_VALUE_LONG:
        snprintf(text, size, "%ld", *(const long *)field);
        break;
    case HALAY_VALUE_INT:
        snprintf(text, size, *numbers < 0 ? "-" : "%d", *numbers);
        break;
    case HALAY_VALUE_SECONDS:
        halay_snprintf(text, size, "%g", *numbers / 1000.0);
        break;
    case HALAY_VALUE_CHOICE:
        snprintf(text, size, "%s", row->variable.choices[*numbers]);
        break;
    case HALAY_VALUE_PORTS:
        snprintf(text, size, *numbers ? "%d-%d" : "-", numbers[0], numbers[1]);
        break;
    default:
        snprintf(text, size, "%s", *name ? *name : "-");
    }
}

void halay_config_print(const struct halay_config *config, FILE *out)
{
    char value[128];

    fprintf(out, "%-26s %-12s %-10s %s\n", "variable", "value", "default", "meaning");
    for (const struct row *row = table; row < table + ROWS; row++) {
        const char *usual = row->variable.default_text;
        format_value(row, config, value, sizeof value);
        fprintf(out, "%-26s %-12s %-10s %s", row->variable.name, value, *usual ? usual : "-", row->variable.help);
        if (row->variable.horovod)
            fprintf(out, " (or %s)", row->variable.horovod);
        fputc('\n', out);
    }
}

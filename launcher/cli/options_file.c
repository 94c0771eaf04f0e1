/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of settings: which option each key means, and whether the command line or the environment overrides it.
 */
#include "base/config.h"
#include "base/parse.h"
#include "launcher/cli/horovod.h"
#include "launcher/cli/options_impl.h"
#include "launcher/cli/settings_file.h"
#include "launcher/common/report.h"
#include <stdio.h>
#include <string.h>

/* horovodrun's sections: a key K in one is the option --PREFIXK, unless it is among the names below. */
static const struct {
    const char *section, *prefix;
} sections[] = { { "params", "" },
                 { "library-options", "" },
                 { "autotune", "autotune-" },
                 { "timeline", "timeline-" },
                 { "stall-check", "stall-check-" },
                 { "logging", "log-" } };

static const struct {
    const char *section, *key, *option;
} section_keys[] = { { "autotune", "enabled", "--autotune" },
                     { "timeline", "filename", "--timeline" },
                     { "stall-check", "enabled", "--no-stall-check" }, /* the other way round */
                     { "stall-check", "warning-time-seconds", "--stall-check-time" },
                     { "stall-check", "shutdown-time-seconds", "--stall-shutdown-time" } };

enum {
    SECTIONS = sizeof sections / sizeof *sections,
    SECTION_KEYS = sizeof section_keys / sizeof *section_keys,
    NAMES_MAX = 256,
};

/* Options of this one call, which a file cannot set. */
static int is_for_the_line_only(const struct halay_option *o)
{
    static const size_t members[] = { offsetof(struct options, config_file), offsetof(struct options, version),
                                      offsetof(struct options, check_build), offsetof(struct options, explain),
                                      offsetof(struct options, is_agent),    offsetof(struct options, node_rank),
                                      offsetof(struct options, ssh_keys),    offsetof(struct options, as_rank) };

    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!o->variable && o->offset == members[i])
            return 1;
    return o->kind == HALAY_OPTION_HELP || o->kind == HALAY_OPTION_LIST;
}

static int is_export(const struct halay_option *o)
{
    return !strcmp(o->name, "-x");
}

/* Returns horovodrun's flag for this key if halayrun has no option of that name; NULL otherwise. */
static const struct horovod_flag *find_flag(const struct file_setting *s)
{
    const char *prefix = "";
    char name[128];

    for (int i = 0; s->section && i < SECTION_KEYS; i++)
        if (!strcmp(s->section, section_keys[i].section) && !strcmp(s->key, section_keys[i].key))
            return horovod_flag_find(section_keys[i].option, strlen(section_keys[i].option));
    for (int i = 0; s->section && i < SECTIONS; i++)
        if (!strcmp(s->section, sections[i].section))
            prefix = sections[i].prefix;
    int n = snprintf(name, sizeof name, "--%s%s", prefix, s->key);
    return n < (int)sizeof name ? horovod_flag_find(name, (size_t)n) : NULL;
}

static const struct halay_option *find_prefixed(const char *dashes, const char *prefix, const char *key)
{
    char name[128];
    int n = snprintf(name, sizeof name, "%s%s%s", dashes, prefix, key);

    return n < (int)sizeof name ? halay_command_line_find(&options_line, name, (size_t)n) : NULL;
}

static const struct halay_option *find_key(const struct file_setting *s)
{
    const struct horovod_flag *flag = find_flag(s);
    const struct halay_option *o = NULL;

    if (flag && flag->fate == HOROVOD_TRANSLATED && !flag->value)
        return halay_command_line_find(&options_line, flag->option, strlen(flag->option));
    if (!s->section) {
        o = find_prefixed("--", "", s->key);
        return o ? o : find_prefixed("-", "", s->key);
    }
    for (int i = 0; i < SECTION_KEYS; i++)
        if (!strcmp(s->section, section_keys[i].section) && !strcmp(s->key, section_keys[i].key))
            return halay_command_line_find(&options_line, section_keys[i].option, strlen(section_keys[i].option));
    for (int i = 0; i < SECTIONS && !o; i++)
        if (!strcmp(s->section, sections[i].section))
            o = find_prefixed("--", sections[i].prefix, s->key);
    return o;
}

static int is_section(const char *name)
{
    for (int i = 0; i < SECTIONS; i++)
        if (!strcmp(name, sections[i].section))
            return 1;
    return 0;
}

static int complain_key(const struct options *options, const struct file_setting *s)
{
    const char *names[NAMES_MAX], *what = s->key;
    const struct halay_option *o;
    size_t n = 0;

    if (s->section && !is_section(s->section))
        what = s->section;
    else
        for (int i = 0; s->section && i < SECTION_KEYS; i++)
            if (!strcmp(s->section, section_keys[i].section))
                names[n++] = section_keys[i].key;
    for (int i = 0; (!s->section || what == s->section) && i < SECTIONS; i++)
        names[n++] = sections[i].section;
    for (size_t i = 0; what != s->section && (o = halay_command_line_row(&options_line, i)) && n < NAMES_MAX - 1; i++)
        names[n++] = o->name + strspn(o->name, "-");
    names[n] = NULL;
    const char *nearest = halay_nearest_name(what, names), *kind = what == s->section ? "section" : "key";
    if (nearest)
        report("'%s', line %d: unknown %s '%s'; did you mean '%s'?", options->config_file, s->line, kind, what,
               nearest);
    else
        report("'%s', line %d: unknown %s '%s'; %s", options->config_file, s->line, kind, what,
               what == s->section ? "sections are params, autotune, timeline, stall-check, library-options, logging"
                                  : "keys are the long options without dashes");
    return EXIT_USAGE;
}

/* "A" of "A=1"; the variable that any other option sets; NULL if it sets none. */
static const char *variable_of(const struct halay_option *o, const char *value, char *name, size_t size)
{
    if (!is_export(o))
        return o->variable;
    snprintf(name, size, "%.*s", (int)strcspn(value, "="), value);
    return name;
}

static int is_on_the_line(const struct options *options, const struct halay_option *o, const char *variable)
{
    char name[256];

    for (size_t i = 0; i < options->given_count; i++) {
        const struct given *g = &options->given[i];
        const struct halay_option *other = halay_command_line_find(&options_line, g->option, strlen(g->option));
        const char *set = variable_of(other, g->value, name, sizeof name);
        if (g->line)
            continue;
        if (variable || set ? variable && set && !strcmp(variable, set) : o == other)
            return 1;
    }
    return 0;
}

static int is_in_environment(const char *variable)
{
    const struct halay_config_variable *v;

    if (halay_environment_get(variable))
        return 1;
    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        if (!strcmp(v->name, variable))
            return v->horovod && halay_environment_get(v->horovod);
    return 0;
}

/* Returns the option's value for a truth value of the file; NULL: nothing to set. */
static const char *translate_truth(const struct halay_option *o, const struct file_setting *s, const char *who,
                                   int *code)
{
    static const char *const args[2][2] = { { "off", "0" }, { "on", "1" } };
    char why[256];
    int is_true = 0, is_truth = halay_parse_bool(s->value, &is_true) == HALAY_OK;

    if (!halay_option_has_value(o) && !is_truth) {
        report("%s: '%s' is neither true nor false", who, s->value);
        *code = EXIT_USAGE;
        return NULL;
    }
    if (!halay_option_has_value(o)) {
        int is_turned = s->section && !strcmp(s->key, "enabled");
        return is_true != is_turned ? "" : NULL;
    }
    if (o->take != options_set_variable || !is_truth)
        return s->value;
    for (int i = 0; i < 2 && halay_config_check(o->variable, s->value, why, sizeof why) != HALAY_OK; i++)
        if (halay_config_check(o->variable, args[is_true][i], why, sizeof why) == HALAY_OK)
            return args[is_true][i];
    return s->value;
}

/* Takes a key that is not an option: a flag of horovodrun's, or a mistake. */
static int apply_other(const struct options *options, const struct file_setting *s)
{
    const struct horovod_flag *flag = find_flag(s);
    int is_true, is_off = flag && !flag->values && halay_parse_bool(s->value, &is_true) == HALAY_OK && !is_true;

    if (!flag || flag->fate == HOROVOD_TRANSLATED)
        return complain_key(options, s);
    if (is_off || flag->fate == HOROVOD_ALWAYS)
        return 0;
    if (flag->fate == HOROVOD_REFUSED) {
        report("'%s', line %d: %s: %s", options->config_file, s->line, s->key, flag->text);
        return EXIT_USAGE;
    }
    report("'%s', line %d: %s has no effect: %s", options->config_file, s->line, s->key, flag->text);
    return 0;
}

static int apply_setting(struct options *options, const struct file_setting *s)
{
    char who[512], name[256];
    const struct halay_option *o = find_key(s);
    int code = 0;

    if (!s->section && is_section(s->key) && !*s->value)
        return 0; /* an empty one */
    if (!o)
        return apply_other(options, s);
    snprintf(who, sizeof who, "'%s', line %d: %s", options->config_file, s->line, s->key);
    if (is_for_the_line_only(o)) {
        report("%s belongs on the command line", who);
        return EXIT_USAGE;
    }
    if (s->is_item && !is_export(o)) {
        report("%s takes one value, no list", who);
        return EXIT_USAGE;
    }
    const char *value = translate_truth(o, s, who, &code),
               *variable = value ? variable_of(o, value, name, sizeof name) : NULL;
    if (!value)
        return code;
    struct given *given = options_add_given(options, o, value, s->line);
    if (!given)
        return 1;
    if (is_on_the_line(options, o, variable))
        given->beaten_by = "the command line";
    else if (variable && (!is_export(o) || strchr(value, '=')) && is_in_environment(variable))
        given->beaten_by = "the environment";
    return given->beaten_by ? 0 : options_apply(options, o, who, given->value);
}

int options_apply_file(struct options *options)
{
    struct settings_file file = { 0 };
    int code = options->config_file ? settings_file_load(options->config_file, &file) : 0;

    for (size_t i = 0; !code && i < file.count; i++)
        code = apply_setting(options, &file.settings[i]);
    settings_file_fini(&file);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings: one pass over what was given, one over the table of variables. Lines are in order of precedence: command
 * line, environment, file.
 */
#include "launcher/cli/settings.h"
#include "base/config.h"
#include <string.h>

/* The end of a line: what overrides the setting, if anything does. */
static void print_end(const char *over, FILE *out)
{
    if (over)
        fprintf(out, "; not used, %s overrides it", over);
    fprintf(out, ")\n");
}

static void print_given(const struct options *options, int from_file, FILE *out)
{
    for (size_t i = 0; i < options->given_count; i++) {
        const struct given *g = &options->given[i];
        if (!!g->line != from_file)
            continue;
        fprintf(out, "#   %s%s%s", g->option, *g->value ? " " : "", g->value);
        if (g->line)
            fprintf(out, "  ('%s', line %d", options->config_file, g->line);
        else
            fprintf(out, "  (command line");
        print_end(g->beaten_by, out);
    }
}

/* The option that overrides this variable of the environment, NULL if none does. */
static const char *option_over(const struct options *options, const char *variable)
{
    const char *from = NULL;

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, variable))
            from = options->assignments[i].from;
    return from;
}

static void print_variable(const struct options *options, const struct halay_config_variable *v, FILE *out)
{
    const char *name = halay_environment_get(v->name) ? v->name : v->horovod;
    const char *value = name ? halay_environment_get(name) : NULL, *over = option_over(options, v->name);

    if (!value || v->is_set_by_launcher)
        return;
    if (!strcmp(v->name, "HALAY_SECRET"))
        value = "(not shown)";
    fprintf(out, "#   %s=%s  (environment", name, value);
    print_end(over, out);
}

void settings_print(const struct options *options, FILE *out)
{
    const struct halay_config_variable *v;

    fprintf(out, "# settings, each with its place; all others have their defaults\n");
    print_given(options, 0, out);
    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        print_variable(options, v, out);
    print_given(options, 1, out);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a table of options is for people and for shells: --help, filled to 80 columns, and the list that completions are
 * made from.
 */
#include "base/options.h"
#include <string.h>

enum {
    WIDTH = 80,
    HELP_COLUMN = 28, /* where the help of an option begins */
};

/* Fill lines from the column where the first one is to the width; the text's own ends of lines stay. */
static void print_filled(const char *text, int indent, FILE *out)
{
    int column = indent;

    while (*text) {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
        if (*text == '\n' && text[1]) {
            fprintf(out, "\n%*s", text[1] == '\n' ? 0 : indent, "");
            column = indent;
        }
        text += !!*text;
    }
    fputc('\n', out);
}

static void print_row(const struct halay_option *o, FILE *out)
{
    char value[256], left[400], help[1024];

    halay_option_describe_value(o, value, sizeof value);
    int used = snprintf(left, sizeof left, "  %s%s%s%s%s", o->aliases ? o->aliases : "", o->aliases ? ", " : "",
                        o->name, *value ? " " : "", value);
    if (used > HELP_COLUMN - 2)
        fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
    else
        fprintf(out, "%-*s", HELP_COLUMN, left);
    snprintf(help, sizeof help, o->preset ? "%s (%s)" : "%s", o->help, o->preset);
    print_filled(help, HELP_COLUMN, out);
}

void halay_command_line_print_help(const struct halay_command_line *line, FILE *out)
{
    const struct halay_option *o;
    const char *synopsis = line->synopsis, *before = "usage: ";

    for (int length; *synopsis; synopsis += length + !!synopsis[length], before = "       ") {
        length = (int)strcspn(synopsis, "\n");
        fprintf(out, "%s%s %.*s\n", before, line->command, length, synopsis);
    }
    fputc('\n', out);
    if (line->about)
        print_filled(line->about, 0, out);
    if (line->table->kind != HALAY_OPTION_HEADING)
        fputs("\nOptions:\n", out);
    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        if (o->kind == HALAY_OPTION_HEADING)
            fprintf(out, "\n%s:\n", o->name);
        else if (o->help)
            print_row(o, out);
    }
    if (line->notes) {
        fputc('\n', out);
        print_filled(line->notes, 0, out);
    }
}

void halay_command_line_print_list(const struct halay_command_line *line, FILE *out)
{
    const struct halay_option *o;
    char value[256];

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        if (o->kind == HALAY_OPTION_HEADING || !o->help)
            continue;
        halay_option_describe_value(o, value, sizeof value);
        fputs(o->name, out);
        for (const char *c = o->aliases ? o->aliases : ""; *c; c++)
            if (*c != ' ')
                fprintf(out, "%s%c", c == o->aliases ? "," : "", *c);
        fprintf(out, "\t%s\t%s\n", value, o->help);
    }
}

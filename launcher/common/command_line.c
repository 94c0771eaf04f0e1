/* SPDX-License-Identifier: Apache-2.0
 *
 * A lack of memory is remembered, so that a line of forty arguments needs one check.
 */
#include "launcher/common/command_line.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Takes ownership of word; NULL: its memory could not be allocated. */
static void add_owned(struct args *args, char *word)
{
    char **grown = word && !args->has_failed ? realloc(args->at, (args->count + 2) * sizeof *grown) : NULL;

    if (!grown) {
        free(word);
        args->has_failed = 1;
        return;
    }
    args->at = grown;
    grown[args->count++] = word;
    grown[args->count] = NULL;
}

void args_add(struct args *args, const char *word)
{
    add_owned(args, strdup(word));
}

void args_addf(struct args *args, const char *format, ...)
{
    char *word = NULL;
    va_list list;

    va_start(list, format);
    if (vasprintf(&word, format, list) < 0)
        word = NULL;
    va_end(list);
    add_owned(args, word);
}

void args_add_all(struct args *args, char *const *list)
{
    for (; list && *list; list++)
        args_add(args, *list);
}

/* Reads one word from *text on into room, which is as large as the text; 0 if a quote is not closed. */
static int take_word(const char **text, char *room)
{
    const char *c = *text;

    while (*c && !isspace((unsigned char)*c)) {
        char quote = *c == '\'' || *c == '"' ? *c++ : 0;
        do {
            if (quote && !*c)
                return 0;
            if (quote && *c == quote)
                break;
            if (*c == '\\' && quote != '\'' && c[1])
                c++;
            *room++ = *c++;
        } while (quote);
        c += quote != 0;
    }
    *room = 0;
    *text = c;
    return 1;
}

int args_split(struct args *args, const char *text)
{
    char *room = malloc(strlen(text) + 1);
    int ok = 1;

    if (!room)
        args->has_failed = 1;
    while (room && ok && *(text += strspn(text, " \t\n"))) {
        ok = take_word(&text, room);
        if (ok)
            args_add(args, room);
    }
    free(room);
    return ok;
}

void args_fini(struct args *args)
{
    for (size_t i = 0; i < args->count; i++)
        free(args->at[i]);
    free(args->at);
    *args = (struct args){ 0 };
}

void quote_word(const char *word, FILE *out)
{
    const char *c = word;

    while (*c && (isalnum((unsigned char)*c) || strchr("_-+=./:,@%", *c)))
        c++;
    if (*word && !*c) {
        fputs(word, out);
        return;
    }
    fputc('\'', out);
    for (c = word; *c; c++)
        if (*c == '\'')
            fputs("'\\''", out);
        else
            fputc(*c, out);
    fputc('\'', out);
}

void quote_args(const struct args *args, FILE *out)
{
    for (size_t i = 0; i < args->count; i++) {
        if (i)
            fputc(' ', out);
        quote_word(args->at[i], out);
    }
}

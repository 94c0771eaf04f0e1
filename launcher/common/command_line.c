/* SPDX-License-Identifier: Apache-2.0
 *
 * Words. A lack of memory is remembered, so that a line of forty words needs one check.
 */
#include "launcher/common/command_line.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Takes ownership of word; NULL: its memory could not be allocated. */
static void add_owned(struct words *words, char *word)
{
    char **grown = word && !words->has_failed ? realloc(words->at, (words->count + 2) * sizeof *grown) : NULL;

    if (!grown) {
        free(word);
        words->has_failed = 1;
        return;
    }
    words->at = grown;
    grown[words->count++] = word;
    grown[words->count] = NULL;
}

void words_add(struct words *words, const char *word)
{
    add_owned(words, strdup(word));
}

void words_addf(struct words *words, const char *format, ...)
{
    char *word = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&word, format, args) < 0)
        word = NULL;
    va_end(args);
    add_owned(words, word);
}

void words_add_all(struct words *words, char *const *list)
{
    for (; list && *list; list++)
        words_add(words, *list);
}

/* Read one word from *text on into room, which is as large as the text; 0 if a quote is not closed. */
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

int words_split(struct words *words, const char *text)
{
    char *room = malloc(strlen(text) + 1);
    int ok = 1;

    if (!room)
        words->has_failed = 1;
    while (room && ok && *(text += strspn(text, " \t\n"))) {
        ok = take_word(&text, room);
        if (ok)
            words_add(words, room);
    }
    free(room);
    return ok;
}

void words_fini(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->at[i]);
    free(words->at);
    *words = (struct words){ 0 };
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

void quote_words(const struct words *words, FILE *out)
{
    for (size_t i = 0; i < words->count; i++) {
        if (i)
            fputc(' ', out);
        quote_word(words->at[i], out);
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: a growing list of them, as exec takes it, and the shell's quoting in both directions.
 */
#ifndef HALAY_LAUNCHER_WORDS_H
#define HALAY_LAUNCHER_WORDS_H

#include <stddef.h>
#include <stdio.h>

struct words {
    char **at; /* owned, as are the words; NULL at the end once there is one */
    size_t count;
    int has_failed; /* there was no memory for one: what has been added since is left out */
};

void words_add(struct words *words, const char *word); /* a copy */
void words_addf(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Each up to the NULL; list may be NULL. */
void words_add_all(struct words *words, char *const *list);
/* Splits at blanks, with '...', "..." and \ as in a shell, and nothing else of one; 0 if a quote is not closed. */
int words_split(struct words *words, const char *text);
void words_fini(struct words *words); /* zeroed or filled */

/* As a shell reads it back. */
void quote_word(const char *word, FILE *out);
void quote_words(const struct words *words, FILE *out); /* a blank between two */

#endif

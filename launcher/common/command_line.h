/* SPDX-License-Identifier: Apache-2.0
 *
 * Words: a growing list of them, in the form that exec takes, and a shell's quoting in both directions.
 */
#ifndef HALAY_LAUNCHER_COMMAND_LINE_H
#define HALAY_LAUNCHER_COMMAND_LINE_H

#include <stddef.h>
#include <stdio.h>

struct words {
    char **at; /* owned, as are the words; NULL at the end once there is one */
    size_t count;
    int has_failed; /* memory for a word could not be allocated: it and all later ones are missing */
};

void words_add(struct words *words, const char *word); /* a copy */
void words_addf(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All words up to the NULL; list may be NULL. */
void words_add_all(struct words *words, char *const *list);
/* Split at blanks, with '...', "..." and \ as in a shell but no expansion; 0 if a quote is not closed. */
int words_split(struct words *words, const char *text);
void words_fini(struct words *words); /* zeroed or filled */

/* Quoted so that a shell reads it back. */
void quote_word(const char *word, FILE *out);
void quote_words(const struct words *words, FILE *out); /* separated by blanks */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Args: a growing list of a command's arguments, in the form that exec takes, and a shell's quoting in both directions.
 */
#ifndef HALAY_LAUNCHER_COMMAND_LINE_H
#define HALAY_LAUNCHER_COMMAND_LINE_H

#include <stddef.h>
#include <stdio.h>

struct args {
    char **at; /* owned, as are the arguments; NULL at the end once there is one */
    size_t count;
    int has_failed; /* memory for one could not be allocated: it and all later ones are missing */
};

void args_add(struct args *args, const char *word); /* a copy */
void args_addf(struct args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* All arguments up to the NULL; list may be NULL. */
void args_add_all(struct args *args, char *const *list);
/* Splits at blanks, with '...', "..." and \ as in a shell but no expansion; 0 if a quote is not closed. */
int args_split(struct args *args, const char *text);
void args_fini(struct args *args); /* zeroed or filled */

/* Quoted so that a shell reads it back. */
void quote_word(const char *word, FILE *out);
void quote_args(const struct args *args, FILE *out); /* separated by blanks */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Words about process sets: what a call that makes or removes some asks for, said with the name of all such calls
 * (signature.h), so that the coordinator compares what the ranks ask for as it compares tensors.
 *
 *     make      0 | how many ranks | the ranks, ascending | how many ranks of the next set | ...    all ranks say it
 *     form      1 | how many ranks | the ranks, ascending      these ranks say it, one set
 *     remove    2 | number | its ranks                         they say it
 *     busy      3 | number | its ranks                         as remove, but something of it is in flight here
 *
 * Each set that is formed or removed has a name of its own, so that several may be at the same time.
 */
#ifndef HALAY_SET_WORDS_H
#define HALAY_SET_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { HALAY_SET_MAKE, HALAY_SET_FORM, HALAY_SET_REMOVE, HALAY_SET_BUSY };

/* The ranks that say it, of words that may be any (not aligned): from which word on, and how many; 0: all ranks. */
size_t halay_set_words_members(const void *words, size_t count, size_t *members);

/* In words that follow "rank 3 ": "makes [0,2] [1,3]", "removes 2". Cut to size. */
void halay_set_words_print(const uint64_t *words, size_t count, char *text, size_t size);

/*
 * Sets as a setting has them, "0,1; 2-4,7", as the words that make them, without the 0 at the beginning and not sorted.
 * words may be NULL: then they are only counted. Nonzero if the text is none of this.
 */
int halay_set_words_parse(const char *text, size_t *words, size_t *count);

/* Can it be done in a job of so many ranks? Nonzero if not: *text says what is wrong. Sets by number are not looked
 * up. */
int halay_set_words_fault(const uint64_t *words, size_t count, int ranks, char *text, size_t size);

#endif

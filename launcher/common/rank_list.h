/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank list: some of the ranks, as the user writes them: "0,3-5".
 */
#ifndef HALAY_LAUNCHER_RANK_LIST_H
#define HALAY_LAUNCHER_RANK_LIST_H

enum { RANKS_MAX = 65536 }; /* of a job */

/* Returns the highest rank of the list; -1: not a list. */
int rank_list_last(const char *text);
int rank_list_has(const char *text, int rank); /* text: a list */

#endif

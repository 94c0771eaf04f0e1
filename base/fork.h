/* SPDX-License-Identifier: Apache-2.0
 *
 * Fork: distinguishes a process from its children, which inherit its memory and descriptors and must not act for it.
 */
#ifndef HALAY_BASE_FORK_H
#define HALAY_BASE_FORK_H

/* Returns a byte that is zero in every child forked from now on (Linux 4.14); NULL where the kernel has no such page.
 * */
unsigned char *halay_fork_mark(void);
void halay_fork_unmark(unsigned char *mark); /* NULL is allowed */

/* Returns nonzero in a child of the process that made the mark. */
static inline int halay_is_forked(const unsigned char *mark)
{
    return mark && !*(const volatile unsigned char *)mark;
}

#endif

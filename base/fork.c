/* SPDX-License-Identifier: Apache-2.0
 *
 * Fork: a page that the kernel empties in a child. References: madvise(2), MADV_WIPEONFORK.
 */
#include "base/fork.h"
#include "base/memory.h"
#include <sys/mman.h>

unsigned char *halay_fork_mark(void)
{
    void *page = mmap(NULL, HALAY_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, HALAY_PAGE, MADV_WIPEONFORK)) {
        munmap(page, HALAY_PAGE);
        return NULL;
    }
    *(unsigned char *)page = 1;
    return page;
}

void halay_fork_unmark(unsigned char *mark)
{
    if (mark)
        munmap(mark, HALAY_PAGE);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: /proc has the open ones; without it they count as 0.
 */
#include "base/machine/descriptors.h"
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

/* Counts open descriptors, without ".", ".." and the one that it opens itself; `limit` if that one is too many. */
static size_t count_open(size_t limit)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    if (!folder)
        return errno == EMFILE ? limit : 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count > 3 ? count - 3 : 0;
}

enum halay_status halay_descriptors_allow(struct halay_log *log, size_t more, const char *what)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return HALAY_OK;
    size_t open = count_open((size_t)limit.rlim_cur), wanted = open + more;
    if (limit.rlim_cur >= wanted)
        return HALAY_OK;
    rlim_t soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max >= wanted && setrlimit(RLIMIT_NOFILE, &limit) == 0) {
        halay_info(log, "limit of descriptors raised from %llu to %llu (ulimit -n)", (unsigned long long)soft,
                   (unsigned long long)limit.rlim_max);
        return HALAY_OK;
    }
    return halay_fail(log, HALAY_ERR_SYSTEM,
                      "too few descriptors: %zu more are needed for %s, %zu are open, and the limit is %llu; raise it "
                      "(ulimit -Hn)",
                      more, what, open, (unsigned long long)limit.rlim_max);
}

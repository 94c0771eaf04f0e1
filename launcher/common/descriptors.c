/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors: two streams and a connection for each rank, three for each host, and halayrun's own. Ranks inherit the
 * limit, so it is not raised further than needed: some programs cannot handle large numbers.
 */
#include "launcher/common/descriptors.h"
#include <sys/resource.h>

enum { OWN = 512 };

void descriptors_allow(size_t ranks, size_t hosts)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)ranks * 3 + (rlim_t)hosts * 3 + OWN;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

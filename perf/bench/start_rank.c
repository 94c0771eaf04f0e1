/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that perf/bench/start times: it opens a group and reduces one number. Rank 0 prints the second of
 * CLOCK_MONOTONIC at which it had the sum.
 */
#include <halay_coll.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
    struct halay_group *group = NULL;
    struct timespec t;
    float one = 1, sum = 0;
    enum halay_status status = halay_group_open(NULL, &group);

    if (status == HALAY_OK)
        status = halay_group_allreduce(group, &one, &sum, 1, HALAY_F32, HALAY_SUM);
    clock_gettime(CLOCK_MONOTONIC, &t);
    int is_wrong = status == HALAY_OK && sum != (float)halay_group_size(group);
    if (status != HALAY_OK || is_wrong)
        fprintf(stderr, "start_rank: %s\n", is_wrong ? "the sum is wrong" : halay_status_string(status));
    else if (halay_group_rank(group) == 0)
        printf("%.6f\n", (double)t.tv_sec + (double)t.tv_nsec / 1e9);
    halay_group_close(group);
    return status != HALAY_OK || is_wrong;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that perf/bench/start times: it opens a group and reduces one number. Rank 0 prints the second of
 * CLOCK_MONOTONIC at which it had the sum, and the most that a rank has then: MB of memory of its own (what it shares
 * with others is not counted), and open descriptors.
 */
#include <dirent.h>
#include <halay_coll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static float own_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident = 0, shared = 0;

    if (file && fscanf(file, "%ld %ld %ld", &size, &resident, &shared) != 3)
        resident = shared = 0;
    if (file)
        fclose(file);
    return (float)((double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) / 1e6);
}

static float descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = folder ? -3 : 0; /* ".", "..", and the folder's own */

    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return (float)n;
}

int main(void)
{
    struct halay_group *group = NULL;
    struct timespec t;
    float one = 1, sum = 0;
    enum halay_status status = halay_group_open(NULL, &group);

    if (status == HALAY_OK)
        status = halay_group_allreduce(group, &one, &sum, 1, HALAY_F32, HALAY_SUM);
    clock_gettime(CLOCK_MONOTONIC, &t);
    float have[] = { own_mb(), descriptors() }, most[2];
    if (status == HALAY_OK)
        status = halay_group_allreduce(group, have, most, 2, HALAY_F32, HALAY_MAX);
    int is_wrong = status == HALAY_OK && sum != (float)halay_group_size(group);
    if (status != HALAY_OK || is_wrong)
        fprintf(stderr, "start_rank: %s\n", is_wrong ? "the sum is wrong" : halay_status_string(status));
    else if (halay_group_rank(group) == 0)
        printf("%.6f %.1f %.0f\n", (double)t.tv_sec + (double)t.tv_nsec / 1e9, (double)most[0], (double)most[1]);
    halay_group_close(group);
    return status != HALAY_OK || is_wrong;
}

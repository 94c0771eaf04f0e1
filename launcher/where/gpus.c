/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: the driver has a folder for each, named by its address on the bus.
 */
#include "launcher/where/gpus.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

int gpus_count(const char *root)
{
    char path[PATH_MAX];
    int count = 0;

    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

int gpus_of_rank(int gpus, int local_rank)
{
    return local_rank % gpus;
}

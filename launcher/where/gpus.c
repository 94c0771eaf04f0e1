/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: the driver has a folder for each, named by its address on the bus. Under gVisor and in some containers that
 * list is empty; then the devices that a program would open are counted, /dev/nvidia0 and so on.
 */
#include "launcher/where/gpus.h"
#include "launcher/common/report.h"
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static int is_listed(const char *name)
{
    return *name != '.';
}

/* Not nvidiactl, nvidia-uvm, nvidia-caps. */
static int is_device(const char *name)
{
    return !strncmp(name, "nvidia", 6) && isdigit((unsigned char)name[6]);
}

static int count_entries(const char *root, const char *folder, int (*counts)(const char *name))
{
    char path[PATH_MAX];
    int count = 0;

    snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *stream = opendir(path);
    if (!stream)
        return 0;
    for (const struct dirent *entry; (entry = readdir(stream));)
        count += counts(entry->d_name);
    closedir(stream);
    return count;
}

int gpus_count(const char *root)
{
    int count = count_entries(root, "/proc/driver/nvidia/gpus", is_listed);

    if (!count && (count = count_entries(root, "/dev", is_device)) > 0)
        report("the driver lists no GPUs in /proc/driver/nvidia/gpus: counted /dev/nvidia0 and so on, %d", count);
    return count;
}

int gpus_of_rank(int gpus, int local_rank)
{
    return local_rank % gpus;
}

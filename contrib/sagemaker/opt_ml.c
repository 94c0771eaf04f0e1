/* SPDX-License-Identifier: Apache-2.0
 *
 * The failure file is written under another name, then linked (the first one stays) or renamed.
 */
#include "contrib/sagemaker/opt_ml.h"
#include "base/config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const char *opt_ml_root(void)
{
    const char *root = halay_environment_get("HALAY_OPT_ML");

    return root && *root ? root : "/opt/ml";
}

void opt_ml_path(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", opt_ml_root(), name);
}

/* The first one stays. Renamed where the file system has no links. */
static void keep_first(const char *beside, const char *path)
{
    if (link(beside, path) < 0 && errno != EEXIST && access(path, F_OK) < 0)
        rename(beside, path);
}

void opt_ml_write_failure(const char *text, int replaces)
{
    char path[PATH_MAX], beside[PATH_MAX + 32];

    opt_ml_path("output", path, sizeof path);
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return;
    opt_ml_path("output/failure", path, sizeof path);
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(beside, "we");
    if (!file)
        return;
    fputs(text, file);
    int is_whole = fclose(file) == 0;
    if (is_whole && replaces)
        rename(beside, path);
    else if (is_whole)
        keep_first(beside, path);
    unlink(beside);
}

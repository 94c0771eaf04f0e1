/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure: written beside its name, then linked (the first one stays) or renamed.
 */
#include "launcher/sagemaker/failure.h"
#include "base/config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const char *failure_root(void)
{
    const char *root = halay_environment_get("HALAY_OPT_ML");

    return root && *root ? root : "/opt/ml";
}

void failure_write(const char *text, int replaces)
{
    char path[PATH_MAX], beside[PATH_MAX + 32];

    snprintf(path, sizeof path, "%s/output", failure_root());
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return;
    snprintf(path, sizeof path, "%s/output/failure", failure_root());
    snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(beside, "we");
    if (!file)
        return;
    fputs(text, file);
    int failed = fclose(file) != 0;
    if (!failed && !replaces)
        failed = link(beside, path) < 0 && errno != EEXIST && access(path, F_OK) < 0 && rename(beside, path) < 0;
    else if (!failed)
        failed = rename(beside, path) < 0;
    unlink(beside);
}

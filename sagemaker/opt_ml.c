/* SPDX-License-Identifier: Apache-2.0
 *
 * The container's folder. The first failure file stays, unless a later one replaces it.
 */
#include "sagemaker/opt_ml.h"
#include "base/config.h"
#include "base/output_file.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

const char *opt_ml_root(void)
{
    const char *root = halay_environment_get("HALAY_OPT_ML");

    return root && *root ? root : "/opt/ml";
}

void opt_ml_path(const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", opt_ml_root(), name);
}

void opt_ml_write_failure(const char *text, int replaces)
{
    char path[PATH_MAX];
    struct halay_output out;

    opt_ml_path("output", path, sizeof path);
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        return;
    opt_ml_path("output/failure", path, sizeof path);
    if (halay_output_open(NULL, path, &out))
        return;
    out.keeps_first = !replaces;
    fputs(text, out.file);
    (void)halay_output_commit(&out); /* the job fails in any case */
}

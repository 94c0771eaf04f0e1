/* SPDX-License-Identifier: Apache-2.0
 *
 * Environment: a program should find on other hosts what it would find here, but not this host's home, display or
 * devices. Where halayrun was started on every node (join.h) each has an environment of its own, and only halay's
 * settings are the same.
 */
#include "launcher/cli/environment.h"
#include "base/config.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A trailing '*' matches any rest. */
static const char *const kept_here[] = {
    "BASH_FUNC_*",
    "CUDA_VISIBLE_DEVICES",
    "DBUS_*",
    "DISPLAY",
    "HALAY_OPT_ML",
    "HALAY_SECRET",
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "MAIL",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "SLURMD_NODENAME",
    "SLURM_GTIDS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
    "SM_*",
    "SSH_*",
    "TMPDIR",
    "USER",
    "WAYLAND_DISPLAY",
    "WINDOWID",
    "XAUTHORITY",
    "XDG_*",
    "_",
};

static int fits(const char *pattern, const char *name, size_t length)
{
    size_t most = strlen(pattern);

    if (pattern[most - 1] == '*')
        return length >= most - 1 && !strncmp(pattern, name, most - 1);
    return length == most && !strncmp(pattern, name, length);
}

static int is_passed_on(const struct options *options, const char *variable)
{
    size_t length = strcspn(variable, "=");

    for (size_t i = 0; i < options->assignment_count; i++)
        if (fits(options->assignments[i].name, variable, length))
            return 1;
    for (size_t i = 0; i < sizeof kept_here / sizeof *kept_here; i++)
        if (fits(kept_here[i], variable, length))
            return 0;
    if ((options->max_restarts || options->least_nodes) &&
        fits("TORCHELASTIC_*", variable, length)) /* which start this is */
        return 1;
    return !options->joined || fits("HALAY_*", variable, length);
}

char **passed_on_environment(const struct options *options)
{
    const char *const *all = halay_environment_all();
    size_t count = 0, kept = 0;

    while (all[count])
        count++;
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (is_passed_on(options, all[i]))
            list[kept++] = (char *)(uintptr_t)all[i]; /* only read */
    return list;
}

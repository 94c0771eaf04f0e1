/* SPDX-License-Identifier: Apache-2.0
 *
 * Python program. Its output is unbuffered, as under torchrun: lines show at once.
 */
#include "launcher/cli/python_program.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file in the folder where ranks start. Without a slash it is not looked for in PATH, if it is there. */
static int is_script(const char *program, const char *folder)
{
    static const char end[] = ".py";
    const size_t length = strlen(program);
    char path[PATH_MAX];

    if (length < sizeof end || strcmp(program + length - (sizeof end - 1), end))
        return 0;
    const int is_below = folder && *program != '/';
    snprintf(path, sizeof path, "%s%s%s", is_below ? folder : "", is_below ? "/" : "", program);
    return access(path, F_OK) == 0 && (!strchr(program, '/') || access(path, X_OK));
}

char **python_program_args(char **command, const char *folder, int is_module, int *is_out_of_memory)
{
    static char python[] = "python3", unbuffered[] = "-u", module[] = "-m";
    size_t count = 0, n = 0;

    *is_out_of_memory = 0;
    if (!*command || (!is_module && !is_script(*command, folder)))
        return NULL;
    while (command[count])
        count++;
    char **args = calloc(count + 4, sizeof *args);
    if (!args) {
        *is_out_of_memory = 1;
        return NULL;
    }
    args[n++] = python;
    args[n++] = unbuffered;
    if (is_module)
        args[n++] = module;
    memcpy(args + n, command, count * sizeof *command);
    return args;
}

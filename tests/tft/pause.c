/* SPDX-License-Identifier: Apache-2.0
 *
 * A library to be preloaded: the first process that gives a file the name of PAUSE_AT (the last part of its path, by
 * rename) writes its number into "PAUSE_IN/pid" and waits there until the pipe "PAUSE_IN/on" is opened for writing.
 * Signals reach it as ever. A test has all the time that it needs to send one, however short the program's work is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The whole number is there as soon as the name is; a process that finds the name taken is not the first. */
static int is_first(const char *folder)
{
    char path[4096], beside[4096];

    snprintf(path, sizeof path, "%s/pid", folder);
    snprintf(beside, sizeof beside, "%s/pid.%ld", folder, (long)getpid());
    FILE *file = fopen(beside, "we");
    if (!file)
        return 0;
    fprintf(file, "%ld\n", (long)getpid());
    return !fclose(file) && !link(beside, path);
}

static void pause_in(const char *folder)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/on", folder);
    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd >= 0)
        close(fd);
}

__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
    const char *name = getenv("PAUSE_AT"), *folder = getenv("PAUSE_IN"), *last = strrchr(to, '/');
    int failed = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    int error = errno;

    if (!failed && name && folder && !strcmp(last ? last + 1 : to, name) && is_first(folder))
        pause_in(folder);
    errno = error;
    return failed;
}

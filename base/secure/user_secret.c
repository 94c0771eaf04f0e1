/* SPDX-License-Identifier: Apache-2.0
 *
 * User's secret: the file is written under another name and linked into place, so that no host sees half of it, and the
 * first of several wins.
 */
#include "base/secure/user_secret.h"
#include "base/config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWN_BYTES = 32, FILE_MAX = 1 << 12 };

int halay_user_secret_path(char path[PATH_MAX])
{
    const char *config = halay_environment_get("XDG_CONFIG_HOME"), *home = halay_environment_get("HOME");
    int n = PATH_MAX;

    if (config && *config == '/')
        n = snprintf(path, PATH_MAX, "%s/halay/secret", config);
    else if (home && *home == '/')
        n = snprintf(path, PATH_MAX, "%s/.config/halay/secret", home);
    return n < PATH_MAX - 16; /* there is room for a draft's name */
}

/* The folder of a path, and that folder's. They may be there, and need not be: opening the file will tell. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];

    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    char *last = strrchr(folder, '/');
    *last = 0;
    if (*folder)
        mkdir(folder, S_IRWXU);
    *last = '/';
    mkdir(folder, S_IRWXU);
}

static int write_random(int fd)
{
    unsigned char drawn[OWN_BYTES];
    char text[2 * OWN_BYTES + 2];

    if (halay_store_draw_secret(NULL, drawn) != HALAY_OK) {
        errno = EIO;
        return 0;
    }
    for (size_t i = 0; i < sizeof drawn; i++) /* as text, which can be copied by hand */
        snprintf(text + 2 * i, 3, "%02x", drawn[i]);
    text[2 * OWN_BYTES] = '\n';
    int ok = write(fd, text, 2 * OWN_BYTES + 1) == 2 * OWN_BYTES + 1 && fsync(fd) == 0;
    explicit_bzero(drawn, sizeof drawn);
    explicit_bzero(text, sizeof text);
    return ok;
}

int halay_user_secret_make(const char *path)
{
    char draft[PATH_MAX];

    make_folders(path);
    snprintf(draft, sizeof draft, "%.*s.XXXXXX", (int)sizeof draft - 8, path);
    int fd = mkostemp(draft, O_CLOEXEC); /* with mode 0600 */
    if (fd < 0)
        return 0;
    int ok = write_random(fd) && (link(draft, path) == 0 || errno == EEXIST), error = errno;
    close(fd);
    unlink(draft);
    errno = error;
    return ok;
}

/* Bytes that may be text become a key of the same strength, random ones one at no cost. */
static enum halay_status key_of(struct halay_log *log, const char *bytes, size_t count, int is_text, const char *source,
                                unsigned char key[HALAY_SECRET_BYTES])
{
    if (count < HALAY_USER_SECRET_MIN)
        return halay_fail(log, HALAY_ERR_CONFIG, "%s has %zu bytes; expected at least %d that cannot be guessed",
                          source, count, HALAY_USER_SECRET_MIN);
    if (is_text || count < HALAY_SECRET_BYTES)
        return halay_stretch_text(log, bytes, count, key);
    return halay_derive_secret(log, &(struct halay_secret_part){ bytes, count }, 1, key);
}

static enum halay_status find_file(struct halay_log *log, char path[PATH_MAX])
{
    if (!halay_user_secret_path(path))
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "no secret: HOME names no folder to keep one in; give all ranks the same HALAY_SECRET");
    if (access(path, F_OK) == 0 || halay_user_secret_make(path))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_SYSTEM, "cannot make '%s': %s; give all ranks the same HALAY_SECRET", path,
                      strerror(errno));
}

enum halay_status halay_user_secret_key(struct halay_log *log, const char *word, unsigned char key[HALAY_SECRET_BYTES])
{
    char path[PATH_MAX], why[PATH_MAX + 256], bytes[FILE_MAX];
    size_t count;

    if (word)
        return key_of(log, word, strlen(word), 1, "HALAY_SECRET", key);
    enum halay_status status = find_file(log, path);
    if (status != HALAY_OK)
        return status;
    status = halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why);
    if (status == HALAY_OK)
        status = key_of(log, bytes, count, 0, path, key);
    else
        halay_error(log, "secret file: %s", why);
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Secret: files, text, parts.
 */
#include "base/secure/secret.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum halay_status halay_derive_secret(struct halay_log *log, const struct halay_secret_part *parts, size_t count,
                                      unsigned char secret[HALAY_SECRET_BYTES])
{
    crypto_generichash_state state;

    if (sodium_init() < 0 || crypto_generichash_init(&state, NULL, 0, HALAY_SECRET_BYTES))
        return halay_fail(log, HALAY_ERR_SYSTEM, "libsodium cannot be initialised");
    for (size_t i = 0; i < count; i++) { /* with its length, so that no two lists of parts are one text */
        unsigned char length[8];
        for (int b = 0; b < 8; b++)
            length[b] = (unsigned char)((unsigned long long)parts[i].count >> 8 * b);
        crypto_generichash_update(&state, length, sizeof length);
        crypto_generichash_update(&state, parts[i].bytes, parts[i].count);
    }
    crypto_generichash_final(&state, secret, HALAY_SECRET_BYTES);
    sodium_memzero(&state, sizeof state);
    return HALAY_OK;
}

enum halay_status halay_stretch_text(struct halay_log *log, const char *text, size_t count,
                                     unsigned char key[HALAY_SECRET_BYTES])
{
    static const unsigned char salt[crypto_pwhash_SALTBYTES + 1] = "halay text key 1";

    if (sodium_init() < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "libsodium cannot be initialised");
    if (crypto_pwhash(key, HALAY_SECRET_BYTES, text, count, salt, crypto_pwhash_OPSLIMIT_INTERACTIVE,
                      crypto_pwhash_MEMLIMIT_INTERACTIVE, crypto_pwhash_ALG_ARGON2ID13))
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory to make a key from text: it takes %u MiB",
                          (unsigned)(crypto_pwhash_MEMLIMIT_INTERACTIVE >> 20));
    return HALAY_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static enum halay_status check_private(int fd, const char *path, char *why, size_t room)
{
    struct stat about;

    if (fstat(fd, &about) < 0) {
        snprintf(why, room, "cannot look at '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    if (!S_ISREG(about.st_mode) && !S_ISFIFO(about.st_mode))
        return HALAY_OK; /* a terminal */
    if (about.st_uid != geteuid() && about.st_uid != 0) {
        snprintf(why, room, "'%s' belongs to user %u, who can read and change it: use a file of your own", path,
                 (unsigned)about.st_uid);
        return HALAY_ERR_AUTH;
    }
    /* Only root can have given its file to our group: Kubernetes does with fsGroup. */
    mode_t open_to = about.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IWGRP | S_IXGRP | S_IRWXO;
    if (about.st_mode & open_to) {
        snprintf(why, room,
                 "other users can read or change '%s' (mode %04o): chmod 600 it (defaultMode: 0400 where Kubernetes "
                 "mounts it)",
                 path, (unsigned)about.st_mode & 07777);
        return HALAY_ERR_AUTH;
    }
    return HALAY_OK;
}

enum halay_status halay_private_file_read(const char *path, void *bytes, size_t size, size_t *count, char *why,
                                          size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    ssize_t n = 1;

    if (fd < 0) {
        snprintf(why, room, "cannot open '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    enum halay_status status = check_private(fd, path, why, room);
    while (status == HALAY_OK && have < size && n) {
        n = read(fd, (char *)bytes + have, size - have);
        if (n > 0)
            have += (size_t)n;
        else if (n < 0 && errno != EINTR)
            status = HALAY_ERR_SYSTEM;
    }
    if (n < 0 && status != HALAY_OK)
        snprintf(why, room, "cannot read '%s': %s", path, strerror(errno));
    close(fd);
    if (status == HALAY_OK)
        *count = have;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's secret: drawn once by the launcher, kept in a sealed memory file that the ranks inherit. It has no name in
 * any file system and is in no command line and no environment.
 */
#include "base/store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum halay_status halay_store_keep_secret(struct halay_log *log, const unsigned char secret[HALAY_SECRET_BYTES],
                                          int *fd)
{
    int file = memfd_create("halay-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot create the file of the job's secret: %s", strerror(errno));
    if (write(file, secret, HALAY_SECRET_BYTES) != HALAY_SECRET_BYTES ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        halay_error(log, "cannot write the file of the job's secret: %s", strerror(errno));
        close(file);
        return HALAY_ERR_SYSTEM;
    }
    *fd = file;
    return HALAY_OK;
}

enum halay_status halay_store_draw_secret(struct halay_log *log, unsigned char secret[HALAY_SECRET_BYTES])
{
    if (sodium_init() < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "libsodium cannot be initialised");
    randombytes_buf(secret, HALAY_SECRET_BYTES);
    return HALAY_OK;
}

enum halay_status halay_store_create_secret(struct halay_log *log, unsigned char secret[HALAY_SECRET_BYTES], int *fd)
{
    unsigned char bytes[HALAY_SECRET_BYTES];

    enum halay_status status = halay_store_draw_secret(log, bytes);
    if (status == HALAY_OK)
        status = halay_store_keep_secret(log, bytes, fd);
    if (status == HALAY_OK)
        memcpy(secret, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
    return status;
}

enum halay_status halay_store_read_secret(struct halay_log *log, int fd, unsigned char secret[HALAY_SECRET_BYTES])
{
    unsigned char bytes[HALAY_SECRET_BYTES + 1];
    ssize_t n;

    do
        n = pread(fd, bytes, sizeof bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return halay_fail(
            log, HALAY_ERR_SYSTEM,
            "cannot read the job's secret from descriptor %d: %s; was it closed on the way from halayrun?", fd,
            strerror(errno));
    if (n != HALAY_SECRET_BYTES) {
        halay_error(log, "descriptor %d holds no secret of a job: it has %s than %d bytes", fd,
                    n < HALAY_SECRET_BYTES ? "less" : "more", HALAY_SECRET_BYTES);
        sodium_memzero(bytes, sizeof bytes);
        return HALAY_ERR_FORMAT;
    }
    memcpy(secret, bytes, HALAY_SECRET_BYTES);
    sodium_memzero(bytes, sizeof bytes);
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* it is open: this cannot fail */
    return HALAY_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A key-value store in a folder, as a program might bring one (struct halay_rendezvous): one file a key, which appears
 * when it is whole. For ranks as threads and as processes. A call of a rank's can be made to fail.
 */
#ifndef HALAY_TEST_FOLDER_STORE_H
#define HALAY_TEST_FOLDER_STORE_H

#include "base/clock.h"
#include "halay_types.h"
#include "tests/test.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One rank's way to it. */
struct folder_store {
    const char *folder;
    int calls;                 /* so far */
    int fails_at;              /* the number of the call that fails; 0: none */
    enum halay_status failure; /* what it returns */
    int used_twice;            /* a key was put that was there */
};

static inline void folder_path(const struct folder_store *store, const char *key, const char *more, char path[512])
{
    int length = snprintf(path, 512, "%s/%s%s", store->folder, key, more);

    REQUIRE(length > 0 && length < 512);
    for (char *p = path + strlen(store->folder) + 1; *p; p++)
        if (*p == '/')
            *p = '-';
}

static inline enum halay_status folder_put(void *arg, const char *key, const void *value, size_t bytes)
{
    struct folder_store *store = arg;
    char path[512], whole[512];

    if (++store->calls == store->fails_at)
        return store->failure;
    folder_path(store, key, ".part", path);
    folder_path(store, key, "", whole);
    store->used_twice |= access(whole, F_OK) == 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    REQUIRE(fd >= 0 && write(fd, value, bytes) == (ssize_t)bytes && close(fd) == 0 && rename(path, whole) == 0);
    return HALAY_OK;
}

static inline enum halay_status folder_get(void *arg, const char *key, void *value, size_t bytes, int timeout_ms)
{
    struct folder_store *store = arg;
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    char path[512];
    int fd;

    if (++store->calls == store->fails_at)
        return store->failure;
    REQUIRE(timeout_ms >= 0);
    folder_path(store, key, "", path);
    while ((fd = open(path, O_RDONLY)) < 0) {
        if (halay_deadline_passed(deadline_us))
            return HALAY_ERR_TIMEOUT;
        usleep(500);
    }
    ssize_t n = read(fd, value, bytes);
    REQUIRE(close(fd) == 0);
    return n == (ssize_t)bytes ? HALAY_OK : HALAY_ERR_FORMAT;
}

static inline void folder_make(char folder[32])
{
    strcpy(folder, "/tmp/halay-test-XXXXXX");
    REQUIRE(mkdtemp(folder));
}

static inline void folder_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[512];

    REQUIRE(dir);
    while ((entry = readdir(dir)))
        if (*entry->d_name != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            REQUIRE(unlink(path) == 0);
        }
    closedir(dir);
    REQUIRE(rmdir(folder) == 0);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The place is a port of an address, or a file. An existing file is replaced if it is a socket that no process listens
 * at: a server that was killed leaves one.
 */
#include "base/http/http_where.h"
#include "base/net/address.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 256 };

static const char unix_prefix[] = "unix:";

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Returns nonzero if the path is a socket that no process listens at. */
static int is_left_over(const struct sockaddr_un *address)
{
    struct stat info;
    int fd, refused;

    if (lstat(address->sun_path, &info) || !S_ISSOCK(info.st_mode))
        return 0;
    fd = new_socket(AF_UNIX);
    refused = fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static enum halay_status open_file(struct halay_log *log, const char *path, struct halay_http_place *place)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (!*path || strlen(path) >= sizeof address.sun_path)
        return halay_fail(log, HALAY_ERR_CONFIG, "a socket's path has 1 to %zu characters, not %zu: '%s'",
                          sizeof address.sun_path - 1, strlen(path), path);
    memcpy(address.sun_path, path, strlen(path));
    place->fd = new_socket(AF_UNIX);
    if (place->fd < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot create a socket: %s", strerror(errno));
    if (is_left_over(&address))
        unlink(path);
    /* The mode must hold from the first moment: a file gets that of its socket, less the umask. */
    if (fchmod(place->fd, S_IRUSR | S_IWUSR) || bind(place->fd, (const struct sockaddr *)&address, sizeof address))
        return halay_fail(log, HALAY_ERR_CONFIG, "cannot listen at '%s': %s", path, strerror(errno));
    place->unix_path = strdup(path);
    if (!place->unix_path) {
        unlink(path);
        return HALAY_ERR_NO_MEMORY;
    }
    place->is_local = 1;
    snprintf(place->text, sizeof place->text, "%s%s", unix_prefix, path);
    return HALAY_OK;
}

/* Splits "8080", "localhost:8080", "[::1]:8080" into host ("" if absent) and port; returns zero for another form. */
static int split_where(const char *where, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(where, ':'), *end;
    char *stop;
    long number;

    *port = colon ? colon + 1 : where;
    end = colon ? colon : where;
    if (*where == '[' && end > where && end[-1] == ']') {
        where++;
        end--;
    } else if (memchr(where, ':', (size_t)(end - where))) {
        return 0; /* an address with colons and no brackets */
    }
    if (end < where || (size_t)(end - where) >= size || (colon && end == where))
        return 0;
    memcpy(host, where, (size_t)(end - where));
    host[end - where] = '\0';
    errno = 0;
    number = strtol(*port, &stop, 10);
    return **port >= '0' && **port <= '9' && !*stop && !errno && number <= 65535;
}

static void name_address(int fd, struct halay_http_place *place)
{
    struct halay_address address;
    char name[HALAY_ADDRESS_TEXT] = "?";

    if (halay_socket_address(fd, &address) == 0) {
        place->is_local = halay_address_is_loopback(&address);
        halay_address_text(&address, name, sizeof name);
    }
    snprintf(place->text, sizeof place->text, "http://%s", name);
}

static enum halay_status open_port(struct halay_log *log, const char *where, struct halay_http_place *place)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found;
    char host[256];
    const char *port;
    int error, one = 1;

    if (!split_where(where, host, sizeof host, &port))
        return halay_fail(log, HALAY_ERR_CONFIG,
                          "cannot listen at '%s'; expected PORT, HOST:PORT, [ADDRESS]:PORT or unix:PATH", where);
    error = getaddrinfo(*host ? host : "127.0.0.1", port, &hints, &found);
    if (error)
        return halay_fail(log, HALAY_ERR_CONFIG, "unknown host '%s': %s", host, gai_strerror(error));
    place->fd = new_socket(found->ai_family);
    error = place->fd < 0 || setsockopt(place->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
            bind(place->fd, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (error)
        return halay_fail(log, HALAY_ERR_CONFIG, "cannot listen at '%s': %s", where, strerror(errno));
    name_address(place->fd, place);
    return HALAY_OK;
}

enum halay_status halay_http_place_open(struct halay_log *log, const char *where, struct halay_http_place *place)
{
    size_t prefix = sizeof unix_prefix - 1;
    enum halay_status status;

    *place = (struct halay_http_place){ .fd = -1 };
    status = strncmp(where, unix_prefix, prefix) ? open_port(log, where, place) : open_file(log, where + prefix, place);
    if (!status && listen(place->fd, BACKLOG))
        status = halay_fail(log, HALAY_ERR_CONFIG, "cannot listen at '%s': %s", where, strerror(errno));
    return status;
}

void halay_http_place_fini(struct halay_http_place *place)
{
    if (place->fd >= 0)
        close(place->fd);
    if (place->unix_path)
        unlink(place->unix_path);
    free(place->unix_path);
    *place = (struct halay_http_place){ .fd = -1 };
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Store client: blocking calls over a non-blocking socket, every wait with a deadline.
 *
 * A get that times out leaves the client usable: what has arrived of an answer stays in the buffer and is read on by
 * the next call, which knows by the number that the answer is not its own. Anything else that goes wrong (the server
 * gone, a message that does not check) breaks the client: later calls return the first status. Cleanup: close accepts
 * any half-built state.
 */
#include "base/clock.h"
#include "base/net/address.h"
#include "base/net/socket.h"
#include "base/store/store_protocol.h"
#include <errno.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A store that is overloaded may close a connection before this side has proved itself: try again until the time is up,
 * with pauses that grow. */
enum { FIRST_PAUSE_MS = 10, PAUSE_MAX_MS = 500 };

struct halay_store_client {
    struct halay_log *log; /* borrowed */
    const char *network;   /* borrowed for the opening */
    int fd;
    int rank;
    int timeout_ms; /* of a set, and of sending a get */
    enum halay_status broken;
    struct store_direction in, out;
    uint32_t number;       /* of the newest request */
    unsigned char *buffer; /* owned: the answer that is arriving, STORE_MESSAGE_MAX bytes at most */
    size_t room, have;
    char address[96];
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static enum halay_status client_break(struct halay_store_client *client, enum halay_status status, const char *what)
{
    halay_error(client->log, "store: '%s' %s", client->address, what);
    client->broken = status;
    return status;
}

/* Logs why a wait failed; errno is that of the wait. */
static void report_wait(const struct halay_store_client *client)
{
    halay_error(client->log, "store: cannot wait for '%s': %s", client->address, strerror(errno));
}

/* Logs that nothing was received within the time that the program gives. */
static void report_silence(const struct halay_store_client *client)
{
    halay_error(client->log,
                "store: '%s' has not answered within %d ms; check its address, and that no firewall is between",
                client->address, client->timeout_ms);
}

/* Status of a failed send or receive of a session, with its line. */
static enum halay_status session_status(struct halay_store_client *client, enum halay_status status)
{
    if (status == HALAY_ERR_PEER)
        return client_break(client, HALAY_ERR_SYSTEM,
                            "closed the connection; has the launcher ended, or rank 0 under srun?");
    report_wait(client);
    client->broken = status;
    return status;
}

static enum halay_status reserve_answer(struct halay_store_client *client, size_t bytes)
{
    if (bytes <= client->room)
        return HALAY_OK;
    unsigned char *grown = realloc(client->buffer, bytes);
    if (!grown)
        return HALAY_ERR_NO_MEMORY;
    client->buffer = grown;
    client->room = bytes;
    return HALAY_OK;
}

/* The next whole message; it points into the buffer until the next call. HALAY_ERR_TIMEOUT leaves the client usable and
 * writes no line. */
static enum halay_status receive_message(struct halay_store_client *client, int64_t deadline_us,
                                         struct store_message *message)
{
    size_t body;

    enum halay_status status =
        halay_socket_receive(client->fd, client->buffer, STORE_HEAD_BYTES, &client->have, deadline_us);
    if (status != HALAY_OK)
        return status == HALAY_ERR_TIMEOUT ? status : session_status(client, status);
    if (store_body_bytes(client->buffer, &body) != HALAY_OK)
        return client_break(client, HALAY_ERR_FORMAT,
                            "sent a message of impossible length; does something on the way change data?");
    size_t total = STORE_HEAD_BYTES + body + STORE_MAC_BYTES;
    if (reserve_answer(client, total) != HALAY_OK)
        return client_break(client, HALAY_ERR_NO_MEMORY, "sent an answer that does not fit in this process's memory");
    status = halay_socket_receive(client->fd, client->buffer, total, &client->have, deadline_us);
    if (status != HALAY_OK)
        return status == HALAY_ERR_TIMEOUT ? status : session_status(client, status);
    client->have = 0;
    status = store_unseal(&client->in, client->buffer, message);
    if (status != HALAY_OK)
        return client_break(client, status, "sent a message that is malformed or was changed on its way");
    return HALAY_OK;
}

static enum halay_status send_request(struct halay_store_client *client, enum halay_store_kind kind, const char *key,
                                      const void *value, size_t bytes)
{
    size_t key_bytes = strlen(key);

    if (client->broken != HALAY_OK)
        return client->broken;
    if (key_bytes == 0 || key_bytes >= HALAY_STORE_KEY_MAX || bytes > HALAY_STORE_VALUE_MAX)
        return halay_fail(client->log, HALAY_ERR_ARGUMENT,
                          "store: key '%.40s' has %zu bytes and its value %zu; expected 1 to %d and at most %zu", key,
                          key_bytes, bytes, HALAY_STORE_KEY_MAX - 1, HALAY_STORE_VALUE_MAX);
    struct store_message message = { .kind = kind,
                                     .number = ++client->number,
                                     .key = (const unsigned char *)key,
                                     .key_bytes = key_bytes,
                                     .value = value,
                                     .value_bytes = bytes };
    size_t count = store_message_bytes(&message);
    unsigned char *wire = malloc(count);
    if (!wire) {
        halay_error(client->log, "store: no memory for a request of key '%s'", key);
        client->number--;
        return HALAY_ERR_NO_MEMORY;
    }
    store_seal(&client->out, &message, wire);
    enum halay_status status = halay_socket_send(client->fd, wire, count, halay_deadline_us(client->timeout_ms));
    free(wire);
    if (status == HALAY_ERR_TIMEOUT) /* part of it may be on its way: nothing can follow */
        return client_break(client, status, "has not read this process's request in time; is its host overloaded?");
    return status == HALAY_OK ? HALAY_OK : session_status(client, status);
}

/* The answer to the newest request; older ones, to gets that were given up, are passed over. */
static enum halay_status receive_answer(struct halay_store_client *client, int timeout_ms, struct store_message *answer)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms);

    for (;;) {
        enum halay_status status = receive_message(client, deadline_us, answer);
        if (status != HALAY_OK || answer->number == client->number)
            return status;
    }
}

/* A request that is answered at once. */
static enum halay_status request_done(struct halay_store_client *client, enum halay_store_kind kind, const char *key,
                                      const void *value, size_t bytes)
{
    struct store_message answer;

    enum halay_status status = send_request(client, kind, key, value, bytes);
    if (status != HALAY_OK)
        return status;
    status = receive_answer(client, client->timeout_ms, &answer);
    if (status == HALAY_ERR_TIMEOUT)
        halay_error(client->log, "store: '%s' has not confirmed key '%s' within %d ms; is its host overloaded?",
                    client->address, key, client->timeout_ms);
    if (status != HALAY_OK)
        return status;
    if (answer.kind == STORE_FULL)
        return halay_fail(client->log, HALAY_ERR_NO_MEMORY,
                          "store: the table of '%s' is full: no room for key '%s' of %zu bytes", client->address, key,
                          bytes);
    return answer.kind == STORE_DONE
               ? HALAY_OK
               : client_break(client, HALAY_ERR_FORMAT, "sent an answer that does not match the request");
}

enum halay_status halay_store_set(struct halay_store_client *client, const char *key, const void *value, size_t bytes)
{
    return request_done(client, STORE_SET, key, value, bytes);
}

enum halay_status halay_store_leave(struct halay_store_client *client, const char *prefix)
{
    return request_done(client, STORE_LEAVE, prefix, NULL, 0);
}

enum halay_status halay_store_ask(struct halay_store_client *client, const char *key)
{
    return send_request(client, STORE_GET, key, NULL, 0);
}

enum halay_status halay_store_answer(struct halay_store_client *client, const char *key, void *value, size_t bytes,
                                     int timeout_ms)
{
    struct store_message answer;

    if (client->broken != HALAY_OK)
        return client->broken;
    enum halay_status status = receive_answer(client, timeout_ms, &answer);
    if (status != HALAY_OK)
        return status; /* HALAY_ERR_TIMEOUT logs nothing: only the caller knows what is missing */
    if (answer.kind != STORE_VALUE)
        return client_break(client, HALAY_ERR_FORMAT, "sent an answer that does not match the request");
    if (answer.value_bytes != bytes)
        return halay_fail(client->log, HALAY_ERR_FORMAT,
                          "store: key '%s' has %zu bytes, %zu were expected; do all ranks run the same program?", key,
                          answer.value_bytes, bytes);
    if (bytes)
        memcpy(value, answer.value, bytes);
    return HALAY_OK;
}

enum halay_status halay_store_get(struct halay_store_client *client, const char *key, void *value, size_t bytes,
                                  int timeout_ms)
{
    enum halay_status status = halay_store_ask(client, key);

    return status == HALAY_OK ? halay_store_answer(client, key, value, bytes, timeout_ms) : status;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static enum halay_status parse_address(struct halay_log *log, const char *address, struct addrinfo **found)
{
    if (halay_address_parse(address, found))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_ARGUMENT,
                      "store: '%.80s' is not an address; expected one like 127.0.0.1:40000 or [::1]:40000", address);
}

static enum halay_status connect_store(struct halay_store_client *client, const struct addrinfo *to,
                                       int64_t deadline_us)
{
    enum halay_status status =
        halay_socket_connect(to->ai_addr, to->ai_addrlen, client->network, deadline_us, &client->fd);

    if (status == HALAY_ERR_TIMEOUT)
        report_silence(client);
    else if (status != HALAY_OK)
        halay_error(client->log, "store: cannot connect to '%s': %s; does the launcher run there?", client->address,
                    strerror(errno));
    return status;
}

/* HALAY_ERR_PEER: closed halfway. */
static enum halay_status shake_hands(struct halay_store_client *client, struct store_handshake *h,
                                     const unsigned char *secret, int64_t deadline_us)
{
    size_t have = 0;

    store_make_hello(h, secret, STORE_VERSION, (uint32_t)client->rank);
    enum halay_status status = halay_socket_send(client->fd, h->hello, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(client->fd, h->challenge, STORE_HELLO_BYTES, &have, deadline_us);
    if (status != HALAY_OK)
        return status;
    if (store_is_refusal(h))
        return halay_fail(
            client->log, HALAY_ERR_AUTH,
            "store: '%s' refuses this process, which does not hold that job's secret; do address and secret "
            "come from one job?",
            client->address);
    if (!store_is_challenge(h, secret))
        return halay_fail(client->log, HALAY_ERR_AUTH,
                          "store: '%s' does not hold this job's secret: it is not the store of this job",
                          client->address);
    if (store_version(h->challenge) != STORE_VERSION)
        return halay_fail(client->log, HALAY_ERR_VERSION,
                          "store: '%s' speaks version %u of the store's protocol, this is version %d; launcher and "
                          "library must be of one installation",
                          client->address, store_version(h->challenge), STORE_VERSION);
    store_make_proof(h, secret);
    status = halay_socket_send(client->fd, h->proof, STORE_MAC_BYTES, deadline_us);
    if (status == HALAY_OK)
        store_open_directions(h, secret, &client->out, &client->in);
    return status;
}

/* HALAY_ERR_PEER: the server closed the connection, as this side's proof was late. */
static enum halay_status take_welcome(struct halay_store_client *client, int64_t deadline_us, unsigned *reconnects)
{
    struct store_message welcome;

    client->have = 0;
    enum halay_status status =
        halay_socket_receive(client->fd, client->buffer, STORE_HEAD_BYTES, &client->have, deadline_us);
    if (status == HALAY_ERR_PEER)
        return status;
    if (status == HALAY_OK)
        status = receive_message(client, deadline_us, &welcome);
    if (status == HALAY_ERR_TIMEOUT)
        report_silence(client);
    if (status != HALAY_OK)
        return status;
    if (welcome.kind != STORE_WELCOME || welcome.value_bytes != 4)
        return client_break(client, HALAY_ERR_FORMAT,
                            "did not begin with a welcome; are launcher and library of one installation?");
    *reconnects = store_read_u32(welcome.value);
    return HALAY_OK;
}

/* Wait that long; nothing ends it early. */
static void pause_ms(int ms)
{
    struct timespec t = { .tv_nsec = (long)ms * 1000000 };

    nanosleep(&t, NULL);
}

/* HALAY_ERR_PEER: the server closed the connection before it had welcomed this process. */
static enum halay_status try_open(struct halay_store_client *client, const struct addrinfo *to,
                                  const unsigned char *secret, int64_t deadline_us, unsigned *reconnects)
{
    struct store_handshake h;

    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    enum halay_status status = connect_store(client, to, deadline_us);
    if (status != HALAY_OK)
        return status;
    status = shake_hands(client, &h, secret, deadline_us);
    sodium_memzero(&h, sizeof h);
    if (status == HALAY_ERR_TIMEOUT)
        report_silence(client);
    else if (status == HALAY_ERR_SYSTEM)
        report_wait(client);
    return status == HALAY_OK ? take_welcome(client, deadline_us, reconnects) : status;
}

static enum halay_status open_client(struct halay_store_client *client, const struct addrinfo *to,
                                     const unsigned char *secret, int64_t deadline_us, unsigned *reconnects)
{
    enum halay_status status;
    int pause = FIRST_PAUSE_MS, closed = 0;

    while ((status = try_open(client, to, secret, deadline_us, reconnects)) == HALAY_ERR_PEER &&
           !halay_deadline_passed(deadline_us)) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        pause_ms(left_ms >= 0 && left_ms < pause ? left_ms : pause);
        pause = pause < PAUSE_MAX_MS / 2 ? 2 * pause : PAUSE_MAX_MS;
        closed++;
    }
    if (status != HALAY_ERR_PEER && (status != HALAY_ERR_TIMEOUT || !closed))
        return status;
    return halay_fail(client->log, HALAY_ERR_TIMEOUT,
                      "store: '%s' has closed this process's connections: it is overloaded, or it is not a store",
                      client->address);
}

enum halay_status halay_store_client_open(struct halay_log *log, const char *address, const char *network,
                                          const unsigned char secret[HALAY_SECRET_BYTES], int rank, int timeout_ms,
                                          struct halay_store_client **out, unsigned *reconnects)
{
    struct addrinfo *to;

    if (rank < 0 || rank > STORE_RANK_MAX)
        return halay_fail(log, HALAY_ERR_ARGUMENT, "store: %d is not a rank; expected 0 to %d", rank, STORE_RANK_MAX);
    if (store_init(log) != HALAY_OK)
        return HALAY_ERR_SYSTEM;
    enum halay_status status = parse_address(log, address, &to);
    if (status != HALAY_OK)
        return status;
    struct halay_store_client *client = calloc(1, sizeof *client);
    if (!client || !(client->buffer = malloc(STORE_HEAD_BYTES))) {
        halay_error(log, "store: no memory for a connection to '%s'", address);
        free(client);
        freeaddrinfo(to);
        return HALAY_ERR_NO_MEMORY;
    }
    client->log = log;
    client->fd = -1;
    client->network = network;
    client->rank = rank;
    client->timeout_ms = timeout_ms;
    client->room = STORE_HEAD_BYTES;
    snprintf(client->address, sizeof client->address, "%s", address);
    status = open_client(client, to, secret, halay_deadline_us(timeout_ms), reconnects);
    client->network = NULL;
    freeaddrinfo(to);
    if (status != HALAY_OK) {
        halay_store_client_close(client);
        return status;
    }
    *out = client;
    return HALAY_OK;
}

enum halay_status halay_store_probe(const char *address, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms)
{
    const int64_t deadline_us = halay_deadline_us(timeout_ms);
    struct store_handshake h;
    struct addrinfo *to;
    size_t have = 0;
    int fd = -1;

    enum halay_status status = store_init(NULL);
    if (status == HALAY_OK)
        status = parse_address(NULL, address, &to);
    if (status != HALAY_OK)
        return status;
    status = halay_socket_connect(to->ai_addr, to->ai_addrlen, NULL, deadline_us, &fd);
    freeaddrinfo(to);
    store_make_hello(&h, secret, STORE_VERSION, 0);
    if (status == HALAY_OK)
        status = halay_socket_send(fd, h.hello, STORE_HELLO_BYTES, deadline_us);
    if (status == HALAY_OK)
        status = halay_socket_receive(fd, h.challenge, STORE_HELLO_BYTES, &have, deadline_us);
    if (status == HALAY_OK && !store_is_challenge(&h, secret))
        status = HALAY_ERR_AUTH;
    if (fd >= 0)
        close(fd);
    sodium_memzero(&h, sizeof h);
    return status;
}

int halay_store_client_fd(const struct halay_store_client *client)
{
    return client->fd;
}

void halay_store_client_close(struct halay_store_client *client)
{
    if (!client)
        return;
    if (client->fd >= 0)
        close(client->fd);
    free(client->buffer);
    sodium_memzero(client, sizeof *client);
    free(client);
}

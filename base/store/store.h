/* SPDX-License-Identifier: Apache-2.0
 *
 * Store: the small authenticated key-value server by which ranks that the launcher started find each other.
 *
 * TCP. The client proves that it holds the job's secret and the server proves the same (a challenge each way, keyed
 * hash of libsodium), both with the protocol's version and the client's rank in the hash; a client without the secret
 * learns nothing and can store nothing. The secret reaches the ranks by an inherited descriptor, never by a command
 * line or the environment. The wire format is drawn in store_protocol.h.
 */
#ifndef HALAY_BASE_STORE_H
#define HALAY_BASE_STORE_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

enum { HALAY_SECRET_BYTES = 32, HALAY_STORE_KEY_MAX = 256 };
#define HALAY_STORE_VALUE_MAX ((size_t)1 << 20)

/* Value of the key "host/RANK", which the launcher sets for each rank of a job on several hosts: the rank's host, and
 * the ranks there. For messages. */
struct halay_store_host {
    char name[64]; /* ends with a zero */
    int32_t first, count;
};

/* Server: one thread drives it; halayrun does so from its own poll loop. */
struct halay_store_server;
/* Listens on IPv4's loopback, at a free port. secret is copied. */
enum halay_status halay_store_server_create(struct halay_log *log, const unsigned char secret[HALAY_SECRET_BYTES],
                                            struct halay_store_server **out);
/* The same on a port that listens already (listen.h), which is the server's to close then, also after an error. */
enum halay_status halay_store_server_adopt(struct halay_log *log, int listener,
                                           const unsigned char secret[HALAY_SECRET_BYTES],
                                           struct halay_store_server **out);
const char *halay_store_server_address(const struct halay_store_server *server); /* "127.0.0.1:40000"; borrowed */
/* A descriptor that is readable when progress has something to do (an epoll set). */
int halay_store_server_fd(const struct halay_store_server *server);
/* Serve pending requests; never blocks. A client that misbehaves is dropped and does not disturb the others. */
enum halay_status halay_store_server_progress(struct halay_store_server *server);
/* The owner's own word, as if a client had set it. HALAY_ERR_NO_MEMORY, HALAY_ERR_ARGUMENT: no key. */
enum halay_status halay_store_server_set(struct halay_store_server *server, const char *key, const void *value,
                                         size_t bytes);
/* Forget all keys that begin with prefix, because no one will ask for them any more. */
void halay_store_server_remove(struct halay_store_server *server, const char *prefix);
/* Calls was_set, from within progress, for each key that a client sets and that begins with prefix. key ends with a
 * zero; key and value are borrowed for the call, which may set keys itself. prefix is borrowed until destroy. */
void halay_store_server_watch(struct halay_store_server *server, const char *prefix,
                              void (*was_set)(void *arg, const char *key, const void *value, size_t bytes), void *arg);
/* Calls take, from within progress, for each key that a client sets and that begins with prefix; the store does not
 * keep it. The client's call fails if take does. key and value as in watch; prefix is borrowed until destroy. */
void halay_store_server_take(struct halay_store_server *server, const char *prefix,
                             enum halay_status (*take)(void *arg, const char *key, const void *value, size_t bytes),
                             void *arg);
/* Returns the number of connected clients that hold the secret. */
size_t halay_store_server_members(const struct halay_store_server *server);
/* Connections of clients that hold the secret and their requests, both so far, and the keys that are set now. */
struct halay_store_counts {
    size_t connections, requests, keys;
};
void halay_store_server_count(const struct halay_store_server *server, struct halay_store_counts *counts);
void halay_store_server_destroy(struct halay_store_server *server);

/* Client: one thread at a time. */
struct halay_store_client;
/* Connect and authenticate. network: as halay_socket_connect has it. reconnects: how often this rank has connected to
 * this store before (0 the first time), so that the n-th context of each rank meets the n-th of the others.
 * HALAY_ERR_AUTH, HALAY_ERR_VERSION, HALAY_ERR_TIMEOUT, HALAY_ERR_SYSTEM. */
enum halay_status halay_store_client_open(struct halay_log *log, const char *address, const char *network,
                                          const unsigned char secret[HALAY_SECRET_BYTES], int rank, int timeout_ms,
                                          struct halay_store_client **out, unsigned *reconnects);
/* Returns HALAY_OK if a store with this secret answers at the address within this time; it does not count as a
 * connection there. HALAY_ERR_AUTH: the answer is a store's that has another secret, or no store's. Else what ended the
 * connection. Nothing is logged. */
enum halay_status halay_store_probe(const char *address, const unsigned char secret[HALAY_SECRET_BYTES],
                                    int timeout_ms);
/* Set a key (replaces what was there). */
enum halay_status halay_store_set(struct halay_store_client *client, const char *key, const void *value, size_t bytes);
/* Wait for a key and copy its value, which must have exactly `bytes` bytes (HALAY_ERR_FORMAT otherwise). */
enum halay_status halay_store_get(struct halay_store_client *client, const char *key, void *value, size_t bytes,
                                  int timeout_ms);
/* The same in two halves: ask does not wait; answer does, at most timeout_ms, and after HALAY_ERR_TIMEOUT may be called
 * again, unless anything else was asked or set meanwhile. */
enum halay_status halay_store_ask(struct halay_store_client *client, const char *key);
enum halay_status halay_store_answer(struct halay_store_client *client, const char *key, void *value, size_t bytes,
                                     int timeout_ms);
/* Leaves the keys that begin with prefix: they are removed once all clients have left them whose newest request was for
 * one of them. A client that closes without this leaves its keys to those that ask later. */
enum halay_status halay_store_leave(struct halay_store_client *client, const char *prefix);
/* A descriptor that is readable when answer may have something. */
int halay_store_client_fd(const struct halay_store_client *client);
void halay_store_client_close(struct halay_store_client *client);

/* Draw a secret. HALAY_ERR_SYSTEM. */
enum halay_status halay_store_draw_secret(struct halay_log *log, unsigned char secret[HALAY_SECRET_BYTES]);
/* The same, and put it into a sealed memory file (close-on-exec: a caller that passes it on clears that). */
enum halay_status halay_store_create_secret(struct halay_log *log, unsigned char secret[HALAY_SECRET_BYTES], int *fd);
/* Put one into such a file that another process has drawn. */
enum halay_status halay_store_keep_secret(struct halay_log *log, const unsigned char secret[HALAY_SECRET_BYTES],
                                          int *fd);
/* Reads the secret from an inherited descriptor (position-independent, so that it can be read again). From then on no
 * program inherits it that this process starts. */
enum halay_status halay_store_read_secret(struct halay_log *log, int fd, unsigned char secret[HALAY_SECRET_BYTES]);

#endif

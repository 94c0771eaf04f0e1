/* SPDX-License-Identifier: Apache-2.0
 *
 * Join's talk: few records, so they are read a byte at a time, which needs no buffer between calls.
 */
#include "launcher/remote/join_talk.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/cipher.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_MS = 3000, REST_MS = 5000 };

/* On a silent connection, nothing else would notice that the other machine is gone. */
static void keep_alive(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = { { SOL_SOCKET, SO_KEEPALIVE, 1 },
                    { IPPROTO_TCP, TCP_KEEPIDLE, 10 },
                    { IPPROTO_TCP, TCP_KEEPINTVL, 5 },
                    { IPPROTO_TCP, TCP_KEEPCNT, 4 } };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

int talk_open(struct talk *talk, const struct tunnel *tunnel)
{
    *talk = (struct talk){ .fd = tunnel->fd };
    keep_alive(talk->fd);
    if (halay_cipher_create(&tunnel->session, &talk->cipher) == HALAY_OK)
        return 1;
    talk_close(talk);
    return 0;
}

void talk_close(struct talk *talk)
{
    if (talk->fd >= 0)
        close(talk->fd);
    halay_cipher_destroy(talk->cipher);
    *talk = (struct talk){ .fd = -1 };
}

/* ---- send -------------------------------------------------------------------------------------------------------- */

int talk_send(struct talk *talk, enum talk_kind kind, const void *bytes, size_t count)
{
    unsigned char plain[1 + TALK_TEXT_MAX], wire[HALAY_CIPHER_RECORD_MAX];

    if (talk->fd < 0 || count > TALK_TEXT_MAX)
        return 0;
    plain[0] = (unsigned char)kind;
    memcpy(plain + 1, bytes, count);
    size_t length = halay_cipher_seal(talk->cipher, plain, 1 + count, kind == TALK_END, wire);
    return halay_socket_send(talk->fd, wire, length, halay_deadline_us(SEND_MS)) == HALAY_OK;
}

int talk_send_hello(struct talk *talk, const struct talk_hello *h)
{
    char text[TALK_TEXT_MAX];

    int n = snprintf(text, sizeof text, "%s\n%d\n%d\n%d\n%d\n%s\n%s", h->version, h->nodes, h->node, h->ranks,
                     h->is_chosen, h->name, h->command);
    return n < (int)sizeof text && talk_send(talk, TALK_HELLO, text, (size_t)n);
}

int talk_send_end(struct talk *talk, int code, const char *text)
{
    char bytes[TALK_TEXT_MAX - 1];

    bytes[0] = (char)code;
    int n = snprintf(bytes + 1, sizeof bytes - 1, "%s", text);
    size_t count = n < (int)sizeof bytes - 1 ? (size_t)n : sizeof bytes - 2;
    int ok = talk_send(talk, TALK_END, bytes, 1 + count);
    if (ok)
        shutdown(talk->fd, SHUT_WR);
    return ok;
}

/* ---- receive ----------------------------------------------------------------------------------------------------- */

int talk_receive(struct talk *talk, int64_t deadline_us, enum talk_kind *kind, char bytes[TALK_TEXT_MAX])
{
    unsigned char wire[HALAY_CIPHER_RECORD_MAX], plain[HALAY_CIPHER_BYTES_MAX];
    size_t have = 0, at = 0, used, opened = 0;

    while (!opened) {
        if (talk->fd < 0 || have == sizeof wire || halay_cipher_has_ended(talk->cipher) ||
            halay_socket_receive(talk->fd, wire, have + 1, &have, deadline_us) != HALAY_OK)
            return 0;
        if (have == 1) /* the rest is on its way */
            deadline_us = halay_deadline_us(REST_MS);
        if (halay_cipher_open(talk->cipher, wire + at, have - at, &used, plain, &opened) != HALAY_OK)
            return 0;
        at += used;
    }
    if (opened > TALK_TEXT_MAX)
        return 0;
    *kind = plain[0];
    memcpy(bytes, plain + 1, opened - 1);
    bytes[opened - 1] = 0;
    return 1;
}

/* Returns the next line of *text, and moves *text to the one after it; the last one is the rest. */
static const char *next_line(char **text)
{
    char *line = *text, *end = strchr(line, '\n');

    *text = end ? end + 1 : line + strlen(line);
    if (end)
        *end = 0;
    return line;
}

int talk_receive_hello(struct talk *talk, struct talk_hello *h)
{
    char bytes[TALK_TEXT_MAX], *at = bytes;
    enum talk_kind kind;

    if (!talk_receive(talk, halay_deadline_us(TALK_HELLO_MS), &kind, bytes) || kind != TALK_HELLO)
        return 0;
    snprintf(h->version, sizeof h->version, "%s", next_line(&at));
    h->nodes = atoi(next_line(&at));
    h->node = atoi(next_line(&at));
    h->ranks = atoi(next_line(&at));
    h->is_chosen = atoi(next_line(&at));
    snprintf(h->name, sizeof h->name, "%s", next_line(&at));
    snprintf(h->command, sizeof h->command, "%s", at);
    return 1;
}

int talk_is_readable(const struct talk *talk)
{
    return poll(&(struct pollfd){ .fd = talk->fd, .events = POLLIN }, 1, 0) > 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: who has the secret gets in, for what he asked for; who has another, says something else, nothing, or what was heard
 * before does not, and the end that he called is told so within its time.
 */
#include "base/clock.h"
#include "base/handshake.h"
#include "base/socket.h"
#include "base/store_protocol.h"
#include "tests/test.h"
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG_MS = 60000, SHORT_MS = 20 };

struct end {
    int fd;
    const unsigned char *secret;
    unsigned char purpose;
    enum halay_status status;
};

static void *answer(void *arg)
{
    struct end *end = arg;

    end->status = halay_handshake_answer(end->fd, end->secret, LONG_MS, &end->purpose);
    if (end->status)
        shutdown(end->fd, SHUT_RDWR);
    return NULL;
}

static void derive(const char *a, const char *b, unsigned char secret[HALAY_SECRET_BYTES])
{
    const struct halay_secret_part parts[] = { { a, strlen(a) }, { b, strlen(b) } };

    CHECK(halay_derive_secret(NULL, parts, 2, secret) == HALAY_OK, "derived");
}

/* The caller's status; *listener: the other's. */
static enum halay_status meet(const unsigned char *caller, struct end *listener)
{
    pthread_t thread;
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    listener->fd = ends[1];
    CHECK(pthread_create(&thread, NULL, answer, listener) == 0, "thread");
    enum halay_status status = halay_handshake_call(ends[0], caller, 7, LONG_MS);
    shutdown(ends[0], SHUT_RDWR);
    CHECK(pthread_join(thread, NULL) == 0, "join");
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* A caller that says these bytes and no more. */
static enum halay_status say(const void *bytes, size_t count, int stays, const unsigned char *secret)
{
    unsigned char purpose;
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    CHECK(halay_socket_send(ends[0], bytes, count, halay_deadline_us(LONG_MS)) == HALAY_OK, "said");
    if (!stays)
        shutdown(ends[0], SHUT_WR);
    enum halay_status status = halay_handshake_answer(ends[1], secret, stays ? SHORT_MS : LONG_MS, &purpose);
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* What holds the secret, but not what this conversation asks for. */
static void check_hellos(const unsigned char *secret)
{
    unsigned char key[HALAY_SECRET_BYTES], both[STORE_HELLO_BYTES + STORE_MAC_BYTES];
    struct store_handshake h;

    store_derive(secret, "launcher", NULL, 0, key);
    store_make_hello(&h, key, STORE_VERSION, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_TIMEOUT, "no proof");
    store_make_challenge(&h, key, STORE_VERSION);
    store_make_proof(&h, key);
    memcpy(both, h.hello, STORE_HELLO_BYTES);
    memcpy(both + STORE_HELLO_BYTES, h.proof, STORE_MAC_BYTES);
    CHECK(say(both, sizeof both, 0, secret) == HALAY_ERR_AUTH, "what was heard in another conversation");
    store_make_hello(&h, key, STORE_VERSION + 1, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_VERSION, "another version");
    store_make_hello(&h, secret, STORE_VERSION, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_AUTH, "a rank that looks for its store");
}

int main(void)
{
    unsigned char one[HALAY_SECRET_BYTES], same[HALAY_SECRET_BYTES], other[HALAY_SECRET_BYTES];
    char nonsense[256] = "GET / HTTP/1.0\r\n\r\n";

    derive("job", "hosts", one);
    derive("job", "hosts", same);
    derive("jobh", "osts", other);
    CHECK(!memcmp(one, same, sizeof one), "the same parts, the same secret");
    CHECK(memcmp(one, other, sizeof one), "other parts, another secret");

    struct end listener = { .secret = same };
    CHECK(meet(one, &listener) == HALAY_OK, "the caller gets in");
    CHECK(listener.status == HALAY_OK && listener.purpose == 7, "the listener knows what for");
    listener = (struct end){ .secret = other };
    CHECK(meet(one, &listener) == HALAY_ERR_AUTH, "the caller sees that it is the wrong one");
    CHECK(listener.status != HALAY_OK && !listener.purpose, "the listener too");

    CHECK(say(nonsense, sizeof nonsense, 0, one) == HALAY_ERR_AUTH, "nonsense");
    CHECK(say("h", 1, 0, one) == HALAY_ERR_PEER, "half a word");
    CHECK(say("", 0, 1, one) == HALAY_ERR_TIMEOUT, "silence");
    check_hellos(one);
    return test_end();
}

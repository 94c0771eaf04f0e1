/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: a caller with the secret gets in, for what it asked for; one with another secret, or that says something
 * else, nothing, or what was heard before, does not, and the end that it called learns so within its time.
 */
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/handshake.h"
#include "base/store/store_protocol.h"
#include "tests/test.h"
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONG_MS = 60000, SHORT_MS = 20 };

struct end {
    int fd;
    const unsigned char *secret;
    struct halay_session session;
    uint32_t purpose;
    enum halay_status status;
};

/* Step by step until it is done or over; HALAY_ERR_TIMEOUT: nothing more comes for that long. */
static enum halay_status answer(int fd, const unsigned char *secret, int timeout_ms, struct end *end)
{
    struct halay_answer a = { 0 };
    enum halay_status status;

    while ((status = halay_answer_progress(&a, fd, secret)) == HALAY_OK && !a.is_done)
        if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, timeout_ms) == 0)
            return HALAY_ERR_TIMEOUT;
    if (status == HALAY_OK)
        halay_answer_take(&a, secret, &end->session, &end->purpose);
    return status;
}

static void *listens(void *arg)
{
    struct end *end = arg;

    end->status = answer(end->fd, end->secret, LONG_MS, end);
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
static enum halay_status meet(const unsigned char *caller, struct end *listener, struct halay_session *session)
{
    pthread_t thread;
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    listener->fd = ends[1];
    CHECK(pthread_create(&thread, NULL, listens, listener) == 0, "thread");
    enum halay_status status = halay_handshake_call(ends[0], caller, 7, LONG_MS, session);
    shutdown(ends[0], SHUT_RDWR);
    CHECK(pthread_join(thread, NULL) == 0, "join");
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* A caller that says these bytes and no more. */
static enum halay_status say(const void *bytes, size_t count, int stays, const unsigned char *secret)
{
    struct end end;
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    CHECK(halay_socket_send(ends[0], bytes, count, halay_deadline_us(LONG_MS)) == HALAY_OK, "said");
    if (!stays)
        shutdown(ends[0], SHUT_WR);
    enum halay_status status = answer(ends[1], secret, stays ? SHORT_MS : LONG_MS, &end);
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

/* A caller is told that it is the wrong secret; that the other end has no room for him is something else. */
static void check_refusals(const unsigned char *secret)
{
    struct halay_session session;
    unsigned char said[STORE_HELLO_BYTES];
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    shutdown(ends[1], SHUT_WR);
    CHECK(halay_handshake_call(ends[0], secret, 7, LONG_MS, &session) == HALAY_ERR_PEER, "closed without a word");
    close(ends[0]);
    close(ends[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    struct halay_answer a = { 0 };
    memset(said, 'x', sizeof said);
    CHECK(halay_socket_send(ends[0], said, sizeof said, halay_deadline_us(LONG_MS)) == HALAY_OK, "said");
    CHECK(halay_answer_progress(&a, ends[1], secret) == HALAY_ERR_AUTH, "a stranger");
    CHECK(recv(ends[0], said, sizeof said, MSG_DONTWAIT) < 0, "learns nothing");
    close(ends[0]);
    close(ends[1]);
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
    struct halay_session first, second;
    CHECK(meet(one, &listener, &first) == HALAY_OK, "the caller gets in");
    CHECK(listener.status == HALAY_OK && listener.purpose == 7, "the listener knows what for");
    CHECK(!memcmp(first.sends, listener.session.receives, HALAY_SECRET_BYTES) &&
              !memcmp(first.receives, listener.session.sends, HALAY_SECRET_BYTES),
          "both have the same keys");
    CHECK(memcmp(first.sends, first.receives, HALAY_SECRET_BYTES), "one for each direction");
    CHECK(meet(one, &listener, &second) == HALAY_OK && memcmp(first.sends, second.sends, HALAY_SECRET_BYTES),
          "others for each connection");
    listener = (struct end){ .secret = other };
    CHECK(meet(one, &listener, &first) == HALAY_ERR_AUTH, "the caller sees that it is the wrong one");
    CHECK(listener.status != HALAY_OK && !listener.purpose, "the listener too");

    CHECK(say(nonsense, sizeof nonsense, 0, one) == HALAY_ERR_AUTH, "nonsense");
    CHECK(say("h", 1, 0, one) == HALAY_ERR_PEER, "half a word");
    CHECK(say("", 0, 1, one) == HALAY_ERR_TIMEOUT, "silence");
    check_hellos(one);
    check_refusals(one);
    return test_end();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Handshake: a caller with the secret gets in, for what it asked for; one with another secret, or that says something
 * else, nothing, or what was heard before, does not, and the end that it called learns so within its time.
 */
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/handshake.h"
#include "base/secure/secret.h"
#include "base/store/store_protocol.h"
#include "tests/test.h"
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
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
    if (status == HALAY_OK) {
        end->session = a.session;
        end->purpose = halay_answer_purpose(&a);
    }
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
    store_make_hello(&h, key, HALAY_HANDSHAKE_VERSION, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_TIMEOUT, "no proof");
    store_make_challenge(&h, key, HALAY_HANDSHAKE_VERSION);
    store_make_proof(&h, key);
    memcpy(both, h.hello, STORE_HELLO_BYTES);
    memcpy(both + STORE_HELLO_BYTES, h.proof, STORE_MAC_BYTES);
    CHECK(say(both, sizeof both, 0, secret) == HALAY_ERR_AUTH, "what was heard in another conversation");
    store_make_hello(&h, key, HALAY_HANDSHAKE_VERSION + 1, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_VERSION, "another version");
    store_make_hello(&h, secret, 1, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_VERSION, "an older one, which has other keys");
    store_make_hello(&h, secret, HALAY_HANDSHAKE_VERSION, 7);
    CHECK(say(h.hello, STORE_HELLO_BYTES, 1, secret) == HALAY_ERR_AUTH, "a rank that looks for its store");
}

/* A caller with the secret, by hand, whose public key is this one; *h: what a listener has recorded. */
static enum halay_status call_with(const unsigned char *secret, const unsigned char *public_key,
                                   struct store_handshake *h, struct halay_session *session)
{
    struct halay_answer a = { 0 };
    unsigned char key[HALAY_SECRET_BYTES];
    size_t have = 0;
    int ends[2];

    store_derive(secret, "launcher", NULL, 0, key);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    store_make_hello_with(h, key, HALAY_HANDSHAKE_VERSION, 7, public_key);
    CHECK(halay_socket_send(ends[0], h->hello, STORE_HELLO_BYTES, halay_deadline_us(LONG_MS)) == HALAY_OK, "hello");
    CHECK(halay_answer_progress(&a, ends[1], secret) == HALAY_OK, "answered");
    CHECK(halay_socket_receive(ends[0], h->challenge, STORE_HELLO_BYTES, &have, halay_deadline_us(LONG_MS)) == HALAY_OK,
          "challenge");
    store_make_proof(h, key);
    CHECK(halay_socket_send(ends[0], h->proof, STORE_MAC_BYTES, halay_deadline_us(LONG_MS)) == HALAY_OK, "proof");
    enum halay_status status = halay_answer_progress(&a, ends[1], secret);
    *session = a.session;
    close(ends[0]);
    close(ends[1]);
    return status;
}

/* Who has recorded a connection and gets the secret later has all that went over the wire and no private key. */
static void check_forward_secrecy(const unsigned char *secret)
{
    unsigned char key[HALAY_SECRET_BYTES], made[HALAY_SECRET_BYTES], zeros[STORE_NONCE_BYTES] = { 0 }, public_key[32];
    struct store_direction in, out;
    struct store_handshake h;
    struct halay_session session;

    memset(public_key, 0, sizeof public_key);
    public_key[0] = 9; /* the base point: a right one */
    CHECK(call_with(secret, public_key, &h, &session) == HALAY_OK, "a caller by hand gets in");
    store_derive(secret, "launcher", NULL, 0, key);
    store_open_directions(&h, key, &in, &out);
    store_derive(in.key, "stream--", NULL, 0, made);
    CHECK(memcmp(made, session.receives, sizeof made), "the secret and a recording do not make a key");
    store_derive(out.key, "stream--", NULL, 0, made);
    CHECK(memcmp(made, session.sends, sizeof made), "of neither direction");
    CHECK(call_with(secret, zeros, &h, &session) == HALAY_ERR_AUTH, "a public key that would make all keys known");
}

/* Text makes the same key everywhere, and another key than anything near it. */
static void check_text(void)
{
    unsigned char one[HALAY_SECRET_BYTES], same[HALAY_SECRET_BYTES], other[HALAY_SECRET_BYTES];
    static const char text[] = "sixteen characters or more";

    CHECK(halay_stretch_text(NULL, text, sizeof text - 1, one) == HALAY_OK, "stretched");
    CHECK(halay_stretch_text(NULL, text, sizeof text - 1, same) == HALAY_OK && !memcmp(one, same, sizeof one), "same");
    CHECK(halay_stretch_text(NULL, text, sizeof text - 2, other) == HALAY_OK && memcmp(one, other, sizeof one),
          "another");
}

/* A file counts if its owner alone can read it. */
static void check_file(void)
{
    static const struct {
        mode_t mode;
        enum halay_status status;
    } cases[] = { { 0600, HALAY_OK },       { 0400, HALAY_OK },       { 0700, HALAY_OK },
                  { 0640, HALAY_ERR_AUTH }, { 0604, HALAY_ERR_AUTH }, { 0644, HALAY_ERR_AUTH },
                  { 0620, HALAY_ERR_AUTH }, { 0602, HALAY_ERR_AUTH }, { 0444, HALAY_ERR_AUTH } };
    char path[] = "/tmp/halay-private-XXXXXX", bytes[8], why[256];
    size_t count = 0;
    int fd = mkstemp(path), ends[2];

    REQUIRE(fd >= 0 && write(fd, "0123456789", 10) == 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REQUIRE(chmod(path, cases[i].mode) == 0);
        enum halay_status status = halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why);
        CHECK(status == cases[i].status, "mode %o: %d", (unsigned)cases[i].mode, (int)status);
        CHECK(status == HALAY_OK || strstr(why, "chmod 600"), "%s", why);
    }
    CHECK(count == sizeof bytes && !memcmp(bytes, "01234567", sizeof bytes), "as much as there is room for");
    if (geteuid() == 0 && chmod(path, 0600) == 0 && chown(path, 1234, 0) == 0) {
        CHECK(halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why) == HALAY_ERR_AUTH &&
                  strstr(why, "belongs to user 1234"),
              "another's: %s", why);
    }
    close(fd);
    unlink(path);
    CHECK(halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why) == HALAY_ERR_SYSTEM &&
              strstr(why, "No such file"),
          "none: %s", why);
    REQUIRE(pipe(ends) == 0 && write(ends[1], "word", 4) == 4);
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    CHECK(halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why) == HALAY_OK && count == 4,
          "a pipe: %s", why);
    close(ends[0]);
}

/* As another user than root, with a group that root's file names: 0, or the index of the first wrong case from 1 on. */
static int read_of_root(const char *path)
{
    static const struct {
        mode_t mode;
        enum halay_status status;
    } cases[] = { { 0440, HALAY_OK },       { 0640, HALAY_OK },       { 0660, HALAY_ERR_AUTH },
                  { 0444, HALAY_ERR_AUTH }, { 0450, HALAY_ERR_AUTH }, { 0642, HALAY_ERR_AUTH } };
    const gid_t group = 4242;
    char bytes[8], why[256];
    size_t count = 0;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (chown(path, 0, group) < 0 || chmod(path, cases[i].mode) < 0)
            return 99;
        pid_t pid = fork();
        if (pid == 0) {
            if (setgroups(1, &group) || setgid(65532) || setuid(65532))
                _exit(99);
            _exit(halay_private_file_read(path, bytes, sizeof bytes, &count, why, sizeof why) != cases[i].status);
        }
        int status = -1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            return (int)i + 1;
    }
    return 0;
}

/* A Secret that Kubernetes mounts belongs to root and, with fsGroup, to the pod's group. */
static void check_file_of_root(void)
{
    char path[] = "/tmp/halay-private-XXXXXX";
    int fd = mkstemp(path);

    REQUIRE(fd >= 0 && write(fd, "0123456789", 10) == 10);
    close(fd);
    if (geteuid() == 0) {
        int wrong = read_of_root(path);
        CHECK(!wrong, "case %d", wrong);
    }
    unlink(path);
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
    check_forward_secrecy(one);
    check_text();
    check_file();
    check_file_of_root();
    return test_end();
}

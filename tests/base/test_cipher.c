/* SPDX-License-Identifier: Apache-2.0
 *
 * Cipher: what one end seals the other one opens, whatever its length and however it is cut on its way; a bit that was
 * changed, a record that was repeated, left out, moved or sent back, and an end without a last record are seen, at
 * every place.
 */
#include "base/secure/cipher.h"
#include "tests/test.h"
#include <sodium.h>
#include <string.h>

enum { WIRE = 3 * HALAY_CIPHER_RECORD_MAX };

struct ends {
    struct halay_cipher *here, *there;
};

static struct ends meet(void)
{
    struct halay_session here, there;
    struct ends ends;

    REQUIRE(sodium_init() >= 0);
    randombytes_buf(&here, sizeof here);
    memcpy(there.sends, here.receives, sizeof here.receives);
    memcpy(there.receives, here.sends, sizeof here.sends);
    REQUIRE(halay_cipher_create(&here, &ends.here) == HALAY_OK);
    REQUIRE(halay_cipher_create(&there, &ends.there) == HALAY_OK);
    return ends;
}

static void part(struct ends *ends)
{
    halay_cipher_destroy(ends->here);
    halay_cipher_destroy(ends->there);
}

/* Everything of wire, offered in pieces; how much text it is. */
static enum halay_status open_all(struct halay_cipher *c, const unsigned char *wire, size_t count, size_t piece,
                                  unsigned char *text, size_t *length)
{
    static unsigned char bytes[HALAY_CIPHER_BYTES_MAX];
    size_t at = 0, have = 0, used, opened;

    *length = 0;
    while (at < count) {
        have = have + piece < count ? have + piece : count;
        do {
            enum halay_status status = halay_cipher_open(c, wire + at, have - at, &used, bytes, &opened);
            if (status != HALAY_OK)
                return status;
            memcpy(text + *length, bytes, opened);
            *length += opened;
            at += used;
        } while (used);
        if (have == count)
            break;
    }
    return HALAY_OK;
}

static void check_lengths(void)
{
    static const size_t lengths[] = { 0, 1, 2, 4095, HALAY_CIPHER_BYTES_MAX - 1, HALAY_CIPHER_BYTES_MAX };
    static unsigned char text[2 * HALAY_CIPHER_BYTES_MAX], wire[WIRE], came[2 * HALAY_CIPHER_BYTES_MAX];
    size_t length;

    randombytes_buf(text, sizeof text);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t piece = 1; piece < WIRE; piece = 7 * piece + 3) {
            struct ends ends = meet();
            size_t count = halay_cipher_seal(ends.here, text, lengths[i], 0, wire);
            CHECK(count == 4 + 16 + lengths[i], "%zu bytes for %zu", count, lengths[i]);
            count += halay_cipher_seal(ends.here, text + lengths[i], 5, 1, wire + count);
            CHECK(open_all(ends.there, wire, count, piece, came, &length) == HALAY_OK, "%zu in pieces", lengths[i]);
            CHECK(length == lengths[i] + 5 && !memcmp(came, text, length), "what was said");
            CHECK(halay_cipher_has_ended(ends.there), "to its end");
            CHECK(!memmem(wire, count, text, length < 16 ? length : 16), "not in clear");
            part(&ends);
        }
}

/* Three records; where each begins, and the end. */
static size_t say_three(struct halay_cipher *c, unsigned char *wire, size_t at[4])
{
    static const char *const words[] = { "one", "two, which is longer", "three" };

    at[0] = 0;
    for (int i = 0; i < 3; i++)
        at[i + 1] = at[i] + halay_cipher_seal(c, words[i], strlen(words[i]), i == 2, wire + at[i]);
    return at[3];
}

/* Is what comes instead of it refused, or at least never whole? */
static int is_noticed(struct halay_cipher *c, const unsigned char *wire, size_t count)
{
    static unsigned char text[WIRE];
    size_t length;

    return open_all(c, wire, count, count, text, &length) == HALAY_ERR_AUTH || !halay_cipher_has_ended(c);
}

static void check_changes(void)
{
    static unsigned char wire[WIRE], other[WIRE];
    size_t at[4], count = 0;

    for (size_t bit = 0; !bit || bit < 8 * count; bit++) {
        struct ends ends = meet();
        count = say_three(ends.here, wire, at);
        wire[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(is_noticed(ends.there, wire, count), "bit %zu", bit);
        part(&ends);
    }
    for (size_t cut = 0; cut < count; cut++) {
        struct ends ends = meet();
        say_three(ends.here, wire, at);
        CHECK(is_noticed(ends.there, wire, cut) && !halay_cipher_has_ended(ends.there), "cut at %zu", cut);
        part(&ends);
    }
    static const int orders[][4] = { { 0, 0, 1, 2 },  { 0, 1, 1, 2 }, { 0, 2, 1, -1 }, { 0, 2, -1, -1 },
                                     { 1, 0, 2, -1 }, { 0, 1, 2, 2 }, { 0, 1, 2, 1 },  { 1, 2, -1, -1 } };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct ends ends = meet();
        say_three(ends.here, wire, at);
        count = 0;
        for (int k = 0; k < 4 && orders[i][k] >= 0; k++) {
            int r = orders[i][k];
            memcpy(other + count, wire + at[r], at[r + 1] - at[r]);
            count += at[r + 1] - at[r];
        }
        static unsigned char text[WIRE];
        size_t length;
        CHECK(open_all(ends.there, other, count, count, text, &length) == HALAY_ERR_AUTH, "order %zu", i);
        part(&ends);
    }
}

static void check_others(void)
{
    static unsigned char wire[WIRE], text[WIRE];
    size_t at[4], length;
    struct ends ends = meet(), others = meet();

    size_t count = say_three(ends.here, wire, at);
    CHECK(open_all(ends.here, wire, count, count, text, &length) == HALAY_ERR_AUTH, "sent back to who said it");
    CHECK(open_all(others.there, wire, count, count, text, &length) == HALAY_ERR_AUTH, "of another connection");
    CHECK(open_all(ends.there, wire, count, count, text, &length) == HALAY_OK, "where it belongs");
    CHECK(open_all(ends.there, wire, count, count, text, &length) == HALAY_ERR_AUTH, "all of it again");
    CHECK(length == 0 && !halay_cipher_has_ended(ends.there), "nothing is taken after an error");
    part(&ends);
    part(&others);
}

int main(void)
{
    check_lengths();
    check_changes();
    check_others();
    return test_end();
}

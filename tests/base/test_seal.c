/* SPDX-License-Identifier: Apache-2.0
 *
 * Seal, with each of its ciphers: what one end closes the other one opens, at any length, in place too, and behind the
 * change of the key; a bit that was changed, a record that was repeated, left out or moved, and another direction's are
 * refused.
 */
#include "base/secure/seal.h"
#include "base/store/store_protocol.h"
#include "tests/test.h"
#include <string.h>

enum { HEAD = 4, ROOM = 70000 };

struct ends {
    struct halay_seal here, there;
};

static void meet(struct ends *ends, int is_aes)
{
    unsigned char key[HALAY_SEAL_KEY_BYTES];

    store_draw(key, sizeof key);
    halay_seal_init(&ends->here, key, is_aes);
    halay_seal_init(&ends->there, key, is_aes);
}

static void part(struct ends *ends)
{
    static const struct halay_seal nothing;

    halay_seal_fini(&ends->here);
    halay_seal_fini(&ends->there);
    CHECK(!memcmp(&ends->here, &nothing, sizeof nothing), "the key is wiped");
}

static void check_lengths(int is_aes)
{
    static const size_t lengths[] = { 1, 15, 16, 17, 255, 4096, 65535, 65536, ROOM };
    static unsigned char text[ROOM], wire[ROOM], came[ROOM];
    unsigned char mac[HALAY_SEAL_MAC_BYTES];
    struct ends ends;

    meet(&ends, is_aes);
    store_draw(text, sizeof text);
    for (size_t i = 0; i < 2 * (sizeof lengths / sizeof *lengths); i++) {
        size_t bytes = lengths[i / 2];
        int is_in_place = i % 2;
        memcpy(wire, text, is_in_place ? bytes : 0);
        halay_seal_close(&ends.here, text, HEAD, is_in_place ? wire : text, bytes, wire, mac);
        CHECK(bytes < 8 || memcmp(wire, text, bytes), "it is encrypted");
        memcpy(came, wire, is_in_place ? bytes : 0);
        CHECK(halay_seal_open(&ends.there, text, HEAD, is_in_place ? came : wire, bytes, mac, came) == HALAY_OK &&
                  !memcmp(came, text, bytes),
              "%zu bytes, in place %d", bytes, is_in_place);
    }
    part(&ends);
}

static void check_changes(int is_aes)
{
    enum { BYTES = 40, ALL = HEAD + BYTES + HALAY_SEAL_MAC_BYTES };
    unsigned char text[BYTES] = { 1, 2, 3 }, wire[ALL] = { BYTES }, came[BYTES];

    for (int bit = 0; bit <= 8 * ALL; bit++) { /* the last one: none */
        struct ends ends;
        meet(&ends, is_aes);
        halay_seal_close(&ends.here, wire, HEAD, text, BYTES, wire + HEAD, wire + HEAD + BYTES);
        if (bit < 8 * ALL)
            wire[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(halay_seal_open(&ends.there, wire, HEAD, wire + HEAD, BYTES, wire + HEAD + BYTES, came) ==
                  (bit < 8 * ALL ? HALAY_ERR_AUTH : HALAY_OK),
              "bit %d", bit);
        if (bit < HEAD * 8)
            wire[bit / 8] ^= (unsigned char)(1 << bit % 8);
        part(&ends);
    }
}

/* Two records, opened in these orders: the first that is refused. */
static void check_order(int is_aes)
{
    enum { BYTES = 20 };
    static const struct {
        int order[3], opened;
    } cases[] = { { { 0, 1, 1 }, 2 }, { { 0, 0, 1 }, 1 }, { { 1, 0, 0 }, 0 } };
    unsigned char wire[2][BYTES], macs[2][HALAY_SEAL_MAC_BYTES], came[BYTES];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ends ends, others;
        meet(&ends, is_aes);
        meet(&others, is_aes);
        for (int k = 0; k < 2; k++)
            halay_seal_close(&ends.here, NULL, 0, (const unsigned char *)"twice the same text!", BYTES, wire[k],
                             macs[k]);
        CHECK(memcmp(wire[0], wire[1], BYTES) != 0, "twice the same looks different");
        for (int k = 0; k <= cases[i].opened && k < 3; k++) {
            int r = cases[i].order[k];
            CHECK((halay_seal_open(&ends.there, NULL, 0, wire[r], BYTES, macs[r], came) == HALAY_OK) ==
                      (k < cases[i].opened),
                  "case %zu, record %d", i, k);
        }
        CHECK(halay_seal_open(&others.there, NULL, 0, wire[0], BYTES, macs[0], came) == HALAY_ERR_AUTH,
              "another direction's key");
        part(&ends);
        part(&others);
    }
}

/* Both ends change the key at the same record. */
static void check_rekey(int is_aes)
{
    unsigned char before[HALAY_SEAL_KEY_BYTES], wire[8], mac[HALAY_SEAL_MAC_BYTES], came[8];
    struct ends ends;

    meet(&ends, is_aes);
    ends.here.count = ends.there.count = HALAY_SEAL_REKEY_RECORDS - 1;
    memcpy(before, ends.here.key, sizeof before);
    for (int i = 0; i < 3; i++) {
        halay_seal_close(&ends.here, NULL, 0, (const unsigned char *)"12345678", 8, wire, mac);
        CHECK(halay_seal_open(&ends.there, NULL, 0, wire, 8, mac, came) == HALAY_OK && !memcmp(came, "12345678", 8),
              "record %d", i);
        CHECK(!memcmp(before, ends.here.key, sizeof before) == !i, "the key after record %d", i);
    }
    part(&ends);
}

int main(void)
{
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(store_init(&log) == HALAY_OK);
    for (int is_aes = 0; is_aes <= halay_seal_has_aes(); is_aes++) {
        check_lengths(is_aes);
        check_changes(is_aes);
        check_order(is_aes);
        check_rekey(is_aes);
    }
    halay_log_fini(&log);
    return test_end();
}

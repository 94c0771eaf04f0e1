/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzzer's main: seeds, and each of them damaged some hundred times by a generator that always does the same: bits
 * flipped, bytes from a list of the interesting, pieces cut out, doubled and copied elsewhere. The first byte, who
 * reads, stays.
 *
 *     NAME                       400 rounds of each seed: the test
 *     NAME -r ROUNDS -s STATE    as many, from another state of the generator; -v says which comes next
 *     NAME -w FOLDER             writes the seeds into files there, for libFuzzer
 *     NAME FILE...               reads these, which libFuzzer has left
 */
#include "tests/fuzz/drive.h"
#include "tests/test.h"
#include <string.h>
#include <unistd.h>

enum { SEEDS_MAX = 64, INPUT_MAX = 1 << 17, ROUNDS = 400 };

struct seed {
    uint8_t *bytes; /* owned */
    size_t length;
};

static struct seed seeds[SEEDS_MAX];
static size_t seed_count;

static void add_seed(int reader, const void *bytes, size_t length)
{
    struct seed *s = &seeds[seed_count++];

    REQUIRE(seed_count <= SEEDS_MAX && length < INPUT_MAX / 2);
    s->length = length + 1;
    s->bytes = malloc(s->length);
    REQUIRE(s->bytes);
    s->bytes[0] = (uint8_t)reader;
    memcpy(s->bytes + 1, bytes, length);
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return below ? *state % below : 0;
}

static size_t mutate(uint8_t *bytes, size_t length, uint32_t *state)
{
    static const char interesting[] = "\"\n\r,;\0\1-+.eE%0123456789:{}[]#'\\ =\xff\x80\x7f";

    for (uint32_t n = 1 + draw(state, 6); n && length > 1; n--) {
        size_t at = 1 + draw(state, (uint32_t)length - 1), piece = 1 + draw(state, 32), to;
        piece = piece < length - at ? piece : length - at;
        switch (draw(state, 5)) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << draw(state, 8));
            break;
        case 1:
            bytes[at] = (uint8_t)interesting[draw(state, sizeof interesting)];
            break;
        case 2: /* cut out */
            memmove(bytes + at, bytes + at + piece, length - at - piece);
            length -= piece;
            break;
        case 3: /* doubled */
            memmove(bytes + at + piece, bytes + at, length - at);
            length += piece;
            break;
        default: /* copied elsewhere */
            to = 1 + draw(state, (uint32_t)(length - piece));
            memmove(bytes + to, bytes + at, piece < length - to ? piece : length - to);
        }
    }
    return length;
}

static void write_seeds(const char *folder)
{
    for (size_t i = 0; i < seed_count; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%zu", folder, i);
        FILE *file = fopen(path, "wb");
        REQUIRE(file && fwrite(seeds[i].bytes, 1, seeds[i].length, file) == seeds[i].length && !fclose(file));
    }
}

/* In memory of exactly that size, so that a sanitizer sees who reads past it. */
static void run_input(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);

    REQUIRE(copy);
    memcpy(copy, bytes, length);
    CHECK(LLVMFuzzerTestOneInput(copy, length) == 0);
    free(copy);
}

static void run_file(const char *path)
{
    static uint8_t input[INPUT_MAX];
    FILE *file = fopen(path, "rb");

    REQUIRE(file);
    size_t length = fread(input, 1, sizeof input, file);
    fclose(file);
    run_input(input, length);
}

static void run_rounds(long rounds, uint32_t state, int is_told)
{
    static uint8_t input[INPUT_MAX];

    for (size_t i = 0; i < seed_count; i++) {
        run_input(seeds[i].bytes, seeds[i].length);
        for (long round = 0; round < rounds; round++) {
            if (is_told)
                fprintf(stderr, "seed %zu, round %ld\n", i, round);
            memcpy(input, seeds[i].bytes, seeds[i].length);
            run_input(input, mutate(input, seeds[i].length, &state));
        }
    }
}

int main(int argc, char **argv)
{
    long rounds = ROUNDS;
    uint32_t state = 12345;
    int option, is_told = 0;

    fuzz_make_seeds(add_seed);
    REQUIRE(seed_count);
    while ((option = getopt(argc, argv, "r:s:vw:")) != -1) {
        if (option == 'r')
            rounds = atol(optarg);
        else if (option == 's')
            state = (uint32_t)strtoul(optarg, NULL, 10) | 1;
        else if (option == 'v')
            is_told = 1;
        else if (option == 'w')
            return write_seeds(optarg), 0;
        else
            return 99;
    }
    if (optind < argc)
        while (optind < argc)
            run_file(argv[optind++]);
    else
        run_rounds(rounds, state, is_told);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    return test_end();
}

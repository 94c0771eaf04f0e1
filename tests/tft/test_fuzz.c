/* SPDX-License-Identifier: Apache-2.0
 *
 * Some thousand damaged inputs for everything that reads files: seeds of each kind, changed by a generator that always does the
 * same: bits flipped, bytes from a list of the interesting, pieces cut out, doubled and swapped. `test_fuzz FOLDER` writes the
 * seeds instead, for libFuzzer (tests/tft/fuzz.sh).
 */
#include "tests/tft/files.h"
#include "tests/tft/fuzz_data.h"
#include "tft/htd.h"

enum { SEEDS_MAX = 32, INPUT_MAX = 1 << 16, ROUNDS = 400 };

struct seed {
    uint8_t *bytes; /* owned; the first says who reads it */
    size_t length;
};

static struct seed seeds[SEEDS_MAX];
static size_t seed_count;

static void add_seed(enum fuzz_reader reader, const void *bytes, size_t length)
{
    struct seed *s = &seeds[seed_count++];

    REQUIRE(seed_count <= SEEDS_MAX && length < INPUT_MAX / 2);
    s->length = length + 1;
    s->bytes = malloc(s->length);
    REQUIRE(s->bytes);
    s->bytes[0] = (uint8_t)reader;
    memcpy(s->bytes + 1, bytes, length);
}

static void add_file(enum fuzz_reader reader, const char *path)
{
    size_t length;
    char *bytes = read_bytes(path, &length);

    add_seed(reader, bytes, length);
    free(bytes);
}

/* A small file of prepared data, with all that can be in one. */
static void make_htd(const char *out)
{
    static const char schema_text[] =
        "id: {column: z}\ntime: {column: t}\nevery: 1h\ninputs:\n"
        "  y: {column: v, role: target, fill: drop, lags: [1]}\n  c: {column: c, role: observed, type: category, unknown: true}\n"
        "  w: {column: v, role: weight, fill: {constant: 1}}\n  h: {calendar: hour, role: known}\n  z: {from: id, role: static, type: category}\n"
        "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 2020-01-02\"}\n";
    const char *path = write_text("h.csv", "z,t,v,c\na,2020-01-01 00:00,1,x\na,2020-01-01 01:00,2,y\na,2020-01-01 02:00,3,x\n"
                                           "a,2020-01-01 03:00,4,\na,2020-01-01 04:00,,x\na,2020-01-01 05:00,6,x\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    struct tft_data data;

    REQUIRE(!tft_schema_load(&test_log, write_text("h.yaml", schema_text), &schema));
    REQUIRE(!tft_table_read(&test_log, &schema, &path, 1, &table) && !tft_encoding_fit(&test_log, &schema, &table, &encoding));
    REQUIRE(!tft_data_init(&test_log, &schema, &encoding, &table, &data) && !tft_htd_write(&test_log, out, &data));
    tft_data_fini(&data);
    tft_table_fini(&table);
}

static void make_seeds(void)
{
    static const char *const tables[] = {
        "z,t,v,c\na,2020-01-01 00:00,1,x\na,2020-01-01 01:00,2.5,y\na,2020-01-01 01:00,,x\nb,2020-01-01T03:00,-1e3,\n",
        "\xef\xbb\xbf\"z\",t,v,c\r\n\"a\"\"b\",2020-01-01,1,\"x\ny\"\r\n\r\n",
    };
    static const char *const numbers[] = { "123.456", "-0.1", " 1e22 ", "900719925474099312", "1.7976931348623157e308", "0.000000000000000000000001" };
    static const char times[][48] = { "%Y-%m-%d %H:%M:%S\0" "2017-08-01 02:03:04", "%b %e %y %I:%M %p%z\0" "Aug  1 17 02:03 PM+01:00", "%s\0" "123456", "\0" "2017-08-01T02:03:04.5Z" };
    const char *top = getenv("top_srcdir");
    static const char *const examples[] = { "pjm", "beijing", "volatility", "electricity" };
    char path[600];

    for (size_t i = 0; i < 2; i++) {
        add_seed(FUZZ_CSV, tables[i], strlen(tables[i]));
        add_seed(FUZZ_TABLE, tables[i], strlen(tables[i]));
        add_file(FUZZ_CSV, write_gz("t.csv.gz", tables[i]));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_seed(FUZZ_NUMBER, numbers[i], strlen(numbers[i]));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        add_seed(FUZZ_TIME, times[i], sizeof *times);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        snprintf(path, sizeof path, "%s/examples/%s.yaml", top ? top : ".", examples[i]);
        add_file(FUZZ_YAML, path);
    }
    add_seed(FUZZ_JSON, "{\"id\": {\"column\": \"z\"}, \"inputs\": {\"y\": {\"column\": \"v\", \"role\": \"target\", \"lags\": [1]}, \"s\": {\"calendar\": \"steps\", "
                        "\"role\": \"known\"}}, \"window\": {\"encoder\": 2, \"horizon\": 1}, \"split\": {\"train\": \"< 5\"}}", 180);
    make_htd(in_scratch("h.htd"));
    add_file(FUZZ_HTD, in_scratch("h.htd"));
    add_file(FUZZ_HTD_MENDED, in_scratch("h.htd"));
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
    static const char interesting[] = "\"\n\r,;\0-+.eE%0123456789:{}[]#'\\ \xff\x80\x7f";

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

int main(int argc, char **argv)
{
    static uint8_t input[INPUT_MAX];
    uint32_t state = 12345;
    size_t inputs = 0;

    begin_scratch();
    make_seeds();
    if (argc > 1)
        write_seeds(argv[1]);
    for (size_t i = 0; i < seed_count && argc == 1; i++) {
        LLVMFuzzerTestOneInput(seeds[i].bytes, seeds[i].length);
        for (int round = 0; round < ROUNDS; round++, inputs++) {
            memcpy(input, seeds[i].bytes, seeds[i].length);
            size_t length = mutate(input, seeds[i].length, &state);
            LLVMFuzzerTestOneInput(input, length);
        }
    }
    CHECK(argc > 1 || inputs == seed_count * ROUNDS);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    end_scratch();
    return test_end();
}

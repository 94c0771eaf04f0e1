/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: what was written is read; the bytes are the format's; whatever does not fit the model or itself is
 * refused.
 */
#include "tests/tft/files.h"
#include "tft/core/run/safetensors.h"
#include <stdint.h>

static struct tft_param params[3] = {
    { .name = "a.kernel", .dimensions = 2, .shape = { 2, 3 }, .offset = 0, .count = 6 },
    { .name = "a.bias", .dimensions = 1, .shape = { 3 }, .offset = 6, .count = 3 },
    { .name = "b", .dimensions = 1, .shape = { 1 }, .offset = 9, .count = 1 },
};
static const struct tft_param_table table = { .params = params, .count = 3, .capacity = 3, .reals = 10 };

/* A file with this header and so many data bytes. */
static const char *made(const char *header, size_t data_bytes)
{
    static char bytes[4096];
    uint64_t length = strlen(header);

    REQUIRE(sizeof length + length + data_bytes <= sizeof bytes);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, header, length);
    return write_bytes("made.safetensors", bytes, sizeof length + length + data_bytes);
}

static void round_trip(void)
{
    float block[10], back[10] = { 0 };
    json_t *metadata = json_pack("{ss}", "step", "12"), *read = NULL;
    const char *path = in_scratch("m.safetensors");
    size_t length;
    uint64_t header;

    for (int i = 0; i < 10; i++)
        block[i] = (float)i * 0.37f - 1;
    REQUIRE(!tft_safetensors_write(&test_log, path, &table, block, metadata));
    CHECK(!tft_safetensors_read(&test_log, path, &table, back, &read) && !memcmp(block, back, sizeof block));
    CHECK(json_equal(metadata, read));
    char *bytes = read_bytes(path, &length);
    memcpy(&header, bytes, sizeof header);
    CHECK(header % 8 == 0 && length == 8 + header + sizeof block && bytes[8] == '{' &&
          !memcmp(bytes + 8 + header, block, sizeof block));
    CHECK(strstr(bytes + 8, "\"a.kernel\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}") != NULL);
    int opened = 0;
    for (size_t cut = 0; cut < length; cut++)
        opened += !tft_safetensors_read(&test_log, write_bytes("cut.safetensors", bytes, cut), &table, back, NULL);
    CHECK(!opened, "%d cuts passed for whole files", opened);
    free(bytes);
    json_decref(metadata);
    json_decref(read);
}

/* Gaps of a block are not in a file, and are not touched. */
static void gaps(void)
{
    struct tft_param wide[3] = { params[0], params[1], params[2] };
    const struct tft_param_table spread = { .params = wide, .count = 3, .capacity = 3, .reals = 16 };
    float block[10], with_gaps[16], back[16];
    size_t length, other;

    wide[2].offset = 12;
    for (int i = 0; i < 16; i++)
        with_gaps[i] = back[i] = -1;
    for (int i = 0; i < 10; i++)
        block[i] = with_gaps[i < 9 ? i : 12] = (float)i;
    REQUIRE(!tft_safetensors_write(&test_log, in_scratch("m.safetensors"), &table, block, NULL));
    char *bytes = read_bytes(in_scratch("m.safetensors"), &length);
    REQUIRE(!tft_safetensors_write(&test_log, in_scratch("g.safetensors"), &spread, with_gaps, NULL));
    char *others = read_bytes(in_scratch("g.safetensors"), &other);
    CHECK(length == other && !memcmp(bytes, others, length), "%zu and %zu bytes", length, other);
    CHECK(!tft_safetensors_read(&test_log, in_scratch("m.safetensors"), &spread, back, NULL));
    CHECK(!memcmp(back, with_gaps, sizeof back));
    free(bytes);
    free(others);
}

#define A "\"a.kernel\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define BIAS "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[24,36]}"
#define B "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[36,40]}"

static void hostile(void)
{
    static const struct {
        const char *header, *says;
        size_t data;
    } cases[] = {
        { "{" A "," BIAS "}", "tensor 'b' is missing", 40 },
        { "{" A "," BIAS "," B ",\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[40,44]}}",
          "tensors that the model does not have", 44 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[36,40]}}", "not of type F32", 40 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[36,40]}}", "another shape", 40 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[36,44]}}", "makes no sense", 44 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", "makes no sense", 40 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4000000000,4000000004]}}",
          "makes no sense", 40 },
        { "{" A "," BIAS ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[32,36]}}", "overlap or leave gaps",
          40 },
        { "{" A "," BIAS "," B "}", "its length is wrong", 44 },
        { "{" A "," A "," BIAS "," B "}", "header is not JSON", 40 },
        { "[1,2]", "header is not JSON", 40 },
        { "{" A "," BIAS ",\"b\":7}", "not of type F32", 40 },
    };
    float back[10];

    CHECK(!tft_safetensors_read(&test_log, made("{" A "," BIAS "," B "}", 40), &table, back, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(tft_safetensors_read(&test_log, made(cases[i].header, cases[i].data), &table, back, NULL) ==
                      HALAY_ERR_FORMAT &&
                  error_says(cases[i].says),
              "case %zu", i);
    uint64_t huge = UINT64_MAX - 3;
    CHECK(tft_safetensors_read(&test_log, write_bytes("huge", &huge, sizeof huge), &table, back, NULL) ==
          HALAY_ERR_FORMAT);
    CHECK(tft_safetensors_read(&test_log, in_scratch("absent"), &table, back, NULL) == HALAY_ERR_SYSTEM);
}

int main(void)
{
    begin_scratch();
    round_trip();
    gaps();
    hostile();
    end_scratch();
    return test_end();
}

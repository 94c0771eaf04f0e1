/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs of programs that were built against other versions: shorter, longer, and what is no struct at all.
 */
#include "base/struct_size.h"
#include "tests/test.h"
#include <stdint.h>
#include <string.h>

struct thing {
    size_t struct_size;
    int first, second;
    double third; /* since a later version */
};

enum { FIRST = offsetof(struct thing, third) };

static void count(void *arg, enum halay_log_level level, const char *line)
{
    *(int *)arg += level == HALAY_LOG_ERROR && strstr(line, "struct thing") != NULL;
}

static enum halay_status read_thing(struct halay_log *log, const void *given, struct thing *out)
{
    return halay_struct_read(log, "thing", given, FIRST, sizeof *out, out);
}

static void accepted(struct halay_log *log)
{
    struct {
        struct thing known;
        unsigned char more[40];
    } newer = { { .struct_size = sizeof newer, .first = 1, .second = 2, .third = 3 }, { 0 } };
    struct thing out, given = { .struct_size = sizeof given, .first = 1, .second = 2, .third = 3 };
    const unsigned char *bytes = (const unsigned char *)&newer;

    CHECK(read_thing(log, &given, &out) == HALAY_OK && !memcmp(&given, &out, sizeof out));
    given.struct_size = FIRST; /* what lies behind is not the struct's */
    memset(&out, 0xff, sizeof out);
    CHECK(read_thing(log, &given, &out) == HALAY_OK && out.struct_size == sizeof out);
    CHECK(out.first == 1 && out.second == 2 && out.third == 0);
    CHECK(read_thing(log, &newer, &out) == HALAY_OK && out.struct_size == sizeof out && out.third == 3);
    for (size_t i = 0; i < sizeof newer.more; i++) {
        newer.more[i] = 1;
        CHECK(read_thing(log, bytes, &out) == HALAY_ERR_ARGUMENT, "%zu", i);
        newer.more[i] = 0;
    }
}

static void refused(struct halay_log *log)
{
    const size_t sizes[] = { 0, 1, FIRST - 1, HALAY_STRUCT_MAX + 1, SIZE_MAX };
    struct thing out = { .first = 7 }, given = { .first = 1 };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        given.struct_size = sizes[i];
        CHECK(read_thing(log, &given, &out) == HALAY_ERR_ARGUMENT && out.first == 7, "%zu", sizes[i]);
    }
}

/* To programs that know less, as much, and more. */
static void handed_out(void)
{
    const struct thing all = { .first = 1, .second = 2, .third = 3 };
    struct {
        struct thing known;
        unsigned char more[8], after[8];
    } out;

    memset(&out, 0xff, sizeof out);
    out.known.struct_size = FIRST;
    CHECK(halay_struct_has_size(&out));
    halay_struct_write(&all, sizeof all, &out);
    CHECK(out.known.struct_size == FIRST && out.known.first == 1 && out.known.second == 2 && out.known.third != 3);
    out.known.struct_size = sizeof out.known + sizeof out.more;
    halay_struct_write(&all, sizeof all, &out);
    CHECK(out.known.struct_size == sizeof out.known + sizeof out.more && out.known.third == 3);
    for (size_t i = 0; i < sizeof out.more; i++)
        CHECK(out.more[i] == 0 && out.after[i] == 0xff, "%zu", i);
    out.known.struct_size = sizeof(size_t) - 1;
    CHECK(!halay_struct_has_size(&out));
    out.known.struct_size = HALAY_STRUCT_MAX + 1;
    CHECK(!halay_struct_has_size(&out));
}

int main(void)
{
    struct halay_log log;
    int lines = 0;

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = count;
    log.arg = &lines;
    accepted(&log);
    refused(&log);
    handed_out();
    CHECK(lines == 45, "a line for each of them, %d", lines);
    halay_log_fini(&log);
    return test_end();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: what is refused, and where it is said to be; the types of YAML's scalars; text and lines where they are
 * wanted instead.
 */
#include "base/document.h"
#include "tests/test.h"
#include <string.h>
#include <unistd.h>

static struct halay_log test_log;

static void ignore_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static int refuses(const char *text, int is_json, const char *why)
{
    json_t *d = NULL;
    enum halay_status status = halay_document_parse(&test_log, "x", text, strlen(text), is_json, NULL, &d);

    return CHECK(status == HALAY_ERR_FORMAT && !d && strstr(test_log.last_error.text, why), "'%s' is refused with '%s'",
                 text, test_log.last_error.text);
}

static void refused(void)
{
    char deep[200] = "a: ";

    refuses("", 0, "'x' is empty");
    refuses("- a\n- b\n", 0, "'x' is not a mapping");
    refuses("a: 1\nb: 2\na: 2\n", 0, "'x', line 3, column 1: key 'a' is given twice");
    refuses("a: [1, 2\n", 0, "'x', line 2, column 1: not YAML");
    refuses("a: &x 1\nb: *x\n", 0, "'x', line 1, column 4: anchors, aliases and tags are not read");
    refuses("a: *x\n", 0, "anchors, aliases and tags are not read");
    refuses("a: !!int 1\n", 0, "anchors, aliases and tags are not read");
    refuses("a: 1\n---\nb: 2\n", 0, "more than one document");
    refuses("? [a]\n: 1\n", 0, "the key is not a plain text");
    refuses("\"a\\0b\": 1\n", 0, "the key is not a plain text");
    refuses("a: \"b\\0\"\n", 0, "a zero byte");
    for (int i = 0; i < 40; i++)
        strcat(deep, "[");
    refuses(deep, 0, "too deep or too large");
    refuses("{\"a\":1,\"a\":2}", 1, "not JSON");
    refuses("[1]", 1, "is not a mapping of keys to values");
}

static void types(void)
{
    static const char text[] = "a: 12\nb: -1.5e3\nc: true\nd: ~\ne: \"0\"\nf: 1h\ng: 2013-06-01 01:00\nh: 1.2.3\n";
    json_t *d;

    REQUIRE(!halay_document_parse(&test_log, "x", text, strlen(text), 0, NULL, &d));
    CHECK(json_integer_value(json_object_get(d, "a")) == 12 && json_real_value(json_object_get(d, "b")) == -1500);
    CHECK(json_is_true(json_object_get(d, "c")) && json_is_null(json_object_get(d, "d")));
    CHECK(!strcmp(json_string_value(json_object_get(d, "e")), "0") && json_is_string(json_object_get(d, "f")));
    CHECK(json_is_string(json_object_get(d, "g")) && json_is_string(json_object_get(d, "h")));
    json_decref(d);
}

static void text_and_lines(void)
{
    static const char text[] = "a: 0.50\nb:\n  c: ~\n  d: [1,\n    true]\n";
    struct halay_document_lines lines = { 0 };
    json_t *d, *b, *list;

    REQUIRE(!halay_document_parse(&test_log, "x", text, strlen(text), 0, &lines, &d));
    b = json_object_get(d, "b");
    list = json_object_get(b, "d");
    CHECK(!strcmp(json_string_value(json_object_get(d, "a")), "0.50"));
    CHECK(!strcmp(json_string_value(json_object_get(b, "c")), "~"));
    CHECK(!strcmp(json_string_value(json_array_get(list, 1)), "true"));
    CHECK(halay_document_line_of(&lines, json_object_get(d, "a")) == 1 && halay_document_line_of(&lines, b) == 2);
    CHECK(halay_document_line_of(&lines, json_object_get(b, "c")) == 3 && halay_document_line_of(&lines, list) == 4);
    CHECK(halay_document_line_of(&lines, json_array_get(list, 1)) == 0);
    json_decref(d);
    halay_document_lines_fini(&lines);

    REQUIRE(!halay_document_parse(&test_log, "x", "# none\n", 7, 0, &lines, &d));
    CHECK(json_object_size(d) == 0 && !lines.count);
    json_decref(d);
    halay_document_lines_fini(&lines);
    CHECK(halay_document_parse(&test_log, "x", "a: 1\nb: [", 9, 0, &lines, &d) == HALAY_ERR_FORMAT);
    halay_document_lines_fini(&lines);
}

static void files(void)
{
    char path[] = "/tmp/halay-document.XXXXXX";
    int fd = mkstemp(path);
    json_t *d;

    REQUIRE(fd >= 0 && write(fd, "a: 1\n", 5) == 5);
    CHECK(!halay_document_load(&test_log, path, NULL, &d));
    json_decref(d);
    REQUIRE(!ftruncate(fd, ((off_t)4 << 20) + 1));
    CHECK(halay_document_load(&test_log, path, NULL, &d) == HALAY_ERR_FORMAT &&
          strstr(test_log.last_error.text, "4 MiB"));
    unlink(path);
    close(fd);
    CHECK(halay_document_load(&test_log, path, NULL, &d) == HALAY_ERR_SYSTEM &&
          strstr(test_log.last_error.text, "cannot open"));
}

/* A program's JSON, such as the description of a run with many entities, is larger than what people write. */
static void large_json(void)
{
    char path[] = "/tmp/halay-document.XXXXXX.json";
    FILE *file = fdopen(mkstemps(path, 5), "we");
    json_t *d;

    REQUIRE(file);
    fputs("{\"a\": [0", file);
    for (int i = 0; i < 1 << 20; i++)
        fputs(", 12345", file);
    REQUIRE(fputs("]}", file) >= 0 && !fclose(file) && !halay_document_load(&test_log, path, NULL, &d));
    CHECK(json_array_size(json_object_get(d, "a")) == (1 << 20) + 1);
    json_decref(d);
    unlink(path);
}

int main(void)
{
    halay_log_init(&test_log, HALAY_LOG_ERROR);
    test_log.write = ignore_line;
    refused();
    types();
    text_and_lines();
    files();
    large_json();
    halay_log_fini(&test_log);
    return test_end();
}

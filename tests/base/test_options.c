/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines by a table: what is read and where it goes, what is refused and with which words, help and the list for
 * completions.
 */
#include "base/error_text.h"
#include "base/options.h"
#include "tests/test.h"
#include <string.h>

struct values {
    size_t size, count;
    long number;
    int small, word, flag;
    double real;
    const char *text, *kind;
    char day[16], variable[16];
    struct halay_arguments files;
};

#define SETS(member) HALAY_OPTION_SETS(values, member)

static const char *const words[] = { "shared", "private", NULL };

static int take_text(const struct halay_option *option, const char *value, void *at, char *why, size_t size)
{
    if (strlen(value) >= option->size) {
        snprintf(why, size, "'%s' is too long", value);
        return 0;
    }
    strcpy(at, value);
    return 1;
}

static const struct halay_option table[] = {
    { .name = "Data" },
    { "--begin", "-b", "SIZE", "first size in bytes", HALAY_OPTION_SIZE, SETS(size), .preset = "4" },
    { "--iterations", "-n, --times", "N", "how often", HALAY_OPTION_NUMBER, SETS(number), .min = -1, .max = 10 },
    { "--small", NULL, "N", "an int", HALAY_OPTION_NUMBER, SETS(small), .min = 1, .max = 70000 },
    { "--count", NULL, "N", "a size_t", HALAY_OPTION_NUMBER, SETS(count), .max = 1e12 },
    { "--real", NULL, "X", "a double", HALAY_OPTION_REAL, SETS(real), .max = 5 },
    { .name = "Rest" },
    { "--json", "-o", "FILE", "write there", HALAY_OPTION_TEXT, SETS(text) },
    { "--buffers", NULL, NULL, "whose memory", HALAY_OPTION_CHOICE, SETS(word), .choices = words },
    { "--is-flag", NULL, NULL,
      "a help text that is so long that it does not fit into the line that it begins on, by far", HALAY_OPTION_FLAG,
      SETS(flag) },
    { "--day", NULL, "DAY", "taken", HALAY_OPTION_TAKEN, SETS(day), .take = take_text },
    { "--deterministic", NULL, NULL, "a variable's", HALAY_OPTION_TAKEN, SETS(variable),
      .variable = "HALAY_DETERMINISTIC", .take = take_text },
    { "--hidden", NULL, NULL, NULL, HALAY_OPTION_FLAG, SETS(flag) },
    { .name = NULL },
};
static const struct halay_option files[] = {
    { "FILE...", NULL, NULL, "what to read", HALAY_OPTION_ARGUMENTS, SETS(files) },
    { .name = NULL },
};

static const struct halay_option needs[] = {
    { "FILE", NULL, NULL, "what to read", HALAY_OPTION_ARGUMENTS, SETS(files), .max = 1, .required = "one FILE" },
    { "--kind", NULL, NULL, "of memory", HALAY_OPTION_CHOICE, SETS(kind), .choices = words, .required = "--kind" },
    { "--json", "-o", "FILE", "write there", HALAY_OPTION_TEXT, SETS(text), .required = "-o" },
    { .name = NULL },
};

static const struct halay_command_line needy = { .command = "test", .table = needs };
static const struct halay_command_line plain = {
    .command = "test", .synopsis = "[OPTION]...\nFILE...", .about = "Tests.", .table = table, .joins_values = 1
};
static const struct halay_command_line lenient = { .command = "test", .table = table, .more = files, .is_lenient = 1 };

/* Parse the words of a line; the texts of v are good until the next call. */
static enum halay_parsed parse(const struct halay_command_line *options, const char *line, struct values *v, char *why,
                               size_t size)
{
    static char copy[256];
    static char *argv[16];
    int argc = 0;

    snprintf(copy, sizeof copy, "test %s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = strcmp(word, "''") ? word : word + 2;
    argv[argc] = NULL;
    *v = (struct values){ .word = -1 };
    return halay_command_line_parse(options, argv, v, NULL, why, size);
}

static const struct values *accept(const struct halay_command_line *options, const char *line)
{
    static struct values v;
    char why[512] = "";

    CHECK(parse(options, line, &v, why, sizeof why) == HALAY_PARSED && !*why, "'%s': %s", line, why);
    return &v;
}

static void accepts(void)
{
    CHECK(accept(&plain, "")->word == -1);
    CHECK(accept(&plain, "-b 64K")->size == 65536);
    CHECK(accept(&plain, "-b64K")->size == 65536);
    CHECK(accept(&plain, "-b=64K")->size == 65536);
    CHECK(accept(&plain, "--begin=1M -n -1")->size == 1 << 20);
    CHECK(accept(&plain, "--begin=1M -n -1")->number == -1);
    CHECK(accept(&plain, "--times 7")->number == 7);
    CHECK(accept(&plain, "--small 70000")->small == 70000);
    CHECK(accept(&plain, "--count 1000000000000")->count == 1000000000000);
    CHECK(accept(&plain, "--is-flag --real 2.5")->flag == 1);
    CHECK(accept(&plain, "--is-flag --real 2.5")->real == 2.5);
    CHECK(accept(&plain, "--buffers private")->word == 1);
    CHECK(!strcmp(accept(&plain, "--json -")->text, "-"));
    CHECK(!strcmp(accept(&plain, "--json=a=b")->text, "a=b"));
    CHECK(!strcmp(accept(&plain, "--day monday")->day, "monday"));
    CHECK(!strcmp(accept(&plain, "--deterministic run")->variable, "run"));
    CHECK(accept(&plain, "--hidden")->flag == 1);
    CHECK(accept(&needy, "--kind private -o x a")->kind == words[1]);
}

/* Among arguments, and as SageMaker's SDKs write. */
static void accepts_arguments(void)
{
    const struct values *v = accept(&lenient, "a --is_flag - -b 4 -- --b");

    CHECK(v->files.count == 3 && v->flag && v->size == 4);
    CHECK(!strcmp(v->files.at[0], "a") && !strcmp(v->files.at[1], "-") && !strcmp(v->files.at[2], "--b"));
    CHECK(accept(&lenient, "--is-flag False")->flag == 0);
    CHECK(accept(&lenient, "--is-flag=true")->flag == 1);
    CHECK(accept(&lenient, "--is-flag true a")->files.count == 1);
}

/* Refused, with these words. */
static void refuse(const struct halay_command_line *options, const char *line, const char *expected)
{
    struct values v;
    char why[512] = "";

    CHECK(parse(options, line, &v, why, sizeof why) == HALAY_PARSED_WRONG, "'%s'", line);
    CHECK(!strcmp(why, expected), "'%s': '%s'", line, why);
    CHECK(!v.size && !v.number && !v.flag && v.word == -1 && !v.text && !*v.day);
}

static void refuses_without(void)
{
    struct values v;
    char why[512];
    static const char *const lines[][2] = {
        { "--kind private -o x", "one FILE" },
        { "--kind private -o x a b", "one FILE" },
        { "-o x a", "--kind" },
        { "--kind shared a", "-o" },
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s is missing; 'test --help' shows the usage", lines[i][1]);
        CHECK(parse(&needy, lines[i][0], &v, why, sizeof why) == HALAY_PARSED_WRONG, "'%s'", lines[i][0]);
        CHECK(!strcmp(why, expected), "'%s': '%s'", lines[i][0], why);
    }
    CHECK(parse(&needy, "--help", &v, why, sizeof why) == HALAY_PARSED_ANSWERED);
}

static void refuses(void)
{
    refuse(&plain, "--bufers shared", "unknown option '--bufers'; did you mean '--buffers'?");
    refuse(&plain, "--begn=4", "unknown option '--begn=4'; did you mean '--begin'?");
    refuse(&plain, "--beg 4", "unknown option '--beg'; 'test --help' lists them");
    refuse(&plain, "-x", "unknown option '-x'; 'test --help' lists them");
    refuse(&plain, "begin", "unknown argument 'begin'; did you mean '--begin'?");
    refuse(&plain, "''", "unknown argument ''; 'test --help' lists them");
    refuse(&plain, "-", "unknown argument '-'; 'test --help' lists them");
    refuse(&plain, "-- --begin", "unknown option '--begin'; did you mean '--begin'?");
    refuse(&plain, "-b", "option -b wants a value: -b SIZE");
    refuse(&plain, "--buffers", "option --buffers wants a value: --buffers shared|private");
    refuse(&plain, "-b 4X", "option -b: '4X' is not a size; write for example 67108864, 64M or 1G");
    refuse(&plain, "-n 11", "option -n: '11' is not a whole number from -1 to 10");
    refuse(&plain, "-n11", "option -n: '11' is not a whole number from -1 to 10");
    refuse(&plain, "--times=x", "option --times: 'x' is not a whole number from -1 to 10");
    refuse(&plain, "--real nan", "option --real: 'nan' is not a number from 0 to 5");
    refuse(&plain, "--buffers=both", "option --buffers: 'both' is not one of shared, private");
    refuse(&plain, "--is-flag=1", "option --is-flag takes no value, but '1' is given");
    refuse(&plain, "--is-flag=true", "option --is-flag takes no value, but 'true' is given");
    refuse(&plain, "--is_flag", "unknown option '--is_flag'; did you mean '--is-flag'?");
    refuse(&plain, "--json ''", "option --json: the value is empty");
    refuse(&plain, "--day a-day-that-is-too-long", "option --day: 'a-day-that-is-too-long' is too long");
    refuse(&plain, "--hiden", "unknown option '--hiden'; 'test --help' lists them");
    refuse(&lenient, "-b4", "unknown option '-b4'; 'test --help' lists them");
    refuse(&lenient, "--is-flag=1", "option --is-flag takes no value, but '1' is given");
    refuse(&lenient, "--is_flg", "unknown option '--is_flg'; did you mean '--is-flag'?");
}

/* What a line with --help or --list-options prints. */
static const char *answer(const struct halay_command_line *options, const char *word)
{
    static char text[4096];
    char copy[32], command[] = "test", *argv[] = { command, copy, NULL }, why[64];
    struct values v;
    FILE *out = fmemopen(text, sizeof text, "w");

    REQUIRE(out);
    snprintf(copy, sizeof copy, "%s", word);
    CHECK(halay_command_line_parse(options, argv, &v, out, why, sizeof why) == HALAY_PARSED_ANSWERED);
    fclose(out);
    return text;
}

static void answers(void)
{
    const char *help = answer(&plain, "-h"), *end;

    CHECK(strstr(help, "usage: test [OPTION]...\n       test FILE...\n\nTests.\n\nData:\n"), "%s", help);
    CHECK(strstr(help, "\n  -b, --begin SIZE          first size in bytes (4)\n"), "%s", help);
    CHECK(strstr(help, "\n  -n, --times, --iterations N\n                            how often\n"), "%s", help);
    CHECK(strstr(help, "\n  --buffers shared|private  whose memory\n"), "%s", help);
    CHECK(strstr(help, "\n  -h, --help                print this help\n") && !strstr(help, "--hidden"));
    for (const char *line = help; (end = strchr(line, '\n')); line = end + 1)
        CHECK(end - line <= 80, "%.*s", (int)(end - line), line);
    const char *list = answer(&plain, "--list-options");
    CHECK(strstr(list, "\n--iterations,-n,--times\tN\thow often\n"), "%s", list);
    CHECK(strstr(list, "\n--buffers\tshared|private\twhose memory\n"), "%s", list);
    CHECK(strstr(list, "\n--deterministic\toff|run|ranks\ta variable's\n"), "%s", list);
    CHECK(!strncmp(list, "--begin,-b\tSIZE\t", 16) && !strstr(list, "--hidden"), "%s", list);
}

static void texts_are_mended(void)
{
    static const char *const cases[][2] = {
        { "", "" },
        { "plain '%'", "plain '%'" },
        { "a\xc3\xa9z", "a\xc3\xa9z" },
        { "\xe6\xb8\xac\xf0\x9f\x98\x80", "\xe6\xb8\xac\xf0\x9f\x98\x80" },
        { "'\xc3' b", "'' b" }, /* cut after each byte */
        { "'\xe6' b", "'' b" },
        { "'\xe6\xb8' b", "'' b" },
        { "'\xf0\x9f\x98' b", "'' b" },
        { "\xe6\xb8\xac\xe6\xb8", "\xe6\xb8\xac" },
        { "\xa9 \xff\xfe", "? ??" },                            /* begins no character */
        { "\xc0\x80 \xe0\x80\x80 \xf0\x80\x80\x80", "?? ? ?" }, /* longer than need be */
        { "\xed\xa0\x80 \xf4\x90\x80\x80 \xf5\x80", "? ? ??" }, /* beyond all characters */
        { "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        halay_text_mend(text);
        CHECK(!strcmp(text, cases[i][1]), "case %zu: '%s'", i, text);
    }
}

int main(void)
{
    texts_are_mended();
    accepts();
    accepts_arguments();
    refuses();
    refuses_without();
    answers();
    return test_end();
}

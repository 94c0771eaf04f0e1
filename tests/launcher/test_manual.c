/* SPDX-License-Identifier: Apache-2.0
 *
 * The manual against the code: halay-environment(7) has every variable of the configuration table with its default and
 * its Horovod name; every variable that halayrun does not set has an option, which is in halayrun(1); every HALAY_
 * word of the manual is a variable. docs/guides/from-horovod.md has every variable of Horovod's that is read and every
 * flag of horovodrun's that is understood, and none of those is a name of our own.
 */
#include "base/config.h"
#include "launcher/cli/horovod.h"
#include "launcher/cli/options.h"
#include "tests/test.h"
#include <ctype.h>
#include <string.h>

static char environment[1 << 16], manual[1 << 16], from_horovod[1 << 16];

static void read_page(const char *name, char *text, size_t size)
{
    const char *top = halay_environment_get("top_srcdir");
    char path[512];

    snprintf(path, sizeof path, "%s/docs/%s", top ? top : ".", name);
    FILE *file = fopen(path, "re");
    REQUIRE(file);
    size_t n = fread(text, 1, size - 1, file);
    text[n] = 0;
    fclose(file);
}

/* As the pages write it: each '-' as "\-". */
static void escape(const char *text, char *out)
{
    for (; *text; text++) {
        if (*text == '-')
            *out++ = '\\';
        *out++ = *text;
    }
    *out = 0;
}

/* The option that gives the variable its value, NULL if there is none. */
static const char *option_of(const char *variable)
{
    const struct halay_option *o;

    for (size_t i = 0; (o = halay_command_line_row(&options_line, i)); i++)
        if (o->variable && !strcmp(o->variable, variable))
            return o->name;
    return NULL;
}

static void check_variable(const struct halay_config_variable *v)
{
    char wanted[256], option[128];
    const char *flag = option_of(v->name);

    if (v->is_set_by_launcher) {
        CHECK(strstr(environment, v->name), "%s", v->name);
        CHECK(!flag, "%s", v->name);
        return;
    }
    snprintf(wanted, sizeof wanted, ".BR %s \" (%s)\"", v->name, v->default_text);
    CHECK(strstr(environment, wanted), "%s", wanted);
    CHECK(!v->horovod || strstr(environment, v->horovod), "%s", v->horovod);
    /* halayrun's ranks always meet in its store; an option would give all of them one node's name, and would show the
     * secret to all users of the machine; the Python package reads the last. */
    if (!strcmp(v->name, "HALAY_BOOTSTRAP") || !strcmp(v->name, "HALAY_NODE") || !strcmp(v->name, "HALAY_SECRET") ||
        !strcmp(v->name, "HALAY_LIBRARY"))
        return;
    CHECK(flag, "%s has no option", v->name);
    if (!flag)
        return;
    escape(flag, option);
    snprintf(wanted, sizeof wanted, "\\fB%s\\fR", option);
    CHECK(strstr(manual, wanted), "%s", wanted);
}

static int is_known(const char *name)
{
    const struct halay_config_variable *v;

    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        if (!strcmp(v->name, name))
            return 1;
    return 0;
}

static void check_words(const char *page, const char *text)
{
    char name[128];

    for (const char *at = text; (at = strstr(at, "HALAY_")); at += strlen(name)) {
        size_t n = 0;
        while (n < sizeof name - 1 && (isupper((unsigned char)at[n]) || at[n] == '_'))
            n++;
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        CHECK(name[n - 1] == '_' || is_known(name), "%s: %s", page, name);
    }
}

static void check_horovod(void)
{
    const struct halay_config_variable *v;
    const struct horovod_flag *flag;
    char wanted[128];

    for (size_t i = 0; (v = halay_config_variable(i)); i++) {
        snprintf(wanted, sizeof wanted, "`%s`", v->horovod ? v->horovod : "");
        CHECK(!v->horovod || strstr(from_horovod, wanted), "%s", wanted);
    }
    for (size_t i = 0; (flag = horovod_flag(i)); i++) {
        snprintf(wanted, sizeof wanted, "`%s", flag->name);
        const char *at = strstr(from_horovod, wanted);
        while (at && !strchr("` =", at[strlen(wanted)])) /* the beginning of a longer one */
            at = strstr(at + 1, wanted);
        CHECK(at, "%s", flag->name);
        CHECK(!halay_command_line_find(&options_line, flag->name, strlen(flag->name)), "%s is an option of our own",
              flag->name);
    }
}

int main(void)
{
    const struct halay_config_variable *v;
    const struct halay_option *o;

    read_page("man/halay-environment.7", environment, sizeof environment);
    read_page("man/halayrun.1", manual, sizeof manual);
    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        check_variable(v);
    check_words("halay-environment.7", environment);
    check_words("halayrun.1", manual);
    read_page("guides/from-horovod.md", from_horovod, sizeof from_horovod);
    check_words("guides/from-horovod.md", from_horovod);
    check_horovod();
    /* Every option that help lists is in the manual. */
    for (size_t i = 0; (o = halay_command_line_row(&options_line, i)); i++)
        if (o->help) {
            char option[128];
            escape(o->name, option);
            CHECK(strstr(manual, option), "%s", o->name);
        }
    return test_end();
}

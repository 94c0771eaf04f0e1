#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# CONTRIBUTING's recipe for a command: its file and its row, added to a copy of the trainer's sources, work. Its other
# three places (the build's list, the manual, a test) hold no code of the program: lists.sh and manual_pages.sh ask for
# them. Only what has changed is compiled; the rest is the build's.
. "${top_srcdir:?}/tests/build/build.sh"
plain_make halay-tft >/dev/null
top_srcdir=$(cd "$top_srcdir" && pwd -P)
top_builddir=$(cd "$top_builddir" && pwd -P)
tree=$scratch/tree
mkdir "$tree"
for folder in base contrib include launcher sagemaker tft; do
    cp -r "$top_srcdir/$folder" "$tree/"
done

# with_make TEXT: the text, in which the build's make has put the values of its variables.
with_make() {
    printf 'include Makefile\nprint-text:\n\t@printf "%%s\\n" '"'%s'"'\n' "$1" |
        (unset MAKEFLAGS MFLAGS MAKELEVEL; make -s --no-print-directory -C "$top_builddir" -f - print-text)
}
compiler=$(with_make "\$(CC) \$(DEFS) -I$tree -I$tree/include -I. \$(AM_CFLAGS) \$(JANSSON_CFLAGS) \$(CFLAGS) -O0 -c")

# compile FILE: of the copy, by its name from the top, to an object in the scratch folder.
compile() {
    (cd "$top_builddir" && eval "$compiler" '"$tree/$1" -o "$scratch/$(basename "$1" .c).o"')
}

# link_like PROGRAM OBJECT...: a program in the scratch folder, with the libraries that the build's has.
link_like() {
    name=$1
    shift
    line=$(with_make "\$(LIBTOOL) --tag=CC --mode=link \$(CC) \$(CFLAGS) \$(LDFLAGS) -o $scratch/$name $* \
        \$($(echo "$name" | tr - _)_LDADD) \$(LIBS)")
    (cd "$top_builddir" && eval "$line") >"$scratch/said" 2>&1 || cat "$scratch/said"
}

cat >"$tree/tft/tools/cli/cmd_greet.c" <<'END'
/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft greet.
 */
#include "tft/tools/cli/session.h"
#include <stdio.h>

struct request {
    const char *name;
};

static const struct halay_option option_rows[] = {
    { "--name", NULL, "NAME", "a name", HALAY_OPTION_TEXT, HALAY_OPTION_SETS(request, name),
      .required = "--name" },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft greet", .synopsis = "--name NAME", .about = "Greets.", .table = option_rows
};

static enum halay_status greet(struct halay_log *log, struct halay_tft *tft, void *request)
{
    (void)tft;
    printf("hello, %s\n", ((const struct request *)request)->name);
    return tft_command_flush(log);
}

int tft_cmd_greet(struct halay_log *log, char **argv)
{
    struct request r = { 0 };
    int status = tft_options_parse(log, &command_line, argv, &r);

    return status >= 0 ? status : tft_command_run(log, NULL, NULL, greet, &r);
}
END
echo 'COMMAND(greet, "greet by name")' >>"$tree/tft/tools/cli/commands.def"

{ compile tft/tools/cli/cmd_greet.c && compile tft/tools/halay_tft.c; } || wrong "a new command does not compile"
link_like halay-tft "$scratch/halay_tft.o" "$scratch/cmd_greet.o"
checks=$((checks + 4))
[ "$("$scratch/halay-tft" greet --name Ann)" = "hello, Ann" ] || wrong "a new command does not run"
"$scratch/halay-tft" --help | grep -q '^ *greet  *greet by name' || wrong "--help does not list a new command"
! "$scratch/halay-tft" greet 2>"$scratch/said" || wrong "a required option is not required"
grep -q -- '--name is missing' "$scratch/said" || wrong "$(cat "$scratch/said")"
build_end

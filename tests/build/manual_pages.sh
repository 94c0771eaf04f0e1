#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each program that is installed has a page in section 1 that names all its options and those of its commands. All pages
# format without a warning.
. "${top_srcdir:?}/tests/build/build.sh"

command -v groff >/dev/null 2>&1 || skip "groff is not installed"

# A page of the section made from the headers may lead to another one, as man3/NAME: it is found from the folder above.
cd "$top_builddir/docs"
cp -r man3 "$scratch/man3"
cd "$scratch"

# Those that lead to others are these, formatted.
grep -L '^\.so ' "$top_srcdir"/docs/man/* man3/*.3 >pages
checks=$(wc -l <pages)
# One groff for all: its messages begin with the file's name.
LC_ALL=C.UTF-8 xargs groff -man -t -K utf8 -ww -rLL=100n -Tutf8 <pages >formatted 2>said || wrong "pages do not format"
[ ! -s said ] || wrong "$(cat said)"
# groff 1.23 has no such font on a terminal; earlier versions accept it there.
! xargs grep -nE '^\.ft C|\\f(C|\(C)' <pages >said || wrong "font C: $(cat said)"

# Each public function has a page of its own in section 3, or one that leads to it; of inline ones those that a header
# declares outside of the file of their bodies.
if command -v nm >/dev/null 2>&1; then
    {
        nm -D --defined-only "$top_builddir/.libs/libhalay.so" "$top_builddir/.libs/libhalay-tft.so" |
            sed -n 's/.* T \(halay_[a-z0-9_]*\).*/\1/p'
        find "$top_srcdir/include" -name '*.h' ! -name '*_inline.h' \
            -exec sed -n 's/^static inline [^(]*[ *]\(halay_[a-z0-9_]*\)(.*/\1/p' {} +
    } | sort -u >functions
    [ -s functions ] || wrong "libhalay.so exports nothing"
    while read -r function; do
        checks=$((checks + 1))
        page=man3/$function.3
        [ -f "$page" ] || {
            wrong "'$function' has no page in section 3"
            continue
        }
        if grep -q '^\.so ' "$page"; then page=$(sed 's/^\.so //' "$page"); fi
        for section in NAME SYNOPSIS DESCRIPTION 'SEE ALSO'; do
            grep -qx "\.SH $section" "$page" || wrong "$page has no section $section"
        done
        sed 's/\\f[A-Z]//g' "$page" | grep -qE "[ *]$function\(" ||
            wrong "$page does not show the prototype of '$function'"
    done <functions
fi

for program in $(plain_make print-programs | sed -n 's/^program: //p'); do
    checks=$((checks + 1))
    path=$top_builddir/$program
    program=${program##*/}
    page=$top_srcdir/docs/man/$program.1
    [ -f "$page" ] || {
        wrong "program '$program' is installed and docs/man/$program.1 is missing"
        continue
    }
    for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' 'SEE ALSO'; do
        grep -qE "^\.SH \"?$section\"?$" "$page" || wrong "$program.1 has no section $section"
    done
    [ -x "$path" ] || continue
    # Options of the program and of its commands that the page does not name. sm-entry has two, and no table of them.
    if "$path" --list-options >"$scratch/list" 2>/dev/null; then
        for command in $(sed -n 's/^\([a-z][a-z-]*\)\t.*/\1/p' "$scratch/list"); do
            checks=$((checks + 1))
            "$path" "$command" --list-options >>"$scratch/list" || wrong "$program $command --list-options fails"
        done
        cut -f 1 "$scratch/list" | tr ',' '\n' | grep -E '^-' | sort -u >"$scratch/options"
    else
        "$path" --help >"$scratch/help" 2>&1 || wrong "$program --help fails"
        grep -oE '(^|[ ,[])--[a-z][a-z0-9-]+' "$scratch/help" | grep -oE -e '--[a-z0-9-]+' | sort -u >"$scratch/options"
    fi
    sed 's/\\-/-/g; s/\\f[A-Z]//g' "$page" >"$scratch/text"
    while read -r option; do
        # A key of a configuration stands there in bold as in a file: hidden_size.
        key=$(echo "${option#--}" | tr - _)
        grep -qE -e "(^|[^a-z-])$option([^a-z-]|\$)|^\.B(R .*| |R )\\<$key( |\$)" "$scratch/text" ||
            wrong "$program.1 does not name '$option', the program does"
    done <"$scratch/options"
done
build_end

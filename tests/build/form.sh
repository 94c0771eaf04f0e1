#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The form of the sources: no line is longer than 120 columns, in code, scripts, build files and prose; C is as
# clang-format has it (version 14; others differ among themselves); no function is longer than 50 lines between its
# braces or has more than 8 parameters. First checks itself on files made for that.
#
# In Markdown tables, code, and lines that an address makes long are exempt.
. "${top_srcdir:?}/tests/build/build.sh"

# Longer or with more parameters, as FILE:FUNCTION.
# The public interface, which says what MPI's calls say, once as it is and once with a request.
exceptions='
fusion/api/calls.c:halay_reduce_scatter_async
fusion/api/calls.c:halay_allgather_async
fusion/api/calls.c:halay_alltoall_async
fusion/api/calls.c:halay_reduce_async
fusion/api/calls.c:halay_gather_async
fusion/api/calls.c:halay_scatter_async
fusion/api/calls.c:halay_allgather
fusion/api/calls.c:halay_alltoall
fusion/api/calls.c:halay_gather
fusion/api/calls.c:halay_scatter
'

# Files of the current tree that people write.
list_files() {
    find . -type d \( -name '.git' -o -name 'build*' -o -name autom4te.cache -o -path ./shared -o -name man \
        -o -path ./data -o -name __pycache__ \) ! -path ./tests/build -prune -o -type f -print |
        sed 's|^[.]/||' | grep -vE '[.](png|svg|gz|xz|json|lo|la|o)$|~$|^tests/reference/.*[.]txt$|(^|/)[.]deps/' |
        grep -vE '^(Makefile[.]in|aclocal[.]m4|configure|config[.]h[.]in|LICENSE|m4/l(ibtool|t).*)$' | sort
}

check_columns() {
    LC_ALL=C xargs awk '
        FNR == 1 { in_code = 0 }
        FILENAME ~ /[.]md$/ {
            if (/^ *(```|~~~)/)
                in_code = !in_code
            if (in_code || /^ *[|]/ || /^    / || /^<(img|picture|source)/)
                next
            gsub(/https?:[^ )>]*/, "")
        }
        {
            line = $0
            gsub(/\t/, "        ", line)
            gsub(/[\200-\277]/, "", line) # bytes that continue a character
            if (length(line) > 120)
                print FILENAME ":" FNR ": " length(line) " columns, not 120 at most"
        }' <"$1"
}

# The C code of the list has the closing brace of each function, and nothing else, at the beginning of a line.
check_functions() {
    grep '[.][ch]$' "$1" | xargs awk -v exceptions="$exceptions" '
        # Of "int f(int a, int (*g)(int, int))": the name, and how many parameters.
        function read_head(text,    i, c, depth, commas, any) {
            gsub(/__attribute__\(\([^;]*\)\)/, "", text)
            name = ""
            if (!match(text, /[A-Za-z_][A-Za-z_0-9]*\(/))
                return 0
            name = substr(text, RSTART, RLENGTH - 1)
            for (i = RSTART + RLENGTH; i <= length(text) && depth >= 0; i++) {
                c = substr(text, i, 1)
                depth += (c == "(") - (c == ")")
                commas += c == "," && !depth
                any = any || c ~ /[a-z]/
            }
            return any ? commas + 1 : 0
        }
        function complain(text) {
            if (!((FILENAME ":" name) in is_exception))
                print FILENAME ":" begun ": " name " " text
        }
        BEGIN {
            count = split(exceptions, lines, "\n")
            for (i = 1; i <= count; i++)
                if (split(lines[i], words, " "))
                    is_exception[words[1]] = 1
        }
        FNR == 1 { head = ""; inside = is_macro = 0 }
        # A macro goes on as long as its lines end with a backslash.
        is_macro || /^#/ { is_macro = /\\$/; next }
        inside {
            if (/^}/) {
                if (FNR - opened - 1 > 50)
                    complain("has " FNR - opened - 1 " lines, not 50 at most")
                inside = 0
                head = ""
            }
            next
        }
        /^{$/ {
            parameters = read_head(head)
            if (name == "")
                next
            opened = FNR
            inside = 1
            if (parameters > 8)
                complain("has " parameters " parameters, not 8 at most")
            next
        }
        /^[A-Za-z_]/ { head = $0; begun = FNR; next }
        /^[ \t]/ && head != "" { head = head $0 }
        /;$/ { head = "" }'
}

# Sets clang_format if there is one of version 14.
find_clang_format() {
    for clang_format in clang-format clang-format-14; do
        case $($clang_format --version 2>/dev/null) in *' version 14.'*) return 0 ;; esac
    done
    return 1
}

check_clang_format() {
    # shellcheck disable=SC2046 # a list of words
    $clang_format --dry-run --Werror $(grep '[.][ch]$' "$1") 2>&1 |
        awk -F: '/: error: / && !seen[$1]++ { print $1 ":" $2 ": not as clang-format has it" }'
}

# expect BREACHES FILE: what the file that was made for it is said to be.
expect() {
    echo "$2" >"$scratch/made"
    said=$(cd "$scratch/tree" && check_columns ../made && check_functions ../made)
    [ "$said" = "$1" ] || {
        echo "form.sh: said '$said' of $2, not '$1'"
        exit 1
    }
}

self_test() {
    long=$(printf '%0121d' 0)
    short=$(printf '%0120d' 0)
    mkdir "$scratch/tree"
    cd "$scratch/tree"
    printf '%s\n%s\n' "$short" "$long" >a.sh
    expect 'a.sh:2: 121 columns, not 120 at most' a.sh
    printf '| %s\n```\n%s\n```\n    %s\nsee https://%s\n%s\n' "$long" "$long" "$long" "$long" "$long" >a.md
    expect 'a.md:7: 121 columns, not 120 at most' a.md
    printf '%s\n' "$(printf '%0119d' 0)é" >b.md
    expect '' b.md
    { printf 'static int f(int a,\n             int b)\n{\n' && seq 50 && printf '}\n'; } >a.c
    expect '' a.c
    { printf '#define X \\\n    (1)\nint f(void)\n{\n' && seq 51 && printf '}\n'; } >b.c
    expect 'b.c:3: f has 51 lines, not 50 at most' b.c
    printf 'int (*table[])(int) = { 0 };\nint f(%s, int (*h)(int, int))\n{\n}\n' \
        'int a, int b, int c, int d, int e, int f, int g' >c.c
    expect '' c.c
    printf 'int f(int a, int b, int c, int d, int e, int f,\n      int g, int h, int i)\n{\n}\n' >d.c
    expect 'd.c:1: f has 9 parameters, not 8 at most' d.c
}

(self_test)
cd "$top_srcdir"
list_files >"$scratch/files"
check_columns "$scratch/files" >"$scratch/breaches"
check_functions "$scratch/files" >>"$scratch/breaches"
if find_clang_format; then
    check_clang_format "$scratch/files" >>"$scratch/breaches"
else
    echo "skipped: there is no clang-format of version 14"
fi
checks=$(wc -l <"$scratch/files")
faults=$(wc -l <"$scratch/breaches")
cat "$scratch/breaches"
build_end

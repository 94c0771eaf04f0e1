#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The form of the sources: no line is longer than 120 columns, in code, scripts, build files and prose; C is as
# clang-format has it (version 14; others differ among themselves); no function is longer than 50 lines between its
# braces or has more than 8 parameters. First checks itself on files made for that.
#
# In the folders of `phrases`, comments and strings are also searched for phrases that plain English has other words for
# (check_phrases lists them), and files of more than 150 lines for static functions whose name is one bare word. Each
# folder may have the number that it is listed with, which only falls.
#
# In Markdown tables, code, and lines that an address makes long are exempt.
. "${top_srcdir:?}/tests/build/build.sh"

# Longer or with more parameters, as FILE:FUNCTION.
# The public interface, which says what MPI's calls say, once as it is and once with a request.
exceptions='
include/halay_inline.h:halay_reduce_scatter_async
include/halay_inline.h:halay_allgather_async
include/halay_inline.h:halay_alltoall_async
include/halay_inline.h:halay_reduce_async
include/halay_inline.h:halay_gather_async
include/halay_inline.h:halay_scatter_async
include/halay_inline.h:halay_allgather
include/halay_inline.h:halay_alltoall
include/halay_inline.h:halay_gather
include/halay_inline.h:halay_scatter
'

# Folders and how many phrases each may have.
phrases='
base 0
collectives/api 0
collectives/choose 0
collectives/group 0
collectives/messages 0
collectives/reduce 0
collectives/schedule 0
collectives/shared 0
collectives/transport/cuda 0
collectives/transport/mpi 0
collectives/transport/ucx 0
include 0
launcher/cli 0
launcher/common 0
launcher/job 0
launcher/local 0
launcher/mpi 0
launcher/remote 0
launcher/watch 0
launcher/where 0
fusion/api 0
fusion/observe 0
fusion/place 0
fusion/paths/device 0
fusion/coordinator 0
fusion/engine 0
fusion/protocol 0
fusion/replay 0
fusion/run 0
fusion/requests 0
fusion/paths/p2p 0
perf/src/engine 0
python 0
contrib 0
tests/fusion 60
tft 0
python/halay/tft 0
'

# Files of the current tree that people write.
list_files() {
    find . -type d \( -name '.git' -o -name 'build*' -o -name autom4te.cache -o -path ./shared -o -name man \
        -o -path ./data -o -name __pycache__ \) ! -path ./tests/build -prune -o -type f -print |
        sed 's|^[.]/||' | grep -vE '[.](png|svg|gz|xz|json|lo|la|o|abi)$|~$|^tests/reference/.*[.]txt$|(^|/)[.]deps/' |
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

# Print FILE:LINE: PHRASE for each phrase to avoid in the C and Python files of the list: comments and strings of C, all
# of Python.
check_phrases() {
    grep -E '[.](c|h|def|cu|cuh|py)$' "$1" | xargs awk '
        BEGIN {
            edge = "[^A-Za-z_]"
            split("nobody somebody whoever whom likewise behind goes-on went-on go-on gone-on going-on for-ever " \
                  "so-many so-long so-much as-much-as in-turn lies stands hears heard told tells says said comes came",
                  words, " ")
            for (i in words)
                gsub("-", " ", words[i])
        }
        # A comment or a string: its phrases.
        function check(text, line,    i, rest) {
            gsub(/[ \t]+/, " ", text)
            text = " " text " "
            for (i in words) {
                rest = text
                while (match(rest, edge words[i] edge)) {
                    print FILENAME ":" line ": \"" words[i] "\""
                    rest = substr(rest, RSTART + RLENGTH - 1)
                }
            }
            while (match(text, edge "(is|are|was|were) (no [a-z]+|none)" edge)) {
                print FILENAME ":" line ": \"" substr(text, RSTART + 1, RLENGTH - 2) "\""
                text = substr(text, RSTART + RLENGTH - 1)
            }
        }
        function check_comment(text, line) {
            check(text, line)
            if (text ~ /^[ *]*(Of|What|Whom|Whose|Whether|Which|Where|How much|How many|Here) /)
                print FILENAME ":" line ": a comment begins with \"" substr(text, 1, 12) "\""
            if (text ~ /^[ *]*(Is|Are|Has|Have|Can|May|Does|Do|Did|Was|Must|Should) [^.:;]*[?]/)
                print FILENAME ":" line ": a comment asks; it would begin \"Returns nonzero if\""
        }
        FNR == 1 { comment = ""; open = 0; name_line = 0 }
        FILENAME ~ /[.]py$/ { check($0, FNR); next }
        {
            rest = $0
            for (;;) {
                if (open) {
                    stop = index(rest, "*/")
                    part = stop ? substr(rest, 1, stop - 1) : rest
                    sub(/^[ \t]*[*]/, "", part)
                    comment = comment " " part
                    if (!stop)
                        break
                    check_comment(comment, begun)
                    comment = ""
                    open = 0
                    rest = substr(rest, stop + 2)
                } else if (match(rest, /"([^"\\]|\\.)*"|\/\*|\/\/.*|\047([^\047\\]|\\.)+\047/)) {
                    found = substr(rest, RSTART, RLENGTH)
                    rest = substr(rest, RSTART + RLENGTH)
                    begun = FNR
                    if (found == "/*")
                        open = 1
                    else if (found ~ /^"/)
                        check(substr(found, 2, length(found) - 2), FNR)
                    else if (found ~ /^\//)
                        check_comment(substr(found, 3), FNR)
                } else
                    break
            }
        }'
    grep -E '[.](c|cu)$' "$1" | xargs awk '
        FNR == 1 { count = 0 }
        /^static [^=;{]*[ *][a-z]+[(]/ {
            match($0, /[ *][a-z]+[(]/)
            names[++count] = FILENAME ":" FNR ": static " substr($0, RSTART + 1, RLENGTH - 2) "() is one bare word"
        }
        FNR == 151 { is_long = 1 }
        is_long && FNR >= 151 { while (count) print names[count--] }
        FNR == 1 { is_long = 0 }'
}

# Folders that have more phrases than they may.
count_phrases() {
    printf '%s\n' "$phrases" | while read -r folder most; do
        [ -n "$folder" ] || continue
        grep "^$folder/" "$1" >"$scratch/of" || continue
        check_phrases "$scratch/of" >"$scratch/found"
        count=$(wc -l <"$scratch/found")
        [ "$count" -le "$most" ] || {
            cat "$scratch/found"
            echo "$folder has $count phrases, not $most at most (tests/build/form.sh: phrases)"
        }
    done
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
    said=$(cd "$scratch/tree" && check_columns ../made && check_functions ../made && check_phrases ../made)
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
    {
        printf '/* It goes\n * on. */\nchar *f = "x says \\"y\\"", c = \047"\047; /* Is it? */ // Of x\n'
        printf 'int says; /* is no x */\n'
    } >e.c
    expect 'e.c:1: "goes on"
e.c:3: "says"
e.c:3: a comment asks; it would begin "Returns nonzero if"
e.c:3: a comment begins with " Of x"
e.c:4: "is no x"' e.c
    printf 'static int take(void);\n' >f.c
    expect '' f.c
    seq 150 >>f.c
    expect 'f.c:1: static take() is one bare word' f.c
}

(self_test)
cd "$top_srcdir"
list_files >"$scratch/files"
check_columns "$scratch/files" >"$scratch/breaches"
check_functions "$scratch/files" >>"$scratch/breaches"
count_phrases "$scratch/files" >>"$scratch/breaches"
if find_clang_format; then
    check_clang_format "$scratch/files" >>"$scratch/breaches"
else
    echo "skipped: there is no clang-format of version 14"
fi
checks=$(wc -l <"$scratch/files")
faults=$(wc -l <"$scratch/breaches")
cat "$scratch/breaches"
build_end

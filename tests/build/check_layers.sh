#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each layer includes itself and what is below it, and nothing else:
#
#     launcher, tft, perf -> fusion -> collectives -> collectives/transport -> base -> halay_types.h
#
# with five more rules: the programs above the library see its public headers and base/ only (but for perf/simulated,
# which is the library itself in another world, and perf/trainer and perf/devices, which measure the trainer and the
# kernels of the engine's module for CUDA), so do the trainer's
# tools, tft/tools, above its core, tft/core, sagemaker/ stands on the programs and only their main functions
# know it, a library of others is included in the one place that wraps it, and nothing includes in a circle: no folders,
# and no files, where x.h, x.c, x_impl.h, the inside of x, and x_inline.h, its bodies, count as one. A header declares
# only what its own folder defines, so what a file includes is what it can call; include/ declares what is defined
# above, so calls are checked as well: no floor calls a higher one, no folders call in a circle. The environment is
# read in one file.
#
# usage: check_layers.sh [TREE]; without one it first checks itself on trees made for that.
set -eu

# For each layer: its folder, then what it may include (folders with a slash, or single headers).
layers='
include                 halay_types.h
include/halay.h         halay_types.h halay_inline.h
include/halay_inline.h  halay.h
include/halay_coll.h    halay_types.h halay_coll_inline.h
include/halay_coll_inline.h halay_coll.h
include/halay_mpi.h     halay_types.h halay_coll.h halay.h
include/halay_elastic.h halay_types.h halay.h
include/halay_xla.h     halay_types.h halay.h
include/halay_tools.h   halay_types.h
include/halay_tft.h     halay_types.h halay.h
base                    halay_types.h halay_tools.h base/
collectives/transport   halay_types.h base/ collectives/transport/
collectives             halay_types.h halay_coll.h halay_tools.h base/ collectives/transport/ collectives/
fusion                  halay_types.h halay_coll.h halay.h halay_elastic.h halay_xla.h halay_tools.h
fusion                  base/ collectives/transport/ collectives/ fusion/
launcher                halay_types.h base/ launcher/
launcher/halayrun.c     halay_types.h base/ launcher/ sagemaker/
sagemaker               halay_types.h halay.h halay_tft.h base/ launcher/ tft/tools/ sagemaker/
perf                    halay_types.h halay_coll.h halay.h halay_elastic.h halay_tools.h base/ perf/
perf                    perf/devices/devices.h
perf/simulated          halay_types.h halay_coll.h halay_tools.h base/
perf/simulated          collectives/transport/ collectives/ perf/simulated/
perf/devices            halay_types.h base/ collectives/transport/ perf/src/stats.h perf/devices/
perf/trainer            halay_types.h halay.h base/ tft/core/ perf/trainer/
tft/core                halay_types.h halay_coll.h halay.h halay_elastic.h halay_tft.h halay_tools.h base/ tft/core/
tft/tools               halay_types.h halay.h halay_elastic.h halay_tft.h base/ tft/tools/
tft/tools/halay_tft.c   halay_types.h base/ tft/tools/ sagemaker/
examples                halay_types.h halay_coll.h halay.h halay_elastic.h halay_mpi.h halay_tft.h
'

# One line for each library of others: its headers, then the files that may include them (shell patterns).
others='
mpi.h       collectives/transport/mpi/* perf/src/versus/perf_mpi* perf/simulated/* include/halay_mpi.h
ucp/*       collectives/transport/ucx/*
uct/*       collectives/transport/ucx/*
ucs/*       collectives/transport/ucx/*
sodium*     base/*
microhttpd* base/http/http.c
jansson.h   base/document* base/http/* tft/* perf/* launcher/* sagemaker/*
yaml.h      base/document*
zlib.h      tft/*
dnnl*       tft/core/kernels/gemm*
oneapi/*    tft/core/kernels/gemm*
cblas.h     tft/core/kernels/gemm*
openblas*   tft/core/kernels/gemm*
cuda*       tft/core/kernels/cuda/* collectives/transport/cuda/* perf/devices/* perf/src/versus/perf_nccl*
cublas*     tft/core/kernels/cuda/*
'

# Files that may read the environment (the library's are in base/), and that may hand it on to a child.
readers='base/config.c base/launchers.c'

# The folders of a layer, lowest first: each includes itself and those before it. "." is what lies in the layer's own
# folder.
transports=$(sed -n 's/^HALAY_TRANSPORT(\([a-z]*\),.*/\1/p' "${top_srcdir:-.}/base/transports.def" | tr '\n' ' ')
floors="
base                  . machine net store secure http
collectives           reduce schedule choose group shared messages api
collectives/transport connect bootstrap . cuda tcp $transports
fusion                place protocol coordinator requests observe replay run paths engine api
launcher              common cli where local watch remote job mpi .
tft/core              kernels layers model data run score train api
tft/tools             drift export report explain serve tune cli .
"

# Calls through the public interface that make a circle: FOLDER:FUNCTION.
# - a result of the core in another form: the tools hold the forms
# - the report asks for an explanation, which makes its page by the report
known_calls='
tft/core/api:halay_tft_format
tft/tools/report:halay_tft_explain
'

# Print the breaches in the tree of the current folder.
check_tree() {
    check_includes
    check_floors include "$edges"
    check_circles include file "$edges"
    check_circles include folder "$edges"
    check_definitions
    check_floors call "$calls"
    check_circles call folder "$calls"
}

# What one file may not do. Leaves in $edges which file includes which of ours: file, header, line.
check_includes() {
    folders=
    for folder in $(printf '%s\n' "$layers" | sed 's/[ /].*//' | sort -u); do
        [ ! -d "$folder" ] || folders="$folders $folder"
    done
    # shellcheck disable=SC2086 # a list of words
    find $folders \( -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' \) | sort >"$files"
    : >"$edges"
    xargs grep -nE '^[[:space:]]*#[[:space:]]*include|\b(secure_)?getenv[[:space:]]*\(' /dev/null <"$files" |
        awk -v layers="$layers" -v others="$others" -v readers="$readers" -v files="$files" -v edges="$edges" '
        # "mpi*" as a regular expression.
        function pattern(glob) {
            gsub(/\./, "[.]", glob)
            gsub(/\*/, ".*", glob)
            return "^" glob "$"
        }
        function layer_of(file) {
            if (file in known)
                return file
            if (match(file, parts))
                return substr(file, 1, RLENGTH - 1)
            return substr(file, 1, index(file, "/") - 1)
        }
        # "collectives/../base/log.h" without the detour.
        function plain(path) {
            while (path ~ /[^\/]+\/\.\.\//)
                sub(/[^\/]+\/\.\.\//, "", path)
            return path
        }
        BEGIN {
            parts = "^(collectives/transport|perf/(devices|simulated|trainer)|tft/(core|tools))/"
            while ((getline file < files) > 0)
                exists[file] = 1
            count = split(layers, lines, "\n")
            for (i = 1; i <= count; i++)
                if (split(lines[i], words, " "))
                    for (j = 2; j in words; j++)
                        allowed[words[1], words[j]] = known[words[1]] = 1
            rules = split(others, rule, "\n")
            split(readers, words, " ")
            for (j in words)
                may_read[words[j]] = 1
        }
        {
            split($0, part, ":")
            file = part[1]
            place = file ":" part[2] ": "
        }
        !/^[^:]*:[0-9]*:[ \t]*#/ {
            if (!(file in may_read))
                print place "reads the environment"
            next
        }
        {
            if (!match($0, /["<][^">]*[">]/))
                next
            header = substr($0, RSTART + 1, RLENGTH - 2)
            for (i = 1; i <= rules; i++) {
                count = split(rule[i], words, " ")
                if (!count || header !~ pattern(words[1]))
                    continue
                good = 0
                for (j = 2; j <= count; j++)
                    good = good || file ~ pattern(words[j])
                if (!good)
                    print place "includes <" header ">, which has its own place:" substr(rule[i], length(words[1]) + 1)
                next
            }
            # A header of ours lies beside the file, or in include/, or is named from the top of the tree.
            folder = file
            sub(/[^\/]*$/, "", folder)
            if (plain(folder header) in exists)
                header = plain(folder header)
            else if (("include/" header) in exists)
                header = "include/" header
            else if (!(header in exists))
                next
            print file, header, part[2] >edges
            sub(/^include\//, "", header)
            if (!((layer_of(file), header) in allowed) && !((layer_of(file), layer_of(header) "/") in allowed))
                print place layer_of(file) " may not include \"" header "\""
        }'
}

# check_floors include|call EDGES: each file of a layer with floors lies on one of them, and includes or calls no higher
# one.
check_floors() {
    awk -v how="$1" -v floors="$floors" -v files="$files" '
        # Sets layer and floor; 0: the file is in no layer that has floors.
        function find(path,    name) {
            layer = ""
            for (name in has_floors)
                if (index(path, name "/") == 1 && length(name) > length(layer))
                    layer = name
            floor = substr(path, length(layer) + 2)
            if (!sub(/\/.*/, "", floor))
                floor = "."
            return layer != ""
        }
        BEGIN {
            count = split(floors, lines, "\n")
            for (i = 1; i <= count; i++) {
                if (!split(lines[i], words, " "))
                    continue
                has_floors[words[1]] = 1
                for (j = 2; j in words; j++)
                    level[words[1], words[j]] = j
            }
            while ((getline file < files) > 0)
                if (how == "include" && find(file) && !((layer, floor) in level))
                    print file ":1: lies on no floor of " layer
        }
        {
            if (!find($1))
                next
            from = layer
            of = floor
            if (find($2) && layer == from && level[layer, floor] > level[from, of])
                print $1 ":" $3 ": " from "/" of " may not " how " \"" (how == "call" ? $4 : $2) "\": " floor \
                    " is above it"
        }' "$2"
}

# check_circles include|call file|folder EDGES: print each circle, from a file or folder back to it, with the lines that
# make it. The first one found is printed, its last line forgotten, and so on until none is left.
check_circles() {
    awk -v how="$1" -v what="$2" '
        function node_of(path) {
            if (what == "folder")
                sub(/\/[^\/]*$/, "", path)
            else
                sub(/(_impl|_inline)?[.][a-z]+$/, "", path)
            return path
        }
        # Follow what includes lead to from a node; the path so far is path[1..depth]. True once a circle was printed.
        function follow(node, depth,    i, j) { # i, j: its own
            path[depth] = node
            is_open[node] = 1
            for (i = 1; i <= out[node]; i++) {
                if ((node, i) in forgotten)
                    continue
                taken[depth] = i
                if (to[node, i] in is_open) {
                    for (j = depth; path[j] != to[node, i]; j--)
                        ;
                    show(j, depth)
                    forgotten[node, i] = 1
                    return 1
                }
                if (!(to[node, i] in is_done) && follow(to[node, i], depth + 1))
                    return 1
            }
            delete is_open[node]
            is_done[node] = 1
            return 0
        }
        function show(from, depth,    j, text) {
            text = where[path[from], taken[from]] ": a circle of " what "s" (how == "call" ? " by calls" : "") ": " \
                path[from]
            for (j = from; j <= depth; j++)
                text = text " -> " to[path[j], taken[j]] " (" where[path[j], taken[j]] ")"
            print text
        }
        {
            from = node_of($1)
            header = node_of($2)
            if (from == header || (from, header) in seen)
                next
            seen[from, header] = 1
            if (!(from in out))
                nodes[++node_count] = from
            to[from, ++out[from]] = header
            where[from, out[from]] = $1 ":" $3
        }
        END {
            for (n = 1; n <= node_count; n += !found) {
                found = !(nodes[n] in is_done) && follow(nodes[n], 1)
                split("", is_open)
            }
        }' "$3"
}

# Headers declare what their own folder defines. Leaves in $calls which file calls a function of which other folder:
# file, definition's file, line, name.
check_definitions() {
    : >"$calls"
    xargs awk -v floors="$floors" -v known="$known_calls" -v calls="$calls" '
        # The folder; where a layer has floors, the floor.
        function unit_of(path,    name, layer, rest) {
            sub(/\/[^\/]*$/, "", path)
            layer = ""
            for (name in has_floors)
                if (index(path "/", name "/") == 1 && length(name) > length(layer))
                    layer = name
            rest = substr(path, length(layer) + 2)
            sub(/\/.*/, "", rest)
            return layer == "" ? path : layer "/" rest
        }
        # The line without comments, and without what strings contain.
        function code_of(text,    i, rest) {
            if (in_comment && !match(text, /\*\//))
                return ""
            if (in_comment)
                text = substr(text, RSTART + 2)
            in_comment = 0
            gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
            while (match(text, /\/\*/)) {
                i = RSTART
                rest = substr(text, i + 2)
                in_comment = !match(rest, /\*\//)
                text = substr(text, 1, i - 1) (in_comment ? "" : " " substr(rest, RSTART + 2))
            }
            sub(/\/\/.*/, "", text)
            sub(/^extern "" *(\{ *$)?/, "", text)
            return text
        }
        # declaration, from its first line to the one that ends it: a prototype, or the head of a definition.
        function take(is_definition,    text, at, name) {
            text = declaration
            declaration = ""
            gsub(/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)/, "", text)
            at = index(text, "(")
            if (text ~ /^(typedef|_Static_assert)/ || (index(text, "=") && index(text, "=") < at))
                return
            if (at && !match(text, /[A-Za-z_][A-Za-z_0-9]* *\(/))
                return
            if (!at && (text !~ /^extern / || !match(text, /[A-Za-z_][A-Za-z_0-9]* *(\[[^]]*\] *)*;/)))
                return
            name = substr(text, RSTART, RLENGTH)
            sub(/[^A-Za-z_0-9].*/, "", name)
            if (text ~ /(^| )static /)
                is_static[FILENAME, name] = 1
            else if (is_definition)
                define(name)
            else if (FILENAME ~ /[.](h|cuh)$/ && FILENAME !~ /^include\//) {
                prototype[++prototypes] = name
                place[prototypes] = FILENAME ":" start
            }
        }
        function define(name) {
            if (name ~ /[a-z]/) # no macro
                definitions[name] = definitions[name] " " FILENAME
        }
        BEGIN {
            count = split(floors, lines, "\n")
            for (i = 1; i <= count; i++)
                if (split(lines[i], words, " "))
                    has_floors[words[1]] = 1
            count = split(known, words, /[ \n]+/)
            for (i = 1; i <= count; i++)
                is_known[words[i]] = 1
        }
        FNR == 1 {
            declaration = ""
            in_comment = 0
        }
        {
            line = code_of($0)
        }
        line ~ /^[ \t#]/ {
            for (rest = line; match(rest, /[A-Za-z_][A-Za-z_0-9]*\(/); rest = substr(rest, RSTART + RLENGTH))
                if (RSTART == 1 || substr(rest, RSTART - 1, 1) !~ /[.>]/) {
                    name = substr(rest, RSTART, RLENGTH - 1)
                    if (!((FILENAME, name) in call))
                        call[FILENAME, name] = FNR
                }
        }
        line ~ /^#/ {
            declaration = ""
            next
        }
        line ~ /^[ \t]*$/ {
            next
        }
        line ~ /^\{/ {
            if (declaration != "")
                take(1)
            next
        }
        declaration == "" && line !~ /^[A-Za-z_]/ {
            next
        }
        declaration == "" && line !~ /^(static|extern|typedef) / &&
        match(line, /[A-Za-z_][A-Za-z_0-9]*(\[[^]]*\])* = /) {
            name = substr(line, RSTART, RLENGTH)
            sub(/[^A-Za-z_0-9].*/, "", name)
            define(name)
        }
        {
            if (declaration == "")
                start = FNR
            declaration = declaration line " "
        }
        line ~ /;[ \t]*$/ {
            take(0)
        }
        line ~ /\{[ \t]*$/ {
            declaration = ""
        }
        END {
            for (i = 1; i <= prototypes; i++) {
                count = split(definitions[prototype[i]], words, " ")
                for (j = 1; j <= count && unit_of(words[j]) != unit_of(place[i]); j++)
                    ;
                if (count == 1 && j > count) # several: a symbol that each module exports
                    print place[i] ": declares \"" prototype[i] "\", which " words[1] " defines"
            }
            for (key in call) {
                split(key, part, SUBSEP)
                caller = part[1]
                name = part[2]
                folder = caller
                sub(/\/[^\/]*$/, "", folder)
                if (!(key in is_static) && split(definitions[name], words, " ") == 1 && words[1] != caller &&
                    !((folder ":" name) in is_known))
                    print caller, words[1], call[key], name >calls
            }
        }' <"$files"
    sort -o "$calls" "$calls"
}

# A tree with one file that includes what it must not: check_tree has to say so.
expect_breach() { # expect_breach FILE LINE-OF-SOURCE
    (
        cd "$scratch/tree"
        mkdir -p "${1%/*}"
        printf '%s\n' "$2" >"$1"
        breaches=$(check_tree)
        rm "$1"
        case $breaches in
        "$1:1: "*) ;;
        *)
            echo "check_layers.sh: did not see '$2' in $1"
            exit 1
            ;;
        esac
    )
}

# expect BREACHES (FILE LINE-OF-SOURCE)...: these files in the tree have these breaches and no other.
expect() {
    (
        cd "$scratch/tree"
        wanted=$1
        shift
        made=
        while [ $# -gt 0 ]; do
            mkdir -p "${1%/*}"
            printf '%s\n' "$2" >"$1"
            made="$made $1"
            shift 2
        done
        breaches=$(check_tree)
        # shellcheck disable=SC2086 # a list of words
        rm $made
        [ "$breaches" = "$wanted" ] || {
            printf "check_layers.sh: in%s found '%s', not '%s'\n" "$made" "$breaches" "$wanted"
            exit 1
        }
    )
}

self_test() {
    mkdir "$scratch/tree"
    (
        cd "$scratch/tree"
        mkdir -p include base collectives/api collectives/transport fusion/api perf
        mkdir -p tft/core/data tft/core/api tft/tools/cli
        echo '#include <stddef.h>' >include/halay_types.h
        echo '#include "halay_types.h"' >include/halay.h
        echo '#include "halay_types.h"' >base/log.h
        echo '#include "base/log.h"' >collectives/transport/link.h
        printf '#include "collectives/transport/link.h"\n#include "../transport/link.h"\n' \
            >collectives/api/group.h
        printf '#include "collectives/api/group.h"\n#include "halay.h"\n' >fusion/api/engine.c
        printf '#include <jansson.h>\n#include "halay.h"\n' >tft/tools/cli/main.c
        echo '#include "base/log.h"' >tft/core/data/schema.h
        breaches=$(check_tree)
        [ -z "$breaches" ] || {
            echo "check_layers.sh: breaches in a tree without any: $breaches"
            exit 1
        }
    )
    expect_breach base/new.c '#include "collectives/api/group.h"'
    expect_breach base/new.c '  #  include "halay.h"'
    expect_breach collectives/transport/new.c '#include "../api/group.h"'
    expect_breach collectives/api/new.c '#include "fusion/api/engine.c"'
    expect_breach tft/core/data/new.c '#include "collectives/api/group.h"'
    expect_breach tft/tools/cli/new.c '#include "tft/core/data/schema.h"'
    expect_breach tft/core/data/new.c '#include "tft/tools/cli/main.c"'
    expect_breach perf/src/new.h '#include <mpi.h>'
    expect_breach tft/core/kernels/new.c '#include <cuda_runtime_api.h>'
    expect_breach tft/core/data/new.c 'int f(void) { return !getenv("HOME"); }'
    expect 'base/lock.h:1: a circle of files: base/lock -> base/log (base/lock.h:1) -> base/lock (base/log.c:1)' \
        base/log.c '#include "base/lock.h"' base/lock.h '#include "log.h"'
    expect 'base/a_impl.h:1: a circle of files: base/a -> base/log (base/a_impl.h:1) -> base/a (base/log.c:1)' \
        base/log.c '#include "a.h"' base/a.h '' base/a_impl.h '#include "log.h"'
    expect \
        'perf/a.h:1: a circle of files: perf/a -> perf/b (perf/a.h:1) -> perf/c (perf/b.h:1) -> perf/a (perf/c.c:1)' \
        perf/a.h '#include "b.h"' perf/b.h '#include "perf/c.h"' perf/c.h '' perf/c.c '#include "a.h"'
    expect 'perf/x/a.h:1: a circle of folders: perf/x -> perf/y (perf/x/a.h:1) -> perf/x (perf/y/d.c:1)' \
        perf/x/a.h '#include "perf/y/b.h"' perf/y/b.h '' perf/y/d.c '#include "perf/x/c.h"' perf/x/c.h ''
    expect 'tft/core/data/a.h:1: tft/core/data may not include "tft/core/train/b.h": train is above it' \
        tft/core/data/a.h '#include "tft/core/train/b.h"' tft/core/train/b.h '' \
        tft/core/train/c.c '#include "tft/core/model/d.h"' tft/core/model/d.h ''
    expect 'tft/core/new/a.h:1: lies on no floor of tft/core' tft/core/new/a.h ''
    expect 'base/a.h:1: declares "halay_a", which base/machine/a.c defines' \
        base/a.h 'int halay_a(int x);' base/machine/a.c 'int halay_a(int x)
{
}'
    expect 'base/a.h:1: declares "halay_a", which base/machine/a.c defines' \
        base/a.h 'extern const struct a halay_a;' base/machine/a.c 'const struct a halay_a = { 1 };'
    expect 'base/machine/a.c:3: base/machine may not call "halay_b": net is above it' \
        base/machine/a.c 'int halay_a(int x)
{
    return halay_b(x); /* by include/halay.h */
}' base/net/b.c 'int halay_b(int x)
{
    return x;
}'
    expect 'perf/x/a.c:3: a circle of folders by calls: perf/x -> perf/y (perf/x/a.c:3) -> perf/x (perf/y/b.c:3)' \
        perf/x/a.c 'int halay_a(int x)
{
    return halay_b(x);
}' perf/y/b.c 'int halay_b(int x)
{
    return halay_a(x);
}'
    expect '' base/a.h 'int halay_a(int x);' base/a.c 'static int halay_b(int x)
{
}
int halay_a(int x)
{
    return halay_b(x) + x->halay_c(x); /* halay_c(x) */
}' base/net/b.c 'int halay_b(int x)
{
}
int halay_c(int x)
{
}'
    expect '' perf/a.h '' perf/a_impl.h '#include "a.h"' perf/a.c '#include "a_impl.h"' perf/d.h '#include "a.h"' \
        perf/e.c '#include "d.h"' perf/e.h '#include "perf/a.h"'
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
files=$scratch/files
edges=$scratch/edges
calls=$scratch/calls
if [ $# -eq 0 ]; then
    self_test
    cd "${top_srcdir:?}"
else
    cd "$1"
fi
breaches=$(check_tree)
[ -z "$breaches" ] || {
    printf '%s\n' "$breaches"
    exit 1
}
echo "no layer includes or calls what is above it, nothing does in a circle, headers declare what their folder defines"

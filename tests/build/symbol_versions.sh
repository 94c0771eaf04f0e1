#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libhalay.map and libhalay-tft.map have a node for each release: each function of the public headers is in one of them,
# and the libraries export it with that version. A node of a release is as it was released (packaging/abi/released has
# the last release's maps). One node is not released yet: that of the version in configure.ac, or after its release a
# later one. Functions of halay_tools.h are in a node of their own. First the check is shown maps that break that.
. "${top_srcdir:?}/tests/build/build.sh"
command -v nm >/dev/null 2>&1 || skip "nm is not installed"

# HALAY_API marks each prototype; its name stands before the first parenthesis.
declared() { cat "$@" | tr '\n' ' ' | sed 's/HALAY_API/\n&/g' |
    sed -n 's/^HALAY_API[^(]*[ *]\(halay_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort -u; }

# nodes MAP: a line NODE FUNCTION for each function.
nodes() {
    sed 's/#.*//' "$1" | tr -s ' \t\n;' '\n' | awk '
        /^HALAY_/ { last = $1 }
        /^[{]/ { node = last }
        /^halay_/ { print node, $1 }
        /^}/ { node = "" }' | LC_ALL=C sort
}

# faults_of MAP RELEASED-MAP VERSION NAMES TOOLS: prints what is wrong with a map. NAMES and TOOLS are files with the
# functions of the headers, those of halay_tools.h in the second one.
faults_of() {
    nodes "$1" >"$scratch/nodes"
    nodes "$2" | sed '/^HALAY_TOOLS_/d' >"$scratch/released"
    awk -v version="$3" -v released="$scratch/released" -v stable="$4" -v tools="$5" '
        function number(node) { # 0.12: 12
            sub(/.*_/, "", node)
            return int(node) * 1000 + substr(node, index(node, ".") + 1)
        }
        function may_be_next(node) {
            if (next_node == "")
                next_node = node
            return node == next_node && (number(node) == number(version) || is_old && number(node) > number(version))
        }
        BEGIN {
            while ((getline <released) > 0) {
                is_released[$1] = 1
                is_old = is_old || number($1) == number(version)
                wanted[$0] = 1
            }
            while ((getline name <stable) > 0)
                kind[name] = "stable"
            while ((getline name <tools) > 0)
                kind[name] = "tools"
        }
        {
            if ($2 in node)
                print $2 " is in " node[$2] " and in " $1
            node[$2] = $1
            delete wanted[$0]
            if (!($2 in kind))
                print $2 " is in " $1 " and in no header"
            else if (($1 ~ /^HALAY_TOOLS_/) != (kind[$2] == "tools"))
                print $2 " is in " $1 ", and halay_tools.h " (kind[$2] == "tools" ? "declares it" : "does not")
            if (kind[$2] == "stable" && !($1 in is_released) && !may_be_next($1))
                print $2 " is in " $1 ", which is neither a release nor the next one"
        }
        END {
            for (name in kind)
                if (!(name in node))
                    print name " is in no node"
            for (line in wanted)
                print line ": released so, and not there"
        }' "$scratch/nodes"
    # What a released node has beyond what was released.
    LC_ALL=C comm -23 "$scratch/nodes" "$scratch/released" |
        awk -v released="$scratch/released" '
            BEGIN { while ((getline <released) > 0) is_released[$1] = 1 }
            $1 in is_released { print $2 " is added to " $1 ", which is released" }'
}

# shown VERSION WORDS MAP: with this map, the one fault that is found has these words; "": none is.
shown() {
    version=$1
    shift
    checks=$((checks + 1))
    printf '%b' "$2" >"$scratch/shown.map"
    found=$(faults_of "$scratch/shown.map" "$scratch/old.map" "$version" "$scratch/shown.names" "$scratch/shown.tools")
    [ "$(echo "$found" | wc -l)" -eq 1 ] || wrong "more than one fault of a map: $found"
    case ${1:+some}/${found:+some}/$found in
    // | some/some/*"$1"*) ;;
    *) wrong "found '$found' and not '$1' in a map" ;;
    esac
}

printf 'HALAY_0.1 {\nglobal:\n    halay_a; # one\nlocal:\n    *;\n};\nHALAY_TOOLS_0.1 {\nglobal:\n    halay_x;\n};\n' \
    >"$scratch/old.map"
printf 'halay_a\nhalay_b\n' >"$scratch/shown.names"
echo halay_t >"$scratch/shown.tools"
tail='HALAY_TOOLS_0.2 {\nglobal:\n    halay_t;\n};\n'
shown 0.2 '' "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.2 { halay_b; } HALAY_0.1;\n$tail"
shown 0.2 'halay_b is in no node' "HALAY_0.1 { halay_a; local: *; };\n$tail"
shown 0.2 'halay_b is added to HALAY_0.1' "HALAY_0.1 { halay_a; halay_b; local: *; };\n$tail"
shown 0.2 'halay_b is in HALAY_0.2 and in HALAY_0.2' \
    "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.2 { halay_b; halay_b; } HALAY_0.1;\n$tail"
shown 0.2 'HALAY_0.1 halay_a: released so' "HALAY_0.2 { halay_a; halay_b; local: *; };\n$tail"
shown 0.2 'halay_b is in HALAY_0.3, which' "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.3 { halay_b; };\n$tail"
shown 0.2 'halay_c is in HALAY_0.2 and in no header' \
    "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.2 { halay_b; halay_c; };\n$tail"
shown 0.2 'halay_t is in HALAY_0.2, and halay_tools.h declares it' \
    "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.2 { halay_b; halay_t; };\n"

shown 0.1 '' "HALAY_0.1 { halay_a; local: *; };\nHALAY_0.3 { halay_b; };\n$tail"
version=$(make_variable PACKAGE_VERSION | cut -d . -f 1,2)
declared "$top_srcdir/include/halay_tft.h" >"$scratch/trainer"
declared "$top_srcdir/include/halay_tools.h" >"$scratch/tools"
declared "$top_srcdir"/include/*.h | LC_ALL=C comm -23 - "$scratch/trainer" |
    LC_ALL=C comm -23 - "$scratch/tools" >"$scratch/public"
for library in libhalay libhalay-tft; do
    checks=$((checks + 1))
    names=$scratch/public tools=$scratch/tools
    [ $library = libhalay ] || names=$scratch/trainer tools=/dev/null
    released=$top_srcdir/packaging/abi/released/$library.map
    [ -f "$released" ] || released=/dev/null
    faults_of "$top_srcdir/$library.map" "$released" "$version" "$names" "$tools" >"$scratch/faults"
    while read -r fault; do wrong "$library.map: $fault"; done <"$scratch/faults"
    nm -D --defined-only "$top_builddir/.libs/$library.so" | sed -n 's/.* \(halay_[a-z0-9_]*\)@@*\(HALAY_.*\)/\2 \1/p' |
        LC_ALL=C sort >"$scratch/exported"
    nodes "$top_srcdir/$library.map" | LC_ALL=C comm -3 - "$scratch/exported" | tr -d '\t' >"$scratch/faults"
    while read -r fault; do wrong "$library.so and $library.map differ in: $fault"; done <"$scratch/faults"
done
build_end

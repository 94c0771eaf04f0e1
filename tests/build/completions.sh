#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The completions that the build made: each parses in its shell, where that is installed, and bash completes commands,
# options, their words, files, and what stands behind halayrun's program.
. "${top_srcdir:?}/tests/build/build.sh"
made=$top_builddir/completions
[ -f "$made/made" ] || skip "this build has made none"

for shell in bash zsh fish; do
    command -v $shell >/dev/null 2>&1 || {
        echo "skipped: no $shell"
        continue
    }
    for file in "$made/$shell"/*; do
        checks=$((checks + 1))
        $shell -n "$file" 2>"$scratch/said" || wrong "$file: $(cat "$scratch/said")"
    done
done

# Completes the last word, where the cursor is.
# shellcheck disable=SC2016 # bash expands it
complete='. "$0/$1"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _${1//-/_}; printf "%s\n" "${COMPREPLY[@]}"'

# completes EXPECTED WORD...: the last word becomes these, in the order of C.
completes() {
    checks=$((checks + 1))
    expected=$1
    shift
    said=$(cd "$scratch" && bash -c "$complete" "$made_here/bash" "$@" | LC_ALL=C sort | tr '\n' ' ' | sed 's/ *$//')
    [ "$said" = "$expected" ] || wrong "'$*' becomes '$said', not '$expected'"
}

command -v bash >/dev/null 2>&1 || skip "bash is not installed"
made_here=$(cd "$made" && pwd)
mkdir "$scratch/a-folder"
: >"$scratch/a-file"
completes '--min-np' halayrun --min
completes '--min-np' halayrun -np 4 --min
completes 'auto cores none' halayrun --bind ''
completes 'cores' halayrun --bind co
completes 'cores' halayrun --bind = co
completes 'auto' halayrun --transport a
completes '' halayrun -np ''
completes 'a-folder' halayrun --wdir a
completes 'a-file a-folder' halayrun --config-file a
completes '' halayrun -np 2 ./a-program --min
completes 'a-file a-folder' halayrun --bind cores -np 2 ./a-program a
commands=$(sed -n 's/^COMMAND(\([a-z]*\),.*/\1/p' "$top_srcdir/tft/tools/cli/commands.def" | sort | xargs)
completes "--help --version -h $commands" halay-tft ''
completes 'predict prepare' halay-tft pre
completes '--hidden-continuous-size --hidden-size' halay-tft train --hid
completes 'nvidia' halay-tft train --conformance n
completes 'test train valid' halay-tft evaluate --split ''
completes '' halay-tft evaluate --stra
completes 'a-folder' halay-tft train --out a
completes 'all-gather allreduce alltoall' halay-perf al
completes 'shared' halay-perf tune --buffers s
completes 'f32' halay-perf allreduce -d f3
build_end

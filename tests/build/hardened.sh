#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The ELF files of the library, its modules and the installed programs are hardened as configure found possible: what
# each flag leaves behind is there.
. "${top_srcdir:?}/tests/build/build.sh"
command -v readelf >/dev/null 2>&1 || skip "readelf is not installed"
command -v objdump >/dev/null 2>&1 || skip "objdump is not installed"
[ -z "$(make_variable SANITIZER_CFLAGS)" ] || skip "a build with sanitizers is not hardened"
flags="$(make_variable HARDEN_CFLAGS) $(make_variable HARDEN_LDFLAGS) $(make_variable PIE_LDFLAGS)"

# has FLAG: configure found it; otherwise that part is skipped.
has() {
    case " $flags " in
    *" $1"*) return 0 ;;
    esac
    echo "skipped: compiler and linker do not have $1"
    return 1
}

# seen TEXT FILE PATTERN...: something in the file matches each pattern.
seen() {
    text=$1
    file=$2
    shift 2
    for pattern; do
        checks=$((checks + 1))
        grep -qE -e "$pattern" "$file" || wrong "${object##*/}: $text"
    done
}

unseen() {
    checks=$((checks + 1))
    if grep -qE -e "$3" "$2"; then wrong "${object##*/}: $1"; fi
}

# What every object has, modules too.
examine() {
    object=$1
    readelf -W -h -l -d -n "$object" >"$scratch/headers"
    unseen 'the stack or a segment can be written and run' "$scratch/headers" '^ +(GNU_STACK|LOAD) .* RWE'
    unseen 'relocations are written into code' "$scratch/headers" 'TEXTREL'
    if [ $relro = yes ]; then seen 'relocations stay writable' "$scratch/headers" '^ +GNU_RELRO' 'FLAGS.*NOW'; fi
}

# What is sure to be seen in objects with much code: all of them but modules.
examine_code() {
    examine "$1"
    readelf -W --dyn-syms "$object" >"$scratch/symbols"
    objdump -d --no-show-raw-insn "$object" >"$scratch/code"
    if [ $checked = yes ]; then seen 'no string function is checked' "$scratch/symbols" ' UND __[a-z]+_chk'; fi
    if [ $canary = yes ]; then seen 'no canary on the stack' "$scratch/symbols" ' UND __stack_chk_fail'; fi
    if [ $probes = yes ]; then
        seen 'large frames are not probed' "$scratch/code" ':[[:space:]]+or[ql] +\$0x0,(0x[0-9a-f]+)?\(%[er]sp'
    fi
    if [ $marks = yes ]; then seen 'no marks for indirect branches' "$scratch/code" 'endbr64'; fi
}

relro=no checked=no canary=no probes=no marks=no pie=no
if has -Wl,-z,relro,-z,now; then relro=yes; fi
if has -D_FORTIFY_SOURCE; then checked=yes; fi
if has -fstack-protector-strong; then canary=yes; fi
if has -pie; then pie=yes; fi
# How the next two look is known of one machine.
if [ "$(uname -m)" = x86_64 ]; then
    if has -fstack-clash-protection; then probes=yes; fi
    if has -fcf-protection; then marks=yes; fi
fi

examine_code "$top_builddir/.libs/libhalay.so"
for object in "$top_builddir"/.libs/libhalay-*.so; do
    [ -f "$object" ] && examine "$object"
done
for program in $(plain_make print-programs | sed -n 's/^program: //p'); do
    object=$top_builddir/${program%/*}/.libs/${program##*/}
    [ -f "$object" ] || object=$top_builddir/.libs/$program
    [ -f "$object" ] || object=$top_builddir/$program
    examine_code "$object"
    if [ $pie = yes ]; then seen 'it always lies at one address' "$scratch/headers" 'FLAGS_1.* PIE'; fi
done
build_end

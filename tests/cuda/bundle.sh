#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/gpu-bundle and tools/gpu-check: a bundle with the emulation in CUDA's place passes in a root folder that has
# nothing but a shell, coreutils and the C library; it reports what failed and what was not begun.
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
checks=0 failed=0
# expect STATUS COMMAND...: what it says is in $scratch/said.
expect() {
    checks=$((checks + 1)) status=0 want=$1
    shift
    "$@" >"$scratch/said" 2>&1 || status=$?
    [ $status -eq "$want" ] || wrong "$* ends with $status, not $want"
}
says() {
    checks=$((checks + 1))
    grep -q -e "$1" "$scratch/said" || wrong "it does not say '$1'"
}
wrong() {
    echo "failed: $1"
    cat "$scratch/said"
    failed=1
}

check=$top_srcdir/tools/gpu-check
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    expect 77 "$check" -o "$scratch/none"
    says 'skipped: there is no GPU'
fi
expect 2 "$check" -o "$scratch/none" no-such-group
expect 1 "$check" -B "$scratch" -o "$scratch/none"
says 'is not a bundle of tools/gpu-bundle'
[ ! -e "$scratch/none" ] || wrong "it leaves a folder"

# A folder that is not a bundle is left as it is.
mkdir "$scratch/mine"
expect 1 env BUNDLE_EMULATED=1 "$top_srcdir/tools/gpu-bundle" -b "$top_builddir" -o "$scratch/mine"
says 'exists and is not a bundle'
[ -d "$scratch/mine" ] || wrong "a folder that is no bundle is gone"

# A library that is not there is no bundle's: the machine with the GPU has it even less.
mkdir "$scratch/bin"
printf '#!/bin/sh\necho "  libnone.so.1 => not found"\n' >"$scratch/bin/ldd"
chmod +x "$scratch/bin/ldd"
expect 1 env BUNDLE_EMULATED=1 PATH="$scratch/bin:$PATH" "$top_srcdir/tools/gpu-bundle" -b "$top_builddir" \
    -o "$scratch/none"
says 'the programs need libnone.so.1, which is not found here'

# ---- a root folder without anything ----------------------------------------------------------------------------------

root=$scratch/root
expect 0 env BUNDLE_EMULATED=1 "$top_srcdir/tools/gpu-bundle" -b "$top_builddir" -o "$root/bundle"
mkdir -p "$root/bin" "$root/dev" "$root/tmp" "$root/etc"
: >"$root/dev/null"
for program in basename cat cp cut date df dirname env ls mkdir mktemp nproc rm sleep tail tee timeout tr uname; do
    cp "$(command -v $program)" "$root/bin/"
done
cp "$(command -v bash)" "$root/bin/sh"
for program in "$root"/bin/*; do ldd "$program"; done | sed -n 's/.*[ \t]\(\/[^ ]*\) (.*/\1/p' | sort -u |
    while read -r library; do
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
    done
for library in libdl libresolv librt libpthread libm; do # the C library's others
    file=$(ldd "$root"/bundle/halay-tft "$root"/bundle/lib/*.so* |
        sed -n "s/.*=> \(.*\/$library\.so[^ ]*\) .*/\1/p" | head -n 1)
    [ -z "$file" ] || { mkdir -p "$root${file%/*}" && cp -L "$file" "$root$file"; }
done
# bare COMMAND...: in there, as root or as a user with a namespace of its own.
mkdir "$root/proc"
namespace='unshare --mount --propagation private'
[ "$(id -u)" -eq 0 ] || namespace="$namespace --map-root-user"
$namespace true 2>/dev/null || {
    [ $failed = 0 ] || exit 1
    echo "skipped: namespaces are forbidden here"
    exit 77
}
bare() {
    # shellcheck disable=SC2086,SC2016 # a command and its words; the other shell's
    $namespace sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" /bin/env -i PATH=/bin EMU_ORDER=0 "$@"' \
        "$root" "$@"
}
expect 0 bare /bin/sh /bundle/gpu-check -o /results
for want in '^passed .*libraries$' '^passed .*the same losses, 3' '^    [0-9.]* samples/s, loss 3' \
    '^passed .*kernels one by one' '^passed .*two processes' '^  segments on GPU 0' \
    '^skipped .*compute-sanitizer: not installed' '^ended .* 15 passed, 0 failed, 1 skipped, 0 not begun$'; do
    says "$want"
done
"$top_builddir/tests/perf/check_json" "$root/results/sums.json" ranks=2 >"$scratch/said" 2>&1 ||
    wrong "the JSON of the sums"
grep -q '[0-9] checks passed, 0 failed' "$root/results/03.log" || wrong "the log of the kernels"
grep -q '^bf16 gate_norm ' "$root"/results/*.log || wrong "kernels of bf16 are not timed"

# A failure is shown, and the parts after it run; what there is no time for is no success.
printf '#!/bin/sh\necho "kernel 7 is wrong"\nexit 3\n' >"$root/bundle/tests/cuda/test_kernels"
expect 1 bare /bin/sh /bundle/gpu-check -o /results kernels profile
for want in "^failed .*kernels beside the processor's: exit status 3, /results/01.log" '^kernel 7 is wrong' \
    '^passed .*kernels one by one' '^ended .* 1 passed, 1 failed, 0 skipped, 0 not begun$'; do
    says "$want"
done
expect 1 bare /bin/sh /bundle/gpu-check -o /results -s 0 kernels
says "^not begun .*kernels beside the processor's: 0 s are over"
says '^ended .* 0 passed, 0 failed, 0 skipped, 1 not begun$'

# stand_in FILE LINES: a script in the place of a program in there.
stand_in() {
    printf '#!/bin/sh\n%s\n' "$2" >"$root/$1"
    chmod +x "$root/$1"
}
# Losses that are not numbers are not the same; a training that fails leaves nothing to the next one.
# shellcheck disable=SC2016 # the script's
stand_in bundle/halay-tft 'all=$* out=${all#*--out } out=${out%% *}
[ -d "$out" ] && exit 5
mkdir "$out"
echo "{\"train_loss\":null,\"steps\":1}" >"$out/metrics.jsonl"
case $out in */train) exit 4 ;; esac'
expect 1 bare /bin/sh /bundle/gpu-check -o /results steps speed speed
for want in '^failed .*the same losses, null and null: exit status 1' '^failed .*train, .*: exit status 4' \
    '^ended .* 2 passed, 3 failed, 0 skipped, 0 not begun$'; do
    says "$want"
done
! grep 'exit status 5' "$scratch/said" || wrong "a training finds the folder of another"

# A server of MPS ends with a script that is ended.
for program in tests/cuda/test_devices tests/cuda/test_devices_direct perf/halay-perf; do
    stand_in bundle/$program 'exit 0'
done
# shellcheck disable=SC2016 # the script's
stand_in bundle/launcher/halayrun 'case $* in *tft-electricity*) kill -TERM "$(cat /results/pid)" ;; esac'
# shellcheck disable=SC2016 # the script's
stand_in bin/nvidia-cuda-mps-control '[ "$1" = -d ] || exec cat >>/results/mps'
# shellcheck disable=SC2016 # the shell's
expect 1 bare /bin/sh -c 'echo $$ >/results/pid; exec /bin/sh /bundle/gpu-check -o /results collectives'
says '^passed .*MPS starts'
[ "$(cat "$root/results/mps" 2>&1)" = quit ] || wrong "MPS runs on"
echo "$checks checks"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# CUDA kernels as nvcc makes them for sm_75, sm_80, sm_90 and sm_100: nothing is spilled, registers and shared memory
# stay below limits, with what a launch may add to it, a multiprocessor has at least half of its warps (CUDA's
# calculator, occupancy.cc), and what is made to take four numbers at a time does (in PTX). Where nvdisasm is there, the
# machine code of the LSTM and of attention loads no single numbers in a loop, and has the tensor cores' products;
# collectives load at least four words before they store one.
set -u
top=${top_srcdir:?}
nvcc=$(sed -n 's/^NVCC *= *//p' "${top_builddir:?}/Makefile" | head -n 1)
[ -n "$nvcc" ] || {
    echo "skipped: there is no nvcc"
    exit 77
}
registers_most=64 shared_most=16384 occupancy_least=50
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
checks=0 failed=0

# Prints the registers that a kernel may have if it shares its multiprocessor with no other block, because it has few
# blocks or because a block takes most of the shared memory. Prints nothing for other kernels.
alone_registers() {
    case $1 in
    *target_loss*) echo 80 ;;
    *gate_norm_slabs*) echo 96 ;; # 256 blocks at most
    *alone_forward* | *alone_backward*) echo 200 ;; # 65536 / 320 threads
    *split_forward* | *split_backward*) echo 128 ;;
    esac
}

# Prints the bytes of its own shared memory that the launch of a kernel leaves room for beside the dynamic one, which
# may take all else that a device has for a block.
shared_beside_dynamic() {
    case $1 in
    *values_backward*) echo 8704 ;; # WEIGHTS in attention.cu
    *) echo 0 ;;
    esac
}

# check TEXT COMMAND...
check() {
    local text=$1
    shift
    if "$@"; then
        checks=$((checks + 1))
    else
        failed=$((failed + 1))
        echo "failed: $text"
    fi
}

# Shared memory of a size that is known at the launch is read by 128 bits, which its type alone does not promise.
unaligned=$(grep -rn 'extern __shared__' "$top"/{tft,collectives} --include='*.cu*' | grep -v '__align__(16) extern')
check "dynamic shared memory is aligned to 16 bytes: $unaligned" test -z "$unaligned"

# ptx_of ARCHITECTURE: makes the folder $scratch/ARCHITECTURE with the kernels' PTX: that of the modules where they have
# it and cuobjdump is there; else that of all kernels in one, which takes less than half of the time.
kernels=("$top"/tft/core/kernels/cuda/*.cu "$top"/collectives/transport/cuda/*.cu)
printf '#include "%s"\n' "${kernels[@]}" >"$scratch/all.cu"
ptx_of() {
    mkdir "$scratch/modules" "$scratch/$1"
    for module in libhalay-cuda libhalay-tft-cuda; do
        (cd "$scratch/modules" && cuobjdump -xptx all "$top_builddir/.libs/$module.so")
    done
    mv "$scratch"/modules/*."sm_$1.ptx" "$scratch/$1"
    rm -rf "$scratch/modules"
    set -- "$1" "$scratch/$1"/*.ptx
    [ $# -gt ${#kernels[@]} ] || {
        rm -f "$scratch/$1"/*.ptx
        "$nvcc" -std=c++17 -O3 -Werror all-warnings -I"$top" -I"$top/include" -arch="compute_$1" -ptx \
            "$scratch/all.cu" -o "$scratch/$1/all.ptx"
    }
}

# The gate, which limits seeds, looks at one of them. For each: the machine code; threads of a block, from each kernel's
# launch bounds; the kernels with dynamic shared memory; and a line for each kernel.
architectures=${TEST_SEEDS:+90}
architectures=${architectures:-75 80 90 100}
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
for a in $architectures; do
    ptx_of "$a" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        echo "failed: nvcc does not compile the kernels"
        exit 1
    }
    for file in "$scratch/$a"/*.ptx; do
        "$cuda/bin/ptxas" -O3 -v -arch="sm_$a" "$file" -o "${file%.ptx}.cubin" >"${file%.ptx}.log" 2>&1 || {
            cat "${file%.ptx}.log"
            echo "failed: ptxas does not compile the kernels"
            exit 1
        }
    done
    awk '
        /\.entry/ { sub(/.*\.entry */, ""); sub(/[( ].*/, ""); name = $0 }
        /\.maxntid/ { gsub(/[^0-9 ]/, " "); print name, $1 }' "$scratch/$a"/*.ptx >"$scratch/threads"
    awk '
        FNR == 1 { name = "" }
        /\.entry/ { sub(/.*\.entry */, ""); sub(/[( ].*/, ""); name = $0 }
        /dynamic_shared/ && name && !seen[name]++ { print name }' "$scratch/$a"/*.ptx >>"$scratch/dynamic"
    cat "$scratch/$a"/*.log | awk -v file="$scratch/threads" -v arch="$a" '
        BEGIN { while ((getline line < file) > 0) { split(line, word, " "); threads[word[1]] = word[2] } }
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /spill stores/ { for (i = 1; i <= NF; i++) if ($i == "spill") spilled[name] += $(i - 2) }
        /Used [0-9]+ registers/ {
            registers = $0; sub(/.*Used /, "", registers); sub(/ .*/, "", registers)
            shared = 0
            if (match($0, /[0-9]+ bytes smem/)) { shared = substr($0, RSTART, RLENGTH); sub(/ .*/, "", shared) }
            print name, arch, registers, shared, (name in threads ? threads[name] : 0), spilled[name] + 0
        }' >"$scratch/kernels.$a"
    check "a line for each of 200 kernels and more on sm_$a" test "$(wc -l <"$scratch/kernels.$a")" -ge 200
done
cat "$scratch"/kernels.* >"$scratch/kernels"
check "10 kernels and more have dynamic shared memory" test "$(wc -l <"$scratch/dynamic")" -ge 10
while read -r name arch registers shared threads spilled; do
    check "$name, sm_$arch: $spilled bytes are spilled" test "$spilled" = 0
    most=$(alone_registers "$name")
    most=${most:-$registers_most}
    check "$name, sm_$arch: $registers registers, at most $most" test "$registers" -le $most
    check "$name, sm_$arch: $shared bytes of shared memory, at most $shared_most" test "$shared" -le $shared_most
    check "$name, sm_$arch has launch bounds" test "$threads" -gt 0
    ! grep -qx "$name" "$scratch/dynamic" || check "$name, sm_$arch: $shared bytes beside dynamic shared memory" \
        test "$shared" -le "$(shared_beside_dynamic "$name")"
done <"$scratch/kernels"

if ${CXX:-g++} -I"$cuda/include" "$top/tests/cuda/occupancy.cc" -o "$scratch/occupancy" 2>"$scratch/log"; then
    cut -d' ' -f1-5 "$scratch/kernels" | "$scratch/occupancy" >"$scratch/shares" || exit 99
    check "all have an occupancy" test "$(wc -l <"$scratch/shares")" = "$(wc -l <"$scratch/kernels")"
    while read -r name arch share; do
        [ -z "$(alone_registers "$name")" ] || continue
        check "$name, sm_$arch: $share % of the warps, at least $occupancy_least" test "$share" -ge $occupancy_least
    done <"$scratch/shares"
else
    cat "$scratch/log"
    check "the calculator of occupancy compiles" false
fi

# The packs of four: four-number loads and stores in the kernels that are named by them.
for kernel in add_toILi4 row_to_allILi4 elu_ofILi4 take_rowsILi4 reduce_segments unpack_segment pack_segment; do
    awk -v kernel="$kernel" '/\.entry/ { inside = index($0, kernel) } inside' "$scratch/$a"/*.ptx >"$scratch/body"
    check "$kernel loads four numbers at a time" grep -q 'ld\.global.*\.v4\.' "$scratch/body"
    check "$kernel stores four numbers at a time" grep -q 'st\.global.*\.v4\.' "$scratch/body"
done

# loads FILE KERNEL: the global and generic loads of the kernels with this name, each with the number of loops that it
# is in: of labels in front of it that are branched to from behind it.
loads() {
    awk -v kernel="$2" '
        /^\.text\./ { inside = $0 ~ kernel; base = NR }
        !inside { next }
        /^\.L[^:]*:/ { label = $1; sub(/:.*/, "", label); at[label] = NR }
        / LDG?[. ]/ { match($0, /LDG?[.A-Z0-9]*/); load[NR] = substr($0, RSTART, RLENGTH) }
        / BRA[. ]/ && match($0, /\.L[^)]*/) {
            label = substr($0, RSTART, RLENGTH)
            if (label in at)
                for (n = at[label]; n <= NR; n++) loops[n]++
        }
        END { for (n in load) print load[n], loops[n] + 0 }' "$1"
}

# code_of FILE KERNEL: the machine code of the kernels with this name.
code_of() { awk -v kernel="$2" '/^\.text\./ { inside = index($0, kernel) } inside' "$1"; }

# under_way FILE KERNEL: the loads of 128 bits in front of the first such store, in the one of these kernels that has
# the fewest.
under_way() {
    awk -v kernel="$2" '
        /^\.text\./ { inside = index($0, kernel); if (inside) loads[section = $0] = 0 }
        !inside { next }
        / LDG\.E\.128/ { loads[section]++ }
        / STG\.E\.128/ { inside = 0 }
        END { for (s in loads) if (fewest == "" || loads[s] < fewest) fewest = loads[s]; print fewest + 0 }' "$1"
}

# What takes four numbers at a time, or two, takes no single ones in a loop. The products of the LSTM in bf16 are on the
# tensor cores.
check_code() {
    local sass=$1 arch=$2 kernel
    for kernel in row_to_allILi4 elu_ofILi4 split_forwardILi4 split_backwardILi4 attend_forwardILi4 \
        attend_backwardILi4ELi4 values_backwardILi4ELi4; do
        loads "$sass" "$kernel" >"$scratch/loads"
        check "$kernel, sm_$arch: 128 bits are loaded at a time" grep -q '^LDG\.E\.128' "$scratch/loads"
        check "$kernel, sm_$arch: no single number is loaded in a loop" \
            eval '! grep -qE "^LDG?\.E(\.U16)?(\.CONSTANT)? [1-9]" "$scratch/loads"'
        code_of "$sass" "$kernel" >"$scratch/body"
        check "$kernel, sm_$arch: 128 bits are stored at a time" grep -q 'STG\.E\.128' "$scratch/body"
    done
    # A thread has loads under way to several places, or ranks, whose number is known to the code.
    for kernel in pack_segment reduce_segmentsINS_6columnINS_{3f32,3f16,4bf16}ELi{0,2,4,8}E; do
        check "$kernel, sm_$arch: 4 words and more are loaded before one is stored" \
            test "$(under_way "$sass" "$kernel")" -ge 4
    done
    # Dropout draws for four numbers, and sums of columns are four columns wide.
    for kernel in dropILb1Ef drop_backwardILb1Ef {sum_rows,drop_sum,elu_backward}IfE; do
        code_of "$sass" "$kernel" >"$scratch/body"
        check "$kernel, sm_$arch: 128 bits are loaded and stored at a time" \
            eval 'grep -q "LDG\.E\.128" "$scratch/body" && grep -q "STG\.E\.128" "$scratch/body"'
    done
    [ "$arch" -ge 80 ] || return 0 # which have bf16
    code_of "$sass" 6narrow >"$scratch/body"
    check "sm_$arch: arrays of bf16 are known to be in global memory" \
        eval '! grep -qE " (LD|ST)\.E(\.(U16|64|128))? " "$scratch/body" && grep -q " STG\.E\.64" "$scratch/body"'
    for kernel in row_to_allILi4ELb1E6narrow elu_ofILi4E6narrow drop_sumI6narrow split_forwardILi4E6narrow; do
        code_of "$sass" "$kernel" >"$scratch/body"
        check "$kernel, sm_$arch: four numbers of bf16 are loaded at a time" grep -q ' LDG\.E\.64' "$scratch/body"
    done
    for kernel in alone_forwardILi1ELi2 alone_forwardILi2ELi2 alone_backwardILi1ELi2 alone_backwardILi2ELi2; do
        loads "$sass" "$kernel" >"$scratch/loads"
        check "$kernel, sm_$arch: no single number is loaded in a loop" \
            eval '! grep -qE "^LDG?\.E\.U16(\.CONSTANT)? [1-9]" "$scratch/loads" && [ -s "$scratch/loads" ]'
        loads "$sass" "${kernel}EfE" >"$scratch/loads"
        check "$kernel, sm_$arch: nor a single one of f32" \
            eval '! grep -qE "^LDG?\.E(\.CONSTANT)? [1-9]" "$scratch/loads" && [ -s "$scratch/loads" ]'
        code_of "$sass" "$kernel" >"$scratch/body"
        check "$kernel, sm_$arch: products are on the tensor cores" grep -q 'HMMA\.16816\.F32\.BF16' "$scratch/body"
        check "$kernel, sm_$arch: shared memory is read by 128 bits" grep -q 'LDS\.128' "$scratch/body"
    done
}
if command -v nvdisasm >/dev/null 2>&1; then
    for a in $architectures; do
        for cubin in "$scratch/$a"/*.cubin; do nvdisasm -c "$cubin" || exit 99; done >"$scratch/sass.$a"
        check_code "$scratch/sass.$a" "$a"
    done
else
    echo "no nvdisasm: the machine code was not looked at"
fi
echo "$checks checks passed, $failed failed"
[ $failed = 0 ] && [ $checks -gt 0 ]

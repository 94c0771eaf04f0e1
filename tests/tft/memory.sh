#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tables larger than --memory: the same bytes as with all of it, and the process holds no more than it may. So with
# any number of threads, errors included. A full disk and a kill leave nothing behind.
. "${top_srcdir:?}/tests/tft/shell.sh"

# rows HOURS: 60 entities hour by hour, so that the rows of one are far apart; a category, holes, what drops rows.
rows() {
    awk -v hours="$1" 'BEGIN { print "t,id,y,x,kind,z"; s = 7; for (i = 0; i < hours; i++) for (e = 0; e < 60; e++) {
        s = s * 16807 % 2147483647
        x = s % 7 ? s % 89 : ""; z = s % 997 ? s % 13 : ""
        if (s % 50) print i ",e" e "," s % 9973 / 8 "," x ",k" s % 5 "," z } }' \
        </dev/null
}
rows 10000 >"$scratch/large.csv"
rows 100 >"$scratch/small.csv"
schema() {
    cat <<END
id: {column: id}
time: {column: t, integer: true}
inputs:
  y: {column: y, role: target, fill: interpolate, lags: [3]}
  x: {column: x, role: observed, fill: interpolate, scale: robust}
  kind: {column: kind, role: observed, type: category, fill: forward}
  z: {column: z, role: observed, fill: drop}
  steps: {calendar: steps, role: known}
window: {encoder: 4, horizon: 2}
split: {train: "< $1", valid: "< $2", test: "< $3"}
END
}
schema 4000 5000 10000 >"$scratch/large.yaml"
schema 50 80 100 >"$scratch/small.yaml"
mkdir "$scratch/out"

# held NAME [OPTION...]: KiB that prepare of a table held at most.
# (A sanitizer keeps what was freed, so that it would grow with all that was ever asked for: it keeps nothing here.)
held() {
    name=$1
    shift
    ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=0:thread_local_quarantine_size_kb=0" \
        "$top_builddir/tests/tft/peak" "$tft" prepare --schema "$scratch/$name.yaml" "$scratch/$name.csv" "$@" |
        tail -n 1
}
small=$(held small -o "$scratch/out/small.htd")
all=$(held large -o "$scratch/out/all.htd")
limited=$(held large --memory 16M -o "$scratch/out/limited.htd")
echo "$small KiB for a small table; for a large one $all KiB, with --memory 16M $limited KiB"
check "the same with little memory" cmp "$scratch/out/all.htd" "$scratch/out/limited.htd"
# (Half as much again for what allocators keep; a sanitizer puts room around each block, and remembers it.)
room=24576
! grep -q __asan_init "$tft" "$top_builddir/.libs/halay-tft" 2>/dev/null || room=32768
[ "$limited" -le $((small + room)) ] || wrong "prepare held more than it may"
[ "$all" -gt $((small + 36864)) ] || wrong "the table is too small to be a test"
check "with one thread" "$tft" prepare --threads 1 --schema "$scratch/large.yaml" "$scratch/large.csv" \
    -o "$scratch/out/limited.htd"
check "the same with one thread" cmp "$scratch/out/all.htd" "$scratch/out/limited.htd"
check "with three threads" "$tft" prepare --threads 3 --schema "$scratch/large.yaml" "$scratch/large.csv" \
    -o "$scratch/out/limited.htd"
check "the same with three threads" cmp "$scratch/out/all.htd" "$scratch/out/limited.htd"
# The first entity with a fault is named, whichever is found first.
sed '/^5999,e[0-9]*,/s/,k[0-9],/,strange,/' "$scratch/large.csv" >"$scratch/strange.csv"
for threads in 1 3; do
    refused 1 "'e1': input 'kind' (column 'kind') is 'strange' at 5999" "$tft" prepare --threads $threads \
        --schema "$scratch/large.yaml" "$scratch/strange.csv" -o "$scratch/out/strange.htd"
done
check "a limit below everything" "$tft" prepare --memory 1 --schema "$scratch/small.yaml" "$scratch/small.csv" \
    -o "$scratch/out/least.htd"
check "the same with none" cmp "$scratch/out/small.htd" "$scratch/out/least.htd"

# A process is killed when it has a file in the folder open, and waits for more of its table.
rm "$scratch/out/limited.htd"
mkfifo "$scratch/endless"
exec 8<>"$scratch/endless"
cat "$scratch/large.csv" >&8 &
table=$!
"$tft" prepare --memory 4M --schema "$scratch/large.yaml" "$scratch/endless" -o "$scratch/out/limited.htd" \
    >"$scratch/said" 2>&1 8>&- &
process=$!
tries=6000
until find "/proc/$process/fd" -lname "$scratch/out/*" 2>/dev/null | grep -q .; do
    kill -0 "$process" 2>/dev/null && [ $((tries -= 1)) -gt 0 ] || break
    sleep 0.01
done
[ "$tries" -gt 0 ] || wrong "prepare has opened no file in its folder"
kill -9 "$process" || :
status=0
wait "$process" || status=$?
kill "$table" 2>/dev/null || : # it may wait for a reader
exec 8>&-
[ "$status" -eq 137 ] || wrong "prepare ended with $status before it was killed: $(cat "$scratch/said")"
left=$(ls -A "$scratch/out" | tr '\n' ' ')
[ "$left" = "all.htd least.htd small.htd " ] || wrong "what was killed left something: $left"

disk=$scratch/disk
mkdir "$disk"
if mount -t tmpfs -o size=12m halay-test "$disk" 2>/dev/null; then
    trap 'umount "$disk"; rm -rf "$scratch"' EXIT
    echo old >"$disk/large.htd"
    refused 1 "no room for" "$tft" prepare --memory 4M --schema "$scratch/large.yaml" "$scratch/large.csv" \
        -o "$disk/large.htd"
    grep -q "in '$disk': No space left on device" "$scratch/said" || wrong "it does not say why: $(cat "$scratch/said")"
    [ "$(ls -A "$disk")" = large.htd ] && [ "$(cat "$disk/large.htd")" = old ] || wrong "a full disk: $(ls -lA "$disk")"
else
    echo "skipped: a file system of its own (mount -t tmpfs) is not allowed here"
fi
finish

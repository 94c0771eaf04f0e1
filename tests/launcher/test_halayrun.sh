#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halayrun: command line, environment, output, exit codes.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99

# --- ranks -----------------------------------------------------------------------------------------------------------
for n in 1 2 8; do
    run 0 -np $n sh -c 'echo "$HALAY_RANK of $HALAY_SIZE, local $HALAY_LOCAL_RANK of $HALAY_LOCAL_SIZE"'
    for r in $(seq 0 $((n - 1))); do echo "[$r] $r of $n, local $r of $n"; done >"$dir/want"
    sort "$dir/out" >"$dir/sorted"
    check "$n ranks" cmp "$dir/sorted" "$dir/want"
    check "$n ranks: no complaint" test ! -s "$dir/err"
done
run 0 -np 3 "$probe" meet
check "ranks meet in the store" test "$(grep -c '^\[[012]\] met 3$' "$dir/out")" = 3
run 0 -np 8 "$probe" meet
check "eight ranks meet" test "$(grep -c '^\[[0-7]\] met 8$' "$dir/out")" = 8
run 0 -np 11 sh -c 'echo x'
check "prefixes have one width" out_has '[ 3] x'

# --- exit codes ------------------------------------------------------------------------------------------------------
run 3 -np 2 sh -c 'test $HALAY_RANK = 0 || exit 3'
check "who and why" grep -qE '^halayrun: rank 1 \(pid [0-9]+\) ended with exit code 3$' "$dir/err"
run 139 -np 2 --grace 10 sh -c 'test $HALAY_RANK = 0 && kill -SEGV $$; sleep 100'
check "who and which signal" grep -qE '^halayrun: rank 0 \(pid [0-9]+\) was killed by SIGSEGV' "$dir/err"
check "the others are ended" err_has 'ending rank 1: SIGTERM now, SIGKILL after 10 s'
run 0 -np 2 sh \
    -c "test \$HALAY_RANK = 0 || { while ! test -e $dir/early; do sleep 0.05; done; echo late; }; : >$dir/early"
check "rank 0 may end early" out_has '[1] late'
run 5 -np 1 sh -c 'for i in $(seq 30); do echo "line $i" >&2; done; printf "no newline" >&2; exit 5'
check "its last lines" err_has 'halayrun:   | line 30'
check "the very last, without newline" err_has 'halayrun:   | no newline'
check "ten lines and no more" test "$(grep -c '^halayrun:   | ' "$dir/err")" = 10
run 1 -np 1 false
check "silent failure" test "$(wc -l <"$dir/err")" = 1

# --- output ----------------------------------------------------------------------------------------------------------
run 0 -np 4 sh -c 'line=$(printf "%05000d" 0 | tr 0 $HALAY_RANK); for i in $(seq 50); do echo $line; done'
whole() {
    awk '{ c = substr($2, 1, 1); n = gsub(c, "", $2); good += $1 == "[" c "]" && n == 5000 && $2 == "" }
        END { print good }' "$1"
}
check "lines do not mix" test "$(whole "$dir/out")" = 200
run 0 -np 1 sh -c 'head -c 3000000 /dev/zero | tr "\0" y; echo; echo after'
check "a line longer than memory for it" test "$(tr -cd y <"$dir/out" | wc -c)" = 3000000
check "and what follows" out_has '[0] after'
run 0 -np 2 sh -c 'printf "half $HALAY_RANK"; printf "err" >&2'
check "no newline at the end" test "$(sort "$dir/out" | tr '\n' ,)" = '[0] half 0,[1] half 1,'
check "standard error has its own mark" test "$(sort "$dir/err" | tr '\n' ,)" = '[0]! err,[1]! err,'
run 0 -np 1 --no-prefix printf 'a\n\nb'
check "--no-prefix passes bytes on" test "$(od -An -c "$dir/out" | tr -d ' \n')" = 'a\n\nb'
run 0 -np 1 --timestamp echo x
check "--timestamp" grep -qE '^20[0-9-]{8}T[0-9:]{8}\.[0-9]{3} \[0\] x$' "$dir/out"
run 0 -np 2 --output-filename "$dir/deep/er" sh -c 'echo "out $HALAY_RANK"; echo "err $HALAY_RANK" >&2'
check "file of standard output" test "$(cat "$dir/deep/er/rank.1/stdout")" = 'out 1'
check "file of standard error" test "$(cat "$dir/deep/er/rank.0/stderr")" = 'err 0'
check "and shown" out_has '[1] out 1'
run 1 -np 2 --output-filename /dev/null/x true
check "impossible folder" err_has "cannot create folder '/dev/null/x'"
mkdir -p "$dir/full/rank.0" && ln -s /dev/full "$dir/full/rank.0/stdout"
run 0 -np 2 --output-filename "$dir/full" sh -c 'echo one; echo two'
check "a full disk: which file" grep -qxF \
    "halayrun: cannot write '$dir/full/rank.0/stdout': No space left on device; the file ends here, the job continues" \
    "$dir/err"
check "said once" test "$(wc -l <"$dir/err")" = 1
check "all is shown" test "$(sort "$dir/out" | tr '\n' ,)" = '[0] one,[0] two,[1] one,[1] two,'
check "and the other file is whole" test "$(cat "$dir/full/rank.1/stdout")" = "one
two"
"$halayrun" -np 2 sh -c "echo x; until test -e $dir/ended; do sleep 0.05; echo x; done; echo end >&2" </dev/null \
    >/dev/full 2>"$dir/err" &
check "a full disk under standard output is said" wait_for err_has \
    "halayrun: cannot write standard output: No space left on device; it ends here, the job continues"
: >"$dir/ended"
wait $!
check "its exit code" test $? = 1
check "once, and ranks go on to their end" test "$(grep -c '! end$' "$dir/err") of $(wc -l <"$dir/err")" = "2 of 3"
mkdir "$dir/folder" && printf '#!/bin/sh\necho "$PWD"\n' >"$dir/folder/prog" && chmod +x "$dir/folder/prog"
run 0 -np 1 --wdir "$dir/folder" --output-filename "$dir/written" ./prog
check "--wdir: the program, and where it begins" out_has "[0] $dir/folder"
own=$(realpath "$halayrun")
(cd "$dir" && "$own" -np 1 --wdir folder --output-filename here ./prog >out 2>err)
check "relative, and other files are where they were" test "$(cat "$dir/here/rank.0/stdout")" = "$dir/folder"
run 0 -np 1 --wdir "$dir/folder" printenv PWD
check "PWD says so" out_has "[0] $dir/folder"
run 1 -np 1 --wdir "$dir/nothing" true
check "no such folder" err_has "folder '$dir/nothing': No such file or directory"
run 127 -np 1 --wdir "$dir/folder" ./other
check "no such program there" err_has "program './other': No such file or directory"
run 0 -np 1 --wdir "$dir/folder" --dry-run --bind none ./prog
check "dry run" grep -q "^env -C $dir/folder HALAY_RANK=0" "$dir/out"
check "and it runs" test "$(sh "$dir/out")" = "$dir/folder"
block=$(printf '█▓▒░▒▓%.0s' $(seq 1000))
run 0 -np 1 printf '∀∁∂\n%s\n⌚⌛\n' "$block"
check "letters of several bytes" test "$(cat "$dir/out")" = "[0] ∀∁∂
[0] $block
[0] ⌚⌛"
run 0 -np 1 printf 'first\rover it\r\nsecond\n'
check "carriage returns are bytes of their line" test "$(od -An -c "$dir/out" | tr -d ' \n')" \
    = '[0]first\roverit\r\n[0]second\n'
ends_with_a() { test "$(tail -c 1 "$dir/out")" = a; }
"$halayrun" -np 2 --output-filename "$dir/bars" sh -c "await() { until test -e $dir/\$1; do sleep 0.05; done; }
    test \$HALAY_RANK = 1 && { await line; echo other; exit; }
    printf '\\r 10%%|██'; await half; printf 'a\\342\\226'; await rest; printf '\\210z\\r\\n'" \
    >"$dir/out" 2>"$dir/err" &
check "what has no line end yet is seen" wait_for out_has '10%|██'
check "in its file, too" wait_for grep -qF '10%|██' "$dir/bars/rank.0/stdout"
: >"$dir/half"
check "but no part of a character" wait_for ends_with_a
: >"$dir/line"
check "another line ends it" wait_for out_has '[1] other'
: >"$dir/rest"
wait $!
printf '[0] \r 10%%|██a\n[1] other\n[0] █z\r\n' >"$dir/want"
check "it continues on a line of its own" cmp "$dir/out" "$dir/want"
printf '\r 10%%|██a█z\r\n' >"$dir/want"
check "and in the file where it was" cmp "$dir/bars/rank.0/stdout" "$dir/want"
"$halayrun" -np 1 --no-prefix sh -c "printf 'name? '; until test -e $dir/known; do sleep 0.05; done
    echo x >&2; echo y" >"$dir/out" 2>&1 &
check "a prompt" wait_for out_has 'name? '
: >"$dir/known"
wait $!
check "--no-prefix adds nothing to it" grep -qx -e 'name? [xy]' "$dir/out"
run 0 -np 1 printf 'caf\351'
check "bytes that are not UTF-8 pass through" test "$(od -An -c "$dir/out" | tr -d ' \n')" = '[0]caf351\n'
run 0 -np 1 printf '\377\200\200\200\200\300x\303'
check "whatever they are" test "$(od -An -c "$dir/out" | tr -d ' \n')" = '[0]377200200200200300x303\n'
{ printf '[0] x'; head -c 500000 /dev/zero | sed 's/\x0/█/g'; echo; } >"$dir/want"
run 0 -np 1 sh -c "printf x; head -c 500000 /dev/zero | sed 's/\\x0/█/g'"
check "nor does a long line cut a character" cmp "$dir/out" "$dir/want"
run 1 -np 1 sh -c 'head -c 5000 /dev/zero | sed "s/\x0/█/g" >&2; exit 1'
check "nor a rank's last lines" iconv -f utf-8 -t utf-8 -o /dev/null "$dir/err"
mkdir -p "$dir/nowhere/rank.1" && ln -s /dev/null "$dir/nowhere/rank.1/stdout"
"$halayrun" -np 2 --timestamp --show-ranks 0 --output-filename "$dir/nowhere" sh -c '
    test $HALAY_RANK = 1 && { yes & yes & exec yes; }; echo here; exec tail -f /dev/null' \
    >"$dir/out" 2>"$dir/err" </dev/null &
check "beside a rank that prints without pause another is read" wait_for out_has here
kill -TERM $!
check "and signals are obeyed" wait_for is_gone $!
kill -9 $! 2>/dev/null
wait $!
check "as always" test $? = 143
head -c 300000 /dev/urandom >"$dir/binary"
run 0 -np 1 --no-prefix cat "$dir/binary"
check "binary output is kept" cmp "$dir/out" "$dir/binary"
echo typed | "$halayrun" -np 2 sh -c 'cat; echo "end $HALAY_RANK"' >"$dir/out" 2>"$dir/err"
check "rank 0 reads standard input" out_has '[0] typed'
check "the others find it empty" test "$(grep -c end "$dir/out")" = 2
"$halayrun" -np 2 sh -c 'echo x; sleep 0' <&- >"$dir/out" 2>"$dir/err"
check "closed standard input" test "$(wc -l <"$dir/out")" = 2
if command -v script >/dev/null; then
    script -qec "$halayrun -np 1 echo x" /dev/null </dev/null >"$dir/out" 2>/dev/null
    TERM=xterm script -qec "$halayrun -np 1 echo x" /dev/null </dev/null >"$dir/out" 2>/dev/null
    check "colours on a terminal" grep -q "$(printf '\033\[36m\\[0\\]')" "$dir/out"
    NO_COLOR=1 TERM=xterm script -qec "$halayrun -np 1 echo x" /dev/null </dev/null >"$dir/out" 2>/dev/null
    check "NO_COLOR" grep -q "^\[0\] x" "$dir/out"
    printf '#!/bin/sh\nprintf "10%%%%\\r20%%%%\\r"; until test -e %s/seen; do sleep 0.05; done; printf "\\nend\\n"\n' \
        "$dir" >"$dir/bar"
    chmod +x "$dir/bar"
    NO_COLOR=1 script -qefc "$halayrun -np 1 $dir/bar" "$dir/screen" </dev/null >/dev/null 2>&1 &
    check "a progress bar moves on a terminal" wait_for grep -q "$(printf '\[0\] 10%%\r\[0\] 20%%\r')" "$dir/screen"
    : >"$dir/seen"
    wait $!
    check "and ends with its line" grep -q "$(printf '20%%\r\r*$')" "$dir/screen"
    check "the next is one of its own" grep -q "^\[0\] end" "$dir/screen"
else
    echo "skipped: no program 'script', which makes a terminal"
fi

# --- environment -----------------------------------------------------------------------------------------------------
HALAY_RANK=7 HALAY_STORE_ADDRESS=stale HALAY_HOST_RANKS_FD=77 HALAY_LOCAL_SIZE=99 \
    run 0 -np 1 sh -c 'env | grep ^HALAY_ | sort'
check "nothing of an outer job" test "$(grep -c '' "$dir/out")" = 8
check "its own instead" out_has '[0] HALAY_RANK=0'
check "store's address" grep -qE '^\[0\] HALAY_STORE_ADDRESS=127\.0\.0\.1:[0-9]+$' "$dir/out"
run 0 -np 1 "$halayrun" -np 2 sh -c 'echo $HALAY_RANK/$HALAY_SIZE'
check "a job in a job" out_has '[0] [1] 1/2'
run 0 -np 1 -x A=1 -x B='two words' -x HALAY_TRANSPORT=mpi --transport shm --fusion-threshold-mb=2 --log-level debug \
    --deterministic run --start-timeout 0.5 --allreduce-algorithm ring --no-stall-check \
    sh -c 'echo "$A,$B,$HALAY_TRANSPORT,$HALAY_FUSION_THRESHOLD,$HALAY_LOG,$HALAY_DETERMINISTIC",\
"$HALAY_START_TIMEOUT,$HALAY_ALLREDUCE_ALGORITHM,$HALAY_STALL_CHECK_TIME"'
check "options become variables, flags before -x" out_has '[0] 1,two words,shm,2097152,debug,run,0.5,ring,0'
HALAY_TRANSPORT=smh run 2 -np 2 echo started
check "bad environment: nothing is started" test ! -s "$dir/out"
check "and said once" test "$(grep -c "HALAY_TRANSPORT: 'smh' is not one of" "$dir/err")" = 1
HALAY_STORE_SECRET_FD=-1 "$probe" descriptors >"$dir/want" # what this shell was given
run 0 -np 2 --no-prefix "$probe" descriptors
check "ranks inherit nothing of ours" test "$(sort -u "$dir/out")" = "$(sort -u "$dir/want")"
run 0 -np 2 "$probe" secret
check "the secret is nowhere to be seen" test "$(grep -c 'looked at several, found 0' "$dir/out")" = 2

# --- command line ----------------------------------------------------------------------------------------------------
run 2 true
check "no -np: said, and help" err_has 'usage: halayrun -np N'
run 2 -np 2
check "no program" err_has 'which program?'
for bad in 0 -1 two 1e3 '' 99999999999; do
    run 2 -np "$bad" true
    check "-np '$bad'" err_has "option -np: '$bad' is not a whole number from 1 to 65536"
done
run 2 --transprot shm -np 1 true
check "suggestion" err_has "unknown option '--transprot'; did you mean '--transport'?"
run 2 --fusion-treshold=3 -np 1 true
check "suggestion with a value" err_has "did you mean '--fusion-threshold'?"
run 2 --qwertyuiop -np 1 true
check "nothing near" err_has "'halayrun --help' lists them"
run 2 -np 1 --transport tpc true
check "bad value" err_has "option --transport: 'tpc' is not one of auto, shm, ucx, mpi, tcp"
run 2 -np 1 --fusion-threshold-mb 1.5 true
check "bad MiB" err_has "'1.5' is not a whole number of MiB"
run 2 -np 1 --verbose=3 true
check "value where none is taken" err_has 'option --verbose takes no value'
run 2 -np
check "value missing" err_has 'option -np wants a value'
run 2 -np 1 -x HALAY_RANK=3 true
check "-x of what halayrun sets" err_has 'set by halayrun'
run 2 -np 1 -x NOT_THERE_AT_ALL true
check "-x of nothing" err_has 'NOT_THERE_AT_ALL is not in the environment'
run 2 -np 1 --bind socket true
check "bad binding" err_has "'socket' is not one of auto, cores, none"
run 127 -np 2 there-is-no-such-program
check "missing program" err_has "program 'there-is-no-such-program' is not in PATH"
run 127 -np 2 "$dir/nothing"
check "missing path" err_has 'No such file or directory'
echo 'exit 0' >"$dir/plain"
run 126 -np 2 "$dir/plain"
check "not executable" err_has 'is not executable'
run 126 -np 2 "$dir"
check "a folder" err_has 'is a folder'
chmod +x "$dir/plain"
printf '#!/nonexistent/interpreter\n' >"$dir/broken"
chmod +x "$dir/broken"
run 127 -np 2 "$dir/broken"
check "missing interpreter" err_has "cannot run '$dir/broken'"
run 0 -np 2 "$dir/plain"
(cd "$dir" && "$halayrun" -np 1 plain >out 2>err)
check "a hint" err_has "the one in this folder is './plain'"
run 0 -np 1 -- echo dashes
check "--" out_has '[0] dashes'
run 0 -np 1 echo --help -x
check "the program's own options" out_has '[0] --help -x'
for words in --help --version --check-build '-np 2 --explain true'; do
    "$halayrun" $words >/dev/full 2>"$dir/err"
    check "a full disk under $words" test $? = 1
    check "and that is said" err_has "halayrun: cannot write to standard output"
done
run 0 --help
check "help" out_has '--fusion-threshold SIZE'
run 0 --version
check "version" grep -qE '^halayrun \(halay\) [0-9]+\.[0-9]+\.[0-9]+$' "$dir/out"
run 0 --check-build
check "check-build" out_has '[x] shm'
mkdir "$dir/modules" && : >"$dir/modules/libhalay-ucx.so"
HALAY_MODULE_PATH=$dir/modules run 0 --check-build
check "no module that is nowhere" eval '! grep "\[x\] .* not there" "$dir/out"'
check "where a module is, if it is built" eval \
    '! grep -q "\[x\] ucx" "$dir/out" || out_has "[x] ucx       $dir/modules/libhalay-ucx.so"'
run 0 -np 2 --dry-run --bind none --transport shm -x A="it's" sh -c 'exit 7'
cat >"$dir/want" <<'END'
# 2 ranks on this machine, each in a process group of its own
# not bound to cores: --bind none
# also set, when the store is up: HALAY_STORE_ADDRESS, HALAY_STORE_SECRET_FD, MASTER_ADDR, MASTER_PORT
# and, for Python: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, NODE_RANK
env HALAY_RANK=0 HALAY_SIZE=2 HALAY_LOCAL_RANK=0 HALAY_LOCAL_SIZE=2 A='it'\''s' HALAY_TRANSPORT=shm sh -c 'exit 7'
env HALAY_RANK=1 HALAY_SIZE=2 HALAY_LOCAL_RANK=1 HALAY_LOCAL_SIZE=2 A='it'\''s' HALAY_TRANSPORT=shm sh -c 'exit 7'
END
check "dry run, to the letter" cmp "$dir/out" "$dir/want"
sh "$dir/out"
check "and it runs" test $? = 7

# --- a file of settings ----------------------------------------------------------------------------------------------
cat >"$dir/job.yaml" <<'END'
np: 1
grace: 2.50
verbose: false
x: [A=1, "B=two words", C=3]
params:
  fusion_threshold_mb: 32
autotune:
  enabled: true
stall_check:
  enabled: true
  warning-time-seconds: 7
timeline:
logging:
  level: info
END
C=5 HOROVOD_LOG_LEVEL=debug run 0 --bind none -x B=x --stall-check-time 9 --dry-run --verbose \
    --config-file "$dir/job.yaml" true
sed "s|$dir/||" "$dir/out" >"$dir/said"
cat >"$dir/want" <<'END'
# settings, each with its place; all others have their defaults
#   --bind none  (command line)
#   -x B=x  (command line)
#   --stall-check-time 9  (command line)
#   --dry-run  (command line)
#   --verbose  (command line)
#   --config-file job.yaml  (command line)
#   HOROVOD_LOG_LEVEL=debug  (environment)
#   -np 1  ('job.yaml', line 1)
#   --grace 2.50  ('job.yaml', line 2)
#   -x A=1  ('job.yaml', line 4)
#   -x B=two words  ('job.yaml', line 4; not used, the command line overrides it)
#   -x C=3  ('job.yaml', line 4; not used, the environment overrides it)
#   --fusion-threshold-mb 32  ('job.yaml', line 6)
#   --stall-check-time 7  ('job.yaml', line 11; not used, the command line overrides it)
#   --log-level info  ('job.yaml', line 14; not used, the environment overrides it)
# 1 rank on this machine, each in a process group of its own
# not bound to cores: --bind none
# also set, when the store is up: HALAY_STORE_ADDRESS, HALAY_STORE_SECRET_FD, MASTER_ADDR, MASTER_PORT
# and, for Python: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, NODE_RANK
END
echo env HALAY_RANK=0 HALAY_SIZE=1 HALAY_LOCAL_RANK=0 HALAY_LOCAL_SIZE=1 B=x A=1 HALAY_STALL_CHECK_TIME=9 \
    HALAY_FUSION_THRESHOLD=33554432 true >>"$dir/want"
check "autotune of a file is accepted" err_has "line 8: enabled has no effect: "
check "what counts and where it comes from" diff "$dir/said" "$dir/want"
run 0 --config-file "$dir/job.yaml" -np 2 sh -c 'echo $A,$HALAY_FUSION_THRESHOLD'
check "the line overrides the file, wherever it names it" test "$(grep -c '1,33554432' "$dir/out")" = 2
bad_file() { # bad_file TEXT COMPLAINT
    printf '%b\n' "$1" >"$dir/bad.yaml"
    run 2 -np 1 --config-file "$dir/bad.yaml" true
    check "file '$1'" err_has "halayrun: '$dir/bad.yaml', $2"
}
bad_file 'np: 1\ngracee: 3' "line 2: unknown key 'gracee'; did you mean 'grace'?"
bad_file 'stal_check: {enabled: 1}' "line 1: unknown section 'stal-check'; did you mean 'stall-check'?"
bad_file 'autotune:\n  enabld: 1' "line 2: unknown key 'enabld'; did you mean 'enabled'?"
bad_file 'grace: x' "line 1: grace: 'x' is not a number of seconds from 0 to 86400"
bad_file 'help: true' "line 1: help belongs on the command line"
bad_file 'node-rank: 1' "line 1: node-rank belongs on the command line"
bad_file 'np: [1, 2]' "line 1: np takes one value, no list"
bad_file 'np: 1\nnp: 2' "line 2, column 1: key 'np' is given twice"
bad_file 'cycle_time_ms: 1\ncycle-time-ms: 2' "line 2: key 'cycle-time-ms' is given twice"
bad_file 'params: {a: {b: 1}}' 'line 1: a section in a section'
bad_file 'np:\n  - [1]' 'line 1: a value must be a word or a number here'
bad_file 'verbose: true\ngrace: *a' "line 2, column 8: anchors, aliases and tags are not read"
bad_file 'np: &a 1' "line 1, column 5: anchors, aliases and tags are not read"
bad_file 'np: !!int 1' "line 1, column 5: anchors, aliases and tags are not read"
bad_file '"grace\\0_": 1' "line 1, column 1: the key is not a plain text"
bad_file 'verbose: 3' "line 1: verbose: '3' is neither true nor false"
bad_file 'grace: [' 'line 2, column 1: not YAML'
run 2 --config-file "$dir/nothing" -np 1 true
check "no file of settings" err_has "cannot open '$dir/nothing'"

# --- from horovodrun -------------------------------------------------------------------------------------------------
# Each row of the table of options: what stands there in code is tried.
cat >"$dir/settings.yaml" <<'END'
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 2.5
  hierarchical_allreduce: false
timeline:
  filename: t.json
  mark_cycles: true
logging:
  with_timestamp: true
END
grep '^| `-' "$top_srcdir/docs/guides/from-horovod.md" >"$dir/rows"
# spans N: the pieces of code of column N of the rows, one a line.
spans() { awk -F'|' -v n=$(($1 + 1)) '{ print $n }' | grep -oE '`-[^`]*`' | tr -d '`'; }
# takes OPTION...: a dry run with them succeeds.
takes() { (cd "$dir" && eval "\"$halayrun\" -np 2 --bind none --dry-run $* true") >"$dir/out" 2>"$dir/err"; }
# And what asks mpirun, what wants a file, and what test_elastic_job.sh tries.
ending='slots|elastic-timeout|reset-limit|cooldown|discovery|version|^-v|check-build|^-cb|^--mpi$|^--mpi-args|hostfile'
grep -v '| refused' "$dir/rows" | spans 1 | grep -vE -e "$ending" >"$dir/theirs"
spans 2 <"$dir/rows" | grep -vE -e "$ending" >"$dir/ours"
check "rows were found" test "$(wc -l <"$dir/theirs")" -ge 40
for list in theirs ours; do
    # shellcheck disable=SC2046 # a list of words
    takes $(cat "$dir/$list") || while read -r option; do
        check "from-horovod.md, $list: $option" takes "$option"
    done <"$dir/$list"
    passed=$((passed + 1))
done
# shellcheck disable=SC2046 # a list of words
takes $(cat "$dir/theirs")
check "what has no effect is said once each" test "$(grep -c '^halayrun: option .* has no effect: ' "$dir/err")" = \
    "$(grep '| no effect' "$dir/rows" | spans 1 | wc -l)"
check "and what is translated counts" out_has 'HALAY_TIMELINE=t.json'
grep '| refused' "$dir/rows" | spans 1 >"$dir/refused"
while read -r option; do
    (eval "\"$halayrun\" -np 2 --dry-run $option true") >"$dir/out" 2>"$dir/err"
    check "refused with exit code 2: $option" test $? = 2
    check "and why: $option" err_has "halayrun: option ${option%%[ =]*}: "
done <"$dir/refused"
printf '#   %s  (command line)\n' '-np 4' '--min-np 2' '--max-np 8' '--slots-per-host 1' '--cooldown 120:600' \
    '--elastic-timeout 60' '--reset-limit 10' >"$dir/want"
for p in '--num-proc 4 --min-num-proc 2 --max-num-proc 8 --slots 1 --blacklist-cooldown-range 120 600' \
    '-np 4 --min-np 2 --max-np 8 --slots-per-host 1 --cooldown 120:600'; do
    run 0 $p --elastic-timeout 60 --reset-limit 10 --verbose --dry-run true
    check "an elastic job's: $p" eval 'sed -n "2,8p" "$dir/out" | diff - "$dir/want"'
done
run 0 -np 1 --bind none --dry-run --config-file "$dir/settings.yaml" sh -c true
check "its file" out_has 'HALAY_FUSION_THRESHOLD=33554432 HALAY_TIMELINE=t.json sh'
check "what of that has no effect" test "$(grep -cE "settings.yaml', line (3|7): .* has no effect: " "$dir/err")" = 2
bad_file 'ports: 9-8' "line 1: ports: '9-8' is not a range of ports from 1 to 65535; write for example 20000-20100"
run 0 -cb
check "-cb" out_has '[x] shm'
run 0 -v
check "-v" out_has 'halayrun (halay)'
run 0 -np 1 --bind none --dry-run --autotune --stall-check sh -c true
check "--autotune is accepted" err_has 'option --autotune has no effect: '
run 2 -np 1 --stall-check=3 true
check "a flag of horovodrun's without value" err_has "option --stall-check takes no value, but '3' is given"
run 2 -np 1 --cycle-time-ms
check "one with a value" err_has 'option --cycle-time-ms wants a value'

# --- by an MPI's launcher --------------------------------------------------------------------------------------------
# What this test was started in is not to be recognised.
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_JOB_NODELIST SLURM_NODELIST PBS_NODEFILE LSB_DJOB_HOSTFILE LSB_MCPU_HOSTS \
    TF_CONFIG CLUSTER_SPEC JOB_COMPLETION_INDEX K_MPI_JOB_ROLE
here=$(pwd -P)
as_rank="$(realpath "$halayrun") --as-rank"
run 0 --mpi --mpi-flavour mpich -np 2 --bind none -x A="b c" --transport shm --dry-run true 'd e'
check "mpich's line" out_has \
    "env A='b c' HALAY_TRANSPORT=shm mpirun -bind-to none -genvall -prepend-rank -wdir $here -np 2 $as_rank true 'd e'"
SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' run 0 --mpi-flavour srun --no-prefix --timestamp --grace 3 \
    --mpi-args "--qos 'a b'" --dry-run true
check "srun's line, ranks by the allocation" out_has \
    "srun --ntasks=4 --kill-on-bad-exit=1 --cpu-bind=none --chdir=$here --export=ALL --qos 'a b' $as_rank true"
check "no time there" err_has 'option --timestamp does nothing'
check "no grace there" err_has 'option --grace does nothing with --mpi'
PYTHONPATH=/p run 0 --mpi-flavour openmpi4 -np 2 --dry-run true
check "where programs and modules are looked for" grep -qE -e '-x PATH -x PYTHONPATH .* --as-rank true$' "$dir/out"
run 0 --mpi-flavour openmpi4 -np 2 -H a,b --bind none --ssh "my-ssh -F 'a file'" -p 2222 -i key --wdir sub/dir \
    --dry-run true
check "ssh's words for mpirun, and the folder" grep -qF -e \
    "-mca plm_rsh_agent my-ssh -mca plm_rsh_args '-F a file -p 2222 -i key' --map-by slot" "$dir/out"
check "the folder" grep -qF -e "--wdir $here/sub/dir " "$dir/out"
check "no complaint" test ! -s "$dir/err"
run 2 --mpi-flavour openmpi4 -np 2 -H a,b -i "a key" --dry-run true
check "a key that it would split" err_has "'a key' has one"
SM_HOSTS='["algo-1","algo-2"]' SM_CURRENT_HOST=algo-1 run 0 --mpi-flavour openmpi5 --bind none -x A=1 --dry-run true
check "hosts that mpirun would not find" \
    grep -qE '^env A=1 MASTER_ADDR=algo-1 .* mpirun (--allow-run-as-root )?-np 2 --host algo-1:1,algo-2:1 .* -x A ' \
    "$dir/out"
run 2 --mpi-flavour lam -np 1 true
check "no such MPI" err_has "'lam' is not one of openmpi4, openmpi5, mpich, intel, srun"
run 2 --mpi-flavour srun --dry-run true
check "ranks unknown" err_has 'how many ranks?'
run 2 --mpi-flavour srun -np 1 --mpi-args "a 'b" true
check "open quote" err_has "a quote in 'a 'b' is not closed"
mkdir "$dir/other" && printf '#!/bin/sh\necho "mpirun (Other MPI) 1.0"\n' >"$dir/other/mpirun" &&
    chmod +x "$dir/other/mpirun"
PATH=$dir/other:$PATH run 2 --mpi -np 1 true
check "an MPI that is not known" err_has "'mpirun --version' prints 'mpirun (Other MPI) 1.0', which is not a known MPI"
export OMPI_MCA_orte_tmpdir_base="${TMPDIR:-/tmp}" OMPI_MCA_btl_base_warn_component_unused=0
for flavour in openmpi mpich; do
    write_mpirun "$dir/$flavour" $flavour || continue
    PATH=$dir/$flavour:$PATH run 0 --mpi -np 3 -x A="b c" --log-level info --mpi-args "" \
        sh -c 'echo "$A ${OMPI_COMM_WORLD_RANK-$PMI_RANK} $HALAY_LOG $PWD"'
    for r in 0 1 2; do
        check "$flavour: rank, variables, folder" grep -q "^\[.*$r\].*b c $r info $here\$" "$dir/out"
    done
    PATH=$dir/$flavour:$PATH run 3 --mpi -np 1 sh -c 'exit 3'
    events=$dir/events.$flavour
    PATH=$dir/$flavour:$PATH run 3 --mpi --events "$events" -np 1 sh -c 'exit 3'
    check "$flavour: start: $(cat "$events")" grep -q '"event":"start","ranks":1,"restarts":0,"program":"sh"}' "$events"
    check "$flavour: end" grep -q '"event":"end","exit_code":3,"seconds":[0-9.]*,.*"first_failure":null}' "$events"
    PATH=$dir/$flavour:$PATH "$halayrun" --mpi --events "$events" -np 1 sh -c 'echo up; exec sleep 99' >"$dir/out" \
        2>"$dir/err" </dev/null &
    pid=$!
    check "$flavour: a rank runs" wait_for out_has up
    kill -TERM $pid
    wait $pid
    check "$flavour: a signal is passed on, $?" test "$(grep -c '"event":"end"' "$events")" = 2
done
# The module of another MPI than the launcher's: Open MPI's ranks would each be alone, an MPICH may abort. The program
# is linked with no MPI, and its module is the only one that is found.
for flavour in openmpi mpich; do
    test $flavour = openmpi && other=-mpich || other=
    module=$top_builddir/.libs/libhalay-mpi$other.so
    test -e "$module" && test -d "$dir/$flavour" || { echo "skipped: another MPI's module with mpirun.$flavour"; \
        continue; }
    mkdir "$dir/only-$flavour" && cp "$module" "$dir/only-$flavour/libhalay-mpi.so"
    PATH=$dir/$flavour:$PATH run 1 --mpi -np 2 -x HALAY_MODULE_PATH="$dir/only-$flavour" \
        "$top_builddir/tests/launcher/world_probe"
    check "$flavour: which MPI is the wrong one" grep -q '2 ranks were started by the launcher of another MPI than' \
        "$dir/out" "$dir/err"
    check "$flavour: what would be right" grep -q 'start them by the mpirun of that MPI, or by halayrun' "$dir/out" \
        "$dir/err"
done
mkdir -p "$dir/opt/bin" && printf '#!/bin/sh\nexit\n' >"$dir/opt/bin/mpirun" && chmod +x "$dir/opt/bin/mpirun"
PATH=$dir/opt/bin:$PATH run 0 --mpi-flavour openmpi5 -np 1 -H a --dry-run true
check "where other hosts have it" out_has " --prefix $dir/opt -np 1"
PATH=$dir/opt/bin:$PATH run 0 --mpi-flavour openmpi5 -np 1 -H a --mpi-args "--prefix /else" --dry-run true
check "somebody says it" test "$(grep -o -e '--prefix [^ ]*' "$dir/out")" = "--prefix /else"
PATH=$dir/opt/bin:$PATH run 0 --mpi-flavour openmpi5 -np 1 --bind none --dry-run true
check "no other hosts" test -z "$(grep -o -e '--prefix' "$dir/out")"
# A SLURM that has no MPI by default, as it comes; without a plugin srun's ranks would each be alone.
cat >"$dir/opt/bin/scontrol" <<'END'
#!/bin/sh
test "$*" = "show config" && echo "MpiDefault              = ${SITE-none}"
END
printf '#!/bin/sh\ntest "$*" = --mpi=list && echo "MPI plugin types are..." && printf "\t%%s\n" $PLUGINS >&2\n' \
    >"$dir/opt/bin/srun"
chmod +x "$dir/opt/bin/scontrol" "$dir/opt/bin/srun"
in_opt() { PATH=$dir/opt/bin:$PATH "$@" --bind none --dry-run true; }
PLUGINS="none pmi2 pmix" in_opt run 0 --mpi-flavour srun -H "n[1-2]:2"
check "pmix, and ranks by -H's slots" out_has \
    'srun --ntasks=4 --kill-on-bad-exit=1 --mpi=pmix --distribution=arbitrary --nodelist=n1,n1,n2,n2'
PLUGINS="none pmi2" in_opt run 0 --mpi-flavour srun -np 2
check "or else pmi2" out_has ' --mpi=pmi2 --cpu-bind'
PLUGINS="none pmi2 pmix" in_opt run 0 --mpi-flavour srun -np 2 --mpi-args --mpi=pmi2
check "said by --mpi-args" test "$(grep -o -e '--mpi=[^ ]*' "$dir/out")" = --mpi=pmi2
SITE=pmix_v4 PLUGINS="none pmi2" in_opt run 0 --mpi-flavour srun -np 2
check "said by the site" test -z "$(grep -o -e '--mpi=' "$dir/out")"
PLUGINS="none" in_opt run 0 --mpi-flavour srun -np 2
check "nothing to be had" err_has "has neither pmix nor pmi2"
SLURM_JOB_NODELIST=a run 0 --mpi-flavour intel -np 1 --dry-run true
check "Intel's own program, told of SLURM" out_has "mpiexec.hydra -bootstrap slurm -genv"
I_MPI_HYDRA_BOOTSTRAP=ssh SLURM_JOB_NODELIST=a run 0 --mpi-flavour intel -np 1 --dry-run true
check "Intel's variables go before" out_has "mpiexec.hydra -genv"
RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=10.0.0.1 run 0 --explain
check "torchrun's ranks" out_has '4 ranks run already'
SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' run 0 --explain
check "SLURM's hosts" out_has 'hosts with slots: n1:2 n2:2'
check "by which variable" out_has 'SLURM_TASKS_PER_NODE=2(x2): slots of each'
SLURM_JOB_NODELIST='n[1-2' run 2 --explain
check "a broken variable" err_has 'halayrun: SLURM_JOB_NODELIST: '
TF_CONFIG='{' run 2 -np 1 true
check "a start of its own wants to know of it" err_has 'TF_CONFIG, line 1, column'
TF_CONFIG='{' run 0 -H localhost:1 echo alone
check "but where -H says it" out_has '[0] alone'

# --- between hosts ---------------------------------------------------------------------------------------------------
# The probe has all of the library in itself, and no modules beside it, as a wheel.
alone() {
    run "$1" -np 2 "$2" "$3" sh -c 'HALAY_NODE=$HALAY_RANK exec "$0"' "$top_builddir/tests/launcher/world_probe"
}
alone 0 -x HALAY_LOG=info
check "data go over TCP" grep -q '2 hosts), bootstrap store, data over tcp' "$dir/err"
if test -e "$top_builddir/.libs/libhalay-mpi.so"; then
    HALAY_MODULE_PATH=$top_builddir/.libs alone 1 --transport mpi
    check "mpi without mpirun is an error that says how" grep -q \
        "error: transport 'mpi' can't be used: .* 'halayrun --mpi' starts ranks by it" "$dir/err"
    mkdir "$dir/mpi-only" && cp "$top_builddir/.libs/libhalay-mpi.so" "$dir/mpi-only"
    HALAY_MODULE_PATH=$dir/mpi-only alone 0 -x HALAY_LOG=info
    check "and is not tried where no mpirun has started the ranks" eval 'err_has "data over tcp" && ! err_has "MPI_"'
fi

# --- GPUs ------------------------------------------------------------------------------------------------------------
gpus=$(ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)
unset CUDA_VISIBLE_DEVICES
run 0 -np 2 --gpus auto sh -c 'echo "${CUDA_VISIBLE_DEVICES-unset}"'
check "one GPU each, where there are any" out_has "[1] $(test "$gpus" = 0 && echo unset || echo $((1 % gpus)))"
run 0 -np 2 sh -c 'echo "${CUDA_VISIBLE_DEVICES-unset}"'
check "not unless it is asked for" out_has '[1] unset'
CUDA_VISIBLE_DEVICES=5 run 0 -np 2 --gpus auto sh -c 'echo "${CUDA_VISIBLE_DEVICES-unset}"'
check "nor over the environment" out_has '[1] 5'
run 2 -np 2 --gpus all true
check "bad choice of GPUs" err_has "option --gpus: 'all' is not one of none, auto"

# --- binding ---------------------------------------------------------------------------------------------------------
cores=$(nproc)
run 0 -np $((cores + 1)) --verbose true
check "more ranks than cores: not bound" err_has 'ranks are not bound: '
run 1 -np $((cores + 1)) --bind cores true
check "--bind cores wants them" err_has "option --bind: $((cores + 1)) ranks want"
run 0 -np 1 --verbose sh -c 'grep Cpus_allowed_list /proc/self/status'
check "one rank has them all" grep -q 'processors ' "$dir/err"
if unshare --mount mount -t tmpfs halay /sys 2>/dev/null; then
    unshare --mount sh -c 'mount -t tmpfs halay /sys && exec "$@"' sh "$halayrun" -np 2 \
        "$top_builddir/tests/launcher/world_probe" >"$dir/out" 2>"$dir/err" </dev/null
    check "where the system hides its processors, ranks run" test $? = 0
    check "and without complaints" test ! -s "$dir/err"
    group=/sys/fs/cgroup/cpu/halay-test-$$
    if test "$cores" -ge 2 && mkdir "$group" 2>/dev/null; then
        echo 100000 >"$group/cpu.cfs_period_us" && echo 100000 >"$group/cpu.cfs_quota_us"
        sh -c 'echo $$ >"$0" && exec "$@"' "$group/tasks" "$halayrun" --nproc-per-node auto printenv RANK \
            >"$dir/out"
        check "auto counts the time that a control group allows" test "$(cat "$dir/out")" = "[0] 0"
        wait_for rmdir "$group"
    else
        echo "skipped: no control groups of version 1 to be made"
    fi
else
    echo "skipped: /sys without processors, which is forbidden here"
fi
if "$halayrun" -np 2 --bind cores true 2>/dev/null; then
    run 0 -np 2 sh -c 'taskset -pc $$ | sed "s/.*: //"'
    check "each its own" test "$(sed 's/^...//' "$dir/out" | sort -u | wc -l)" = 2
    # What ranks can use together does not shrink because each is bound.
    run 0 -np 2 --bind none "$top_builddir/tests/launcher/world_probe"
    sort "$dir/out" >"$dir/want"
    run 0 -np 2 --bind cores "$top_builddir/tests/launcher/world_probe"
    sort "$dir/out" | diff "$dir/want" - >"$dir/differs"
    check "bound ranks count each other's cores" test ! -s "$dir/differs"
    check "all came" test "$(grep -c 'of 2' "$dir/out")" = 2
    run 0 -np 2 --bind none sh -c 'taskset -pc $$ | sed "s/.*: //"'
    check "unbound" test "$(sed 's/^...//' "$dir/out" | sort -u | wc -l)" = 1
fi

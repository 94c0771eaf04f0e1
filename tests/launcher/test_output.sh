#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What halayrun does with output that has no line end yet, on a terminal too.
. "$top_srcdir/tests/launcher/lib.sh" || exit 99
needs python3

# terminal.py FILE WORD TEXT...: what follows -- runs on a terminal, whose output is written to FILE. WORD is expect,
# type, or await: a file, until which nothing is read. Ends with the program's exit code, 98 if what is expected does
# not come in a minute.
cat >"$dir/terminal.py" <<'END'
import ast, os, pty, select, sys, time
cut = sys.argv.index("--")
screen, steps, command = open(sys.argv[1], "wb", 0), sys.argv[2:cut], sys.argv[cut + 1:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
seen, due = b"", time.monotonic() + 60
def read():
    global seen
    if not select.select([terminal], [], [], max(0, due - time.monotonic()))[0]:
        os.close(terminal)
        sys.exit(98)
    try:
        got = os.read(terminal, 65536)
    except OSError:
        got = b""
    screen.write(got)
    seen += got
    return got
for word, text in zip(steps[::2], steps[1::2]):
    text = ast.literal_eval('b"' + text + '"')
    if word == "type":
        os.write(terminal, text)
        continue
    if word == "await":
        while not os.path.exists(text) and time.monotonic() < due:
            time.sleep(0.05)
        continue
    while text not in seen:
        if not read():
            sys.exit(97)
    seen = seen[seen.index(text) + len(text):]
while read():
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
# on_terminal EXPECTED-CODE STEPS... -- PROGRAM...: with the screen in $dir/out.
on_terminal() {
    local want=$1 code
    shift
    TERM=xterm NO_COLOR=1 python3 "$dir/terminal.py" "$dir/out" "$@" 2>"$dir/err"
    code=$?
    check "the terminal's program ends with $code, not $want: $*" test $code = "$want"
}

# --- prompts ---------------------------------------------------------------------------------------------------------
cat >"$dir/ask.py" <<'END'
import os
if os.environ["RANK"] == "0":
    print("hello", input("name? "))
END
on_terminal 0 expect '[0] name? ' type 'bob\n' expect 'bob\r\n[0] hello bob\r\n' -- \
    "$halayrun" -np 2 python3 "$dir/ask.py"
cat >"$dir/stop.py" <<'END'
import os
if os.environ["RANK"] == "0":
    answer = 6
    breakpoint()
    answer *= 7
    print("end", answer)
END
on_terminal 0 expect '[0] (Pdb) ' type 'p answer\n' expect '[0] 6\r\n[0] (Pdb) ' type 'c\n' expect '[0] end 42\r\n' -- \
    "$halayrun" -np 2 python3 "$dir/stop.py"
fake=$(realpath "$top_srcdir/tests/launcher/fake_ssh")
on_terminal 0 expect '[0] name? ' type 'bob\n' expect 'bob\r\n[0] hello bob\r\n' -- \
    "$halayrun" -np 2 --ssh "$fake" -H one:1,two:1 python3 "$dir/ask.py"
echo bob | "$halayrun" -np 1 python3 "$dir/ask.py" >"$dir/out" 2>"$dir/err"
check "without a terminal the answer follows the question" out_has '[0] name? hello bob'

# --- progress bars ---------------------------------------------------------------------------------------------------
printf 'await() { until test -e %s/$1; do sleep 0.05; done; }\n' "$dir" >"$dir/bars"
cat >>"$dir/bars" <<'END'
case $RANK in
0) printf '\r 10%%'; await said; printf '\r 20%%'; await more; printf '\r100%%\nend\n' ;;
1) await seen; echo other; : >"$D/said"; await seen2; printf '\r half'; await more; printf '\n' ;;
esac
END
touch_at() { # FILE TEXT: once the terminal shows that
    wait_for grep -qF -e "$2" "$dir/out" && : >"$dir/$1"
}
: >"$dir/out"
(touch_at seen ' 10%'; touch_at seen2 ' 20%'; touch_at more ' half') &
D=$dir on_terminal 0 expect '[0]  10%' expect '\r\x1b[K[1] other\r\n' expect '[0]  20%' \
    expect '\r\x1b[K[1] \r[1]  half' expect 'end' -- "$halayrun" -np 2 sh "$dir/bars"
wait $!
check "a bar that is done stays" out_has '[0] 100%'

# --- encodings -------------------------------------------------------------------------------------------------------
"$halayrun" -np 1 sh -c "printf 'caf\\351'; until test -e $dir/read; do sleep 0.05; done" >"$dir/out" 2>"$dir/err" &
has_cafe() { test "$(od -An -c "$dir/out" | tr -d ' \n')" = '[0]caf351'; }
check "a character that is not UTF-8 shows" wait_for has_cafe
: >"$dir/read"
wait $!
run 0 -np 1 sh -c "printf 'a\\0b'; printf '\\0\\n\\0'"
check "zeros are bytes like others" test "$(od -An -c "$dir/out" | tr -d ' \n')" = '[0]a\0b\0\n[0]\0\n'

# --- files and readers that take nothing -----------------------------------------------------------------------------
# Rank 1 is on another host, whose agent ends it when it has not heard halayrun for 3 s; it sleeps for longer.
here=$(hostname)
cat >"$dir/talk" <<'END'
test $RANK = 1 || exit 0
i=0
while test $i -lt ${1:-1}; do
    echo "$i $(printf %0100d 0)"
    i=$((i + 1))
done
sleep 5
: >"$D/slept"
until test -e "$D/go"; do sleep 0.05; done
echo end
END
two_hosts="env D=$dir HALAY_HOST_SILENCE=3 $halayrun -np 2 --ssh $fake -H $here:1,one:1"
# A pipe that is full, and whose reader has stopped.
full_pipe() {
    mkfifo "$1" && exec 7<>"$1" && python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
try:
    while True:
        os.write(fd, b"\n" * 4096)
except BlockingIOError:
    pass' "$1"
}

mkdir -p "$dir/slow/rank.1"
full_pipe "$dir/slow/rank.1/stdout"
$two_hosts --output-filename "$dir/slow" sh "$dir/talk" >"$dir/out" 2>"$dir/err" 7<&- &
job=$!
check "a file that takes nothing does not end the job" wait_for test -e "$dir/slept"
: >"$dir/go"
check "and what is not its is shown" wait_for out_has '[1] end'
cat "$dir/slow/rank.1/stdout" 7<&- >"$dir/copy" &
wait $job
check "which ends well when the file takes all" test $? = 0
exec 7<&-
wait $!
check "nothing is missing" test "$(grep -c . "$dir/copy")" = 2
rm -f "$dir/slept" "$dir/go"

full_pipe "$dir/events"
$two_hosts --events "$dir/events" sh "$dir/talk" >"$dir/out" 2>"$dir/err" 7<&- &
job=$!
check "nor do events" wait_for test -e "$dir/slept"
kill -TERM $job
check "signals arrive" wait_for err_has 'SIGTERM: passed on to the ranks'
cat "$dir/events" 7<&- >"$dir/copy" &
wait $job
check "and end it" test $? = 143
exec 7<&-
wait $!
check "the events are all there" grep -q '"event":"end"' "$dir/copy"
rm -f "$dir/slept"

: >"$dir/go"
on_terminal 0 expect '[1] 0 ' await "$dir/slept" expect '[1] end' -- $two_hosts sh "$dir/talk" 3000

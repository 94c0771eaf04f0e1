#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# halay.run on two hosts without a shared folder: a call and results of several chunks, an exception with its traceback,
# a rank that is killed, one that leaves no result, a disk that is full. Needs root, an ssh server and Python.
. "$top_srcdir/tests/lab/lib.sh"
python=$(command -v python3) || skip "there is no python3"
make_lab 2
package=$(realpath "$top_srcdir")/python
mkdir "$scratch/bin" # halay.run finds the halayrun beside Python or in PATH
ln -s "$halayrun" "$scratch/bin/halayrun"

# Functions are sent by name: on each host the module is a file of its own.
cat >"$dir/work.py" <<'END'
import os
import signal
import socket
import sys

rank = int(os.environ.get("HALAY_RANK", "-1"))


class Wrong(ValueError):
    pass


def where(begin, times=1):
    return begin + b"-" + socket.gethostname().encode() * times, rank


def large(content, bytes_):
    return content == b"x" * len(content), bytes([rank]) * bytes_


def wrong(bad):
    if rank == bad:
        raise Wrong("no value")
    signal.pause()


def killed():
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def leaves():
    if rank == 1:
        os._exit(0)
END
for host in 1 2; do
    on $host sh -c "mkdir /tmp/own && cat >/tmp/own/work.py" <"$dir/work.py"
done
on 1 mkdir /tmp/here
# call SCRIPT: on host 1, in a folder that host 2 has too, but with other files
on 2 mkdir /tmp/here
call() {
    timeout 120 sh "$lab_script" enter "$lab" 1 env -C /tmp/here PATH="$scratch/bin:$PATH" \
        PYTHONPATH="/tmp/own:$package" HALAY_LIBRARY="${HALAY_LIBRARY:-$build/.libs/libhalay.so}" \
        "$python" -c "
import sys
sys.modules['cloudpickle'] = None
import halay, work
hosts = '$name-1,$name-2'
$1" >"$dir/out" 2>"$dir/err" </dev/null
    check "${2-it runs}" test $? = "${3-0}"
}

call "assert halay.run(work.where, (b'on',), {'times': 2}, num_proc=2, hosts=hosts) == [
    (b'on-$name-1$name-1', 0), (b'on-$name-2$name-2', 1)]" "results of both hosts, in order"
check "without a word" test ! -s "$dir/err"
call "assert halay.run(work.where, (b'on',), num_proc=2, hosts='$name-2:2') == [
    (b'on-$name-2', 0), (b'on-$name-2', 1)]" "no rank here"
call "
fine, large = halay.run(work.large, (b'x' * 5000000, 70000000), num_proc=2, hosts=hosts)
assert fine == (True, bytes(70000000)) and large == (True, bytes([1]) * 70000000)" "large ones"
call "
try:
    halay.run(work.large, (bytes(130 << 20), 1), num_proc=2, hosts=hosts)
except ValueError as failure:
    assert 'at most 134217728 can be sent' in str(failure), failure
else:
    sys.exit('no error')" "a call that is too large"
check "no rank was started" test ! -s "$dir/err"
call "
try:
    halay.run(work.wrong, (1,), num_proc=2, hosts=hosts)
except RuntimeError as failure:
    assert isinstance(failure.__cause__, work.Wrong), failure.__cause__
    text = str(failure)
    assert text.startswith(\"halayrun has ended with exit code 1; rank 1 on host '$name-2' has failed:\"), text
    assert 'in wrong' in text and text.rstrip().endswith('work.Wrong: no value'), text
else:
    sys.exit('no error')" "an exception"
call "
try:
    halay.run(work.killed, num_proc=2, hosts=hosts)
except RuntimeError as failure:
    assert str(failure) == 'halayrun has ended with exit code 137 (SIGKILL)', failure
else:
    sys.exit('no error')" "a rank that is killed"
check "halayrun names it" err_has "rank 1"
call "
try:
    halay.run(work.leaves, num_proc=2, hosts=hosts)
except RuntimeError as failure:
    assert str(failure) == 'rank 1 has ended without a result', failure
else:
    sys.exit('no error')" "a rank that leaves none"
on 1 mkdir /tmp/small
on 1 mount -t tmpfs -o size=4m halay-lab /tmp/small
call "
try:
    halay.run(work.large, (b'x', 9000000), num_proc=2, hosts=hosts, folder='/tmp/small')
except RuntimeError as failure:
    assert str(failure) == 'halayrun has ended with exit code 1', failure
else:
    sys.exit('no error')" "a full disk"
check "the rank's error" err_has "ConnectionError: halayrun cannot take it; its standard error has the reason"
check "which, and why" grep -qE \
    "cannot write the result of rank [01] to '/tmp/small/halay-run-[^']*/result.[01].part': No space left" "$dir/err"
check "nothing stays" test -z "$(on 1 sh -c 'ls /tmp/small; ls -d /tmp/halay-run-*' 2>/dev/null)"
check "nor on the other host" test -z "$(on 2 sh -c 'ls -A /tmp/here; ls -d /tmp/halay-run-*' 2>/dev/null)"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Indexed Job of contrib/kubernetes, in network namespaces in place of pods, which tests/lab/pod.py makes as the
# manifest says: names that resolve late, a user that no file knows, nothing to write to. A pod that is evicted or lost
# is made anew, also at another address, and the ranks start again; without pod 0 all pods are made anew. Needs root and
# namespaces.
. "$top_srcdir/tests/lab/lib.sh"

python=${PYTHON:-python3}
needs "$python" unshare
PYTHONPATH=/usr/local/lib/kubernetes-validate "$python" -c 'import yaml' 2>/dev/null ||
    skip "no PyYAML to read manifests with"
scratch=$(mktemp -d "$build/lab.XXXXXX") || exit 99
chmod 755 "$scratch"
setpriv --reuid 65532 --regid 65532 --clear-groups test -x "$halayrun" -a -r "$scratch" ||
    skip "other users cannot read the build folder"
lab=$(sh "$lab_script" make 6) || leave $?
name=hl$lab
manifest=$(realpath "$top_srcdir/contrib/kubernetes/indexed-job.yaml")
pod_script=$(realpath "$top_srcdir/tests/lab/pod.py")
secret="sixteen characters or more"

: >"$scratch/names"
"$python" "$pod_script" --names 10.77.$lab.254 "$scratch/names" >"$dir/dns" 2>&1 &
dns=$!
trap 'kill $dns 2>/dev/null; remove_lab; finish' EXIT
check "a name server" wait_for grep -q serves "$dir/dns"
# publish HOST...: pod 0 is on the first host, pod 1 on the second, ...
publish() {
    local i=0 h
    for h; do echo "10.77.$lab.$h train-$i.train.default.svc.cluster.local" && i=$((i + 1)); done >"$scratch/draft"
    mv "$scratch/draft" "$scratch/names"
}
# pod INDEX HOST PROGRAM...: its process is $pid_INDEX.
pod() {
    local i=$1 h=$2
    shift 2
    on $h unshare --mount --uts --pid --fork --kill-child --mount-proc "$python" "$pod_script" "$manifest" $i \
        10.77.$lab.$h 10.77.$lab.254 "$halayrun" "$secret" "$@" >"$dir/out.$i" 2>"$dir/err.$i" </dev/null &
    eval pid_$i=$!
}
# ends CODE INDEX...
ends() {
    local want=$1 i code
    shift
    for i; do
        eval "wait \$pid_$i"
        code=$?
        check "pod $i ends with $want, not $code: $(tail -n 3 "$dir/err.$i")" test $code = $want
    done
}
sums() {
    check "sums of eight ranks in four pods: $(tail -n 4 "$dir/out.0")" grep -q 'allreduce f32 sum, 8 ranks, 4 hosts' \
        "$dir/out.0"
    check "they are right" awk '/ 65536 / { ok = $NF == 0 } END { exit !ok }' "$dir/out.0"
}
perf=$build/perf/halay-perf
cat >"$scratch/train" <<END
#!/bin/sh
test "\$RANK" != 5 || echo "user \$(id -u) \$(id -g)," \\
    "\$(sed -n 's/^\(CapBnd\|NoNewPrivs\|Seccomp\):[[:space:]]*/\1 /p' /proc/self/status | tr '\n' ' ')," \\
    "secret '\$HALAY_SECRET', \$(touch /tmp/mine && echo writes /tmp)," \\
    "\$(touch /etc/x "$scratch/x" 2>&1 | grep -c 'Read-only file system') read-only"
exec "$perf" allreduce -b 64K -e 64K -n 1
END
chmod 755 "$scratch/train"

# The others are there before pod 0, and before any name resolves.
for i in 3 2 1; do pod $i $((i + 1)) "$scratch/train"; done
late="waiting for host 'train-0.train.default.svc.cluster.local' .*the name .* is not known: Name or service not known"
check "a name that does not resolve yet: $(tail -n 2 "$dir/err.1")" wait_for grep -q "$late" "$dir/err.1"
pod 0 1 "$scratch/train"
publish 1 2 3 4
ends 0 0 1 2 3
sums
context="user 65532 65532, CapBnd 0000000000000000 NoNewPrivs 1 Seccomp 2 , secret '', writes /tmp, 2 read-only"
check "as the security context has it: $(grep user "$dir/out.0")" grep -q "$context" "$dir/out.0"

# The ranks fail while no name resolves. Pod 2 is evicted: SIGTERM for its first process, which no default action ends.
# Pod 3 is gone, and comes elsewhere.
cat >"$scratch/again" <<END
#!/bin/sh
test "\$TORCHELASTIC_RESTART_COUNT" != 3 || exec "$perf" allreduce -b 64K -e 64K -n 1
echo "runs \$TORCHELASTIC_RESTART_COUNT"
while test "\$TORCHELASTIC_RESTART_COUNT" != 0 || ! test -e "$scratch/fail"; do sleep 0.1; done
exit 1
END
chmod 755 "$scratch/again"
all_run() { test "$(grep -c "runs $1" "$dir/out.0")" = 8; }
for i in 0 1 2 3; do pod $i $((i + 1)) --host-silence 3 "$scratch/again"; done
check "they run: $(tail -n 3 "$dir/err.1")" wait_for all_run 0
publish
touch "$scratch/fail"
check "they run again, without names: $(tail -n 3 "$dir/err.0")" wait_for all_run 1
publish 1 2 3 4
on 3 pkill -TERM -o -x halayrun
wait $pid_2
pod 2 3 --host-silence 3 "$scratch/again"
check "and again: $(tail -n 3 "$dir/err.0")" wait_for all_run 2
sh "$lab_script" kill $lab 4
wait $pid_3
pod 3 5 --host-silence 3 "$scratch/again"
publish 1 2 3 5
ends 0 0 1 2 3
sums

# Pod 0 is gone: the others end, say why, and all are made anew.
for i in 0 1 2; do pod $i $((i + 1)) sh -c 'echo runs 0; exec sleep 1000'; done
pod 3 5 sh -c 'echo runs 0; exec sleep 1000'
check "they run: $(tail -n 3 "$dir/err.1")" wait_for all_run 0
sh "$lab_script" kill $lab 1
wait $pid_0
ends 1 1 2 3
for i in 1 2 3; do check "pod $i knows why" grep -q "node 0, 'train-0.train.*', is lost" "$dir/err.$i"; done
for i in 1 2; do pod $i $((i + 1)) "$scratch/train"; done
pod 3 5 "$scratch/train"
pod 0 6 "$scratch/train"
publish 6 2 3 5
ends 0 0 1 2 3
sums

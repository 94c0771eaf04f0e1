#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/setup and tools/jobs on systems that this one is not: without dpkg, without root, behind a proxy, on another
# processor, in control groups with limits. Programs of other systems are played by scripts; nothing is installed.
. "${top_srcdir:?}/tests/build/build.sh"
setup=$top_srcdir/tools/setup
jobs=$top_srcdir/tools/jobs
mkdir "$scratch/bin" "$scratch/base"
for program in sh dirname sed cat mktemp rm env awk nproc pwd; do
    ln -s "$(command -v $program)" "$scratch/base/$program"
done

# play NAME TEXT: a program of the system that is played
play() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}

# expect STATUS COMMAND...: on the system that is played
expect() {
    wanted=$1
    shift
    checks=$((checks + 1))
    status=0
    PATH=$scratch/bin:$scratch/base "$@" >"$scratch/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || wrong "$*: status $status, not $wanted: $(cat "$scratch/out")"
}

says() {
    checks=$((checks + 1))
    grep -q -e "$1" "$scratch/out" || wrong "not said: $1: $(cat "$scratch/out")"
}

says_not() {
    checks=$((checks + 1))
    ! grep -q -e "$1" "$scratch/out" || wrong "said: $1: $(cat "$scratch/out")"
}

play uname 'echo riscv64'
expect 1 "$setup"
says 'x86-64 and aarch64 only, and this machine is riscv64'
play uname 'echo x86_64'
expect 2 "$setup" --everything

# No dpkg: the line for the system's own installer, and configure judges.
play dnf :
expect 0 "$setup"
says 'not found: cc make autoreconf libtoolize pkg-config libsodium jansson yaml-0.1 zlib; '
says 'dnf install gcc .*jansson-devel'
for program in cc make autoreconf libtoolize pkg-config; do play $program :; done
expect 0 "$setup"
[ ! -s "$scratch/out" ] || wrong "not silent when all is there: $(cat "$scratch/out")"
rm "$scratch/bin/dnf"

# Debian, without root.
play dpkg-query 'case "$*" in *libyaml-dev*) echo not-installed ;; *) echo installed ;; esac'
play id 'echo 1000'
expect 0 "$setup"
says 'missing packages: libyaml-dev; to have them, as root: apt-get install libyaml-dev'
# With sudo, which hands down nothing of the environment.
play sudo 'exec env -i PATH="$PATH" "$@"'
play apt-get 'echo "$http_proxy $https_proxy $no_proxy $DEBIAN_FRONTEND $*" >>'"$scratch/calls"
http_proxy=http://a:1 https_proxy=http://b:2 no_proxy=c expect 0 "$setup"
says 'installing libyaml-dev$'
checks=$((checks + 1))
grep -q '^http://a:1 http://b:2 c noninteractive .*install .* libyaml-dev$' "$scratch/calls" ||
    wrong "apt-get was called as: $(cat "$scratch/calls")"
# What can't be installed is said, and configure judges.
play apt-get 'echo no way there; exit 100'
expect 0 "$setup"
says 'no way there'
says 'could not install libyaml-dev$'

# A user's host gets no servers; the gate does.
play dpkg-query 'echo not-installed'
play apt-get :
expect 0 "$setup"
says 'installing gcc .*libsodium-dev'
says_not 'openssh-server\|openmpi'
expect 0 "$setup" --tests
says 'libopenmpi-dev.*python3'
says_not 'openssh-server\|slurm'

# Control groups: version 2 with limits in a group above, version 1, none.
play nproc 'echo 64'
root=$scratch/root
group=$root/sys/fs/cgroup/a/b
mkdir -p "$root/proc/self" "$group" "$root/sys/fs/cgroup/cpu,cpuacct" "$root/sys/fs/cgroup/memory"
echo 'MemAvailable:   99999999 kB' >"$root/proc/meminfo"
# fits NUMBER WHAT
fits() {
    expect 0 env -u JOBS "$jobs" "$root"
    [ "$(cat "$scratch/out")" = "$1" ] || wrong "$2: $(cat "$scratch/out") jobs, not $1"
}
echo '0::/a/b' >"$root/proc/self/cgroup"
fits 64 "no limit"
echo 'max 100000' >"$group/cpu.max"
echo '450000 100000' >"$root/sys/fs/cgroup/a/cpu.max"
fits 4 "a quota above"
echo '50000 100000' >"$group/cpu.max"
fits 1 "half a processor"
rm "$group/cpu.max" "$root/sys/fs/cgroup/a/cpu.max"
echo 4294967296 >"$group/memory.max"
echo 2147483648 >"$group/memory.current"
printf 'anon 1\ninactive_file 536870912\nactive_file 536870912\n' >"$group/memory.stat"
fits 5 "4 GiB, of which 1 is in use and 1 is cached"
rm "$group"/memory.*
echo 'MemAvailable:   1900000 kB' >"$root/proc/meminfo"
fits 3 "little memory"
printf '4:memory:/\n3:cpu,cpuacct:/\n0::/\n' >"$root/proc/self/cgroup"
echo 200000 >"$root/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"
echo 100000 >"$root/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"
fits 2 "version 1's quota"
echo -1 >"$root/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"
echo 9223372036854771712 >"$root/sys/fs/cgroup/memory/memory.limit_in_bytes"
echo 5 >"$root/sys/fs/cgroup/memory/memory.usage_in_bytes"
: >"$root/sys/fs/cgroup/memory/memory.stat"
fits 3 "version 1 without limits"
JOBS=7 expect 0 "$jobs" "$root"
says '^7$'

# An option that a tool lacks: its usage, before anything is done.
for tool in abi completions demo gpu-bundle gpu-check jobs release setup test-report trixie wheel; do
    expect 2 "$top_srcdir/tools/$tool" --everything
    says "^usage: tools/$tool"
done
JOBS=7 expect 0 "$top_srcdir/tools/check" --help
says 'N passed, N failed, N skipped'
build_end

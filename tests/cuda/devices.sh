#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The engine and groups on memory of devices, emulated: one to four devices for one to five ranks, which are threads or
# processes, in each order of what devices do; and what goes wrong. The gate, which limits seeds, takes one, and one and
# three devices.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
tests=$top_builddir/tests/cuda
HALAY_MODULE_PATH=$tests/module/.libs
export HALAY_MODULE_PATH
# orders SEEDS PROGRAM [ARGUMENT...]
orders() {
    seeds=$1
    shift
    [ -z "${TEST_SEEDS-}" ] || seeds=1
    "$top_srcdir/tests/cuda/orders" "$seeds" "$@"
}
for EMU_DEVICES in $([ -n "${TEST_SEEDS-}" ] && echo 1 3 || echo 1 2 3 4); do
    export EMU_DEVICES
    orders 4 "$tests/test_devices"
    orders 2 "$tests/test_devices_groups"
done
for what in mixed context missing die; do
    EMU_DEVICES=2 orders 2 "$tests/test_devices_groups" --spawn 3 $what
done
HALAY_TRANSPORT=tcp EMU_DEVICES=2 orders 1 "$tests/test_devices_groups" --spawn 3 mixed
EMU_DEVICES=2 orders 2 "$tests/test_devices_ends"
EMU_DEVICES=2 orders 2 "$tests/test_devices_leaves"
orders 2 "$tests/test_devices_events"
EMU_DEVICES=2 orders 4 "$tests/test_devices_direct"
EMU_DEVICES=5 orders 4 "$tests/test_devices_direct" # each rank has a device of its own
EMU_DEVICES=3 EMU_PEERS=0 orders 2 "$tests/test_devices_direct"
EMU_DEVICES=2 orders 2 "$tests/test_devices_hosts"
EMU_DEVICES=2 orders 3 "$tests/test_devices_replay"
TEST_HOSTS=2 EMU_DEVICES=2 "$tests/test_devices_replay" # in one order: four ranks
EMU_DEVICES=3 EMU_PEERS=0 orders 1 "$tests/test_devices_replay"
# The host touches what it compares. Seed 2 begins with a gather in which a rank gives no rows.
for seed in $([ -n "${TEST_SEEDS-}" ] && echo 2 || echo 1 2 3 4 5 6); do
    EMU_DEVICES=2 EMU_OFF=host-touch,uninitialised "$top_srcdir/tests/cuda/orders" 1 \
        "$top_builddir/tests/fusion/test_random_steps" --devices --fake $((2 + seed % 3)) --count 8 --seed "$seed"
done
for EMU_DEVICES in 1 2 3; do
    export EMU_DEVICES
    HALAY_DEVICE_SLAB=2K orders 2 "$tests/test_devices_direct" --spawn 3 sums
    orders 3 "$tests/test_devices_direct" --spawn 3 die
done
for what in sums die; do
    HALAY_DEVICE_SLAB=144K HALAY_TRANSPORT=tcp EMU_DEVICES=2 "$tests/test_devices_hosts" --spawn 4 $what
done
# NCCL, for which a library stands in whose sums are made beside copies that have been queued.
nccl() {
    EMU_OFF=early-write LD_LIBRARY_PATH=$tests/module/.libs:${LD_LIBRARY_PATH-} "$@"
}
ln -sf libnccl.so "$tests/module/.libs/libnccl.so.2"
for what in sums die; do
    EMU_DEVICES=3 nccl orders 2 "$tests/test_devices_nccl" --spawn 3 $what
done
EMU_DEVICES=2 EMU_PEERS=0 HALAY_DEVICE_SLAB=0 nccl "$tests/test_devices_nccl" --spawn 2 die
EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 sums # averages, too
TEST_HOSTS=2 HALAY_DEVICE_SLAB=144K EMU_DEVICES=4 nccl "$tests/test_devices_nccl" --spawn 4 sums
TEST_HOSTS=2 EMU_DEVICES=3 nccl "$tests/test_devices_nccl" --spawn 3 die 6 # in a plan
HALAY_DEVICE_ALGORITHM=nccl EMU_DEVICES=3 nccl "$top_builddir/launcher/halayrun" --min-np 2 -np 3 \
    "$tests/test_devices_direct" elastic
[ -n "${TEST_SEEDS-}" ] || # an abort that the ranks do not wait for
    NCCL_SLOW=3 HALAY_DEVICE_ALGORITHM=nccl EMU_DEVICES=3 nccl "$top_builddir/launcher/halayrun" --min-np 2 -np 3 \
        "$tests/test_devices_direct" elastic
EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 unmade
EMU_ORDER=2 NCCL_STUCK=2 EMU_DEVICES=3 nccl "$tests/test_devices_nccl" --spawn 3 frozen
for what in garbage closes; do
    NCCL_LATE=2 EMU_DEVICES=3 nccl "$tests/test_devices_nccl" --spawn 3 $what
done
NCCL_FAILS=3 EMU_DEVICES=3 nccl "$tests/test_devices_nccl" --spawn 3 fails
NCCL_FAILS=2 EMU_DEVICES=2 nccl orders 2 "$tests/test_devices_nccl" --spawn 2 pair
NCCL_NAMELESS=1 EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 refused 'rank 0: ncclGetUniqueId failed'
NCCL_NAMELESS=1 EMU_DEVICES=1 nccl "$tests/test_devices_nccl" --spawn 2 refused 'ranks 0 and 1 share a GPU' # no id made
EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 deterministic
EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 sealed
NCCL_VERSION=21703 EMU_DEVICES=2 nccl "$tests/test_devices_nccl" --spawn 2 refused 'has version 21703'
broken=$(mktemp -d)
: >"$broken/libnccl.so.2"
EMU_DEVICES=2 LD_LIBRARY_PATH=$broken "$tests/test_devices_nccl" --spawn 2 refused 'rank 0: cannot load NCCL'
rm -r "$broken"
EMU_DEVICES=2 EMU_PEERS=0 "$top_srcdir/tests/cuda/orders" 1 "$tests/test_devices_direct" --spawn 2 sums
EMU_DEVICES=2 "$top_builddir/launcher/halayrun" --min-np 2 -np 3 "$tests/test_devices_direct" elastic
for transport in shm ucx; do
    [ $transport = shm ] || [ -f "$top_builddir/.libs/libhalay-$transport.so" ] || continue
    ln -sf "$top_builddir/.libs/libhalay-$transport.so" "$tests/module/.libs/" # beside the module of the emulation
    HALAY_TRANSPORT=$transport EMU_DEVICES=2 "$top_srcdir/tests/cuda/orders" 1 "$tests/test_devices" --spawn 3 mixed
done
[ ! -f "$top_builddir/.libs/libhalay-ucx.so" ] ||
    HALAY_DEVICE_SLAB=144K HALAY_TRANSPORT=ucx EMU_DEVICES=2 "$tests/test_devices_hosts" --spawn 4 sums
EMU_DEVICES=2 orders 3 "$tests/test_devices" --spawn 3 die
# Two nodes of two ranks.
[ ! -f "$top_builddir/.libs/libhalay-ucx.so" ] || EMU_DEVICES=2 "$top_srcdir/tests/cuda/orders" 1 \
    "$top_builddir/launcher/halayrun" -np 4 sh -c 'HALAY_NODE=$((HALAY_RANK / 2)) exec "$0" mixed' "$tests/test_devices"
EMU_DEVICES=2 "$top_builddir/launcher/halayrun" --min-np 2 -np 3 "$tests/test_devices" elastic

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What rattler-build runs: the installation below $PREFIX, and the Python package, which finds libhalay in halay/lib.
set -eu
mkdir build && cd build
../configure --prefix="$PREFIX" --without-mpi --without-mpich --without-onednn --without-blas --without-simgrid
make -j"$CPU_COUNT" install
cp -r ../python/halay "$SP_DIR/"
mkdir -p "$SP_DIR/halay/lib"
ln -sr "$PREFIX/lib/libhalay.so.1" "$SP_DIR/halay/lib/libhalay.so.1"
info=$SP_DIR/halay-$PKG_VERSION.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: halay\nVersion: %s\n' "$PKG_VERSION" >"$info/METADATA"
printf '[torch.distributed.backends]\nhalay = halay.distributed:register\n' >"$info/entry_points.txt"
printf 'conda\n' >"$info/INSTALLER"
